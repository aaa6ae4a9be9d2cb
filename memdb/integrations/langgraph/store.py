"""
The store of LangGraph as items of a scope: the same namespaces and keys, values and expiry.

With an index configuration, a query is compared with vectors of its embeddings. Without one, a
query searches words, and meaning if the file has an embedder.
"""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from langgraph.store import base
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from memdb.adapters.adapter import ScopedAdapter
from memdb.errors import Closed, InvalidInput
from memdb.integrations.langgraph.checkpoints import filter_steps
from memdb.models.items import DeleteItem, FindItem, PutItem
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from langgraph.store.base import IndexConfig, MatchCondition, Op, Result, TTLConfig

    from memdb import MemDBError
    from memdb.adapters.adapter import Source
    from memdb.models.items import FoundItem
    from memdb.models.items import Item as StoredItem

    Place = tuple[tuple[str, ...], str]
    Vector = list[float]

logger = logging.getLogger(__name__)

PAGE, MAX_FOUND = 1_000, 1_000
MAX_NUMBER = 1 << 31
SWEEP_MINUTES = 5.0
MINUTE_S = 60

# What errors about a namespace begin with.
NAMESPACE = re.compile(r"(the number of (labels|characters) in )?(namespace|prefix|suffix)\b")


class MemdbStore(ScopedAdapter, BaseStore):
    """
    A store of LangGraph, for threads and event loops alike.

    Attributes:
        embeddings: Makes the vectors of values and queries. None means no index configuration.
        index_config: The index configuration, unchanged.
        ttl_config: The configuration of expiry, unchanged.

    >>> with MemdbStore(":memory:") as store:
    ...     store.put(("notes", "ann"), "trip", {"text": "Pack the tent.", "stars": 3})
    ...     [found.key for found in store.search(("notes",), filter={"stars": {"$gte": 3}})]
    ['trip']
    """

    supports_ttl = True

    def __init__(
        self,
        source: Source,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        user: str | None = None,
        app: str | None = None,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, or an open `memdb.MemDB` or `memdb.aio.MemDB`.
            index: LangGraph's index configuration: "embed" and "fields". None means that a
                query searches words.
            ttl: LangGraph's configuration of expiry, in minutes. Expired items are never
                returned, whatever "omit_expired" is.
            user: The user whose items they are. None means MEMDB_USER, or "default".
            app: The program they belong to. None means MEMDB_APP, or "default".
            options: For `memdb.open`, with a path.
        """
        ScopedAdapter.__init__(self, source, user=user, app=app, **options)
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings = None if index is None else ensure_embeddings(index.get("embed"))
        # Without the option, LangGraph's SQLite store moves no expiry.
        self._is_refreshing = ttl is None or bool(ttl.get("refresh_on_read"))
        self._fields = () if index is None else _paths(_indexed_fields(index))
        self._items = self._scope.items
        self._sweeper: Sweeper | None = None
        self._starting = threading.Lock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """
        Run several operations; a batch reads before it writes, and writes all or nothing.

        Raises:
            InvalidNamespaceError: a label of a namespace is not allowed; nothing was done.
            ValueError: something else cannot be stored or searched; nothing was written.
        """
        todo = _checked(ops)
        if self.embeddings is None:
            return self._call(partial(self._do, todo, {}))
        texts, queries = self._texts_of(todo)
        vectors: list[Vector] = []
        if self.embeddings is not None:
            vectors = self.embeddings.embed_documents(texts) if texts else []
            vectors += [self.embeddings.embed_query(query) for query in queries]
        return self._call(partial(self._do, todo, self._paired([*texts, *queries], vectors)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do as `batch`, in a thread; the embeddings are awaited before."""
        todo = _checked(ops)
        texts, queries = self._texts_of(todo)
        vectors: list[Vector] = []
        if self.embeddings is not None:
            vectors = await self.embeddings.aembed_documents(texts) if texts else []
            vectors += [await self.embeddings.aembed_query(query) for query in queries]
        work = partial(self._do, todo, self._paired([*texts, *queries], vectors))
        if any(isinstance(op, PutOp) for op in todo):
            return await self._run(work)
        return await self._read(work, "search" if _has_query(todo) else "read")

    def sweep_ttl(self) -> int:
        """Remove items that have expired; return how many."""
        return self._call(partial(self._items.clear, expired=True))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """
        Remove expired items again and again, in a thread, until the store is closed.

        A sweep that fails, for instance because another process writes too long, is logged
        and tried again after the interval.

        Args:
            sweep_interval_minutes: None means the interval in the configuration of expiry, or 5.

        Returns:
            The returned future is done when the thread has ended; cancelling it ends the thread.
            While a sweeper runs, its future is returned again. Without a configuration of expiry
            nothing runs, and the future is done at once.

        Raises:
            Closed: the file was closed.
        """
        return self._call(partial(self._start_sweeper, sweep_interval_minutes))

    def _start_sweeper(self, sweep_interval_minutes: float | None) -> Future[None]:
        if self.ttl_config is None:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes")
        pause_s = float(minutes or SWEEP_MINUTES) * MINUTE_S
        with self._starting:
            if self._sweeper is None or self._sweeper.done.done():
                self._sweeper = Sweeper(self.sweep_ttl, pause_s)
            return self._sweeper.done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """
        End the thread of `start_ttl_sweeper`.

        Return whether it ended within *timeout* seconds.
        """
        return self._sweeper is None or self._sweeper.stop(timeout)

    def _end(self) -> None:
        self.stop_ttl_sweeper()

    def _translate(self, error: MemDBError) -> Exception:
        if isinstance(error, InvalidInput) and NAMESPACE.match(str(error)):
            translated: Exception = InvalidNamespaceError(str(error))
            return translated
        return error

    def _texts_of(self, todo: Sequence[Op]) -> tuple[list[str], list[str]]:
        """Return the texts and queries of operations that need a vector, without repetitions."""
        if self.embeddings is None:
            return [], []
        texts = [text for op in todo if isinstance(op, PutOp) for text in self._texts(op)]
        queries = [op.query for op in todo if isinstance(op, SearchOp) and op.query]
        return [*dict.fromkeys(texts)], [*dict.fromkeys(query for query in queries if query)]

    def _paired(self, texts: list[str], vectors: list[Vector]) -> dict[str, Vector]:
        """Return vectors by their texts; InvalidInput for another number or length of them."""
        if len(vectors) != len(texts):
            raise InvalidInput(f"embed returned {len(vectors)} vectors for {len(texts)} texts")
        dims = (self.index_config or {}).get("dims")
        for vector in vectors:
            if dims is not None and len(vector) != dims:
                raise InvalidInput(
                    f"embed returned {len(vector)} components, but dims of index is {dims}"
                )
        return dict(zip(texts, vectors, strict=True))

    def _texts(self, op: PutOp) -> list[str]:
        """Return the texts of a value that get a vector each."""
        if self.embeddings is None or op.value is None or op.index is False:
            return []
        paths = self._fields if op.index is None else _paths(op.index)
        return [text for path in paths for text in get_text_at_path(op.value, path)]

    def _do(self, todo: Sequence[Op], vectors: Mapping[str, Vector]) -> list[Result]:
        results: list[Result] = [None] * len(todo)
        changes: dict[Place, PutItem | DeleteItem] = {}
        for place, op in enumerate(todo):
            if isinstance(op, GetOp):
                found = self._items.find(
                    op.namespace, op.key, refresh=op.refresh_ttl and self._is_refreshing
                )
                results[place] = None if found is None else _to_item(found)
            elif isinstance(op, SearchOp):
                results[place] = self._search(op, vectors)
            elif isinstance(op, ListNamespacesOp):
                results[place] = self._list_namespaces(op)
            else:  # the last one at a place counts, and no read of the batch sees it
                changes[op.namespace, op.key] = self._change(op, vectors)
        if changes:
            self._items.batch(changes.values())
        return results

    def _change(self, op: PutOp, vectors: Mapping[str, Vector]) -> PutItem | DeleteItem:
        """Return the change of an item by a put of LangGraph."""
        if op.value is None:
            return DeleteItem(op.namespace, op.key)
        if not hasattr(op.value, "keys"):
            raise InvalidInput(f"value is {type(op.value).__name__}: give a dict")
        given = [vectors[text] for text in self._texts(op)]
        index: Any = op.index is not False
        if isinstance(op.index, list) and not given:
            index = op.index
        ttl = None if op.ttl is None else op.ttl * MINUTE_S
        usable = [vector for vector in given if any(vector)] or None
        return PutItem(op.namespace, op.key, dict(op.value), None, None, ttl, index, usable)

    def _search(self, op: SearchOp, vectors: Mapping[str, Vector]) -> list[SearchItem]:
        """
        Return the items of a namespace and below it.

        With a query, the nearest are first, and items that were not compared follow. Without one,
        the latest puts are first.
        """
        most = op.offset + op.limit
        if op.limit < 1 or op.offset < 0:
            return []
        where = _where(op.filter)
        scored: list[FoundItem] = []
        if op.query:
            about: Any = {"query": op.query}
            if self.embeddings is not None:
                about = {"vector": vectors[op.query]} if any(vectors[op.query]) else None
            if about is not None:
                given = {"prefix": op.namespace_prefix, "where": where, **about}
                scored = self._items.recall(limit=min(most, MAX_FOUND), min_score=0, **given)
        found: list[tuple[StoredItem, float | None]] = [(one.item, one.score) for one in scored]
        if len(found) < most:
            seen = {one.id for one, _ in found}
            newest = self._newest(op.namespace_prefix, where, most - len(found) + len(seen))
            found += [(one, None) for one in newest if one.id not in seen]
        page = found[op.offset : most]
        expiring = [one for one, _ in page if one.ttl_ms is not None]
        if op.refresh_ttl and self._is_refreshing and expiring:
            self._items.batch(FindItem(one.namespace, one.key, refresh=True) for one in expiring)
        return [_to_search_item(one, score) for one, score in page]

    def _newest(
        self, prefix: Sequence[str], where: Mapping[str, Any] | None, limit: int
    ) -> Iterator[StoredItem]:
        """Yield items, the latest puts first."""
        page: list[StoredItem] = []
        while limit > 0:
            size = min(limit, PAGE)
            page = self._items.list(
                prefix,
                where=where,
                after=page[-1] if page else None,
                limit=size,
                order="updated",
                descending=True,
            )
            yield from page
            limit = limit - len(page) if len(page) == size else 0

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = [one for one in op.match_conditions or () if one.path]
        found = self._walk_namespaces(_literal(conditions, "prefix"))
        matching = (
            labels for labels in found if all(_does_match(one, labels) for one in conditions)
        )
        if op.limit < 1:
            return []
        first = max(op.offset, 0)
        cut: dict[tuple[str, ...], None] = {}
        for labels in matching:
            cut[labels if op.max_depth is None else labels[: op.max_depth]] = None
            if len(cut) >= first + op.limit:
                break
        return [*islice(cut, first, first + op.limit)]

    def _walk_namespaces(self, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        page: list[tuple[str, ...]] = []
        while page := self._items.namespaces(prefix, after=page[-1] if page else None, limit=PAGE):
            yield from page


class Sweeper:
    """
    A thread that removes expired items at an interval.

    Attributes:
        done: A future that is done when the thread has ended; cancelling it ends the thread.
    """

    def __init__(self, sweep: Callable[[], object], pause_s: float) -> None:
        """Call *sweep* every *pause_s* seconds."""
        self.done: Future[None] = Future()
        self._sweep = sweep
        self._pause_s = pause_s
        self._is_ending = threading.Event()
        self.done.add_done_callback(lambda _: self._is_ending.set())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None) -> bool:
        """End the thread; return whether it ended within *timeout* seconds."""
        self._is_ending.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_ending.wait(self._pause_s):
            try:
                self._sweep()
            except Closed:
                break
            except Exception:
                logger.exception("a sweep of expired items failed: it is tried again")
        with suppress(InvalidStateError):  # cancelled
            self.done.set_result(None)


def _checked(ops: Iterable[Op]) -> list[Op]:
    """Return operations as a list; ValueError for something else, or for unusable fields."""
    todo = [*ops]
    for op in todo:
        if not isinstance(op, (GetOp, PutOp, SearchOp, ListNamespacesOp)):
            raise InvalidInput(f"an operation is {type(op).__name__}: give operations of LangGraph")
        _require_usable(op)
        if validate_op_namespace is not None:
            validate_op_namespace(op)
    return todo


def _require_usable(op: Op) -> None:
    """Refuse wrong types of namespaces and numbers, which LangGraph's own checks accept."""
    if isinstance(op, (SearchOp, ListNamespacesOp)):
        int_value(op.limit, "limit", -MAX_NUMBER, MAX_NUMBER)
        int_value(op.offset, "offset", -MAX_NUMBER, MAX_NUMBER)
    if isinstance(op, ListNamespacesOp):
        if op.max_depth is not None:
            int_value(op.max_depth, "max_depth", -MAX_NUMBER, MAX_NUMBER)
        return
    labels = op.namespace_prefix if isinstance(op, SearchOp) else op.namespace
    if not isinstance(labels, (tuple, list)):
        raise InvalidNamespaceError(f"namespace is {type(labels).__name__}: give a tuple")
    if isinstance(op, PutOp) and op.ttl is not None and not isinstance(op.ttl, (int, float)):
        raise InvalidInput(f"ttl is {type(op.ttl).__name__}: give minutes")


# Checks labels as LangGraph's own stores do; absent before langgraph-checkpoint 4.3.
validate_op_namespace = getattr(base, "validate_op_namespace", None)


def _has_query(todo: Iterable[Op]) -> bool:
    return any(isinstance(op, SearchOp) and op.query for op in todo)


def _indexed_fields(index: IndexConfig) -> list[str]:
    """Return the fields of an index configuration; LangGraph's SQLite store has another name."""
    fields: Any = index.get("fields") or index.get("text_fields") or ["$"]
    return [fields] if isinstance(fields, str) else list(fields)


def _paths(fields: Iterable[str]) -> tuple[Any, ...]:
    return tuple(field if field == "$" else tokenize_path(field) for field in fields)


def _where(condition: Mapping[str, Any] | None, path: str = "") -> dict[str, Any] | None:
    """Return a filter in the form of items; an object in it is a condition on named fields."""
    if not condition:
        return None
    where: dict[str, Any] = {}
    for name, value in condition.items():
        filter_steps(name)
        is_plain = (
            isinstance(value, dict)
            and value
            and not any(isinstance(key, str) and key.startswith("$") for key in value)
        )
        if is_plain:
            where |= _where(value, f"{path}{name}.") or {}
        else:
            where[f"{path}{name}"] = value
    return where


def _literal(conditions: Iterable[MatchCondition], kind: str) -> tuple[str, ...]:
    """Return the labels before the first wildcard of conditions of a kind, () if there is none."""
    for one in conditions:
        if one.match_type == kind:
            path = tuple(one.path)
            return path[: path.index("*")] if "*" in path else path
    return ()


def _does_match(condition: MatchCondition, labels: tuple[str, ...]) -> bool:
    """Return whether a namespace begins or ends as a condition demands; "*" is any one label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInput(f"match_type is {condition.match_type!r}: use 'prefix' or 'suffix'")
    own = labels[: len(path)] if condition.match_type == "prefix" else labels[-len(path) :]
    return len(own) == len(path) and all(
        wanted in ("*", label) for wanted, label in zip(path, own, strict=True)
    )


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _value(stored: StoredItem) -> dict[str, Any]:
    """Return the value of an item; a value of another program is under "value"."""
    value = stored.value
    return value if isinstance(value, dict) else {"value": value}


def _to_item(stored: StoredItem) -> Item:
    return Item(
        value=_value(stored),
        key=stored.key,
        namespace=stored.namespace,
        created_at=_time(stored.created_ms),
        updated_at=_time(stored.updated_ms),
    )


def _to_search_item(stored: StoredItem, score: float | None) -> SearchItem:
    return SearchItem(
        stored.namespace,
        stored.key,
        _value(stored),
        _time(stored.created_ms),
        _time(stored.updated_ms),
        score,
    )
