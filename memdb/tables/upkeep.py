"""
Upkeep: work about the whole file that comes round again, in rows of `jobs`.

A row says when its step is due; whoever takes its lease does it for all.
"""

from __future__ import annotations

from memdb.models.file import Upkeep
from memdb.models.ids import MAX_INT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.base import Tx

MAX_ERROR_CHARS = 500

INSERT_STEP = """/* upkeep.insert */
INSERT INTO jobs (kind, subject, ref, due_ms) VALUES (:kind, 'file', 0, 0)
ON CONFLICT DO NOTHING
"""

SELECT_ALL = """/* upkeep.list */
SELECT kind, nullif(next_seq, 0), due_ms, lease_ms, attempts, error
FROM jobs
WHERE
  kind IN ('expire', 'retain', 'sessions', 'optimize', 'checkpoint')
  AND subject = 'file'
  AND ref = 0
  AND space_no = 0
ORDER BY kind
"""

UPDATE_LEASE = """/* upkeep.take */
UPDATE jobs SET lease_ms = :until_ms
WHERE
  kind = :kind
  AND subject = 'file'
  AND ref = 0
  AND space_no = 0
  AND due_ms <= :due_ms
  AND lease_ms <= :now_ms
"""

UPDATE_DONE = """/* upkeep.done */
UPDATE jobs
SET
  next_seq = CASE WHEN CAST(:error AS TEXT) IS NULL THEN :now_ms ELSE next_seq END,
  attempts = CASE WHEN :error IS NULL THEN 0 ELSE attempts + 1 END,
  error = :error,
  due_ms = :due_ms,
  lease_ms = 0
WHERE kind = :kind AND subject = 'file' AND ref = 0 AND space_no = 0 AND lease_ms = :held_ms
"""


def list_all(tx: Tx) -> tuple[Upkeep, ...]:
    """Return what is known of each kind of upkeep that was ever taken, by kind."""
    return tuple(Upkeep(*row) for row in tx.all(SELECT_ALL))


def take(tx: Tx, kind: str, lease_ms: int, *, early: bool) -> int | None:
    """Take a kind of upkeep for *lease_ms*; None if it is not due or another process is at it."""
    tx.run(INSERT_STEP, {"kind": kind})
    values = {
        "kind": kind,
        "now_ms": tx.now_ms,
        "due_ms": MAX_INT if early else tx.now_ms,
        "until_ms": tx.now_ms + lease_ms,
    }
    return tx.now_ms + lease_ms if tx.run(UPDATE_LEASE, values) else None


def done(tx: Tx, kind: str, held_ms: int, due_ms: int, error: str | None = None) -> bool:
    """Note that upkeep was done, or failed with *error*; False if the lease is another's now."""
    values = {
        "kind": kind,
        "held_ms": held_ms,
        "due_ms": due_ms,
        "error": None if error is None else error[:MAX_ERROR_CHARS],
        "now_ms": tx.now_ms,
    }
    return tx.run(UPDATE_DONE, values) > 0
