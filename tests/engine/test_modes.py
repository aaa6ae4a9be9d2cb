"""Files that memdb makes can be read by their owner only, whatever the umask lets pass."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")

# Every call that makes a file, given an open one and a new path.
MAKES: dict[str, Callable[[MemDB, Path], object]] = {
    "open": lambda _db, path: memdb.open(path, embedder=None).close(),
    "backup": lambda db, path: db.file.backup(path),
    "export": lambda db, path: db.export(path),
    "export of a scope": lambda db, path: db.export(path, user="ann"),
    "export of an artifact": lambda db, path: db.scope("ann").artifacts.export("a.md", path),
    "recover": lambda db, path: memdb.recover(db.path, path),
    "restore": lambda db, path: (
        db.file.backup(f"{path}.backup"),
        memdb.restore(f"{path}.backup", path),
    ),
}


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Let every mode pass."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the mode of each file in *folder*."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("name", MAKES)
def test_a_new_file_is_its_owners(tmp_path: Path, name: str) -> None:
    """With the -wal and -shm of the file that is open; a leftover is no way around it."""
    with memdb.open(tmp_path / "agent.db", embedder=None, counter="estimate") as db:
        db.scope("ann").session("s").append("user", "hi")
        db.scope("ann").artifacts.save("a.md", "soup")
        (tmp_path / "new.partial").write_text("left over")
        (tmp_path / "new.partial").chmod(0o644)
        MAKES[name](db, tmp_path / "new")
        (tmp_path / "new.partial").unlink(missing_ok=True)

        found = modes(tmp_path)

    assert {"agent.db", "agent.db-wal", "agent.db-shm", "new"} <= found.keys()
    assert set(found.values()) == {0o600}


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    """Whoever shares it has decided so."""
    path = tmp_path / "agent.db"
    memdb.open(path, embedder=None).close()
    path.chmod(0o660)

    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("s").append("user", "hi")
        assert set(modes(tmp_path).values()) == {0o660}
