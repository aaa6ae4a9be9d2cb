"""
Entries that belong into every prompt: a view of the table `entries`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.base import Tx

SELECT_PINNED = """/* pinned.list_pinned */
SELECT id
FROM entries
WHERE
  id IN (
    SELECT id FROM entries WHERE scope_no = :scope_no AND pinned = 1
    UNION ALL
    SELECT id FROM entries
    WHERE scope_no = :scope_no AND category IN (SELECT value FROM json_each(:categories))
  )
  AND holds_from_ms <= :now_ms
  AND holds_until_ms > :now_ms
ORDER BY pinned DESC, importance DESC, updated_ms DESC, id DESC
LIMIT :limit
"""


def list_pinned(tx: Tx, scope_no: int, categories: list[str], now_ms: int, limit: int) -> list[int]:
    """
    Return the ids of entries that belong into every prompt, the most important ones first.

    Args:
        categories: Those whose entries are all pinned.
    """
    values = {"scope_no": scope_no, "categories": categories, "now_ms": now_ms, "limit": limit}
    return [row[0] for row in tx.all(SELECT_PINNED, values)]
