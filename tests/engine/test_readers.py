"""Reading threads: a few connections for any number of them, and no deadlock."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import apsw
import pytest

import memdb
from memdb.engine.blocks import MAX_READERS, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memdb import MemDB
    from memdb.engine.sqlite.engine import SqliteEngine

MANY = 60
LIMIT_S = 60


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MemDB]:
    """Return a file with one session of three messages."""
    with memdb.open(tmp_path / "a.db", counter="estimate", embedder=None) as opened:
        opened.scope("ann").session("s").extend([{"role": "user", "text": "hi"}] * 3)
        yield opened


@pytest.fixture
def engine(db: MemDB) -> SqliteEngine:
    """Return the engine of that file."""
    return db._db


def count_connections(engine: SqliteEngine) -> int:
    """Return how many connections this process has to the file."""
    return sum(one.filename == engine.path for one in apsw.connections())


def read(engine: SqliteEngine) -> int:
    """Return what one read sees."""
    with engine.read() as tx:
        return len(tx.all("SELECT id FROM messages"))


def test_many_threads_share_a_few_connections(engine: SqliteEngine) -> None:
    """Each thread reads what is there, and the writer is among them."""
    most = 0

    def read_often(_number: int) -> list[int]:
        nonlocal most
        found = [read(engine) for _ in range(20)]
        with engine.read():
            most = max(most, len(engine.pool.reading))
        return found

    with ThreadPoolExecutor(MANY) as threads:
        found = [*threads.map(read_often, range(MANY))]

    assert found == [[3] * 20] * MANY
    assert engine.pool.reading == {}
    assert count_connections(engine) <= MAX_READERS + 3  # the writer, the watch, one too many


def hold_all(engine: SqliteEngine, stack: ExitStack, count: int) -> list[threading.Event]:
    """Start *count* threads that read until their event is set."""
    ends = [threading.Event() for _ in range(count)]
    begun = threading.Barrier(count + 1)

    def hold(end: threading.Event) -> None:
        with engine.read():
            begun.wait(LIMIT_S)
            assert end.wait(LIMIT_S)
            assert read(engine) == 3  # a read inside needs no other connection

    for end in ends:
        thread = threading.Thread(target=hold, args=(end,))
        thread.start()
        stack.callback(thread.join, LIMIT_S)
        stack.callback(end.set)
    begun.wait(LIMIT_S)
    return ends


def test_threads_that_hold_a_read_for_long_stop_nobody(engine: SqliteEngine) -> None:
    """More of them than connections, all waiting for somebody who has yet to read."""
    with ExitStack() as stack:
        ends = hold_all(engine, stack, MAX_READERS + 3)

        assert [read(engine) for _ in range(10)] == [3] * 10
        assert len(engine.pool.reading) == len(ends)


def test_a_write_inside_many_reads_ends(db: MemDB, engine: SqliteEngine) -> None:
    """Each thread reads, and inside of that reads and writes."""

    def read_and_write(number: int) -> int:
        with engine.read():
            db.scope("ann").session(f"s{number}").append("user", "more")
        with engine.write():
            return read(engine)

    with ThreadPoolExecutor(MANY) as threads:
        found = [*threads.map(read_and_write, range(MANY))]

    assert max(found) == read(engine) == 3 + MANY


def test_an_interrupted_wait_leaves_no_trace(engine: SqliteEngine) -> None:
    """Ctrl-C while a thread waits: it waits no longer, and the others read."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with ExitStack() as stack:
        ends = hold_all(engine, stack, MAX_READERS)
        stack.callback(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S / 4)
        with pytest.raises(KeyboardInterrupt):
            read(engine)
        for end in ends:
            end.set()
        assert read(engine) == 3

    assert engine.pool.reading == {}


def test_closing_ends_the_wait(db: MemDB, engine: SqliteEngine) -> None:
    """A thread that waits learns that the file was closed."""
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            read(engine)
        except memdb.Closed as error:
            errors.append(error)

    with ExitStack() as stack:
        held = []
        for _ in range(MAX_READERS):
            block = engine.read()
            block.thread = -1 - len(held)
            block.tx = engine.pool.take_reader(block)
            held.append(block)
        thread = threading.Thread(target=wait)
        thread.start()
        while not engine.pool._lending._wake.locked() and thread.is_alive():
            pass
        stack.callback(thread.join, LIMIT_S)
        db.close()

    assert len(errors) == 1
