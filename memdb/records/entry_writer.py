"""
Entry writer: writes a long-term fact with its history, index row, vectors, links and jobs.

Rows of the table `entries` are added and changed only through this module, except by `memdb copy`.
The caller decides what is written and why. Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.models.entries import NEUTRAL_IMPORTANCE
from memdb.models.ids import SCOPE_SHIFT
from memdb.records import dependents, link_maker
from memdb.tables import entries, entry_history, jobs, scopes
from memdb.text.derived import bigrams_of, date_spans, said_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.entries import Entry
    from memdb.models.protocols import Ids
    from memdb.records.link_maker import Near

    SpaceVector = tuple[int, bytes]  # number of the space, vector as it is stored

# Columns of a new entry that the caller need not give.
DEFAULTS = {
    "pinned": 0,
    "trust": "trusted",
    "version": 1,
    "active": 1,
    "superseded_by": None,
    "session_id": None,
    "session_only": 0,
    "writer": None,
    "use_count": 0,
    "last_used_ms": None,
    "valid_to_ms": None,
}


UPKEEP = ("expire", "evict")  # what happens to an entry without anybody writing it


def insert(
    tx: Tx,
    scope_no: int,
    row: Mapping[str, Any],
    ids: Ids,
    vector: SpaceVector | None = None,
    nearby: Sequence[Near] | None = None,
) -> int:
    """
    Add a validated row, with defaults for missing columns, and return its id.

    Args:
        vector: Embedding of the text; its space gets no job. None means that
            every space gets one.
        nearby: The similar entries; None searches for them.
    """
    entry_id = scopes.next_id(tx, scope_no)
    made_ms = tx.now_ms if row["created_ms"] is None else row["created_ms"]
    filled: dict[str, Any] = {
        **DEFAULTS,
        "stored_ms": tx.now_ms,
        **row,
        "updated_ms": row.get("updated_ms") or made_ms,
        "id": entry_id,
        "scope_no": scope_no,
        "uid": row["uid"] or ids(tx.now_ms),
        "created_ms": made_ms,
    }
    _derive_columns(filled)
    entries.add(tx, filled)
    tx.words.add("entry", entry_id)
    _embed(tx, entry_id, filled["version"], vector)
    if filled["active"]:
        link_maker.make(tx, entry_id, vector, nearby)
    return entry_id


def insert_lost(tx: Tx, found: Mapping[str, Any]) -> None:
    """
    Add an inactive row for an entry whose row is lost.

    Args:
        found: Columns of its last earlier version, with id and text; None for columns that are
            unknown. Full text is rebuilt by `integrity.rebuild`.
    """
    said_ms = found["updated_ms"] or tx.now_ms
    row = {
        **found,
        **{name: value for name, value in DEFAULTS.items() if found.get(name) is None},
        "keywords": found["keywords"] or "",
        "importance": found["importance"] or NEUTRAL_IMPORTANCE,
        "uid": f"recovered-{found['id']}",
        "scope_no": found["id"] >> SCOPE_SHIFT,
        "category": found["category"] or "recovered",
        "version": (found["version"] or 0) + 1,
        "active": 0,
        "created_ms": said_ms,
        "updated_ms": said_ms,
        "stored_ms": tx.now_ms,
    }
    _derive_columns(row)
    entries.add(tx, row)


def _derive_columns(row: dict[str, Any]) -> None:
    """Set the derived columns; spans count from the time of the last statement."""
    row["bigrams"] = bigrams_of(f"{row['text']}\n{row['keywords']}")
    row["spans"] = date_spans(row["text"], row["updated_ms"])
    row["content_hash"] = entries.hash_of(row)
    row["said_hash"] = said_hash(row["text"])


def update(
    tx: Tx, entry_id: int, reason: str, vector: SpaceVector | None = None, **columns: Any
) -> None:
    """
    Change *columns* of an entry, and keep its earlier state in the history.

    Nothing is written if every column already has its value. The new version has the writer of the
    transaction, unless *columns* name another or *reason* is in `UPKEEP`.

    Args:
        vector: Embedding of the new text, as in `insert`; unused if the text stays.
    """
    old = entries.row(tx, entry_id)
    if all(old[column] == value for column, value in columns.items()):
        return
    by = None if reason in UPKEEP else tx.written_by
    new = {**old, "writer": by or old["writer"], **columns}
    reworded = (new["text"], new["keywords"]) != (old["text"], old["keywords"])
    if reworded:
        tx.words.drop("entry", entry_id)
    _derive_columns(new)
    entry_history.keep(tx, entry_id, reason)
    version = entries.update(tx, entry_id, new)
    if reworded:
        tx.words.add("entry", entry_id)
        if vector is not None:
            jobs.drop(tx, "entry", entry_id)  # a worker may hold it, with the old words
        _embed(tx, entry_id, version, vector)
    if new["text"] != old["text"]:
        link_maker.make_anew(tx, entry_id, vector)


def repeat(tx: Tx, entry_id: int, said: dict[str, Any]) -> None:
    """
    Add a repeated statement to the history of an entry, which stays unchanged.

    Args:
        said: Text, session_id, first_seq, last_seq and writer of the statement.
    """
    entry_history.keep_repeated(tx, entry_id, said)
    entries.repeat(tx, entry_id)


def _embed(tx: Tx, entry_id: int, version: int, vector: SpaceVector | None) -> None:
    """Store the vector of an entry, and queue a job for every other space that gets vectors."""
    space_no, embedding = vector or (0, None)
    jobs.add_entry(tx, entry_id, version, embedded_in=space_no)
    if embedding is not None:
        tx.vectors.put(space_no, "entry", [(entry_id, embedding)])


def end(tx: Tx, old: Entry, ended_ms: int) -> None:
    """
    End the validity of *old* at *ended_ms*, which frees its key for its successor.

    `tables.entries.link` sets the successor once it exists, without a new version.
    """
    update(
        tx,
        old.id,
        "supersede",
        valid_to_ms=ended_ms if old.valid_to_ms is None else min(ended_ms, old.valid_to_ms),
        active=int(old.active and ended_ms > tx.now_ms),
    )


def restore(
    tx: Tx, scope_no: int, row: Mapping[str, Any], versions: Sequence[Mapping[str, Any]], ids: Ids
) -> int:
    """Add an entry as it was exported, with its old *versions*, and return its id."""
    entry_id = insert(tx, scope_no, row, ids)
    entry_history.add(tx, [{**old, "entry_id": entry_id} for old in versions])
    dependents.clear(tx, scope_no, [row["uid"]])
    return entry_id


def go_back(tx: Tx, entry_id: int, version: int) -> None:
    """Restore an old version of an entry in every column, as a new version."""
    was = entry_history.row(tx, entry_id, version)
    columns = {name: was[name] for name in was if name not in ("reason", "stored_ms")}
    if was["active"]:
        entries.link(tx, entry_id, None)
    update(tx, entry_id, "restore", **columns)


def unite(tx: Tx, entry_id: int, versions: Sequence[Mapping[str, Any]], stored_ms: int) -> None:
    """
    Replace the old versions of an entry, oldest first; its present text stays.

    Args:
        stored_ms: Time when its present version was stored.
    """
    ends = [*(old["stored_ms"] for old in versions[1:]), stored_ms]
    entry_history.clear(tx, entry_id)
    entry_history.add(
        tx,
        [
            {
                **{name: old[name] for name in entry_history.KEPT},
                "entry_id": entry_id,
                "version": number,
                "replaced_ms": max(end, old["stored_ms"]),
            }
            for number, (old, end) in enumerate(zip(versions, ends, strict=False), 1)
        ],
    )
    now = entries.row(tx, entry_id)
    place = {name: now[name] for name in ("active", "superseded_by")}
    entries.set_outcome(tx, entry_id, **place, version=len(versions) + 1, stored_ms=stored_ms)


def set_outcome(tx: Tx, entry: Entry, *, active: int, successor: int | None) -> None:
    """Set whether an entry is active, and its successor, without a new version."""
    entries.set_outcome(
        tx,
        entry.id,
        active=active,
        superseded_by=successor,
        version=entry.version,
        stored_ms=entry.stored_ms,
    )
