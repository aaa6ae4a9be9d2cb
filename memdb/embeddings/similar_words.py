"""
Words of similar meaning, by the table of the static embedder.

One query word is compared with a few thousand words of texts at once: byte j of
all their rows is one plane, a 256-byte translation turns it into the products
with byte j of the query word, and the planes are added as long integers of two
byte lanes. Exact integer arithmetic, no numpy; a table row is 64 bytes, two
components each, as `data/build_static_en.py` says.
"""

from __future__ import annotations

from itertools import chain
from math import sqrt
from typing import TYPE_CHECKING, Final

from memdb.embeddings.static_model import table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_ROW_BYTES: Final = 64
_OFFSET: Final = 8
# The product of two pairs of levels from -7 to 7 is -98 to 98; a translation
# holds it plus 98, and a sum of 64 fits 16 bits.
_SHIFT: Final = 98

_products: dict[int, bytes] = {}


def similar_words(
    words: Sequence[str], others: Collection[str], floor: float
) -> dict[str, dict[str, float]]:
    """
    Return for each of *words* those of *others* that are near it in meaning.

    Args:
        words: Lower case, as `words_of` gives them; those that are not in the
            table as a whole have no neighbours.
        others: Same. Each once.
        floor: Cosines up to this say nothing, 0 to 1.

    Returns:
        Cosines over *floor*, at most 1, by word and other; a word is not its
        own neighbour, and one without neighbours is left out.

    Cost: 1 ms for 2,000 others, and 0.3 ms for each word.
    """
    row_of, rows = table().row_of, table().rows
    known = [word for word in others if word in row_of]
    asked = [word for word in words if word in row_of]
    if not known or not asked:
        return {}
    packed = b"".join([_row(rows, row_of[word]) for word in known])
    planes = [packed[place::_ROW_BYTES] for place in range(_ROW_BYTES)]
    lengths = [sqrt(square) for square in _sums(planes, [_squares()] * _ROW_BYTES, 0)]
    shortest = min(lengths)
    found: dict[str, dict[str, float]] = {}
    for word in asked:
        row = _row(rows, row_of[word])
        own = sqrt(sum(_squares()[byte] for byte in row))
        dots = _sums(planes, [_products_of(byte) for byte in row], _SHIFT * _ROW_BYTES)
        least = floor * own * shortest
        near = {}
        for place, dot in enumerate(dots):
            if dot > least and known[place] != word:
                cosine = dot / (own * lengths[place])
                if cosine > floor:
                    near[known[place]] = min(cosine, 1.0)
        if near:
            found[word] = near
    return found


def _row(rows: bytes, number: int) -> bytes:
    return rows[number * _ROW_BYTES : (number + 1) * _ROW_BYTES]


def _sums(planes: Sequence[bytes], tables: Sequence[bytes], less: int) -> list[int]:
    """Return for each place the sum of its translated planes, minus *less*."""
    count = len(planes[0])
    mask = int.from_bytes(b"\xff\x00" * ((count + 1) // 2), "little")
    even = odd = 0
    for plane, products in zip(planes, tables, strict=True):
        lanes = int.from_bytes(plane.translate(products), "little")
        even += lanes & mask
        odd += (lanes >> 8) & mask
    size = 2 * ((count + 1) // 2)
    both = zip(_lanes(even, size), _lanes(odd, size), strict=True)
    return [lane - less for lane in chain.from_iterable(both)][:count]


def _lanes(total: int, size: int) -> Sequence[int]:
    from array import array
    from sys import byteorder

    lanes = array("H", total.to_bytes(size, "little"))
    if byteorder == "big":
        lanes.byteswap()
    return lanes


def _levels(byte: int) -> tuple[int, int]:
    """Return the two components that a byte of the table holds."""
    return (byte >> 4) - _OFFSET, (byte & 15) - _OFFSET


def _products_of(byte: int) -> bytes:
    """Return the products of *byte*'s components with those of every byte, each plus `_SHIFT`."""
    if byte not in _products:
        high, low = _levels(byte)
        pairs = [_levels(other) for other in range(256)]
        # Level -8 stands in no row; its products would not fit.
        _products[byte] = bytes(
            [max(0, min(255, high * first + low * second + _SHIFT)) for first, second in pairs]
        )
    return _products[byte]


def _squares() -> bytes:
    """Return the squared length of every byte's two components."""
    if -1 not in _products:
        _products[-1] = bytes(
            [sum(level * level for level in _levels(byte)) for byte in range(256)]
        )
    return _products[-1]
