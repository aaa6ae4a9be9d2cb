"""Another connection holds the write lock: wait, then Busy; reading never waits."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

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


WRITES: dict[str, Callable[[MemDB], object]] = {
    "append": lambda db: db.scope("ann").session("trip").append("user", "more"),
    "remember": lambda db: db.scope("ann").remember("more"),
    "save": lambda db: db.scope("ann").artifacts.save("a", b"x"),
    "delete": lambda db: db.scope("ann").session("trip").delete(),
    "run_pending": lambda db: db.jobs.run(),
    "summarise": lambda db: db.jobs.run(kinds=("summarize",)),
    "compact": lambda db: db.scope("ann").session("long").summaries.compact(),
    "archive": lambda db: db.scope("ann").session("long").archive(keep_last=1),
    "delete a long one": lambda db: db.scope("ann").session("long").delete(),
    "rebuild": lambda db: db.file.rebuild(),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_cannot_get_the_lock_is_busy(
    impatient: MemDB, locked: Any, dump: Any, name: str
) -> None:
    """After the timeout, with an error that says to try again, and nothing written."""
    before = dump(impatient.path)

    started = time.monotonic()
    with pytest.raises(memdb.Busy) as caught:
        WRITES[name](impatient)

    assert time.monotonic() - started > 0.04
    assert caught.value.retryable is True
    assert dump(impatient.path) == before


@pytest.mark.parametrize("name", WRITES)
def test_the_same_write_succeeds_when_the_lock_is_free(
    impatient: MemDB, locked: Any, name: str
) -> None:
    """A Busy handle is as good as before."""
    with pytest.raises(memdb.Busy):
        WRITES[name](impatient)
    locked.execute("ROLLBACK")

    WRITES[name](impatient)

    assert impatient.file.check() == []


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
