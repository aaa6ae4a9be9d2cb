"""
Tombstones of removed rows, and rows that depend on a removed one.

A function in `records/` that removes a row also removes its dependent rows in the same transaction,
or a foreign key does it. `check` has a finding for each row that was left behind.
tests/records/test_dependents.py lists these rows, and tests each. A tombstone records that
something was removed and when, but not its content. No import restores what was forgotten.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from memdb.tables import checks, tombstones
from memdb.tables.tombstones import Tombstone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from memdb.engine.base import Tx


def digest_of(name: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a name."""
    return sha256(name.encode()).hexdigest()[:16]


def hide_named(tx: Tx, scope_no: int, uids: Collection[str]) -> None:
    """Remove the names from a scope's tombstones of forgotten rows."""
    tombstones.hide_named(tx, scope_no, uids)


def hide_all(tx: Tx, scope_no: int) -> None:
    """Remove every name from the tombstones of a forgotten scope."""
    tombstones.hide_all_refs(tx, scope_no)


def clear(tx: Tx, scope_no: int, uids: Sequence[str]) -> None:
    """Remove the tombstones of rows that a scope has again."""
    tombstones.drop(tx, scope_no, list(uids))


def are_forgotten(tx: Tx, scope_no: int, uids: Iterable[str]) -> set[str]:
    """Return the *uids* that were forgotten in a scope, which no import restores."""
    return tombstones.forgotten(tx, scope_no, uids)


def source_uid(kind: str, *names: str) -> str:
    """Return the uid of the tombstone for a source's *names* of a thing: a hash of only these."""
    return "source:" + sha256(json.dumps([kind, *names]).encode()).hexdigest()[:32]


def keep_away(tx: Tx, scope_no: int, kind: str, names: Iterable[Sequence[str]]) -> None:
    """
    Keep imports from restoring forgotten things that sources call by *names*.

    A program uses the same name for a thing in each export. The hash does not depend on the text,
    so a tombstone reveals nothing of it.
    """
    uids = [source_uid(kind, *each) for each in names]
    stones = [Tombstone(uid, kind, "source", tx.now_ms, forgotten=True) for uid in uids]
    tombstones.add(tx, scope_no, *stones)


def are_kept_away(
    tx: Tx, scope_no: int, kind: str, names: Sequence[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    """Return the *names* that were passed to `keep_away`."""
    uids = {each: source_uid(kind, *each) for each in names}
    forgotten = are_forgotten(tx, scope_no, uids.values()) if uids else set()
    return {each for each, uid in uids.items() if uid in forgotten}


def stand_for(tx: Tx, scope_no: int, uid: str, entry_id: int) -> None:
    """Link the entry that an import repeats to its line: both are forgotten together."""
    tombstones.add(tx, scope_no, Tombstone(uid, "entry", str(entry_id), tx.now_ms))


def restore(tx: Tx, scope_no: int, stones: Sequence[Tombstone]) -> None:
    """Add exported tombstones, except for rows that the scope has."""
    live = tombstones.live(tx, scope_no, [stone.uid for stone in stones])
    tombstones.add(tx, scope_no, *(stone for stone in stones if stone.uid not in live))


def derive(tx: Tx) -> None:
    """Remove derived rows without a base row, except those that each kind rebuilds."""
    checks.delete_lost_jobs(tx)
