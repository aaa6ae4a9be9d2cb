"""
Items: values under a namespace and key. Owns `item_namespaces` and `items`.

A namespace is made with its first item and removed with its last one. Readers get
expired items too: the caller compares `expires_ms` with its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.columns import names_without
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

IN_IDS = "id IN (SELECT value FROM json_each(:ids))"
LIVE = "(expires_ms IS NULL OR expires_ms > :now_ms)"
MAY_MATCH = "(value IS NULL OR instr(value, :needle) > 0)"
OF_SCOPE = "item_namespaces JOIN items ON items.namespace_id = item_namespaces.id"
WITHIN = """
  item_namespaces.scope_no = :scope_no
  AND item_namespaces.path >= :low
  AND item_namespaces.path < :high
"""

INSERT_NAMESPACE = compose.insert("items.add_namespace", "item_namespaces")

DELETE_NAMESPACE = """/* items.drop_namespace */
DELETE FROM item_namespaces
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM items WHERE namespace_id = :id)
"""

SELECT_NAMESPACES = {
    descending: compose.select(
        f"items.namespaces{'_down' * descending}",
        "id, path",
        "item_namespaces",
        "scope_no = :scope_no AND path >= :low AND path < :high",
        order=f"path{' DESC' * descending}",
        limit=":limit",
    )
    for descending in (False, True)
}

SELECT_LIVE = compose.select(
    "items.is_live", "1", "items", f"namespace_id = :id AND {LIVE}", limit="1"
)

# What a reader gets of an item, and what is searched of it.
READ = (
    "id namespace_id key value data version metadata created_ms updated_ms ttl_ms expires_ms uid "
    "writer"
).split()
SEARCHED = "search_fields text vector_ref vector_count embedded".split()

OF_PATH = """
  namespace_id = (SELECT id FROM item_namespaces WHERE scope_no = :scope_no AND path = :path)
"""

SELECT_ONE = compose.select("items.find", [*READ, *SEARCHED], "items", f"{OF_PATH} AND key = :key")

SELECT_ITEM = compose.select("items.get", READ, "items", f"{OF_PATH} AND key = :key")

SELECT_KEYS = compose.select(
    "items.keys",
    "key",
    "items",
    f"namespace_id = :id AND key > :after AND key >= :prefix AND key < :high AND {LIVE}",
    order="key",
    limit=":limit",
)

SELECT_MANY = compose.select(
    "items.get_many",
    [f"items.{name}" for name in (*READ, *SEARCHED)] + ["path"],
    "items JOIN item_namespaces ON item_namespaces.id = items.namespace_id",
    f"items.{IN_IDS} AND (items.value IS NULL OR instr(items.value, :needle) > 0)",
)

SELECT_TEXTS = compose.select("items.texts", "id, text", "items", f"{IN_IDS} AND text IS NOT NULL")

# By order and direction: a page behind a key, a time and an id. Values that cannot match a
# filter are passed over here: to compare the text takes a tenth of reading the row.
_ORDERS = {"updated": "update", "created": "creation"}
_WAYS = ((False, "", "", ">"), (True, "_down", " DESC", "<"))

SELECT_PAGES = {
    ("key", descending): compose.select(
        f"items.by_key{down}",
        READ,
        "items",
        f"{OF_PATH} AND key >= :low AND key < :high AND {MAY_MATCH}",
        order=f"key{desc}",
        limit=":limit",
    )
    for descending, down, desc, _ in _WAYS
} | {
    (order, descending): compose.select(
        f"items.by_{name}{down}",
        READ,
        "items",
        f"{OF_PATH} AND ({order}_ms, id) {behind} (:time_ms, :row_id) AND {MAY_MATCH}",
        order=f"{order}_ms{desc}, id{desc}",
        limit=":limit",
    )
    for order, name in _ORDERS.items()
    for descending, down, desc, behind in _WAYS
}

# The same over many namespaces: sorted, which reads their part of an index, and the values if
# only some can match.
SELECT_ACROSS = {
    (order, descending, filtered): compose.select(
        f"items.{'matching' if filtered else 'across'}_by_{name}{down}",
        f"items.{order}_ms, items.id",
        OF_SCOPE,
        f"{WITHIN} AND (items.{order}_ms, items.id) {behind} (:time_ms, :row_id)"
        + f" AND {MAY_MATCH}" * filtered,
        order=f"items.{order}_ms{desc}, items.id{desc}",
        limit=":limit",
    )
    for order, name in _ORDERS.items()
    for descending, down, desc, behind in _WAYS
    for filtered in (False, True)
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

SELECT_COUNT = compose.select(
    "items.count", "count(*)", OF_SCOPE, "item_namespaces.scope_no = :scope_no"
)

# What a search by vector compares: the refs of a range of paths.
SELECT_REFS_WITHIN = compose.select(
    "items.refs_within",
    "items.vector_ref, items.vector_count",
    OF_SCOPE,
    f"""
  {WITHIN}
  AND items.vector_ref IS NOT NULL
  AND (items.expires_ms IS NULL OR items.expires_ms > :now_ms)
""",
    order="item_namespaces.path, items.key",
    limit=":most",
)

SELECT_LIVE_IDS = compose.select("items.live_ids", "id", "items", f"{IN_IDS} AND {LIVE}")

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

SELECT_REFS = compose.select(
    "items.refs", "vector_ref, vector_count", "items", f"{IN_IDS} AND vector_ref IS NOT NULL"
)

INSERT_ITEM = compose.insert("items.insert", "items")

UPDATE_ITEM = compose.update(
    "items.update",
    "items",
    "id = :id",
    ", ".join(names_without("items", "id", "uid", "namespace_id", "key", "created_ms")),
)

UPDATE_EXPIRY = compose.update(
    "items.refresh", "items", f"{IN_IDS} AND ttl_ms IS NOT NULL", expires_ms=":now_ms + ttl_ms"
)
compose.annotate(UPDATE_EXPIRY, compose.UNCOUNTED)  # looking changes nothing

SELECT_WRITTEN = compose.select(
    "items.written",
    "id, version, key",
    "items",
    "id BETWEEN :low AND :high AND writer = :writer AND updated_ms >= :since_ms",
    order="id",
)

DELETE_ITEMS = compose.delete("items.delete", "items", IN_IDS)

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
    Rest of a walk: a range of keys, or the rows behind a time and an id.

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
    return [_to_item(labels, row[0], *row[2:]) for row in rows]


def to_item(row: dict[str, Any], path: str) -> Item:
    """Return the item that a row for `insert` or `update` is, without reading it again."""
    return _to_item(labels_of(path), *[row[name] for name in READ if name != "namespace_id"])


def _to_item(
    labels: tuple[str, ...],
    row_id: int,
    key: str,
    value: str | None,
    data: bytes | None,
    version: int,
    metadata: str | None,
    *others: Any,
) -> Item:
    """Return an item from its columns in the order of `READ`."""
    content = data if value is None else parse_json(value)
    return Item(row_id, labels, key, content, version, parse_json(metadata, dict), *others)


def _to_stored(tx: Tx, row: Row, path: str) -> StoredItem:
    (item,) = _to_items(tx, [row[: len(READ)]], path)
    fields, text, ref, count, embedded = row[len(READ) : len(READ) + len(SEARCHED)]
    return StoredItem(row[1], item, fields, text, ref, count, bool(embedded))


def find_namespace(tx: Tx, scope_no: int, path: str) -> int | None:
    """Return the id of a namespace, None if it has no items."""
    row = tx.one(SELECT_NAMESPACE, {"scope_no": scope_no, "path": path})
    if row is None:
        return None
    tx.verify("item_namespaces", row)
    return int(row[0])


def add_namespace(tx: Tx, namespace_id: int, scope_no: int, path: str) -> None:
    """Add a namespace; the caller then adds its first item."""
    tx.run(INSERT_NAMESPACE, {"id": namespace_id, "scope_no": scope_no, "path": path})


def drop_namespace(tx: Tx, namespace_id: int) -> None:
    """Remove a namespace if it has no items."""
    tx.run(DELETE_NAMESPACE, {"id": namespace_id})


def list_namespaces(
    tx: Tx, scope_no: int, low: str, high: str, *, limit: int = MAX_INT, descending: bool = False
) -> list[tuple[int, str]]:
    """Return (id, path) of the namespaces with *low* <= path < *high*, by path."""
    values = {"scope_no": scope_no, "low": low, "high": high, "limit": limit}
    rows = tx.all(SELECT_NAMESPACES[descending], values)
    tx.verify("item_namespaces", [row[0] for row in rows])
    return [(int(namespace_id), path) for namespace_id, path in rows]


def is_live(tx: Tx, namespace_id: int, now_ms: int) -> bool:
    """Return whether a namespace contains an item that has not expired at a time."""
    values = {"id": namespace_id, "now_ms": now_ms}
    return tx.one(SELECT_LIVE, values) is not None


def refs_within(
    tx: Tx, scope_no: int, span: tuple[str, str], now_ms: int, most: int
) -> list[range]:
    """
    Return the refs of the vectors of the first unexpired items of a range of paths.

    Cost: 1 ms per 1,000 items.
    """
    low, high = span
    values = {"scope_no": scope_no, "low": low, "high": high, "now_ms": now_ms, "most": most}
    return [range(first, first + count) for first, count in tx.all(SELECT_REFS_WITHIN, values)]


def find(tx: Tx, scope_no: int, path: str, key: str) -> StoredItem | None:
    """Return the item under a key, None if there is none."""
    row = tx.one(SELECT_ONE, {"scope_no": scope_no, "path": path, "key": key})
    return None if row is None else _to_stored(tx, row, path)


def find_current(tx: Tx, scope_no: int, path: str, key: str, now_ms: int) -> Item | None:
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
    return {row[0]: _to_stored(tx, row, row[len(READ) + len(SEARCHED)]) for row in rows}


def list_across(
    tx: Tx,
    scope_no: int,
    span: tuple[str, str],
    order: str,
    cursor: Cursor,
    limit: int,
    *,
    descending: bool,
    where: Filter | None = None,
) -> list[tuple[int, int]]:
    """
    Return (time, id) of the items after *cursor* in all namespaces of a range of paths.

    Items whose value shows that it cannot match *where* are left out.

    Cost: 1 ms per 2,000 items of the range, however few are returned.
    """
    low, high = span
    needle = "" if where is None else where.needle
    values: dict[str, object] = {"scope_no": scope_no, "low": low, "high": high, "limit": limit}
    values |= {"time_ms": cursor.time_ms, "row_id": cursor.row_id}
    if needle:
        values["needle"] = needle
    rows = tx.all(SELECT_ACROSS[order, descending, needle != ""], values)
    return [(row[0], row[1]) for row in rows]


def list_keys(
    tx: Tx, namespace_id: int, prefix: str, after: str, limit: int, now_ms: int
) -> list[str]:
    """Return keys after *after* that begin with *prefix*, of unexpired items."""
    values = {"id": namespace_id, "prefix": prefix, "after": after, "high": prefix + LAST_KEY}
    return [row[0] for row in tx.all(SELECT_KEYS, {**values, "limit": limit, "now_ms": now_ms})]


def texts(tx: Tx, ids: Iterable[int]) -> dict[int, str]:
    """Return the indexed text of some items, by item id, without parsing their values."""
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
    Return *limit* items of a namespace from *cursor* on, and the cursor of the next page.

    Args:
        order: One of `ORDERS`.
        where: Only items whose value matches. None means all.

    Returns:
        The matching items of the page, and None in place of a cursor at the end.
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
    """Return the number of items of a scope. Cost: 0.1 ms per 1,000."""
    return tx.read_number(SELECT_COUNT, {"scope_no": scope_no})


def live_ids(tx: Tx, ids: Iterable[int], now_ms: int) -> set[int]:
    """Return the *ids* that have not expired at a time."""
    values = {"ids": [*ids], "now_ms": now_ms}
    return {row[0] for row in tx.all(SELECT_LIVE_IDS, values)}


def find_owners(tx: Tx, refs: Collection[int]) -> dict[int, int]:
    """Return, by ref of a vector, the id of its item; refs without an item are left out."""
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


def written(tx: Tx, low: int, high: int, writer: str, since_ms: int) -> list[Row]:
    """Return (id, version, key) of the items in an id range that *writer* put since a time."""
    values = {"low": low, "high": high, "writer": writer, "since_ms": since_ms}
    return tx.all(SELECT_WRITTEN, values)


def insert(tx: Tx, row: dict[str, object]) -> None:
    """Add an item, given as all its columns but `digest`."""
    tx.run(INSERT_ITEM, row)


def update(tx: Tx, row: dict[str, object]) -> None:
    """Replace the content of an item, given as its columns by name."""
    tx.run(UPDATE_ITEM, row)


def refresh(tx: Tx, ids: Iterable[int]) -> None:
    """Set the expiry of those *ids* that have a `ttl_ms` to this time from now."""
    tx.run(UPDATE_EXPIRY, {"ids": [*ids], "now_ms": tx.now_ms})


def delete(tx: Tx, ids: Collection[int]) -> None:
    """Remove items."""
    tx.run(DELETE_ITEMS, {"ids": [*ids]})
