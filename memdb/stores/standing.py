"""
Which entries stand: at a time, beside each other, and against the quota.

Reads `entries` for recall, for finding what a statement repeats, and for
deciding what goes. The room of the table is `entries`.
"""

from __future__ import annotations

from memdb.text.digest import content_hash, said_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.db.transaction import Tx

SELECT_LIVE = """/* standing.live */
SELECT id FROM entries
WHERE
  id BETWEEN :low AND :high
  AND active = 1
  AND (expires_ms IS NULL OR expires_ms > :now_ms)
  AND (valid_from_ms IS NULL OR valid_from_ms <= :now_ms)
  AND (valid_to_ms IS NULL OR valid_to_ms > :now_ms)
  AND created_ms >= :since_ms
  AND created_ms < :until_ms
  AND (:session_id IS NULL OR session_id = :session_id)
"""

SELECT_IMPORTANCE = """/* standing.importance */
SELECT id, importance FROM entries WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_COUNT = """/* standing.count */
SELECT count(*) FROM entries WHERE id BETWEEN :low AND :high
"""

SELECT_HASHED = """/* standing.hashed */
SELECT
  id,
  uid,
  category,
  key,
  text,
  keywords,
  importance,
  metadata,
  created_ms,
  content_hash,
  said_hash
FROM entries
WHERE id > :after
ORDER BY id
LIMIT :limit
"""


def importance(tx: Tx, ids: str) -> dict[int, int]:
    """Return the importance of the entries whose id is in the JSON array *ids*, by id."""
    return dict(tx.all(SELECT_IMPORTANCE, {"ids": ids}))


def live_ids(
    tx: Tx,
    low: int,
    high: int,
    *,
    now_ms: int,
    since_ms: int,
    until_ms: int,
    session: int | None = None,
) -> set[int]:
    """
    Return the ids in a range that are active, unexpired and made in [since, until).

    Args:
        session: Only those told in it; None: wherever they were told.
    """
    values = {
        "low": low,
        "high": high,
        "now_ms": now_ms,
        "since_ms": since_ms,
        "until_ms": until_ms,
        "session_id": session,
    }
    return {row[0] for row in tx.all(SELECT_LIVE, values)}


def count(tx: Tx, low: int, high: int) -> int:
    """Return how many entries have *low* <= id <= *high*."""
    row = tx.one(SELECT_COUNT, {"low": low, "high": high})
    return 0 if row is None else int(row[0])


def damaged(tx: Tx) -> Iterable[int]:
    """Yield the id of each entry whose content does not match its hash."""
    after = 0
    while rows := tx.all(SELECT_HASHED, {"after": after, "limit": 1000}):
        for row in rows:
            *content, stored, said = row
            if content_hash(*content[1:]) != stored or said_hash(row[4]) != said:
                yield row[0]
        after = rows[-1][0]
