"""
What changed in a file while it is open: which sessions, and which kinds of things.

Each call compares the file with what the one before found. It asks no clock: sessions are
compared by their length, all else by the counts that each writer keeps (`Maintenance.changes`).
So a change is found whoever made it, and however fast the next one came.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from time import perf_counter, sleep

from memdb.errors import Closed, InvalidInput
from memdb.models.overviews import Changes
from memdb.tables import sessions
from memdb.text.validate import text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from memdb.engine.base import Engine

# More are not named: who keeps so many reads all of them again.
MOST_SESSIONS = 500

MIN_INTERVAL_S, MAX_INTERVAL_S = 0.01, 3600

# To compare very many sessions takes up to a tenth of the time.
REST = 9

# A commit that changed nothing of what is compared.
OTHER = "other"


class ChangeLog:
    """
    Remembers what changed since it was made, for any number of those who ask.

    Memory: 150 bytes per session.
    """

    def __init__(self, db: Engine) -> None:
        """Begin with the file as it is now."""
        self._db = db
        self._name = os.urandom(8).hex()
        self._lock = allocate_lock()
        self._number = 0  # grows when something changed
        self._sessions: dict[int, int] = {}  # the number that it changed at, by id
        self._kinds: dict[str, int] = {}
        self._stamp: int | None = None
        self._commits = -1
        self._lengths: Mapping[int, int] = {}
        self._counts: Mapping[str, int] = {}
        self._compare()
        self._number = 0
        self._kinds.clear()
        self._sessions.clear()

    def since(self, mark: str | None) -> Changes:
        """
        Return what changed since *mark*; None means now, so nothing did.

        Raises:
            FileError: the file was removed, replaced, or migrated by a newer memdb.
        """
        self._db.refuse_inside("changes")
        with self._lock:
            self._compare()
            now = f"{self._name}-{self._number}"
            if mark is None or mark == now:
                return Changes(now)
            name, _, number = text_value(mark, "since").rpartition("-")
            if name != self._name or not number.isdecimal():
                return Changes(now, is_complete=False)
            then = int(number)
            kinds = tuple(sorted(kind for kind, at in self._kinds.items() if at > then))
            ids = [no for no, at in self._sessions.items() if at > then]
        if len(ids) > MOST_SESSIONS:
            return Changes(now, (), kinds, is_complete=False)
        with self._db.read() as tx:
            return Changes(now, sessions.find_places(tx, ids) if ids else (), kinds)

    def watch(
        self, interval_s: float, sleep: Callable[[float], object] = sleep
    ) -> Iterator[Changes]:
        """
        Return what yields each change from now on, until the file is closed.

        Args:
            interval_s: Seconds between two comparisons; more after one that took long.
            sleep: Waits so many seconds.

        Raises:
            InvalidInput: *interval_s* is no such number.
        """
        is_number = isinstance(interval_s, (int, float))
        if not is_number or not MIN_INTERVAL_S <= interval_s <= MAX_INTERVAL_S:
            raise InvalidInput(
                f"interval_s is {interval_s!r}: give 0.01 to {MAX_INTERVAL_S} seconds"
            )
        return self._watch(self.since(None).mark, interval_s, sleep)

    def _watch(
        self, mark: str, interval_s: float, sleep: Callable[[float], object]
    ) -> Iterator[Changes]:
        took_s = 0.0
        while not self._db.is_closed:
            sleep(max(interval_s, REST * took_s))
            start_s = perf_counter()
            try:
                found = self.since(mark)
            except Closed:
                return
            took_s = perf_counter() - start_s
            mark = found.mark
            if not found.is_empty:
                yield found

    def _compare(self) -> None:
        """Compare the file with what the last comparison found, if anybody has written since."""
        stamp, commits = self._db.stamp(start=True), self._db.commits
        if stamp is not None and stamp == self._stamp:
            self._db.maintenance.refuse_replaced()
            return
        with self._db.read() as tx:
            counts, lengths = self._db.maintenance.changes(tx), sessions.read_lengths(tx)
        kinds = [kind for kind, count in counts.items() if self._counts.get(kind) != count]
        before = self._lengths
        grown = [no for no, length in lengths.items() if before.get(no) != length]
        # Without a stamp, as in memory or while it cannot be read, own commits tell.
        is_written = commits != self._commits if stamp is None else stamp != self._stamp
        self._counts, self._lengths, self._commits = counts, lengths, commits
        self._stamp = self._stamp if stamp is None else stamp
        if not kinds and not grown:
            if not is_written:
                return
            kinds = [OTHER]
        self._number += 1
        self._kinds.update(dict.fromkeys(kinds, self._number))
        self._sessions.update(dict.fromkeys(grown, self._number))
        for no in before.keys() - lengths.keys():
            self._sessions.pop(no, None)
