"""
Earlier versions of entries. Owns the table `entry_history`.

A version is stored when another replaces it, and is deleted with its entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.columns import names_of, names_without
from memdb.errors import existing
from memdb.models.entries import EntryVersion
from memdb.models.ids import MAX_INT, in_rows, span_holds_any
from memdb.text.validate import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from memdb.engine.base import Row, Tx

# Where the fields of an EntryVersion stand that a row holds in another form.
KEYWORDS, METADATA = (EntryVersion._fields.index(name) for name in ("keywords", "metadata"))
FLAGS = tuple(EntryVersion._fields.index(name) for name in ("pinned", "active", "session_only"))

SELECT_END = """/* entry_history.reason_of_end */
SELECT reason FROM entry_history
WHERE entry_id = :entry_id AND active = 1
ORDER BY version DESC
LIMIT 1
"""

# How an entry gives each column of its version.
_KEPT = {
    "entry_id": "id",
    "reason": ":reason",
    "replaced_ms": "CASE WHEN stored_ms < :now_ms THEN :now_ms ELSE stored_ms END",
}

INSERT_CURRENT = compose.insert_select(
    "entry_history.keep",
    "entry_history",
    "",
    f"SELECT {', '.join(_KEPT.get(name, name) for name in names_of('entry_history'))}\n"
    "FROM entries\nWHERE id = :id",
)

# A variant was never what the entry says: it holds for no time.
_REPEATED = {
    "entry_id": "id",
    "reason": "'repeat'",
    **{name: f":{name}" for name in ("text", "session_id", "first_seq", "last_seq", "writer")},
    **dict.fromkeys(("updated_ms", "stored_ms", "replaced_ms"), ":now_ms"),
}

INSERT_REPEATED = compose.insert_select(
    "entry_history.keep_repeated",
    "entry_history",
    "",
    f"SELECT {', '.join(_REPEATED.get(name, name) for name in names_of('entry_history'))}\n"
    "FROM entries\nWHERE id = :id",
)

INSERT_ROW = compose.insert("entry_history.insert", "entry_history")

# The fields of an EntryVersion in their order, each as its column.
_MADE = {"session": "sessions.name", "branch": "nullif(sessions.branch, '')"}

SELECT_VERSIONS = compose.select(
    "entry_history.versions",
    ["entry_id", *(_MADE.get(name, f"entry_history.{name}") for name in EntryVersion._fields)],
    "entry_history LEFT JOIN sessions ON sessions.id = entry_history.session_id",
    "entry_id IN (SELECT value FROM json_each(:ids)) AND version BETWEEN :first AND :last",
    order="entry_id, version",
)

UPDATE_FORGET_SESSION = compose.update(
    "entry_history.forget_sessions",
    "entry_history",
    "session_id BETWEEN :low AND :high",
    session_id="NULL",
    first_seq="NULL",
    last_seq="NULL",
)


UPDATE_SOURCE = compose.update(
    "entry_history.move_source",
    "entry_history",
    "session_id = :session_id AND first_seq >= :first_seq AND last_seq <= :last_seq",
    session_id=":to",
)

SELECT_SOURCE = """/* entry_history.source */
SELECT session_id, first_seq, last_seq
FROM entry_history
WHERE entry_id = :entry_id AND version = :version
"""

SELECT_TEXTS_FROM = """/* entry_history.texts_from */
SELECT entry_id, version, text, keywords, metadata, session_id, first_seq, last_seq
FROM entry_history
WHERE session_id IN (SELECT value FROM json_each(:sessions)) AND entry_id BETWEEN :low AND :high
ORDER BY entry_id, version
"""

SELECT_TEXTS_BETWEEN = """/* entry_history.texts_between */
SELECT entry_id, version, text, keywords, metadata FROM entry_history
WHERE entry_id BETWEEN :low AND :high
ORDER BY entry_id, version
"""

# What a version keeps, wherever it stands among the others of its entry.
KEPT = names_without("entry_history", "entry_id", "version", "replaced_ms")

SELECT_ROWS = compose.select(
    "entry_history.rows", (*KEPT, "replaced_ms"), "entry_history", "entry_id = :entry_id"
)

SELECT_ROW = compose.select(
    "entry_history.row", KEPT, "entry_history", "entry_id = :entry_id AND version = :version"
)

SELECT_WRITTEN = """/* entry_history.written */
SELECT id FROM entries
WHERE id BETWEEN :low AND :high AND writer = :writer AND stored_ms >= :since_ms
UNION
SELECT entry_id FROM entry_history
WHERE entry_id BETWEEN :low AND :high AND writer = :writer AND stored_ms >= :since_ms
ORDER BY 1
"""

DELETE_ALL = """/* entry_history.clear */
DELETE FROM entry_history WHERE entry_id = :entry_id
"""

DELETE_VERSION = """/* entry_history.delete */
DELETE FROM entry_history WHERE entry_id = :entry_id AND version = :version
"""


def keep(tx: Tx, entry_id: int, reason: str) -> None:
    """Store the present state of an entry, before it is changed for *reason*."""
    tx.run(INSERT_CURRENT, {"id": entry_id, "reason": reason, "now_ms": tx.now_ms})


def keep_repeated(tx: Tx, entry_id: int, said: dict[str, Any]) -> None:
    """Store the words, place and writer of a repeated statement, as a version of its entry."""
    tx.run(INSERT_REPEATED, {**said, "id": entry_id, "now_ms": tx.now_ms})


def add(tx: Tx, rows: Iterable[dict[str, Any]]) -> None:
    """Add old versions as an export contains them."""
    tx.many(INSERT_ROW, rows)


def reason_of_end(tx: Tx, entry_id: int) -> str | None:
    """Return why an inactive entry is no longer active, None if it never was."""
    row = tx.one(SELECT_END, {"entry_id": entry_id})
    return None if row is None else str(row[0])


def list_all(tx: Tx, entry_id: int) -> list[EntryVersion]:
    """Return the earlier states of the entry, oldest first, without the present one."""
    return list_many(tx, [entry_id])[entry_id]


def list_many(tx: Tx, ids: Collection[int]) -> dict[int, list[EntryVersion]]:
    """Return what `list_all` does, by entry."""
    found: dict[int, list[EntryVersion]] = {one: [] for one in ids}
    values = {"ids": [*found], "first": 1, "last": MAX_INT}
    for entry_id, *row in tx.all(SELECT_VERSIONS, values) if found else ():
        found[entry_id].append(_to_version(row))
    return found


def get(tx: Tx, entry_id: int, version: int) -> EntryVersion:
    """Return an old version that must exist."""
    row = tx.one(SELECT_VERSIONS, {"ids": [entry_id], "first": version, "last": version})
    return _to_version(existing(row, "entry_history")[1:])


def find(tx: Tx, entry_id: int, version: int) -> EntryVersion | None:
    """Return an earlier version of an entry, None if there is none with this number."""
    return next((one for one in list_all(tx, entry_id) if one.version == version), None)


def source(tx: Tx, entry_id: int, version: int) -> dict[str, int | None]:
    """Return the columns with the place where an existing version was learnt."""
    row = tx.one(SELECT_SOURCE, {"entry_id": entry_id, "version": version})
    row = existing(row, "entry_history")
    return {"session_id": row[0], "first_seq": row[1], "last_seq": row[2]}


def forget_sessions(tx: Tx, low: int, high: int) -> None:
    """Clear the references to the rows in an id range, which are being deleted; the texts stay."""
    tx.run(UPDATE_FORGET_SESSION, {"low": low, "high": high})


def move_source(tx: Tx, session: int, to: int, first_seq: int, last_seq: int) -> None:
    """Move the references of old versions from these messages to another row, as `entries` does."""
    values = {"session_id": session, "to": to, "first_seq": first_seq, "last_seq": last_seq}
    tx.run(UPDATE_SOURCE, values)


def _to_version(row: Sequence[Any]) -> EntryVersion:
    values = list(row)
    values[KEYWORDS] = tuple(row[KEYWORDS].split("\n")) if row[KEYWORDS] else ()
    for place in FLAGS:
        values[place] = bool(row[place])
    values[METADATA] = parse_json(row[METADATA], dict)
    return EntryVersion(*values)


def texts_from(tx: Tx, seqs: Mapping[int, Collection[int] | None]) -> list[Row]:
    """Return (entry, version, text, keywords, metadata) of old versions from some *seqs*."""
    rising = {row: some if some is None else sorted(some) for row, some in seqs.items()}
    found: list[Row] = []
    for *row, session, first, last in tx.all(SELECT_TEXTS_FROM, in_rows(rising)) if rising else ():
        some = rising[session]
        if some is None or span_holds_any(first, last, some):
            found.append(tuple(row))
    return found


def texts_between(tx: Tx, low: int, high: int) -> list[Row]:
    """Return (entry, version, text, keywords, metadata) of the old versions of an id range."""
    return tx.all(SELECT_TEXTS_BETWEEN, {"low": low, "high": high})


def delete(tx: Tx, versions: Iterable[tuple[int, int]]) -> None:
    """Remove what entries once said, given as (entry, version)."""
    tx.many(DELETE_VERSION, [{"entry_id": one, "version": version} for one, version in versions])


def rows(tx: Tx, entry_id: int) -> list[dict[str, Any]]:
    """Return the columns of the old versions of an entry, without their numbers."""
    found = tx.all(SELECT_ROWS, {"entry_id": entry_id})
    return [dict(zip((*KEPT, "replaced_ms"), row, strict=True)) for row in found]


def row(tx: Tx, entry_id: int, version: int) -> dict[str, Any]:
    """Return the columns of an existing old version, without its number."""
    found = tx.one(SELECT_ROW, {"entry_id": entry_id, "version": version})
    return dict(zip(KEPT, existing(found, "entry_history"), strict=True))


def written(tx: Tx, low: int, high: int, writer: str, since_ms: int) -> list[int]:
    """Return the entries in an id range that *writer* wrote since a time, in any version."""
    values = {"low": low, "high": high, "writer": writer, "since_ms": since_ms}
    return [row[0] for row in tx.all(SELECT_WRITTEN, values)]


def clear(tx: Tx, entry_id: int) -> None:
    """Remove every old version of an entry."""
    tx.run(DELETE_ALL, {"entry_id": entry_id})
