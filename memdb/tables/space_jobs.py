"""
The jobs of a whole space: begun with it, counted, and gone with it; a part of the table of `jobs`.
"""

from __future__ import annotations

from memdb.models.ids import MASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.base import Tx

# An entry that failed so often keeps its space from being complete no longer.
GIVEN_UP = 3

INSERT_WHOLE_SPACE = """/* space_jobs.embed_everything */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'session', id, CAST(:space_no AS BIGINT), 1, CAST(:now_ms AS BIGINT)
FROM sessions WHERE last_seq > 0
UNION ALL
SELECT 'embed', 'entry', id, :space_no, version, :now_ms
FROM entries WHERE true
ON CONFLICT DO NOTHING
"""

# Of a space that got nothing for a while. Entries may have changed under their
# vectors meanwhile, so all of them are done again; messages never change.
INSERT_MISSING = """/* space_jobs.embed_missing */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT
  'embed',
  'session',
  id >> 24 << 24,
  CAST(:space_no AS BIGINT),
  min(id & :seq_mask),
  CAST(:now_ms AS BIGINT)
FROM messages
WHERE
  (text <> '' OR text IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM vectors
    WHERE space_no = :space_no AND kind = 'message' AND ref = messages.id
  )
GROUP BY id >> 24
UNION ALL
SELECT 'embed', 'entry', id, :space_no, version, :now_ms
FROM entries WHERE true
ON CONFLICT DO NOTHING
"""

SELECT_UNFINISHED = """/* space_jobs.unfinished */
SELECT 1 FROM jobs
WHERE
  space_no = :space_no
  AND (subject = 'session' OR attempts < :given_up)
LIMIT 1
"""

SELECT_TEXTS = """/* space_jobs.texts */
SELECT
  (SELECT CAST(coalesce(sum(last_seq), 0) AS BIGINT) FROM sessions) + (SELECT count(*) FROM entries)
"""

DELETE_OF_SPACE = """/* space_jobs.drop_space */
DELETE FROM jobs WHERE space_no = :space_no
"""

SELECT_COUNT = """/* space_jobs.count */
SELECT count(*) FROM jobs
WHERE
  space_no IN (SELECT value FROM json_each(:spaces))
  AND kind <> 'extract'
  AND subject <> 'file'
"""


def add_everything(tx: Tx, space_no: int) -> int:
    """Note that everything in the file is to be embedded in a new space; return how many jobs."""
    return tx.run(INSERT_WHOLE_SPACE, {"space_no": space_no, "now_ms": tx.now_ms})


def add_missing(tx: Tx, space_no: int) -> None:
    """Note what a space lacks that got nothing new for a while; reads all messages."""
    tx.run(INSERT_MISSING, {"space_no": space_no, "now_ms": tx.now_ms, **MASKS})


def is_unfinished(tx: Tx, space_no: int) -> bool:
    """Return whether work of a space is left; not entries that failed `GIVEN_UP` times."""
    return tx.one(SELECT_UNFINISHED, {"space_no": space_no, "given_up": GIVEN_UP}) is not None


def count_texts(tx: Tx) -> int:
    """Return how many texts there are to embed in the file. Cost: 1 ms per 10,000 sessions."""
    row = tx.one(SELECT_TEXTS)
    return 0 if row is None else int(row[0])


def drop_space(tx: Tx, space_no: int) -> None:
    """Remove every job of a space."""
    tx.run(DELETE_OF_SPACE, {"space_no": space_no})


def count_jobs(tx: Tx, *spaces: int) -> int:
    """Return how many jobs of *spaces* wait, leased and failed ones included; 0: of no space."""
    row = tx.one(SELECT_COUNT, {"spaces": spaces})
    return 0 if row is None else int(row[0])
