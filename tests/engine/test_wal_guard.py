"""
The WAL of a file that several programs open, write and close at the same time is never taken for
another file's.

Each step stops at the moment in which a busy machine may let a process wait for a processor.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from cases import each

from memdb.engine.sqlite import foreign_wal, schema, upkeep, wal_guard
from memdb.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB


def texts(db: MemDB) -> list[str]:
    """Return the messages of the session that the tests write to."""
    return [message.text for message in db.scope("ann").session("trip").last(99)]


def append(db: MemDB, text: str) -> None:
    """Add a message to that session."""
    db.scope("ann").session("trip").append("user", text)


def cut(path: str) -> None:
    """Move the WAL into the file and cut it, as another program does."""
    other = apsw.Connection(path)
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    other.close()


def move(path: str) -> None:
    """Move the WAL into the file, so that the next write begins it anew."""
    other = apsw.Connection(path)
    other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    other.close()


def made_by_another(open_db: Callable[..., MemDB], path: str, monkeypatch: Any) -> list[Any]:
    """Return a handle that began to make the file when another had just made it, and that one."""
    create, made = schema._create, []

    def slow(db: Any) -> None:
        monkeypatch.setattr(schema, "_create", create)
        made.append(open_db(path))
        append(made[0], "before")
        made[0]._db.checkpoint()
        create(db)

    monkeypatch.setattr(schema, "_create", slow)
    return [open_db(path), *made]


def cut_in_use(open_db: Callable[..., MemDB], path: str, _monkeypatch: Any) -> list[Any]:
    """Return two handles of a file whose WAL was cut in the middle of a burst of the first."""
    first, second = open_db(path), open_db(path)
    append(first, "before")
    cut(path)
    return [second, first]


@each("is_killed", [False, True])
@pytest.mark.parametrize("begin", [made_by_another, cut_in_use])
def test_a_copy_of_file_and_wal_has_every_commit(
    tmp_path: Path,
    open_db: Callable[..., MemDB],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    begin: Callable[..., list[Any]],
    is_killed: bool,
) -> None:
    """A WAL names that of the file from its first commit on, also if nobody names it after."""
    path = str(tmp_path / f"{is_killed}.db")
    with monkeypatch.context() as changed:
        writer, _ = begin(open_db, path, changed)
        if is_killed:
            changed.setattr(
                wal_guard.WalGuard, "_name_wal", lambda *_: (_ for _ in ()).throw(Busy("x"))
            )
        append(writer, "after")
        for end in ("", "-wal"):  # closing the file in this process would drop SQLite's locks
            subprocess.run(["cp", path + end, f"{path}.copy{end}"], check=True)

    assert texts(open_db(f"{path}.copy")) == ["before", "after"]
    assert [record.message for record in caplog.records] == []
    assert texts(writer) == ["before", "after"]
    append(writer, "more")


def test_a_wal_that_was_just_cut_is_not_missing(
    path: str,
    open_db: Callable[..., MemDB],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who has the file open clears the mark a moment later, and an opening waits for that."""
    monkeypatch.setattr(upkeep, "IDLE_S", 0.1)
    first = open_db(path)
    append(first, "before")
    cut(path)

    assert texts(open_db(path)) == ["before"]
    assert [record.message for record in caplog.records] == []


@pytest.mark.parametrize("commits", [False, True])
def test_a_close_moves_the_wal_if_it_committed(
    path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    """Whoever only read leaves the WAL to those who write."""
    monkeypatch.setattr(upkeep, "IDLE_S", 1e6)
    writer = open_db(path)
    append(writer, "before")
    with open_db(path) as other:
        assert texts(other) == ["before"]
        if commits:
            append(other, "after")

    assert (os.path.getsize(f"{path}-wal") == 0) == commits


def test_a_file_that_is_being_opened_or_closed_has_no_other_name(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """Its lock is there before its -shm and after it, for as long as that process waits."""
    with open_db(path) as first:
        append(first, "before")
    file = foreign_wal.open_locked(path)
    threading.Timer(0.1, lambda: (file.xUnlock(apsw.SQLITE_LOCK_NONE), file.xClose())).start()

    assert texts(open_db(path)) == ["before"]


@pytest.mark.parametrize("seed", range(6))
def test_every_commit_of_many_writers_is_in_file_and_wal(
    tmp_path: Path,
    open_db: Callable[..., MemDB],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """
    After each commit, before its WAL is named, a kill of all processes would leave both like that.

    A WAL that another connection emptied begins with salts that do not follow those before, and
    naming it fails whenever a third process wrote in between.
    """
    path, chance = str(tmp_path / "agent.db"), random.Random(seed)
    name_wal, note_commit = wal_guard.WalGuard._name_wal, wal_guard.WalGuard.note_commit
    stored: list[str] = []
    images: list[tuple[str, list[str]]] = []

    def keep_image(guard: wal_guard.WalGuard, writer: Any, wal_pages: int) -> bool:
        image = str(tmp_path / f"{len(images)}.db")
        for end in ("", "-wal"):  # `cp` ends without the locks of this process
            subprocess.run(["cp", path + end, image + end], check=True)
        images.append((image, [*stored]))
        return note_commit(guard, writer, wal_pages)

    def name_now_and_then(guard: wal_guard.WalGuard, writer: Any) -> None:
        if chance.random() < 0.5:
            raise Busy("another process wrote meanwhile")
        name_wal(guard, writer)

    with open_db(path) as first:
        append(first, "begin")
    stored.append("begin")
    writers = [open_db(path) for _ in range(3)]
    monkeypatch.setattr(wal_guard.WalGuard, "note_commit", keep_image)
    monkeypatch.setattr(wal_guard.WalGuard, "_name_wal", name_now_and_then)
    for number in range(20):
        text = f"{number} " + "x" * chance.randrange(9000)
        stored.append(text)
        append(chance.choice(writers), text)
        if chance.random() < 0.4:
            chance.choice([cut, move])(path)
    monkeypatch.undo()

    for image, expected in images:
        assert foreign_wal.find_wal_problem(image) is None
        assert texts(open_db(image)) == expected
