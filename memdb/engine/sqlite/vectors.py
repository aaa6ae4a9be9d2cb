"""
Vectors by space, and their nearest neighbours. Owns the tables `vectors` and `sketches`.

The float32 vector is stored; its sketch, one bit per dimension, is derived from it and written with
it. A search compares the sketches of an id range in plain Python, then measures the best vectors
with sqlite-vec (ADR-0003). No other module knows sketches or sqlite-vec.

The sketches of up to 256 neighbouring refs are stored together as byte planes: plane j holds byte j
of each sketch. For a query, `bytes.translate` turns each plane into the distances of that byte. The
planes are added as long integers, one byte per sketch: a few calls for thousands of sketches.
"""

from __future__ import annotations

import sys
from array import array
from itertools import compress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from memdb.engine.base import Row, Tx

BUCKET_BITS = 8
BUCKET_SIZE = 1 << BUCKET_BITS
SLOT_MASK = BUCKET_SIZE - 1

# Planes that can be added before the distance of 8 bits each leaves a byte.
MAX_PLANES = 31

# Translation tables by byte, each made at its first use.
_flipped_tables: dict[int, bytes] = {}


def sketch_of(vector: bytes) -> bytes:
    """
    Return one bit per component, 1 where it is above zero, lowest bit first.

    Args:
        vector: `(dim,)` float32, little-endian.

    Returns:
        `(dim + 7) // 8` bytes, the last padded with 0. The same bits as
        sqlite-vec's `vec_quantize_binary`. Cost: 8 µs at 128 dimensions.
    """
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    bits = "".join(["1" if number > 0 else "0" for number in reversed(numbers)])
    return int(bits, 2).to_bytes((len(numbers) + 7) // 8, "little")


def to_planes(sketches: Sequence[bytes]) -> bytes:
    """Return the byte planes of sketches of equal length, plane after plane."""
    joined = b"".join(sketches)
    width = len(sketches[0]) if sketches else 0
    return b"".join([joined[place::width] for place in range(width)])


def from_planes(planes: bytes, count: int) -> list[bytes]:
    """Return the *count* sketches that `to_planes` packed."""
    return [planes[place::count] for place in range(count)]


def distances(buckets: Sequence[tuple[bytes, int]], query: bytes) -> bytes:
    """
    Return the number of different bits between *query* and each sketch, one byte each.

    The unit is 2^k bits, with the smallest k for which every distance fits into
    a byte: 1 bit up to 255 dimensions, 2 up to 511, 4 up to 1,023.

    Args:
        buckets: (planes, number of sketches) of each bucket.
        query: A sketch of the same width.

    Cost: 0.6 ms for 10,000 sketches of 128 bits, 1.5 ms for 384.
    """
    unit = max(0, (8 * len(query)).bit_length() - 8)
    total = 0
    for start in range(0, len(query), MAX_PLANES):
        part = _summed(buckets, query, range(start, min(start + MAX_PLANES, len(query))))
        total += int.from_bytes(_divided(part, unit), "little")
    return total.to_bytes(sum(count for _, count in buckets), "little")


def _flipped(byte: int) -> bytes:
    """Return the table that turns each byte into the number of bits it differs from *byte*."""
    table = _flipped_tables.get(byte)
    if table is None:
        table = _flipped_tables[byte] = bytes([(x ^ byte).bit_count() for x in range(256)])
    return table


def _divided(part: bytes, unit: int) -> bytes:
    return part.translate(bytes([x >> unit for x in range(256)])) if unit else part


def _summed(buckets: Sequence[tuple[bytes, int]], query: bytes, places: range) -> bytes:
    total = 0
    for place in places:
        plane = b"".join([planes[place * count : (place + 1) * count] for planes, count in buckets])
        total += int.from_bytes(plane.translate(_flipped(query[place])), "little")
    return total.to_bytes(sum(count for _, count in buckets), "little")


def nearest_places(measured: bytes, limit: int, mask: bytes | None = None) -> bytes:
    """
    Return 1 for each position with one of the *limit* smallest distances, else 0.

    Positions that tie with the last one are included, so the result does not
    depend on their order.

    Args:
        measured: As `distances` returns it.
        limit: How many are wanted.
        mask: 1 for each position that counts, 0 for the others; None means all.
    """
    counting = measured if mask is None else bytes(compress(measured, mask))
    taken = bar = 0
    while taken < min(limit, len(counting)):
        taken += counting.count(bar)
        bar += 1
    near = measured.translate(bytes([1] * bar) + bytes(256 - bar))
    if mask is None:
        return near
    both = int.from_bytes(near, "little") & int.from_bytes(mask, "little")
    return both.to_bytes(len(measured), "little")


# Sketches are coarse, so this many times the limit, and at least the minimum,
# are measured exactly. Source: bench/run.py nearest.
CANDIDATE_FACTOR = 3
MIN_CANDIDATES = 400
SMALL_FACTOR = 3

INSERT_VECTOR = """/* vectors.put_vector */
INSERT INTO vectors (space_no, kind, ref, vector) VALUES (:space_no, :kind, :ref, :vector)
ON CONFLICT (space_no, kind, ref) DO UPDATE SET vector = excluded.vector
"""

SELECT_BUCKET = """/* vectors.find_bucket */
SELECT slots, planes FROM sketches
WHERE space_no = :space_no AND kind = :kind AND bucket = :bucket
"""

INSERT_BUCKET = """/* vectors.put_bucket */
INSERT INTO sketches (space_no, kind, bucket, slots, planes)
VALUES (:space_no, :kind, :bucket, :slots, :planes)
ON CONFLICT (space_no, kind, bucket)
DO UPDATE SET slots = excluded.slots, planes = excluded.planes
"""

DELETE_BUCKETS = """/* vectors.delete_buckets */
DELETE FROM sketches
WHERE space_no = :space_no AND kind = :kind AND bucket BETWEEN :first AND :last
"""

SELECT_SPACE_NOS = """/* vectors.space_nos */
SELECT space_no FROM embedding_spaces ORDER BY space_no
"""

SELECT_VECTOR = """/* vectors.find */
SELECT vector FROM vectors WHERE space_no = :space_no AND kind = :kind AND ref = :ref
"""

SELECT_SPAN = """/* vectors.span */
SELECT ref, vector FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY ref
"""

SELECT_PAGE = """/* vectors.list */
SELECT ref, vector
FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref > :after AND ref <= :high
ORDER BY ref
LIMIT :limit
"""

SELECT_PRESENT = """/* vectors.present */
SELECT ref FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs))
"""

SELECT_FIRST_MISSING = """/* vectors.first_missing */
SELECT id FROM messages
WHERE
  id BETWEEN :low AND :high
  AND (text <> '' OR text IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM vectors
    WHERE space_no = :space_no AND kind = 'message' AND ref = messages.id
  )
ORDER BY id
LIMIT 1
"""

DELETE_VECTORS = """/* vectors.delete_vectors */
DELETE FROM vectors
WHERE
  space_no = :space_no
  AND kind = :kind
  AND ref BETWEEN :low AND :high
"""

SELECT_FIRST_BUCKETS = """/* vectors.first_buckets */
SELECT kind, bucket FROM sketches
WHERE space_no = :space_no
ORDER BY kind, bucket
LIMIT 16
"""

SELECT_BUCKETS = """/* vectors.buckets */
SELECT bucket, slots, planes FROM sketches
WHERE space_no = :space_no AND kind = :kind AND bucket BETWEEN :first AND :last
ORDER BY bucket
"""

SELECT_DISTANCES = """/* vectors.distances */
SELECT ref, vec_distance_cosine(vector, :vector) AS distance
FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs))
ORDER BY distance, ref
LIMIT :limit
"""

SELECT_EXACT = """/* vectors.exact */
SELECT ref, vec_distance_cosine(vector, :vector) AS distance
FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY distance, ref
LIMIT :limit
"""

SELECT_COUNT = """/* vectors.count */
SELECT coalesce(sum(length(slots)), 0) FROM sketches WHERE space_no = :space_no
"""

DELETE_BAD_VECTORS = """/* vectors.delete_unusable */
DELETE FROM vectors
WHERE
  (kind = 'message' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = ref))
  OR (kind = 'entry' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref))
  OR (kind = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref))
  OR (
    kind = 'item'
    AND ref >= coalesce(
      (
        SELECT vector_ref + vector_count FROM items
        WHERE vector_ref IS NOT NULL AND vector_ref <= ref
        ORDER BY vector_ref DESC
        LIMIT 1
      ),
      0
    )
  )
  OR NOT EXISTS (
    SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = vectors.space_no
  )
  OR length(vector) <> 4 * (
    SELECT dim FROM embedding_spaces WHERE embedding_spaces.space_no = vectors.space_no
  )
"""

DELETE_SKETCHES = """/* vectors.delete_sketches */
DELETE FROM sketches
"""

SELECT_VECTORS = """/* vectors.all */
SELECT space_no, kind, ref, vector FROM vectors
WHERE (space_no, kind, ref) > (:space_no, :kind, :ref)
ORDER BY space_no, kind, ref
LIMIT 1000
"""

# Every bucket that has vectors or sketches.
SELECT_ALL_BUCKETS = """/* vectors.all_buckets */
SELECT space_no, kind, ref >> 8 AS bucket FROM vectors
UNION
SELECT space_no, kind, bucket FROM sketches
ORDER BY 1, 2, 3
"""


class SqliteVectors:
    """The vectors in one transaction; see `memdb.engine.base.Vectors`."""

    __slots__ = ("_load_functions", "_tx")

    def __init__(self, tx: Tx, load_functions: Callable[[], None]) -> None:
        """Read and write vectors in *tx*; *load_functions* makes sqlite-vec usable in it."""
        self._tx = tx
        self._load_functions = load_functions

    def put(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """
        Store the vector of each (ref, vector), replacing an older one.

        The vectors are as `to_vector` returns them. Cost: 30 µs each at 128
        dimensions.
        """
        given = dict(vectors)
        key = {"space_no": space_no, "kind": kind}
        self._tx.many(INSERT_VECTOR, [{**key, "ref": ref, "vector": v} for ref, v in given.items()])
        by_bucket: dict[int, dict[int, bytes]] = {}
        for ref, vector in given.items():
            slots = by_bucket.setdefault(ref >> BUCKET_BITS, {})
            slots[ref & SLOT_MASK] = sketch_of(vector)
        for bucket, slots in by_bucket.items():
            place = {**key, "bucket": bucket}
            self._put_bucket(place, {**self._bucket(place), **slots})

    def drop(self, kind: str, low: int, high: int, space_no: int | None = None) -> None:
        """Remove the vectors of all refs in [low, high]; in every space, or in one."""
        spaces = (
            [row[0] for row in self._tx.all(SELECT_SPACE_NOS)] if space_no is None else [space_no]
        )
        for number in spaces:
            key = {"space_no": number, "kind": kind}
            self._tx.run(DELETE_VECTORS, {**key, "low": low, "high": high})
            self._drop_sketches(key, low, high)

    def drop_some(self, space_no: int) -> bool:
        """Remove at most 4,096 vectors of a space; False if it has none left."""
        found = self._tx.all(SELECT_FIRST_BUCKETS, {"space_no": space_no})
        if not found:
            return False
        kind = found[0][0]
        buckets = [bucket for of, bucket in found if of == kind]
        low, high = buckets[0] << BUCKET_BITS, buckets[-1] << BUCKET_BITS | SLOT_MASK
        self.drop(kind, low, high, space_no)
        return True

    def count(self, space_no: int) -> int:
        """Return how many vectors a space holds; reads the sketches only."""
        row = self._tx.one(SELECT_COUNT, {"space_no": space_no})
        return 0 if row is None else int(row[0])

    def find(self, space_no: int, kind: str, ref: int) -> bytes | None:
        """Return the stored vector of a row, None if it has none."""
        row = self._tx.one(SELECT_VECTOR, {"space_no": space_no, "kind": kind, "ref": ref})
        return None if row is None else row[0]

    def list_page(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return (ref, vector) of up to *limit* rows with *after* < ref <= *high*, by ref."""
        values = {"space_no": space_no, "kind": kind, "after": after, "high": high, "limit": limit}
        return self._tx.all(SELECT_PAGE, values)

    def present(self, space_no: int, kind: str, refs: Iterable[int]) -> set[int]:
        """Return those of *refs* that have a vector."""
        values = {"space_no": space_no, "kind": kind, "refs": [*refs]}
        return {row[0] for row in self._tx.all(SELECT_PRESENT, values)}

    def first_missing(self, space_no: int, low: int, high: int) -> int | None:
        """Return the first message id in [low, high] with a text and no vector; None without."""
        row = self._tx.one(SELECT_FIRST_MISSING, {"space_no": space_no, "low": low, "high": high})
        return None if row is None else int(row[0])

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
            vector: As `memdb.models.reports.to_vector` returns it, of the space's dimension.
            span: First and last ref to look at, both inclusive.
            limit: Most refs to return.
            allowed: Search only these refs of the span; None means all of it.
            exact: Measure every vector of the span instead of the best sketches.

        Returns:
            (ref, cosine) with the cosine in [-1, 1], equal ones ordered by ref.
            Sketches find 0.95 of the true ten nearest (ADR-0003). A span with
            less than `SMALL_FACTOR` times the candidates is measured exactly.

        Cost: 1.5 ms for 10,000 vectors of 128 dimensions by sketch, 4.5 ms exact.
        """
        self._load_functions()
        low, high = span
        wanted = max(CANDIDATE_FACTOR * limit, MIN_CANDIDATES)
        key = {"space_no": space_no, "kind": kind}
        values: dict[str, Any] = {**key, "low": low, "high": high, "vector": vector, "limit": limit}
        values |= {"first": low >> BUCKET_BITS, "last": high >> BUCKET_BITS}
        buckets = [] if exact else self._tx.all(SELECT_BUCKETS, values)
        # Reading vectors in order is so much faster than picking them that measuring
        # all of a small scope takes less time than measuring its candidates.
        if not exact and sum(len(slots) for _, slots, _ in buckets) > SMALL_FACTOR * wanted:
            refs: Collection[int] = _by_sketch(buckets, sketch_of(vector), span, wanted, allowed)
        elif allowed is None:
            return _cosines(self._tx.all(SELECT_EXACT, values))
        else:
            refs = [ref for ref in allowed if low <= ref <= high]
        rows = self._tx.all(SELECT_DISTANCES, {**values, "refs": [*refs]})
        return _cosines(rows)

    def measure(
        self, space_no: int, kind: str, vector: bytes, refs: Collection[int]
    ) -> list[tuple[int, float]]:
        """
        Return the cosine of each of *refs* that has a vector, nearest first.

        Cost: 0.4 ms for 200.
        """
        self._load_functions()
        values: dict[str, Any] = {"space_no": space_no, "kind": kind, "vector": vector, "limit": -1}
        values["refs"] = [*refs]
        return _cosines(self._tx.all(SELECT_DISTANCES, values))

    def rebuild(self) -> None:
        """Rebuild the sketches; delete vectors without a row or of the wrong size."""
        self._tx.run(DELETE_BAD_VECTORS)
        self._tx.run(DELETE_SKETCHES)
        start = {"space_no": 0, "kind": "", "ref": 0}
        for rows in self._tx.pages(SELECT_VECTORS, start):
            groups: dict[tuple[int, str], list[tuple[int, bytes]]] = {}
            for space_no, kind, ref, vector in rows:
                groups.setdefault((space_no, kind), []).append((ref, vector))
            for (space_no, kind), vectors in groups.items():
                self.put(space_no, kind, vectors)

    def wrong_sketches(self) -> Iterator[tuple[str, int]]:
        """Yield kind and number of each bucket whose sketches differ from its vectors."""
        for space_no, kind, bucket in self._tx.all(SELECT_ALL_BUCKETS):
            key = {"space_no": space_no, "kind": kind}
            low = bucket << BUCKET_BITS
            rows = self._tx.all(SELECT_SPAN, {**key, "low": low, "high": low | SLOT_MASK})
            expected = {ref & SLOT_MASK: sketch_of(vector) for ref, vector in rows}
            if expected != self._bucket({**key, "bucket": bucket}):
                yield kind, bucket

    def _bucket(self, key: dict[str, Any]) -> dict[int, bytes]:
        """Return the sketches of a bucket by slot, {} if it has none."""
        row = self._tx.one(SELECT_BUCKET, key)
        return (
            {} if row is None else dict(zip(row[0], from_planes(row[1], len(row[0])), strict=True))
        )

    def _put_bucket(self, key: dict[str, Any], sketches: dict[int, bytes]) -> None:
        slots = sorted(sketches)
        planes = to_planes([sketches[slot] for slot in slots])
        self._tx.run(INSERT_BUCKET, {**key, "slots": bytes(slots), "planes": planes})

    def _drop_sketches(self, key: dict[str, Any], low: int, high: int) -> None:
        first, last = low >> BUCKET_BITS, high >> BUCKET_BITS
        kept = {
            bucket: {
                slot: bits
                for slot, bits in self._bucket({**key, "bucket": bucket}).items()
                if not low <= bucket << BUCKET_BITS | slot <= high
            }
            for bucket in {first, last}
        }
        self._tx.run(DELETE_BUCKETS, {**key, "first": first, "last": last})
        for bucket, sketches in kept.items():
            if sketches:
                self._put_bucket({**key, "bucket": bucket}, sketches)


def _cosines(rows: list[Row]) -> list[tuple[int, float]]:
    """Return (ref, cosine), without damaged vectors, which `check` reports."""
    return [(ref, 1 - distance) for ref, distance in rows if distance is not None]


def _by_sketch(
    buckets: list[Row],
    query: bytes,
    span: tuple[int, int],
    wanted: int,
    allowed: Collection[int] | None,
) -> list[int]:
    """Return the refs of the *wanted* nearest sketches, with ties of the last one."""
    measured = distances([(planes, len(slots)) for _, slots, planes in buckets], query)
    mask = b"".join([_mask(bucket, slots, span, allowed) for bucket, slots, _ in buckets])
    chosen = nearest_places(measured, wanted, mask if b"\0" in mask else None)
    found: list[int] = []
    start = 0
    for bucket, slots, _ in buckets:
        end = start + len(slots)
        base = bucket << BUCKET_BITS
        found += [base | slot for slot in compress(slots, chosen[start:end])]
        start = end
    return found


def _mask(
    bucket: int, slots: bytes, span: tuple[int, int], allowed: Collection[int] | None
) -> bytes:
    """Return 1 for each slot of a bucket whose ref counts, else 0."""
    low, high = span
    first = bucket << BUCKET_BITS
    if allowed is None and low <= first and first | SLOT_MASK <= high:
        return b"\1" * len(slots)  # the quick way for all buckets but the ends of a span
    refs = [first | slot for slot in slots]
    return bytes([low <= ref <= high and (allowed is None or ref in allowed) for ref in refs])
