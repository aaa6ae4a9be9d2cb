"""
Nearest neighbours: which rows of a range point the way a query does.

Reads `sketches` and `embeddings`; the room of both writes them. A search walks
the sketches of an id range, then measures the best exactly (ADR-0003).
"""

from __future__ import annotations

from itertools import compress

from memdb.engine.sqlite.sketches import BUCKET_BITS, SLOT_MASK, distances, sketch_of
from memdb.engine.sqlite.sketches import nearest as nearest_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from memdb.engine.sqlite.transaction import Row, Tx

# Sketches are coarse: this many times the asked number, and at least the
# floor, are measured exactly. Source: bench/run.py nearest.
CANDIDATE_FACTOR = 3
MIN_CANDIDATES = 400
SMALL_FACTOR = 3


SELECT_BUCKETS = """/* nearest.buckets */
SELECT bucket, slots, planes FROM sketches
WHERE space_no = :space_no AND kind = :kind AND bucket BETWEEN :first AND :last
ORDER BY bucket
"""

SELECT_DISTANCES = """/* nearest.distances */
SELECT ref, vec_distance_cosine(vector, :vector) AS distance
FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs))
ORDER BY distance, ref
LIMIT :limit
"""

SELECT_EXACT = """/* nearest.exact */
SELECT ref, vec_distance_cosine(vector, :vector) AS distance
FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY distance, ref
LIMIT :limit
"""


def find(
    tx: Tx,
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
        vector: As `to_vector` returns it, of the space's dimension.
        span: First and last ref to look at, both inclusive.
        limit: Most refs to return.
        allowed: Only these refs of the span are looked at; None: all of it.
        exact: Measure every vector of the span instead of the best sketches.

    Returns:
        (ref, cosine) with the cosine in [-1, 1]; equal ones by ref. By sketch
        0.95 of the true ten nearest are found (ADR-0003); a span of less than
        `SMALL_FACTOR` times the candidates is always measured exactly.

    Cost: 1.5 ms for 10,000 vectors of 128 dimensions by sketch, 4.5 ms exact.
    """
    tx.use_vectors()
    low, high = span
    wanted = max(CANDIDATE_FACTOR * limit, MIN_CANDIDATES)
    key = {"space_no": space_no, "kind": kind}
    values: dict[str, Any] = {**key, "low": low, "high": high, "vector": vector, "limit": limit}
    values |= {"first": low >> BUCKET_BITS, "last": high >> BUCKET_BITS}
    buckets = [] if exact else tx.all(SELECT_BUCKETS, values)
    # Vectors side by side are read so much faster than picked ones that all of
    # a small scope are measured in less time than its candidates.
    if not exact and sum(len(slots) for _, slots, _ in buckets) > SMALL_FACTOR * wanted:
        refs: Collection[int] = _by_sketch(buckets, sketch_of(vector), span, wanted, allowed)
    elif allowed is None:
        return _cosines(tx.all(SELECT_EXACT, values))
    else:
        refs = [ref for ref in allowed if low <= ref <= high]
    rows = tx.all(SELECT_DISTANCES, {**values, "refs": f"[{','.join(map(str, refs))}]"})
    return _cosines(rows)


def measure(
    tx: Tx, space_no: int, kind: str, vector: bytes, refs: Collection[int]
) -> list[tuple[int, float]]:
    """
    Return the cosine of each of *refs* that has a vector, nearest first.

    Cost: 0.4 ms for 200.
    """
    tx.use_vectors()
    values: dict[str, Any] = {"space_no": space_no, "kind": kind, "vector": vector, "limit": -1}
    values["refs"] = f"[{','.join(map(str, refs))}]"
    return _cosines(tx.all(SELECT_DISTANCES, values))


def _cosines(rows: list[Row]) -> list[tuple[int, float]]:
    """Return (ref, cosine); a damaged vector has none and is left to `check`."""
    return [(ref, 1 - distance) for ref, distance in rows if distance is not None]


def _by_sketch(
    buckets: list[Row],
    query: bytes,
    span: tuple[int, int],
    wanted: int,
    allowed: Collection[int] | None,
) -> list[int]:
    """Return the refs of the *wanted* nearest sketches, and those as near as the last."""
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
        return b"\1" * len(slots)  # all but the ends of a span: the quick way
    refs = [first | slot for slot in slots]
    return bytes([low <= ref <= high and (allowed is None or ref in allowed) for ref in refs])
