"""
Decisions: what became of statements that resembled an entry. Owns `entry_decisions`.
"""

from __future__ import annotations

from memdb.models.messages import Decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.engine.base import Tx

INSERT_DECISION = """/* decisions.add_decision */
INSERT INTO entry_decisions (
  entry_id,
  said_hash,
  action,
  other_id,
  similarity,
  decided_by,
  reason,
  decided_ms
)
VALUES (
  :entry_id,
  :said_hash,
  :action,
  :other_id,
  :similarity,
  :decided_by,
  :reason,
  :now_ms
)
ON CONFLICT (entry_id, said_hash) DO UPDATE SET
  action = excluded.action,
  other_id = excluded.other_id,
  similarity = excluded.similarity,
  decided_by = excluded.decided_by,
  reason = excluded.reason,
  decided_ms = excluded.decided_ms
"""

SELECT_ALL = """/* decisions.list_decisions */
SELECT action, other_id, similarity, decided_by, reason, decided_ms
FROM entry_decisions
WHERE entry_id = :entry_id
ORDER BY decided_ms, said_hash
"""


def add_decision(tx: Tx, row: dict[str, Any]) -> None:
    """Note a decision; *row* holds every column but the time."""
    tx.run(INSERT_DECISION, {**row, "now_ms": tx.now_ms})


def list_decisions(tx: Tx, entry_id: int) -> list[Decision]:
    """Return the decisions about statements that became an entry, oldest first."""
    return [Decision(*row) for row in tx.all(SELECT_ALL, {"entry_id": entry_id})]
