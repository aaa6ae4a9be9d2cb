"""
Sketches of vectors: one bit per dimension, and the nearest of thousands of them.

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
    from collections.abc import Sequence

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
