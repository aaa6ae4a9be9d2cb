"""
State that a file and its sync folder have agreed on. Owns the table `synced`.

A thing of the memory is named by a hash of its uid, or of its name where copies of it are one. Its
version is a digest of its content. So a thing changed since the last sync if it has no row here or
another version. A row without its thing is a removal. Writers log nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.models.ids import thing_hash
from memdb.models.messages import uid_to_bytes
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memdb.engine.base import Tx

# Branches that `memdb.sync` made where two devices continued one session: each makes them itself.
FORK, FORK_DIGITS = "fork-", 8
FORKS = f"{FORK}{'[0-9a-f]' * FORK_DIGITS}*"

# What tells one version of an entry from another, in this order.
SAID = (
    *("text", "category", "key", "keywords", "importance", "pinned", "valid_from_ms"),
    *("valid_to_ms", "expires_ms", "metadata", "updated_ms", "stored_ms"),
)
_SAID = ", ".join(SAID)
_SAID_BEFORE = ", ".join(f"old.{name}" for name in SAID)
_SAID_NOW = ", ".join(f"entries.{name}" for name in SAID)

# An entry that states its key but for another one, which was said later on a second device: which
# of them stands follows from all of them, and is no change of any.
_GAVE_WAY = "(active = 0 AND key IS NOT NULL AND valid_to_ms IS NULL AND superseded_by IS NOT NULL)"

# By kind: scope, thing, version, time of the last change (0: not known), and where it is.
THINGS = {
    "session": """
SELECT scope_no, thing_hash(name), row_digest(title, metadata), 0, id
FROM sessions WHERE branch = ''
""",
    "branch": f"""
SELECT scope_no, thing_hash(name, branch), row_digest(metadata, uid), 0, id
FROM sessions WHERE branch <> '' AND (branch NOT GLOB '{FORKS}' OR metadata IS NOT NULL)
""",
    "message": """
SELECT id >> 44, thing_hash(uid), row_digest(content_hash), 0, id FROM messages
""",
    "entry": f"""
SELECT scope_no, thing_hash(uid), row_digest({_SAID}, active OR {_GAVE_WAY}), stored_ms, id
FROM entries
""",
    "link": """
SELECT scope_no, thing_hash(uid), superseded_by, 0, id FROM entries
WHERE superseded_by IS NOT NULL AND valid_to_ms IS NOT NULL
""",
    "version": f"""
SELECT scope_no, thing_hash(uid, {_SAID_BEFORE}), 0, 0, json_array(entry_id, old.version)
FROM entry_history AS old
JOIN entries ON entries.id = entry_id
""",
    "artifact": """
SELECT
  scope_no, thing_hash(uid), ifnull(moved_ms, 0), ifnull(moved_ms, 0),
  json_array(session_no, name, :last - rev_version)
FROM artifacts
""",
    "summary": """
SELECT
  scope_no, thing_hash(name, branch, depth, first_seq, summaries.last_seq), 0,
  summaries.created_ms, summaries.id
FROM summaries JOIN sessions ON sessions.id = session_id
WHERE quality = 'model'
""",
    "item": """
SELECT scope_no, thing_hash(path, key), row_digest(uid, version), updated_ms, items.id
FROM items JOIN item_namespaces ON item_namespaces.id = namespace_id
""",
    "state": """
SELECT
  0, thing_hash(app, user_name, session, key), row_digest(version, updated_ms),
  updated_ms, json_array(app, user_name, session, key)
FROM state
""",
}

_NAMED = {
    kind: f"things (scope_no, thing, version, ms, ref) AS ({sql})" for kind, sql in THINGS.items()
}

# Things of a kind beside what was agreed on of each, and whether it is new or says other things.
SELECT_THINGS = {
    kind: f"""/* synced.{kind} */
WITH {named}
SELECT
  things.scope_no, things.thing, things.version, ms, ref, stamp,
  synced.gone IS NOT 0 OR synced.version <> things.version AS is_fresh
FROM things
LEFT JOIN synced
  ON
    synced.scope_no = things.scope_no
    AND synced.thing = things.thing
    AND synced.kind = '{kind}'
WHERE
  (:is_full OR is_fresh)
  AND (
    :things IS NULL
    OR (things.scope_no = :scope_no AND things.thing IN (SELECT value FROM json_each(:things)))
  )
"""
    for kind, named in _NAMED.items()
}

# An old version that stands again is not removed.
_STANDS = {
    "version": f"""UNION ALL
SELECT scope_no, thing_hash(uid, {_SAID}) FROM entries
"""
}

SELECT_REMOVED = {
    kind: f"""/* synced.removed_{kind} */
WITH {named}
SELECT scope_no, thing, stamp FROM synced
WHERE
  kind = '{kind}'
  AND gone = 0
  AND (scope_no, thing) NOT IN (SELECT scope_no, thing FROM things {_STANDS.get(kind, "")})
"""
    for kind, named in _NAMED.items()
}

SELECT_KNOWN = """/* synced.known */
SELECT thing, version, gone, stamp FROM synced
WHERE kind = :kind AND scope_no = :scope_no AND thing IN (SELECT value FROM json_each(:things))
"""

SELECT_GONE = compose.select(
    "synced.gone", "kind, scope_no, thing, gone, stamp", "synced", "gone > 0"
)

# Entries that state a key, or would if no other one did; *opened* were not placed yet.
SELECT_RIVALS = f"""/* synced.rivals */
SELECT id, uid, thing_hash(uid), trust, active, superseded_by, stored_ms FROM entries
WHERE
  scope_no = :scope_no
  AND key = :key
  AND session_only = :session_only
  AND (session_only = 0 OR session_id IS :session_id)
  AND valid_to_ms IS NULL
  AND (active = 1 OR {_GAVE_WAY} OR id IN (SELECT value FROM json_each(:opened)))
"""

SELECT_RIVAL_KEYS = f"""/* synced.rival_keys */
SELECT DISTINCT scope_no, key, session_only, session_id FROM entries WHERE {_GAVE_WAY}
"""

SELECT_SAID_TWICE = f"""/* synced.said_twice */
SELECT DISTINCT entry_id
FROM entry_history AS old
JOIN entries ON entries.id = entry_id
WHERE ({_SAID_NOW}) IS ({_SAID_BEFORE})
"""

UPSERT = compose.insert(
    "synced.put",
    "synced",
    otherwise=compose.conflict("kind, scope_no, thing", "version, gone, stamp"),
)

SELECT_FORGOTTEN = """/* synced.forgotten */
SELECT scope_no, kind, thing_hash(uid) FROM tombstones WHERE forgotten = 1
"""

# When entries and sessions were deleted; items and state leave nothing that says it.
SELECT_DELETED = """/* synced.deleted */
SELECT scope_no, thing_hash(CASE kind WHEN 'session' THEN ref ELSE uid END), deleted_ms
FROM tombstones
WHERE kind = :kind
ORDER BY deleted_ms
"""

# The device, its key and how far it has read; see `memdb.sync.device`.
SELECT_DEVICE = compose.select(
    "synced.device", "value", "meta", "key IN ('sync', 'sync_key')", order="key"
)

UPSERT_DEVICE = compose.insert(
    "synced.set_device", "meta", otherwise=compose.conflict("key", "value")
)

SELECT_UIDS = """/* synced.message_uids */
SELECT id, uid, created_ms FROM messages WHERE id BETWEEN :low AND :high ORDER BY id
"""

SELECT_MESSAGE_VERSIONS = """/* synced.message_versions */
SELECT thing_hash(uid), row_digest(content_hash) FROM messages
WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_LENGTHS = """/* synced.lengths */
SELECT every.id, every.last_seq, every.message_count
FROM sessions
JOIN sessions AS every ON every.scope_no = sessions.scope_no AND every.name = sessions.name
WHERE sessions.id = :id
ORDER BY every.id
"""

_LAST = {"artifact": {"last": (1 << 63) - 1}}


class Known(Record):
    """Agreed state of a thing: its version, 1 or 2 if it is *gone*, and the stamp."""

    version: int
    gone: int
    stamp: int


def message_thing(uid: str) -> int:
    """Return the hash that names a message."""
    return thing_hash(uid_to_bytes(uid))


def things(
    tx: Tx, kind: str, *, is_full: bool, scope_no: int = 0, among: Collection[int] | None = None
) -> list[tuple[int, int, int, int, int | str, int | None, int]]:
    """
    Return (scope, thing, version, ms, place, stamp, is_fresh) of things; *is_full*: also of old.

    *ms* is when it was changed, 0 where that is not known; the stamp is that of its row. It is
    fresh if it has none, or differs from it. *among*: only of these things of a scope.
    """
    values = {"is_full": int(is_full), "scope_no": scope_no, "things": among and list(among)}
    return tx.all(SELECT_THINGS[kind], {**values, **_LAST.get(kind, {})})


def removed(tx: Tx, kind: str) -> list[tuple[int, int, int]]:
    """Return (scope, thing, stamp) of what was agreed on and is not here any more."""
    return tx.all(SELECT_REMOVED[kind], _LAST.get(kind))


def here(
    tx: Tx, kind: str, scope_no: int, among: Collection[int]
) -> dict[int, tuple[int, int | str]]:
    """Return (version, place) of those things that the scope holds. Reads the kind whole."""
    found = things(tx, kind, is_full=True, scope_no=scope_no, among=among) if among else ()
    return {thing: (version, ref) for _, thing, version, _, ref, _, _ in found}


def known(tx: Tx, kind: str, scope_no: int, things: Collection[int]) -> dict[int, Known]:
    """Return the rows of *things*."""
    values = {"kind": kind, "scope_no": scope_no, "things": list(things)}
    return {thing: Known(*row) for thing, *row in tx.all(SELECT_KNOWN, values)}


def gone(tx: Tx) -> list[tuple[str, int, int, int, int]]:
    """Return (kind, scope, thing, gone, stamp) of all that was removed."""
    return tx.all(SELECT_GONE)


def rival_keys(tx: Tx) -> list[tuple[int, str, int, int | None]]:
    """Return (scope, key, session_only, session) of what several entries state."""
    return tx.all(SELECT_RIVAL_KEYS)


def rivals(
    tx: Tx, scope_no: int, key: tuple[str, int, int | None], opened: Collection[int]
) -> list[tuple[int, str, int, str, int, int | None, int]]:
    """Return (id, uid, thing, trust, active, successor, stored_ms) of all that state a key."""
    names = dict(zip(("key", "session_only", "session_id"), key, strict=True))
    return tx.all(SELECT_RIVALS, {**names, "scope_no": scope_no, "opened": list(opened)})


def said_twice(tx: Tx) -> list[int]:
    """Return the ids of entries with an old version that says what they say now."""
    return [row[0] for row in tx.all(SELECT_SAID_TWICE)]


def put(tx: Tx, kind: str, scope_no: int, rows: Iterable[tuple[int, int, int, int]]) -> None:
    """Store the agreed state of things of a scope, given as (thing, version, gone, stamp)."""
    names = ("thing", "version", "gone", "stamp")
    place = {"kind": kind, "scope_no": scope_no}
    tx.many(UPSERT, [{**place, **dict(zip(names, row, strict=True))} for row in rows])


def forgotten(tx: Tx) -> list[tuple[int, str, int]]:
    """Return (scope, kind, hash of the uid) of all that was forgotten."""
    return tx.all(SELECT_FORGOTTEN)


def deleted(tx: Tx, kind: str) -> dict[tuple[int, int], int]:
    """Return when things of a kind were deleted, by (scope, thing), where that is known."""
    return {(scope_no, thing): ms for scope_no, thing, ms in tx.all(SELECT_DELETED, {"kind": kind})}


def device(tx: Tx) -> list[str]:
    """Return what the file says of its device, as JSON, and its key; [] before its first sync."""
    return [value for (value,) in tx.all(SELECT_DEVICE)]


def set_device(tx: Tx, value: str, key: str) -> None:
    """Keep what the file says of its device, and its key."""
    rows = {"sync": value, "sync_key": key}
    tx.many(UPSERT_DEVICE, [{"key": name, "value": one} for name, one in rows.items()])


def message_uids(tx: Tx, low: int, high: int) -> list[tuple[int, bytes, int]]:
    """Return (id, uid, created_ms) of the messages in an id range, as they are stored."""
    return tx.all(SELECT_UIDS, {"low": low, "high": high})


def message_versions(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """Return the version of each message in *ids*, by its thing; `here` reads all there are."""
    return dict(tx.all(SELECT_MESSAGE_VERSIONS, {"ids": list(ids)}))


def lengths(tx: Tx, session: int) -> list[tuple[int, int, int]]:
    """Return (id, last seq, number of messages) of a session and its branches."""
    return tx.all(SELECT_LENGTHS, {"id": session})
