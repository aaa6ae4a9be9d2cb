"""Another connection holds the write lock: wait, then Busy; reading never waits."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import each
from counters import count
from shaker import Shaker, run
from vfs import Fault, Stall, installed
from writes import WRITES, every_write

import memdb
from memdb import MemDB


@pytest.fixture
def impatient(path: str, open_db: Callable[..., MemDB]) -> MemDB:
    """Return a file with a message, opened with a timeout of 50 ms."""
    db = open_db(path, timeout_ms=50)
    db.scope("ann").session("trip").append("user", "before")
    db.scope("ann").session("long").extend(
        [{"role": "user", "text": f"tea {n}"} for n in range(70)]
    )
    return db


@pytest.fixture
def locked(impatient: MemDB, raw: Any) -> Any:
    """Return a connection of somebody else that holds the write lock."""
    other = raw(impatient.path)
    other.execute("BEGIN IMMEDIATE")
    return other


# Calls that write to another file, which nobody has locked.
ELSEWHERE = ("backup", "create a file", "migrate", "restore", "recover")


@contextlib.contextmanager
def locked_by_another(db: MemDB) -> Iterator[None]:
    """Let another connection hold the write lock."""
    other = apsw.Connection(db.path)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


@every_write(6)
def test_a_write_that_cannot_get_the_lock_is_busy(opened: Callable[..., MemDB], name: str) -> None:
    """After the timeout, with nothing written; the same call works when the lock is free."""
    write = WRITES[name]

    error, wrong = Shaker(partial(opened, timeout_ms=20), write).run_with(locked_by_another)

    assert wrong == []
    if write.optional or name in ELSEWHERE:
        assert error is None
    else:
        assert isinstance(error, memdb.Busy)
        assert error.retryable
    count("busy")


def test_reading_does_not_wait_for_a_writer(impatient: MemDB, locked: Any) -> None:
    """Messages, recall and info answer while somebody else writes."""
    ann = impatient.scope("ann")

    assert ann.session("trip").last(1)[0].text == "before"
    assert [
        hit.text for hit in ann.session("trip").recall("before", kinds=("message",), by="words")
    ] == ["before"]
    assert impatient.file.info().counts["messages"] == 71


def test_recall_answers_though_it_cannot_embed(impatient: MemDB, locked: Any) -> None:
    """Embedding what is due waits for another time; the words are searched."""
    assert [hit.text for hit in impatient.scope("ann").recall("before")] == ["before"]


def test_a_context_answers_though_it_cannot_summarise(impatient: MemDB, locked: Any) -> None:
    """What is due waits for another time; the whole conversation is told within the budget."""
    window = impatient.scope("ann").session("long").context(300)

    assert window.tokens <= 300
    assert window.messages[-1].text == "tea 69"
    assert impatient.scope("ann").session("long").summaries.tree().summaries == ()


def test_a_file_can_be_opened_while_somebody_writes(
    impatient: MemDB, locked: Any, open_db: Callable[..., MemDB]
) -> None:
    """Opening a current file needs no lock."""
    again = open_db(impatient.path, timeout_ms=50)

    assert again.scope("ann").session("trip").last_seq == 1


def test_a_write_waits_for_a_short_one(path: str, open_db: Callable[..., MemDB], raw: Any) -> None:
    """Within the timeout nobody sees that the file is locked."""
    db = open_db(path, timeout_ms=20_000)
    other = raw(path)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    release.start()

    stored = db.scope("ann").session("trip").append("user", "patient")
    release.join()

    assert stored.seq == 1


@pytest.fixture
def unrecovered(path: str, tmp_path: Path, open_db: Callable[..., MemDB]) -> Callable[[], MemDB]:
    """Return a function that opens a file whose WAL the next connection has to recover."""
    db = open_db(path, embedder=None)
    db.scope("ann").session("trip").append("user", "before")
    content = {end: Path(path + end).read_bytes() for end in ("", "-wal")}
    numbers = itertools.count()

    def make() -> MemDB:
        copy = str(tmp_path / f"copy-{next(numbers)}.db")
        for end, data in content.items():
            Path(copy + end).write_bytes(data)
        opened = open_db(copy, embedder=None)
        opened._db.pool.close_idle()  # as after an error inside SQLite
        return opened

    return make


# One call per way in which a connection is opened.
OPENING: dict[str, Callable[[MemDB], object]] = {
    "read": lambda db: db.scope("ann").session("trip").last(1),
    "write": lambda db: db.scope("ann").session("trip").append("user", "next"),
    "transaction": lambda db: _write_nothing(db),
    "info": lambda db: db.file.info(),
    "check": lambda db: db.file.check(),
    "backup": lambda db: db.file.backup(f"{db.path}.bak"),
    "vacuum": lambda db: db.file.vacuum(),
    "checkpoint": lambda db: db._db.checkpoint(),
    "open": lambda db: memdb.open(db.path, embedder=None).close(),
    "open to read": lambda db: memdb.open(db.path, embedder=None, mode="read").close(),
}


def _write_nothing(db: MemDB) -> None:
    with db.transaction():
        pass


def _count_tables(path: str) -> None:
    connection = apsw.Connection(path)
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    connection.close()


@each("name", OPENING)
def test_every_call_waits_for_a_recovery_by_another(
    unrecovered: Callable[[], MemDB], name: str
) -> None:
    """SQLite calls it SQLITE_BUSY_RECOVERY; it ends as soon as the other connection has done."""
    db = unrecovered()
    stall = Stall("recovery")
    with installed(stall):
        thread = threading.Thread(target=_count_tables, args=(db.path,), name="recovery")
        thread.start()
        assert stall.is_inside.wait(3)
        threading.Timer(0.02, stall.go.set).start()
        OPENING[name](db)
        thread.join()
    assert db.file.check() == []


@each("name,nth", [(name, nth) for name in ("read", "write", "open") for nth in (1, 2, 3)])
def test_a_recovery_that_fails_is_made_by_the_next_call(
    unrecovered: Callable[[], MemDB], name: str, nth: int
) -> None:
    """An error while the WAL is read leaves no lock and no half of an index behind."""
    db = unrecovered()
    fault = Fault("read", nth)
    with installed(fault), fault:
        error = run(lambda: OPENING[name](db))

    assert fault.hit
    assert error is None or isinstance(error, memdb.IOFailed)
    assert OPENING["read"](db)
    assert db.file.check() == []


def test_threads_of_one_handle_take_turns(file_db: MemDB) -> None:
    """Writers of one process wait for each other without error or gap."""
    chat = file_db.scope("ann").session("trip")
    threads = [
        threading.Thread(target=lambda: [chat.append("user", "x") for _ in range(50)])
        for _ in range(8)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert [message.seq for message in chat.messages()] == list(range(1, 401))


def test_check_beside_a_long_writer_is_busy(impatient: MemDB, locked: Any) -> None:
    """Full text needs the write lock for a moment; not having it says nothing of the file."""
    with pytest.raises(memdb.Busy, match="try again"):
        impatient.file.check()
