"""
Files that are whole or not there: written under another name, put on the disk, then renamed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from memdb.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Behind the name of a file that is not whole yet.
PARTIAL = ".partial"


def open_private(path: str, flags: int) -> int:
    """Open a file; if it is new, only its owner can read it."""
    return os.open(path, flags, 0o600)


def publish(target: str) -> None:
    """Rename a file that is whole and on the disk to its name, and make that durable."""
    os.replace(target + PARTIAL, target)
    if os.name == "posix":  # Windows opens no folder
        handle = os.open(os.path.dirname(os.path.abspath(target)), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def private_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """
    Open a file for a `with` block that gets the name *path* once it is whole and on disk.

    Only its owner can read it. If the block fails, what was at *path* stays.

    Raises:
        FileError: *path* cannot be written.
    """
    target = os.fspath(path)
    partial = target + PARTIAL
    try:
        with suppress(OSError):
            os.remove(partial)
        with open(partial, "xb", opener=open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(target)
    except OSError as error:
        raise FileError(
            f"{target} cannot be written ({error.strerror}): choose another place", target
        ) from error
    finally:
        with suppress(OSError):
            os.remove(partial)
