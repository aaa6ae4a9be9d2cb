"""
Item records: a value under a namespace and key, with its namespace and its words.

Rows of the tables `item_namespaces` and `items` are added and removed only through this module,
except by `memdb copy`. Every function joins the caller's transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.errors import Corrupt, require_version
from memdb.models.ids import scope_of, scope_range
from memdb.models.items import labels_of, path_of
from memdb.models.record import Record
from memdb.records import dependents, spaces
from memdb.tables import checks, items, jobs, scopes, tombstones
from memdb.tables import spaces as space_rows
from memdb.tables.tombstones import Tombstone
from memdb.text.derived import bigrams_of
from memdb.text.values import text_in, texts_of, words_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memdb.engine.base import Tx
    from memdb.models.items import Item
    from memdb.models.protocols import Ids
    from memdb.tables.items import StoredItem


# How much of one text is embedded.
MAX_EMBEDDED_CHARS = 100_000


class ItemDraft(Record):
    """
    A checked item that is not stored yet.

    Attributes:
        path: The namespace in its stored form.
        value: JSON text. None means that the value is *data*.
        data: Bytes. None means that the value is JSON.
        metadata: JSON text; None means none.
        search_fields: JSON array of field paths; None means that nothing is searched.
        text: The text for full-text search; None means nothing.
        ttl_ms: None means that it does not expire.
        vectors: The given vectors in their stored form, all of one dimension.
        embedded: Number of its texts to embed, if no vectors are given.
        writer: The program that puts it; None means unknown.
    """

    path: str
    key: str
    value: str | None
    data: bytes | None
    metadata: str | None
    search_fields: str | None
    text: str | None
    ttl_ms: int | None
    vectors: tuple[bytes, ...] = ()
    embedded: int = 0
    writer: str | None = None

    @property
    def dim(self) -> int:
        """How many components a given vector has."""
        return len(self.vectors[0]) // 4


class Imported(Record):
    """Fields that an imported item had in its own file."""

    uid: str
    version: int
    created_ms: int
    updated_ms: int
    expires_ms: int | None


def find(tx: Tx, scope_no: int | None, path: str, key: str, now_ms: int) -> StoredItem | None:
    """Return the item under a key, None if there is none or it has expired at a time."""
    if scope_no is None:
        return None
    found = items.find(tx, scope_no, path, key)
    return None if found is None or is_expired(found, now_ms) else found


def is_expired(stored: StoredItem, now_ms: int) -> bool:
    """Return whether an item has expired."""
    expires_ms = stored.item.expires_ms
    return expires_ms is not None and expires_ms <= now_ms


def put(tx: Tx, scope_no: int, draft: ItemDraft, ids: Ids, expected: int | None = None) -> Item:
    """
    Create or replace a whole item; return it as stored.

    An item that has expired counts as absent, and is removed.

    Raises:
        VersionConflict: the item is not at version *expected*; 0 means that there must be no item.
    """
    namespace_id = _ensure_namespace(tx, scope_no, draft.path)
    old = items.find(tx, scope_no, draft.path, draft.key)
    if old is not None and is_expired(old, tx.now_ms):
        _remove_rows(tx, old)
        old = None
    require_item(draft.path, draft.key, old, expected)
    row = {**_columns(draft), "updated_ms": tx.now_ms, "expires_ms": None}
    if draft.ttl_ms is not None:
        row["expires_ms"] = tx.now_ms + draft.ttl_ms
    if old is not None:
        kept = old.item
        row |= {"id": kept.id, "uid": kept.uid, "created_ms": kept.created_ms}
        row["version"] = kept.version + 1
        row["vector_ref"] = _first_ref(tx, scope_no, draft, old.item.id, old)
        if old.text is not None:
            tx.words.drop("item", old.item.id)
        _drop_vectors(tx, old)
        items.update(tx, row)
    else:
        row |= {
            "id": scopes.next_id(tx, scope_no),
            "uid": ids(tx.now_ms),
            "namespace_id": namespace_id,
            "version": 1,
            "created_ms": tx.now_ms,
        }
        row["vector_ref"] = _first_ref(tx, scope_no, draft, row["id"])
        items.insert(tx, row)
    _add_derived(tx, draft, row["id"], row["vector_ref"])
    return items.to_item(row, draft.path)


def restore(tx: Tx, scope_no: int, draft: ItemDraft, was: Imported) -> StoredItem | None:
    """Add an exported item; return None and change nothing if its key has an item."""
    namespace_id = _ensure_namespace(tx, scope_no, draft.path)
    if items.find(tx, scope_no, draft.path, draft.key) is not None:
        return None
    item_id = scopes.next_id(tx, scope_no)
    row = {**_columns(draft), **was._asdict(), "id": item_id, "namespace_id": namespace_id}
    row["vector_ref"] = _first_ref(tx, scope_no, draft, item_id)
    items.insert(tx, row)
    _add_derived(tx, draft, item_id, row["vector_ref"])
    dependents.clear(tx, scope_no, [was.uid])
    return items.find(tx, scope_no, draft.path, draft.key)


def require_item(path: str, key: str, found: StoredItem | None, expected: int | None) -> None:
    """Raise VersionConflict unless an item is at a version; 0 means that there must be no item."""
    name = "/".join((*labels_of(path), key))
    require_version("item", name, expected, 0 if found is None else found.item.version)


def remove(tx: Tx, *doomed: StoredItem, is_forgotten: bool = False) -> None:
    """
    Remove items of a scope with their words, and namespaces that become empty.

    Args:
        is_forgotten: No import brings them back.
    """
    _remove_rows(tx, *doomed)
    for namespace_id in {stored.namespace_id for stored in doomed}:
        items.drop_namespace(tx, namespace_id)
    if is_forgotten and doomed:
        scope_no = scope_of(doomed[0].item.id)
        base = scope_range(scope_no)[0]
        found = [stored.item for stored in doomed]
        stones = (
            Tombstone(one.uid, "item", str(one.id - base), tx.now_ms, forgotten=True)
            for one in found
        )
        tombstones.add(tx, scope_no, *stones)
        names = [(path_of(one.namespace), one.key) for one in found]
        dependents.keep_away(tx, scope_no, "item", names)


def refresh(tx: Tx, found: Iterable[Item]) -> list[Item]:
    """Renew the time to live of items that expire, and return them with the new expiry."""
    found = [*found]
    expiring = [item.id for item in found if item.ttl_ms is not None]
    if not expiring:
        return found
    items.refresh(tx, expiring)
    return [
        item if item.ttl_ms is None else item.replace(expires_ms=tx.now_ms + item.ttl_ms)
        for item in found
    ]


def remove_many(tx: Tx, ids: Collection[int]) -> int:
    """Remove items as `remove` does; return how many there were."""
    found = items.get_many(tx, ids).values()
    remove(tx, *found)
    return len(found)


def _ensure_namespace(tx: Tx, scope_no: int, path: str) -> int:
    found = items.find_namespace(tx, scope_no, path)
    if found is None:
        found = scopes.next_id(tx, scope_no)
        items.add_namespace(tx, found, scope_no, path)
    return found


def _columns(draft: ItemDraft) -> dict[str, Any]:
    return {
        **draft._asdict(),
        "bigrams": None if draft.text is None else bigrams_of(draft.text),
        "vector_count": len(draft.vectors) or draft.embedded,
        "embedded": int(not draft.vectors and draft.embedded > 0),
    }


def _first_ref(
    tx: Tx, scope_no: int, draft: ItemDraft, item_id: int, old: StoredItem | None = None
) -> int | None:
    """
    Return the ref of the first vector, None without vectors.

    The ref stays if their number does. Else it is the item's id for a single one, or a new id.
    """
    count = len(draft.vectors) or draft.embedded
    if not count:
        return None
    if old is not None and old.vector_count == count:
        return old.vector_ref
    return item_id if count == 1 else scopes.next_id(tx, scope_no, count)


def _add_derived(tx: Tx, draft: ItemDraft, item_id: int, first_ref: int | None) -> None:
    """Add the words of an item and its given vectors, or queue its texts to be embedded."""
    if draft.text is not None:
        tx.words.add("item", item_id)
    if first_ref is None:
        return
    if draft.vectors:
        space_no = spaces.ensure_given(tx, draft.dim)
        spaces.put(tx, space_no, "item", [*enumerate(draft.vectors, first_ref)])
    else:
        jobs.add_items(tx, range(first_ref, first_ref + draft.embedded))


def _drop_vectors(tx: Tx, stored: StoredItem) -> None:
    if stored.vector_count:
        tx.vectors.drop("item", stored.refs[0], stored.refs[-1])
    if stored.embedded:
        jobs.drop(tx, "item", stored.refs[0], stored.refs[-1])


def text_at(tx: Tx, ref: int) -> str:
    """Return the text of an item whose vector has *ref*; "" if it is gone."""
    owner = items.find_owners(tx, [ref]).get(ref)
    try:
        found = {} if owner is None else items.get_many(tx, [owner])
    except Corrupt:
        return ""  # `check` reports it; the texts of others are embedded
    for stored in found.values():
        if ref in stored.refs and stored.search_fields is not None:
            texts = texts_of(stored.item.value, json.loads(stored.search_fields))
            return texts[ref - stored.refs[0]][:MAX_EMBEDDED_CHARS]
    return ""


def set_vector(tx: Tx, space_no: int, ref: int, vector: bytes | None) -> None:
    """Store the vector of a text of an item; None means that it has none."""
    if vector is not None:
        spaces.put(tx, space_no, "item", [(ref, vector)])


def list_given(tx: Tx, stored: StoredItem) -> list[bytes]:
    """Return the vectors that were given with an item, in order; [] if none were."""
    if stored.embedded or not stored.vector_count:
        return []
    for space_no, model, _ in space_rows.list_numbers(tx):
        if model == space_rows.GIVEN:
            first, last = stored.refs[0], stored.refs[-1]
            found = tx.vectors.list_page(space_no, "item", first - 1, last, stored.vector_count)
            if found:
                return [vector for _, vector in found]
    return []


def _remove_rows(tx: Tx, *doomed: StoredItem) -> None:
    tx.words.drop_each("item", [one.item.id for one in doomed if one.text is not None])
    for stored in doomed:
        _drop_vectors(tx, stored)
    items.delete(tx, [stored.item.id for stored in doomed])


def all_text(item: Item) -> str:
    """Return everything that an item says, names of fields and numbers too, a line each."""
    value = item.value
    if isinstance(value, bytes):
        value = text_in(value)
    said = [*item.namespace, item.key, *words_of([value, item.metadata])]
    return "\n".join(said)


def derive(tx: Tx) -> None:
    """Rebuild bigrams, and remove namespaces that hold none."""
    checks.derive(tx, "item")
    checks.drop_empty_namespaces(tx)
