"""
Entry records: removal of long-term facts, and reading their state at a time.

`memdb.records.entry_writer` adds and changes them. The caller decides which changes are written and
why. Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.entries import Entry
from memdb.models.ids import scope_of
from memdb.records import dependents
from memdb.tables import checks, entries, entry_history, jobs, tombstones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from memdb.engine.base import Tx
    from memdb.models.entries import EntryVersion
    from memdb.models.messages import Finding

    SpaceVector = tuple[int, bytes]  # number of the space, vector as it is stored


def set_vector(tx: Tx, space_no: int, entry_id: int, vector: bytes | None) -> None:
    """Replace the vector of an entry in a space; None means that its text has none."""
    tx.vectors.drop("entry", entry_id, entry_id, space_no)
    if vector is not None:
        tx.vectors.put(space_no, "entry", [(entry_id, vector)])


def remove(tx: Tx, *ids: int, is_forgotten: bool = False) -> None:
    """
    Remove entries with their history, index rows, vectors and jobs.

    Args:
        is_forgotten: No import brings them back, also those that were removed before.
    """
    if is_forgotten:
        _keep_keys_away(tx, ids)
    tx.words.drop_each("entry", ids)
    for entry_id in ids:
        tx.vectors.drop("entry", entry_id, entry_id)
        jobs.drop(tx, "entry", entry_id)
    entries.delete(tx, ids)
    if is_forgotten and ids:
        tombstones.forget_entries(tx, scope_of(ids[0]), ids)


def remove_versions(
    tx: Tx, versions: Collection[tuple[int, int]], *, is_forgotten: bool = False
) -> None:
    """
    Remove what entries said in old versions, given as (entry, version).

    Args:
        is_forgotten: No import brings them back.
    """
    if is_forgotten:
        _keep_keys_away(tx, {entry_id for entry_id, _ in versions})
    entry_history.delete(tx, versions)


def _keep_keys_away(tx: Tx, ids: Collection[int]) -> None:
    """Keep imports from using the keys of entries: their versions have no other name."""
    known = entries.get_many(tx, [*ids]) if ids else {}
    keys = [entry.key for entry in known.values() if entry.key is not None]
    if keys:
        dependents.keep_away(tx, scope_of(min(ids)), "entry", [(key,) for key in keys])


def leave_sessions(tx: Tx, low: int, high: int) -> None:
    """Remove entries that only sessions in an id range recall, and others' references to these."""
    remove(tx, *entries.session_only(tx, low, high))
    entries.forget_sessions(tx, low, high)
    entry_history.forget_sessions(tx, low, high)


def derive(tx: Tx) -> None:
    """Rebuild bigrams and spans of entries."""
    checks.derive(tx, "entry")


def check(tx: Tx, *, deep: bool = False) -> Iterator[Finding]:
    """
    Yield the entries that do not match their hash.

    Args:
        deep: Also entries whose spans differ from those of their text.
    """
    yield from checks.by_hash("entry_hash", "entry", entries.damaged(tx))
    if deep:
        yield from checks.by_spans(tx, "entry")


def page(tx: Tx, after: int, high: int, *, limit: int, wanted: entries.EntryFilter) -> list[Entry]:
    """
    Return entries with *after* < id <= *high* as they were at `wanted.now_ms`, by id.

    Entries that were deleted since are missing; the number of uses at that time is unknown, so it
    is 0.
    """
    found = entries.list_as_of(tx, after, high, limit=limit, wanted=wanted)
    now = entries.get_many(tx, [entry_id for entry_id, _ in found])
    made = []
    for entry_id, version in found:
        entry = now[entry_id].replace(use_count=0, last_used_ms=None)
        if version is not None:
            entry = _as_entry(entry_history.get(tx, entry_id, version), entry)
        made.append(entry)
    return made


def _as_entry(old: EntryVersion, now: Entry) -> Entry:
    shared = {name: getattr(old, name) for name in Entry._fields if name in old._fields}
    return now.replace(**shared, superseded_by=None)
