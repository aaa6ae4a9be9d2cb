"""
SQLite's file system as a shim: records what is written, or fails the n-th call; and its memory.

While a shim is installed it is the default of the process, so that memdb opens all of its
files through it. Connections of the tests use the plain one: `vfs="unix"`.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import apsw

from memdb.engine.sqlite import wal_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = apsw.vfs_names()[0]

# How long connections of tests wait for those of memdb, one of which may recover the WAL.
WAIT_MS = 10_000

# What a call of each kind fails with: what the system, and so SQLite, says of it.
CODES = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "full": apsw.SQLITE_FULL,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "unlink": apsw.SQLITE_IOERR_DELETE,
    "lock": apsw.SQLITE_IOERR_LOCK,
}


@dataclass(frozen=True)
class Event:
    """One call of SQLite: "open", "read", "write", "sync", "truncate", "unlink" or "lock"."""

    kind: str
    path: str
    offset: int = 0
    data: bytes = b""


class Watcher(Protocol):
    """What a shim tells of each call before it is made; it may raise."""

    def __call__(self, event: Event) -> None:
        """Note the call, or refuse it."""


class ShimFile(apsw.VFSFile):
    """A file whose calls are told to a watcher."""

    def __init__(
        self, name: str | apsw.URIFilename | None, flags: list[int], watcher: Watcher
    ) -> None:
        """Open the file as SQLite's own VFS does."""
        self._path = path_of(name)
        self._tell = watcher
        super().__init__(PLAIN, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        """Read."""
        self._tell(Event("read", self._path))
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Write."""
        self._tell(Event("write", self._path, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        """Wait for the disk."""
        self._tell(Event("sync", self._path))
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        """Cut."""
        self._tell(Event("truncate", self._path, newsize))
        super().xTruncate(newsize)

    def xLock(self, level: int) -> None:
        """Lock."""
        self._tell(Event("lock", self._path))
        super().xLock(level)


class Shim(apsw.VFS):
    """The default file system of the process until `retire`."""

    # Never freed: a thread of memdb may still be opening a file through one (SQLite would crash).
    _retired: ClassVar[list[Self]] = []

    def __init__(self, watcher: Watcher) -> None:
        """Tell *watcher* of each call."""
        self._tell = watcher
        super().__init__("memdb-tests", PLAIN, makedefault=True)

    def retire(self) -> None:
        """Give the default back; what is open goes on."""
        self.unregister()
        self._tell = lambda event: None
        self._retired.append(self)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> ShimFile:
        """Open."""
        self._tell(Event("open", path_of(name)))
        return ShimFile(name, flags, self._tell)

    def xDelete(self, name: str, syncdir: bool) -> None:
        """Remove."""
        self._tell(Event("unlink", name))
        super().xDelete(name, syncdir)


def path_of(name: str | apsw.URIFilename | None) -> str:
    """Return the path of a file; "" for a temporary one."""
    return name.filename() if isinstance(name, apsw.URIFilename) else name or ""


class Fault:
    """
    Fails the n-th call of a kind while it is entered, once or from then on; counts the calls.

    Attributes:
        calls: How many calls of the kind there were.
        hit: Whether one was failed.
    """

    def __init__(self, kind: str, nth: int = 0, *, once: bool = True) -> None:
        """Count from 1; 0 fails none."""
        self.kind = kind
        self.nth = nth
        self.once = once
        self.calls = 0
        self.armed = False

    @property
    def hit(self) -> bool:
        """Whether a call was failed."""
        return 0 < self.nth <= self.calls

    def __enter__(self) -> Self:
        """Begin to count."""
        self.armed = True
        return self

    def __exit__(self, *_: object) -> None:
        """Let all calls pass from here on."""
        self.armed = False

    def __call__(self, event: Event) -> None:
        """Count the call, and refuse it when its turn has come."""
        if not self.armed or event.kind != ("write" if self.kind == "full" else self.kind):
            return
        self.calls += 1
        if self.nth and (self.calls == self.nth or (self.calls > self.nth and not self.once)):
            raise apsw.exception_for(CODES[self.kind])


class Recorder:
    """Keeps every change of a file in the order in which SQLite asked for it."""

    def __init__(self) -> None:
        """Start with none."""
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keep the call unless it only reads or locks."""
        if event.kind not in ("read", "lock"):
            self.events.append(event)


class Stall:
    """Holds the first read of a WAL by one thread until `go` is set: a slow recovery."""

    def __init__(self, thread: str) -> None:
        """Hold the thread of the name *thread*."""
        self._thread = thread
        self.is_inside, self.go = threading.Event(), threading.Event()

    def __call__(self, event: Event) -> None:
        """Wait in the first read."""
        is_first = event.path.endswith("-wal") and not self.is_inside.is_set()
        if event.kind == "read" and is_first and threading.current_thread().name == self._thread:
            self.is_inside.set()
            self.go.wait()


@contextlib.contextmanager
def starved(spare: int) -> Iterator[None]:
    """Let SQLite have *spare* bytes more than it holds, and no more."""
    apsw.hard_heap_limit(apsw.memory_used() + spare)
    try:
        yield
    finally:
        apsw.hard_heap_limit(0)
        # Else SQLite goes on to believe that memory is short, in every file of the process.
        apsw.soft_heap_limit(0)


@contextlib.contextmanager
def installed(watcher: Watcher) -> Iterator[Watcher]:
    """
    Let all connections opened meanwhile go through a shim that tells *watcher*.

    Also the sync that memdb makes itself, after a commit.
    """
    shim = Shim(watcher)
    sync = wal_sync.sync_handle

    def tell(handle: int, path: str) -> None:
        try:
            watcher(Event("sync", path))
        except apsw.Error as error:
            raise OSError(errno.EIO, "the disk refuses") from error
        sync(handle, path)

    wal_sync.sync_handle = tell
    try:
        yield watcher
    finally:
        wal_sync.sync_handle = sync
        shim.retire()


class Settings:
    """
    What each new connection is set to while it is entered: a small page cache.

    It waits for others as any connection of memdb does, whose handler is set after these: else
    one that recovers the WAL at that moment would fail it.
    """

    def __init__(self, *pragmas: str) -> None:
        """Run *pragmas* on each connection."""
        self._pragmas = pragmas

    def _apply(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(WAIT_MS)
        for pragma in self._pragmas:
            connection.execute(pragma).fetchall()

    def __enter__(self) -> Self:
        """Start."""
        apsw.connection_hooks.append(self._apply)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        apsw.connection_hooks.remove(self._apply)
