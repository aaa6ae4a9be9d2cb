"""Another connection holds the write lock: wait, then Busy; reading never waits."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw
import pytest
from counters import count
from shaker import Shaker
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
