"""
Turns of the processes that write: who had one lets those that wait go first.

SQLite gives the lock to whoever asks in the right moment. Where several processes write without a
pause, each would lose it after a commit or two, and each change of hands costs as much as five
more commits: what a connection has in memory of the file is void, and so are the caches of the
processor. So who has written without a pause and finds the lock taken lets the others go first:
for as long as its own turn was times eight, at most 15 ms, and no longer than they write. Who
writes now and then never does. Nothing is shared between processes but the lock of SQLite, so none
can keep it from another, however it ends (ADR-0043).
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

from memdb.engine.sqlite.connection import BusyHandler
from memdb.errors import Busy, MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable

# Longest time for which others go first, and of the own turn before.
MOST_S = 0.015
TIMES = 8

# Pauses after which it is looked whether the others still write. A look costs 50 µs of CPU.
PAUSES_S = (0.002, 0.002, MOST_S)

# A longer time without a write ends a turn: others get the lock meanwhile anyway.
IDLE_S = 0.001

# Who waits for less than this lets nobody go first.
LEAST_MS = 100


class Turns(BusyHandler):
    """The handler of a connection that writes, which lets those of other processes go first."""

    __slots__ = ("_began", "_ended", "_tries_once")

    def __init__(self, timeout_ms: int) -> None:
        """Wait up to *timeout_ms*."""
        super().__init__(timeout_ms)
        self._began = self._ended = 0.0  # the turn, and the last write in it
        self._tries_once = False

    def __call__(self, tries: int) -> bool:
        """Sleep; return False to give up."""
        return not self._tries_once and super().__call__(tries)

    def begin(self, begin: Callable[[], None], version: Callable[[], int]) -> None:
        """
        Take the lock of writers by *begin*; *version* changes when another connection commits.

        Cost: 0.5 µs if nobody has the lock.

        Raises:
            Busy: others had it for longer than the timeout.
        """
        is_in_turn = monotonic() - self._ended < IDLE_S
        self._tries_once = is_in_turn and self.timeout_ms >= LEAST_MS
        if self._tries_once:
            if self._has_begun(begin):
                return
            self._let_others(version)
        begin()
        self._began = monotonic()

    def _has_begun(self, begin: Callable[[], None]) -> bool:
        """Ask once for the lock; return whether it was free."""
        try:
            begin()
        except Busy:
            return False
        finally:
            self._tries_once = False
        return True

    def end(self) -> None:
        """Note the end of a write."""
        self._ended = monotonic()

    def _let_others(self, version: Callable[[], int]) -> None:
        """Wait while others write, for as long as they may go first."""
        now = monotonic()
        end = now + min(MOST_S, (now - self._began) * TIMES)
        seen = -1
        for pause_s in PAUSES_S:
            try:
                last, seen = seen, version()
            except MemDBError:  # `begin` tells
                return
            left = end - monotonic()
            if last == seen or left <= 0:
                return
            sleep(min(pause_s, left))
