"""
Files on the disk: those that this process has open, and those that appear as a whole.

Closing a file drops every lock that the process has on it, unless SQLite itself closes it
(https://sqlite.org/howtocorrupt.html, 2.2). Another program would then remove the WAL, and with it
acknowledged writes. So no other code opens a live file, also no second SQLite library:
`refuse_live` is the guard before a path that a caller gave is read or replaced.

A file that appears as a whole is written under another name, synced, then renamed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

import apsw

from memdb.errors import FileError
from memdb.text.validate import SIDE_FILES, SQLITE_MAGIC, refuse_special

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from weakref import ref

    # Device and inode.
    Identity = tuple[int, int]

HEADER_BYTES, CHUNK_BYTES = 100, 1 << 20
MEMDB_MARK = b"memd"  # the application id in the header, from byte 68

# Every pool of connections of this process; each has the `path` of its file, and `is_usable`.
pools: set[ref[Any]] = set()


def list_pools() -> list[Any]:
    """Return the pools that exist."""
    return [pool for one in pools.copy() if (pool := one()) is not None]


def identity_of(path: str | os.PathLike[str]) -> Identity | None:
    """Return device and inode of the file at *path*, None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def live_identities() -> set[Identity | None]:
    """Return the open files of this process, and those that SQLite keeps beside them."""
    paths = [pool.path for pool in list_pools() if pool.is_usable]
    return {identity_of(f"{path}{end}") for path in paths for end in ("", *SIDE_FILES)} - {None}


def refuse_live(*paths: str | os.PathLike[str]) -> None:
    """
    Refuse paths that may be read and written only by the connections of this process.

    Raises:
        FileError: a file is live, or is a pipe, a device or a socket.
    """
    refuse_special(*paths)
    live = live_identities()
    for path in paths:
        if identity_of(path) in live:
            raise FileError(
                f"{os.fspath(path)} is a file that this program has open: choose another place",
                os.fspath(path),
            )


@contextmanager
def opened(path: str) -> Iterator[apsw.VFSFile]:
    """Open a file by SQLite's VFS, to read its bytes as they are on the disk."""
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        yield file
    finally:
        file.xClose()


def read_chunks(path: str, size: int = CHUNK_BYTES) -> Generator[bytes]:
    """Yield the bytes of a file as they are on the disk, *size* at a time."""
    with opened(path) as file:
        end = file.xFileSize()
        for start in range(0, end, size):
            yield file.xRead(min(size, end - start), start)


def read_start(path: str) -> bytes:
    """Return the header of a file as it is on the disk; b"" if it cannot be read."""
    chunks = read_chunks(path, HEADER_BYTES)
    try:
        return next(chunks, b"")
    except apsw.Error:
        return b""
    finally:
        chunks.close()


def is_sqlite(path: str) -> bool:
    """
    Return whether there is a SQLite database at *path*.

    Raises:
        FileError: the file at *path* cannot be read.
    """
    if not os.path.isfile(path):
        return False
    start = read_start(os.path.abspath(path))
    if not start and os.path.getsize(path) > 1:  # SQLite takes a single byte for none
        raise FileError(f"{path} cannot be read: choose another place", path)
    return start.startswith(SQLITE_MAGIC)


def is_memdb(path: str) -> bool:
    """Return whether the SQLite file at *path* is marked as memdb's."""
    return read_start(os.path.abspath(path)).startswith(MEMDB_MARK, 68)


# Behind the name of a file that is not whole yet.
PARTIAL = ".partial"


def open_private(path: str, flags: int) -> int:
    """Open a file; if it is new, only its owner can read it."""
    return os.open(path, flags, 0o600)


def publish(target: str) -> None:
    """Rename a complete, closed file to its name, durably."""
    _sync(target + PARTIAL)
    os.replace(target + PARTIAL, target)
    if os.name == "posix":  # Windows opens no folder
        _sync(os.path.dirname(os.path.abspath(target)))


def _sync(path: str) -> None:
    # Windows syncs only what is open for writing; a folder opens for reading only.
    writable = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | getattr(os, "O_BINARY", 0)
    handle = os.open(path, writable)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def whole_path(path: str | os.PathLike[str], sides: tuple[str, ...] = SIDE_FILES) -> Iterator[str]:
    """
    Yield a temporary path, at which a `with` block makes a file; rename it to *path* after that.

    The file must be closed when the block ends. If the block fails, an earlier file at *path*
    stays.

    Args:
        sides: Suffixes of files that are removed beside both names, because SQLite would apply the
            WAL of the earlier file to the new one.

    Raises:
        FileError: *path* cannot be written.
    """
    target = os.fspath(path)
    partial = target + PARTIAL
    try:
        _remove(partial, ("", *sides))
        yield partial
        _remove(target, sides)
        publish(target)
    except OSError as error:
        raise FileError(
            f"{target} cannot be written ({error.strerror}): choose another place", target
        ) from error
    finally:
        with suppress(OSError):  # the first error is the one that is raised
            _remove(partial, ("", *sides))


def _remove(path: str, ends: tuple[str, ...]) -> None:
    for end in ends:
        if os.path.exists(path + end):
            os.remove(path + end)


@contextmanager
def private_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """
    Open a file for a `with` block; it gets the name *path* when it is complete and on disk.

    Only its owner can read it. If the block fails, an earlier file at *path* stays.

    Raises:
        FileError: *path* cannot be written.
    """
    with whole_path(path, ()) as partial, open(partial, "xb", opener=open_private) as file:
        yield file
