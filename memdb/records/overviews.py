"""
Overviews of a scope: new rows by day, in as few groups as a map can show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.reports import DayCount, ScopeCounts
from memdb.tables import entries, overviews
from memdb.tables.overviews import EPOCH_DAYS, DayCounts, DaySpan
from memdb.text.validate import DAY_MS, MINUTE_MS, int_value, span_value

if TYPE_CHECKING:
    from memdb.engine.base import Engine
    from memdb.records.scopes import ScopeRef

MAX_BUCKETS = 600
DAY_MINUTES = 1440


def count_scope(
    db: Engine, owner: ScopeRef, since_ms: int | None, until_ms: int | None, offset_minutes: int
) -> ScopeCounts:
    """Return the counts of a scope, as `Scope.counts` describes it."""
    offset_ms = MINUTE_MS * int_value(offset_minutes, "offset_minutes", -DAY_MINUTES, DAY_MINUTES)
    span = DaySpan(*span_value(since_ms, until_ms), offset_ms)
    with db.read() as tx:
        scope_no = owner.find(tx)
        if scope_no is None:
            return ScopeCounts((), 1, (), is_complete=True)
        counts = overviews.count_days(tx, scope_no, span)
        categories = entries.count_states(tx, scope_no, db.clock())
    days, bucket_days = _buckets(counts, offset_ms)
    return ScopeCounts(days, bucket_days, categories, counts.is_complete)


def _buckets(counts: DayCounts, offset_ms: int) -> tuple[tuple[DayCount, ...], int]:
    """Return the counts in groups of one size, and how many days a group has."""
    kinds = (counts.messages, counts.sessions, counts.entries)
    days = sorted({day for of in kinds for day in of})
    if not days:
        return (), 1
    size = -(-(days[-1] - days[0] + 1) // MAX_BUCKETS)
    sums: dict[int, list[int]] = {}
    for day in days:
        bucket = sums.setdefault((day - days[0]) // size, [0, 0, 0])
        for place, of in enumerate(kinds):
            bucket[place] += of.get(day, 0)
    first_ms = (days[0] - EPOCH_DAYS) * DAY_MS - offset_ms
    return tuple(
        DayCount(first_ms + number * size * DAY_MS, *of) for number, of in sums.items()
    ), size
