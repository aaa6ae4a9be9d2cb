"""
Item lines: their codec, export and import.

An exported item keeps its revision and times; a hand-written one needs a namespace, a
key and a value. An item whose key has a value here stays away.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT
from memdb.models.items import MAX_TTL_MS, PutItem
from memdb.models.record import Record
from memdb.records import items as records
from memdb.records.items import Imported
from memdb.tables import items
from memdb.tables.items import FIRST
from memdb.transfer.lines import PAGE, Codec, Item, between, bytes_value, unchecked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.records.items import ItemDraft
    from memdb.tables.items import Cursor, StoredItem
    from memdb.transfer.lines import Target


def _vectors(value: object, field: str) -> list[bytes]:
    if not isinstance(value, list):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a list of base64 texts")
    return [bytes_value(each, field) for each in value]


ITEM = Codec(
    "item",
    needs="namespace key",
    exported_needs="revision created_ms updated_ms uid",
    exported_only="revision created_ms updated_ms expires_ms uid",
    checks={
        "namespace": unchecked,
        "key": unchecked,
        "revision": between(1, MAX_INT),
        "metadata": unchecked,
        "ttl_ms": between(1, MAX_TTL_MS),
        "index": unchecked,
        "vectors": _vectors,
        "value": unchecked,
        "data": bytes_value,
    },
)


class ItemLine(Record):
    """An item line, checked; *was* is what an exported one had in its file, else None."""

    draft: ItemDraft
    was: Imported | None


def export(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the items of a scope, by namespace and key."""
    for _, path in items.list_namespaces(tx, scope_no, "", chr(0x10FFFF)):
        cursor: Cursor | None = FIRST
        while cursor is not None:
            page, cursor = items.list_page(tx, scope_no, path, "key", cursor, PAGE)
            stored = items.get_many(tx, [item.id for item in page])
            yield from (_line(tx, stored[item.id]) for item in page)


def _line(tx: Tx, stored: StoredItem) -> dict[str, Any]:
    item = stored.item
    is_bytes = isinstance(item.value, bytes)
    vectors = [b64encode(vector).decode() for vector in records.list_given(tx, stored)]
    given = {
        "vectors": vectors or None,
        "namespace": list(item.namespace),
        "index": None if stored.search_fields is None else json.loads(stored.search_fields),
        "data": b64encode(item.value).decode() if is_bytes else None,
        "value": None,
    }
    line = ITEM.to_line(item, given)
    # Null is a value here, not an absent field.
    return line if is_bytes else {**line, "value": item.value}


def read_item(target: Target, item: Item) -> ItemLine:
    """Return an item line, checked and screened."""
    exported = "uid" in item.fields
    row = ITEM.from_line(item.fields, exported=exported)
    if ("value" in item.fields) == (row["data"] is not None):
        raise InvalidInput("an item needs value or data (base64): give one of them")
    target.services.screen.pass_fields("item", {"uid": row["uid"]})
    index = row["index"] if exported or "index" in item.fields else True
    value = row["value"] if row["data"] is None else row["data"]
    new = PutItem(
        row["namespace"],
        row["key"],
        value,
        row["metadata"],
        index=False if index is None else index,
        vectors=row["vectors"],
    )
    draft = target.services.items.draft(new).replace(ttl_ms=row["ttl_ms"])
    if not exported:
        return ItemLine(draft, None)
    if (row["ttl_ms"] is None) != (row["expires_ms"] is None):
        raise InvalidInput("ttl_ms and expires_ms go together: give both or none")
    return ItemLine(draft, Imported(*(row[name] for name in Imported._fields)))


def write_items(target: Target, tx: Tx, lines: list[ItemLine]) -> None:
    """Add the items whose key is new; the others stay as they are, those forgotten stay away."""
    scope_no = target.owner.ensure(tx)
    forgotten = target.are_forgotten(tx, [line.was.uid for line in lines if line.was is not None])
    ids = target.services.db.ids
    for line in lines:
        if line.was is not None and line.was.uid in forgotten:
            target.added["forgotten"] += 1
            continue
        was = line.was
        if was is None:
            ends = None if line.draft.ttl_ms is None else tx.now_ms + line.draft.ttl_ms
            was = Imported(ids(tx.now_ms), 1, tx.now_ms, tx.now_ms, ends)
        added = records.restore(tx, scope_no, line.draft, was)
        if added is not None and added.embedded:
            target.items[was.uid] = added.refs
        target.added["items_known" if added is None else "items_added"] += 1
