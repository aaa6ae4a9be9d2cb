"""
What a type checker sees of the public API; checked by mypy and pyright, never run.

`make types` fails where a name is gone, an argument has another type, or a
result is `Any`. A wrong call is marked: the mark is an error if the call passes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import assert_type

import memdb


class Axes:
    """An embedder of a host: any class with these names."""

    name = "axes"
    dim = 2

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float] | None]:
        """Return one vector for each text, None for a text without one."""
        return [[1.0, 0.0] if text else None for text in texts]


class Words:
    """A token counter of a host."""

    name = "words"

    def count(self, text: str) -> int:
        """Return the tokens of *text*."""
        return len(text.split())

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text."""
        return [self.count(text) for text in texts]


def opening(path: Path) -> None:
    """A file is a context manager; ports are protocols."""
    embedder: memdb.Embedder = Axes()
    counter: memdb.TokenCounter = Words()
    with memdb.open(path, embedder=embedder, counter=counter, durability="process") as db:
        assert_type(db, memdb.MemDB)
        assert_type(db.scope("ann"), memdb.Scope)
        assert_type(db.scope("ann", app="desk"), memdb.Scope)
        assert_type(db.scopes(), list[memdb.Scope])
        assert_type(db.path, str)
        with db.transaction():
            db.scope("ann").session("trip").append("user", "Hello.")
    memdb.open(path, embeder=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    memdb.open(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def file_and_jobs(db: memdb.MemDB) -> None:
    """The care of the file and background work have a namespace each."""
    assert_type(db.file.check(deep=True), list[memdb.Finding])
    assert_type(db.file.info(), memdb.FileInfo)
    assert_type(db.file.info().spaces, tuple[memdb.SpaceInfo, ...])
    assert_type(db.file.backup("copy.db"), int)
    assert_type(db.jobs.run(), int)
    assert_type(db.jobs.start(), memdb.Worker)
    assert_type(db.import_file("chat.jsonl", user="ann"), memdb.ImportReport)


def conversations(ann: memdb.Scope) -> None:
    """Sessions give messages."""
    trip = ann.session("trip")
    assert_type(trip, memdb.Session)
    assert_type(trip.append("user", "We fly to Oslo.", expected=0), memdb.Message)
    assert_type(trip.extend([{"role": "user", "text": "Hi."}]), list[memdb.Message])
    assert_type(trip.extend([memdb.NewMessage(role="user", text="Hi.")]), list[memdb.Message])
    assert_type(trip.last(10), list[memdb.Message])
    assert_type(trip.get(1), memdb.Message)
    assert_type(trip.find("id"), memdb.Message | None)
    assert_type(trip.messages(), memdb.Page[memdb.Message])
    assert_type(ann.sessions(), memdb.Page[memdb.SessionInfo])
    for message in trip.messages():
        assert_type(message.text, str)
        assert_type(message.seq, int)
        assert_type(message.author, str | None)
        message.text = ""  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    trip.append(user="Hi.")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def contexts(trip: memdb.Session) -> None:
    """A context says what it is made of."""
    window = trip.context(4000, query="book dinner")
    assert_type(window, memdb.ContextWindow)
    assert_type(window.tokens, int)
    assert_type([piece.kind for piece in window.pieces], list[str])
    assert_type(trip.summaries.tree(), memdb.SummaryTree)
    assert_type(trip.summaries.expand("id"), memdb.Expansion)
    assert_type(trip.summaries.compact(), memdb.Compacted)
    assert_type(trip.archive(), memdb.Archived)


def entries(ann: memdb.Scope) -> None:
    """Remembering says what it did."""
    done = ann.remember("Ann prefers window seats.", key="chair", importance=8, expires="30d")
    assert_type(done, memdb.Remembered)
    assert_type(done.entry, memdb.Entry)
    assert_type(ann.entries.get(1), memdb.Entry)
    assert_type(ann.entries.find("chair"), memdb.Entry | None)
    assert_type(ann.entries.list(as_of=datetime.now(UTC)), memdb.Page[memdb.Entry])
    assert_type(ann.entries.history(1), list[memdb.EntryVersion])
    assert_type(ann.entries.update(1, text="Ann prefers the aisle."), memdb.Entry)
    ann.entries.update(1, txt="")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ann.remember("x", "events")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def recall(ann: memdb.Scope) -> None:
    """Hits are a sequence with facts about the answer."""
    hits = ann.recall("what must Ann not eat?", limit=5, since=datetime.now(UTC))
    assert_type(hits, memdb.Hits)
    assert_type(ann.recall("Oslo", by="words", kinds=["summary"]), memdb.Hits)
    assert_type(ann.session("trip").recall("Oslo"), memdb.Hits)
    for hit in hits:
        assert_type(hit, memdb.Hit)
        assert_type(hit.text, str)
        assert_type(hit.score, float)
        assert_type(hit.rank, int)


def artifacts(trip: memdb.Session) -> None:
    """Artifacts are bytes with versions."""
    assert_type(trip.artifacts.save("menu.md", "soup"), memdb.ArtifactVersion)
    assert_type(trip.artifacts.save("menu.md", io.BytesIO(b"soup")), memdb.ArtifactVersion)
    assert_type(trip.artifacts.load("menu.md").data, bytes)
    assert_type(trip.artifacts.versions("menu.md"), list[memdb.ArtifactVersion])


def removal(ann: memdb.Scope) -> None:
    """What was removed is a receipt."""
    assert_type(ann.delete(session="trip", seqs=[1, 2]), memdb.Receipt)
    assert_type(ann.session("trip").delete(last=1), memdb.Receipt)
    receipt = ann.forget(query="peanuts", prove=True)
    assert_type(receipt, memdb.Receipt)
    assert_type(receipt.proof, memdb.Proof | None)


def errors(ann: memdb.Scope) -> None:
    """Facts of an error are attributes."""
    try:
        ann.session("trip").append("user", "Hello.", expected=3)
    except memdb.VersionConflict as error:
        assert_type(error.exit_code, int)
        assert_type(error.retryable, bool)
    except memdb.MemDBError as error:
        assert_type(error.code, str)
