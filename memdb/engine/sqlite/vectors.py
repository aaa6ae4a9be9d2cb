"""
Vectors by space, and their nearest neighbours. Owns the tables `vectors` and `vector_groups`.

A group holds up to 256 neighbouring refs of one kind and space. The id of a vector is computed from
its group and its place in the group. One integer finds a vector, and the vectors of a scope are
stored side by side. The sketches of a group, one bit per dimension, are derived from its vectors
and written with them. A search compares the sketches of an id range, then measures the best vectors
with sqlite-vec (ADR-0003). Only this module uses sqlite-vec.
"""

from __future__ import annotations

import os
import sys
from math import sqrt
from operator import mul
from struct import unpack
from typing import TYPE_CHECKING, Any

import apsw

from memdb.engine import compose
from memdb.engine.sketches import (
    MAX_WEIGHED,
    SketchIndex,
    codec_of,
    from_bytes,
    from_planes,
    to_planes,
)
from memdb.models.ids import scope_of, scope_range

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from memdb.engine.base import Row, Tx

GROUP_BITS = 8
GROUP_SIZE = 1 << GROUP_BITS
SLOT_MASK = GROUP_SIZE - 1

# Sketches are coarse, so this many times the limit are measured exactly, and at least
# so many for each doubling of the sketches above 512. Source: bench/vectors.py.
CANDIDATE_FACTOR = 2
CANDIDATES_PER_DOUBLING = {"weighed": 100, "counted": 50}

# Up to so many, and up to so many times the candidates, measuring everything takes no longer.
SMALL, SMALL_FACTOR = 2_048, 3

# A connection that only reads keeps the sketches of its last large id range, up to these bytes.
MIN_KEPT, MAX_KEPT_BYTES = 4_096, 64 << 20

SELECT_GROUP = """/* vectors.find_group */
SELECT id, slots, planes FROM vector_groups
WHERE space_no = :space_no AND kind = :kind AND bucket = :bucket
"""

SELECT_LAST_GROUP = """/* vectors.last_group */
SELECT max(id) FROM vector_groups WHERE id BETWEEN :low AND :high
"""

INSERT_GROUP = compose.insert(
    "vectors.put_group", "vector_groups", otherwise=compose.conflict("id", "slots, planes")
)

DELETE_GROUP = """/* vectors.delete_group */
DELETE FROM vector_groups WHERE id = :id
"""

INSERT_VECTOR = compose.insert(
    "vectors.put_vector", "vectors", otherwise=compose.conflict("id", "vector")
)

SELECT_SPACE_NOS = """/* vectors.space_nos */
SELECT space_no FROM embedding_spaces ORDER BY space_no
"""

SELECT_PAGE = """/* vectors.list */
SELECT bucket << 8 | (vectors.id & 255), vector
FROM vector_groups
CROSS JOIN vectors ON vectors.id BETWEEN vector_groups.id AND vector_groups.id + 255
WHERE
  space_no = :space_no
  AND kind = :kind
  AND bucket BETWEEN :first AND :last
  AND (bucket << 8 | (vectors.id & 255)) BETWEEN :low AND :high
ORDER BY bucket, vectors.id
LIMIT :limit
"""

OF_REFS = """FROM json_each(:refs) AS refs
CROSS JOIN vector_groups
CROSS JOIN vectors ON vectors.id = vector_groups.id + (refs.value & 255)
WHERE space_no = :space_no AND kind = :kind AND bucket = refs.value >> 8"""

SELECT_PRESENT = f"""/* vectors.present */
SELECT refs.value
{OF_REFS}
"""

SELECT_SOME = f"""/* vectors.find */
SELECT refs.value, vector
{OF_REFS}
"""

SELECT_FIRST_MISSING = """/* vectors.first_missing */
SELECT id FROM messages
WHERE
  id BETWEEN :low AND :high
  AND (text <> '' OR text IS NULL)
  AND NOT EXISTS (
    SELECT 1
    FROM vector_groups
    JOIN vectors ON vectors.id = vector_groups.id + (messages.id & 255)
    WHERE space_no = :space_no AND kind = 'message' AND bucket = messages.id >> 8
  )
ORDER BY id
LIMIT 1
"""

DELETE_VECTORS = """/* vectors.delete_vectors */
DELETE FROM vectors WHERE id BETWEEN :low AND :high
"""

SELECT_FIRST_GROUPS = """/* vectors.first_groups */
SELECT kind, bucket FROM vector_groups
WHERE space_no = :space_no
ORDER BY kind, bucket
LIMIT 16
"""

SELECT_GROUPS = """/* vectors.groups */
SELECT id, bucket, slots, planes FROM vector_groups
WHERE space_no = :space_no AND kind = :kind AND bucket BETWEEN :first AND :last
ORDER BY bucket
"""

DISTANCE = """CASE length(vector)
    WHEN length(:vector) THEN vec_distance_cosine(vector, :vector)
    ELSE vec_distance_cosine(vec_int8(vector), vec_int8(:stored))
  END"""

SELECT_DISTANCES = f"""/* vectors.distances */
SELECT
  id,
  {DISTANCE}
FROM vectors
WHERE id IN (SELECT value FROM json_each(:ids))
"""  # noqa: S608 (names of schema.sql)

SELECT_MEASURED = f"""/* vectors.measured */
SELECT
  refs.value AS ref,
  {DISTANCE} AS distance
{OF_REFS}
ORDER BY distance, ref
LIMIT :limit
"""

SELECT_EXACT = f"""/* vectors.exact */
SELECT
  bucket << 8 | (vectors.id & 255) AS ref,
  {DISTANCE} AS distance
FROM vector_groups
CROSS JOIN vectors ON vectors.id BETWEEN vector_groups.id AND vector_groups.id + 255
WHERE
  space_no = :space_no
  AND kind = :kind
  AND bucket BETWEEN :first AND :last
  AND (bucket << 8 | (vectors.id & 255)) BETWEEN :low AND :high
ORDER BY distance, ref
LIMIT :limit
"""  # noqa: S608 (names of schema.sql)

SELECT_COUNT = """/* vectors.count */
SELECT coalesce(sum(length(slots)), 0) FROM vector_groups WHERE space_no = :space_no
"""

DELETE_BAD_VECTORS = """/* vectors.delete_unusable */
DELETE FROM vectors
WHERE NOT EXISTS (
  SELECT 1
  FROM vector_groups
  JOIN embedding_spaces ON embedding_spaces.space_no = vector_groups.space_no
  WHERE
    vector_groups.id = vectors.id - (vectors.id & 255)
    AND length(vector) = CASE kind WHEN 'message' THEN dim ELSE 4 * dim END
    AND CASE kind
      WHEN 'message' THEN EXISTS (
        SELECT 1 FROM messages WHERE messages.id = (bucket << 8 | (vectors.id & 255))
      )
      WHEN 'entry' THEN EXISTS (
        SELECT 1 FROM entries WHERE entries.id = (bucket << 8 | (vectors.id & 255))
      )
      WHEN 'summary' THEN EXISTS (
        SELECT 1 FROM summaries WHERE summaries.id = (bucket << 8 | (vectors.id & 255))
      )
      ELSE (bucket << 8 | (vectors.id & 255)) < (
        SELECT vector_ref + vector_count FROM items
        WHERE vector_ref IS NOT NULL AND vector_ref <= (bucket << 8 | (vectors.id & 255))
        ORDER BY vector_ref DESC
        LIMIT 1
      )
    END
)
"""

SELECT_ALL_GROUPS = """/* vectors.all_groups */
SELECT id, space_no, kind, bucket, slots, planes FROM vector_groups
WHERE id > :id
ORDER BY id
LIMIT 16
"""

SELECT_MEMBERS = """/* vectors.members */
SELECT id & 255, vector FROM vectors WHERE id BETWEEN :low AND :high ORDER BY id
"""


class SqliteVectors:
    """The vectors in one transaction; see `memdb.engine.base.Vectors`."""

    __slots__ = ("_kept", "_load_functions", "_state", "_tx")

    def __init__(
        self, tx: Tx, load_functions: Callable[[], None], state: Callable[[], object]
    ) -> None:
        """
        Read and write vectors in *tx*.

        Args:
            load_functions: Makes sqlite-vec's functions available.
            state: Returns a value that every change of the file changes.
        """
        self._tx = tx
        self._load_functions = load_functions
        self._state = state
        self._kept: tuple[object, object, SketchIndex] | None = None

    def put(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """
        Store the vector of each (ref, vector), replacing an older one.

        The vectors are as `to_vector` returns them. Of messages only the direction is stored; other
        vectors are stored unchanged. Cost: 30 µs per vector of 128 dimensions.
        """
        self.load(space_no, kind, [(ref, codec_of(kind).encode(one)) for ref, one in vectors])

    def load(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """
        Store vectors as `list_stored` returns them, and replace older ones.

        Cost: 3 µs per vector of 128 dimensions, if their refs are neighbours.
        """
        by_bucket: dict[int, dict[int, bytes]] = {}
        for ref, stored in vectors:
            by_bucket.setdefault(ref >> GROUP_BITS, {})[ref & SLOT_MASK] = stored
        for bucket, members in by_bucket.items():
            group_key = {"space_no": space_no, "kind": kind, "bucket": bucket}
            group, sketches = self._group(group_key)
            if group is None:
                group = self._next_group(bucket)
                rows = [(group | slot, vector) for slot, vector in members.items()]
                self._tx.load("vectors", ("id", "vector"), rows)
            else:
                self._tx.many(
                    INSERT_VECTOR,
                    [{"id": group | slot, "vector": vector} for slot, vector in members.items()],
                )
            sketches |= {slot: codec_of(kind).sketch(one) for slot, one in members.items()}
            self._put_group({**group_key, "id": group}, sketches)

    def drop(self, kind: str, low: int, high: int, space_no: int | None = None) -> None:
        """Remove the vectors of all refs in [low, high]; in every space, or in one."""
        spaces = (
            [row[0] for row in self._tx.all(SELECT_SPACE_NOS)] if space_no is None else [space_no]
        )
        for number in spaces:
            group_key = {"space_no": number, "kind": kind}
            for group, bucket, slots, planes in self._tx.all(
                SELECT_GROUPS, {**group_key, **_buckets((low, high))}
            ):
                base = bucket << GROUP_BITS
                first, last = max(low - base, 0), min(high - base, SLOT_MASK)
                self._tx.run(DELETE_VECTORS, {"low": group | first, "high": group | last})
                sketches = dict(zip(slots, from_planes(planes, len(slots)), strict=True))
                kept = {slot: bits for slot, bits in sketches.items() if not first <= slot <= last}
                if len(kept) < len(sketches):
                    self._put_group({**group_key, "bucket": bucket, "id": group}, kept)

    def drop_some(self, space_no: int) -> bool:
        """Remove at most 4,096 vectors of a space; return False if none is left."""
        found = self._tx.all(SELECT_FIRST_GROUPS, {"space_no": space_no})
        if not found:
            return False
        kind = found[0][0]
        buckets = [bucket for of, bucket in found if of == kind]
        low, high = buckets[0] << GROUP_BITS, buckets[-1] << GROUP_BITS | SLOT_MASK
        self.drop(kind, low, high, space_no)
        return True

    def count(self, space_no: int) -> int:
        """Return the number of vectors in a space; reads only the groups."""
        return self._tx.read_number(SELECT_COUNT, {"space_no": space_no})

    def find(self, space_no: int, kind: str, refs: Iterable[int]) -> dict[int, bytes]:
        """Return the vectors of *refs* by ref, without refs that have none; see `list_page`."""
        rows = self._tx.all(SELECT_SOME, {"space_no": space_no, "kind": kind, "refs": [*refs]})
        return {ref: codec_of(kind).decode(stored) for ref, stored in rows}

    def list_page(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """
        Return (ref, vector) of up to *limit* rows with *after* < ref <= *high*, by ref.

        The vectors are float32; those of messages have length 1.
        """
        rows = self.list_stored(space_no, kind, after, high, limit)
        return [(ref, codec_of(kind).decode(stored)) for ref, stored in rows]

    def list_stored(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return what `list_page` does, of messages the signed bytes that are kept of them."""
        span = after + 1, high
        values = {"space_no": space_no, "kind": kind, "limit": limit, **_buckets(span)}
        return self._tx.all(SELECT_PAGE, {**values, "low": span[0], "high": high})

    def present(self, space_no: int, kind: str, refs: Iterable[int]) -> set[int]:
        """Return those of *refs* that have a vector."""
        values = {"space_no": space_no, "kind": kind, "refs": [*refs]}
        return {row[0] for row in self._tx.all(SELECT_PRESENT, values)}

    def first_missing(self, space_no: int, low: int, high: int) -> int | None:
        """Return the id of the first message in [low, high] with a text and no vector, or None."""
        return self._tx.find_number(
            SELECT_FIRST_MISSING, {"space_no": space_no, "low": low, "high": high}
        )

    def nearest(
        self,
        space_no: int,
        kind: str,
        vector: bytes,
        span: tuple[int, int],
        *,
        limit: int,
        allowed: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """
        Return the refs nearest to *vector* with their cosine, nearest first.

        Args:
            vector: As `memdb.models.vectors.to_vector` returns it, of the space's dimension.
            span: First and last ref to look at, both inclusive.
            limit: Most refs to return.
            allowed: Search only these refs of the span; None means all of it.
            exact: Measure every vector of the span instead of the best sketches.

        Returns:
            (ref, cosine) with the cosine in [-1, 1], equal ones ordered by ref.
            Sketches find 0.97 of the true ten nearest (ADR-0003). A span of up to
            `SMALL`, or `SMALL_FACTOR` times the candidates, is measured exactly.
            So are up to `CANDIDATE_FACTOR` times *limit* allowed refs.

        Cost: 1 ms for 10,000 vectors of 128 dimensions by sketch, 4.5 ms exact.
        """
        low, high = span
        key = {"space_no": space_no, "kind": kind, **_buckets(span)}
        few = allowed is not None and len(allowed) <= CANDIDATE_FACTOR * limit
        if not exact and not few:
            index = self._index(key, (len(vector) // 4 + 7) // 8)
            wanted = _candidates(index.size, limit, len(vector) // 4)
            if index.size > max(SMALL, SMALL_FACTOR * wanted):
                ids = index.nearest(vector, wanted, span, allowed)
                return self._measure(_query(kind, vector), ids, limit)
        values = {**key, **_query(kind, vector), "limit": limit}
        self._load_functions()
        if allowed is None:
            return _cosines(self._tx.all(SELECT_EXACT, {**values, "low": low, "high": high}))
        refs = [ref for ref in allowed if low <= ref <= high]
        return _cosines(self._tx.all(SELECT_MEASURED, {**values, "refs": refs}))

    def measure(
        self, space_no: int, kind: str, vector: bytes, refs: Collection[int]
    ) -> list[tuple[int, float]]:
        """
        Return the cosine of each of *refs* that has a vector, nearest first.

        Cost: 0.3 ms for 200.
        """
        self._load_functions()
        values = {"space_no": space_no, "kind": kind, "limit": -1, **_query(kind, vector)}
        return _cosines(self._tx.all(SELECT_MEASURED, {**values, "refs": [*refs]}))

    def rebuild(self) -> None:
        """Rebuild the sketches; delete vectors without a row or of the wrong size."""
        self._tx.run(DELETE_BAD_VECTORS)
        for group, space_no, kind, bucket, _, _ in self._groups():
            group_key = {"id": group, "space_no": space_no, "kind": kind, "bucket": bucket}
            self._put_group(group_key, self._expected(kind, group))

    def wrong_sketches(self) -> Iterator[tuple[str, int]]:
        """Yield kind and number of each bucket whose sketches differ from its vectors."""
        for group, _, kind, bucket, slots, planes in self._groups():
            expected = self._expected(kind, group)
            if (slots, planes) != (bytes(expected), to_planes([*expected.values()])):
                yield kind, bucket

    def _index(self, key: dict[str, Any], width: int) -> SketchIndex:
        """Return the sketches of the buckets *key*; cache large ones until the file changes."""
        buckets = tuple(key.values())
        if self._kept is not None and self._kept[0] == buckets and self._kept[1] == self._state():
            return self._kept[2]
        index = SketchIndex(self._tx.all(SELECT_GROUPS, key), width)
        if index.size >= MIN_KEPT and index.size_bytes <= MAX_KEPT_BYTES:
            self._kept = buckets, self._state(), index  # the moment of the read is set by now
        return index

    def _groups(self) -> Iterator[Row]:
        """Yield every group, by id."""
        for rows in self._tx.pages(SELECT_ALL_GROUPS, {"id": -1}):
            yield from rows

    def _expected(self, kind: str, group: int) -> dict[int, bytes]:
        """Return the sketches computed from the vectors of a group, by slot."""
        rows = self._tx.all(SELECT_MEMBERS, {"low": group, "high": group | SLOT_MASK})
        return {slot: codec_of(kind).sketch(vector) for slot, vector in rows}

    def _group(self, group_key: dict[str, Any]) -> tuple[int | None, dict[int, bytes]]:
        """Return the id of a group and its sketches by slot; None and {} if it does not exist."""
        row = self._tx.one(SELECT_GROUP, group_key)
        if row is None:
            return None, {}
        group, slots, planes = row
        return group, dict(zip(slots, from_planes(planes, len(slots)), strict=True))

    def _next_group(self, bucket: int) -> int:
        """Return the id of a new group, the next of its scope."""
        low, high = scope_range(scope_of(bucket << GROUP_BITS))
        ((last,),) = self._tx.all(SELECT_LAST_GROUP, {"low": low, "high": high})
        return int((low if last is None else last) + GROUP_SIZE)

    def _put_group(self, group_key: dict[str, Any], sketches: dict[int, bytes]) -> None:
        """Store the sketches of a group, or delete a group without any."""
        if not sketches:
            self._tx.run(DELETE_GROUP, {"id": group_key["id"]})
            return
        slots = sorted(sketches)
        planes = to_planes([sketches[slot] for slot in slots])
        self._tx.run(INSERT_GROUP, {**group_key, "slots": bytes(slots), "planes": planes})

    def _measure(
        self, query: dict[str, Any], ids: dict[int, int], limit: int
    ) -> list[tuple[int, float]]:
        """Return the cosine of the *limit* nearest of *ids*, without refs that have no vector."""
        if not ids:
            return []
        self._load_functions()
        rows = self._tx.all(SELECT_DISTANCES, {**query, "ids": [*ids]})
        found = [(distance, ids[key]) for key, distance in rows if distance is not None]
        found.sort()
        return [(ref, 1 - distance) for distance, ref in found[:limit]]


def _query(kind: str, vector: bytes) -> dict[str, Any]:
    """Return the parameters with a query vector as float32, and in the stored form of *kind*."""
    return {"vector": vector, "stored": codec_of(kind).encode(vector)}


def _candidates(size: int, limit: int, dim: int) -> int:
    """Return how many of *size* sketches are measured exactly for the *limit* nearest."""
    way = "weighed" if dim <= MAX_WEIGHED else "counted"
    return max(CANDIDATE_FACTOR * limit, CANDIDATES_PER_DOUBLING[way] * (size.bit_length() - 9))


def _buckets(span: tuple[int, int]) -> dict[str, Any]:
    """Return the parameters with the first and the last bucket of a span of refs."""
    return {"first": span[0] >> GROUP_BITS, "last": span[1] >> GROUP_BITS}


def _cosines(rows: list[Row]) -> list[tuple[int, float]]:
    """Return (ref, cosine), without damaged vectors, which `check` reports."""
    return [(ref, 1 - distance) for ref, distance in rows if distance is not None]


def load_vector_functions(connection: apsw.Connection) -> None:
    """
    Register `vec_distance_cosine` and `vec_int8` in *connection*: sqlite-vec's, or Python's.

    The library is loaded by its path, because importing the package `sqlite_vec` also imports numpy
    if it is installed, which takes 110 ms. Afterwards loading is switched off again, so that SQL
    cannot load anything. sqlite-vec has no wheels for musl and 32-bit ARM; there a distance of 384
    dimensions costs 30 µs instead of 0.2 µs.
    """
    # Not importlib.util.find_spec: that is a module more to load.
    spec = next(filter(None, (one.find_spec("sqlite_vec", None) for one in sys.meta_path)), None)
    if spec is not None and spec.submodule_search_locations:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(os.path.join(spec.submodule_search_locations[0], "vec0"))
        except apsw.Error:
            spec = None  # built for another machine
        finally:
            connection.enable_load_extension(False)
    if spec is None:
        connection.create_scalar_function(
            "vec_distance_cosine",
            cosine_distance,  # type: ignore[arg-type]  # apsw's stub knows no bytes
            2,
            deterministic=True,
        )
        connection.create_scalar_function("vec_int8", from_bytes, 1, deterministic=True)  # type: ignore[arg-type]  # apsw's stub knows no bytes


def cosine_distance(first: bytes, second: bytes) -> float:
    """
    Return 1 minus the cosine of two vectors, stored as little-endian float32; 0 to 2.

    >>> cosine_distance(bytes([0, 0, 128, 63, 0, 0, 0, 0]), bytes([0, 0, 0, 0, 0, 0, 128, 63]))
    1.0
    """
    x, y = (unpack(f"<{len(one) // 4}f", one) for one in (first, second))
    lengths = sqrt(sum(map(mul, x, x)) * sum(map(mul, y, y)))
    return 1.0 - float(sum(map(mul, x, y))) / lengths
