"""No public call runs code of the host while a write transaction of its own is open."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import memdb
import memdb.aio
from memdb import MemDBError, Verdict

from .test_screened_writes import TEXTS
from .writes import POLICY, WRITES, Summarizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# The caller holds a transaction open himself, or writes in a second thread meanwhile.
LEFT_OUT = {"write together", "set state", "put state at a version", "work in a thread"}


def _is_locked(path: str) -> bool:
    """Return whether anybody is writing, in whatever thread."""
    other = apsw.Connection(path)
    try:
        other.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return True
    finally:
        other.close()
    return False


class HostCode:
    """Every port of a host: each notes its name where it is called inside a transaction."""

    name, dim, quality = "host", 8, "model"

    def __init__(self) -> None:
        """Note nothing until `is_inside` tells whether a transaction is open."""
        self.is_inside: Callable[[], bool] = bool
        self.inside: set[str] = set()
        self.called: set[str] = set()

    def _note(self, port: str) -> None:
        self.called.add(port)
        if self.is_inside():
            self.inside.add(port)

    def detect(self, _text: str) -> list[Any]:
        """Find no secret."""
        self._note("detector")
        return []

    def count(self, text: str) -> int:
        """Return about the number of words."""
        self._note("counter")
        return len(text) // 4

    def count_many(self, texts: list[str]) -> list[int]:
        """Return the count of each text."""
        return [self.count(one) for one in texts]

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return the same vector for each text."""
        self._note("embedder")
        return [[1.0] * 8 for _ in texts]

    def summarize(self, *given: Any, **named: Any) -> Any:
        """Return a short text."""
        self._note("summarizer")
        return Summarizer().summarize(*given, **named)

    def decide(self, _new: Any, _stored: Any) -> Verdict:
        """Add whatever it is."""
        self._note("arbiter")
        return Verdict("add")

    def rerank(self, _query: str, texts: list[str]) -> list[float]:
        """Find each text as good."""
        self._note("reranker")
        return [0.5 for _ in texts]

    def edit(self, found: list[Any], _messages: Any) -> list[Any]:
        """Return the facts as they were found."""
        self._note("edit_candidates")
        return found

    def render(self, messages: Any) -> str:
        """Return the words of some messages."""
        self._note("render_messages")
        return "\n".join(one.text for one in messages)

    def complete(self, *_given: Any, **_named: Any) -> str:
        """Find no fact."""
        self._note("model")
        return "[]"

    def see(self, _event: Any) -> None:
        """Look at an event."""
        self._note("event")


@pytest.fixture
def host() -> HostCode:
    """Return the ports of a host."""
    return HostCode()


@pytest.fixture
def opened(open_db: Any, host: HostCode, small_steps: None) -> Callable[[Path], Any]:
    """Return a function that opens a file with all of the host's ports."""

    def make(path: Path) -> Any:
        rules = {"secrets_in_messages": "redact", "secrets_in_entries": "redact"}
        return open_db(
            str(path),
            embedder=host,
            counter=host,
            summarizer=host,
            arbiter=host,
            secret_detector=host.detect,
            reranker=host.rerank,
            edit_candidates=host.edit,
            render_messages=host.render,
            model=host,
            on_event=host.see,
            settings=POLICY.replace(**rules),
        )

    return make


@pytest.mark.parametrize("name", sorted(WRITES.keys() - LEFT_OUT))
def test_a_write_calls_the_host_before_its_transaction(
    tmp_path: Path, prepared_database: Any, opened: Any, host: HostCode, name: str
) -> None:
    """Whoever waits for the file never waits for a model or a server of the host."""
    prepared_database.put(tmp_path / "a.db")
    db = opened(tmp_path / "a.db")
    WRITES[name].arrange(db)
    host.is_inside = lambda: _is_locked(db.path)

    WRITES[name].act(db)

    assert host.inside == set()


@pytest.mark.parametrize(
    "name", [name for name, (covers, _) in TEXTS.items() if covers != "Entries.update"]
)
def test_a_first_write_calls_the_host_before_its_transaction(
    tmp_path: Path, opened: Any, host: HostCode, name: str
) -> None:
    """Also one that makes the scope and the session, whose names are screened."""
    db = opened(tmp_path / "a.db")
    host.is_inside = lambda: _is_locked(db.path)

    with contextlib.suppress(MemDBError):  # some need what is not there
        TEXTS[name][1](db)

    assert host.inside == set()
    assert "detector" in host.called


def test_a_coroutine_calls_the_host_before_its_transaction(tmp_path: Path, host: HostCode) -> None:
    """Also where several of them share one transaction."""

    async def write() -> None:
        async with await memdb.aio.open(
            tmp_path / "a.db",
            embedder=None,
            counter="estimate",
            secret_detector=host.detect,
            settings={"secrets_in_messages": "redact"},
        ) as db:
            host.is_inside = lambda: db._sync._db.writing
            for act in (
                lambda ann: ann.session("new").append("user", "hi"),
                lambda ann: ann.remember("Ann likes tea."),
                lambda ann: ann.items.put(("n",), "k", 1),
                lambda ann: ann.artifacts.save("a.md", "x"),
                lambda ann: ann.state.update(a=1),
            ):
                await asyncio.gather(*(act(db.user(f"{id(act)} {n}")) for n in range(4)))

    asyncio.run(write())

    assert host.inside == set()
    assert host.called == {"detector"}
