"""A file that is only read: what mode="read" writes, which is nothing, and what it sees."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

import memdb
from memdb.adapters.host import HostFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

KILLED = """
import memdb, os, sys
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
db.scope("ann").session("trip").extend([{"role": "user", "text": f"killed {n}"} for n in range(9)])
os.kill(os.getpid(), 9)
"""

# What everybody may do with a file that is only read.
READS: dict[str, Callable[[MemDB], object]] = {
    "last": lambda db: db.scope("ann").session("trip").last(3),
    "recall": lambda db: db.scope("ann").recall("tea"),
    "info": lambda db: db.file.info(),
    "check": lambda db: db.file.check(deep=True),
    "query": lambda db: db.query("SELECT count(*) FROM messages"),
    "export": lambda db: sum(1 for _ in db.export_lines()),
    "stamp": lambda db: HostFile(db).stamp(),
}


def state_of(folder: Path, *, shared: bool = True) -> dict[str, object]:
    """Return name, inode, hash and times of each file; *shared*: of the -shm too."""
    state: dict[str, object] = {}
    for path in folder.iterdir():
        if path.suffix != ".db-shm" or shared:
            stat = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            state[path.name] = (stat.st_ino, stat.st_mtime_ns, stat.st_mode, content)
    return state


def age(path: str | Path) -> None:
    """Make a file look as if it was written a while ago."""
    then = time.time_ns() - 10**9
    os.utime(path, ns=(then, then))


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return the path of a closed file, alone in its folder."""
    path = tmp_path / "agent.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("trip").extend([{"role": "user", "text": "tea"}] * 5)
    age(path)
    return path


def texts(db: MemDB) -> list[str]:
    return [one.text for one in db.scope("ann").session("trip").messages()]


@pytest.mark.parametrize("name", READS)
def test_reading_a_clean_file_makes_no_file(filled: Path, name: str) -> None:
    """Neither before, nor while it is open, nor after."""
    before = state_of(filled.parent)

    with memdb.open(filled, embedder=None, counter="estimate", mode="read") as db:
        READS[name](db)
        assert state_of(filled.parent) == before

    assert state_of(filled.parent) == before


@pytest.mark.parametrize("name", READS)
def test_reading_a_killed_file_changes_nothing_but_shared_memory(filled: Path, name: str) -> None:
    """The WAL stays, with the same bytes; SQLite makes its index anew, in the -shm."""
    command = [sys.executable, "-c", KILLED, str(filled)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    before = state_of(filled.parent, shared=False)

    with memdb.open(filled, embedder=None, counter="estimate", mode="read") as db:
        READS[name](db)
        assert len(texts(db)) == 14

    assert state_of(filled.parent, shared=False) == before


@pytest.mark.parametrize("name", READS)
def test_reading_beside_a_writer_changes_nothing_but_shared_memory(filled: Path, name: str) -> None:
    """The -wal and -shm of the writer stay when the reader closes."""
    with memdb.open(filled, embedder=None, counter="estimate") as writer:
        writer.scope("ann").session("trip").append("user", "more")
        while writer._db.upkeep._passive_at:
            time.sleep(0.005)
        go_on = writer._db.pause_upkeep()  # the mark is in the file, and the WAL stays
        before = state_of(filled.parent, shared=False)
        with memdb.open(filled, embedder=None, counter="estimate", mode="read") as db:
            READS[name](db)
            assert texts(db)[-1] == "more"
        assert state_of(filled.parent, shared=False) == before
        assert os.path.exists(f"{filled}-shm")
        go_on()
    assert os.listdir(filled.parent) == ["agent.db"]


def test_what_was_found_beside_the_file_stays(filled: Path) -> None:
    """An empty -wal of another program, too."""
    Path(f"{filled}-wal").touch(0o600)
    before = state_of(filled.parent, shared=False)

    with memdb.open(filled, embedder=None, mode="read") as db:
        assert len(texts(db)) == 5

    assert state_of(filled.parent, shared=False) == before


def test_a_reader_sees_every_writer_that_comes_and_goes(filled: Path) -> None:
    """With locks as long as there is one, without them before and after."""
    with memdb.open(filled, embedder=None, counter="estimate", mode="read") as db:
        stamps = [db._db.stamp(start=True)]
        for count in range(6, 12):
            with memdb.open(filled, embedder=None, counter="estimate") as writer:
                writer.scope("ann").session("trip").append("user", f"m {count}")
                assert len(texts(db)) == count
                stamps.append(db._db.stamp(start=True))
            assert texts(db)[-1] == f"m {count}"
            stamps.append(db._db.stamp(start=True))
            age(filled)
            assert len(texts(db)) == count
    assert os.listdir(filled.parent) == ["agent.db"]
    assert len(set(stamps[::2])) == 7


def test_a_write_in_the_midst_of_a_read_is_an_error_of_that_read(filled: Path) -> None:
    """What was read without locks may be of two moments; the next call works."""
    with memdb.open(filled, embedder=None, counter="estimate", mode="read") as db:
        with pytest.raises(memdb.Busy, match="call again"), db._db.read() as tx:
            assert len(tx.all("SELECT id FROM messages")) == 5
            with memdb.open(filled, embedder=None, counter="estimate") as writer:
                writer.scope("ann").session("trip").append("user", "more")
        assert len(texts(db)) == 6
        assert db.file.check(deep=True) == []


def test_a_backup_is_read_with_its_locks(filled: Path) -> None:
    """It is in DELETE mode, whose locks are no files."""
    copy = filled.parent / "copy.db"
    with memdb.open(filled, embedder=None) as db:
        db.file.backup(copy)
    age(copy)
    before = state_of(filled.parent)
    with memdb.open(copy, embedder=None, mode="read") as db, db._db.read() as tx:
        tx.all("SELECT id FROM messages")
        other = apsw.Connection(str(copy))
        with pytest.raises(apsw.BusyError):
            other.execute("BEGIN EXCLUSIVE")
        other.close()
    assert state_of(filled.parent) == before
