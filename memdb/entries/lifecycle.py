"""
The life of entries after they were told: what ends, what is set aside, what goes.

Nothing here runs by itself; `remember` makes room, and a scheduler calls the sweeps.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.decay import decay_of
from memdb.records import entries
from memdb.tables import active_entries
from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Row, Tx
    from memdb.entries.categories import Categories
    from memdb.models.messages import Entry

# Active entries of a user. Source: koopa.
DEFAULT_QUOTA = 1_000
MAX_QUOTA = 1_000_000

# Rows per write transaction of a sweep, so that writers need not wait long.
BATCH = 500

DAY_MS = 86_400_000
WHOLE = 100


def value(
    importance: int,
    use_count: int,
    category: str,
    last_ms: int,
    now_ms: int,
    half_lives_ms: Mapping[str, int | None],
) -> float:
    """
    Return what an entry is worth keeping: importance and use, faded by its age.

    importance / 10 * decay since it was last said or used, and a tenth per
    doubling of its uses. Of equal value, the older goes first.

    >>> value(5, 0, "events", 0, 30 * DAY_MS, {"events": 30 * DAY_MS})
    0.25
    """
    faded = importance / 10 * decay_of(category, last_ms, now_ms, half_lives_ms)
    return faded + 0.1 * ((use_count + 1).bit_length() - 1)


class Quota:
    """Keeps the active entries of each scope below a number, by setting the least worth aside."""

    def __init__(self, categories: Categories, limit: int = DEFAULT_QUOTA) -> None:
        """Allow *limit* active entries per user, and each category its share of them."""
        self._limit = int_value(limit, "entry_quota", 1, MAX_QUOTA)
        self._categories = categories

    def has_room(self, tx: Tx, scope_no: int) -> bool:
        """Say whether one more entry fits, if need be by setting another aside."""
        if active_entries.active(tx, scope_no) < self._limit:
            return True
        return bool(active_entries.worth(tx, scope_no, 0, tx.now_ms))

    def make_room(self, tx: Tx, scope_no: int, newest: Entry) -> None:
        """
        Set aside what is over the quota: what ended first, then what is least worth.

        Never what is pinned, and not *newest*. What is set aside is kept, and
        holds again when it is said again.
        """
        share = self._categories.get(newest.category).quota_percent
        if share < WHOLE:
            self._shrink(tx, scope_no, newest, self._limit * share // WHOLE or 1, newest.category)
        self._shrink(tx, scope_no, newest, self._limit, None)

    def _shrink(
        self, tx: Tx, scope_no: int, newest: Entry, limit: int, category: str | None
    ) -> None:
        excess = active_entries.active(tx, scope_no, category) - limit
        if excess <= 0:
            return
        lives = self._categories.half_lives_ms()

        def rank(row: Row) -> tuple[bool, float, int]:
            entry_id, kind, importance, uses, last_ms, ended = row
            worth = value(importance, uses, kind, last_ms, tx.now_ms, lives)
            return (not ended, worth, entry_id)

        rows = sorted(active_entries.worth(tx, scope_no, newest.id, tx.now_ms, category), key=rank)
        for row in rows[:excess]:
            entries.update(tx, row[0], "expire" if row[5] else "evict", active=0)


def expire(db: Database) -> int:
    """
    Set aside what expired or is no longer true; return how many entries.

    Nobody sees them in any case: this only makes them inactive, so that
    retention can remove them and they count for no quota.
    """
    done = after = 0
    while True:
        with db.write() as tx:
            ids = active_entries.ended(tx, after, tx.now_ms, BATCH)
            for entry_id in ids:
                entries.update(tx, entry_id, "expire", active=0)
        done += len(ids)
        if len(ids) < BATCH:
            return done
        after = ids[-1]


def remove_inactive(db: Database, older_than_ms: int) -> int:
    """
    Remove inactive entries that have been so for longer than *older_than_ms*; return how many.

    With their history: an as-of answer about a time in which they held leaves
    them out from then on. Pinned ones stay.

    Raises:
        InvalidInput: the age is below 0.
    """
    if not isinstance(older_than_ms, int) or isinstance(older_than_ms, bool) or older_than_ms < 0:
        raise InvalidInput(f"older_than_ms is {older_than_ms!r}: give milliseconds from 0")
    done = after = 0
    before_ms = db.clock() - older_than_ms
    while True:
        with db.write() as tx:
            ids = active_entries.inactive(tx, after, before_ms, BATCH)
            for entry_id in ids:
                entries.remove(tx, entry_id)
        done += len(ids)
        if len(ids) < BATCH:
            return done
        after = ids[-1]
