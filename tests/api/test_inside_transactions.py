"""What cannot happen inside a transaction says so in the same words, in memory and in a file."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

import memdb
import memdb.aio
from memdb.rescue.proof import new_probes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB

COPY = "copy.db"

# What cannot be undone, what would not see the transaction, and what waits for a model or thread.
REFUSED: dict[str, Callable[[MemDB], object]] = {
    "backup": lambda db: db.file.backup(COPY),
    "backup in its place": lambda db: db.file.backup(COPY, replace=True),
    "vacuum": lambda db: db.file.vacuum(),
    "query": lambda db: db.query("SELECT 1"),
    "forget": lambda db: db.scope("ann").forget(query="tea"),
    "forget and prove": lambda db: db.scope("ann").forget(query="tea", prove=True),
    "forget without doing it": lambda db: db.scope("ann").forget(query="tea", dry_run=True),
    "forget a session": lambda db: db.scope("ann").session("trip").forget(),
    "extract": lambda db: db.scope("ann").session("trip").extract(),
    "compact": lambda db: db.scope("ann").session("trip").summaries.compact(),
    "compact for a model": lambda db: (
        db.scope("ann").session("trip").tools().call("memory_compact")
    ),
    "jobs.run": lambda db: db.jobs.run(),
    "jobs.run of what is due": lambda db: db.jobs.run(due=True),
    "jobs.start": lambda db: db.jobs.start(),
    "stop": lambda db: db.jobs.start(0.01).stop(),
    "checkpoint": lambda db: db._db.checkpoint(),
    "purge": lambda db: new_probes(db._db).purge(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_transaction_goes_on(
    db: MemDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing is left beside the file; what the transaction wrote is committed."""
    monkeypatch.chdir(tmp_path)
    chat = db.scope("ann").session("trip")
    chat.append("user", "green tea")
    worker = db.jobs.start(0.01) if name == "stop" else None
    before = sorted(os.listdir())

    with db.transaction():
        chat.append("user", "inside")
        with db.transaction(), pytest.raises(memdb.InvalidInput, match=r" inside a transaction: "):
            (worker.stop if worker else lambda: REFUSED[name](db))()

    assert sorted(os.listdir()) == before
    assert [message.text for message in chat.messages()] == ["green tea", "inside"]
    if worker is not None:
        worker.stop()
    elif name != "jobs.start":
        with contextlib.suppress(memdb.MemDBError):
            REFUSED[name](db)  # it may lack a model, but it is outside now


def test_another_thread_may_call_it_meanwhile(file_db: MemDB, tmp_path: Path) -> None:
    """The transaction of one thread is none of another; a copy has what was committed."""
    chat = file_db.scope("ann").session("trip")
    chat.append("user", "before")
    counts: list[Any] = []
    with file_db.transaction():
        chat.append("user", "inside")
        thread = threading.Thread(
            target=lambda: counts.extend(file_db.query("SELECT count(*) FROM messages").rows)
        )
        thread.start()
        thread.join(60)
    assert counts == [(1,)]

    file_db.file.backup(tmp_path / COPY)

    with memdb.open(tmp_path / COPY, mode="read", embedder=None) as copy:
        assert copy.scope("ann").session("trip").last_seq == 2


async def try_all(path: str) -> list[str]:
    """Return the calls that are answered inside a transaction, in a thread of the file."""
    answered = []
    async with memdb.aio.open(path, embedder=None, counter="estimate") as db:
        await db.scope("ann").session("trip").append("user", "green tea")
        for name, act in REFUSED.items():
            if name == "stop":
                continue

            def work(sync: MemDB, act: Callable[[MemDB], object] = act) -> None:
                with sync.transaction():
                    act(sync)

            for kind in ("write", "ask"):
                with contextlib.suppress(memdb.InvalidInput):
                    await db.run(work, kind=kind)
                    answered.append(name)
        assert await db.file.backup(f"{path}.copy") > 0
    return answered


def test_the_asynchronous_file_refuses_the_same(path: str) -> None:
    """In whatever thread of it; its own calls are outside."""
    import asyncio

    assert asyncio.run(try_all(path)) == []
