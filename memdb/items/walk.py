"""
Walks over items: in order of key or time, and over namespaces.

A walk follows an index of one namespace at a time, page by page, so that it costs what it
returns. Several namespaces are walked one after the other by key, side by side by time;
the items of many are sorted by time instead.
"""

from __future__ import annotations

import heapq
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT, number_of, scope_range
from memdb.models.items import ORDERS, Item, labels_of, path_of, path_range
from memdb.models.record import Record
from memdb.tables import items
from memdb.tables.items import FIRST, LAST, LAST_KEY, Cursor, behind
from memdb.text.validate import choice_value, flag_value, int_value, name_value, row_after
from memdb.text.values import Filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memdb.engine.base import Tx
    from memdb.models.items import Namespace
    from memdb.models.types import ItemOrder

MAX_LIMIT = 10_000

# The rest of an item if only its place is known.
NO_VALUE: dict[str, Any] = dict.fromkeys(
    ("value", "version", "metadata", "ttl_ms", "expires_ms", "uid")
)

# Items read per statement, at most, and at least of many namespaces; namespaces.
MAX_PAGE, PAGE = 512, 16
NAMESPACE_PAGE = 256

# Namespaces that are walked side by side; items of more that are sorted at once.
MAX_MERGED, MAX_SORTED = 16, 20_000


class ListRequest(Record):
    """
    A checked walk over items.

    Attributes:
        low, high: The range of the namespaces, as `path_range` returns it.
        exact: Only the namespace *low* itself.
        where: None means every value.
        between: The first key and the first key behind them, by key only. None means all.
        after: The item that the previous page ended with. None means the beginning.
    """

    low: str
    high: str
    exact: bool
    where: Filter | None
    between: tuple[str, str] | None
    after: Item | None
    limit: int
    order: ItemOrder
    descending: bool


def list_request(
    prefix: Namespace = (),
    *,
    exact: bool = False,
    where: Mapping[str, Any] | None = None,
    between: tuple[str | None, str | None] | None = None,
    after: Item | dict[str, Any] | None = None,
    limit: int = MAX_INT,
    order: ItemOrder = "key",
    descending: bool = False,
) -> ListRequest:
    """
    Check the arguments of `Items.list`.

    Raises:
        InvalidInput: an argument is not what it should be.
    """
    path = path_of(prefix, "prefix")
    if isinstance(after, dict):
        names = {"id": int, "key": str, "created_ms": int, "updated_ms": int}
        place = dict(zip(names, row_after(after, names) or (), strict=True))
        labels = labels_of(path_of(after.get("namespace"), "namespace of after"))
        after = Item(**place, **NO_VALUE, namespace=labels)
    elif after is not None and not isinstance(after, Item):
        raise InvalidInput(f"after is {type(after).__name__}: give the last item of a page")
    low, high = path_range(path)
    if flag_value(exact, "exact"):
        high = low + "\x01"
    return ListRequest(
        low,
        high,
        exact,
        None if where is None else Filter(where),
        None if between is None else _key_range(between, order),
        after,
        int_value(limit, "limit", 0, MAX_INT),
        choice_value(order, "order", ORDERS),  # type: ignore[arg-type]  # one of ORDERS
        flag_value(descending, "descending"),
    )


def _key_range(between: object, order: str) -> tuple[str, str]:
    """Return the first key of a range and the first behind it, checked."""
    if not isinstance(between, (list, tuple)) or len(between) != 2:  # noqa: PLR2004 (both ends)
        raise InvalidInput(
            "between is not a pair: give the first key, and the key after the last one"
        )
    if order != "key":
        raise InvalidInput(f"between needs order='key', but order is {order!r}")
    low, high = between
    return (
        "" if low is None else name_value(low, "between[0]"),
        LAST_KEY if high is None else name_value(high, "between[1]"),
    )


def read(tx: Tx, scope_no: int, request: ListRequest, now_ms: int) -> list[Item]:
    """Return the items of a request in its order, without those that have expired."""
    request = _located(scope_no, request)
    if not request.exact:
        return [*islice(walk(tx, scope_no, request, now_ms), request.limit)]
    found: list[Item] = []
    for page in _pages(tx, scope_no, request.low, request):
        found += [item for item in page if item.expires_ms is None or item.expires_ms > now_ms]
        if len(found) >= request.limit:
            break
    return found[: request.limit]


def walk(tx: Tx, scope_no: int, request: ListRequest, now_ms: int) -> Iterator[Item]:
    """Yield the items of a request, whatever its limit is."""
    request = _located(scope_no, request)
    found: Iterable[Item]
    if request.order == "key":
        found = chain.from_iterable(_namespace_walks(tx, scope_no, request))
    else:
        found = _walk_by_time(tx, scope_no, request)
    return (item for item in found if item.expires_ms is None or item.expires_ms > now_ms)


def _located(scope_no: int, request: ListRequest) -> ListRequest:
    """Return a request with the packed id of the item that it continues after."""
    if request.after is None:
        return request
    row_id = scope_range(scope_no)[0] + number_of(request.after.id)
    return request.replace(after=request.after.replace(id=row_id))


def find_ids(tx: Tx, scope_no: int, request: ListRequest, now_ms: int) -> set[int]:
    """Return the ids of all items of a request, in any order; values are read for a filter only."""
    if request.where is not None:
        return {one.id for one in walk(tx, scope_no, request, now_ms)}
    return items.live_ids(tx, list_ids(tx, scope_no, request), now_ms)


def list_ids(tx: Tx, scope_no: int, request: ListRequest) -> list[int]:
    """Return the ids of all items in a namespace and below it, expired ones too."""
    span = request.low, request.high
    page = items.list_across(tx, scope_no, span, "created", FIRST, MAX_INT, descending=False)
    return [row_id for _, row_id in page]


def _walk_by_time(tx: Tx, scope_no: int, request: ListRequest) -> Iterator[Item]:
    """Return an iterator over the items of all namespaces of a request, by time."""
    page = items.list_namespaces(tx, scope_no, request.low, request.high, limit=MAX_MERGED + 1)
    if len(page) > MAX_MERGED:
        return _sorted_walk(tx, scope_no, request)
    field = f"{request.order}_ms"
    walks = [chain.from_iterable(_pages(tx, scope_no, path, request)) for _, path in page]
    return heapq.merge(
        *walks, key=lambda one: (getattr(one, field), one.id), reverse=request.descending
    )


def _sorted_walk(tx: Tx, scope_no: int, request: ListRequest) -> Iterator[Item]:
    """Yield items of many namespaces by time: reading each of them would take longer."""
    cursor = LAST if request.descending else FIRST
    if request.after is not None:
        cursor = behind(cursor, request.after, request.order, descending=request.descending)
    size = max(request.limit, PAGE)
    while True:
        page = items.list_across(
            tx,
            scope_no,
            (request.low, request.high),
            request.order,
            cursor,
            size,
            descending=request.descending,
            where=request.where,
        )
        for start in range(0, len(page), MAX_PAGE):
            ids = [row_id for _, row_id in page[start : start + MAX_PAGE]]
            found = items.get_many(tx, ids, request.where)
            yield from (found[row_id].item for row_id in ids if row_id in found)
        if len(page) < size:
            return
        cursor = Cursor("", LAST_KEY, *page[-1])
        size = MAX_SORTED


def _namespace_walks(tx: Tx, scope_no: int, request: ListRequest) -> Iterator[Iterator[Item]]:
    """Yield a walk by key over each namespace of a request, in the order of their paths."""
    low, high, descending = request.low, request.high, request.descending
    if request.after is not None:
        path = path_of(request.after.namespace, "after")
        low, high = (low, path + "\x01") if descending else (max(low, path), high)
    while True:
        page = items.list_namespaces(
            tx, scope_no, low, high, limit=NAMESPACE_PAGE, descending=descending
        )
        for _, path in page:
            yield chain.from_iterable(_pages(tx, scope_no, path, request))
        if len(page) < NAMESPACE_PAGE:
            return
        last = page[-1][1]
        low, high = (low, last) if descending else (last + "\x01", high)


def _start(request: ListRequest, path: str) -> Cursor | None:
    """Return where the walk over a namespace begins; None if the previous page went beyond it."""
    begin = LAST if request.descending else FIRST
    if request.between is not None:
        begin = Cursor(*request.between, 0, 0)
    if request.after is None:
        return begin
    if request.order == "key":
        after_path = path_of(request.after.namespace, "after")
        if path != after_path:
            return begin if (path < after_path) == request.descending else None
    return behind(begin, request.after, request.order, descending=request.descending)


def _pages(tx: Tx, scope_no: int, path: str, request: ListRequest) -> Iterator[list[Item]]:
    """Yield the items of one namespace page by page."""
    cursor = _start(request, path)
    size = min(request.limit, MAX_PAGE)
    while cursor is not None:
        page, cursor = items.list_page(
            tx,
            scope_no,
            path,
            request.order,
            cursor,
            size,
            descending=request.descending,
            where=request.where,
        )
        yield page
        size = MAX_PAGE


def walk_namespaces(
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
            low = path + "\x01"
            if labels[len(labels) - len(end) :] == end and items.is_live(tx, namespace_id, now_ms):
                if len(labels) >= depth:
                    low = path_range(path_of(labels[:depth]))[1]
                yield labels[:depth]
        if len(page) < NAMESPACE_PAGE:
            return
