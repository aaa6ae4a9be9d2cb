"""
Items by their vectors: of a whole scope, of some namespaces, or of those that match a filter.

The nearest of the scope are found first, and those in other namespaces left out. Where a
namespace holds too little of its scope, or values have to match, what is allowed is listed
first, and only that is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.items.walk import find_ids
from memdb.models.ids import MAX_INT, scope_range
from memdb.models.items import path_of
from memdb.records.items import is_expired
from memdb.tables import items

if TYPE_CHECKING:
    from memdb.engine.base import Tx
    from memdb.items.walk import ListRequest
    from memdb.tables.items import StoredItem

    # An item, and the ref and cosine of its nearest vector.
    Near = tuple[StoredItem, tuple[int, float]]

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
