"""
What is in a file: rows, bytes, spaces and times.
"""

from __future__ import annotations

import os

from memdb.models.file import FileInfo
from memdb.tables import spaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database

SELECT_COUNTS = """/* info.counts */
SELECT
  (SELECT count(*) FROM scopes),
  (SELECT count(*) FROM sessions),
  (SELECT count(*) FROM messages),
  (SELECT count(*) FROM summaries),
  (SELECT count(*) FROM entries),
  (SELECT count(*) FROM artifact_names),
  (SELECT count(*) FROM artifacts),
  (SELECT count(*) FROM vectors),
  (SELECT count(*) FROM archive_segments)
"""

SELECT_TIMES = """/* info.times */
SELECT min(created_ms), max(created_ms) FROM messages
"""

SELECT_META = """/* info.meta */
SELECT key, value FROM meta ORDER BY key
"""

SELECT_JOBS = """/* info.jobs */
SELECT kind, count(*) FROM jobs
WHERE subject <> 'file' AND kind <> 'extract'
GROUP BY kind
ORDER BY kind
"""

SELECT_SUMMARIES = """/* info.summaries */
SELECT quality, count(*) FROM summaries GROUP BY quality ORDER BY quality
"""

SELECT_ARCHIVED = """/* info.archived */
SELECT coalesce(sum(message_count), 0) FROM archive_segments
"""

SELECT_FORMAT = """/* info.format */
SELECT user_version FROM pragma_user_version
"""

# dbstat adds up the pages of each table and index.
SELECT_BYTES = """/* info.bytes */
SELECT
  CASE
    WHEN name GLOB '*_fts*' THEN 'full text'
    WHEN name GLOB '*messages*' OR name GLOB '*sessions*' THEN 'messages'
    WHEN name GLOB '*summaries*' THEN 'summaries'
    WHEN name GLOB '*entr*' THEN 'entries'
    WHEN name GLOB '*vectors*' OR name GLOB '*embedding*' OR name GLOB '*sketches*' THEN 'vectors'
    WHEN name GLOB '*artifact*' OR name GLOB '*blob*' THEN 'artifacts'
    WHEN name GLOB '*archive*' THEN 'archive'
    ELSE 'other'
  END AS store,
  sum(pgsize)
FROM dbstat
WHERE aggregate = 1
GROUP BY store
ORDER BY store
"""

COUNTED = (
    "scopes",
    "sessions",
    "messages",
    "summaries",
    "entries",
    "artifacts",
    "artifact versions",
    "vectors",
    "archive segments",
)


def info(db: Database) -> FileInfo:
    """Return what is in the file. Cost: reads every page once, 0.1 s per 100 MB."""
    from memdb.tables import jobs

    with db.read() as tx:
        counts = tx.one(SELECT_COUNTS) or ()
        oldest_ms, newest_ms = tx.one(SELECT_TIMES) or (None, None)
        pending: dict[str, int] = dict(tx.all(SELECT_JOBS))
        archived = tx.one(SELECT_ARCHIVED) or (0,)
        version = tx.one(SELECT_FORMAT) or (0,)
        return FileInfo(
            path=db.path,
            format=version[0],
            size_bytes=_size(db.path),
            wal_bytes=_size(f"{db.path}-wal"),
            counts=dict(zip(COUNTED, counts, strict=True)),
            bytes_per_store=dict(tx.all(SELECT_BYTES)),
            spaces=spaces.list_spaces(tx),
            oldest_ms=oldest_ms,
            newest_ms=newest_ms,
            pending_jobs=sum(pending.values()),
            pending=pending,
            summaries=dict(tx.all(SELECT_SUMMARIES)),
            archived_messages=archived[0],
            meta=dict(tx.all(SELECT_META)),
            upkeep=jobs.list_upkeep(tx),
        )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (pathlib is slow to load)
    except OSError:
        return 0
