"""Odd values, ids and numbers through the store and the saver: kept, or a ValueError."""

from __future__ import annotations

import asyncio
import logging
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from odd_values import IDS, VALUES, assert_kept_or_refused

import memdb
from memdb.integrations.langgraph import MemdbSaver, MemdbStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT_S = 30
SHORT_MINUTES = 0.0002


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemdbStore]:
    """Return an empty store."""
    with MemdbStore(tmp_path / "a.db", durability="process", embedder=None) as opened:
        yield opened


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[MemdbSaver]:
    """Return a saver with a checkpoint of a run."""
    with MemdbSaver(tmp_path / "a.db", durability="process", embedder=None) as opened:
        opened.put(of("t"), empty_checkpoint(), {"run_id": "r1"}, {})
        yield opened


def of(thread: Any, **more: Any) -> Any:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_is_stored_or_refused(store: MemdbStore, name: str) -> None:
    """A filter with it is answered too, or refused."""
    assert_kept_or_refused(
        name,
        lambda value: store.put(("n",), "k", {"v": value}),
        lambda: [one.value for one in store.search(("n",))],
        ValueError,
        restored=lambda found: found[0]["v"],
    )
    try:
        found = store.search(("n",), filter={"v": VALUES[name]()})
    except memdb.InvalidInput:
        return
    assert len(found) <= 1


@pytest.mark.parametrize("name", VALUES)
def test_odd_metadata_of_a_checkpoint_is_stored_or_refused(saver: MemdbSaver, name: str) -> None:
    """The thread can be listed afterwards, also by that value."""
    bad: Any = {"v": VALUES[name]()}
    assert_kept_or_refused(
        name,
        lambda _: saver.put(of("m"), empty_checkpoint(), bad, {}),
        lambda: [one.metadata for one in saver.list(of("m"))],
        memdb.InvalidInput,
    )
    assert len([*saver.list(None, filter={"v": VALUES[name]()})]) <= 1


@pytest.mark.parametrize("name", IDS)
def test_odd_ids_are_refused_or_absent(saver: MemdbSaver, name: str) -> None:
    """Those of a checkpoint, a thread and a run; nothing else is hit."""
    odd = IDS[name]
    calls: list[Callable[[], object]] = [
        lambda: saver.get_tuple(of("t", checkpoint_id=odd)),
        lambda: [*saver.list(of("t"), before=of("t", checkpoint_id=odd))],
        lambda: saver.get_tuple(of(odd)),
        lambda: saver.delete_thread(odd),
        lambda: saver.delete_for_runs([odd]),
        lambda: saver.prune([odd]),
        lambda: saver.prune([odd], strategy="delete"),
        lambda: saver.copy_thread(odd, "copy"),
    ]
    for call in calls:
        try:
            call()
        except memdb.InvalidInput:
            continue
    assert len([*saver.list(of("t"))]) == 1
    assert len([*saver.list(None)]) == 1


@pytest.mark.parametrize("given", ["r1", "t", b"t", 5, None])
def test_one_text_is_no_list_of_ids(saver: MemdbSaver, given: Any) -> None:
    """Its letters are no ids."""
    for call in (saver.delete_for_runs, saver.prune):
        with pytest.raises(memdb.InvalidInput, match="give a list"):
            call(given)
    assert len([*saver.list(None)]) == 1


def test_a_run_id_that_is_no_text_is_passed_over(saver: MemdbSaver) -> None:
    """A list in metadata is the id of no run."""
    saver.put(of("u"), empty_checkpoint(), {"run_id": ["r1"]}, {})
    saver.delete_for_runs(["r1"])
    assert [one.config["configurable"]["thread_id"] for one in saver.list(None)] == ["u"]


def test_listings_take_any_number(store: MemdbStore, saver: MemdbSaver) -> None:
    """A negative limit gives nothing; an empty config lists every thread."""
    store.put(("n",), "k", {})
    assert store.list_namespaces(limit=-1) == store.list_namespaces(limit=0) == []
    assert store.list_namespaces(offset=-1) == [("n",)]
    assert [*saver.list(of("t"), limit=-1)] == [*saver.list(of("t"), limit=0)] == []
    assert len([*saver.list({})]) == 1
    empty: Any = {}
    with pytest.raises(memdb.InvalidInput, match="thread_id"):
        saver.get_tuple(empty)
    odd: Any
    for odd in ("x", None, 1.5, [1], True):
        with pytest.raises(memdb.InvalidInput):
            store.search(("n",), limit=odd)
        with pytest.raises(memdb.InvalidInput):
            store.list_namespaces(offset=odd)
    for odd in ("x" * 1_000, b"1", {}):
        with pytest.raises(memdb.InvalidInput, match=r"^ttl is .{1,20}: give minutes$"):
            store.put(("n",), "k", {}, ttl=odd)
        with pytest.raises(memdb.InvalidInput):
            [*saver.list(of("t"), limit=odd)]


@pytest.mark.parametrize("made", [[], [[1.0]], [[1.0, 0.0]] * 3])
def test_an_embedder_that_gives_other_vectors_is_refused(
    tmp_path: Path, made: list[list[float]]
) -> None:
    """Another number of them, or of their components; nothing is written."""

    def embed(texts: list[str]) -> list[list[float]]:
        return made if texts[0] == "x" else [[1.0, 0.0]] * len(texts)

    index: Any = {"dims": 2, "embed": embed, "fields": ["text"]}
    with MemdbStore(tmp_path / "a.db", index=index, embedder=None) as store:
        with pytest.raises(ValueError, match="embed returned"):
            store.put(("n",), "k", {"text": "x"})
        with pytest.raises(ValueError, match="embed returned"):
            asyncio.run(store.aput(("n",), "k", {"text": "x"}))
        assert store.search(("n",)) == []
        store.put(("n",), "k", {"text": "y"})
        assert len(store.search(("n",), query="z")) == 1


class Heard(logging.Handler):
    """Notes that something was logged."""

    def __init__(self) -> None:
        """Have heard nothing."""
        super().__init__()
        self.event = Event()

    def emit(self, _: logging.LogRecord) -> None:
        """Note it."""
        self.event.set()


def test_the_sweeper_goes_on_after_an_error(tmp_path: Path) -> None:
    """It fails, and logs it, while another process writes; then it removes what has expired."""
    path, heard = tmp_path / "a.db", Heard()
    logger = logging.getLogger("memdb.integrations.langgraph.store")
    logger.addHandler(heard)
    try:
        with (
            MemdbStore(path, ttl={}, embedder=None, busy_timeout_s=0.01) as store,
            memdb.open(path, embedder=None) as other,
        ):
            store.put(("n",), "k", {}, ttl=1e-6)
            with other.transaction():
                other.scope("x").items.put((), "k", 1)
                done = store.start_ttl_sweeper(SHORT_MINUTES)
                assert heard.event.wait(WAIT_S)
            left = Event()
            for _ in range(WAIT_S * 100):
                if not [*other.query("SELECT id FROM items WHERE expires_ms IS NOT NULL")]:
                    break
                left.wait(0.01)
            else:
                pytest.fail("the sweeper removed nothing")
            assert not done.done()
    finally:
        logger.removeHandler(heard)
    assert done.done()


def test_a_sweeper_that_was_cancelled_is_followed_by_another(tmp_path: Path) -> None:
    """While one runs, a start returns the same; each ends at the latest with the store."""
    with MemdbStore(tmp_path / "a.db", ttl={}, embedder=None) as store:
        first = store.start_ttl_sweeper(10)
        assert store.start_ttl_sweeper(10) is first
        assert first.cancel()
        second = store.start_ttl_sweeper(10)
        assert second is not first
        assert store.stop_ttl_sweeper(WAIT_S)
        assert second.result(WAIT_S) is None
        third = store.start_ttl_sweeper(10)
    assert third.result(WAIT_S) is None
    for closed in (store, MemdbStore(tmp_path / "a.db", embedder=None)):
        closed.close()
        with pytest.raises(memdb.Closed):
            closed.start_ttl_sweeper()


def test_a_closed_file_answers_closed(tmp_path: Path) -> None:
    """Also where nothing would have been read, and where the file is shared."""
    db = memdb.open(tmp_path / "a.db", embedder=None)
    store, saver = MemdbStore(db), MemdbSaver(db)
    saver.put(of("t"), empty_checkpoint(), {}, {})
    saver.get_tuple(of("t"))
    db.close()
    calls: list[Callable[[], object]] = [
        lambda: store.batch([]),
        lambda: asyncio.run(store.abatch([])),
        lambda: store.search(("n",), limit=0),
        lambda: saver.get_tuple(of("t")),
        lambda: [*saver.list(None, limit=0)],
    ]
    for call in calls:
        with pytest.raises(memdb.Closed):
            call()
