"""
Which threads read, how many connections they have, and who waits for one.

Each connection costs two descriptors, and each thread inside SQLite competes with the one that
writes. So `MAX_READERS` threads read at a time; the others are served in turn. A thread that
reads keeps its connection for the reads inside, so it never waits for another. Who holds one
for long (a slow consumer of an export) cannot stop the others: if none was handed on in
`PATIENCE_S`, the next thread gets one more.
"""

from __future__ import annotations

from _thread import RLock, allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from memdb.engine.sqlite.connection import Tx

# Connections that read at a time, and that are kept for the next reads.
MAX_READERS = 6

# Longest time without one that is handed on, in seconds.
PATIENCE_S = 0.25


class Waiter:
    """A thread that waits: it is woken with a connection, or with None to open one."""

    __slots__ = ("lock", "reader")

    def __init__(self) -> None:
        """Start asleep."""
        self.lock = allocate_lock()
        self.lock.acquire()
        self.reader: Tx | None = None


class Readers:
    """
    Connections for reading: lends and takes back.

    Attributes:
        idle: Those that nobody uses.
        using: The outermost reading block of each thread.
    """

    __slots__ = ("_change", "_extra", "_served", "_waiting", "idle", "using")

    def __init__(self) -> None:
        """Start without connections."""
        self.idle: list[Tx] = []
        self.using: dict[int, Any] = {}
        self._waiting: list[Waiter] = []
        self._change = RLock()  # `with` on it cannot be interrupted before its body
        self._extra = 0  # for those that hold one for long
        self._served = 0  # how often one was handed on

    def take(self, block: Any, open_one: Callable[[], Tx]) -> Tx:
        """
        Return a connection that nobody else uses; wait if all are in use. Cost: 0.5 µs.

        Args:
            block: The `memdb.engine.sqlite.pool.Block` that uses it, with its thread.
        """
        if not self._waiting:
            self.using[block.thread] = block  # first, so that nobody counts too few
            try:
                return self.idle.pop()
            except IndexError:
                pass
        waiter = self._join(block)
        if waiter is not None:
            reader = self._wait(waiter)
            self.using[block.thread] = block
            if reader is not None:
                return reader
        return open_one()

    def _join(self, block: Any) -> Waiter | None:
        """Return where *block* waits, None if it may open a connection."""
        with self._change:
            if not self._waiting and len(self.using) <= MAX_READERS + self._extra:
                self.using[block.thread] = block
                return None
            self.using.pop(block.thread, None)
            if self.idle:  # whoever was woken for it was interrupted
                self._wake(self.idle.pop())
            waiter = Waiter()
            self._waiting.append(waiter)
            return waiter

    def _wait(self, waiter: Waiter) -> Tx | None:
        """Return the connection that *waiter* was given, None if it is to open one."""
        served = -1
        try:
            while served != self._served:
                served = self._served
                if waiter.lock.acquire(timeout=PATIENCE_S):
                    break
        except BaseException:
            with self._change:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                elif not self._waiting:
                    self.idle += filter(None, [waiter.reader])
                else:
                    self._wake(waiter.reader)
            raise
        with self._change:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._extra += 1
        return waiter.reader

    def give_back(self, reader: Tx | None) -> bool:
        """Keep a connection or hand it on, None for one that is closed; False: it is too many."""
        if self._waiting:
            with self._change:
                if self._waiting:
                    self._served += 1
                    self._wake(reader)
                    return True
        if reader is None:
            return True
        if len(self.idle) >= MAX_READERS:
            return False
        if self._extra:
            self._extra -= 1
        self.idle.append(reader)
        return True

    def _wake(self, reader: Tx | None) -> None:
        waiter = self._waiting.pop(0)
        waiter.reader = reader
        waiter.lock.release()
