"""
Lifecycle of entries: usage counts, quota with eviction, expiry, and removal of inactive ones.

`remember` counts uses and makes room; `jobs` runs `expire` and `remove_inactive`.
"""

from __future__ import annotations

from heapq import nsmallest
from threading import Lock
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError
from memdb.models.entries import decay_of
from memdb.models.ids import scope_of
from memdb.records import entries, entry_writer
from memdb.tables import entries as entry_rows
from memdb.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from memdb.engine.base import Engine, Row, Tx
    from memdb.entries.categories import Categories
    from memdb.models.entries import Entry


# Rows per write transaction of a sweep, so that other writers wait little.
BATCH = 500

# Uses are written after this time, or when so many entries have some.
FLUSH_MS = 3_600_000
MAX_COUNTED = 10_000

PERCENT = 100


class UsageCounter:
    """
    Counts how often entries are used, without a write per use. Thread-safe.

    Counts are kept in memory. The counts are written with the next write of an entry of the
    same scope, once an hour, or when the file is closed. A crash loses those, and nothing else.
    """

    def __init__(self, db: Engine) -> None:
        """Count for *db*."""
        self._db = db
        self._lock = Lock()
        # Scope -> entry -> how often, and when last.
        self._counts: dict[int, dict[int, tuple[int, int]]] = {}
        self._entries = 0
        self._since_ms = 0

    def note(self, ids: Iterable[int]) -> None:
        """Count one use of each entry now; do nothing for a file that is only read."""
        if self._db.is_read_only:
            return
        now_ms = self._db.clock()
        with self._lock:
            if not self._counts:
                self._since_ms = now_ms
            for entry_id in ids:
                counts = self._counts.setdefault(scope_of(entry_id), {})
                self._entries += entry_id not in counts
                times, last_ms = counts.get(entry_id, (0, now_ms))
                counts[entry_id] = (times + 1, max(last_ms, now_ms))
            due = self._entries > MAX_COUNTED or now_ms - self._since_ms >= FLUSH_MS
        if due and not self._db.writing:
            self.flush()

    def write(self, tx: Tx, scope_no: int) -> None:
        """Write the counts of a scope, in a transaction that writes anyway."""
        if scope_no not in self._counts:
            return
        with self._lock:
            counts = self._counts.pop(scope_no, {})
            self._entries -= len(counts)
        entry_rows.note_used(tx, [(entry_id, *count) for entry_id, count in counts.items()])

    def flush(self) -> None:
        """Write the counts; they are lost if the file cannot be written."""
        if not self._counts:
            return
        try:
            with self._db.write() as tx:
                for scope_no in list(self._counts):
                    self.write(tx, scope_no)
        except MemDBError:
            return


def entry_worth(
    importance: int,
    use_count: int,
    category: str,
    last_ms: int,
    now_ms: int,
    half_lives_ms: Mapping[str, int | None],
) -> float:
    """
    Return the value of an entry for the quota; the entries of least value are evicted.

    importance / 10 * decay since it was last stated or used, plus a tenth per
    doubling of its uses.

    >>> entry_worth(5, 0, "events", 0, 60_000, {"events": 60_000})
    0.25
    """
    faded = importance / 10 * decay_of(category, last_ms, now_ms, half_lives_ms)
    return faded + 0.1 * ((use_count + 1).bit_length() - 1)


class Quota:
    """Limits the active entries of each scope by evicting the least valuable ones."""

    def __init__(self, categories: Categories, limit: int) -> None:
        """Allow *limit* active entries per scope, and each category its share of them."""
        self._limit = limit
        self._categories = categories

    def count_active(self, tx: Tx, scope_no: int) -> int:
        """Return the number of active entries of a scope, or a larger number below the limit."""
        return _count_active(tx, scope_no, self._limit)

    def has_room(self, tx: Tx, scope_no: int, active: int) -> bool:
        """Return whether one more entry fits beside *active* ones, if necessary by an eviction."""
        return active < self._limit or entry_rows.has_active(tx, scope_no, pinned=False)

    def make_room(self, tx: Tx, scope_no: int, newest: Entry, active: int | None = None) -> None:
        """
        Evict entries over the quota: ended ones first, then the least valuable.

        Pinned entries and *newest* stay. An evicted entry is kept, and becomes active again when
        its fact is stated again.

        Args:
            active: Number of active entries of the scope; None counts them.
        """
        share = self._categories.get(newest.category).quota_percent
        if share < PERCENT:
            limit = self._limit * share // PERCENT or 1
            in_category = _count_active(tx, scope_no, limit, newest.category)
            evicted = self._evict(tx, scope_no, newest, in_category - limit, newest.category)
            active = None if evicted else active
        if active is None:
            active = self.count_active(tx, scope_no)
        self._evict(tx, scope_no, newest, active - self._limit, None)

    def _evict(
        self, tx: Tx, scope_no: int, newest: Entry, excess: int, category: str | None
    ) -> bool:
        """Make *excess* entries inactive; False if there is no excess."""
        if excess <= 0:
            return False
        lives = self._categories.half_lives_ms()

        def rank(row: Row) -> tuple[bool, float, int]:
            entry_id, kind, importance, uses, last_ms, ended = row
            worth = entry_worth(importance, uses, kind, last_ms, tx.now_ms, lives)
            return (not ended, worth, entry_id)

        rows = entry_rows.list_evictable(tx, scope_no, newest.id, tx.now_ms, category)
        for row in nsmallest(excess, rows, key=rank):
            entry_writer.update(tx, row[0], "expire" if row[5] else "evict", active=0)
        return True


def _count_active(tx: Tx, scope_no: int, limit: int, category: str | None = None) -> int:
    """
    Return the number of active entries of a scope, or a larger number below *limit*.

    A scope that has assigned fewer ids than the limit is not full, so nothing is counted.
    """
    most = scopes.last_n(tx, scope_no)
    return most if most < limit else entry_rows.count_active(tx, scope_no, category)


def expire(db: Engine) -> int:
    """
    Make entries inactive that expired or stopped being true; return how many.

    Reads skip them in any case. Inactive entries count for no quota, and `remove_inactive` can
    remove them.
    """
    done = after = 0
    while True:
        with db.write() as tx:
            ids = entry_rows.list_ended(tx, after, tx.now_ms, BATCH)
            for entry_id in ids:
                entry_writer.update(tx, entry_id, "expire", active=0)
        done += len(ids)
        if len(ids) < BATCH:
            return done
        after = ids[-1]


def remove_inactive(db: Engine, older_than_ms: int) -> int:
    """
    Remove entries that have been inactive for longer than *older_than_ms*; return how many.

    Their history is removed too, so answers about the time when they were active no longer have
    them. Pinned entries stay.

    Raises:
        InvalidInput: the age is below 0, or not an int.
    """
    if not isinstance(older_than_ms, int) or isinstance(older_than_ms, bool) or older_than_ms < 0:
        raise InvalidInput(f"older_than_ms is {older_than_ms!r}: give milliseconds from 0")
    done = after = 0
    before_ms = db.clock() - older_than_ms
    while True:
        with db.write() as tx:
            ids = entry_rows.list_inactive(tx, after, before_ms, BATCH)
            for entry_id in ids:
                entries.remove(tx, entry_id)
        done += len(ids)
        if len(ids) < BATCH:
            return done
        after = ids[-1]
