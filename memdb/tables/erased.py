"""
Erasing a message: what it says goes, its place stays. Part of the room of messages.

The row keeps its id, role, time and external id, so the numbers of the session
have no gap and a host that adds the message again changes nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.base import Tx

UPDATE_ERASED = """/* erased.message */
UPDATE messages
SET
  author = NULL,
  text = '',
  body = NULL,
  metadata = NULL,
  bigrams = NULL,
  tokens = 0,
  content_hash = :content_hash
WHERE id = :id
"""


def erase(tx: Tx, row_id: int, content_hash: bytes) -> None:
    """Take everything that a message says out of its row; *content_hash* is that of the rest."""
    tx.run(UPDATE_ERASED, {"id": row_id, "content_hash": content_hash})
