"""
Syncs of the WAL, which make commits durable, outside of the writers' lock.

SQLite's own sync (synchronous=FULL) is a part of COMMIT, so every other writer waits for it.
Here COMMIT only writes (NORMAL), the lock is released, and then the writer waits for the disk:
`SharedSync`, for durability "power". Writers that wait at the same time share one sync, and another
process can commit meanwhile. A sync of the WAL covers every commit before it. So a commit is never
on the disk without the earlier ones (ADR-0038).

With durability "process" nobody waits: the upkeep thread calls `sync_wal` a second after a commit.
"""

from __future__ import annotations

import os
import sys
from threading import RLock
from typing import TYPE_CHECKING

from memdb.errors import IOFailed

if TYPE_CHECKING:
    from collections.abc import Callable

# "disk I/O error" while syncing: the code that SQLite's own sync would fail with.
# Source: https://www.sqlite.org/rescode.html#ioerr_fsync
IOERR_FSYNC = 1034

# macOS: fsync leaves data in the drive's cache, this does not.
F_FULLFSYNC = 51


def sync_handle(handle: int, _path: str) -> None:
    """Wait until everything written to a file is on the disk; *handle* is open for writing."""
    if sys.platform == "darwin":
        from fcntl import fcntl  # noqa: PLC0415 (of Unix)

        fcntl(handle, F_FULLFSYNC)
    elif sys.platform == "win32":
        os.fsync(handle)
    else:
        os.fdatasync(handle)


class SharedSync:
    """
    Waits for the disk after each commit; threads that wait at the same time share one sync.

    A sync that failed may have lost data, and a later one would not report that
    (https://wiki.postgresql.org/wiki/Fsync_Errors). So from then on a commit counts only once the
    WAL was moved into the file.

    Attributes:
        committed: Number of commits so far; the owner of the writers' lock counts them.
        count: Syncs so far.
    """

    __slots__ = (
        "_change",
        "_checkpoint",
        "_handle",
        "_is_cleared",
        "_is_failed",
        "_is_stopped",
        "_path",
        "_synced",
        "_wal",
        "committed",
        "count",
    )

    def __init__(
        self, path: str, checkpoint: Callable[[], bool], is_cleared: Callable[[str], bool]
    ) -> None:
        """
        Sync the WAL of the file at *path*.

        Args:
            checkpoint: Moves the WAL into the file, or returns False.
            is_cleared: Returns whether the mark of the file at *path* is cleared.
        """
        self._path, self._wal = path, f"{path}-wal"
        self._checkpoint, self._is_cleared = checkpoint, is_cleared
        self._handle: tuple[int, tuple[int, int]] | None = None  # and device and inode
        self.committed = 0
        self._synced = 0
        self._is_failed = False
        self._is_stopped = False
        self._change = RLock()  # `with` on it cannot be interrupted before its body
        self.count = 0

    def wait(self, number: int, wal: tuple[int, ...] | None) -> None:
        """
        Return when commit *number* of the file *wal* (device, inode) is on the disk.

        Raises:
            IOFailed: the commit was committed, and may be lost at a power cut.
        """
        with self._change:
            if self._synced >= number:
                return
            committed = self.committed
            if not self._is_failed:
                self._sync(wal)
            if self._is_failed:
                self._is_failed = not self._checkpoint()
                if self._is_failed:
                    raise IOFailed(
                        f"{self._wal} cannot be synced to the disk. The change is stored, but a "
                        "power cut may lose it: check the disk and its free space",
                        IOERR_FSYNC,
                    )
            self._synced = committed

    def _sync(self, wal: tuple[int, ...] | None) -> None:
        try:
            if self._handle is None or self._handle[1] != wal:
                self._close()
                # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
                self._handle = os.open(self._wal, os.O_RDWR), (0, 0)  # closed if fstat fails
                status = os.fstat(self._handle[0])
                self._handle = self._handle[0], (status.st_dev, status.st_ino)
            sync_handle(self._handle[0], self._wal)
            self.count += 1
        except FileNotFoundError:  # a close moves it into the file, with a sync of its own
            self._is_failed = not self._is_cleared(self._path)
        except OSError:
            self._is_failed = True
        if self._is_failed or self._is_stopped:
            self._close()

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle[0])

    def stop(self) -> None:
        """Close the WAL; a waiting writer is still served."""
        with self._change:
            self._is_stopped = True
            self._close()


def sync_wal(wal: str) -> bool:
    """Sync the commits in a WAL; return whether they are on the disk."""
    try:
        # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
        handle = os.open(wal, os.O_RDWR)
    except OSError as error:  # it was moved into the file, which a checkpoint syncs, or is not read
        return isinstance(error, FileNotFoundError)
    try:
        sync_handle(handle, wal)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
