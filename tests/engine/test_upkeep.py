"""The thread that merges the index and moves the WAL: at work, at rest, and in the way of nobody."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.engine.sqlite import upkeep
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.text.terms import Term

TEA = Term(("tea",))

# Ends while its thread is at work, without closing the file.
LEAVE = """
import sys, memdb
from memdb.engine.sqlite import upkeep
upkeep.STEP_S = 0
db = memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process")
chat = db.scope("ann").session("s")
for n in range(int(sys.argv[2])):
    chat.append("user", f"tea {n}")
"""


def append(db: MemDB, count: int, session: str = "s") -> None:
    """Append messages one by one."""
    chat = db.scope("ann").session(session)
    for n in range(count):
        chat.append("user", f"tea {n} of {n % 7} leaves")


def segments(db: MemDB) -> int:
    """Return of how many parts the index of messages consists."""
    with db._db.read() as tx:
        row = tx.one("SELECT count(DISTINCT segid) FROM messages_fts_idx")
    return int(row[0]) if row else 0


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait for the thread."""
    end = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.01)


def kept(db: MemDB) -> upkeep.Upkeep:
    """Return the upkeep of an open file, which begins with a write; a later one would disturb it."""
    if db._db.upkeep is None:
        with db._db.write():
            pass
    assert db._db.upkeep is not None
    return db._db.upkeep


def found(db: MemDB) -> int:
    """Return how many messages say tea."""
    with db._db.read() as tx:
        return len(tx.words.postings("message", [TEA], 0, 1 << 62)[TEA])


def test_parts_are_merged_while_nobody_writes(path: str, open_db: Callable[..., MemDB]) -> None:
    """A new part is not worth a merge; the thread ends when the file has been idle."""
    db = open_db(path)
    append(db, 64 * 12)
    wait_until(lambda: not kept(db)._is_due())

    assert segments(db) < 6
    append(db, 64)
    assert not kept(db)._is_due()
    wait_until(lambda: not kept(db).is_running)
    assert found(db) == 64 * 13
    assert db.file.check(deep=True) == []


def test_no_write_merges_before_many_parts(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the thread, as long as somebody writes."""
    monkeypatch.setattr(upkeep, "STEP_S", 60.0)
    db = open_db(path)
    append(db, 64 * 20)
    before = segments(db)
    kept(db).stop()

    assert before == 20
    assert found(db) == 64 * 20


def test_parts_are_merged_between_writes_too(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes without a pause lets the thread go between two writes."""
    monkeypatch.setattr(upkeep, "STEP_S", 0.0005)
    monkeypatch.setattr(upkeep, "PARTS", 8)
    monkeypatch.setattr(upkeep, "MANY_PARTS", 9)
    db = open_db(path)
    chat = db.scope("ann").session("s")
    for at in range(60):
        chat.extend([{"role": "user", "text": f"tea {at} {n}"} for n in range(64)])
    busy = segments(db)

    assert busy < 40
    assert found(db) == 60 * 64
    assert db.file.check(deep=True) == []


def test_without_a_thread_fts5_and_sqlite_do_it(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the write that comes when it was left for long."""

    def refuse(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(upkeep.Thread, "start", refuse)
    db = open_db(path)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 15)
    chat = db.scope("ann").session("s")
    for at in range(70):
        chat.extend([{"role": "user", "text": f"tea {at} {n}"} for n in range(64)])

    assert segments(db) < 64
    assert kept(db).wal_pages < 200
    assert not kept(db).is_running
    assert found(db) == 70 * 64


def test_the_wal_is_moved_and_begins_anew(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pause too; it does not grow with what is written."""
    db = open_db(path)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 50)
    kept(db)._wal_due = 50
    largest = 0
    for _ in range(15):
        append(db, 20)
        wait_until(lambda: not kept(db).is_running or not kept(db).wal_pages >= 50)
        largest = max(largest, os.stat(f"{path}-wal").st_size)

    assert largest < 400 * 4120
    assert db.file.check(deep=True) == []


def test_a_reader_keeps_the_wal_from_beginning_anew_and_nothing_else(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes and the thread go on, and it does not try at each commit."""
    db = open_db(path)
    append(db, 1)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 20)
    kept(db)._wal_due = 20
    tries = []
    apart = db._db.apart

    def count() -> Any:
        tries.append(1)
        return apart()

    db._db.apart = count
    reader = open_db(path)
    with reader._db.read() as tx:
        tx.one("SELECT count(*) FROM messages")
        append(db, 60)
        wait_until(lambda: not kept(db)._is_due())
    assert 1 <= len(tries) < 20
    assert found(db) == 61


def test_one_process_moves_the_wal(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that finds a WAL which began anew, or another at work, keeps no writer waiting."""
    db, other = open_db(path), open_db(path)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 1 << 20)
    kept(db)._wal_due = 1 << 20
    append(db, 1)
    wait_until(lambda: not kept(db)._passive_at)  # which moves the WAL too
    append(db, 59)
    asked = []
    write_briefly = db._db.write_briefly

    def ask() -> Any:
        asked.append(1)
        return write_briefly()

    monkeypatch.setattr(db._db, "write_briefly", ask)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 20)

    with monkeypatch.context() as at_work:
        busy = "SELECT 1, -1, -1"  # what SQLite answers then
        at_work.setattr(upkeep, "CHECKPOINT_PASSIVE", busy)
        kept(db)._checkpoint_long(db._db)
    assert asked == []
    kept(db)._checkpoint_long(db._db)
    assert asked == [1]
    append(other, 1)
    kept(db)._checkpoint_long(db._db)
    assert asked == [1]
    assert found(db) == 61


def test_closing_waits_for_the_step(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is whole then, without a WAL, whatever the thread was doing."""
    for number in range(12):
        db = open_db(path)
        monkeypatch.setattr(upkeep, "WAL_PAGES", 10)
        kept(db)._wal_due = 10
        append(db, 64 * 4 + number, f"s{number}")
        db.close()
        assert not Path(f"{path}-wal").exists()
    with memdb.open(path, embedder=None) as db:
        assert found(db) == 12 * 64 * 4 + 66
        assert db.file.check(deep=True) == []


@pytest.mark.parametrize("count", [64 * 8, 64 * 10 + 1])
def test_a_program_may_end_while_it_works(path: str, count: int) -> None:
    """At once, and nothing is lost."""
    subprocess.run([sys.executable, "-c", LEAVE, path, str(count)], check=True, timeout=60)

    with memdb.open(path, embedder=None) as db:
        assert found(db) == count
        assert db.file.check(deep=True) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_while_it_works_harms_nobody(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child opens the file, because no connection was in use by the thread."""
    db = open_db(path)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 10)
    kept(db)._wal_due = 10
    context = multiprocessing.get_context("fork")
    for number in range(5):
        append(db, 64 * 4)
        task = context.Process(target=_append_in_child, args=(path, f"c{number}"))
        task.start()
        append(db, 3)
        task.join(60)
        assert task.exitcode == 0

    assert found(db) == 5 * (64 * 4 + 3 + 2)
    assert db.file.check(deep=True) == []


def _append_in_child(path: str, session: str) -> None:
    with memdb.open(path, embedder=None, counter="estimate") as db:
        append(db, 2, session)


def test_threads_write_while_it_works(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them get their turn, and every message is there once."""
    db = open_db(path)
    monkeypatch.setattr(upkeep, "WAL_PAGES", 30)
    kept(db)._wal_due = 30
    threads = [threading.Thread(target=append, args=(db, 150, f"t{number}")) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found(db) == 600
    assert db.file.check(deep=True) == []


def test_an_error_of_the_thread_is_nobody_elses(
    path: str,
    open_db: Callable[..., MemDB],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, and the thread gives up until the next parts."""

    def fail(*_: object) -> bool:
        raise memdb.DiskFull("no room")

    monkeypatch.setattr(upkeep.Upkeep, "merge", fail)
    db = open_db(path)
    append(db, 64 * 9)
    wait_until(lambda: not kept(db).is_running)
    append(db, 3)

    assert found(db) == 64 * 9 + 3
    logged = {record.message for record in caplog.records}
    assert logged == {"upkeep failed, tried again later: no room"}


def test_a_failure_that_lasts_is_logged_once(
    path: str,
    open_db: Callable[..., MemDB],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often the thread tries again to move the WAL of an idle file."""
    tries: list[None] = []

    def fail(*_: object) -> bool:
        tries.append(None)
        raise memdb.DiskFull("no room")

    monkeypatch.setattr(SqliteEngine, "checkpoint_if_idle", fail)
    monkeypatch.setattr(upkeep, "IDLE_S", 0.01)
    append(open_db(path), 1)
    wait_until(lambda: len(tries) > 2)

    assert [record.message for record in caplog.records] == [
        "upkeep failed, tried again later: no room"
    ]


def test_another_process_that_writes_for_long_is_let_be(
    path: str, open_db: Callable[..., MemDB], raw: Callable[[str], Any]
) -> None:
    """A close does not wait for it, and the merge comes when it has ended."""
    db = open_db(path)
    append(db, 64 * 9 - 1)
    shell = raw(path)
    upkeep_of = kept(db)
    shell.execute("BEGIN IMMEDIATE")
    upkeep_of.parts = 8
    upkeep_of.note_commit(None)
    time.sleep(0.2)
    before = upkeep_of.is_running
    shell.execute("ROLLBACK")
    wait_until(lambda: not upkeep_of.is_running)

    assert before
    assert segments(db) < 8


def test_memory_and_readers_have_none(path: str, open_db: Callable[..., MemDB]) -> None:
    """They have nothing to keep up."""
    open_db(path).close()

    assert open_db(":memory:")._db.upkeep is None
    assert memdb.open(path, embedder=None, mode="read")._db.upkeep is None
