"""
Changes of a file while it is open: sessions, and kinds of rows.

Each call compares the file with its state at the previous call. The comparison uses no clock:
sessions are compared by their length, everything else by the counts of each writer
(`Maintenance.changes`). So a change by any program is found, however soon the next one follows. A
mark contains these numbers too. So a mark of another program, or of this one before it was closed,
shows which kinds of rows changed. Such a mark does not show which sessions got messages.
"""

from __future__ import annotations

import os
import re
from array import array
from hashlib import blake2b
from threading import Lock
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from memdb.errors import Closed, InvalidInput
from memdb.models.reports import Changes
from memdb.tables import sessions
from memdb.text.validate import text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from memdb.engine.base import Engine

# More are not named: who keeps so many reads all of them again.
MOST_SESSIONS = 500

MIN_INTERVAL_S, MAX_INTERVAL_S = 0.01, 3600

# To compare very many sessions takes up to a tenth of the time.
REST = 9

# A log, how often it found something by then, the counts by kind and a digest of the lengths.
_MARK = (
    r"(?P<name>[0-9a-f]{16})-(?P<number>[0-9]{1,18})-(?P<state>(?:[a-z]+:[0-9a-f]+\.)*[0-9a-f]{12})"
)

# A commit that changed nothing of what is compared.
OTHER = "other"


class ChangeLog:
    """
    Tracks changes since it was made, for any number of callers.

    Memory: 150 bytes per session.
    """

    def __init__(self, db: Engine) -> None:
        """Begin with the present state of the file."""
        self._db = db
        self._name = os.urandom(8).hex()
        self._lock = Lock()
        self._number = 0  # grows when something changed
        self._sessions: dict[int, int] = {}  # the number that it changed at, by id
        self._kinds: dict[str, int] = {}
        self._stamp: int | None = None
        self._commits = -1
        self._lengths: Mapping[int, int] = {}
        self._counts: Mapping[str, int] = {}
        self._state = (-1, "")  # the number that it was written at
        self._compare()
        self._number = 0
        self._kinds.clear()
        self._sessions.clear()

    def since(self, mark: str | None) -> Changes:
        """
        Return the changes since *mark*; None means now, so there are none.

        Raises:
            FileError: the file was removed, replaced, or migrated by a newer memdb.
        """
        self._db.refuse_inside("changes")
        with self._lock:
            self._compare()
            state = self._written_state()
            now = f"{self._name}-{self._number}-{state}"
            if mark is None or mark == now:
                return Changes(now)
            known = re.fullmatch(_MARK, text_value(mark, "since"))
            if known is None:
                return Changes(now, is_complete=False)
            if known["name"] != self._name or int(known["number"]) > self._number:
                return Changes(now, (), *_compare_states(known["state"], state))
            then = int(known["number"])
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
        Return an iterator over all changes from now on, until the file is closed.

        Args:
            interval_s: Seconds between two comparisons; more after a slow one.
            sleep: Waits this many seconds.

        Raises:
            InvalidInput: *interval_s* is out of range.
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

    def _written_state(self) -> str:
        """Return the counts by kind and a digest of the lengths, as a mark contains them."""
        number, state = self._state
        if number != self._number:
            lengths = array("q", [*self._lengths, *self._lengths.values()])
            digest = blake2b(lengths.tobytes(), digest_size=6).hexdigest()
            counts = [f"{kind}:{self._counts[kind]:x}" for kind in sorted(self._counts)]
            state = ".".join([*counts, digest])
            self._state = (self._number, state)
        return state

    def _compare(self) -> None:
        """Compare the file with what the last comparison found, if anybody has written since."""
        stamp, commits = self._db.stamp(start=True), self._db.commits
        if stamp is not None and stamp == self._stamp:
            self._db.maintenance.refuse_replaced()
            return
        with self._db.read() as tx:
            counts = self._db.maintenance.changes(tx)
            lengths = sessions.read_lengths(tx)
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


def _compare_states(before: str, now: str) -> tuple[tuple[str, ...], bool]:
    """Return the kinds that changed between two states, and whether there is no other change."""
    *old, lengths = before.split(".")
    *new, lengths_now = now.split(".")
    kinds = {one.partition(":")[0] for one in {*old} ^ {*new}}
    return tuple(sorted(kinds)), lengths == lengths_now
