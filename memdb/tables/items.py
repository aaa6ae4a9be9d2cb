"""
Items: values under a namespace and key. Owns `item_namespaces` and `items`.

A namespace is made with its first item and removed with its last one. Readers get
expired items too: the caller compares `expires_ms` with its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.models.ids import MAX_INT
from memdb.models.items import Item, labels_of
from memdb.models.record import Record
from memdb.text.validate import MAX_NAME_CHARS, parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from memdb.engine.base import Row, Tx
    from memdb.text.values import Filter

SELECT_NAMESPACE = """/* items.namespace */
SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path
"""

INSERT_NAMESPACE = compose.insert("items.add_namespace", "item_namespaces")

DELETE_NAMESPACE = """/* items.drop_namespace */
DELETE FROM item_namespaces
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM items WHERE namespace_id = :id)
"""

SELECT_NAMESPACES = """/* items.namespaces */
SELECT id, path FROM item_namespaces
WHERE scope_no = :scope_no AND path >= :low AND path < :high
ORDER BY path
LIMIT :limit
"""

SELECT_NAMESPACES_DOWN = """/* items.namespaces_down */
SELECT id, path FROM item_namespaces
WHERE scope_no = :scope_no AND path >= :low AND path < :high
ORDER BY path DESC
LIMIT :limit
"""

SELECT_LIVE = """/* items.is_live */
SELECT 1 FROM items
WHERE namespace_id = :id AND (expires_ms IS NULL OR expires_ms > :now_ms)
LIMIT 1
"""

SELECT_ONE = """/* items.find */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid, search_fields, text, vector_ref, vector_count, embedded
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND key = :key
"""

# What a reader gets of an item, without what is searched.
SELECT_ITEM = """/* items.get */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND key = :key
"""

SELECT_KEYS = """/* items.keys */
SELECT key FROM items
WHERE
  namespace_id = :id
  AND key > :after
  AND key >= :prefix
  AND key < :high
  AND (expires_ms IS NULL OR expires_ms > :now_ms)
ORDER BY key
LIMIT :limit
"""

SELECT_MANY = """/* items.get_many */
SELECT
  items.id, namespace_id, items.key, value, data, revision, metadata, created_ms, updated_ms,
  ttl_ms, expires_ms, uid, search_fields, text, vector_ref, vector_count, embedded,
  path
FROM items
JOIN item_namespaces ON item_namespaces.id = items.namespace_id
WHERE
  items.id IN (SELECT value FROM json_each(:ids))
  AND (items.value IS NULL OR instr(items.value, :needle) > 0)
"""

SELECT_TEXTS = """/* items.texts */
SELECT id, text FROM items WHERE id IN (SELECT value FROM json_each(:ids)) AND text IS NOT NULL
"""

# By order and direction: a page behind a key, a time and an id. Values that cannot match a
# filter are passed over here: to compare the text takes a tenth of reading the row.
SELECT_PAGES = {
    ("key", False): """/* items.by_key */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND key >= :low
  AND key < :high
  AND (value IS NULL OR instr(value, :needle) > 0)
ORDER BY key
LIMIT :limit
""",
    ("key", True): """/* items.by_key_down */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND key >= :low
  AND key < :high
  AND (value IS NULL OR instr(value, :needle) > 0)
ORDER BY key DESC
LIMIT :limit
""",
    ("updated", False): """/* items.by_update */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND (updated_ms, id) > (:time_ms, :row_id)
  AND (value IS NULL OR instr(value, :needle) > 0)
ORDER BY updated_ms, id
LIMIT :limit
""",
    ("updated", True): """/* items.by_update_down */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND (updated_ms, id) < (:time_ms, :row_id)
  AND (value IS NULL OR instr(value, :needle) > 0)
ORDER BY updated_ms DESC, id DESC
LIMIT :limit
""",
    ("created", False): """/* items.by_creation */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND (created_ms, id) > (:time_ms, :row_id)
  AND (value IS NULL OR instr(value, :needle) > 0)
ORDER BY created_ms, id
LIMIT :limit
""",
    ("created", True): """/* items.by_creation_down */
SELECT
  id, namespace_id, key, value, data, revision, metadata, created_ms, updated_ms, ttl_ms,
  expires_ms, uid
FROM items
WHERE
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
  AND (created_ms, id) < (:time_ms, :row_id)
  AND (value IS NULL OR instr(value, :needle) > 0)
ORDER BY created_ms DESC, id DESC
LIMIT :limit
""",
}

# The same over many namespaces: sorted, which reads their part of an index.
SELECT_ACROSS = {
    ("updated", False): """/* items.across_by_update */
SELECT items.updated_ms, items.id
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE
  item_namespaces.scope_no = :scope_no
  AND item_namespaces.path >= :low
  AND item_namespaces.path < :high
  AND (items.updated_ms, items.id) > (:time_ms, :row_id)
ORDER BY items.updated_ms, items.id
LIMIT :limit
""",
    ("updated", True): """/* items.across_by_update_down */
SELECT items.updated_ms, items.id
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE
  item_namespaces.scope_no = :scope_no
  AND item_namespaces.path >= :low
  AND item_namespaces.path < :high
  AND (items.updated_ms, items.id) < (:time_ms, :row_id)
ORDER BY items.updated_ms DESC, items.id DESC
LIMIT :limit
""",
    ("created", False): """/* items.across_by_creation */
SELECT items.created_ms, items.id
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE
  item_namespaces.scope_no = :scope_no
  AND item_namespaces.path >= :low
  AND item_namespaces.path < :high
  AND (items.created_ms, items.id) > (:time_ms, :row_id)
ORDER BY items.created_ms, items.id
LIMIT :limit
""",
    ("created", True): """/* items.across_by_creation_down */
SELECT items.created_ms, items.id
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE
  item_namespaces.scope_no = :scope_no
  AND item_namespaces.path >= :low
  AND item_namespaces.path < :high
  AND (items.created_ms, items.id) < (:time_ms, :row_id)
ORDER BY items.created_ms DESC, items.id DESC
LIMIT :limit
""",
}

SELECT_EXPIRED = """/* items.expired */
SELECT id FROM items
WHERE expires_ms IS NOT NULL AND expires_ms <= :now_ms AND id >= :low AND id <= :high
ORDER BY expires_ms, id
LIMIT :limit
"""

SELECT_SCOPE_IDS = """/* items.ids_of_scope */
SELECT items.id
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE item_namespaces.scope_no = :scope_no
ORDER BY items.id
"""

SELECT_COUNT = """/* items.count */
SELECT count(*)
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE item_namespaces.scope_no = :scope_no
"""

# What a search by vector compares: the refs of a range of paths.
SELECT_REFS_WITHIN = """/* items.refs_within */
SELECT items.vector_ref, items.vector_count
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE
  item_namespaces.scope_no = :scope_no
  AND item_namespaces.path >= :low
  AND item_namespaces.path < :high
  AND items.vector_ref IS NOT NULL
  AND (items.expires_ms IS NULL OR items.expires_ms > :now_ms)
ORDER BY item_namespaces.path, items.key
LIMIT :most
"""

SELECT_LIVE_IDS = """/* items.live_ids */
SELECT id FROM items
WHERE
  id IN (SELECT value FROM json_each(:ids))
  AND (expires_ms IS NULL OR expires_ms > :now_ms)
"""

# Each ref with the last item whose vectors begin at it or before it.
SELECT_OWNERS = """/* items.owners */
SELECT
  refs.value,
  (
    SELECT id FROM items
    WHERE vector_ref IS NOT NULL AND vector_ref <= refs.value
    ORDER BY vector_ref DESC
    LIMIT 1
  )
FROM json_each(:ids) AS refs
"""

SELECT_REFS = """/* items.refs */
SELECT vector_ref, vector_count FROM items
WHERE id IN (SELECT value FROM json_each(:ids)) AND vector_ref IS NOT NULL
"""

INSERT_ITEM = compose.insert("items.insert", "items")

UPDATE_ITEM = compose.update(
    "items.update",
    "items",
    "id = :id",
    """
  revision, ttl_ms, expires_ms, updated_ms, vector_ref, vector_count, embedded, metadata,
  search_fields, value, data, text, bigrams
""",
)

UPDATE_EXPIRY = compose.update(
    "items.refresh",
    "items",
    "id IN (SELECT value FROM json_each(:ids)) AND ttl_ms IS NOT NULL",
    expires_ms=":now_ms + ttl_ms",
)

DELETE_ITEMS = """/* items.delete */
DELETE FROM items WHERE id IN (SELECT value FROM json_each(:ids))
"""

# Behind every key: no character is greater.
LAST_KEY = chr(0x10FFFF) * (MAX_NAME_CHARS + 1)


class StoredItem(Record):
    """
    An item with the columns that only memdb reads.

    Attributes:
        search_fields: JSON array of the field paths that are searched; None means none.
        text: What full-text search finds of it; None means nothing.
        vector_ref: The ref of its first vector; None means that it has none.
        embedded: Whether its vectors are made from its texts, and not given.
    """

    namespace_id: int
    item: Item
    search_fields: str | None
    text: str | None
    vector_ref: int | None
    vector_count: int
    embedded: bool

    @property
    def refs(self) -> range:
        """The refs of its vectors."""
        first = self.vector_ref or 0
        return range(first, first + self.vector_count)


class Cursor(Record):
    """
    What is left of a walk: a range of keys, or what is behind a time and an id.

    Attributes:
        low: The first key that is not before it.
        high: The first key behind it.
    """

    low: str
    high: str
    time_ms: int
    row_id: int


FIRST = Cursor("", LAST_KEY, -MAX_INT, 0)
LAST = Cursor("", LAST_KEY, MAX_INT, MAX_INT)


def behind(cursor: Cursor, item: Item, order: str, *, descending: bool) -> Cursor:
    """Return what is left of a walk in an order after *item*."""
    if order != "key":
        return Cursor("", LAST_KEY, getattr(item, f"{order}_ms"), item.id)
    if descending:
        return Cursor(cursor.low, min(cursor.high, item.key), 0, 0)
    return Cursor(max(cursor.low, item.key + "\x01"), cursor.high, 0, 0)


def _to_items(tx: Tx, rows: list[Row], path: str) -> list[Item]:
    """Return the items of rows of one namespace."""
    if not rows:
        return []
    tx.verify("items", [row[0] for row in rows])
    tx.verify("item_namespaces", (rows[0][1],))
    labels = labels_of(path)
    return [
        Item(
            row_id,
            labels,
            key,
            data if value is None else parse_json(value),
            revision,
            None if metadata is None else parse_json(metadata, dict),
            created_ms,
            updated_ms,
            ttl_ms,
            expires_ms,
            uid,
        )
        for (
            row_id,
            _,
            key,
            value,
            data,
            revision,
            metadata,
            created_ms,
            updated_ms,
            ttl_ms,
            expires_ms,
            uid,
        ) in rows
    ]


def to_item(row: dict[str, Any], path: str) -> Item:
    """Return the item that a row for `insert` or `update` is, without reading it again."""
    columns = "revision", "metadata", "created_ms", "updated_ms", "ttl_ms", "expires_ms", "uid"
    revision, metadata, *rest = (row[name] for name in columns)
    value = row["data"] if row["value"] is None else parse_json(row["value"])
    about = parse_json(metadata, dict)
    return Item(row["id"], labels_of(path), row["key"], value, revision, about, *rest)


def _to_stored(tx: Tx, row: Row, path: str) -> StoredItem:
    (item,) = _to_items(tx, [row[:12]], path)
    return StoredItem(row[1], item, row[12], row[13], row[14], row[15], bool(row[16]))


def find_namespace(tx: Tx, scope_no: int, path: str) -> int | None:
    """Return the id of a namespace, None if it holds no item."""
    row = tx.one(SELECT_NAMESPACE, {"scope_no": scope_no, "path": path})
    if row is None:
        return None
    tx.verify("item_namespaces", row)
    return int(row[0])


def add_namespace(tx: Tx, namespace_id: int, scope_no: int, path: str) -> None:
    """Add a namespace; its first item follows."""
    tx.run(INSERT_NAMESPACE, {"id": namespace_id, "scope_no": scope_no, "path": path})


def drop_namespace(tx: Tx, namespace_id: int) -> None:
    """Remove a namespace if it holds no item."""
    tx.run(DELETE_NAMESPACE, {"id": namespace_id})


def list_namespaces(
    tx: Tx, scope_no: int, low: str, high: str, *, limit: int = MAX_INT, descending: bool = False
) -> list[tuple[int, str]]:
    """Return (id, path) of the namespaces with *low* <= path < *high*, by path."""
    sql = SELECT_NAMESPACES_DOWN if descending else SELECT_NAMESPACES
    values = {"scope_no": scope_no, "low": low, "high": high, "limit": limit}
    rows = tx.all(sql, values)
    tx.verify("item_namespaces", [row[0] for row in rows])
    return [(int(namespace_id), path) for namespace_id, path in rows]


def is_live(tx: Tx, namespace_id: int, now_ms: int) -> bool:
    """Return whether a namespace holds an item that has not expired at a time."""
    values = {"id": namespace_id, "now_ms": now_ms}
    return tx.one(SELECT_LIVE, values) is not None


def refs_within(
    tx: Tx, scope_no: int, span: tuple[str, str], now_ms: int, most: int
) -> list[range]:
    """
    Return the refs of the vectors of the first items of a range of paths, without expired ones.

    Cost: 1 ms per 1,000 items.
    """
    low, high = span
    values = {"scope_no": scope_no, "low": low, "high": high, "now_ms": now_ms, "most": most}
    return [range(first, first + count) for first, count in tx.all(SELECT_REFS_WITHIN, values)]


def find(tx: Tx, scope_no: int, path: str, key: str) -> StoredItem | None:
    """Return the item under a key, None without one."""
    row = tx.one(SELECT_ONE, {"scope_no": scope_no, "path": path, "key": key})
    return None if row is None else _to_stored(tx, row, path)


def get(tx: Tx, scope_no: int, path: str, key: str, now_ms: int) -> Item | None:
    """Return the item under a key, None if there is none or it has expired at a time."""
    row = tx.one(SELECT_ITEM, {"scope_no": scope_no, "path": path, "key": key})
    if row is None:
        return None
    (item,) = _to_items(tx, [row], path)
    return item if item.expires_ms is None or item.expires_ms > now_ms else None


def get_many(tx: Tx, ids: Collection[int], where: Filter | None = None) -> dict[int, StoredItem]:
    """Return the items with these *ids* that exist and whose value matches, by id."""
    if not ids:
        return {}
    rows = tx.all(SELECT_MANY, {"ids": [*ids], "needle": "" if where is None else where.needle})
    if where is not None:
        rows = [row for row in rows if _is_match(where, row[3], row[4])]
    return {row[0]: _to_stored(tx, row, row[17]) for row in rows}


def list_across(
    tx: Tx,
    scope_no: int,
    span: tuple[str, str],
    order: str,
    cursor: Cursor,
    limit: int,
    *,
    descending: bool,
) -> list[tuple[int, int]]:
    """
    Return (time, id) of items behind *cursor* in all namespaces of a range of paths.

    Cost: 1 ms per 2,000 items of the range, however few are returned.
    """
    low, high = span
    values: dict[str, object] = {"scope_no": scope_no, "low": low, "high": high, "limit": limit}
    values |= {"time_ms": cursor.time_ms, "row_id": cursor.row_id}
    return [(row[0], row[1]) for row in tx.all(SELECT_ACROSS[order, descending], values)]


def list_keys(
    tx: Tx, namespace_id: int, prefix: str, after: str, limit: int, now_ms: int
) -> list[str]:
    """Return keys behind *after* that begin with *prefix*, of items that have not expired."""
    values = {"id": namespace_id, "prefix": prefix, "after": after, "high": prefix + LAST_KEY}
    return [row[0] for row in tx.all(SELECT_KEYS, {**values, "limit": limit, "now_ms": now_ms})]


def texts(tx: Tx, ids: Iterable[int]) -> dict[int, str]:
    """Return what full-text search finds of some items, by id, without parsing their values."""
    return {row[0]: row[1] for row in tx.all(SELECT_TEXTS, {"ids": [*ids]})}


def list_page(
    tx: Tx,
    scope_no: int,
    path: str,
    order: str,
    cursor: Cursor,
    limit: int,
    *,
    descending: bool = False,
    where: Filter | None = None,
) -> tuple[list[Item], Cursor | None]:
    """
    Return *limit* items of a namespace from *cursor* on, and where the next page begins.

    Args:
        order: One of `ORDERS`.
        where: Only items whose value matches. None means all.

    Returns:
        The items of the page that match, and None instead of a cursor at the end.
    """
    values: dict[str, object] = {
        "scope_no": scope_no,
        "path": path,
        "limit": limit,
        "needle": "" if where is None else where.needle,
    }
    if order == "key":
        values["low"], values["high"] = cursor.low, cursor.high
    else:
        values["time_ms"], values["row_id"] = cursor.time_ms, cursor.row_id
    rows = tx.all(SELECT_PAGES[order, descending], values)
    following = None
    if len(rows) == limit:
        row_id, _, key, *_ = last = rows[-1]
        if order != "key":
            time_ms = last[8] if order == "updated" else last[7]
            following = Cursor("", LAST_KEY, time_ms, row_id)
        elif descending:
            following = Cursor(cursor.low, key, 0, 0)
        else:
            following = Cursor(key + "\x01", cursor.high, 0, 0)
    if where is not None:
        rows = [row for row in rows if _is_match(where, row[3], row[4])]
    return _to_items(tx, rows, path), following


def _is_match(where: Filter, value: str | None, data: bytes | None) -> bool:
    if value is None:
        return where.matches(data)
    return where.may_match(value) and where.matches(parse_json(value))


def list_expired(tx: Tx, span: tuple[int, int], limit: int) -> list[int]:
    """Return the ids of up to *limit* items that have expired, in a range of ids."""
    values = {"now_ms": tx.now_ms, "low": span[0], "high": span[1], "limit": limit}
    return [row[0] for row in tx.all(SELECT_EXPIRED, values)]


def list_ids(tx: Tx, scope_no: int) -> list[int]:
    """Return the id of every item of a scope."""
    return [row[0] for row in tx.all(SELECT_SCOPE_IDS, {"scope_no": scope_no})]


def count(tx: Tx, scope_no: int) -> int:
    """Return how many items a scope holds. Cost: 0.1 ms per 1,000."""
    row = tx.one(SELECT_COUNT, {"scope_no": scope_no})
    return 0 if row is None else int(row[0])


def live_ids(tx: Tx, ids: Iterable[int], now_ms: int) -> set[int]:
    """Return those of *ids* that have not expired at a time."""
    values = {"ids": [*ids], "now_ms": now_ms}
    return {row[0] for row in tx.all(SELECT_LIVE_IDS, values)}


def find_owners(tx: Tx, refs: Collection[int]) -> dict[int, int]:
    """Return the id of the item that each of some vectors belongs to, by ref; none without one."""
    rows = tx.all(SELECT_OWNERS, {"ids": [*refs]}) if refs else []
    return {ref: owner for ref, owner in rows if owner is not None}


def list_refs(tx: Tx, ids: Iterable[int]) -> set[int]:
    """Return the refs of all vectors of some items."""
    rows = tx.all(SELECT_REFS, {"ids": [*ids]})
    return {ref for first, count in rows for ref in range(first, first + count)}


def best_by_item(tx: Tx, near: Sequence[tuple[int, float]]) -> dict[int, tuple[int, float]]:
    """Return (ref, cosine) of the nearest vector by item, from all with the nearest first."""
    owners = find_owners(tx, [ref for ref, _ in near])
    best: dict[int, tuple[int, float]] = {}
    for ref, cosine in near:
        owner = owners.get(ref)
        if owner is not None:
            best.setdefault(owner, (ref, cosine))
    return best


def insert(tx: Tx, row: dict[str, object]) -> None:
    """Add an item, given as all its columns but `digest`."""
    tx.run(INSERT_ITEM, row)


def update(tx: Tx, row: dict[str, object]) -> None:
    """Replace what an item says, given as its columns by name."""
    tx.run(UPDATE_ITEM, row)


def refresh(tx: Tx, ids: Iterable[int]) -> None:
    """Let those of *ids* that expire live for another `ttl_ms`."""
    tx.run(UPDATE_EXPIRY, {"ids": [*ids], "now_ms": tx.now_ms})


def delete(tx: Tx, ids: Collection[int]) -> None:
    """Remove items."""
    tx.run(DELETE_ITEMS, {"ids": [*ids]})
