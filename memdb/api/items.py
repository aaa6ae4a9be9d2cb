"""Items of a scope: values under namespaces and keys, as frameworks store them. Only delegates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from memdb.api.calls import observed
from memdb.errors import InvalidInput
from memdb.models.items import DeleteItem, FindItem, PutItem
from memdb.models.record import Page
from memdb.text.validate import flag_value, page_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from memdb.api._container import Services
    from memdb.models.items import FoundItem, Item, Namespace, Ttl
    from memdb.models.types import ItemOrder
    from memdb.records.scopes import ScopeRef


@observed
class Items:
    """
    Values under a namespace and a key: what LangGraph, CrewAI and others call a store.

    A namespace is a tuple of labels, and matches whole labels: ("a",) contains ("a", "b") but not
    ("ab",). Every character is literal, and upper and lower case differ. An item has a version
    number, and only its newest value is kept; artifacts keep every version.

    >>> import memdb
    >>> with memdb.open(":memory:") as db:
    ...     items = db.user("ann").items
    ...     first = items.put(("notes", "trip"), "k1", {"text": "Pack the tent.", "stars": 3})
    ...     [str(item) for item in items.list(("notes",), where={"stars": {"$gte": 3}})]
    ...     items.put(("notes", "trip"), "k1", {"text": "Sold."}, expected=1).version
    ['notes/trip/k1']
    2
    """

    __slots__ = ("_items", "_owner", "_services")

    def __init__(self, services: Services, owner: ScopeRef) -> None:
        """Use `scope.items` instead."""
        self._services = services
        self._items = services.items
        self._owner = owner

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        expected: int | Item | None = None,
        ttl: Ttl | None = None,
        index: bool | Sequence[str] = True,
        vectors: Sequence[bytes | Sequence[float]] | None = None,
    ) -> Item:
        """
        Create or replace the item under a key, and return it as stored.

        Of the earlier item only the key, the time of creation and the version stay; the version
        grows by 1.

        Args:
            namespace: Its labels, () for the root; each 1 to 1,024 characters.
            key: 1 to 1,024 characters.
            value: Any JSON value, also None, or bytes of up to 32 MiB.
            metadata: A JSON object to store with the item; memdb does not read it.
            expected: Fail unless the item is at this version; 0 means that it does not exist. None
                means any.
            ttl: Time until it expires: seconds, a timedelta, or "30d", "12h", "45m". None means
                never.
            index: False stores the item without indexing it for search. True indexes all texts of
                the value, a list only these field paths: ["title", "parts[*].text"]. If the file
                has an embedder, each field gets a vector too.
            vectors: Your own vectors for the item, in place of the embedder's: up to 1,000 of one
                dimension, as numbers or float32 bytes.

        Raises:
            VersionConflict: the item is at another version than expected.
            InvalidInput: an argument cannot be stored; nothing was written.
            TooLarge: the value is too long.
            SecretFound: the value contains a key or password, and the settings refuse these.
        """
        new = PutItem(namespace, key, value, metadata, expected, ttl, index, vectors)  # type: ignore[arg-type]  # PutItem checks them
        return self._items.put(self._owner, new)

    def get(self, namespace: Namespace, key: str, *, refresh: bool = False) -> Item:
        """Return an item as `find` does; NotFound if there is none."""
        return self._items.get(self._owner, FindItem(namespace, key, refresh))

    def find(self, namespace: Namespace, key: str, *, refresh: bool = False) -> Item | None:
        """
        Return an item; None if it is absent or expired.

        Args:
            refresh: Start the item's time to live again. That is a write.

        Raises:
            InvalidInput: the namespace or key is not valid for an item.

        Cost: 10 µs.
        """
        return self._items.find(self._owner, FindItem(namespace, key, refresh))

    def delete(self, namespace: Namespace, key: str, *, expected: int | Item | None = None) -> bool:
        """
        Remove an item; False if there is none.

        A key that is put again later starts at version 1.

        Raises:
            VersionConflict: the item is at another version than expected.
        """
        return self._items.delete(self._owner, DeleteItem(namespace, key, expected))

    def clear(self, prefix: Namespace = (), *, expired: bool = False) -> int:
        """
        Remove all items in a namespace and below it, in one transaction.

        Args:
            prefix: The namespace to clear; () means the whole scope.
            expired: Remove only expired items. Reads never return them, and `db.jobs` removes them
                too.

        Returns:
            The number of removed items, including expired ones.

        Raises:
            InvalidInput: *prefix* cannot be a namespace.

        Cost: 20 ms per 1,000 items.
        """
        return self._items.clear(self._owner, prefix, expired=flag_value(expired, "expired"))

    def namespaces(
        self,
        prefix: Namespace = (),
        suffix: Namespace = (),
        *,
        max_depth: int | None = None,
        after: Namespace | None = None,
        limit: int | None = None,
    ) -> Page[tuple[str, ...]]:
        """
        Return the namespaces that have items, in order.

        Args:
            prefix: Only namespaces that begin with these labels.
            suffix: Only namespaces that end with these labels.
            max_depth: Cut each namespace after this many labels, and list it once.
            after: The last namespace of the previous page.
            limit: Most namespaces. None means all.
        """
        find = partial(self._items.namespaces, self._owner, prefix, suffix, max_depth=max_depth)
        return page_of(lambda most: find(after=after, limit=most), limit)

    def keys(
        self,
        namespace: Namespace,
        key_prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Page[str]:
        """
        Return the keys of the items in a namespace, not below it, in order.

        Args:
            key_prefix: Only keys that begin with this text; every character is literal.
            after: The last key of the previous page. None means the first page.
            limit: Most keys. None means all.

        Cost: 1 ms per 2,000 keys, however long the values are.
        """
        find = partial(self._items.keys, self._owner, namespace, key_prefix, after or "")
        return page_of(find, limit)

    def recall(
        self,
        query: str | None = None,
        limit: int = 10,
        *,
        vector: bytes | Sequence[float] | None = None,
        prefix: Namespace = (),
        exact: bool = False,
        where: Mapping[str, Any] | None = None,
        refresh: bool = False,
        min_score: float | None = None,
    ) -> list[FoundItem]:
        """
        Return the items that answer *query* best, or are nearest to *vector*, best first.

        Args:
            query: A question or some words, as in `Scope.recall`. Items are found by words and by
                meaning.
            limit: Most items, 1 to 1,000.
            vector: Compared with the given vectors of items that have the same dimension. The best
                vector of an item counts, and its cosine is the score.
            prefix: Only items in this namespace or below it.
            exact: Only items in the namespace *prefix*, not below it.
            where: Only items whose value has these values at these fields, as in `list`.
            refresh: As in `find`, for each item returned.
            min_score: Least score, 0 to 1. None leaves out items that do not answer a query; with
                *vector* it leaves out nothing.

        Raises:
            InvalidInput: an argument is out of range, or not exactly one of *query* and *vector* is
                given.
        """
        if (query is None) == (vector is None):
            raise InvalidInput("give either query or vector")
        given = {"kinds": ("item",), "min_score": min_score}
        request = self._services.recall_request(query or "", limit, given)
        if vector is not None:
            chosen = self._items.choose(prefix, exact=exact, where=where, limit=limit)
            found = self._items.nearest(self._owner, vector, chosen, refresh=refresh)
            return [one for one in found if one.score >= (request.min_score or -1.0)]
        if prefix != () or exact is not False or where is not None:
            most = self._items.most_chosen
            chosen = self._items.choose(prefix, exact=exact, where=where, limit=most)
            request = request.replace(item_filter=self._items.matching_ids(chosen))
        hits = self._services.recaller.recall(self._owner, request)
        return self._items.load_hits(self._owner, hits, refresh=refresh)

    def batch(self, operations: Iterable[PutItem | FindItem | DeleteItem]) -> list[Any]:
        """
        Do several operations in one transaction, in order: all of them or none.

        Args:
            operations: `PutItem`, `FindItem` and `DeleteItem`, whose fields are the
                arguments of `put`, `find` and `delete`; 10,000 at most.

        Returns:
            The result of each operation: an Item; an Item or None; True or False.

        Raises:
            VersionConflict: an item is at another version than expected; nothing was done.
            InvalidInput: an operation cannot be done; nothing was done.

        >>> import memdb
        >>> from memdb import DeleteItem, PutItem
        >>> with memdb.open(":memory:") as db:
        ...     items = db.user("ann").items
        ...     done = items.batch([PutItem(("a",), "k", 1), DeleteItem(("a",), "other")])
        ...     done[0].version, done[1]
        (1, False)
        """
        return self._items.batch(self._owner, operations)

    def list(
        self,
        prefix: Namespace = (),
        *,
        exact: bool = False,
        where: Mapping[str, Any] | None = None,
        between: tuple[str | None, str | None] | None = None,
        after: Item | dict[str, Any] | None = None,
        limit: int | None = None,
        order: ItemOrder = "key",
        descending: bool | None = None,
        refresh: bool = False,
    ) -> Page[Item]:
        """
        Return the items in a namespace and below it, or a page of them if *limit* is given.

        Args:
            prefix: List the items of this namespace; () is the root.
            exact: Leave out the namespaces below it.
            where: Only items whose value has these values at these fields. Give a value for each
                field path, or operators: {"kind": "book", "price": {"$lt": 10}}. Operators are $eq,
                $ne, $gt,
                    $gte, $lt, $lte and $in; numbers and texts are ordered. A field that is absent
                    counts as null. A path may name elements: "tags[*]" means any of them, "tags[0]"
                    the first.
            between: Only keys from the first of these up to, but not including, the second; None
                means no bound. It needs order="key".
            after: The last item of the previous page, or its `to_dict()`. None means the
                first page.
            limit: Most items. None means all.
            order: Sort by namespace and "key", or by the time "updated" or "created".
            descending: List the last ones first. None means only if sorted by time.
            refresh: As in `find`, for each item returned.

        Raises:
            InvalidInput: an argument is not one of these.

        Cost: only that of the returned items. With *where* add 5 µs per item
        that is skipped; by time in more than 16 namespaces 1 ms per 2,000 items.
        """
        request = self._items.choose(
            prefix,
            exact=exact,
            where=where,
            between=between,
            after=after,
            order=order,
            descending=order != "key" if descending is None else descending,
        )
        list_items = partial(self._items.list, self._owner)
        found = page_of(lambda n: list_items(request.replace(limit=n or request.limit)), limit)
        if flag_value(refresh, "refresh") and any(one.ttl_ms is not None for one in found):
            refreshed = list_items(request.replace(limit=len(found)), refresh=True)
            return Page(refreshed, found.next)
        return found
