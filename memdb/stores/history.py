"""
What entries said before. Owns the table `entry_history`.

A version is kept when another replaces it, and goes with its entry.
"""

from __future__ import annotations

from memdb.models import EntryVersion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from memdb.db.transaction import Tx

INSERT_CURRENT = """/* history.keep */
INSERT INTO entry_history (
  entry_id,
  version,
  category,
  text,
  keywords,
  importance,
  reason,
  replaced_ms
)
SELECT id, version, category, text, keywords, importance, :reason, :now_ms
FROM entries
WHERE id = :id
"""

INSERT_ROW = """/* history.insert */
INSERT INTO entry_history (
  entry_id,
  version,
  category,
  text,
  keywords,
  importance,
  reason,
  replaced_ms
)
VALUES (
  :entry_id,
  :version,
  :category,
  :text,
  :keywords,
  :importance,
  :reason,
  :replaced_ms
)
"""

SELECT_ALL = """/* history.list */
SELECT version, category, text, keywords, importance, reason, replaced_ms
FROM entry_history
WHERE entry_id = :id
ORDER BY version
"""


def keep(tx: Tx, entry_id: int, reason: str) -> None:
    """Keep what an entry says now, before it is updated for *reason*."""
    tx.run(INSERT_CURRENT, {"id": entry_id, "reason": reason, "now_ms": tx.now_ms})


def add(tx: Tx, rows: Iterable[dict[str, Any]]) -> None:
    """Add old versions as an export holds them."""
    tx.many(INSERT_ROW, rows)


def list_all(tx: Tx, entry_id: int) -> list[EntryVersion]:
    """Return what the entry said before, oldest first; not what it says now."""
    return [
        EntryVersion(
            version, category, said, tuple(keywords.split("\n")) if keywords else (), *rest
        )
        for version, category, said, keywords, *rest in tx.all(SELECT_ALL, {"id": entry_id})
    ]
