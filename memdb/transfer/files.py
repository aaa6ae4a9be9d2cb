"""
Files that an export writes: whole or not at all, and never over a database.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, BinaryIO

from memdb.errors import AlreadyExists, FileError
from memdb.text.validate import refuse_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Engine

BLOCK_BYTES = 1 << 16

SQLITE_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html


def refuse_database(db: Engine, target: str) -> None:
    """
    Return if *target*, and the `.partial` beside it, may be written over.

    Raises:
        FileError: one of them is the file of *db*, what SQLite keeps beside
            it, or another SQLite database.
    """
    for path in (target, f"{target}.partial"):
        if db.maintenance.is_own_file(path):
            raise FileError(f"{path} is the open file itself: choose another place", path)
        if is_database(path):
            raise FileError(f"{path} is a SQLite database: choose another place", path)


def copy_to(db: Engine, data: BinaryIO, path: str | os.PathLike[str], *, replace: bool) -> int:
    """Write *data* to a file at *path*, as `whole_file` does; return its bytes."""
    size = 0
    with whole_file(db, os.fspath(path), replace=replace) as out:
        while chunk := data.read(BLOCK_BYTES):
            size += out.write(chunk)
    return size


def _open_private(path: str, flags: int) -> int:
    """Open a new file that only its owner can read."""
    return os.open(path, flags, 0o600)


@contextmanager
def whole_file(db: Engine, target: str, *, replace: bool) -> Iterator[IO[bytes]]:
    """
    Open a file for a `with` block that gets the name *target* once it is whole and on disk.

    Args:
        replace: Overwrite a file that is there.

    Raises:
        AlreadyExists: something is at *target*, and *replace* is False.
        FileError: *target* cannot be written, or is a database.
    """
    if os.path.exists(target) and not replace:  # noqa: PTH110
        raise AlreadyExists("file", target)
    refuse_database(db, target)
    refuse_output(target)
    partial = f"{target}.partial"
    try:
        with suppress(OSError):
            os.remove(partial)  # noqa: PTH107
        with open(partial, "xb", opener=_open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)  # noqa: PTH105
    except OSError as error:
        raise FileError(
            f"{target} cannot be written ({error.strerror}): choose another place", target
        ) from error
    finally:
        with suppress(OSError):
            os.remove(partial)  # noqa: PTH107


def is_memdb(path: str) -> bool:
    """Return whether the SQLite file at *path* says that it is memdb's."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(72)[68:] == b"memd"


def is_database(path: str) -> bool:
    """
    Return whether there is a SQLite database at *path*.

    Raises:
        FileError: the file at *path* cannot be read.
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
