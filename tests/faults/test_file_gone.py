"""The file is removed, moved or replaced while it is open: nothing is acknowledged that is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import memdb

TRACES = ("", "-wal", "-shm")


def move(path: str, to: str) -> None:
    """Move a file with what SQLite keeps beside it."""
    for trace in TRACES:
        if Path(path + trace).exists():
            os.replace(path + trace, to + trace)


@pytest.fixture
def opened(path):
    """An open file with one message."""
    with memdb.open(path, embedder=None) as db:
        db.scope("ann").session("s").append("user", "one")
        yield db


def test_writing_to_a_file_that_was_removed_is_refused(opened, path):
    """SQLite would go on in a file that has no name any more."""
    chat = opened.scope("ann").session("s")
    known = chat.last(5)
    for trace in TRACES:
        Path(path + trace).unlink(missing_ok=True)

    with pytest.raises(memdb.FileError, match=r"removed or replaced while it was open") as caught:
        chat.append("user", "two")

    assert caught.value.path == opened.path
    assert chat.last(5) == known
    assert not Path(path).exists()


def test_nothing_is_written_into_a_file_that_took_its_place(opened, path, tmp_path):
    """Neither by the connection that is there nor by a new one."""
    with memdb.open(tmp_path / "other.db", embedder=None) as other:
        other.scope("bob").session("t").append("user", "mine")
    move(path, str(tmp_path / "away.db"))
    move(str(tmp_path / "other.db"), path)
    before = Path(path).read_bytes()

    with pytest.raises(memdb.FileError, match="put it back"):
        opened.scope("ann").session("s").append("user", "two")
    with pytest.raises(memdb.FileError, match="put it back"):
        opened._db.pool.open(writable=False)
    opened.close()

    assert Path(path).read_bytes() == before
    with memdb.open(path, embedder=None) as db:
        assert [scope.user for scope in db.scopes()] == ["bob"]


def test_a_file_that_was_put_back_goes_on(opened, path, tmp_path):
    """It is the same file again."""
    away = str(tmp_path / "away.db")
    chat = opened.scope("ann").session("s")
    move(path, away)
    with pytest.raises(memdb.FileError):
        chat.append("user", "two")
    move(away, path)

    chat.append("user", "three")
    opened.close()

    with memdb.open(path, embedder=None) as db:
        assert [one.text for one in db.scope("ann").session("s").messages()] == ["one", "three"]
        assert db.file.check(deep=True) == []
