"""
Entries: long-term records. Owns the table `entries`; `standing` reads it too.

At most one active entry of a scope states a given key without an end. Whoever
updates one keeps what it was before (`history.keep`) in the same transaction.
"""

from __future__ import annotations

from memdb.models.messages import Entry
from memdb.text.derived import content_hash
from memdb.text.validate import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from memdb.engine.base import Row, Tx

# Where the fields of an Entry stand that a row holds in another form.
KEYWORDS, METADATA = (Entry._fields.index(name) for name in ("keywords", "metadata"))
FLAGS = tuple(Entry._fields.index(name) for name in ("pinned", "active", "session_only"))

ROW_FIELDS = tuple(
    "category key text keywords importance pinned trust active superseded_by session_id first_seq "
    "last_seq session_only source valid_from_ms valid_to_ms expires_ms metadata updated_ms uid "
    "created_ms bigrams".split()
)

INSERT_ENTRY = """/* entries.insert */
INSERT INTO entries (
  id,
  uid,
  scope_no,
  category,
  key,
  text,
  keywords,
  importance,
  pinned,
  trust,
  version,
  active,
  superseded_by,
  session_id,
  first_seq,
  last_seq,
  session_only,
  source,
  use_count,
  last_used_ms,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  metadata,
  content_hash,
  said_hash,
  created_ms,
  updated_ms,
  stored_ms,
  bigrams
)
VALUES (
  :id,
  :uid,
  :scope_no,
  :category,
  :key,
  :text,
  :keywords,
  :importance,
  :pinned,
  :trust,
  :version,
  :active,
  :superseded_by,
  :session_id,
  :first_seq,
  :last_seq,
  :session_only,
  :source,
  :use_count,
  :last_used_ms,
  :valid_from_ms,
  :valid_to_ms,
  :expires_ms,
  :metadata,
  :content_hash,
  :said_hash,
  :created_ms,
  :updated_ms,
  :stored_ms,
  :bigrams
)
"""

SELECT_BY_KEY = """/* entries.find_key */
SELECT id
FROM entries
WHERE
  scope_no = :scope_no
  AND key = :key
  AND holds_from_ms <= :now_ms
  AND holds_until_ms > :now_ms
ORDER BY holds_from_ms DESC, id DESC
LIMIT 1
"""

SELECT_OPEN = """/* entries.open_key */
SELECT id FROM entries
WHERE scope_no = :scope_no AND key = :key AND active = 1 AND valid_to_ms IS NULL
"""

SELECT_BY_UID = """/* entries.find_uid */
SELECT id FROM entries WHERE id BETWEEN :low AND :high AND uid = :uid
"""

SELECT_BY_UIDS = """/* entries.find_uids */
SELECT uid, id
FROM entries
WHERE id BETWEEN :low AND :high AND uid IN (SELECT value FROM json_each(:uids))
"""

SELECT_PAGE = """/* entries.list */
SELECT id
FROM entries
WHERE
  id > :after
  AND id <= :high
  AND (CAST(:category AS TEXT) IS NULL OR category = :category)
  AND (CAST(:pinned AS BIGINT) IS NULL OR pinned = :pinned)
  AND (
    :inactive
    OR (holds_from_ms <= :now_ms AND holds_until_ms > :now_ms)
  )
ORDER BY id
LIMIT :limit
"""

SELECT_MANY = """/* entries.get_many */
SELECT
  entries.id,
  category,
  text,
  key,
  keywords,
  importance,
  pinned,
  trust,
  version,
  active,
  superseded_by,
  sessions.name,
  first_seq,
  entries.last_seq,
  session_only,
  source,
  use_count,
  last_used_ms,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  entries.metadata,
  entries.created_ms,
  entries.updated_ms,
  stored_ms,
  entries.uid
FROM entries
LEFT JOIN sessions ON sessions.id = entries.session_id
WHERE entries.id IN (SELECT value FROM json_each(:ids))
"""

SELECT_TEXT = """/* entries.text */
SELECT text, version FROM entries WHERE id = :id
"""

SELECT_ROW = """/* entries.row */
SELECT
  category,
  key,
  text,
  keywords,
  importance,
  pinned,
  trust,
  active,
  superseded_by,
  session_id,
  first_seq,
  last_seq,
  session_only,
  source,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  metadata,
  updated_ms,
  uid,
  created_ms,
  bigrams
FROM entries
WHERE id = :id
"""

UPDATE_ENTRY = """/* entries.update */
UPDATE entries
SET
  category = :category,
  key = :key,
  text = :text,
  keywords = :keywords,
  importance = :importance,
  pinned = :pinned,
  trust = :trust,
  active = :active,
  superseded_by = :superseded_by,
  session_id = :session_id,
  first_seq = :first_seq,
  last_seq = :last_seq,
  session_only = :session_only,
  source = :source,
  valid_from_ms = :valid_from_ms,
  valid_to_ms = :valid_to_ms,
  expires_ms = :expires_ms,
  metadata = :metadata,
  updated_ms = :updated_ms,
  bigrams = :bigrams,
  content_hash = :content_hash,
  said_hash = :said_hash,
  version = version + 1,
  stored_ms = CASE WHEN stored_ms < :now_ms THEN :now_ms ELSE stored_ms END
WHERE id = :id
RETURNING version
"""

UPDATE_SUPERSEDED = """/* entries.link */
UPDATE entries SET superseded_by = :superseded_by WHERE id = :id
"""

UPDATE_FORGET_SESSION = """/* entries.forget_session */
UPDATE entries SET session_id = NULL, first_seq = NULL, last_seq = NULL
WHERE session_id = :session_id
"""

SELECT_SESSION_ONLY = """/* entries.session_only */
SELECT id FROM entries WHERE session_id = :session_id AND session_only = 1 ORDER BY id
"""

DELETE_ENTRY = """/* entries.delete */
DELETE FROM entries WHERE id = :id
"""

INSERT_TOMBSTONE = """/* entries.insert_tombstone */
INSERT INTO tombstones (uid, kind, scope_no, ref, deleted_ms)
SELECT uid, 'entry', scope_no, CAST(id AS TEXT), :now_ms FROM entries WHERE id = :id
ON CONFLICT (uid) DO UPDATE SET deleted_ms = excluded.deleted_ms
"""


def _to_entry(row: Row) -> Entry:
    values = list(row)
    values[KEYWORDS] = tuple(row[KEYWORDS].split("\n")) if row[KEYWORDS] else ()
    for place in FLAGS:
        values[place] = bool(row[place])
    values[METADATA] = parse_json(row[METADATA])
    return Entry(*values)


def hash_of(row: dict[str, Any]) -> bytes:
    """Return the content hash of a row: what it says, not how often it was used."""
    return content_hash(
        row["uid"],
        row["category"],
        row["key"],
        row["text"],
        row["keywords"],
        row["importance"],
        row["metadata"],
        row["created_ms"],
    )


def add(tx: Tx, row: dict[str, Any]) -> None:
    """Add an entry; *row* holds every column by name."""
    tx.run(INSERT_ENTRY, row)


def find(tx: Tx, entry_id: int) -> Entry | None:
    """Return an entry, None if there is none with this id."""
    return get_many(tx, [entry_id]).get(entry_id)


def find_key(tx: Tx, scope_no: int, key: str, now_ms: int) -> int | None:
    """Return the id of the active entry that states the fact *key* then, None without one."""
    row = tx.one(SELECT_BY_KEY, {"scope_no": scope_no, "key": key, "now_ms": now_ms})
    return None if row is None else int(row[0])


def open_key(tx: Tx, scope_no: int, key: str) -> int | None:
    """Return the id of the active entry of *key* that has no end, None without one."""
    row = tx.one(SELECT_OPEN, {"scope_no": scope_no, "key": key})
    return None if row is None else int(row[0])


def find_uid(tx: Tx, low: int, high: int, uid: str) -> int | None:
    """Return the id of the entry with *uid* in an id range, None without one."""
    row = tx.one(SELECT_BY_UID, {"low": low, "high": high, "uid": uid})
    return None if row is None else int(row[0])


def find_uids(tx: Tx, low: int, high: int, uids: list[str]) -> dict[str, int]:
    """Return the id by uid, for those of *uids* that an id range holds. Reads it whole."""
    return dict(tx.all(SELECT_BY_UIDS, {"low": low, "high": high, "uids": uids}))


def list_page(
    tx: Tx,
    after: int,
    high: int,
    *,
    limit: int,
    now_ms: int,
    category: str | None = None,
    pinned: bool | None = None,
    inactive: bool = False,
) -> list[Entry]:
    """
    Return up to *limit* entries with *after* < id <= *high* that hold at *now_ms*, by id.

    Args:
        category: Only these; None: of every category.
        pinned: Only those that are, or are not; None: both.
        inactive: Also those that do not hold.
    """
    values = {
        "after": after,
        "high": high,
        "category": category,
        "pinned": pinned,
        "inactive": inactive,
        "limit": limit,
        "now_ms": now_ms,
    }
    ids = [row[0] for row in tx.all(SELECT_PAGE, values)]
    found = get_many(tx, ids)
    return [found[one] for one in ids]


def get_many(tx: Tx, ids: Collection[int]) -> dict[int, Entry]:
    """Return the entries with these *ids*, by id."""
    return {row[0]: _to_entry(row) for row in tx.all(SELECT_MANY, {"ids": ids})}


def text(tx: Tx, entry_id: int) -> tuple[str, int] | None:
    """Return an entry's text and version, None if it is gone."""
    row = tx.one(SELECT_TEXT, {"id": entry_id})
    return None if row is None else (row[0], row[1])


def row(tx: Tx, entry_id: int) -> dict[str, Any]:
    """Return the columns of an existing entry that `update` takes, and those of its hash."""
    found = tx.one(SELECT_ROW, {"id": entry_id})
    assert found is not None
    return dict(zip(ROW_FIELDS, found, strict=True))


def update(tx: Tx, entry_id: int, row: dict[str, Any]) -> int:
    """Replace what an entry is and return its new version; keep the old one first."""
    changed = tx.one(UPDATE_ENTRY, {**row, "id": entry_id, "now_ms": tx.now_ms})
    assert changed is not None
    return int(changed[0])


def link(tx: Tx, entry_id: int, superseded_by: int) -> None:
    """Note which entry took this one's place."""
    tx.run(UPDATE_SUPERSEDED, {"id": entry_id, "superseded_by": superseded_by})


def session_only(tx: Tx, session: int) -> list[int]:
    """Return the ids of the entries that only this session recalls."""
    return [row[0] for row in tx.all(SELECT_SESSION_ONLY, {"session_id": session})]


def forget_session(tx: Tx, session: int) -> None:
    """Cut the link to a session that goes away; what the entries say stays."""
    tx.run(UPDATE_FORGET_SESSION, {"session_id": session})


def delete(tx: Tx, entry_id: int) -> bool:
    """Remove an entry and its history, leaving a tombstone; False if it is absent."""
    tx.run(INSERT_TOMBSTONE, {"id": entry_id, "now_ms": tx.now_ms})
    return tx.run(DELETE_ENTRY, {"id": entry_id}) > 0
