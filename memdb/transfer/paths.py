"""
Where a file may be written: never over the open file, nor over any database.
"""

from __future__ import annotations

import os

from memdb.engine.sqlite.backup import is_open_file
from memdb.errors import FileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database

SQLITE_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html


def refuse_database(db: Database, target: str) -> None:
    """
    Return if *target*, and the `.partial` beside it, may be written over.

    Raises:
        FileError: one of them is the file of *db*, what SQLite keeps beside
            it, or another SQLite database.
    """
    for path in (target, f"{target}.partial"):
        if is_open_file(db, path) or _is_beside(db, path):
            raise FileError(f"{path} is the open file itself: choose another place", path)
        if is_database(path):
            raise FileError(f"{path} is a SQLite database: choose another place", path)


def is_database(path: str) -> bool:
    """
    Say whether there is a SQLite database at *path*.

    Raises:
        FileError: there is a file that cannot be read, so nobody knows.
    """
    if not os.path.isfile(path):  # noqa: PTH113 (pathlib is slow to load)
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({error.strerror}): choose another place", path
        ) from error


def _is_beside(db: Database, path: str) -> bool:
    """Say whether SQLite may make a file of that name beside the one of *db*."""
    real = os.path.realpath(db.path)
    return os.path.realpath(path) in (f"{real}-wal", f"{real}-shm", f"{real}-journal")
