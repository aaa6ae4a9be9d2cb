"""
Counts of a scope by day, category and state. The module owns no table and writes nothing.

A day is a number: days since 1970 by the given offset, plus `EPOCH_DAYS`. So no number is below 0,
and integer division is the same in every engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.ids import scope_range
from memdb.models.record import Record
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from memdb.engine.base import Tx

MOST_MESSAGES = 1_000_000
EPOCH_DAYS = 1_000_000

# The times stand in the rows alone: an index of them would cost each append. The scan reads
# the scope's own range, the newest ids first.
SELECT_MESSAGE_DAYS = """/* overviews.message_days */
SELECT
  (created_ms + :shift_ms) / 86400000 AS day,
  count(*),
  CAST(
    sum(CASE WHEN created_ms >= :since_ms AND created_ms < :until_ms THEN 1 ELSE 0 END) AS BIGINT
  )
FROM (
  SELECT created_ms FROM messages WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT :most
) AS newest
GROUP BY day
ORDER BY day
"""

SELECT_SESSION_DAYS = """/* overviews.session_days */
SELECT (created_ms + :shift_ms) / 86400000 AS day, count(*)
FROM sessions
WHERE
  id BETWEEN :low AND :high
  AND branch = ''
  AND created_ms >= :since_ms
  AND created_ms < :until_ms
GROUP BY day
ORDER BY day
"""

SELECT_ENTRY_DAYS = """/* overviews.entry_days */
SELECT (created_ms + :shift_ms) / 86400000 AS day, count(*)
FROM entries
WHERE id BETWEEN :low AND :high AND created_ms >= :since_ms AND created_ms < :until_ms
GROUP BY day
ORDER BY day
"""


class DaySpan(Record):
    """Range of a count: from *since_ms* up to *until_ms*, exclusive; days by an offset in ms."""

    since_ms: int
    until_ms: int
    offset_ms: int


class DayCounts(Record):
    """Counts by the number of the day; *is_complete*: whether no message was left out."""

    messages: dict[int, int]
    sessions: dict[int, int]
    entries: dict[int, int]
    is_complete: bool


def count_days(tx: Tx, scope_no: int, span: DaySpan) -> DayCounts:
    """Return the number of new rows of a scope by day. 40 ms per 100,000 messages."""
    low, high = scope_range(scope_no)
    values = {
        "low": low,
        "high": high,
        "since_ms": span.since_ms,
        "until_ms": span.until_ms,
        "shift_ms": span.offset_ms + EPOCH_DAYS * DAY_MS,
    }
    rows = tx.all(SELECT_MESSAGE_DAYS, {**values, "most": MOST_MESSAGES})
    return DayCounts(
        {day: chosen for day, _, chosen in rows if chosen},
        dict(tx.all(SELECT_SESSION_DAYS, values)),
        dict(tx.all(SELECT_ENTRY_DAYS, values)),
        sum(count for _, count, _ in rows) < MOST_MESSAGES,
    )
