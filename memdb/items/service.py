"""
Item service: put, find, list and delete values under namespaces and keys.

A value is replaced as a whole, and each put adds 1 to its revision, which a caller may
expect. Walks follow an index of one namespace at a time, so a page costs what it
returns, and filters are applied to what the walk finds.
"""

from __future__ import annotations

import heapq
import json
from itertools import chain, islice

from memdb.errors import InvalidInput, NotFound, TooLarge
from memdb.models.ids import MAX_INT
from memdb.models.items import (
    MAX_DATA_BYTES,
    ORDERS,
    DeleteItem,
    FindItem,
    FoundItem,
    Item,
    PutItem,
    labels_of,
    path_of,
    path_range,
    ttl_value,
)
from memdb.models.record import Record
from memdb.records import items as records
from memdb.records.items import ItemDraft
from memdb.tables import items
from memdb.tables.items import FIRST, LAST, Cursor
from memdb.text.validate import (
    choice_value,
    flag_value,
    int_value,
    json_object,
    json_value,
    name_value,
)
from memdb.text.values import Filter, parse_fields, texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from memdb.engine.base import Engine, Tx
    from memdb.models.items import Namespace
    from memdb.models.messages import Hit
    from memdb.models.types import ItemOrder
    from memdb.records.scopes import ScopeRef
    from memdb.tables.items import StoredItem
    from memdb.text.screening import SecretScreen

    Operation = PutItem | FindItem | DeleteItem
    Outcome = Item | bool | None
    ItemFilter = Callable[[Tx, int], set[int]]

MAX_LIMIT = 10_000
MAX_BATCH = 10_000
MAX_INDEXED_CHARS = 1_000_000

# Items read per statement, at least and at most, and expired ones removed per transaction.
PAGE, MAX_PAGE = 16, 512
EXPIRED_BATCH = 500
NAMESPACE_PAGE = 256


class ListRequest(Record):
    """
    A checked walk over items.

    Attributes:
        low, high: The range of the namespaces, as `path_range` returns it.
        exact: Only the namespace *low* itself.
        where: None means every value.
        after: The item that the page before ended with. None means the beginning.
    """

    low: str
    high: str
    exact: bool
    where: Filter | None
    after: Item | None
    limit: int
    order: ItemOrder
    descending: bool


def list_request(
    prefix: Namespace = (),
    *,
    exact: bool = False,
    where: Mapping[str, Any] | None = None,
    after: Item | None = None,
    limit: int = 100,
    order: ItemOrder = "key",
    descending: bool = False,
) -> ListRequest:
    """
    Check the arguments of `Items.list`.

    Raises:
        InvalidInput: an argument is not what it should be.
    """
    path = path_of(prefix, "prefix")
    if after is not None and not isinstance(after, Item):
        raise InvalidInput(
            f"after is {type(after).__name__}: give the last item of the page before"
        )
    return ListRequest(
        *path_range(path),
        flag_value(exact, "exact"),
        None if where is None else Filter(where),
        after,
        int_value(limit, "limit", 1, MAX_LIMIT),
        choice_value(order, "order", ORDERS),  # type: ignore[arg-type]
        flag_value(descending, "descending"),
    )


class ItemService:
    """Puts, finds, lists and deletes the items of scopes."""

    def __init__(self, db: Engine, screen: SecretScreen) -> None:
        """Serve the items of *db*, screened by *screen*."""
        self._db = db
        self._screen = screen

    def put(self, owner: ScopeRef, new: PutItem) -> Item:
        """Create or replace an item; see `Items.put`."""
        apply = self._prepare_put(owner, new)
        with self._db.write() as tx:
            return apply(tx)

    def find(self, owner: ScopeRef, wanted: FindItem) -> Item | None:
        """Return an item, None without one; see `Items.find`."""
        apply = self._prepare_find(owner, wanted)
        with self._reading(refresh=wanted.refresh) as tx:
            return apply(tx)

    def get(self, owner: ScopeRef, wanted: FindItem) -> Item:
        """Return an item; NotFound without one."""
        found = self.find(owner, wanted)
        if found is None:
            raise NotFound("item", "/".join((*wanted.namespace, wanted.key)))
        return found

    def delete(self, owner: ScopeRef, doomed: DeleteItem) -> bool:
        """Remove an item; False without one; see `Items.delete`."""
        apply = self._prepare_delete(owner, doomed)
        with self._db.write() as tx:
            return apply(tx)

    def batch(self, owner: ScopeRef, operations: Iterable[Operation]) -> list[Outcome]:
        """Do several operations in one transaction, in order; see `Items.batch`."""
        given = list(operations)
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
        limit: int = MAX_LIMIT,
    ) -> list[tuple[str, ...]]:
        """Return namespaces that hold items; see `Items.namespaces`."""
        low, high = path_range(path_of(prefix, "prefix"))
        path_of(suffix, "suffix")
        end = tuple(suffix)
        depth = MAX_INT if max_depth is None else int_value(max_depth, "max_depth", 1, MAX_INT)
        if after is not None:
            first, end_of_after = path_range(path_of(after, "after"))
            low = max(low, end_of_after if len(after) >= depth else first + "\0")
        int_value(limit, "limit", 1, MAX_LIMIT)
        now_ms = self._db.clock()
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            walk = _walk_namespaces(tx, scope_no, (low, high), end, depth, now_ms)
            return [*islice(walk, limit)]

    def matching_ids(self, prefix: Namespace, where: Mapping[str, Any] | None) -> ItemFilter:
        """Return a function that gives the ids of the items of a scope that a search may find."""
        request = list_request(prefix, where=where, limit=MAX_LIMIT)

        def find_ids(tx: Tx, scope_no: int) -> set[int]:
            return {one.item.id for one in walk(tx, scope_no, request, self._db.clock())}

        return find_ids

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

    def remove_expired(self) -> int:
        """Remove the items of every scope that have expired; return how many."""
        total = 0
        while True:
            with self._db.write() as tx:
                removed = records.remove_expired(tx, EXPIRED_BATCH)
            total += removed
            if removed < EXPIRED_BATCH:
                return total

    def _reading(self, *, refresh: bool) -> AbstractContextManager[Tx]:
        """Return a transaction that may write only if an expiry moves."""
        return self._db.write() if refresh else self._db.read()

    def _prepare_put(self, owner: ScopeRef, new: PutItem) -> Callable[[Tx], Item]:
        draft = self.draft(new)
        expected = _revision(new.expected_revision)

        def apply(tx: Tx) -> Item:
            scope_no = owner.ensure(tx)
            return records.put(tx, scope_no, draft, self._db.ids, expected).item

        return apply

    def draft(self, new: PutItem) -> ItemDraft:
        """
        Return an item as it is stored, checked and screened.

        Raises:
            InvalidInput: a field cannot be stored.
            TooLarge: the value is too long.
            SecretFound: it holds a secret, and those are refused.
        """
        path = path_of(new.namespace)
        name_value(new.key, "key")
        metadata = json_object(new.metadata, "metadata")
        fields = parse_fields(new.index, "index")
        ttl_ms = ttl_value(new.ttl)
        names = {"namespace": list(new.namespace), "key": new.key}
        self._screen.pass_fields("item", names)
        if metadata is not None:
            passed = self._screen.pass_fields("item", {"metadata": new.metadata})["metadata"]
            metadata = json_object(passed, "metadata")
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
            texts = texts_of(plain, fields) if fields is not None else []
        return ItemDraft(
            path,
            new.key,
            value,
            data,
            metadata,
            None if fields is None else json.dumps(fields, ensure_ascii=False),
            "\n".join(texts)[:MAX_INDEXED_CHARS] if texts else None,
            ttl_ms,
        )

    def _prepare_find(self, owner: ScopeRef, wanted: FindItem) -> Callable[[Tx], Item | None]:
        path = path_of(wanted.namespace)
        key = name_value(wanted.key, "key")
        refresh = flag_value(wanted.refresh, "refresh")

        def apply(tx: Tx) -> Item | None:
            stored = records.find(tx, owner.find(tx), path, key, self._db.clock())
            if stored is None:
                return None
            return (_refreshed(tx, [stored])[0] if refresh else stored).item

        return apply

    def _prepare_delete(self, owner: ScopeRef, doomed: DeleteItem) -> Callable[[Tx], bool]:
        path = path_of(doomed.namespace)
        key = name_value(doomed.key, "key")
        expected = _revision(doomed.expected_revision)

        def apply(tx: Tx) -> bool:
            stored = records.find(tx, owner.find(tx), path, key, tx.now_ms)
            records.require_revision(stored, expected)
            if stored is not None:
                records.remove(tx, stored)
            return stored is not None

        return apply

    def list(self, owner: ScopeRef, request: ListRequest, *, refresh: bool = False) -> list[Item]:
        """Return a page of items; see `Items.list`."""
        with self._reading(refresh=flag_value(refresh, "refresh")) as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            found = [*islice(walk(tx, scope_no, request, self._db.clock()), request.limit)]
            if refresh:
                found = _refreshed(tx, found)
            return [stored.item for stored in found]


def _walk_namespaces(
    tx: Tx, scope_no: int, span: tuple[str, str], end: tuple[str, ...], depth: int, now_ms: int
) -> Iterator[tuple[str, ...]]:
    """Yield the namespaces of a range of paths with live items, cut after *depth* labels."""
    low, high = span
    while True:
        page = items.list_namespaces(tx, scope_no, low, high, limit=NAMESPACE_PAGE)
        for namespace_id, path in page:
            if path < low:
                continue  # below a namespace that was cut, and named
            labels = labels_of(path)
            low = path + "\0"
            if labels[len(labels) - len(end) :] == end and items.is_live(tx, namespace_id, now_ms):
                if len(labels) >= depth:
                    low = path_range(path_of(labels[:depth]))[1]
                yield labels[:depth]
        if len(page) < NAMESPACE_PAGE:
            return


def _revision(value: object) -> int | None:
    return None if value is None else int_value(value, "expected_revision", 0, MAX_INT)


def _refreshed(tx: Tx, found: list[StoredItem]) -> list[StoredItem]:
    records.refresh(tx, found)
    return [
        stored
        if stored.item.ttl_ms is None
        else stored.replace(item=stored.item.replace(expires_ms=tx.now_ms + stored.item.ttl_ms))
        for stored in found
    ]


def walk(tx: Tx, scope_no: int, request: ListRequest, now_ms: int) -> Iterator[StoredItem]:
    """Yield the items of a request in its order, those that expired or do not match left out."""
    walks = _namespace_walks(tx, scope_no, request)
    found: Iterable[StoredItem] = chain.from_iterable(walks)
    if request.order != "key":
        field = f"{request.order}_ms"
        found = heapq.merge(
            *walks,
            key=lambda one: (getattr(one.item, field), one.item.id),
            reverse=request.descending,
        )
    for stored in found:
        if records.is_expired(stored, now_ms):
            continue
        if request.where is None or request.where.matches(stored.item.value):
            yield stored


def _namespace_walks(tx: Tx, scope_no: int, request: ListRequest) -> Iterator[Iterator[StoredItem]]:
    """Yield a walk over each namespace of a request, in the order of their paths."""
    low, high, descending = request.low, request.high, request.descending
    after_path, cursors = "", {}
    if request.after is not None:
        after_path = path_of(request.after.namespace, "after")
        cursor = _cursor(request.after, request.order)
        if request.order == "key":
            cursors[after_path] = cursor
            low, high = (low, after_path + "\0") if descending else (max(low, after_path), high)
    begin = LAST if descending else FIRST
    if request.after is not None and request.order != "key":
        begin = cursor
    if request.exact:
        found = items.find_namespace(tx, scope_no, request.low)
        if found is not None and low <= request.low < high:
            start = cursors.get(request.low, begin)
            yield _pages(tx, found, request.low, request, start)
        return
    while True:
        page = items.list_namespaces(
            tx, scope_no, low, high, limit=NAMESPACE_PAGE, descending=descending
        )
        for namespace_id, path in page:
            yield _pages(tx, namespace_id, path, request, cursors.get(path, begin))
        if len(page) < NAMESPACE_PAGE:
            return
        last = page[-1][1]
        low, high = (low, last) if descending else (last + "\0", high)


def _cursor(item: Item, order: str) -> Cursor:
    return Cursor(item.key, getattr(item, f"{order}_ms", 0), item.id)


def _pages(
    tx: Tx, namespace_id: int, path: str, request: ListRequest, cursor: Cursor
) -> Iterator[StoredItem]:
    """Yield the items of one namespace behind *cursor*, read page by page."""
    size = min(request.limit, PAGE)
    while True:
        page = items.list_page(
            tx, namespace_id, path, request.order, cursor, size, descending=request.descending
        )
        yield from page
        if len(page) < size:
            return
        cursor = _cursor(page[-1].item, request.order)
        size = min(4 * size, MAX_PAGE)
