"""A write returns when it is on the disk; those that wait at a time share one sync."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import memdb
from memdb.engine.sqlite import upkeep, wal_sync

if TYPE_CHECKING:
    from pathlib import Path

    from memdb import MemDB

POWER = {"embedder": None, "counter": "estimate", "durability": "power"}


class Disk:
    """Syncs, or refuses to; holds each sync until `gate` is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of the real sync, and call it."""
        self.paths: list[str] = []
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.gate.set()
        self.refuses = False
        self._sync = wal_sync.sync_handle
        monkeypatch.setattr(wal_sync, "sync_handle", self)

    def __call__(self, handle: int, path: str) -> None:
        """Sync."""
        self.paths.append(path)
        self.begun.set()
        assert self.gate.wait(60)
        if self.refuses:
            raise OSError(5, "the disk refuses")
        self._sync(handle, path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return the disk of every file that is opened from here on, which is never idle."""
    monkeypatch.setattr(upkeep, "IDLE_S", 1e6)
    return Disk(monkeypatch)


@pytest.fixture
def power_db(path: str, open_db: Any, disk: Disk) -> MemDB:
    """Return a file with durability "power" and a message."""
    db: MemDB = open_db(path, durability="power")
    db.scope("ann").session("trip").append("user", "first")
    disk.paths.clear()
    return db


def last_alone(path: str) -> str:
    """Return the last message that the file holds without its WAL."""
    connection = apsw.Connection(
        f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    ((text,),) = connection.execute("SELECT text FROM messages ORDER BY id DESC LIMIT 1").fetchall()
    connection.close()
    return str(text)


def append_in_threads(db: MemDB, count: int) -> list[threading.Thread]:
    """Start threads that append one message each."""
    threads = [
        threading.Thread(
            target=lambda n=n: db.scope("ann").session(f"s{n}").append("user", f"hi {n}")
        )
        for n in range(count)
    ]
    for thread in threads:
        thread.start()
    return threads


def test_each_write_of_one_caller_waits_for_the_disk(power_db: MemDB, disk: Disk) -> None:
    """A sync per write, of the WAL."""
    for number in range(5):
        power_db.scope("ann").session("trip").append("user", f"message {number}")

    assert disk.paths == [f"{power_db.path}-wal"] * 5


def test_writers_that_wait_share_a_sync(power_db: MemDB, disk: Disk) -> None:
    """While the disk is slow all others commit, and one more sync is enough for all of them."""
    sync: Any = power_db._db.sync
    before = sync.committed
    disk.gate.clear()
    disk.begun.clear()
    first = append_in_threads(power_db, 1)
    assert disk.begun.wait(60)
    others = append_in_threads(power_db, 8)
    while sync.committed < before + 9:
        time.sleep(0.005)
    with memdb.open(power_db.path, mode="read", **POWER) as beside:
        assert sum(beside.scope("ann").session(f"s{n}").last_seq for n in range(8)) == 9
    assert all(thread.is_alive() for thread in (*first, *others))  # none is told before the disk
    disk.gate.set()
    for thread in (*first, *others):
        thread.join(60)

    assert len(disk.paths) == 2
    assert power_db.scope("ann").session("s7").last_seq == 1


def test_another_handle_writes_while_one_waits_for_the_disk(
    power_db: MemDB, disk: Disk, open_db: Any
) -> None:
    """The lock of writers is free meanwhile."""
    other = open_db(power_db.path, durability="process", timeout_ms=50)
    disk.gate.clear()
    disk.begun.clear()
    threads = append_in_threads(power_db, 1)
    assert disk.begun.wait(60)

    assert other.scope("bob").session("s").append("user", "meanwhile").seq == 1
    disk.gate.set()
    threads[0].join(60)


def test_a_wal_that_cannot_be_synced_is_moved_into_the_file(power_db: MemDB, disk: Disk) -> None:
    """So the write is safe all the same; also each later one, as the system forgets the error."""
    disk.refuses = True
    chat = power_db.scope("ann").session("trip")
    for number in range(3):
        chat.append("user", f"message {number}")
        assert last_alone(power_db.path) == f"message {number}"
    disk.refuses = False
    chat.append("user", "again")

    assert os.path.getsize(f"{power_db.path}-wal") > 0


def test_a_write_that_cannot_be_made_safe_says_so(power_db: MemDB, disk: Disk, raw: Any) -> None:
    """A reader keeps the WAL where it is: the write is there, and the error tells of the danger."""
    chat = power_db.scope("ann").session("trip")
    reader = raw(power_db.path)
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    disk.refuses = True
    with pytest.raises(memdb.StorageError, match="power cut may lose it") as caught:
        chat.append("user", "second")
    disk.refuses = False
    with pytest.raises(memdb.StorageError):  # the system may have dropped what it could not write
        chat.append("user", "third")
    reader.execute("COMMIT")
    chat.append("user", "fourth")

    assert isinstance(caught.value, memdb.MemDBError)
    assert [message.text for message in chat.last(3)] == ["second", "third", "fourth"]
    assert os.path.getsize(f"{power_db.path}-wal") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/proc lists the open files of a process")
def test_a_closed_file_keeps_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The WAL that is synced is open while the file is, once."""

    def descriptors() -> int:
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
        return sum(one.startswith(str(tmp_path)) for one in found)

    monkeypatch.setattr(upkeep, "IDLE_S", 1e6)
    db = memdb.open(tmp_path / "a.db", **POWER)
    db.scope("ann").session("s").append("user", "one")
    engine: Any = db._db
    while engine.upkeep._passive_at:
        time.sleep(0.005)
    engine.pause_upkeep()()
    db.scope("ann").session("s").append("user", "two")  # compares the file, which moved, once
    before = descriptors()
    for number in range(10):
        db.scope("ann").session("s").append("user", f"more {number}")
    assert descriptors() == before
    db.close()

    assert descriptors() == 0


@pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="macOS and Windows have no fdatasync")
def test_the_system_is_asked_to_sync_the_wal(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests put something in the place of the function that asks it."""
    real, synced = os.fdatasync, []

    def sync(handle: int) -> None:
        synced.append(os.path.sameopenfile(handle, wal.fileno()))
        real(handle)

    with memdb.open(path, **POWER) as db:
        db.scope("ann").session("s").append("user", "one")
        with open(f"{path}-wal", "rb") as wal:
            monkeypatch.setattr(os, "fdatasync", sync)
            db.scope("ann").session("s").append("user", "two")

    assert True in synced
