"""Copies of the file: whole, at one moment, never in the way, never half."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import MemDB

WRITE = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat = db.scope("ann").session("trip")
    print("ready", flush=True)
    while True:
        chat.extend([{"role": "user", "text": "pair one"}, {"role": "user", "text": "pair two"}])
"""

BACKUP_AS_NOBODY = """
import os, sys, memdb
with memdb.open(":memory:", embedder=None, counter="estimate") as db:
    db.scope("ann").remember("x")
    db.file.backup(sys.argv[1])
    os.remove(sys.argv[1])
    os.setgid(65534); os.setuid(65534)
    try:
        db.file.backup(sys.argv[1])
    except memdb.MemDBError as error:
        print(type(error).__name__)
"""


def texts(path: str) -> list[str]:
    """Return what Ann's session in a file says."""
    with memdb.open(path, embedder=None) as db:
        assert db.file.check(deep=True) == []
        return [message.text for message in db.scope("ann").session("trip").messages()]


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Return a path for the copy."""
    return str(tmp_path / "copy.db")


def test_a_backup_holds_everything(db: MemDB, target: str) -> None:
    """All stores, from memory as from a file; it says how large it is."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "hi")
    ann.remember("Ann likes tea.")
    ann.artifacts.save("a", b"x" * 100_000)
    db.jobs.run()

    size = db.file.backup(target)

    assert size == os.path.getsize(target)
    with memdb.open(target, embedder=None) as copy:
        assert copy.file.info().counts == db.file.info().counts
        assert copy.scope("ann").artifacts.load("a").data == b"x" * 100_000


def test_a_backup_is_one_file_in_delete_mode(file_db: MemDB, target: str) -> None:
    """It opens in a read-only folder, and nothing lies beside it."""
    file_db.scope("ann").session("trip").append("user", "hi")

    file_db.file.backup(target)

    assert sorted(name for name in os.listdir(os.path.dirname(target)) if "copy" in name) == [
        "copy.db"
    ]
    with sqlite3.connect(f"file:{target}?immutable=1", uri=True) as look:
        assert look.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    look.close()


def test_the_file_goes_on_after_a_backup(file_db: MemDB, target: str) -> None:
    """Later writes are in the file and not in the copy."""
    chat = file_db.scope("ann").session("trip")
    chat.append("user", "before")
    file_db.file.backup(target)

    chat.append("user", "after")

    assert texts(target) == ["before"]
    assert chat.last_seq == 2


def test_a_backup_beside_a_busy_writer_is_one_moment(
    path: str, target: str, start_child: Callable[..., Any]
) -> None:
    """It ends, and holds whole transactions: both of each pair."""
    child = start_child(WRITE, path)
    child.stdout.readline()
    with memdb.open(path, embedder=None) as db:
        for number in range(5):
            db.file.backup(f"{target}{number}")
    child.kill()
    child.wait()

    found = [texts(f"{target}{number}") for number in range(5)]

    assert [len(one) % 2 for one in found] == [0] * 5
    assert [len(one) for one in found] == sorted(len(one) for one in found)


def test_an_existing_target_is_kept(file_db: MemDB, target: str) -> None:
    """Without replace nothing is overwritten."""
    Path(target).write_text("mine")

    with pytest.raises(memdb.AlreadyExists) as caught:
        file_db.file.backup(target)

    assert (caught.value.kind, caught.value.ref) == ("file", target)
    assert Path(target).read_text() == "mine"


def test_replace_overwrites(file_db: MemDB, target: str) -> None:
    """An older copy or anything else."""
    file_db.scope("ann").session("trip").append("user", "hi")
    Path(target).write_text("old")

    file_db.file.backup(target, replace=True)

    assert texts(target) == ["hi"]


def test_replacing_a_crashed_file_does_not_bring_its_wal_back(
    tmp_path: Path, target: str, open_db: Callable[..., MemDB]
) -> None:
    """SQLite would play a WAL that lies beside the new copy into it."""
    crashed = open_db(str(tmp_path / "other.db"))
    [crashed.scope("ann").session("trip").append("user", "old") for _ in range(50)]
    for ending in ("", "-wal", "-shm"):
        shutil.copy(tmp_path / f"other.db{ending}", f"{target}{ending}")
    source = open_db(str(tmp_path / "source.db"))
    source.scope("ann").session("trip").append("user", "new")

    source.file.backup(target, replace=True)

    assert texts(target) == ["new"]


@pytest.mark.parametrize("through", ["same", "link", "relative"])
def test_the_open_file_is_no_target(
    file_db: MemDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """Replacing it would cut the handle off from its own file."""
    monkeypatch.chdir(tmp_path)
    os.symlink(file_db.path, "link.db")
    name = {"same": file_db.path, "link": "link.db", "relative": "agent.db"}[through]
    chat = file_db.scope("ann").session("trip")

    with pytest.raises(memdb.FileError, match="that this program has open"):
        file_db.file.backup(name, replace=True)

    chat.append("user", "after")
    assert texts(file_db.path) == ["after"]


@pytest.mark.parametrize(
    "name", ["missing/copy.db", ".", "agent.db/copy.db"], ids=["no folder", "a folder", "in a file"]
)
def test_a_target_that_cannot_be_is_a_file_error(file_db: MemDB, tmp_path: Path, name: str) -> None:
    """And nothing is left behind."""
    file_db.file.info()  # the file's own companions are there

    with pytest.raises(memdb.FileError):
        file_db.file.backup(tmp_path / name, replace=True)

    assert [one for one in os.listdir(tmp_path) if not one.startswith("agent.db")] == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root to give up")
def test_an_unwritable_folder_is_a_file_error(open_folder: Path, run_child: Any) -> None:
    """For a process without the right to write there."""
    assert run_child(BACKUP_AS_NOBODY, open_folder / "copy.db") == "ReadOnly\n"


def test_a_leftover_of_a_crashed_backup_is_in_nobodys_way(file_db: MemDB, target: str) -> None:
    """The next backup removes it."""
    Path(f"{target}.partial").write_text("half")
    Path(f"{target}.partial-journal").write_text("half")

    file_db.file.backup(target)

    assert not os.path.exists(f"{target}.partial")
    assert not os.path.exists(f"{target}.partial-journal")
    assert texts(target) == []


def test_a_copy_is_a_file_like_any_other(file_db: MemDB, target: str) -> None:
    """It can be written to, and copied again."""
    file_db.scope("ann").session("trip").append("user", "one")
    file_db.file.backup(target)

    with memdb.open(target, embedder=None, counter="estimate") as copy:
        assert copy.scope("ann").session("trip").append("user", "two").seq == 2
        copy.file.backup(f"{target}2")
    assert texts(f"{target}2") == ["one", "two"]


def test_a_partial_copy_that_cannot_be_removed_is_a_file_error(file_db: MemDB, path: str) -> None:
    """No error of the system gets through, and the next backup works."""
    file_db.scope("ann").session("trip").append("user", "one")
    blocking = Path(f"{path}.bak.partial")
    blocking.mkdir()

    with pytest.raises(memdb.FileError):
        file_db.file.backup(f"{path}.bak")
    blocking.rmdir()

    assert file_db.file.backup(f"{path}.bak") > 0
