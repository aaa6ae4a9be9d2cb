"""
Entry records: what is removed of long-term facts, and the reader of how they were at a time.

`memdb.records.entry_writer` adds and changes them. The caller decides what is written and why.
Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.entries import Entry
from memdb.models.ids import scope_of
from memdb.records import dependents
from memdb.tables import checks, entries, entry_history, jobs, tombstones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Tx
    from memdb.models.entries import EntryVersion
    from memdb.models.messages import Finding

    SpaceVector = tuple[int, bytes]  # number of the space, vector as it is stored


def set_vector(tx: Tx, space_no: int, entry_id: int, vector: bytes | None) -> None:
    """Replace the vector of an entry in a space; None means that its text has none."""
    tx.vectors.drop("entry", entry_id, entry_id, space_no)
    if vector is not None:
        tx.vectors.put(space_no, "entry", [(entry_id, vector)])


def remove(tx: Tx, entry_id: int) -> bool:
    """Remove an entry with its history, index row, vectors and jobs; False if it is absent."""
    tx.words.drop("entry", entry_id)
    tx.vectors.drop("entry", entry_id, entry_id)
    jobs.drop(tx, "entry", entry_id)
    return entries.delete(tx, entry_id)


def forget(tx: Tx, scope_no: int, entry_id: int) -> None:
    """Remove an entry as `remove` does, so that no import brings it back."""
    _keep_key_away(tx, entry_id)
    remove(tx, entry_id)
    tombstones.forget_entry(tx, scope_no, entry_id)


def remove_version(tx: Tx, entry_id: int, version: int) -> None:
    """Remove what an entry said in an old version."""
    entry_history.delete(tx, entry_id, version)


def forget_version(tx: Tx, entry_id: int, version: int) -> None:
    """Remove what an entry said in an old version, so that no import brings it back."""
    _keep_key_away(tx, entry_id)
    remove_version(tx, entry_id, version)


def _keep_key_away(tx: Tx, entry_id: int) -> None:
    """Keep imports from using the key of an entry: its versions have no other name."""
    entry = entries.find(tx, entry_id)
    if entry is not None and entry.key is not None:
        dependents.keep_away(tx, scope_of(entry_id), "entry", [(entry.key,)])


def leave_session(tx: Tx, session: int) -> None:
    """Remove the entries that only this session recalls, and the link of the others to it."""
    for entry_id in entries.session_only(tx, session):
        remove(tx, entry_id)
    entries.forget_session(tx, session)
    entry_history.forget_session(tx, session)


def derive(tx: Tx) -> None:
    """Rebuild bigrams and spans of entries."""
    checks.set_bigrams(tx, "entry")
    entries.set_spans(tx)


def check(tx: Tx, *, deep: bool = False) -> Iterator[Finding]:
    """
    Yield the entries that do not match their hash.

    Args:
        deep: Also entries whose spans are not those of their text.
    """
    yield from checks.by_hash("entry_hash", "entry", entries.damaged(tx))
    if deep:
        found = (entry_id for entry_id, _ in entries.different_spans(tx))
        yield from checks.by_hash("entry_spans", "entry", found, rebuildable=True)


def page(tx: Tx, after: int, high: int, *, limit: int, wanted: entries.EntryFilter) -> list[Entry]:
    """
    Return entries with *after* < id <= *high* as they were at `wanted.now_ms`, by id.

    What was deleted since is gone from the past too; how often an entry was
    used by then is not known, so that is 0.
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
