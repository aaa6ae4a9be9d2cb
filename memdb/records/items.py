"""
Item records: a value under a namespace and key, with its namespace and its words.

The one way in and out of the tables `item_namespaces` and `items`. Every function
joins the caller's transaction.
"""

from __future__ import annotations

from memdb.errors import VersionConflict
from memdb.models.ids import scope_of, scope_range
from memdb.models.record import Record
from memdb.records import dependents
from memdb.tables import checks, items, scopes, tombstones
from memdb.tables.tombstones import Tombstone
from memdb.text.derived import bigrams_of
from memdb.text.screening import is_binary
from memdb.text.values import WHOLE, texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.items import Item
    from memdb.models.protocols import Ids
    from memdb.tables.items import StoredItem


class ItemDraft(Record):
    """
    An item before it is stored, checked.

    Attributes:
        path: The namespace as it is stored.
        value: JSON text. None means that the value is *data*.
        data: Bytes. None means that the value is JSON.
        metadata: JSON text; None means none.
        search_fields: JSON array of field paths; None means that nothing is searched.
        text: What full-text search finds; None means nothing.
        ttl_ms: None means that it does not expire.
    """

    path: str
    key: str
    value: str | None
    data: bytes | None
    metadata: str | None
    search_fields: str | None
    text: str | None
    ttl_ms: int | None


class Imported(Record):
    """What an imported item had in the file that it comes from."""

    uid: str
    revision: int
    created_ms: int
    updated_ms: int
    expires_ms: int | None


def find(tx: Tx, scope_no: int | None, path: str, key: str, now_ms: int) -> StoredItem | None:
    """Return the item under a key, None if there is none or it has expired at a time."""
    if scope_no is None:
        return None
    namespace_id = items.find_namespace(tx, scope_no, path)
    found = None if namespace_id is None else items.find(tx, namespace_id, path, key)
    return None if found is None or is_expired(found, now_ms) else found


def is_expired(stored: StoredItem, now_ms: int) -> bool:
    """Return whether an item has expired."""
    expires_ms = stored.item.expires_ms
    return expires_ms is not None and expires_ms <= now_ms


def put(
    tx: Tx, scope_no: int, draft: ItemDraft, ids: Ids, expected_revision: int | None = None
) -> StoredItem:
    """
    Create or replace an item as a whole; return it as stored.

    An item that has expired counts as absent, and is removed.

    Raises:
        VersionConflict: the item is not at *expected_revision*; 0 stands for no item.
    """
    namespace_id = _ensure_namespace(tx, scope_no, draft.path)
    old = items.find(tx, namespace_id, draft.path, draft.key)
    if old is not None and is_expired(old, tx.now_ms):
        _remove_rows(tx, old)
        old = None
    require_revision(old, expected_revision)
    row = {**_columns(draft), "updated_ms": tx.now_ms, "expires_ms": None}
    if draft.ttl_ms is not None:
        row["expires_ms"] = tx.now_ms + draft.ttl_ms
    if old is not None:
        row |= {"id": old.item.id, "revision": old.item.revision + 1}
        if old.text is not None:
            tx.words.drop("item", old.item.id)
        items.update(tx, row)
    else:
        row |= {
            "id": scopes.next_id(tx, scope_no),
            "uid": ids(tx.now_ms),
            "namespace_id": namespace_id,
            "revision": 1,
            "created_ms": tx.now_ms,
        }
        items.insert(tx, row)
    if draft.text is not None:
        tx.words.add("item", row["id"])
    stored = items.find(tx, namespace_id, draft.path, draft.key)
    assert stored is not None
    return stored


def restore(tx: Tx, scope_no: int, draft: ItemDraft, was: Imported) -> bool:
    """Add an item as it was exported; False, and nothing changes, if its key has one."""
    namespace_id = _ensure_namespace(tx, scope_no, draft.path)
    if items.find(tx, namespace_id, draft.path, draft.key) is not None:
        return False
    item_id = scopes.next_id(tx, scope_no)
    row = {**_columns(draft), **was._asdict(), "id": item_id, "namespace_id": namespace_id}
    items.insert(tx, row)
    if draft.text is not None:
        tx.words.add("item", item_id)
    dependents.clear(tx, scope_no, [was.uid])
    return True


def require_revision(found: StoredItem | None, expected: int | None) -> None:
    """Raise VersionConflict unless an item is at a revision; 0 stands for no item."""
    revision = 0 if found is None else found.item.revision
    if expected not in (None, revision):
        raise VersionConflict(expected, revision)


def remove(tx: Tx, stored: StoredItem) -> None:
    """Remove an item with its words, and its namespace if it was the last one there."""
    _remove_rows(tx, stored)
    items.drop_namespace(tx, stored.namespace_id)


def forget(tx: Tx, stored: StoredItem) -> None:
    """Remove an item as `remove` does, so that no import brings it back."""
    remove(tx, stored)
    scope_no = scope_of(stored.item.id)
    ref = str(stored.item.id - scope_range(scope_no)[0])
    tombstone = Tombstone(stored.item.uid, "item", ref, tx.now_ms, forgotten=True)
    tombstones.add(tx, scope_no, tombstone)


def refresh(tx: Tx, found: Iterable[StoredItem]) -> None:
    """Let items that expire live for another time to live, from now on."""
    expiring = [stored.item.id for stored in found if stored.item.ttl_ms is not None]
    if expiring:
        items.refresh(tx, expiring)


def remove_expired(tx: Tx, limit: int) -> int:
    """Remove up to *limit* items that have expired, in any scope; return how many."""
    found = items.get_many(tx, items.list_expired(tx, limit))
    for stored in found.values():
        remove(tx, stored)
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
        "vector_ref": None,
        "vector_count": 0,
    }


def _remove_rows(tx: Tx, stored: StoredItem) -> None:
    if stored.text is not None:
        tx.words.drop("item", stored.item.id)
    items.delete(tx, stored.item.id)


def all_text(item: Item) -> str:
    """Return everything that an item says, also what is not searched, a line each."""
    value = item.value
    if isinstance(value, bytes):
        value = "" if is_binary(value) else value.decode(errors="replace")
    said = [*item.namespace, item.key, *texts_of([value, item.metadata], [WHOLE])]
    return "\n".join(said)


def derive(tx: Tx) -> None:
    """Make the bigrams of items anew, and remove namespaces that hold none."""
    checks.set_bigrams(tx, "item")
    checks.drop_empty_namespaces(tx)
