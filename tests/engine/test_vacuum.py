"""Giving room back: in steps, beside writers, stopped and killed; and by itself after a deletion."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb import MemDB
from memdb.engine.sqlite import maintenance, packing, upkeep

AUTO_VACUUM = slice(52, 56)  # Source: sqlite.org/fileformat2.html#the_database_header

# Deletes half of what is in a file, and is killed at a step of the vacuum, or between two.
KILLED = """
import os, sys, memdb
from memdb.engine.sqlite import packing
packing.HOLD_S = 0
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
for n in range(0, 6, 2):
    db.scope("ann").session(f"s{n}").delete()
left = int(sys.argv[2])
def step(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
if sys.argv[3] == "within":
    move = packing.move_piece
    packing.move_piece = lambda tx: (move(tx), step())[0]
    db.file.vacuum()
else:
    db.file.vacuum(progress=step)
"""


# What only one session says: no other word begins like it.
OWN = ("aardvarks", "buttercups", "crocodiles", "dragonflies", "elephants", "flamingos")
OF_DELETED, OF_KEPT = "rocodil", "ragonfli"


def fill(db: MemDB, sessions: int = 6, count: int = 400) -> None:
    """Store sessions of as many messages, each with words of its own."""
    for number in range(sessions):
        texts = [f"message {k} of {number}: tea{number}x{k} in Oslo " * 3 for k in range(count)]
        texts[7] = OWN[number % 6]
        rows = [{"role": "user", "text": text} for text in texts]
        db.scope("ann").session(f"s{number}").extend(rows)


def texts(db: MemDB) -> list[tuple[str, str]]:
    """Return all that is said, with its session."""
    chats = [db.scope("ann").session(one.name) for one in db.scope("ann").sessions()]
    return [(chat.name, one.text) for chat in chats for one in chat.messages()]


def delete_half(db: MemDB, sessions: int = 6) -> None:
    """Delete every second session."""
    for number in range(0, sessions, 2):
        db.scope("ann").session(f"s{number}").delete()


def free_pages(db: MemDB) -> int:
    """Return how many pages of the file hold nothing."""
    with db._db.read() as tx:
        return packing.count_free_pages(tx)


def parts(db: MemDB) -> int:
    """Return of how many parts the index of messages consists."""
    with db._db.read() as tx:
        row = tx.one("SELECT count(DISTINCT segid) FROM messages_fts_idx")
    return int(row[0]) if row else 0


def says(db: MemDB, word: str) -> bool:
    """Return whether the pages of the index of messages have a word in them, dropped or not."""
    with db._db.read() as tx:
        rows = tx.all("SELECT block FROM messages_fts_data")
    return any(word.encode() in block for (block,) in rows)


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait for the thread of upkeep."""
    end = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be given back by itself, and each step do one piece."""
    monkeypatch.setattr(upkeep, "LEAST_DROPPED", 1 << 40)
    monkeypatch.setattr(packing, "HOLD_S", 0.0)


def test_free_pages_leave_the_file(path: str, open_db: Callable[..., MemDB], quiet: None) -> None:
    """What stays is as it was, words of what is gone leave the index, and no page is free."""
    db = open_db(path)
    fill(db)
    delete_half(db)
    kept = texts(db)
    db._db.checkpoint()
    before = Path(path).stat().st_size
    steps: list[tuple[int, int]] = []

    freed = db.file.vacuum(progress=lambda done, total: steps.append((done, total)))

    assert freed > before // 4
    assert Path(path).stat().st_size == before - freed
    assert free_pages(db) == 0
    assert parts(db) == 1
    assert not says(db, OF_DELETED)
    assert says(db, OF_KEPT)
    assert texts(db) == kept
    assert db.file.check(deep=True) == []
    assert len(steps) > 3
    assert all(0 <= done <= total for done, total in steps)
    assert steps == sorted(steps, key=lambda step: step[0])
    assert steps[-1][0] == steps[-1][1]


def test_others_write_between_steps(path: str, open_db: Callable[..., MemDB], quiet: None) -> None:
    """Between two steps no lock is held: another handle appends at each without waiting."""
    db, other = open_db(path), open_db(path, timeout_ms=0)
    fill(db)
    delete_half(db)
    chat, written = other.scope("bob").session("b"), []

    db.file.vacuum(progress=lambda done, _: written.append(chat.append("user", f"at {done}").text))

    assert len(written) > 3
    assert [one.text for one in chat.messages()] == written
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("whole", [False, True])
def test_what_progress_raises_ends_it(
    path: str, open_db: Callable[..., MemDB], quiet: None, whole: bool, monkeypatch: Any
) -> None:
    """Nothing is lost, and the next vacuum does the rest."""
    monkeypatch.setattr(maintenance, "OPERATIONS", 100)
    db = open_db(path)
    fill(db)
    delete_half(db)
    kept, free = texts(db), free_pages(db)
    calls: list[int] = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        assert done < total
        if len(calls) == 4 + 6 * whole:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db.file.vacuum(whole=whole, progress=stop)

    assert texts(db) == kept
    assert free_pages(db) > 0
    assert db.file.check(deep=True) == []
    db.file.vacuum()
    assert free_pages(db) == 0 < free
    assert texts(db) == kept


@pytest.mark.parametrize("place", ["between", "within"])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_killed_in_between(
    tmp_path: Path, open_db: Callable[..., MemDB], place: str, step: int
) -> None:
    """A vacuum that is killed loses nothing, and the next one does the rest."""
    path = tmp_path / "agent.db"
    with open_db(path) as db:
        fill(db)
        kept = [one for one in texts(db) if int(one[0][1:]) % 2]

    code = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(step), place], check=False
    ).returncode

    assert code == -9
    with open_db(path) as db:
        assert sorted(texts(db)) == sorted(kept)
        assert db.file.check(deep=True) == []
        db.file.vacuum()
        assert free_pages(db) == 0
        assert sorted(texts(db)) == sorted(kept)


def test_an_older_file_is_rewritten_once(
    path: str, open_db: Callable[..., MemDB], quiet: None
) -> None:
    """A file whose pages cannot be moved becomes one that moves them; then it goes in steps."""
    with open_db(path) as db:
        fill(db)
    old = apsw.Connection(path)
    old.execute("PRAGMA auto_vacuum = NONE").fetchall()
    old.execute("VACUUM")
    old.close()
    assert Path(path).read_bytes()[AUTO_VACUUM] == bytes(4)
    db = open_db(path)
    delete_half(db)
    kept = texts(db)

    assert db.file.vacuum() > 0

    assert texts(db) == kept
    assert db.file.check(deep=True) == []
    fill(db, count=100)
    delete_half(db)
    steps: list[int] = []
    db.file.vacuum(progress=lambda done, _: steps.append(done))
    assert max(steps[:-1]) > 0  # in steps this time
    db.close()
    assert Path(path).read_bytes()[AUTO_VACUUM] != bytes(4)


def test_a_large_deletion_is_given_back(path: str, open_db: Callable[..., MemDB]) -> None:
    """After half of the messages went the file shrinks by itself, and does not grow beyond."""
    db = open_db(path)
    fill(db, count=1000)
    db.file.vacuum()
    later = [{"role": "user", "text": f"later{number} in Oslo"} for number in range(70)]
    db.scope("ann").session("later").extend(later)  # FTS5 merges nothing into one part alone
    before = Path(path).stat().st_size

    with db.transaction():
        delete_half(db)
    assert db._db.upkeep is not None
    wait_until(lambda: not db._db.upkeep.is_running)
    db._db.checkpoint()
    assert Path(path).stat().st_size < 0.9 * before
    assert not says(db, OF_DELETED)

    for number in range(0, 6, 2):
        rows = [{"role": "user", "text": f"again{number}x{k} in Bergen " * 5} for k in range(1000)]
        db.scope("ann").session(f"new{number}").extend(rows)
    db.close()
    assert Path(path).stat().st_size < 1.15 * before


def test_close_goes_on_with_it(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that deletes and ends leaves a small file too."""
    monkeypatch.setattr(upkeep, "CLOSE_S", 60.0)
    monkeypatch.setattr(upkeep, "STEP_S", 60.0)  # the thread does nothing
    db = open_db(path)
    fill(db, count=1000)
    db.close()
    before = Path(path).stat().st_size
    db = open_db(path)
    with db.transaction():
        delete_half(db)
    db.close()

    assert Path(path).stat().st_size < 0.9 * before
    assert not any(os.path.exists(f"{path}{end}") for end in ("-wal", "-shm"))
    db = open_db(path)
    assert db.file.check(deep=True) == []


def test_a_small_deletion_changes_nothing(path: str, open_db: Callable[..., MemDB]) -> None:
    """Less than a quarter stays in the index as marks, until it is merged anyway."""
    db = open_db(path)
    fill(db, sessions=20, count=600)
    for number in (0, 2, 4, 6):
        db.scope("ann").session(f"s{number}").delete()
    wait_until(lambda: not db._db.upkeep.is_running)

    assert says(db, OF_DELETED)
    assert free_pages(db) > 0


def test_backup_beside_writers(
    path: str, open_db: Callable[..., MemDB], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write at each step; the copy is of the moment when it began."""
    monkeypatch.setattr(maintenance, "COPIED_PAGES", 8)
    db, other = open_db(path), open_db(path, timeout_ms=0)
    fill(db)
    kept, chat = texts(db), other.scope("ann").session("late")
    steps: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        chat.append("user", f"at {done}")
        steps.append((done, total))

    copied = db.file.backup(tmp_path / "copy.db", progress=note)

    assert len(steps) > 5
    assert steps[-1] == (steps[0][1], steps[0][1])
    assert copied == (tmp_path / "copy.db").stat().st_size
    copy = memdb.open(tmp_path / "copy.db", embedder=None, counter="estimate", mode="read")
    assert texts(copy) == kept
    assert copy.file.check(deep=True) == []
    copy.close()
    assert len(list(chat.messages())) == len(steps)


def test_a_backup_that_is_stopped(
    path: str, open_db: Callable[..., MemDB], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of it, and what was there stays."""
    monkeypatch.setattr(maintenance, "COPIED_PAGES", 8)
    db = open_db(path)
    fill(db)
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "copy.db"
    target.write_text("kept")

    def stop(done: int, total: int) -> None:
        assert total > done
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db.file.backup(target, replace=True, progress=stop)

    assert [one.name for one in target.parent.iterdir()] == ["copy.db"]
    assert target.read_text() == "kept"
