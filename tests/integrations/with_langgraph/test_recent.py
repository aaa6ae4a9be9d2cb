"""What a saver keeps of its latest checkpoints is what the file has, whoever writes meanwhile."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from memdb.integrations.langgraph import MemdbSaver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THREADS = ("t", "u")


def config(thread: str, checkpoint_id: str | None = None) -> Any:
    found = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": found | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def put(saver: MemdbSaver, thread: str, number: int, parent: str | None = None) -> None:
    big = "ab" * 5_000 if number % 3 == 0 else "ab"
    made = {
        **empty_checkpoint(),
        "id": f"id{number:03}",
        "channel_values": {"n": number, "big": big},
    }
    made["channel_versions"] = {"n": str(number), "big": "1"}
    saver.put(config(thread, parent), made, {"step": number}, {"n": str(number)})  # type: ignore[arg-type, typeddict-item]  # few of the fields


def write(saver: MemdbSaver, thread: str, number: int, task: str, value: float) -> None:
    channel = "a" if value < 0.5 else "__error__"
    saver.put_writes(config(thread, f"id{number:03}"), [(channel, value)], task)


class Undone(Exception):
    """Rolls a transaction back."""


class Life:
    """Calls in a random order, by any saver."""

    def __init__(self, seed: int) -> None:
        """Draw from *seed*."""
        self._draw = random.Random(seed)
        self.last = dict.fromkeys(THREADS, 100)

    def act(self, one: MemdbSaver, kind: str) -> None:
        """Call *one*: any kind but "undo", which makes two calls and undoes half of them."""
        draw, thread = self._draw, self._draw.choice(THREADS)
        newest = self.last[thread]
        number = max(newest + draw.choice((-1, 0, 1, 1, 1, 2)), 1)
        if kind == "put":
            self.last[thread] = max(newest, number)
            put(one, thread, number, f"id{newest:03}")
        elif kind == "write":
            write(one, thread, number, draw.choice(("task", "other")), draw.random())
        elif kind == "get":
            one.get_tuple(config(thread))
        elif kind == "clear":
            draw.choice((one.delete_thread, lambda name: one.prune([name])))(thread)
        elif kind == "item":
            one._db.scope("ann").items.put(("x",), "k", 1)
        else:
            with suppress(Undone), one._db.transaction():
                for inner in draw.choices(("put", "write", "get"), k=2):
                    self.act(one, inner)
                if draw.random() < 0.5:
                    raise Undone


KINDS = {"put": 18, "write": 18, "get": 6, "item": 1, "undo": 1, "clear": 1}


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_calls(tmp_path: Path, seed: int) -> None:
    """A saver answers as a new one does, after puts and writes in any order and by anybody."""
    draw, life = random.Random(seed), Life(seed)
    path = tmp_path / "a.db"
    with MemdbSaver(path, embedder=None) as saver, MemdbSaver(path, embedder=None) as other:
        beside = MemdbSaver(saver._db)
        for kind in draw.choices([*KINDS], [*KINDS.values()], k=60):
            life.act(draw.choice((saver, saver, saver, saver, beside, other)), kind)
            fresh = MemdbSaver(other._db)
            for thread in THREADS:
                for checkpoint_id in (None, f"id{life.last[thread]:03}"):
                    asked = config(thread, checkpoint_id)
                    assert saver.get_tuple(asked) == fresh.get_tuple(asked)
        assert saver._db.file.check() == []


def test_writes_of_many_threads(tmp_path: Path) -> None:
    """As a graph makes them whose nodes run at once: none is missing from what is kept."""
    with MemdbSaver(tmp_path / "a.db", embedder=None) as saver, ThreadPoolExecutor(4) as pool:
        for number in range(1, 30):
            put(saver, "t", number)
            assert saver.get_tuple(config("t")) is not None
            tasks = [pool.submit(write, saver, "t", number, f"task{at % 3}", at) for at in range(6)]
            for one in tasks:
                one.result()
            fresh = MemdbSaver(saver._db)
            assert saver.get_tuple(config("t")) == fresh.get_tuple(config("t"))


def test_a_caller_may_change_what_it_got(tmp_path: Path) -> None:
    """Values and metadata of an answer are the caller's, also deep inside."""
    with MemdbSaver(tmp_path / "a.db", embedder=None) as saver:
        saver.get_tuple(config("t"))
        made = {**empty_checkpoint(), "id": "id1", "channel_values": {"list": [1]}}
        saver.put(config("t"), made, {"parents": {"": "0"}}, {})
        for _ in range(3):
            found = saver.get_tuple(config("t"))
            assert found is not None
            assert found.metadata["parents"] == {"": "0"}
            assert found.checkpoint["channel_values"] == {"list": [1]}
            found.metadata["parents"]["x"] = "1"
            found.checkpoint["channel_values"]["list"].append(2)


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Return the list of all statements of connections that are opened from now on."""
    run: list[str] = []

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: run.append(event["sql"]))

    apsw.connection_hooks.append(watch)
    yield run
    apsw.connection_hooks.remove(watch)


def test_a_graph_that_goes_on_reads_nothing(tmp_path: Path, statements: list[str]) -> None:
    """The checkpoints and writes of a process are not read again by it."""
    with MemdbSaver(tmp_path / "a.db", embedder=None) as saver:
        saver.get_tuple(config("t"))
        statements.clear()
        for number in range(1, 4):
            put(saver, "t", number, f"id{number - 1:03}" if number > 1 else None)
            write(saver, "t", number, "task", number)
            found = saver.get_tuple(config("t"))
            assert found is not None
            assert len(found.pending_writes or ()) == 1
        assert not [sql for sql in statements if "items.by_key" in sql]
