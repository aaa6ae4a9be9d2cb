"""
A copy of the file, made while others read and write it.

One step, not many: a backup in small steps starts again at every write beside
it and may never end; one step takes under 0.1 s for 60 MB.
"""

from __future__ import annotations

import os

import apsw

from memdb.engine.sqlite.connection import open_error
from memdb.errors import AlreadyExists, FileError, from_sqlite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database

ALL_PAGES = -1


def copy_to(db: Database, target: str, *, replace: bool = False) -> int:
    """
    Copy *db* as it is at this moment to the file *target*; return its bytes.

    The copy is whole and on the disk before it gets its name. It is in DELETE
    journal mode, so that it opens in a read-only folder too.

    Args:
        replace: Overwrite a file that is there.

    Raises:
        AlreadyExists: *target* is there and *replace* is False.
        FileError: it cannot be written, or is the open file itself.
    """
    if os.path.exists(target) and not replace:  # noqa: PTH110 (pathlib is slow to load)
        raise AlreadyExists("file", target)
    if is_own_file(db, target):
        raise FileError(f"{target} is the open file itself: choose another place", target)
    partial = f"{target}.partial"
    try:
        _copy(db, partial)
        # SQLite would play the WAL of the file that was here into the copy.
        _remove_beside(target)
        os.replace(partial, target)  # noqa: PTH105
        _sync_folder(target)
    except OSError as error:
        raise FileError(
            f"{target} cannot be written ({error.strerror}): choose another place", target
        ) from error
    finally:
        _remove(partial)
    return os.stat(target).st_size  # noqa: PTH116


def _copy(db: Database, partial: str) -> None:
    _remove(partial)
    source = db.connection(writable=True) if db.path != ":memory:" else None
    try:
        out = _open_new(partial)
        try:
            # A moment that no commit can move. In memory there is one connection:
            # reading holds its lock, and SQLite copies none that is writing.
            with db.read() if source is None else db.write() as tx:
                origin = tx.raw if source is None else source
                with out.backup("main", origin, "main") as backup:
                    backup.step(ALL_PAGES)
            out.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            out.close()
    except apsw.Error as error:
        raise from_sqlite(getattr(error, "extendedresult", 1), str(error)) from error
    finally:
        if source is not None:
            source.close()
    _sync(partial)


def is_own_file(db: Database, target: str) -> bool:
    """Return whether *target* is the file of *db*, or may be one that SQLite keeps beside it."""
    real = os.path.realpath(db.path)
    if os.path.realpath(target) in (f"{real}-wal", f"{real}-shm", f"{real}-journal"):
        return True
    for own in (db.path, f"{db.path}-wal", f"{db.path}-shm"):
        try:
            if os.path.samefile(own, target):  # noqa: PTH121
                return True
        except OSError:
            continue
    return False


def _open_new(partial: str) -> apsw.Connection:
    try:
        return apsw.Connection(partial)
    except apsw.Error as error:
        raise open_error(error, partial.removesuffix(".partial")) from error


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: str) -> None:
    """Make the new name itself survive a power cut, where folders can be synced."""
    if os.name == "posix":
        _sync(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120


def _remove(path: str) -> None:
    if os.path.exists(path):  # noqa: PTH110
        os.remove(path)  # noqa: PTH107
    _remove_beside(path)


def _remove_beside(path: str) -> None:
    """Remove what SQLite keeps beside the file at *path*."""
    for name in (f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        if os.path.exists(name):  # noqa: PTH110
            os.remove(name)  # noqa: PTH107
