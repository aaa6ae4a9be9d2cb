"""
What `memdb copy` reads and writes: the rows of one scope, table by table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.columns import names_of, read_columns
from memdb.errors import existing
from memdb.models.ids import SCOPE_SHIFT, scope_range
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.engine.base import Row, Tx


class Table(Record):
    """
    How the rows of one table are read, and moved to other ids.

    Attributes:
        key: The columns by which a page follows another.
        select: Reads a page behind a key.
        owned: Which rows are those of a scope, in SQL.
        start: The key before every row; a packed id counts from that of the scope.
        packed: Columns that hold an id of the scope.
        link: A column that names a row of the same table, maybe a later one; "": none.
        words: The kind of its full-text index; "": none.
        limit: Rows in a page.
        verify: Whether the engine compares its rows by their first column with their digests.
        by_scope: Whether the scope is a column, and part of no packed id.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    select: str
    owned: str
    select_links: str
    set_link: str
    start: tuple[Any, ...]
    packed: tuple[str, ...]
    link: str
    words: str
    limit: int
    verify: bool
    by_scope: bool


AFTER = ("after", "after_2", "after_3")


def _table(
    name: str,
    packed: tuple[str, ...] = ("id",),
    *,
    start: tuple[Any, ...] = (0,),
    link: str = "",
    words: str = "",
    limit: int = 2000,
    read: dict[str, str] | None = None,
) -> Table:
    """
    Return how a table is copied, by the columns and the key that schema.sql gives it.

    Args:
        read: What is read for a column, in SQL.
    """
    found = read_columns()[name]
    by_scope = found.key[0] == "scope_no"
    key = found.key[1:] if by_scope else found.key
    owned = "scope_no = :scope_no" if by_scope else f"{key[0]} BETWEEN :low AND :high"
    page = "scope_no = :scope_no" if by_scope else f"{key[0]} BETWEEN :after AND :high"
    behind = f"({', '.join(key)}) > ({', '.join(f':{one}' for one in AFTER[: len(key)])})"
    columns = [(read or {}).get(one, one) for one in found.names]
    order = {"order": ", ".join(key), "limit": ":limit"}
    return Table(
        name,
        found.names,
        key,
        compose.select(f"copies.{name}", columns, name, f"{page} AND {behind}", **order),
        owned,
        compose.select(
            f"copies.links_of_{name}",
            ("id", link),
            name,
            f"id > :after AND id <= :high AND {link} IS NOT NULL",
            **order,
        )
        if link
        else "",
        compose.update(f"copies.link_{name}", name, "id = :id", **{link: ":other"}) if link else "",
        start,
        packed,
        link,
        words,
        limit,
        key == ("id",),
        by_scope,
    )


SESSIONS = _table("sessions", ("id", "parent_id"), words="session")
SEGMENTS = _table("archive_segments", ("session_id",), start=(0, 0), limit=64)

# The hash of its bytes stands for the number of a blob, which is another one elsewhere.
ARTIFACTS = _table(
    "artifacts",
    ("message_id",),
    start=(-1, "", 0),
    read={"blob_no": "(SELECT sha256 FROM blobs WHERE blobs.blob_no = artifacts.blob_no)"},
)
TOMBSTONES = _table("tombstones", (), start=("",))

# In the order that foreign keys ask for.
TABLES = (
    SESSIONS,
    _table("messages", words="message"),
    SEGMENTS,
    _table(
        "summaries", ("id", "session_id", "condensed_into"), link="condensed_into", words="summary"
    ),
    _table("entries", ("id", "superseded_by", "session_id"), link="superseded_by", words="entry"),
    _table("entry_history", ("entry_id", "session_id"), start=(0, 0)),
    _table("entry_links", ("newer_id", "older_id"), start=(0, 0)),
    _table("item_namespaces"),
    _table("items", ("id", "namespace_id", "vector_ref"), words="item", limit=500),
    _table("artifact_names", words="artifact", limit=200),
    ARTIFACTS,
    TOMBSTONES,
)

SELECT_COUNTS = compose.select_counts(
    "copies.counts", {table.name: table.owned for table in TABLES}
)

SCOPE_COLUMNS = names_of("scopes")
STATE_COLUMNS = names_of("state")
JOB_COLUMNS = tuple(name for name in names_of("jobs") if name != "lease_ms")
SPACE_COLUMNS = names_of("embedding_spaces")
SETTING_COLUMNS = names_of("settings")
CHUNK_COLUMNS = names_of("blob_chunks")

SELECT_SCOPES = compose.select("copies.scopes", SCOPE_COLUMNS, "scopes", order="scope_no")

# On a server numbers come from a sequence, which spreads them over the partitions.
SELECT_NEW_SCOPE_NO = """/* copies.new_scope_no */
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM scopes WHERE scope_no = :wanted)
    THEN (SELECT max(scope_no) + 1 FROM scopes)
  ELSE CAST(:wanted AS BIGINT)
END
"""

INSERT_SCOPE = compose.insert("copies.insert_scope", "scopes")

SELECT_STATE = compose.select(
    "copies.state",
    STATE_COLUMNS,
    "state",
    "(app, user_name, session, key) > (:app, :user_name, :session, :key)",
    order="app, user_name, session, key",
    limit=":limit",
)

SELECT_STATE_OF = compose.select(
    "copies.state_of",
    STATE_COLUMNS,
    "state",
    """
  app = :app
  AND user_name = :user_name
  AND (CAST(:key AS TEXT) IS NULL OR (session, key) > (:session, :key))
""",
    order="session, key",
    limit=":limit",
)

SELECT_JOBS = compose.select(
    "copies.jobs",
    JOB_COLUMNS,
    "jobs",
    "(kind, subject, ref, space_no) > (:kind, :subject, :ref, :space_no) AND subject <> 'file'",
    order="kind, subject, ref, space_no",
    limit=":limit",
)

SELECT_SPACES = compose.select("copies.spaces", SPACE_COLUMNS, "embedding_spaces", order="space_no")

INSERT_SPACE = compose.insert(
    "copies.insert_space",
    "embedding_spaces",
    ", ".join(SPACE_COLUMNS[1:]),
    numbered="space_no",
    returning="space_no",
)

UPDATE_SPACE = compose.update(
    "copies.set_space",
    "embedding_spaces",
    "space_no = :space_no",
    "created_ms, complete_ms, retired_ms",
)

SELECT_SETTINGS = compose.select("copies.settings", SETTING_COLUMNS, "settings", order="name")

SELECT_BLOBS = """/* copies.blobs */
SELECT DISTINCT sha256, blobs.blob_no, blobs.size_bytes
FROM artifacts
JOIN blobs ON blobs.blob_no = artifacts.blob_no
WHERE scope_no = :scope_no AND sha256 > :after
ORDER BY sha256
LIMIT :limit
"""

SELECT_CHUNKS = compose.select(
    "copies.chunks",
    CHUNK_COLUMNS[1:],
    "blob_chunks",
    "blob_no = :blob_no AND chunk_no > :after",
    order="chunk_no",
    limit=":limit",
)

SELECT_IDENTITY = compose.select("copies.identity", "value", "meta", "key = 'file_uid'")

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
    """Return the row of every scope, by number."""
    return [ScopeRow(*row) for row in tx.all(SELECT_SCOPES)]


def list_spaces(tx: Tx) -> list[SpaceRow]:
    """Return the row of every embedding space, by number."""
    return [SpaceRow(*row) for row in tx.all(SELECT_SPACES)]


def count_rows(tx: Tx, scope_no: int) -> dict[str, int]:
    """Return how many rows of each table a scope has. Cost: reads the keys of the scope."""
    low, high = scope_range(scope_no)
    return dict(tx.all(SELECT_COUNTS, {"scope_no": scope_no, "low": low, "high": high}))


def first_key(table: Table, scope_no: int) -> tuple[Any, ...]:
    """Return the key before every row of a scope."""
    return table.start if table.by_scope else (scope_no << SCOPE_SHIFT, *table.start[1:])


def read_page(tx: Tx, table: Table, scope_no: int, after: tuple[Any, ...]) -> list[Row]:
    """Return the rows of a scope behind a key, at most `table.limit`."""
    values: dict[str, Any] = {"limit": table.limit}
    values |= {"scope_no": scope_no} if table.by_scope else {"high": scope_range(scope_no)[1]}
    return tx.all(table.select, values | dict(zip(AFTER, after, strict=False)))


def key_of(table: Table, row: Row) -> tuple[Any, ...]:
    """Return the key of a row, for the page behind it."""
    return tuple(row[table.columns.index(name)] for name in table.key)


def read_links(tx: Tx, table: Table, scope_no: int, after: int) -> list[Row]:
    """Return (id, id of the row that it names) of the rows of a scope with a link."""
    values = {"after": after, "high": scope_range(scope_no)[1], "limit": table.limit}
    return tx.all(table.select_links, values)


def set_links(tx: Tx, table: Table, links: list[tuple[int, int]]) -> None:
    """Let rows name others, given as (id, other)."""
    tx.many(table.set_link, [{"id": one, "other": other} for one, other in links])


def new_scope_no(tx: Tx, wanted: int) -> int:
    """Return a number for a new scope: *wanted* if it is free, unless the engine has its own."""
    return tx.read_number(SELECT_NEW_SCOPE_NO, {"wanted": wanted})


def add_scope(tx: Tx, scope: ScopeRow) -> None:
    """Add the row of a scope under its number."""
    tx.run(INSERT_SCOPE, scope._asdict())


def read_state(tx: Tx, owner: tuple[str, str] | None, after: tuple[str | None, ...]) -> list[Row]:
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


def add_space(tx: Tx, space: SpaceRow) -> int:
    """Add an embedding space and return its number, which may be another one."""
    return existing(tx.find_number(INSERT_SPACE, space._asdict()), "embedding_spaces")


def set_space(tx: Tx, space_no: int, like: SpaceRow) -> None:
    """Give a space the times of another."""
    tx.run(UPDATE_SPACE, like._asdict() | {"space_no": space_no})


def list_settings(tx: Tx) -> list[Row]:
    """Return (name, value, updated_ms) of each setting."""
    return tx.all(SELECT_SETTINGS)


def read_blobs(tx: Tx, scope_no: int, after: bytes) -> list[Row]:
    """Return (hash, number, bytes) of blobs that a scope has, behind a hash."""
    return tx.all(SELECT_BLOBS, {"scope_no": scope_no, "after": after, "limit": BLOB_LIMIT})


def read_chunks(tx: Tx, blob_no: int, after: int) -> list[Row]:
    """Return (number, codec, bytes before compression, data) of chunks behind a number."""
    return tx.all(SELECT_CHUNKS, {"blob_no": blob_no, "after": after, "limit": CHUNK_LIMIT})


def identity(tx: Tx) -> str:
    """Return the uid of the database; a backup has that of what it was made of."""
    row = tx.one(SELECT_IDENTITY)
    return "" if row is None else str(row[0])
