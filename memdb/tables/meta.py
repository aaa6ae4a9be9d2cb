"""
Statements about the file as a whole: rows per table, their times, and pending work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.engine.base import Tx

SELECT_COUNTS = """/* meta.counts */
SELECT
  (SELECT count(*) FROM scopes),
  (SELECT count(*) FROM sessions WHERE branch = ''),
  (SELECT count(*) FROM sessions WHERE branch <> ''),
  (SELECT CAST(coalesce(sum(message_count), 0) AS BIGINT) FROM sessions),
  (SELECT count(*) FROM summaries),
  (SELECT count(*) FROM entries),
  (SELECT count(*) FROM artifact_names),
  (SELECT count(*) FROM artifacts),
  (SELECT count(*) FROM items),
  (SELECT count(*) FROM vectors),
  (SELECT count(*) FROM archive_segments)
"""

SELECT_TIMES = compose.select("meta.times", "min(created_ms), max(created_ms)", "messages")

# But for the pairing key of a sync, which is in no report.
SELECT_META = compose.select("meta.meta", "key, value", "meta", "key <> 'sync_key'", order="key")

SELECT_JOBS = """/* meta.jobs */
SELECT kind, count(*) FROM jobs
WHERE subject <> 'file' AND kind <> 'extract'
GROUP BY kind
ORDER BY kind
"""

SELECT_SUMMARIES = """/* meta.summaries */
SELECT quality, count(*) FROM summaries GROUP BY quality ORDER BY quality
"""

SELECT_ARCHIVED = """/* meta.archived */
SELECT CAST(coalesce(sum(archived_count), 0) AS BIGINT) FROM sessions
"""

COUNTED = (
    "scopes",
    "sessions",
    "branches",
    "messages",
    "summaries",
    "entries",
    "artifacts",
    "artifact versions",
    "items",
    "vectors",
    "archive segments",
)


class Totals(Record):
    """
    Counts of the tables.

    Attributes:
        counts: Number of rows by kind.
        oldest_ms: Time when the oldest message was said, None without messages.
        newest_ms: Time when the newest message was said, None without messages.
        pending: Number of jobs by kind, without upkeep of the file and extraction.
        summaries: How many there are, by quality.
        archived: Number of messages in segments.
        meta: Facts about the file itself.
    """

    counts: dict[str, int]
    oldest_ms: int | None
    newest_ms: int | None
    pending: dict[str, int]
    summaries: dict[str, int]
    archived: int
    meta: dict[str, str]


def count_all(tx: Tx) -> Totals:
    """Return the facts about the tables. Cost: it reads every index once."""
    oldest_ms, newest_ms = tx.one(SELECT_TIMES) or (None, None)
    return Totals(
        counts=dict(zip(COUNTED, tx.one(SELECT_COUNTS) or (), strict=True)),
        oldest_ms=oldest_ms,
        newest_ms=newest_ms,
        pending=dict(tx.all(SELECT_JOBS)),
        summaries=dict(tx.all(SELECT_SUMMARIES)),
        archived=tx.read_number(SELECT_ARCHIVED),
        meta=dict(tx.all(SELECT_META)),
    )
