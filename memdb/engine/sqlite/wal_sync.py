"""
When what was committed is on the disk: syncs of the WAL, outside of the lock of writers.

SQLite's own sync (synchronous=FULL) is a part of COMMIT, so every other writer waits for it.
Here COMMIT only writes (NORMAL), the lock is given back, and then the writer waits for the disk:
`SharedSync`, for durability "power". Those who wait at the same time share one sync, and
another process commits meanwhile. A sync of the WAL covers every commit before it, so no commit
is ever on the disk without those that it was made after (ADR-0038).

`IdleSync`, for durability "process", syncs once a second: a power cut loses a second at most.
"""

from __future__ import annotations

import os
import sys
from threading import Lock, RLock, Thread
from typing import TYPE_CHECKING
from weakref import ref

from memdb.errors import IOFailed

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL_S = 1.0

# "disk I/O error" while syncing: the code that SQLite's own sync would fail with.
# Source: https://www.sqlite.org/rescode.html#ioerr_fsync
IOERR_FSYNC = 1034

# macOS: fsync leaves data in the drive's cache, this does not.
F_FULLFSYNC = 51


def sync_handle(handle: int, _path: str) -> None:
    """Wait until all that was written to a file is on the disk; *handle* is open for writing."""
    if sys.platform == "darwin":
        from fcntl import fcntl

        fcntl(handle, F_FULLFSYNC)
    elif sys.platform == "win32":
        os.fsync(handle)
    else:
        os.fdatasync(handle)


class SharedSync:
    """
    Waits for the disk after each commit; whoever waits at the same time shares one sync.

    A sync that failed may have lost what it was to write, and a later one would not say so
    (https://wiki.postgresql.org/wiki/Fsync_Errors). So from then on a commit counts only once
    the WAL was moved into the file.

    Attributes:
        count: Syncs so far.
    """

    __slots__ = (
        "_change",
        "_committed",
        "_handle",
        "_is_failed",
        "_is_moved",
        "_is_stopped",
        "_move",
        "_path",
        "_synced",
        "_wal",
        "count",
    )

    def __init__(
        self, path: str, move: Callable[[], bool], is_moved: Callable[[str], bool]
    ) -> None:
        """
        Sync the WAL of the file at *path*.

        Args:
            move: Moves the WAL into the file, or returns False.
            is_moved: Returns whether the file at *path* says that this was done.
        """
        self._path, self._wal = path, f"{path}-wal"
        self._move, self._is_moved = move, is_moved
        self._handle: tuple[int, tuple[int, int]] | None = None  # and device and inode
        self._committed = 0
        self._synced = 0
        self._is_failed = False
        self._is_stopped = False
        self._change = RLock()  # `with` on it cannot be interrupted before its body
        self.count = 0

    def note_commit(self) -> int:
        """Return the number of a commit; for the owner of the lock of writers."""
        self._committed += 1
        return self._committed

    def wait(self, number: int, wal: tuple[int, int] | None) -> None:
        """
        Return when the commit *number*, into the file *wal* (device, inode), is on the disk.

        Raises:
            IOFailed: it was committed, and may be gone after a power cut.
        """
        with self._change:
            if self._synced >= number:
                return
            committed = self._committed
            if not self._is_failed:
                self._sync(wal)
            if self._is_failed:
                self._is_failed = not self._move()
                if self._is_failed:
                    raise IOFailed(
                        f"{self._wal} cannot be written to the disk: what was stored is there, "
                        "but a power cut may lose it. Check the disk and its free space",
                        IOERR_FSYNC,
                    )
            self._synced = committed

    def _sync(self, wal: tuple[int, int] | None) -> None:
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
            self._is_failed = not self._is_moved(self._path)
        except OSError:
            self._is_failed = True
        if self._is_failed or self._is_stopped:
            self._close()

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle[0])

    def stop(self) -> None:
        """Keep the WAL open no longer; a writer that waits is served all the same."""
        with self._change:
            self._is_stopped = True
            self._close()


class IdleSync:
    """
    Syncs a WAL within a second after a commit, in a thread that ends when nobody commits.

    `note_commit` costs 0.1 µs, and starting the thread 50 µs, at most once a second. The
    thread does not keep the process alive.

    Attributes:
        count: Syncs so far.
        is_running: Whether there is a thread.
    """

    __slots__ = ("__weakref__", "_due", "_stop", "_wal", "count", "is_running")

    def __init__(self, path: str) -> None:
        """Sync the WAL of the file at *path*."""
        self._wal = f"{path}-wal"
        self._due = False
        self.is_running = False
        self._stop = Lock()
        self._stop.acquire()
        self.count = 0

    def note_commit(self) -> int:
        """Sync what was just committed within a second; return 0, as there is no need to wait."""
        self._due = True
        if not self.is_running:
            self.is_running = True
            try:
                Thread(target=_run, args=(ref(self), self._stop.acquire), daemon=True).start()
            except RuntimeError:  # no more threads: the next commit tries again
                self.is_running = False
        return 0

    def wait(self, number: int, wal: tuple[int, int] | None) -> None:
        """Do not wait."""

    def sync_if_due(self) -> bool:
        """Sync what was committed since the last call; return False to end the thread."""
        if not self._due:
            self.is_running = False
            # A commit may have come just before: it counts on this thread.
            if not self._due or self.is_running:
                return False
            self.is_running = True
        self._due = False
        try:
            # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
            handle = os.open(self._wal, os.O_RDWR)
        except FileNotFoundError:
            return True  # moved into the file, which a checkpoint syncs
        except OSError:
            self._due = True
            return True
        try:
            sync_handle(handle, self._wal)
            self.count += 1
        except OSError:
            self._due = True
        finally:
            os.close(handle)
        return True

    def stop(self) -> None:
        """End the thread, soon."""
        if self._stop.locked():
            self._stop.release()


def _run(sync: ref[IdleSync], stop: Callable[[bool, float], bool]) -> None:
    """Sync once an interval until nothing is due, the file is closed or its handle is gone."""
    while not stop(True, INTERVAL_S):
        due = sync()
        if due is None or not due.sync_if_due():
            return
        del due
    closed = sync()
    if closed is not None:
        closed.is_running = False
