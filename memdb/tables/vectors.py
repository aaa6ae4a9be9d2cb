"""
Embeddings: vectors by space. Owns `embedding_spaces`, `embeddings`, `sketches`.

The float32 vector is the truth; the sketch, one bit per dimension, is derived
from it and written with it. Searching them is `nearest`'s.
"""

from __future__ import annotations

import sys
from array import array
from math import isfinite

from memdb.engine.sqlite.sketches import BUCKET_BITS, SLOT_MASK, from_planes, sketch_of, to_planes
from memdb.errors import DimensionMismatch, InvalidInput
from memdb.models.messages import SpaceInfo
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from memdb.engine.sqlite.transaction import Row, Tx

# Squared lengths that sqlite-vec's float32 sums can hold without overflow or
# loss; outside them its cosine is no number.
MIN_NORM = 1e-30
MAX_NORM = 1e38

SELECT_SPACE = """/* vectors.find_space */
SELECT space_no, model, dim, complete_ms IS NOT NULL, retired_ms IS NOT NULL
FROM embedding_spaces
WHERE model = :model AND dim = :dim AND metric = 'cosine'
"""

INSERT_SPACE = """/* vectors.add_space */
INSERT INTO embedding_spaces (model, dim, metric, created_ms)
VALUES (:model, :dim, 'cosine', :now_ms)
RETURNING space_no
"""

# Texts that wait: of a session those from `next_seq` on, empty ones too.
SELECT_SPACES = """/* vectors.list_spaces */
SELECT
  model,
  dim,
  (
    SELECT coalesce(sum(length(slots)), 0) FROM sketches
    WHERE sketches.space_no = embedding_spaces.space_no
  ),
  complete_ms IS NOT NULL,
  retired_ms IS NOT NULL,
  (
    SELECT coalesce(
      sum(CASE subject WHEN 'session' THEN max(last_seq - next_seq + 1, 1) ELSE 1 END), 0
    )
    FROM jobs
    LEFT JOIN sessions ON subject = 'session' AND sessions.id = ref
    WHERE jobs.space_no = embedding_spaces.space_no
  )
FROM embedding_spaces
ORDER BY space_no
"""

UPDATE_COMPLETE = """/* vectors.complete */
UPDATE embedding_spaces SET complete_ms = :now_ms
WHERE space_no = :space_no AND complete_ms IS NULL
"""

UPDATE_OTHERS_RETIRED = """/* vectors.retire_others */
UPDATE embedding_spaces SET retired_ms = :now_ms
WHERE space_no <> :space_no AND retired_ms IS NULL
RETURNING space_no
"""

UPDATE_REVIVED = """/* vectors.revive */
UPDATE embedding_spaces SET retired_ms = NULL WHERE space_no = :space_no
"""

UPDATE_ABANDONED = """/* vectors.abandon */
UPDATE embedding_spaces SET complete_ms = NULL, retired_ms = :now_ms WHERE space_no = :space_no
"""

SELECT_FIRST_BUCKETS = """/* vectors.first_buckets */
SELECT kind, bucket FROM sketches
WHERE space_no = :space_no
ORDER BY kind, bucket
LIMIT 16
"""

DELETE_SPACE = """/* vectors.delete_space */
DELETE FROM embedding_spaces WHERE space_no = :space_no
"""

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

SELECT_NUMBERS = """/* vectors.list_numbers */
SELECT space_no, model, dim FROM embedding_spaces ORDER BY model, dim, space_no
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


def to_vector(value: bytes | Sequence[float], dim: int) -> bytes:
    """
    Return *value* as a stored vector: `4 * dim` bytes, float32, little-endian.

    Args:
        value: `(dim,)` numbers, or the bytes themselves.
        dim: Components of the space.

    Raises:
        DimensionMismatch: another number of components.
        InvalidInput: a component is NaN or infinite, all are zero, or its
            length is out of float32's range: the distance functions would
            rank such a vector first.
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
    if not MIN_NORM <= norm <= MAX_NORM:
        raise InvalidInput(f"vector has the squared length {norm:.3g}: scale it to length 1")
    return raw


def _float32(value: Sequence[float]) -> array[float]:
    try:
        return array("f", value)
    except (TypeError, OverflowError) as error:
        raise InvalidInput(f"vector is not a sequence of float32 numbers: {error}") from error


class Space(Record):
    """
    A space as it stands in the file.

    Attributes:
        complete: All that the file held had its vector at least once.
        retired: It gets no new vectors, because another took its place.
    """

    space_no: int
    model: str
    dim: int
    complete: bool
    retired: bool


def find_space(tx: Tx, model: str, dim: int) -> Space | None:
    """Return a model's space, None if the file has none. Cost: 10 µs."""
    row = tx.one(SELECT_SPACE, {"model": model, "dim": dim})
    if row is None:
        return None
    space_no, known, components, is_complete, is_retired = row
    return Space(space_no, known, components, bool(is_complete), bool(is_retired))


def add_space(tx: Tx, model: str, dim: int) -> int:
    """Add a space and return its number."""
    row = tx.one(INSERT_SPACE, {"model": model, "dim": dim, "now_ms": tx.now_ms})
    assert row is not None
    return int(row[0])


def list_spaces(tx: Tx) -> tuple[SpaceInfo, ...]:
    """Return every space in the order of their making."""
    return tuple(_space_info(row) for row in tx.all(SELECT_SPACES))


def _space_info(row: Row) -> SpaceInfo:
    model, dim, vectors, is_complete, is_retired, due = row
    state = "ready" if is_complete or not due else "filling"
    return SpaceInfo(model, dim, vectors, "retired" if is_retired else state, due)


def complete(tx: Tx, space_no: int) -> list[int] | None:
    """
    Note that a space has all its vectors, and retire the others.

    Returns:
        The spaces that are retired now; None if it was complete already.
    """
    values = {"space_no": space_no, "now_ms": tx.now_ms}
    if not tx.run(UPDATE_COMPLETE, values):
        return None
    return [row[0] for row in tx.all(UPDATE_OTHERS_RETIRED, values)]


def revive(tx: Tx, space_no: int) -> None:
    """Note that a space gets new vectors again."""
    tx.run(UPDATE_REVIVED, {"space_no": space_no})


def abandon(tx: Tx, space_no: int) -> None:
    """Retire a space that is to be dropped, piece by piece."""
    tx.run(UPDATE_ABANDONED, {"space_no": space_no, "now_ms": tx.now_ms})


def drop_piece(tx: Tx, space_no: int) -> bool:
    """Remove 4,096 vectors of a space; False when it is gone, with all its rows."""
    found = tx.all(SELECT_FIRST_BUCKETS, {"space_no": space_no})
    if not found:
        tx.run(DELETE_SPACE, {"space_no": space_no})
        return False
    kind = found[0][0]
    buckets = [bucket for of, bucket in found if of == kind]
    low, high = buckets[0] << BUCKET_BITS, buckets[-1] << BUCKET_BITS | SLOT_MASK
    delete_range(tx, kind, low, high, space_no)
    return True


def put(tx: Tx, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
    """
    Store the vector of each (ref, vector), replacing an older one.

    The vectors are as `to_vector` returns them. Cost: 30 µs each at 128
    dimensions.
    """
    given = dict(vectors)
    key = {"space_no": space_no, "kind": kind}
    tx.many(INSERT_VECTOR, [{**key, "ref": ref, "vector": v} for ref, v in given.items()])
    by_bucket: dict[int, dict[int, bytes]] = {}
    for ref, vector in given.items():
        slots = by_bucket.setdefault(ref >> BUCKET_BITS, {})
        slots[ref & SLOT_MASK] = sketch_of(vector)
    for bucket, slots in by_bucket.items():
        _put_bucket(
            tx, {**key, "bucket": bucket}, {**_bucket(tx, {**key, "bucket": bucket}), **slots}
        )


def _bucket(tx: Tx, key: dict[str, Any]) -> dict[int, bytes]:
    """Return the sketches of a bucket by slot, {} where it has none."""
    row = tx.one(SELECT_BUCKET, key)
    return {} if row is None else dict(zip(row[0], from_planes(row[1], len(row[0])), strict=True))


def _put_bucket(tx: Tx, key: dict[str, Any], sketches: dict[int, bytes]) -> None:
    slots = sorted(sketches)
    planes = to_planes([sketches[slot] for slot in slots])
    tx.run(INSERT_BUCKET, {**key, "slots": bytes(slots), "planes": planes})


def find(tx: Tx, space_no: int, kind: str, ref: int) -> bytes | None:
    """Return the stored vector of a row, None if it has none."""
    row = tx.one(SELECT_VECTOR, {"space_no": space_no, "kind": kind, "ref": ref})
    return None if row is None else row[0]


def list_numbers(tx: Tx) -> list[tuple[int, str, int]]:
    """Return (number, model, dimension) of every space, by model and dimension."""
    return tx.all(SELECT_NUMBERS)


def list_page(
    tx: Tx, space_no: int, kind: str, after: int, high: int, limit: int
) -> list[tuple[int, bytes]]:
    """Return (ref, vector) of up to *limit* rows with *after* < ref <= *high*, by ref."""
    values = {"space_no": space_no, "kind": kind, "after": after, "high": high, "limit": limit}
    return tx.all(SELECT_PAGE, values)


def present(tx: Tx, space_no: int, kind: str, refs: str) -> set[int]:
    """Return those refs of the JSON array *refs* that have a vector."""
    rows = tx.all(SELECT_PRESENT, {"space_no": space_no, "kind": kind, "refs": refs})
    return {row[0] for row in rows}


def first_missing(tx: Tx, space_no: int, low: int, high: int) -> int | None:
    """Return the first message id in [low, high] with a text and no vector, None without one."""
    row = tx.one(SELECT_FIRST_MISSING, {"space_no": space_no, "low": low, "high": high})
    return None if row is None else int(row[0])


def sketches_match(tx: Tx, space_no: int, kind: str, bucket: int) -> bool:
    """Return whether a bucket holds just the sketches of the stored vectors."""
    key = {"space_no": space_no, "kind": kind}
    low = bucket << BUCKET_BITS
    span = {"low": low, "high": low | SLOT_MASK}
    truth = {ref & SLOT_MASK: sketch_of(v) for ref, v in tx.all(SELECT_SPAN, {**key, **span})}
    return truth == _bucket(tx, {**key, "bucket": bucket})


def delete_range(tx: Tx, kind: str, low: int, high: int, space_no: int | None = None) -> None:
    """Remove the vectors of all refs in [low, high]; in every space, or in one."""
    spaces = [row[0] for row in tx.all(SELECT_SPACE_NOS)] if space_no is None else [space_no]
    for number in spaces:
        key = {"space_no": number, "kind": kind}
        tx.run(DELETE_VECTORS, {**key, "low": low, "high": high})
        _delete_sketches(tx, key, low, high)


def _delete_sketches(tx: Tx, key: dict[str, Any], low: int, high: int) -> None:
    first, last = low >> BUCKET_BITS, high >> BUCKET_BITS
    kept = {
        bucket: {
            slot: bits
            for slot, bits in _bucket(tx, {**key, "bucket": bucket}).items()
            if not low <= bucket << BUCKET_BITS | slot <= high
        }
        for bucket in {first, last}
    }
    tx.run(DELETE_BUCKETS, {**key, "first": first, "last": last})
    for bucket, sketches in kept.items():
        if sketches:
            _put_bucket(tx, {**key, "bucket": bucket}, sketches)
