"""
Item service: put, find, list and delete values under namespaces and keys.

A value is replaced as a whole, and each put adds 1 to its version, which a caller may
expect. Everything is checked and screened before a transaction begins.

The items nearest to a vector are found in the whole scope first, and those in other namespaces
left out. Where a namespace holds too little of its scope, or values have to match, what is allowed
is listed first, and only that is compared.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, NotFound, TooLarge
from memdb.items.walk import MAX_LIMIT, find_ids, list_ids, list_request, read, walk_namespaces
from memdb.models.ids import MAX_INT, scope_range
from memdb.models.items import (
    MAX_DATA_BYTES,
    MAX_VECTORS,
    DeleteItem,
    FindItem,
    FoundItem,
    Item,
    PutItem,
    path_of,
    path_range,
    ttl_value,
)
from memdb.models.vectors import MAX_DIM, to_vector
from memdb.records import items as item_records
from memdb.records import spaces
from memdb.records.items import ItemDraft, is_expired
from memdb.tables import items
from memdb.text.validate import (
    expected_value,
    fit_value,
    flag_value,
    int_value,
    json_object,
    json_value,
    list_value,
    name_value,
    text_value,
)
from memdb.text.values import parse_fields, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from memdb.engine.base import Engine, Tx
    from memdb.items.walk import ListRequest
    from memdb.models.items import Namespace
    from memdb.models.messages import Hit
    from memdb.records.scopes import ScopeRef
    from memdb.tables.items import StoredItem
    from memdb.text.screening import SecretScreen

    # An item, and the ref and cosine of its nearest vector.
    Near = tuple[StoredItem, tuple[int, float]]
    Operation = PutItem | FindItem | DeleteItem
    Outcome = Item | bool | None
    ItemFilter = Callable[[Tx, int], set[int]]


# Items of namespaces that are listed and compared at once.
FEW = 1000

# Vectors of a scope looked at for each item wanted, before its namespaces are listed instead.
WIDER = 8


class NearestItems:
    """One search by a vector, in one read."""

    def __init__(self, tx: Tx, scope_no: int, space_no: int, vector: bytes, now_ms: int) -> None:
        """Compare *vector* with those of the items of a scope that live at *now_ms*."""
        self._tx = tx
        self._scope_no = scope_no
        self._space_no = space_no
        self._vector = vector
        self._now_ms = now_ms

    def find(self, request: ListRequest) -> list[Near]:
        """Return the nearest items that *request* allows, by the way that costs least."""
        if request.where is not None:
            return self._of_ids(request)
        if not (request.low or request.exact):
            return self._of_scope(request.limit)
        refs = self._refs_within(request, FEW)
        if len(refs) == FEW:
            chosen = self._of_namespaces(request)
            if chosen is not None:
                return chosen
            refs = self._refs_within(request, MAX_INT)
        return self._of_scope(request.limit, {ref for some in refs for ref in some})

    def _refs_within(self, request: ListRequest, most: int) -> list[range]:
        """Return the refs of up to *most* items in the namespaces of *request*, item by item."""
        span = request.low, request.high
        return items.refs_within(self._tx, self._scope_no, span, self._now_ms, most)

    def _of_namespaces(self, request: ListRequest) -> list[Near] | None:
        """
        Return the nearest items of the scope that are in the namespaces of *request*.

        None means that these hold so little of the scope that reading them first is cheaper.
        """
        asked = WIDER * request.limit
        near, compared = self._items(asked, None)
        chosen = [
            one for one in near if request.low <= path_of(one[0].item.namespace) < request.high
        ]
        is_enough = len(chosen) >= request.limit or compared < asked
        return chosen[: request.limit] if is_enough else None

    def _of_ids(self, request: ListRequest) -> list[Near]:
        """Return the nearest of the items whose values match, which are read first."""
        ids = find_ids(self._tx, self._scope_no, request, self._now_ms)
        return self._of_scope(request.limit, items.list_refs(self._tx, ids))

    def _of_scope(self, limit: int, refs: set[int] | None = None) -> list[Near]:
        """Return the *limit* nearest items of the scope; *refs* are the vectors that count."""
        asked = limit
        while True:
            near, compared = self._items(asked, refs)
            if len(near) >= limit or compared < asked:
                return near[:limit]
            asked *= 4  # several vectors were of one item, or it has expired

    def _items(self, asked: int, refs: set[int] | None) -> tuple[list[Near], int]:
        """Return the items of the *asked* nearest vectors, and how many vectors there were."""
        near = self._tx.vectors.nearest(
            self._space_no,
            "item",
            self._vector,
            scope_range(self._scope_no),
            limit=asked,
            allowed=refs,
        )
        best = items.best_by_item(self._tx, near)
        stored = items.get_many(self._tx, best)
        found = [
            (stored[item_id], place)
            for item_id, place in best.items()
            if item_id in stored and not is_expired(stored[item_id], self._now_ms)
        ]
        return found, len(near)


MAX_BATCH = 10_000
MAX_INDEXED_CHARS = 1_000_000

# Items removed per statement; expired ones per transaction.
REMOVED_AT_ONCE = 500


class ItemService:
    """Puts, finds, lists and deletes the items of scopes."""

    # Checks which items a call is about, and how many of them a search can be about.
    choose = staticmethod(list_request)
    most_chosen = MAX_LIMIT

    def __init__(
        self, db: Engine, screen: SecretScreen, ensure_space: Callable[[Tx], object]
    ) -> None:
        """
        Serve the items of *db*, screened by *screen*.

        Args:
            ensure_space: Makes the embedding space that texts are queued for, if it is new.
        """
        self._db = db
        self._screen = screen
        self._ensure_space = ensure_space

    def put(self, owner: ScopeRef, new: PutItem) -> Item:
        """Create or replace an item; see `Items.put`."""
        apply = self._prepare_put(owner, new)
        with self._db.write() as tx:
            return apply(tx)

    def find(self, owner: ScopeRef, wanted: FindItem) -> Item | None:
        """Return an item, None if there is none; see `Items.find`."""
        apply = self._prepare_find(owner, wanted)
        if wanted.refresh:  # a write, which only an item that expires needs
            found = self.find(owner, wanted.replace(refresh=False))
            if found is None or found.ttl_ms is None:
                return found
        with self._reading(refresh=wanted.refresh) as tx:
            return apply(tx)

    def get(self, owner: ScopeRef, wanted: FindItem) -> Item:
        """Return an item; NotFound if there is none."""
        found = self.find(owner, wanted)
        if found is None:
            raise NotFound("item", "/".join((*wanted.namespace, wanted.key)))
        return found

    def delete(self, owner: ScopeRef, doomed: DeleteItem) -> bool:
        """Remove an item; False if there is none; see `Items.delete`."""
        apply = self._prepare_delete(owner, doomed)
        with self._db.write() as tx:
            return apply(tx)

    def batch(self, owner: ScopeRef, operations: Iterable[Operation]) -> list[Outcome]:
        """Do several operations in one transaction, in order; see `Items.batch`."""
        given = list_value(operations, "operations")
        if len(given) > MAX_BATCH:
            raise TooLarge("the number of operations in a batch", MAX_BATCH, len(given))
        prepared: list[Callable[[Tx], Outcome]] = []
        is_reading = True
        for place, operation in enumerate(given):
            if isinstance(operation, PutItem):
                prepared.append(self._prepare_put(owner, operation))
                is_reading = False
            elif isinstance(operation, DeleteItem):
                prepared.append(self._prepare_delete(owner, operation))
                is_reading = False
            elif isinstance(operation, FindItem):
                prepared.append(self._prepare_find(owner, operation))
                is_reading = is_reading and not operation.refresh
            else:
                raise InvalidInput(
                    f"operation {place} is {type(operation).__name__}: give PutItem, FindItem "
                    "or DeleteItem"
                )
        with self._reading(refresh=not is_reading) as tx:
            return [apply(tx) for apply in prepared]

    def namespaces(
        self,
        owner: ScopeRef,
        prefix: Namespace = (),
        suffix: Namespace = (),
        *,
        max_depth: int | None = None,
        after: Namespace | None = None,
        limit: int | None = None,
    ) -> list[tuple[str, ...]]:
        """Return namespaces that contain items; see `Items.namespaces`."""
        low, high = path_range(path_of(prefix, "prefix"))
        path_of(suffix, "suffix")
        end = tuple(suffix)
        depth = MAX_INT if max_depth is None else int_value(max_depth, "max_depth", 1, MAX_INT)
        if after is not None:
            first, end_of_after = path_range(path_of(after, "after"))
            low = max(low, end_of_after if len(after) >= depth else first + "\x01")
        now_ms = self._db.clock()
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            walk = walk_namespaces(tx, scope_no, (low, high), end, depth, now_ms)
            return [*islice(walk, limit)]

    def keys(
        self,
        owner: ScopeRef,
        namespace: Namespace,
        key_prefix: str = "",
        after: str = "",
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys of a namespace; see `Items.keys`."""
        path = path_of(namespace)
        text_value(key_prefix, "key_prefix")
        text_value(after, "after")
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            found = None if scope_no is None else items.find_namespace(tx, scope_no, path)
            if found is None:
                return []
            return items.list_keys(tx, found, key_prefix, after, limit or MAX_INT, self._db.clock())

    def matching_ids(self, request: ListRequest) -> ItemFilter:
        """Return a function that gives the ids of the items of a scope that a search may find."""
        return lambda tx, scope_no: find_ids(tx, scope_no, request, self._db.clock())

    def nearest(
        self, owner: ScopeRef, vector: object, request: ListRequest, *, refresh: bool
    ) -> list[FoundItem]:
        """
        Return the items whose given vectors are nearest to *vector*, nearest first.

        The best vector of an item counts, and its cosine is the score. Only vectors of
        the same dimension are compared, of the items that *request* allows.

        Cost: as a search of the scope; where *request* allows a small part of it, or has
        `where`, 4 ms per 1,000 items that it
        allows.
        """
        raw = vector_value(vector, "vector")
        with self._reading(refresh=flag_value(refresh, "refresh")) as tx:
            scope_no, space_no = owner.find(tx), spaces.find_given(tx, len(raw) // 4)
            if scope_no is None or space_no is None:
                return []
            search = NearestItems(tx, scope_no, space_no, raw, self._db.clock())
            chosen = search.find(request)
            items_found = [stored.item for stored, _ in chosen]
            if refresh:
                items_found = item_records.refresh(tx, items_found)
            vectors = tx.vectors.find(space_no, "item", [ref for _, (ref, _) in chosen])
            return [
                FoundItem(item, cosine, stored.text or "", vectors.get(ref))
                for item, (stored, (ref, cosine)) in zip(items_found, chosen, strict=True)
            ]

    def load_hits(self, owner: ScopeRef, hits: Iterable[Hit], *, refresh: bool) -> list[FoundItem]:
        """Return the items that a search found, without those that are gone since."""
        found = []
        with self._reading(refresh=flag_value(refresh, "refresh")) as tx:
            for hit in hits:
                wanted = FindItem(hit.source.namespace or (), hit.source.key or "", refresh)
                item = self._prepare_find(owner, wanted)(tx)
                if item is not None:
                    found.append(FoundItem(item, hit.score, hit.text))
        return found

    def clear(self, owner: ScopeRef, prefix: Namespace, *, expired: bool = False) -> int:
        """Remove all items in a namespace and below it; see `Items.clear`."""
        request = list_request(prefix)
        with self._db.write() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return 0
            ids = list_ids(tx, scope_no, request)
            if expired:
                alive = items.live_ids(tx, ids, tx.now_ms)
                ids = [one for one in ids if one not in alive]
            for start in range(0, len(ids), REMOVED_AT_ONCE):
                item_records.remove_many(tx, ids[start : start + REMOVED_AT_ONCE])
            return len(ids)

    def remove_expired(self) -> int:
        """Remove the items of all scopes that have expired; return how many."""
        total = 0
        while True:
            with self._db.write() as tx:
                ids = items.list_expired(tx, (0, MAX_INT), REMOVED_AT_ONCE)
                removed = item_records.remove_many(tx, ids)
            total += removed
            if removed < REMOVED_AT_ONCE:
                return total

    def _reading(self, *, refresh: bool) -> AbstractContextManager[Tx]:
        """Return a transaction that may write only if an expiry moves."""
        return self._db.write() if refresh else self._db.read()

    def _prepare_put(self, owner: ScopeRef, new: PutItem) -> Callable[[Tx], Item]:
        draft = self.draft(new).replace(writer=self._db.written_by)
        owner.admit()
        expected = expected_value(new.expected, "version")

        def apply(tx: Tx) -> Item:
            scope_no = owner.ensure(tx)
            if draft.embedded:
                self._ensure_space(tx)
            return item_records.put(tx, scope_no, draft, self._db.ids, expected)

        return apply

    def draft(self, new: PutItem) -> ItemDraft:
        """
        Return an item as it is stored, checked and screened.

        Raises:
            InvalidInput: a field cannot be stored.
            TooLarge: the value is too long, or there are too many vectors.
            SecretFound: the item contains a secret, and those are refused.
        """
        path = path_of(new.namespace)
        name_value(new.key, "key")
        metadata = json_object(new.metadata, "metadata")
        fields = parse_fields(new.index, "index")
        ttl_ms = ttl_value(new.ttl)
        given = {
            "namespace": list(new.namespace),
            "key": new.key,
            "index": fields,
            "metadata": new.metadata,
        }
        passed = self._screen.pass_fields("item", given)
        if passed is not given:
            metadata = json_object(passed["metadata"], "metadata")
        value: str | None = None
        data: bytes | None = None
        if isinstance(new.value, (bytes, bytearray, memoryview)):
            data = bytes(new.value)
            if len(data) > MAX_DATA_BYTES:
                raise TooLarge("the number of bytes in value", MAX_DATA_BYTES, len(data))
            data = self._screen.pass_bytes("item", "value", data)
            fields, texts = None, []
        else:
            json_value(new.value, "value")
            plain = self._screen.pass_fields("item", {"value": new.value})["value"]
            value = json_value(plain, "value") or "null"
            texts = texts_of(fit_value(plain), fields) if fields is not None else []
        vectors = _given_vectors(new.vectors)
        return ItemDraft(
            path,
            new.key,
            value,
            data,
            metadata,
            None if fields is None else json.dumps(fields, ensure_ascii=False),
            "\n".join(texts)[:MAX_INDEXED_CHARS] if texts else None,
            ttl_ms,
            vectors,
            0 if vectors or len(texts) > MAX_VECTORS else len(texts),
        )

    def _prepare_find(self, owner: ScopeRef, wanted: FindItem) -> Callable[[Tx], Item | None]:
        path = path_of(wanted.namespace)
        key = name_value(wanted.key, "key")
        refresh = flag_value(wanted.refresh, "refresh")

        def apply(tx: Tx) -> Item | None:
            scope_no = owner.find(tx)
            if scope_no is None:
                return None
            found = items.find_current(tx, scope_no, path, key, self._db.clock())
            return item_records.refresh(tx, [found])[0] if refresh and found is not None else found

        return apply

    def _prepare_delete(self, owner: ScopeRef, doomed: DeleteItem) -> Callable[[Tx], bool]:
        path = path_of(doomed.namespace)
        key = name_value(doomed.key, "key")
        expected = expected_value(doomed.expected, "version")

        def apply(tx: Tx) -> bool:
            stored = item_records.find(tx, owner.find(tx), path, key, tx.now_ms)
            item_records.require_item(path, key, stored, expected)
            if stored is not None:
                item_records.remove(tx, stored)
            return stored is not None

        return apply

    def list(self, owner: ScopeRef, request: ListRequest, *, refresh: bool = False) -> list[Item]:
        """Return a page of items; see `Items.list`."""
        with self._reading(refresh=refresh) as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            found = read(tx, scope_no, request, self._db.clock())
            return item_records.refresh(tx, found) if refresh else found


def _given_vectors(vectors: object) -> tuple[bytes, ...]:
    """Return vectors as they are stored, () for None."""
    if vectors is None:
        return ()
    if not isinstance(vectors, (list, tuple)):
        raise InvalidInput(f"vectors is {type(vectors).__name__}: give a list of vectors")
    if len(vectors) > MAX_VECTORS:
        raise TooLarge("the number of vectors", MAX_VECTORS, len(vectors))
    made: list[bytes] = []
    for place, vector in enumerate(vectors):
        made.append(vector_value(vector, f"vectors[{place}]"))
        if len(made[place]) != len(made[0]):
            raise InvalidInput(
                f"vectors[{place}] has {len(made[place]) // 4} components, but the first one has "
                f"{len(made[0]) // 4}: give all vectors of an item the same length"
            )
    return tuple(made)


def vector_value(vector: object, field: str) -> bytes:
    """Return a vector of any dimension as it is stored; InvalidInput names *field*."""
    if isinstance(vector, (bytes, bytearray, memoryview)):
        size = len(bytes(vector)) // 4
    elif isinstance(vector, (str, dict)) or not hasattr(vector, "__len__"):
        raise InvalidInput(f"{field} is {type(vector).__name__}: give numbers or their bytes")
    else:
        size = len(vector)
    if not 1 <= size <= MAX_DIM:
        raise InvalidInput(f"{field} has {size} components: give 1 to {MAX_DIM:,}")
    try:
        return to_vector(vector, size)  # type: ignore[arg-type]  # other types raise
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error}") from error
