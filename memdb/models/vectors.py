"""
Vectors as float32, made of what an embedder or a caller gave.

A recall needs this and none of `memdb.models.reports`.
"""

from __future__ import annotations

import sys
from array import array
from math import isfinite
from operator import mul
from typing import TYPE_CHECKING

from memdb.errors import DimensionMismatch, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

# Squared lengths that float32 sums can hold without overflow or loss; outside
# them a cosine is no number.
MIN_NORM = 1e-30
MAX_NORM = 1e38

# Components of a vector.
MAX_DIM = 65_536


def to_vector(value: bytes | Sequence[float], dim: int) -> bytes:
    """
    Return *value* as `4 * dim` bytes: float32, little-endian.

    The engine stores those of messages as `dim` signed bytes (schema.sql, the table vectors).

    Args:
        value: `(dim,)` numbers, or the bytes themselves.
        dim: Components of the space.

    Raises:
        DimensionMismatch: another number of components.
        InvalidInput: a component is NaN or infinite, all are zero, or its length is out of
            float32's range. The distance functions would rank such a vector first.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        if len(raw) % 4:
            raise InvalidInput(f"vector has {len(raw)} bytes: give 4 bytes (float32) per dimension")
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
    norm = sum(map(mul, numbers, numbers))
    if not isfinite(norm):
        raise InvalidInput("vector has a component that is NaN or infinite: check the embedder")
    if norm == 0:
        raise InvalidInput(
            "vector consists of zeros, so it has no direction: give None for such a text"
        )
    if not MIN_NORM <= norm <= MAX_NORM:
        raise InvalidInput(f"vector has the squared length {norm:.3g}: scale it to length 1")
    return raw


def _float32(value: Sequence[float]) -> array[float]:
    try:
        return array("f", value)
    except (TypeError, OverflowError) as error:
        raise InvalidInput(f"vector is not a sequence of float32 numbers: {error}") from error
