"""
CrewAI: its memory in a memdb file (extra `crewai`).

    memory = Memory(storage=MemdbStorage("agent.db", user="ann"))
    crew = Crew(agents=[...], tasks=[...], memory=memory)

A record is the item of its id under the namespace of its scope, with its vector. A second, small
item names that scope, so that a record is found by its id.

`docs/crewai.md` has the mapping.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from memdb.adapters.adapter import ScopedAdapter, adapted, extra, in_thread
from memdb.adapters.batches import is_key, key_list
from memdb.errors import InvalidInput
from memdb.models.items import DeleteItem, FindItem, PutItem

with extra("crewai"):
    from crewai.memory.storage import backend
    from crewai.memory.types import MemoryRecord, ScopeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from memdb import Item

    Match = tuple[MemoryRecord, float]

SPACE = "crewai"
PLACES = ("crewai ids",)
FIELDS = {"id", "content", "scope", "categories", "created_at", "last_accessed"}
DIMENSION = (("crewai settings",), "dimension")
PAGE = 10_000
PART = 3_000  # records, of three operations at most, in a batch
MAX_NEAREST = 1_000


class MemdbStorage(ScopedAdapter):
    """A `StorageBackend` for CrewAI's `Memory`. Several processes may use one file."""

    @adapted
    def save(self, records: list[MemoryRecord]) -> None:
        """
        Store records, all or none; a record with a known id replaces the stored one.

        Raises:
            EmbeddingDimensionMismatchError: a vector has another dimension than the stored ones.
            ValueError: a record cannot be stored.
        """
        new = [(_value(record), _packed(record.embedding)) for record in records]
        if not new:
            return
        with self._db.transaction():
            self._check_dimension([vector for _, vector in new if vector])
            self._put(new)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id, even if its scope is another; see `save`."""
        self.save([record])

    @adapted
    def touch_records(self, record_ids: list[str]) -> None:
        """Store that records were read just now; unknown ids are skipped."""
        now = datetime.now(UTC).replace(tzinfo=None).isoformat()
        named = dict.fromkeys(filter(is_key, key_list(record_ids, "record_ids")))
        with self._db.transaction():
            items = [item for one in named if (item := self._find(one)) is not None]
            self._put([({**one.value, "last_accessed": now}, _vector_of(one)) for one in items])

    @adapted
    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record, None if there is none."""
        item = self._find(record_id)
        return None if item is None else _record(item)

    @adapted
    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[Match]:
        """
        Return the records whose vectors are nearest, nearest first, with their scores.

        The score is 1 / (1 + squared distance), as in CrewAI's default storage. At most 1,000
        records are compared with *categories* and *metadata_filter*.

        Raises:
            EmbeddingDimensionMismatchError: the query has another dimension than the records.
        """
        query = _packed(query_embedding) or b""
        if limit < 1 or not query:
            return []
        self._check_dimension([query])
        is_filtered = bool(categories or metadata_filter)
        count = MAX_NEAREST if is_filtered else min(limit, MAX_NEAREST)
        near = self._scope.items.recall(vector=query, prefix=_namespace(scope_prefix), limit=count)
        asked = array("f", query)
        found: list[Match] = []
        for one in near:
            if not _is_record(one.item):
                continue
            record = _record(one.item)
            if _is_wanted(record, categories, metadata_filter):
                far = sum((a - b) ** 2 for a, b in zip(record.embedding or (), asked, strict=True))
                found.append((record, 1.0 / (1.0 + far)))
        found.sort(key=lambda match: -match[1])
        return [match for match in found if match[1] >= min_score][:limit]

    @adapted
    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Remove the records that match all given conditions; return how many."""
        before = None if older_than is None else _moment(older_than)
        with self._db.transaction():
            found = self._items(scope_prefix)
            if record_ids:
                path = _namespace(scope_prefix)
                ids = dict.fromkeys(filter(is_key, key_list(record_ids, "record_ids")))
                named = map(self._find, ids)
                found = (one for one in named if one and one.namespace[: len(path)] == path)
            doomed = [
                item
                for item in found
                for record in [_record(item)]
                if _is_wanted(record, categories, metadata_filter)
                if before is None or _moment(record.created_at) < before
            ]
            self._remove(doomed)
        return len(doomed)

    @adapted
    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """
        Return the records in a scope and below it, newest first.

        Cost: that of reading all of them.
        """
        if limit <= 0 or offset < 0:
            return []
        items = sorted(
            self._items(scope_prefix),
            key=lambda item: _moment(datetime.fromisoformat(item.value["created_at"])),
            reverse=True,
        )
        return [_record(item) for item in items[offset : offset + limit]]

    @adapted
    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return how many records a scope holds, their categories, times, and scopes below."""
        path = scope.rstrip("/") or "/"
        values = [item.value for item in self._items(path)]
        times = sorted((datetime.fromisoformat(one["created_at"]) for one in values), key=_moment)
        return ScopeInfo(
            path=path,
            record_count=len(values),
            categories=sorted({name for one in values for name in one["categories"]}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=self.list_scopes(path),
        )

    @adapted
    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes directly below one, in order."""
        path = _namespace(parent)
        depth = len(path) + 1
        found = self._scope.items.namespaces(path, max_depth=depth)
        return ["/" + "/".join(one[1:]) for one in found if len(one) == depth]

    @adapted
    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records in each category."""
        counts: dict[str, int] = {}
        for item in self._items(scope_prefix):
            for name in item.value["categories"]:
                counts[name] = counts.get(name, 0) + 1
        return counts

    @adapted
    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and below it."""
        return sum(1 for _ in self._items(scope_prefix))

    @adapted
    def reset(self, scope_prefix: str | None = None) -> None:
        """Remove all records of a scope and below it; None means all records."""
        with self._db.transaction():
            self._remove([*self._items(scope_prefix)])
            if not _namespace(scope_prefix)[1:]:
                self._scope.items.delete(*DIMENSION)

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Do as `save`, in a thread."""
        copies = self._call(lambda: [record.model_copy(deep=True) for record in records])
        await self._run(partial(self.save, copies))

    asearch = in_thread(search, "search")
    adelete = in_thread(delete)

    def _items(self, scope_prefix: str | None) -> Iterator[Item]:
        """Yield the items of a scope and below it."""
        prefix = _namespace(scope_prefix)
        page = self._scope.items.list(prefix, limit=PAGE)
        while page:
            yield from filter(_is_record, page)
            if len(page) < PAGE:
                return
            page = self._scope.items.list(prefix, limit=PAGE, after=page[-1])

    def _find(self, record_id: str) -> Item | None:
        """Return the item of a record; None if it is absent, or if no record can have the id."""
        if not is_key(record_id):
            return None
        place = self._scope.items.find(PLACES, record_id)
        item = place and self._scope.items.find(place.value, record_id)
        return item if item is not None and _is_record(item) else None

    def _put(self, new: Sequence[tuple[dict[str, Any], bytes | None]]) -> None:
        """Store the values of records with their vectors, inside a transaction."""
        for start in range(0, len(new), PART):
            part = {value["id"]: (value, vector) for value, vector in new[start : start + PART]}
            places = self._scope.items.batch([FindItem(PLACES, key) for key in part])
            operations: list[PutItem | DeleteItem] = []
            for place, (key, (value, vector)) in zip(places, part.items(), strict=True):
                namespace = _namespace(value["scope"])
                is_moved = place is not None and tuple(place.value) != namespace
                if is_moved:
                    operations.append(DeleteItem(place.value, key))
                if place is None or is_moved:
                    operations.append(PutItem(PLACES, key, list(namespace), index=False))
                metadata = {"vector": b64encode(vector).decode()} if vector else None
                # Zero points nowhere.
                vectors = [vector] if vector is not None and any(vector) else None
                operations.append(
                    PutItem(namespace, key, value, metadata, index=["content"], vectors=vectors)
                )
            self._scope.items.batch(operations)

    def _remove(self, doomed: Iterable[Item]) -> None:
        operations = [
            DeleteItem(namespace, item.key)
            for item in doomed
            for namespace in (item.namespace, PLACES)
        ]
        for start in range(0, len(operations), PAGE):
            self._scope.items.batch(operations[start : start + PAGE])

    def _check_dimension(self, vectors: Sequence[bytes]) -> None:
        """
        Refuse vectors of another dimension than the stored ones.

        Note the dimension of the first.
        """
        if not vectors:
            return
        found = self._scope.items.find(*DIMENSION)
        stored = found.value if found is not None else len(vectors[0]) // 4
        for vector in vectors:
            if len(vector) // 4 != stored:
                raise _mismatch(stored, len(vector) // 4)
        if found is None:
            self._scope.items.put(*DIMENSION, stored, index=False)


def _mismatch(stored: int, new: int) -> ValueError:
    """Return CrewAI's error for vectors of another model; older releases lack it."""
    made: ValueError
    if hasattr(backend, "EmbeddingDimensionMismatchError"):
        made = backend.EmbeddingDimensionMismatchError(stored, new)
    else:
        made = InvalidInput(
            f"the memory holds vectors of {stored} components, this one has {new}: use the "
            "embedder that made them, or reset the memory"
        )
    return made


def _namespace(scope: str | None) -> tuple[str, ...]:
    """Return the namespace of a scope: a label for each part of its path."""
    if scope is not None and not isinstance(scope, str):
        raise InvalidInput(f"scope is {type(scope).__name__}: give a path such as /team/ann")
    return (SPACE, *(part for part in (scope or "").split("/") if part))


def _value(record: MemoryRecord) -> dict[str, Any]:
    """
    Return the stored form of a record.

    TypeError, as in CrewAI's storage, without a JSON form.
    """
    json.dumps(record.metadata)
    value: dict[str, Any] = record.model_dump(exclude={"embedding"})
    for field in ("created_at", "last_accessed"):
        value[field] = value[field].isoformat()
    return value


def _packed(embedding: Sequence[float] | None) -> bytes | None:
    """Return a vector as float32 bytes, None if there is none."""
    if embedding is None or len(embedding) == 0:
        return None
    try:
        return array("f", embedding).tobytes()
    except (TypeError, OverflowError) as error:
        raise InvalidInput(f"embedding contains something other than numbers: {error}") from error


def _vector_of(item: Item) -> bytes | None:
    vector = (item.metadata or {}).get("vector")
    return b64decode(vector) if vector else None


def _is_record(item: Item) -> bool:
    """Return whether an item is a record; another program may have stored anything there."""
    value = item.value
    return isinstance(value, dict) and value.keys() >= FIELDS and value["id"] == item.key


def _record(item: Item) -> MemoryRecord:
    vector = _vector_of(item)
    embedding = None if vector is None else array("f", vector).tolist()
    return MemoryRecord(**item.value, embedding=embedding)


def _is_wanted(
    record: MemoryRecord, categories: list[str] | None, metadata: dict[str, Any] | None
) -> bool:
    """Return whether a record has one of the categories, and all of the metadata."""
    if categories and not any(name in record.categories for name in categories):
        return False
    return all(record.metadata.get(key) == value for key, value in (metadata or {}).items())


def _moment(time: datetime) -> datetime:
    """Return a time in a comparable form; without a time zone it is UTC."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
