"""Other names of a file: a symbolic link leads to the real one, a second name is refused."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.engine.sqlite import upkeep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB

POWER = {"embedder": None, "counter": "estimate", "durability": "power"}

HOLD = """
import memdb, sys
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
print(db.scope("ann").session("s").append("user", "one").seq, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """Return a link to a file with a message, in another folder, through a link to a folder."""
    (tmp_path / "real").mkdir()
    (tmp_path / "current").symlink_to("real")
    with memdb.open(tmp_path / "real" / "a.db", **POWER) as db:
        db.scope("ann").session("s").append("user", "first")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "l.db").symlink_to(tmp_path / "current" / "a.db")
    return tmp_path / "links" / "l.db"


def test_a_write_through_a_link_waits_for_the_disk(
    link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as by the real path: once per append."""
    monkeypatch.setattr(upkeep, "IDLE_S", 1e6)
    counts = []
    for path in (link, link.resolve()):
        with memdb.open(path, **POWER) as db:
            chat = db.scope("ann").session("s")
            chat.append("user", "one")
            sync: Any = db._db.sync
            before = sync.count
            for number in range(20):
                chat.append("user", f"more {number}")
            counts.append(sync.count - before)

    assert counts == [20, 20]


# What makes or replaces a file, or looks for what stands beside one.
CALLS: dict[str, Callable[[MemDB, Path], object]] = {
    "backup over a link": lambda db, link: db.file.backup(link.with_name("b.db"), replace=True),
    "restore over a link": lambda db, link: memdb.restore(
        copy_of(db, link), link.with_name("b.db")
    ),
    "recover from a link": lambda db, link: memdb.recover(
        link, copy_of(db, link).with_name("new.db")
    ),
    "prove": lambda db, link: db.scope("ann").forget(query="first", prove=True),
}


def copy_of(db: MemDB, link: Path) -> Path:
    copy = link.parents[1] / "copy.db"
    db.file.backup(copy, replace=True)
    return copy


def test_every_call_goes_by_the_real_path(link: Path, tmp_path: Path) -> None:
    """Nothing is made beside a link, and no link is replaced."""
    (tmp_path / "real" / "b.db").touch()
    link.with_name("b.db").symlink_to(tmp_path / "real" / "b.db")
    for name, call in CALLS.items():
        with memdb.open(link, **POWER) as db:
            db.scope("ann").session("s").append("user", "first")
            assert db.path == str(link.resolve()), name
            call(db, link)
            assert sorted(os.listdir(link.parent)) == ["b.db", "l.db"], name
        assert all(one.is_symlink() for one in link.parent.iterdir()), name
    with memdb.open(link.with_name("b.db"), embedder=None) as db:
        assert db.scope("ann").session("s").last_seq > 0


def test_the_proof_searches_the_wal_of_a_link(link: Path) -> None:
    """It is where SQLite keeps it."""
    with memdb.open(link, **POWER) as db:
        db.scope("ann").session("s").append("user", "a zebra")
        proof = db.scope("ann").forget(query="zebra", prove=True).proof

    assert proof is not None
    assert {"a.db", "a.db-wal"} <= set(proof.searched)


def test_a_hard_link_is_refused_for_writing(tmp_path: Path) -> None:
    """Each name has a WAL of its own; the error says so, and reading is allowed."""
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    with memdb.open(first, **POWER) as db:
        db.scope("ann").session("s").append("user", "one")
    os.link(first, second)
    for path in (first, second):
        with pytest.raises(memdb.FileError, match="hard link"):
            memdb.open(path, embedder=None)
        with memdb.open(path, mode="read", embedder=None) as db:
            assert db.scope("ann").session("s").last_seq == 1
    second.unlink()

    with memdb.open(first, embedder=None) as db:
        assert db.scope("ann").session("s").append("user", "two").seq == 2


def test_a_file_whose_wal_is_elsewhere_is_refused(tmp_path: Path, start_child: Any) -> None:
    """As the file alone is mounted into a container while the host has it open."""
    path, moved = tmp_path / "a.db", tmp_path / "mounted" / "a.db"
    moved.parent.mkdir()
    child = start_child(HOLD, path)
    assert child.stdout.readline() == "1\n"
    os.rename(path, moved)  # the file is locked, and what stands beside it is not here

    with pytest.raises(memdb.FileError, match="under another name"):
        memdb.open(moved, embedder=None)

    os.rename(moved, path)
    child.communicate("end\n", timeout=60)
    with memdb.open(path, embedder=None) as db:
        assert db.scope("ann").session("s").last_seq == 1


def test_many_threads_open_a_closed_file_at_once(link: Path) -> None:
    """Who looks whether others have it open keeps none of them out."""
    for _ in range(5):
        wrong: list[BaseException] = []
        start = threading.Barrier(6)

        def use(wrong: list[BaseException] = wrong, start: threading.Barrier = start) -> None:
            try:
                start.wait(20)
                with memdb.open(link, **POWER) as db:
                    db.scope("ann").session("s").append("user", "more")
            except BaseException as error:  # noqa: BLE001 (the test shows it)
                wrong.append(error)

        threads = [threading.Thread(target=use) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []


def test_a_wal_that_is_gone_was_not_synced(tmp_path: Path) -> None:
    """Unless the file itself says that all of it was moved: then the commit is safe."""
    with memdb.open(tmp_path / "a.db", **POWER) as db:
        chat = db.scope("ann").session("s")
        chat.append("user", "one")
        sync: Any = db._db.sync
        sync.stop()
        os.rename(f"{db.path}-wal", f"{db.path}.away")
        with pytest.raises(memdb.IOFailed, match="power cut may lose it"):
            sync.wait(sync.committed + 1, (0, 0))
        os.rename(f"{db.path}.away", f"{db.path}-wal")
        chat.append("user", "two")
    sync.wait(sync.committed + 1, (0, 0))
