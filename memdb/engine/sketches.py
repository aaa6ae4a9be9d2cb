"""
Sketches of vectors: one bit per dimension, and the nearest of thousands of them.

The sketches of up to 256 neighbouring refs are stored together as byte planes: plane j contains
byte j of each sketch. For a query, `bytes.translate` turns each plane into the distances of that
byte. The planes are added as long integers, one byte per sketch: a few calls for thousands of
sketches.

Up to 256 dimensions, a differing bit costs the weight of the query's component. Above that every
bit costs 1, because there are enough bits. numpy computes the same sums faster (ADR-0003).
"""

from __future__ import annotations

import sys
from array import array
from itertools import accumulate, pairwise
from math import sqrt
from operator import mul
from typing import TYPE_CHECKING, Any

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import ModuleType

    from memdb.engine.base import Row

# Up to so many dimensions the components of a query are weighed.
MAX_WEIGHED = 256

# All weights of a query together: the largest sum that a byte holds.
TOTAL_WEIGHT = 255

# Planes that are added before a sum is cut to its unit: three words of 64 bits, 192 in all.
PLANES_AT_ONCE = 24

# A process that has compared so many sketches imports numpy: what it saves by then is more
# than the 0.1 s that the import takes.
WORTH_NUMPY = 1_000_000

ONES = [
    int.from_bytes(bytes([byte >> bit & 1 for byte in range(256)]), "little") for bit in range(8)
]
ZEROS = [int.from_bytes(b"\1" * 256, "little") - ones for ones in ONES]

# By signed byte, whether it is above 0.
SIGNS = b"0" + b"1" * 127 + b"0" * 128

# By the highest byte of a float32 that is not 0, the same; and a float32 that is.
HIGH_SIGNS = b"1" * 128 + b"0" * 128
ZERO = bytes(4)

# Translation tables by byte, each made at its first use.
_flipped_tables: dict[int, bytes] = {}


def sketch_of(vector: bytes) -> bytes:
    """
    Return one bit per component, 1 where it is above zero, lowest bit first.

    Args:
        vector: `(dim,)` float32, little-endian.

    Returns:
        `(dim + 7) // 8` bytes, the last padded with 0. The bits are those of sqlite-vec's
        `vec_quantize_binary`. Cost: 2 µs at 128 dimensions, or 8 if one component is zero.
    """
    if ZERO in vector:  # perhaps: the bytes may be those of two neighbours
        bits = bytes([49 if number > 0 else 48 for number in to_numbers(vector)])
    else:
        bits = vector[3::4].translate(HIGH_SIGNS)
    return int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little")


def to_numbers(vector: bytes) -> array[float]:
    """Return the components of a stored float32 vector."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def to_bytes(vector: bytes) -> bytes:
    """
    Return the direction of a float32 vector as signed bytes, the largest 127 or -127.

    The cosine of two such vectors usually differs by 0.0006 from that of the originals. Cost: 10 µs
    at 128 dimensions.
    """
    numbers = to_numbers(vector)
    scale = 127 / max(*numbers, -min(numbers))
    return array("b", [round(number * scale) for number in numbers]).tobytes()


def from_bytes(stored: bytes) -> bytes:
    """Return the float32 vector of length 1 that `to_bytes` turns into *stored* again."""
    numbers = array("b", stored)
    length = sqrt(sum(map(mul, numbers, numbers))) or 1.0
    floats = array("f", [number / length for number in numbers])
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


def sketch_of_bytes(stored: bytes) -> bytes:
    """Return the sketch of a vector of signed bytes; see `sketch_of`. Cost: 1 µs."""
    return int(stored.translate(SIGNS)[::-1] or b"0", 2).to_bytes((len(stored) + 7) // 8, "little")


class Codec(Record):
    """How vectors of a kind are stored: `sketch` takes a stored vector, `encode` float32."""

    encode: Callable[[bytes], bytes]
    decode: Callable[[bytes], bytes]
    sketch: Callable[[bytes], bytes]


# A damaged vector has the sketch of its whole numbers.
FLOATS = Codec(bytes, bytes, lambda stored: sketch_of(stored[: len(stored) // 4 * 4] or bytes(4)))
DIRECTIONS = Codec(to_bytes, from_bytes, sketch_of_bytes)


def codec_of(kind: str) -> Codec:
    """Return how a kind is stored; messages, which are many, as the bytes of their direction."""
    return DIRECTIONS if kind == "message" else FLOATS


def to_planes(sketches: Sequence[bytes]) -> bytes:
    """Return the byte planes of sketches of equal length, plane after plane."""
    joined = b"".join(sketches)
    width = len(sketches[0]) if sketches else 0
    return b"".join([joined[place::width] for place in range(width)])


def from_planes(planes: bytes, count: int) -> list[bytes]:
    """Return the *count* sketches that `to_planes` packed."""
    return [planes[place::count] for place in range(count)]


def weights_of(numbers: Sequence[float]) -> list[int]:
    """
    Return the cost of a wrong bit in each dimension; together `TOTAL_WEIGHT`.

    The cost is the share of the component's size. A rounding error is passed on to the next
    component.

    >>> weights_of([2.0, -1.0, 0.0, 0.5, -0.5])
    [128, 63, 0, 32, 32]
    """
    sums = [0.0, *accumulate(map(abs, numbers))]
    scale = TOTAL_WEIGHT / sums[-1]
    return [int(high + 0.5) - int(low + 0.5) for low, high in pairwise(scale * x for x in sums)]


def tables_of(vector: bytes) -> list[bytes]:
    """
    Return, for each plane, the table that maps a byte of a sketch to its distance.

    Cost: 0.05 ms at 128 dimensions.
    """
    query = sketch_of(vector)
    numbers = to_numbers(vector)
    if len(numbers) > MAX_WEIGHED:
        return [_flipped(byte) for byte in query]
    weights = weights_of(numbers)
    tables = []
    for place, byte in enumerate(query):
        table = 0
        for bit, weight in enumerate(weights[8 * place : 8 * place + 8]):
            table += weight * (ZEROS if byte >> bit & 1 else ONES)[bit]
        tables.append(table.to_bytes(256, "little"))
    return tables


def _flipped(byte: int) -> bytes:
    """Return the table that maps each byte to the number of bits that differ from *byte*."""
    table = _flipped_tables.get(byte)
    if table is None:
        table = _flipped_tables[byte] = bytes([(x ^ byte).bit_count() for x in range(256)])
    return table


def unit_of(dim: int) -> int:
    """Return the number of bits to shift sums, so that any distance fits into a byte."""
    return 0 if dim <= MAX_WEIGHED else max(0, dim.bit_length() - 8)


class SketchIndex:
    """
    The sketches of an id range in memory, for comparing with queries.

    Attributes:
        size: The number of sketches.
    """

    __slots__ = ("_groups", "_planes", "_words", "size")

    compared = 0  # by this process, of all files

    def __init__(self, groups: Sequence[Row], width: int) -> None:
        """
        Store the sketches of rows (id, bucket, slots, planes) of `vector_groups`, by bucket.

        Args:
            width: Number of bytes of a sketch. Rows of another width are damaged; their missing
                bytes are 0.
        """
        self._groups = [(group, bucket << 8, slots) for group, bucket, slots, _ in groups]
        cut = [_cut(planes, len(slots), width) for _, _, slots, planes in groups]
        self.size = sum([len(slots) for _, _, slots in self._groups])
        self._planes = [b"".join(parts) for parts in zip(*cut, strict=True)]
        self._words: Any = None

    @property
    def size_bytes(self) -> int:
        """Number of bytes in memory, words for numpy included."""
        return self.size * (1 + 2 * len(self._planes))

    def nearest(
        self, vector: bytes, wanted: int, span: tuple[int, int], allowed: Collection[int] | None
    ) -> dict[int, int]:
        """
        Return the refs of the *wanted* nearest sketches and of ties with the last one, by id.

        Args:
            vector: `(dim,)` float32.
            span: First and last ref to consider, both inclusive.
            allowed: Only these refs are considered; None means all of the span.

        Cost: 0.6 ms for 10,000 sketches of 128 bits; 4 for 100,000, 1 with numpy.
        """
        SketchIndex.compared += self.size
        mask = self._mask(span, allowed)
        numpy = loaded_numpy()
        if numpy is None:
            places = nearest_places(self._measure(vector), wanted, mask)
        else:
            places = self._nearest_by_numpy(numpy, vector, wanted, mask)
        found, start, rest = {}, 0, iter(places)
        place = next(rest, -1)
        for group, base, slots in self._groups:
            end = start + len(slots)
            while start <= place < end:
                slot = slots[place - start]
                found[group | slot] = base | slot
                place = next(rest, -1)
            start = end
        return found

    def _mask(self, span: tuple[int, int], allowed: Collection[int] | None) -> bytes | None:
        """Return 1 for each place whose ref is considered, else 0; None if all are."""
        low, high = span
        if allowed is None and self._groups:
            (_, first, _), (_, last, _) = self._groups[0], self._groups[-1]  # by bucket
            if low <= first and last | 255 <= high:
                return None
        marks: dict[int, bytearray] = {}
        for ref in allowed or ():
            if low <= ref <= high:
                marks.setdefault(ref & ~255, bytearray(256))[ref & 255] = 1
        parts = []
        for _, base, slots in self._groups:
            if allowed is not None:
                parts.append(slots.translate(marks[base]) if base in marks else bytes(len(slots)))
            elif low <= base and base | 255 <= high:  # all but the ends of a span
                parts.append(b"\1" * len(slots))
            else:
                parts.append(bytes([low <= base | slot <= high for slot in slots]))
        mask = b"".join(parts)
        return mask if b"\0" in mask else None

    def _measure(self, vector: bytes) -> bytes:
        """
        Return the distance of each sketch from *vector*, one byte each.

        Up to 256 dimensions it is the sum of the weights of the bits that differ. Above, it is
        their number in units of 2^k bits, with the smallest k for which all numbers fit into a
        byte.
        """
        tables, unit, total = tables_of(vector), unit_of(len(vector) // 4), 0
        for start in range(0, len(tables), PLANES_AT_ONCE):
            part = 0
            for plane, table in zip(
                self._planes[start : start + PLANES_AT_ONCE], tables[start:], strict=False
            ):
                part += int.from_bytes(plane.translate(table), "little")
            total += (
                int.from_bytes(part.to_bytes(self.size, "little").translate(_shift(unit)), "little")
                if unit
                else part
            )
        return total.to_bytes(self.size, "little")

    def _nearest_by_numpy(
        self, np: ModuleType, vector: bytes, wanted: int, mask: bytes | None
    ) -> list[int]:
        """Return what `nearest_places` of `_measure` returns."""
        if len(vector) // 4 <= MAX_WEIGHED:
            measured = np.zeros(self.size, np.uint8)
            for plane, table in zip(self._planes, tables_of(vector), strict=True):
                measured += np.frombuffer(plane.translate(table), np.uint8)
        else:
            measured = self._measure_words(np, vector)
        counting = measured if mask is None else measured[np.frombuffer(mask, np.bool_)]
        reached = np.cumsum(np.bincount(counting, minlength=256))
        bar = int(np.searchsorted(reached, min(wanted, len(counting))))
        near = measured <= bar
        if mask is not None:
            near &= np.frombuffer(mask, np.bool_)
        return list(np.flatnonzero(near).tolist())

    def _measure_words(self, np: ModuleType, vector: bytes) -> Any:
        """Return what `_measure` returns, computed from words of 64 bits."""
        words = -(-len(self._planes) // 8)
        if self._words is None:
            planes = np.zeros((words * 8, self.size), np.uint8)
            for place, plane in enumerate(self._planes):
                planes[place] = np.frombuffer(plane, np.uint8)
            by_word = planes.reshape(words, 8, self.size).transpose(0, 2, 1)
            self._words = np.ascontiguousarray(by_word).view(np.uint64)[:, :, 0]
        query = np.frombuffer(sketch_of(vector).ljust(words * 8, b"\0"), np.uint64)
        unit, total = unit_of(len(vector) // 4), np.zeros(self.size, np.uint8)
        for start in range(0, words, PLANES_AT_ONCE // 8):
            part = np.zeros(self.size, np.uint8)
            for word in range(start, min(start + PLANES_AT_ONCE // 8, words)):
                part += np.bitwise_count(self._words[word] ^ query[word])
            total += part >> unit
        return total


def _cut(planes: bytes, count: int, width: int) -> list[bytes]:
    """Return the *width* planes of a group of *count* sketches; missing bytes are 0."""
    planes = planes.ljust(width * count, b"\0")
    return [planes[at : at + count] for at in range(0, width * count, count)]


def _shift(unit: int) -> bytes:
    return bytes([x >> unit for x in range(256)])


def nearest_places(measured: bytes, wanted: int, mask: bytes | None = None) -> list[int]:
    """
    Return the places of the *wanted* smallest distances, in rising order.

    Places that tie with the last one are included, so the result does not
    depend on their order.

    Args:
        measured: The distance of each place.
        wanted: How many.
        mask: 1 for each place that counts, 0 for the others; None means all.
    """
    if mask is not None:
        # What does not count is the farthest, and the last distance is not asked for.
        far = int.from_bytes(mask.translate(b"\xff\0" + bytes(254)), "little")
        whole = int.from_bytes(measured, "little") | far
        measured = whole.to_bytes(len(measured), "little")
    counting = len(measured) if mask is None else mask.count(1)
    # The least distance up to which there are enough.
    wanted, bar, most = min(wanted, counting), -1, 255
    while wanted and bar + 1 < most:
        middle = (bar + most) // 2
        taken = len(measured) - len(measured.translate(None, bytes(range(middle + 1))))
        bar, most = (bar, middle) if taken >= wanted else (middle, most)
    bar = most if wanted else -1
    near = measured.translate(b"\1" * (bar + 1) + bytes(255 - bar))
    places, place = [], near.find(1)
    while place >= 0:
        places.append(place)
        place = near.find(1, place + 1)
    return places if mask is None else [place for place in places if mask[place]]


def loaded_numpy() -> ModuleType | None:
    """Return numpy if it is imported or worth its import, else None; None also before numpy 2."""
    module = sys.modules.get("numpy")
    if module is None and SketchIndex.compared > WORTH_NUMPY:
        try:
            module = __import__("numpy")  # importlib is two modules more to load
        except ImportError:
            SketchIndex.compared = -(1 << 62)  # do not search for it again
    return module if hasattr(module, "bitwise_count") else None
