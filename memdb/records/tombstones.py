"""
Tombstone records: that something was removed and when, never what it said.

The functions that remove a thing leave its tombstone. Here is what else is
written to them. Every function joins the caller's transaction.
"""

from __future__ import annotations

from memdb.tables import tombstones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx
    from memdb.tables.tombstones import Tombstone


def digest_of(name: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a name."""
    from hashlib import sha256  # 3 ms that a plain delete does not need

    return sha256(name.encode()).hexdigest()[:16]


def hide(tx: Tx, scope_no: int, kind: str, ref: str, digest: str) -> None:
    """Replace the name in the tombstones of *ref* by its digest."""
    tombstones.hide_ref(tx, scope_no, kind, ref, digest)


def hide_all(tx: Tx, scope_no: int) -> None:
    """Remove every name from the tombstones of a scope."""
    tombstones.hide_all_refs(tx, scope_no)


def clear(tx: Tx, uids: Sequence[str]) -> None:
    """Remove the tombstones of what is back in the file."""
    tombstones.drop(tx, list(uids))


def restore(tx: Tx, scope_no: int, stones: Sequence[Tombstone]) -> None:
    """Add tombstones as they were exported, but for what the scope holds."""
    live = tombstones.live(tx, scope_no, [stone.uid for stone in stones])
    for stone in stones:
        if stone.uid not in live:
            tombstones.add(tx, scope_no, stone)
