"""
Files that appear as a whole: written under another name, synced, then renamed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from memdb.errors import FileError
from memdb.text.validate import SIDE_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

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
