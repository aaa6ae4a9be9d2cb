"""
Embeddings: vectors by space. Owns `embedding_spaces`, `embeddings`, `sketches`.

The float32 vector is the truth; the sketch, one bit per dimension, is derived
from it and written with it. A search walks the sketches of an id range, then
measures the best exactly (ADR-0003).
"""

from __future__ import annotations

import sys
from array import array
from math import isfinite

from memdb.errors import DimensionMismatch, InvalidInput
from memdb.models import SpaceInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.db.database import Tx

# Sketches are coarse: this many times the asked number, and at least the
# floor, are measured exactly. Source: bench/knn.py.
CANDIDATE_FACTOR = 4
MIN_CANDIDATES = 400

SELECT_SPACE = """/* embeddings.find_space */
SELECT space_no FROM embedding_spaces WHERE model = :model AND dim = :dim AND metric = 'cosine'
"""

INSERT_SPACE = """/* embeddings.add_space */
INSERT INTO embedding_spaces (space_no, model, dim, metric, created_ms)
VALUES (
  (SELECT coalesce(max(space_no), 0) + 1 FROM embedding_spaces),
  :model,
  :dim,
  'cosine',
  :now_ms
)
RETURNING space_no
"""

SELECT_SPACES = """/* embeddings.list_spaces */
SELECT
  model,
  dim,
  (SELECT count(*) FROM sketches WHERE sketches.space_no = embedding_spaces.space_no)
FROM embedding_spaces
ORDER BY space_no
"""

INSERT_VECTOR = """/* embeddings.put_vector */
INSERT INTO embeddings (space_no, kind, ref, vector) VALUES (:space_no, :kind, :ref, :vector)
ON CONFLICT (space_no, kind, ref) DO UPDATE SET vector = excluded.vector
"""

INSERT_SKETCH = """/* embeddings.put_sketch */
INSERT INTO sketches (space_no, kind, ref, bits) VALUES (:space_no, :kind, :ref, :bits)
ON CONFLICT (space_no, kind, ref) DO UPDATE SET bits = excluded.bits
"""

SELECT_VECTOR = """/* embeddings.find */
SELECT vector FROM embeddings WHERE space_no = :space_no AND kind = :kind AND ref = :ref
"""

SELECT_BY_SKETCH = """/* embeddings.by_sketch */
SELECT ref
FROM sketches
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY vec_distance_hamming(vec_bit(bits), vec_bit(:bits)), ref
LIMIT :candidates
"""

SELECT_ALLOWED_BY_SKETCH = """/* embeddings.allowed_by_sketch */
SELECT ref
FROM sketches
WHERE
  space_no = :space_no
  AND kind = :kind
  AND ref IN (SELECT value FROM json_each(:allowed))
ORDER BY vec_distance_hamming(vec_bit(bits), vec_bit(:bits)), ref
LIMIT :candidates
"""

SELECT_DISTANCES = """/* embeddings.distances */
SELECT ref, vec_distance_cosine(vector, :vector) AS distance
FROM embeddings
WHERE space_no = :space_no AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs))
ORDER BY distance, ref
LIMIT :limit
"""

SELECT_EXACT = """/* embeddings.exact */
SELECT ref, vec_distance_cosine(vector, :vector) AS distance
FROM embeddings
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY distance, ref
LIMIT :limit
"""

DELETE_VECTORS = """/* embeddings.delete_vectors */
DELETE FROM embeddings
WHERE
  space_no IN (SELECT space_no FROM embedding_spaces)
  AND kind = :kind
  AND ref BETWEEN :low AND :high
"""

DELETE_SKETCHES = """/* embeddings.delete_sketches */
DELETE FROM sketches
WHERE
  space_no IN (SELECT space_no FROM embedding_spaces)
  AND kind = :kind
  AND ref BETWEEN :low AND :high
"""


def to_vector(value: bytes | Sequence[float], dim: int) -> bytes:
    """
    Return *value* as a stored vector: `4 * dim` bytes, float32, little-endian.

    Args:
        value: `(dim,)` numbers, or the bytes themselves.
        dim: Components of the space.

    Raises:
        DimensionMismatch: another number of components.
        InvalidInput: a component is NaN or infinite, or all are zero: SQLite's
            distance functions would rank such a vector first.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        if len(raw) % 4:
            raise InvalidInput(f"vector has {len(raw)} bytes: give 4 per dimension, float32")
        numbers = array("f", raw)
        if sys.byteorder == "big":
            numbers.byteswap()
    else:
        numbers = _float32(value)
        little = array("f", numbers)
        if sys.byteorder == "big":
            little.byteswap()
        raw = little.tobytes()
    if len(numbers) != dim:
        raise DimensionMismatch(dim, len(numbers))
    norm = sum(number * number for number in numbers)
    if not isfinite(norm):
        raise InvalidInput("vector has a NaN or infinite component: check the embedder")
    if norm == 0:
        raise InvalidInput("vector is all zero, it points nowhere: give None for such a text")
    return raw


def _float32(value: Sequence[float]) -> array[float]:
    try:
        return array("f", value)
    except (TypeError, OverflowError) as error:
        raise InvalidInput(f"vector is not a sequence of float32 numbers: {error}") from error


def sketch_of(vector: bytes) -> bytes:
    """
    Return one bit per component, 1 where it is above zero, lowest bit first.

    Padded with 0 to whole bytes. The same as sqlite-vec's
    `vec_quantize_binary` where the dimension is a multiple of 8.
    """
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    bits = "".join(["1" if number > 0 else "0" for number in reversed(numbers)])
    return int(bits, 2).to_bytes((len(numbers) + 7) // 8, "little")


def find_space(tx: Tx, model: str, dim: int) -> int | None:
    """Return the number of a model's space, None if the file has none."""
    row = tx.one(SELECT_SPACE, {"model": model, "dim": dim})
    return None if row is None else int(row[0])


def add_space(tx: Tx, model: str, dim: int) -> int:
    """Add a space and return its number."""
    row = tx.one(INSERT_SPACE, {"model": model, "dim": dim, "now_ms": tx.now_ms})
    assert row is not None
    return int(row[0])


def list_spaces(tx: Tx) -> tuple[SpaceInfo, ...]:
    """Return every space in the order of their making."""
    return tuple(SpaceInfo(*row) for row in tx.all(SELECT_SPACES))


def put(tx: Tx, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
    """
    Store the vector of each (ref, vector), replacing an older one.

    The vectors are as `to_vector` returns them. Cost: 30 µs each at 128
    dimensions.
    """
    rows = [
        {
            "space_no": space_no,
            "kind": kind,
            "ref": ref,
            "vector": vector,
            "bits": sketch_of(vector),
        }
        for ref, vector in vectors
    ]
    tx.many(INSERT_VECTOR, rows)
    tx.many(INSERT_SKETCH, rows)


def find(tx: Tx, space_no: int, kind: str, ref: int) -> bytes | None:
    """Return the stored vector of a row, None if it has none."""
    row = tx.one(SELECT_VECTOR, {"space_no": space_no, "kind": kind, "ref": ref})
    return None if row is None else row[0]


def nearest(
    tx: Tx,
    space_no: int,
    kind: str,
    vector: bytes,
    span: tuple[int, int],
    *,
    limit: int,
    allowed: str | None = None,
    exact: bool = False,
) -> list[tuple[int, float]]:
    """
    Return the refs nearest to *vector* with their cosine, nearest first.

    Args:
        vector: As `to_vector` returns it, of the space's dimension.
        span: First and last ref to look at, both inclusive.
        limit: Most refs to return.
        allowed: JSON array of refs; only these are looked at. None: the span.
        exact: Measure every vector of the span instead of the best sketches.

    Returns:
        (ref, cosine) with the cosine in [-1, 1]; equal ones by ref. The
        sketches miss few: recall@10 is 0.99 on 10,000 texts (bench/knn.py).

    Cost: 2 ms for 10,000 vectors of 128 dimensions by sketch, 5 ms exact.
    """
    tx.use_vectors()
    low, high = span
    values: dict[str, object] = {
        "space_no": space_no,
        "kind": kind,
        "low": low,
        "high": high,
        "vector": vector,
        "limit": limit,
    }
    if exact and allowed is None:
        rows = tx.all(SELECT_EXACT, values)
    else:
        refs = allowed if exact else None
        if refs is None:
            values |= {"bits": sketch_of(vector), "allowed": allowed}
            values["candidates"] = max(CANDIDATE_FACTOR * limit, MIN_CANDIDATES)
            sql = SELECT_BY_SKETCH if allowed is None else SELECT_ALLOWED_BY_SKETCH
            refs = f"[{','.join(str(row[0]) for row in tx.all(sql, values))}]"
        rows = tx.all(SELECT_DISTANCES, {**values, "refs": refs})
    return [(ref, 1 - distance) for ref, distance in rows]


def delete_range(tx: Tx, kind: str, low: int, high: int) -> None:
    """Remove the vectors of all refs in [low, high], in every space."""
    values = {"kind": kind, "low": low, "high": high}
    tx.run(DELETE_VECTORS, values)
    tx.run(DELETE_SKETCHES, values)
