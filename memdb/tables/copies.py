"""
What `memdb copy` reads and writes: the rows of one scope, table by table, and its mark.

A scope is copied under a hidden name, which no call of the API opens, until it is proven equal.
How far it is stands in `meta` (keys that begin with 'copy'), written with the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.errors import existing
from memdb.models.ids import SCOPE_SHIFT, scope_range
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.engine.base import Row, Tx

# Key of the lease in meta, and what those of scopes begin with.
LEASE = "copy"
MARK = "copy/"


class Table(Record):
    """
    How the rows of one table are read, moved to other ids, and removed.

    Attributes:
        select: Reads a page behind a key, whose columns come first.
        start: The key before every row; a packed id counts from that of the scope.
        packed: Columns that hold an id of the scope.
        link: A column that names a row of the same table, maybe a later one; "": none.
        words: The kind of its full-text index; "": none.
        limit: Rows in a page.
        verify: Whether the engine compares its rows by their first column with their digests.
    """

    name: str
    columns: tuple[str, ...]
    select: str
    delete: str
    start: tuple[Any, ...] = (0,)
    packed: tuple[str, ...] = ("id",)
    link: str = ""
    words: str = ""
    limit: int = 2000
    verify: bool = False


SESSIONS = Table(
    "sessions",
    (
        "id",
        "scope_no",
        "uid",
        "name",
        "branch",
        "parent_id",
        "leaves_at",
        "shares",
        "title",
        "last_seq",
        "metadata",
        "created_ms",
        "updated_ms",
        "bigrams",
        "message_count",
        "tokens",
        "archived_count",
    ),
    """/* copies.sessions */
SELECT
  id, scope_no, uid, name, branch, parent_id, leaves_at, shares, title, last_seq, metadata,
  created_ms, updated_ms, bigrams, message_count, tokens, archived_count
FROM sessions
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_sessions */
DELETE FROM sessions
WHERE
  id BETWEEN :low AND :high
  AND NOT EXISTS (SELECT 1 FROM sessions AS branch WHERE branch.parent_id = sessions.id)
""",
    packed=("id", "parent_id"),
    words="session",
    verify=True,
)

MESSAGES = Table(
    "messages",
    (
        "id",
        "uid",
        "role_code",
        "author",
        "text",
        "parts",
        "external_id",
        "tokens",
        "counter_code",
        "metadata",
        "content_hash",
        "created_ms",
        "bigrams",
        "spans",
    ),
    """/* copies.messages */
SELECT
  id, uid, role_code, author, text, parts, external_id, tokens, counter_code, metadata,
  content_hash, created_ms, bigrams, spans
FROM messages
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_messages */
DELETE FROM messages WHERE id BETWEEN :low AND :high
""",
    words="message",
    verify=True,
)

SEGMENTS = Table(
    "archive_segments",
    (
        "session_id",
        "first_seq",
        "last_seq",
        "message_count",
        "codec",
        "data",
        "sha256",
        "created_ms",
    ),
    """/* copies.segments */
SELECT session_id, first_seq, last_seq, message_count, codec, data, sha256, created_ms
FROM archive_segments
WHERE
  session_id BETWEEN :after AND :high
  AND (session_id > :after OR first_seq > :after_2)
ORDER BY session_id, first_seq
LIMIT :limit
""",
    """/* copies.delete_segments */
DELETE FROM archive_segments WHERE session_id BETWEEN :low AND :high
""",
    start=(0, 0),
    packed=("session_id",),
    limit=64,
)

SUMMARIES = Table(
    "summaries",
    (
        "id",
        "uid",
        "session_id",
        "depth",
        "first_seq",
        "last_seq",
        "condensed_into",
        "text",
        "hint",
        "quality",
        "summarizer",
        "tokens",
        "counter_code",
        "content_hash",
        "created_ms",
        "bigrams",
    ),
    """/* copies.summaries */
SELECT
  id, uid, session_id, depth, first_seq, last_seq, condensed_into, text, hint, quality,
  summarizer, tokens, counter_code, content_hash, created_ms, bigrams
FROM summaries
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_summaries */
DELETE FROM summaries WHERE id BETWEEN :low AND :high
""",
    packed=("id", "session_id", "condensed_into"),
    link="condensed_into",
    words="summary",
    verify=True,
)

ENTRIES = Table(
    "entries",
    (
        "id",
        "uid",
        "scope_no",
        "category",
        "key",
        "text",
        "keywords",
        "importance",
        "pinned",
        "trust",
        "version",
        "active",
        "superseded_by",
        "session_id",
        "first_seq",
        "last_seq",
        "session_only",
        "source",
        "use_count",
        "last_used_ms",
        "valid_from_ms",
        "valid_to_ms",
        "expires_ms",
        "metadata",
        "content_hash",
        "said_hash",
        "created_ms",
        "updated_ms",
        "stored_ms",
        "bigrams",
        "spans",
    ),
    """/* copies.entries */
SELECT
  id, uid, scope_no, category, key, text, keywords, importance, pinned, trust, version, active,
  superseded_by, session_id, first_seq, last_seq, session_only, source, use_count,
  last_used_ms, valid_from_ms, valid_to_ms, expires_ms, metadata, content_hash, said_hash,
  created_ms, updated_ms, stored_ms, bigrams, spans
FROM entries
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_entries */
DELETE FROM entries WHERE id BETWEEN :low AND :high
""",
    packed=("id", "superseded_by", "session_id"),
    link="superseded_by",
    words="entry",
    verify=True,
)

HISTORY = Table(
    "entry_history",
    (
        "entry_id",
        "version",
        "category",
        "key",
        "text",
        "keywords",
        "importance",
        "pinned",
        "trust",
        "active",
        "session_id",
        "first_seq",
        "last_seq",
        "session_only",
        "source",
        "valid_from_ms",
        "valid_to_ms",
        "expires_ms",
        "metadata",
        "updated_ms",
        "stored_ms",
        "reason",
        "replaced_ms",
    ),
    """/* copies.history */
SELECT
  entry_id, version, category, key, text, keywords, importance, pinned, trust, active,
  session_id, first_seq, last_seq, session_only, source, valid_from_ms, valid_to_ms,
  expires_ms, metadata, updated_ms, stored_ms, reason, replaced_ms
FROM entry_history
WHERE entry_id BETWEEN :after AND :high AND (entry_id > :after OR version > :after_2)
ORDER BY entry_id, version
LIMIT :limit
""",
    """/* copies.delete_history */
DELETE FROM entry_history WHERE entry_id BETWEEN :low AND :high
""",
    start=(0, 0),
    packed=("entry_id", "session_id"),
)

DECISIONS = Table(
    "entry_decisions",
    (
        "entry_id",
        "said_hash",
        "action",
        "other_id",
        "similarity",
        "decided_by",
        "reason",
        "decided_ms",
    ),
    """/* copies.decisions */
SELECT entry_id, said_hash, action, other_id, similarity, decided_by, reason, decided_ms
FROM entry_decisions
WHERE entry_id BETWEEN :after AND :high AND (entry_id > :after OR said_hash > :after_2)
ORDER BY entry_id, said_hash
LIMIT :limit
""",
    """/* copies.delete_decisions */
DELETE FROM entry_decisions WHERE entry_id BETWEEN :low AND :high
""",
    start=(0, b""),
    packed=("entry_id", "other_id"),
)

NAMESPACES = Table(
    "item_namespaces",
    ("id", "scope_no", "path"),
    """/* copies.namespaces */
SELECT id, scope_no, path FROM item_namespaces
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_namespaces */
DELETE FROM item_namespaces WHERE id BETWEEN :low AND :high
""",
    verify=True,
)

ITEMS = Table(
    "items",
    (
        "id",
        "uid",
        "namespace_id",
        "key",
        "revision",
        "ttl_ms",
        "expires_ms",
        "created_ms",
        "updated_ms",
        "vector_ref",
        "vector_count",
        "embedded",
        "metadata",
        "search_fields",
        "value",
        "data",
        "text",
        "bigrams",
    ),
    """/* copies.items */
SELECT
  id, uid, namespace_id, key, revision, ttl_ms, expires_ms, created_ms, updated_ms, vector_ref,
  vector_count, embedded, metadata, search_fields, value, data, text, bigrams
FROM items
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_items */
DELETE FROM items WHERE id BETWEEN :low AND :high
""",
    packed=("id", "namespace_id", "vector_ref"),
    words="item",
    limit=500,
    verify=True,
)

NAMES = Table(
    "artifact_names",
    ("id", "scope_no", "session_no", "name", "last_version", "text", "bigrams"),
    """/* copies.names */
SELECT id, scope_no, session_no, name, last_version, text, bigrams FROM artifact_names
WHERE id > :after AND id <= :high
ORDER BY id
LIMIT :limit
""",
    """/* copies.delete_names */
DELETE FROM artifact_names WHERE id BETWEEN :low AND :high
""",
    words="artifact",
    limit=200,
)

# The hash of its bytes stands for the number of a blob, which is another one elsewhere.
ARTIFACTS = Table(
    "artifacts",
    (
        "scope_no",
        "session_no",
        "name",
        "rev_version",
        "uid",
        "blob_no",
        "size_bytes",
        "mime",
        "metadata",
        "message_id",
        "created_ms",
    ),
    """/* copies.artifacts */
SELECT
  scope_no, session_no, name, rev_version, uid, sha256, artifacts.size_bytes, mime, metadata,
  message_id, artifacts.created_ms
FROM artifacts
JOIN blobs ON blobs.blob_no = artifacts.blob_no
WHERE
  scope_no = :scope_no
  AND (session_no, name, rev_version) > (:after, :after_2, :after_3)
ORDER BY session_no, name, rev_version
LIMIT :limit
""",
    """/* copies.delete_artifacts */
DELETE FROM artifacts WHERE scope_no = :scope_no
""",
    start=(-1, "", 0),
    packed=("message_id",),
)

TOMBSTONES = Table(
    "tombstones",
    ("scope_no", "uid", "kind", "ref", "deleted_ms", "forgotten"),
    """/* copies.tombstones */
SELECT scope_no, uid, kind, ref, deleted_ms, forgotten FROM tombstones
WHERE scope_no = :scope_no AND uid > :after
ORDER BY uid
LIMIT :limit
""",
    """/* copies.delete_tombstones */
DELETE FROM tombstones WHERE scope_no = :scope_no
""",
    start=("",),
    packed=(),
)

# In the order that foreign keys ask for.
TABLES = (
    SESSIONS,
    MESSAGES,
    SEGMENTS,
    SUMMARIES,
    ENTRIES,
    HISTORY,
    DECISIONS,
    NAMESPACES,
    ITEMS,
    NAMES,
    ARTIFACTS,
    TOMBSTONES,
)

# Tables whose key begins with the scope, which is not part of the key of a page.
BY_SCOPE = (ARTIFACTS, TOMBSTONES)

SET_LINK = {
    "summaries": compose.update(
        "copies.link_summary", "summaries", "id = :id", condensed_into=":other"
    ),
    "entries": compose.update("copies.link_entry", "entries", "id = :id", superseded_by=":other"),
}

SELECT_LINKS = {
    "summaries": """/* copies.summary_links */
SELECT id, condensed_into FROM summaries
WHERE id > :after AND id <= :high AND condensed_into IS NOT NULL
ORDER BY id
LIMIT :limit
""",
    "entries": """/* copies.entry_links */
SELECT id, superseded_by FROM entries
WHERE id > :after AND id <= :high AND superseded_by IS NOT NULL
ORDER BY id
LIMIT :limit
""",
}

SELECT_COUNTS = """/* copies.counts */
SELECT
  (SELECT count(*) FROM sessions WHERE id BETWEEN :low AND :high),
  (SELECT count(*) FROM messages WHERE id BETWEEN :low AND :high),
  (SELECT count(*) FROM archive_segments WHERE session_id BETWEEN :low AND :high),
  (SELECT count(*) FROM summaries WHERE id BETWEEN :low AND :high),
  (SELECT count(*) FROM entries WHERE id BETWEEN :low AND :high),
  (SELECT count(*) FROM entry_history WHERE entry_id BETWEEN :low AND :high),
  (SELECT count(*) FROM entry_decisions WHERE entry_id BETWEEN :low AND :high),
  (SELECT count(*) FROM item_namespaces WHERE id BETWEEN :low AND :high),
  (SELECT count(*) FROM items WHERE id BETWEEN :low AND :high),
  (SELECT count(*) FROM artifact_names WHERE id BETWEEN :low AND :high)
"""

SELECT_SCOPE_COUNTS = """/* copies.scope_counts */
SELECT
  (SELECT count(*) FROM artifacts WHERE scope_no = :scope_no),
  (SELECT count(*) FROM tombstones WHERE scope_no = :scope_no)
"""

SELECT_SCOPES = """/* copies.scopes */
SELECT scope_no, uid, app, user_name, last_session_no, last_n, created_ms FROM scopes
ORDER BY scope_no
"""

# On a server numbers come from a sequence, which spreads them over the partitions.
SELECT_NEW_SCOPE_NO = """/* copies.new_scope_no */
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM scopes WHERE scope_no = :wanted)
    THEN (SELECT max(scope_no) + 1 FROM scopes)
  ELSE CAST(:wanted AS BIGINT)
END
"""

INSERT_SCOPE = compose.insert("copies.insert_scope", "scopes")

UPDATE_SCOPE = compose.update(
    "copies.set_scope", "scopes", "scope_no = :scope_no", "app, user_name, last_session_no, last_n"
)

DELETE_SCOPE = """/* copies.delete_scope */
DELETE FROM scopes WHERE scope_no = :scope_no
"""

SELECT_STATE = """/* copies.state */
SELECT app, user_name, session, key, value, revision, updated_ms FROM state
WHERE (app, user_name, session, key) > (:app, :user_name, :session, :key)
ORDER BY app, user_name, session, key
LIMIT :limit
"""

SELECT_STATE_OF = """/* copies.state_of */
SELECT app, user_name, session, key, value, revision, updated_ms FROM state
WHERE app = :app AND user_name = :user_name AND (session, key) > (:session, :key)
ORDER BY session, key
LIMIT :limit
"""

SELECT_JOBS = """/* copies.jobs */
SELECT kind, subject, ref, space_no, next_seq, due_ms, attempts, error FROM jobs
WHERE
  (kind, subject, ref, space_no) > (:kind, :subject, :ref, :space_no)
  AND subject <> 'file'
ORDER BY kind, subject, ref, space_no
LIMIT :limit
"""

# What a space of the target has no vectors of, because the source had no such space.
INSERT_EMBED = compose.insert_select(
    "copies.embed",
    "jobs",
    "kind, subject, ref, space_no, next_seq, due_ms",
    """
SELECT 'embed', 'session', id, CAST(:space_no AS BIGINT), leaves_at + 1, CAST(:now_ms AS BIGINT)
FROM sessions WHERE id BETWEEN :low AND :high AND last_seq > leaves_at
UNION ALL
SELECT 'embed', 'entry', id, :space_no, version, :now_ms
FROM entries WHERE id BETWEEN :low AND :high
""",
    compose.NOTHING,
)

SELECT_SPACES = """/* copies.spaces */
SELECT space_no, model, dim, metric, created_ms, complete_ms, retired_ms FROM embedding_spaces
ORDER BY space_no
"""

INSERT_SPACE = compose.insert(
    "copies.insert_space",
    "embedding_spaces",
    "model, dim, metric, created_ms, complete_ms, retired_ms",
    numbered="space_no",
    returning="space_no",
)

UPDATE_SPACE = compose.update(
    "copies.set_space",
    "embedding_spaces",
    "space_no = :space_no",
    "created_ms, complete_ms, retired_ms",
)

SELECT_SETTINGS = """/* copies.settings */
SELECT name, value, updated_ms FROM settings ORDER BY name
"""

SELECT_BLOBS = """/* copies.blobs */
SELECT DISTINCT sha256, blobs.blob_no, blobs.size_bytes
FROM artifacts
JOIN blobs ON blobs.blob_no = artifacts.blob_no
WHERE scope_no = :scope_no AND sha256 > :after
ORDER BY sha256
LIMIT :limit
"""

SELECT_CHUNKS = """/* copies.chunks */
SELECT chunk_no, codec, size_bytes, data FROM blob_chunks
WHERE blob_no = :blob_no AND chunk_no > :after
ORDER BY chunk_no
LIMIT :limit
"""

SELECT_META = """/* copies.meta */
SELECT key, value FROM meta WHERE key = 'copy' OR substr(key, 1, 5) = 'copy/' ORDER BY key
"""

SELECT_IDENTITY = """/* copies.identity */
SELECT value FROM meta WHERE key = 'file_uid'
"""

UPSERT_META = compose.insert("copies.put_meta", "meta", otherwise=compose.conflict("key", "value"))

DELETE_META = """/* copies.drop_meta */
DELETE FROM meta WHERE key = :key
"""

COUNTED = tuple(table.name for table in TABLES)
SCOPE_COLUMNS = (
    "scope_no",
    "uid",
    "app",
    "user_name",
    "last_session_no",
    "last_n",
    "created_ms",
)
STATE_COLUMNS = ("app", "user_name", "session", "key", "value", "revision", "updated_ms")
JOB_COLUMNS = ("kind", "subject", "ref", "space_no", "next_seq", "due_ms", "attempts", "error")
SPACE_COLUMNS = ("space_no", "model", "dim", "metric", "created_ms", "complete_ms", "retired_ms")
SETTING_COLUMNS = ("name", "value", "updated_ms")
CHUNK_COLUMNS = ("blob_no", "chunk_no", "codec", "size_bytes", "data")

STATE_LIMIT = 2000
BLOB_LIMIT = 500
CHUNK_LIMIT = 16


class ScopeRow(Record):
    """The row of a scope."""

    scope_no: int
    uid: str
    app: str
    user_name: str
    last_session_no: int
    last_n: int
    created_ms: int


class SpaceRow(Record):
    """The row of an embedding space."""

    space_no: int
    model: str
    dim: int
    metric: str
    created_ms: int
    complete_ms: int | None
    retired_ms: int | None


def list_scopes(tx: Tx) -> list[ScopeRow]:
    """Return the row of every scope, hidden ones too, by number."""
    return [ScopeRow(*row) for row in tx.all(SELECT_SCOPES)]


def list_spaces(tx: Tx) -> list[SpaceRow]:
    """Return the row of every embedding space, by number."""
    return [SpaceRow(*row) for row in tx.all(SELECT_SPACES)]


def count_rows(tx: Tx, scope_no: int) -> dict[str, int]:
    """Return how many rows of each table a scope has. Cost: reads the keys of the scope."""
    low, high = scope_range(scope_no)
    rows = tx.all(SELECT_COUNTS, {"low": low, "high": high})
    rows += tx.all(SELECT_SCOPE_COUNTS, {"scope_no": scope_no})
    return dict(zip(COUNTED, (*rows[0], *rows[1]), strict=True))


def first_key(table: Table, scope_no: int) -> tuple[Any, ...]:
    """Return the key before every row of a scope."""
    if table in BY_SCOPE:
        return table.start
    return (scope_no << SCOPE_SHIFT, *table.start[1:])


def read_page(tx: Tx, table: Table, scope_no: int, after: tuple[Any, ...]) -> list[Row]:
    """Return the rows of a scope behind a key, at most `table.limit`."""
    values: dict[str, Any] = {"limit": table.limit}
    values |= {"scope_no": scope_no} if table in BY_SCOPE else {"high": scope_range(scope_no)[1]}
    names = ("after", "after_2", "after_3")
    return tx.all(table.select, values | dict(zip(names, after, strict=False)))


def key_of(table: Table, row: Row) -> tuple[Any, ...]:
    """Return the key of a row, for the page behind it."""
    first = 1 if table in BY_SCOPE else 0
    return tuple(row[first : first + len(table.start)])


def delete_rows(tx: Tx, table: Table, scope_no: int) -> None:
    """Remove the rows that a scope has in a table."""
    low, high = scope_range(scope_no)
    by_scope = table in BY_SCOPE
    values = {"scope_no": scope_no} if by_scope else {"low": low, "high": high}
    while tx.run(table.delete, values) and table is SESSIONS:
        pass  # the branches of what is left now


def read_links(tx: Tx, table: Table, scope_no: int, after: int) -> list[Row]:
    """Return (id, id of the row that it names) of the rows of a scope with a link."""
    values = {"after": after, "high": scope_range(scope_no)[1], "limit": table.limit}
    return tx.all(SELECT_LINKS[table.name], values)


def set_links(tx: Tx, table: Table, links: list[tuple[int, int]]) -> None:
    """Let rows name others, given as (id, other)."""
    tx.many(SET_LINK[table.name], [{"id": one, "other": other} for one, other in links])


def new_scope_no(tx: Tx, wanted: int) -> int:
    """Return a number for a new scope: *wanted* if it is free, unless the engine has its own."""
    row = existing(tx.one(SELECT_NEW_SCOPE_NO, {"wanted": wanted}), "scopes")
    return int(row[0])


def add_scope(tx: Tx, scope: ScopeRow) -> None:
    """Add the row of a scope under its number."""
    tx.run(INSERT_SCOPE, {name: getattr(scope, name) for name in SCOPE_COLUMNS})


def set_scope(tx: Tx, scope: ScopeRow) -> None:
    """Give a scope its names and its counters."""
    names = (name for name in SCOPE_COLUMNS if name not in ("uid", "created_ms"))
    tx.run(UPDATE_SCOPE, {name: getattr(scope, name) for name in names})


def delete_scope(tx: Tx, scope_no: int) -> None:
    """Remove the row of a scope, whose other rows are gone."""
    tx.run(DELETE_SCOPE, {"scope_no": scope_no})


def read_state(tx: Tx, owner: tuple[str, str] | None, after: tuple[str, ...]) -> list[Row]:
    """Return a page of the values under keys of (app, user), or of all; *after*: their key."""
    if owner is None:
        values: dict[str, Any] = dict(zip(STATE_COLUMNS[:4], after, strict=True))
        return tx.all(SELECT_STATE, {**values, "limit": STATE_LIMIT})
    values = dict(zip(STATE_COLUMNS[:4], (*owner, *after[2:]), strict=True))
    return tx.all(SELECT_STATE_OF, {**values, "limit": STATE_LIMIT})


def read_jobs(tx: Tx, after: tuple[str, str, int, int]) -> list[Row]:
    """Return a page of the jobs that are not upkeep of the file, behind a key."""
    values = dict(zip(JOB_COLUMNS[:4], after, strict=True))
    return tx.all(SELECT_JOBS, {**values, "limit": STATE_LIMIT})


def queue_embedding(tx: Tx, scope_no: int, space_no: int) -> None:
    """Note that messages and entries of a scope are to be embedded in a space."""
    low, high = scope_range(scope_no)
    values = {"low": low, "high": high, "space_no": space_no, "now_ms": tx.now_ms}
    tx.run(INSERT_EMBED, values)


def add_space(tx: Tx, space: SpaceRow) -> int:
    """Add an embedding space and return its number, which may be another one."""
    row = tx.one(INSERT_SPACE, {name: getattr(space, name) for name in SPACE_COLUMNS[1:]})
    row = existing(row, "embedding_spaces")
    return int(row[0])


def set_space(tx: Tx, space_no: int, like: SpaceRow) -> None:
    """Give a space the times of another."""
    names = ("created_ms", "complete_ms", "retired_ms")
    values = {name: getattr(like, name) for name in names}
    tx.run(UPDATE_SPACE, {**values, "space_no": space_no})


def list_settings(tx: Tx) -> list[Row]:
    """Return (name, value, updated_ms) of each setting."""
    return tx.all(SELECT_SETTINGS)


def read_blobs(tx: Tx, scope_no: int, after: bytes) -> list[Row]:
    """Return (hash, number, bytes) of blobs that a scope has, behind a hash."""
    return tx.all(SELECT_BLOBS, {"scope_no": scope_no, "after": after, "limit": BLOB_LIMIT})


def read_chunks(tx: Tx, blob_no: int, after: int) -> list[Row]:
    """Return (number, codec, bytes before compression, data) of chunks behind a number."""
    return tx.all(SELECT_CHUNKS, {"blob_no": blob_no, "after": after, "limit": CHUNK_LIMIT})


def read_marks(tx: Tx) -> dict[str, str]:
    """Return what is in meta about copies into this database, by key."""
    return dict(tx.all(SELECT_META))


def put_mark(tx: Tx, key: str, value: str) -> None:
    """Set a key of meta."""
    tx.run(UPSERT_META, {"key": key, "value": value})


def drop_mark(tx: Tx, key: str) -> None:
    """Remove a key of meta."""
    tx.run(DELETE_META, {"key": key})


def identity(tx: Tx) -> str:
    """Return the uid of the database; a backup has that of what it was made of."""
    row = tx.one(SELECT_IDENTITY)
    return "" if row is None else str(row[0])
