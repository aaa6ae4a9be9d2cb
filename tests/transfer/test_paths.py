"""Where an export may go: never over an open file, nor over any database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memdb.errors import FileError

if TYPE_CHECKING:
    from memdb.api.database import MemDB


@pytest.mark.parametrize("beside", ["", "-wal", "-shm"])
def test_an_export_never_replaces_the_open_file(file_db: MemDB, beside: str) -> None:
    """The file itself and what SQLite keeps beside it are refused, and stay."""
    file_db.scope("ann").remember("Ann swims.")
    target = file_db.path + beside
    before = Path(target).stat()

    with pytest.raises(
        FileError, match="is a file that this program has open: choose another place"
    ):
        file_db.export(target, replace=True)

    after = Path(target).stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)


def test_another_name_of_the_open_file_is_known(file_db: MemDB, tmp_path: Path) -> None:
    """A link to the open file is the open file."""
    (tmp_path / "link.jsonl").symlink_to(file_db.path)

    with pytest.raises(FileError, match="is a file that this program has open"):
        file_db.export(tmp_path / "link.jsonl", replace=True)


def test_the_partial_file_is_never_a_database(open_db, tmp_path: Path) -> None:
    """What is written first has a name of its own; a database under that name stays."""
    opened = open_db(str(tmp_path / "ann.jsonl.partial"))
    opened.scope("ann").remember("Ann swims.")

    with pytest.raises(FileError, match="is a file that this program has open"):
        opened.export(tmp_path / "ann.jsonl")

    assert Path(opened.path).exists()


def test_an_export_never_replaces_a_database(file_db: MemDB, tmp_path: Path) -> None:
    """Another SQLite file is refused, whatever wrote it; other files are replaced."""
    file_db.scope("ann").remember("Ann swims.")
    other = tmp_path / "other.db"
    other.write_bytes(b"SQLite format 3\0" + b"\0" * 100)

    with pytest.raises(FileError, match="is a SQLite database: choose another place"):
        file_db.export(other, replace=True)

    assert other.stat().st_size == 116
    other.write_bytes(b"SQLite format")
    assert file_db.export(other, replace=True) > 1
