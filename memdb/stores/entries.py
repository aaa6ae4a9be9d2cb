"""
Entries: long-term records. Owns the table `entries`.

At most one active entry of a scope has a given key. Whoever updates one keeps
what it said before (`history.keep`) in the same transaction.
"""

from __future__ import annotations

from memdb.models import Entry
from memdb.text.digest import content_hash
from memdb.text.validate import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from memdb.db.transaction import Row, Tx

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
  version,
  active,
  superseded_by,
  session_id,
  first_seq,
  last_seq,
  use_count,
  last_used_ms,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  metadata,
  content_hash,
  created_ms,
  updated_ms,
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
  :version,
  :active,
  :superseded_by,
  :session_id,
  :first_seq,
  :last_seq,
  :use_count,
  :last_used_ms,
  :valid_from_ms,
  :valid_to_ms,
  :expires_ms,
  :metadata,
  :content_hash,
  :created_ms,
  :updated_ms,
  :bigrams
)
"""

SELECT_BY_KEY = """/* entries.find_key */
SELECT id FROM entries WHERE scope_no = :scope_no AND key = :key AND active = 1
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
SELECT
  entries.id,
  category,
  text,
  key,
  keywords,
  importance,
  version,
  active,
  superseded_by,
  sessions.name,
  first_seq,
  entries.last_seq,
  use_count,
  last_used_ms,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  entries.metadata,
  entries.created_ms,
  entries.updated_ms,
  entries.uid
FROM entries
LEFT JOIN sessions ON sessions.id = entries.session_id
WHERE
  entries.id > :after
  AND entries.id <= :high
  AND (:category IS NULL OR category = :category)
  AND (
    :inactive
    OR (active = 1 AND (:now_ms IS NULL OR expires_ms IS NULL OR expires_ms > :now_ms))
  )
ORDER BY entries.id
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
  version,
  active,
  superseded_by,
  sessions.name,
  first_seq,
  entries.last_seq,
  use_count,
  last_used_ms,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  entries.metadata,
  entries.created_ms,
  entries.updated_ms,
  entries.uid
FROM entries
LEFT JOIN sessions ON sessions.id = entries.session_id
WHERE entries.id IN (SELECT value FROM json_each(:ids))
"""

SELECT_TEXT = """/* entries.text */
SELECT text, version FROM entries WHERE id = :id
"""

SELECT_LIVE = """/* entries.live */
SELECT id FROM entries
WHERE
  id BETWEEN :low AND :high
  AND active = 1
  AND (expires_ms IS NULL OR expires_ms > :now_ms)
  AND created_ms >= :since_ms
  AND created_ms < :until_ms
  AND (:session_id IS NULL OR session_id = :session_id)
"""

SELECT_IMPORTANCE = """/* entries.importance */
SELECT id, importance FROM entries WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_COUNT = """/* entries.count */
SELECT count(*) FROM entries WHERE id BETWEEN :low AND :high
"""

UPDATE_ENTRY = """/* entries.update */
UPDATE entries
SET
  category = :category,
  text = :text,
  keywords = :keywords,
  importance = :importance,
  valid_from_ms = :valid_from_ms,
  expires_ms = :expires_ms,
  metadata = :metadata,
  session_id = :session_id,
  first_seq = :first_seq,
  last_seq = :last_seq,
  content_hash = :content_hash,
  bigrams = :bigrams,
  version = version + 1,
  updated_ms = :now_ms
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

DELETE_ENTRY = """/* entries.delete */
DELETE FROM entries WHERE id = :id
"""

INSERT_TOMBSTONE = """/* entries.insert_tombstone */
INSERT INTO tombstones (uid, kind, scope_no, ref, deleted_ms)
SELECT uid, 'entry', scope_no, CAST(id AS TEXT), :now_ms FROM entries WHERE id = :id
ON CONFLICT (uid) DO UPDATE SET deleted_ms = excluded.deleted_ms
"""

SELECT_HASHED = """/* entries.hashed */
SELECT id, uid, category, key, text, keywords, importance, metadata, created_ms, content_hash
FROM entries
WHERE id > :after
ORDER BY id
LIMIT :limit
"""


def _to_entry(row: Row) -> Entry:
    values = list(row)
    values[4] = tuple(row[4].split("\n")) if row[4] else ()
    values[7] = bool(row[7])
    values[17] = parse_json(row[17])
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
    return get_many(tx, f"[{entry_id}]").get(entry_id)


def find_key(tx: Tx, scope_no: int, key: str) -> int | None:
    """Return the id of the active entry that states the fact *key*, None without one."""
    row = tx.one(SELECT_BY_KEY, {"scope_no": scope_no, "key": key})
    return None if row is None else int(row[0])


def find_uid(tx: Tx, low: int, high: int, uid: str) -> int | None:
    """Return the id of the entry with *uid* in an id range, None without one."""
    row = tx.one(SELECT_BY_UID, {"low": low, "high": high, "uid": uid})
    return None if row is None else int(row[0])


def find_uids(tx: Tx, low: int, high: int, uids: str) -> dict[str, int]:
    """Return the id by uid, for those in the JSON array that an id range holds. Reads it whole."""
    return dict(tx.all(SELECT_BY_UIDS, {"low": low, "high": high, "uids": uids}))


def list_page(
    tx: Tx,
    after: int,
    high: int,
    *,
    category: str | None,
    inactive: bool,
    limit: int,
    now_ms: int | None = None,
) -> list[Entry]:
    """
    Return up to *limit* entries with *after* < id <= *high*, by id.

    Args:
        category: Only these; None: of every category.
        inactive: Whether inactive and expired ones are wanted too.
        now_ms: What has expired by then is left out; None: nothing has.
    """
    values = {
        "after": after,
        "high": high,
        "category": category,
        "inactive": inactive,
        "limit": limit,
        "now_ms": now_ms,
    }
    return [_to_entry(row) for row in tx.all(SELECT_PAGE, values)]


def get_many(tx: Tx, ids: str) -> dict[int, Entry]:
    """Return the entries whose id is in the JSON array *ids*, by id."""
    return {row[0]: _to_entry(row) for row in tx.all(SELECT_MANY, {"ids": ids})}


def text(tx: Tx, entry_id: int) -> tuple[str, int] | None:
    """Return an entry's text and version, None if it is gone."""
    row = tx.one(SELECT_TEXT, {"id": entry_id})
    return None if row is None else (row[0], row[1])


def importance(tx: Tx, ids: str) -> dict[int, int]:
    """Return the importance of the entries whose id is in the JSON array *ids*, by id."""
    return dict(tx.all(SELECT_IMPORTANCE, {"ids": ids}))


def live_ids(
    tx: Tx,
    low: int,
    high: int,
    *,
    now_ms: int,
    since_ms: int,
    until_ms: int,
    session: int | None = None,
) -> set[int]:
    """
    Return the ids in a range that are active, unexpired and made in [since, until).

    Args:
        session: Only those told in it; None: wherever they were told.
    """
    values = {
        "low": low,
        "high": high,
        "now_ms": now_ms,
        "since_ms": since_ms,
        "until_ms": until_ms,
        "session_id": session,
    }
    return {row[0] for row in tx.all(SELECT_LIVE, values)}


def count(tx: Tx, low: int, high: int) -> int:
    """Return how many entries have *low* <= id <= *high*."""
    row = tx.one(SELECT_COUNT, {"low": low, "high": high})
    return 0 if row is None else int(row[0])


def update(tx: Tx, entry_id: int, row: dict[str, Any]) -> int:
    """Replace what an entry says and return its new version; keep the old one first."""
    changed = tx.one(UPDATE_ENTRY, {**row, "id": entry_id, "now_ms": tx.now_ms})
    assert changed is not None
    return int(changed[0])


def link(tx: Tx, entry_id: int, superseded_by: int) -> None:
    """Note which entry took this one's place."""
    tx.run(UPDATE_SUPERSEDED, {"id": entry_id, "superseded_by": superseded_by})


def forget_session(tx: Tx, session: int) -> None:
    """Cut the link to a session that goes away; what the entries say stays."""
    tx.run(UPDATE_FORGET_SESSION, {"session_id": session})


def delete(tx: Tx, entry_id: int) -> bool:
    """Remove an entry and its history, leaving a tombstone; False if it is absent."""
    tx.run(INSERT_TOMBSTONE, {"id": entry_id, "now_ms": tx.now_ms})
    return tx.run(DELETE_ENTRY, {"id": entry_id}) > 0


def damaged(tx: Tx) -> Iterable[int]:
    """Yield the id of each entry whose content does not match its hash."""
    after = 0
    while rows := tx.all(SELECT_HASHED, {"after": after, "limit": 1000}):
        for row in rows:
            *content, stored = row
            if content_hash(*content[1:]) != stored:
                yield row[0]
        after = rows[-1][0]
