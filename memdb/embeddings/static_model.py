"""
The default embedder: a table of word-piece vectors, no model, no numpy.

Owns `data/static_en.bin` (made by `bench/build_static_en.py`). A text's vector
is the weighted sum of its words' rows, scaled to length 1. Importing this
module reads nothing; the first text does, once per process (0.015 s, 5 MB).

The sum is exact integer arithmetic, so the same text gives the same bytes on
every machine. A row is one big integer with 32 bits per component; each holds
the component plus 8, so none is negative and none carries into the next:
65,536 pieces x weight 255 x 15 stays below 2**32.

Words of similar meaning come from the same table. One query word is compared
with a few thousand words of texts at once. Byte j of all their rows is one plane.
A 256-byte translation turns it into the products with byte j of the query word.
The planes are added as long integers of two bytes each.
"""

from __future__ import annotations

import struct
import unicodedata
from array import array
from functools import lru_cache
from hashlib import blake2b
from math import log, sqrt
from operator import mul
from sys import byteorder
from threading import Lock
from typing import TYPE_CHECKING

from memdb.models.record import Record
from memdb.text.resources import compiled, read_bytes
from memdb.text.terms import STOP_WORDS
from memdb.text.vocabulary import NO_RANK, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

_DIM = 128
_LANES = struct.Struct(f"<{_DIM}I")
_FLOATS = struct.Struct(f"<{_DIM}f")
_OFFSET = 8
_LONGEST_PIECE = 18
_HEX_TO_LEVEL = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))
_BIT_TO_LEVEL = bytes.maketrans(b"01", bytes([_OFFSET - 4, _OFFSET + 4]))

_MAX_CHARS = 65_536
_CACHED_WORDS = 4_096
_CACHED_ROWS = 2_048
# One n-gram weighs about a quarter of the heaviest word: a word of another
# script then counts about as much as an English one.
_GRAM_WEIGHT = 64
_GRAM_SIZES = (2, 3, 4)
_GRAM_SIZES_CJK = (1, 2)
_FIRST_CJK = "\u2e80"

# A word is a run of ASCII letters and digits, or one of anything else that is
# a letter or digit (with the vowel signs of Indic scripts, Thai and Lao, which
# Python does not count as letters). Longer runs are cut every 32 characters.
_WORD = r"[a-z0-9]{1,32}|(?:[^\W_a-z0-9]|[\u0900-\u0963\u0966-\u0dff\u0e30-\u0ecf]){1,32}"
# Of ASCII the pattern takes letters, in lower case, and digits.
WORD_CHARS = 32
_WORD_BYTES = bytes(
    byte if chr(byte).isalnum() else 32 for byte in bytes(range(128)).lower()
).ljust(256)
_ASCII_FOR = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ł": "l",
        "þ": "th",
        "\u0131": "i",
    }
)


# What `Rows` gives for a piece that is not in the table, and how many pieces it keeps.
NO_ROW = -1
_KEPT_PIECES = 32_768

# Pieces that are asked for before the whole table is read for their beginnings, which takes 30 ms.
_MANY_ASKED = 4_096
_BEGINNING = 2


class Rows(dict[str, int]):
    """Row number by piece, `NO_ROW` without one; found in the file when it is asked for."""

    __slots__ = ("_asked", "_longest", "_pieces")

    def __init__(self, pieces: Vocabulary) -> None:
        """Look up in *pieces*."""
        super().__init__()
        self._pieces = pieces
        self._asked = 0
        self._longest: dict[str, int] = {}

    def longest(self, prefix: str, beginning: str) -> int:
        """Return how many characters a piece with that beginning has at most: 1 to 18."""
        if self._longest:
            return self._longest.get(prefix + beginning, 1)
        self._asked += 1
        if self._asked >= _MANY_ASKED:
            longest: dict[str, int] = {}
            for piece in self._pieces.ranks():
                first = 2 * piece.startswith(b"##")
                begins = piece[: first + _BEGINNING].decode()
                longest[begins] = max(longest.get(begins, 1), len(piece) - first)
            self._longest = longest
        return _LONGEST_PIECE

    def __missing__(self, piece: str) -> int:
        """Find a piece, and keep what was found."""
        rank = self._pieces.rank(piece.encode("utf-8", "surrogatepass"))
        row = NO_ROW if rank == NO_RANK else rank
        if len(self) >= _KEPT_PIECES:
            self.clear()
        self[piece] = row
        return row


class Table(Record):
    """The table file: row number by piece, number of rows, weights, 4-bit rows."""

    row_of: Rows
    count: int
    weights: bytes
    rows: bytes


class StaticEmbedder:
    """
    Embeds English text with a table of 27,558 word pieces in 128 dimensions.

    Upper case and accents do not matter, nor does the order of the words, and
    stop words count little. A chat message takes about 0.05 ms. Only the first
    65,536 characters of a text count.

    Words in other scripts are not in the table. Each becomes the sum of
    pseudo-random vectors for its runs of 2 to 4 characters (1 to 2 in Chinese
    and Japanese). So texts that share words or parts of words are near each
    other, but no meaning is known. `covers` returns which case a text is.

    May be shared between threads. The embedder keeps the sums of the last 4,096 distinct
    words or fewer, about 2.5 MB.

    >>> vector, nothing = StaticEmbedder().embed(["green tea", "?!"])
    >>> len(vector), nothing
    (512, None)
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Make an embedder; the table is read at the first text."""
        self._known: dict[str, tuple[int, int]] = {}

    @property
    def name(self) -> str:
        """Always "static-en-1"; another table gets another name."""
        return "static-en-1"

    @property
    def dim(self) -> int:
        """The number of components, 128."""
        return _DIM

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """
        Return one vector per text, in order.

        Returns:
            `(128,)` little-endian float32 as 512 bytes, of length 1; None for
            a text without a letter or digit.
        """
        return [self._vector(text) for text in texts]

    def covers(self, text: str) -> bool:
        """
        Return whether at least half of the words in *text* are in the table.

        If not, its vector says little about its meaning, and a search should
        rely on words instead. False for a text without words.
        """
        words = words_of(text)
        row_of = table().row_of
        return bool(words) and 2 * sum(row_of[word] != NO_ROW for word in words) >= len(words)

    def _vector(self, text: str) -> bytes | None:
        """Return the vector of *text*, or None if it has no words."""
        known = self._known
        total = 0
        weight = 0
        for word in words_of(text):
            row, word_weight = known.get(word) or self._learn(word)
            total += row
            weight += word_weight
        zero = _OFFSET * weight
        components = [lane - zero for lane in _LANES.unpack(total.to_bytes(4 * _DIM, "little"))]
        square = sum(map(mul, components, components))
        if square == 0:
            return None
        scale = 1 / sqrt(square)
        return _FLOATS.pack(*[component * scale for component in components])

    def _learn(self, word: str) -> tuple[int, int]:
        """Return the weighted row of *word* and its weight, and keep them."""
        found = _sum_of_pieces(word, table()) if word.isascii() else _sum_of_grams(word)
        if len(self._known) >= _CACHED_WORDS:
            # Starting over costs less than keeping an order of use.
            self._known.clear()
        self._known[word] = found
        return found


def words_of(text: str) -> list[str]:
    """Return the words of *text*, lower case, without accents."""
    text = text[:_MAX_CHARS]
    if not text.isascii():
        # Decomposing may lengthen a text 18 times, so it is cut again.
        letters = unicodedata.normalize("NFKD", text)[:_MAX_CHARS]
        text = "".join([letter for letter in letters if not unicodedata.combining(letter)])
        return compiled(_WORD).findall(text.lower().translate(_ASCII_FOR)[:_MAX_CHARS])
    words = text.encode().translate(_WORD_BYTES).decode().split()  # a third of the pattern's time
    return (
        words
        if max(map(len, words), default=0) <= WORD_CHARS
        else compiled(_WORD).findall(text.lower())
    )


def _sum_of_pieces(word: str, table: Table) -> tuple[int, int]:
    """
    Return the weighted sum of the rows of *word*'s pieces, and their weight.

    Pieces are taken greedily from the left, longest first, as BERT does. Each
    ASCII letter and digit is a piece, so there is always a way through.
    """
    total = 0
    weight = 0
    start = 0
    prefix = ""
    while start < len(word):
        beginning = word[start : start + _BEGINNING]
        end = min(len(word), start + table.row_of.longest(prefix, beginning))
        while (row := table.row_of[prefix + word[start:end]]) == NO_ROW:
            end -= 1
        total += _weighted_row(row)
        weight += table.weights[row]
        start = end
        prefix = "##"
    return total, weight


@lru_cache(_CACHED_ROWS)
def _weighted_row(row: int) -> int:
    """Return a row times its weight, as `_add_levels` does; pieces of numbers and ids recur."""
    found = table()
    levels = found.rows[row * _DIM // 2 : (row + 1) * _DIM // 2].hex().encode()
    return found.weights[row] * _add_levels(levels.translate(_HEX_TO_LEVEL))


def _sum_of_grams(word: str) -> tuple[int, int]:
    """Return the weighted sum of the vectors of *word*'s n-grams, and their weight."""
    sizes = _GRAM_SIZES if word < _FIRST_CJK else _GRAM_SIZES_CJK
    grams = [word[i : i + size] for size in sizes for i in range(len(word) - size + 1)] or [word]
    total = 0
    for gram in grams:
        digest = blake2b(gram.encode(), digest_size=_DIM // 8).digest()
        bits = f"{int.from_bytes(digest, 'big'):0{_DIM}b}".encode()
        total += _add_levels(bits.translate(_BIT_TO_LEVEL))
    return _GRAM_WEIGHT * total, _GRAM_WEIGHT * len(grams)


def _add_levels(levels: bytes) -> int:
    """Return *levels*, one byte per component, as an integer with 32-bit lanes."""
    spread = bytearray(4 * _DIM)
    spread[::4] = levels
    return int.from_bytes(spread, "little")


_loaded: list[Table] = []
_loading = Lock()


def table() -> Table:
    """Return the table, read at most once per process."""
    if not _loaded:
        with _loading:
            if not _loaded:
                _loaded.append(_read_table())
    return _loaded[0]


def _read_table() -> Table:
    """Read the table file; its format is in `bench/build_static_en.py`."""
    data = read_bytes(__file__, "data/static_en.bin")
    sizes_start = data.index(b"\n") + 1
    count = int(data[sizes_start : data.index(b" ", sizes_start)])
    rows_start = len(data) - count * _DIM // 2
    weights_start = rows_start - count
    row_of = Rows(Vocabulary(read_bytes(__file__, "data/static_en.pieces")))
    return Table(row_of, count, data[weights_start:rows_start], data[rows_start:])


# Rows are in the order of BERT's vocabulary, which is that of frequency in English.
_COMMONEST = 20


def rarity(word: str) -> float:
    """
    Return how rare a word is in English, 0.06 to 1; 1 for what is not in the table.

    >>> [round(rarity(word), 2) for word in ("time", "eat", "allergic", "tungsten")]
    [0.25, 0.67, 0.99, 1.0]
    """
    row = table().row_of[word]
    if row == NO_ROW:
        return 1.0
    return min(1.0, log((row + 30) / _COMMONEST) / log(table().count / _COMMONEST))


_ROW_BYTES = 64
# The product of two pairs of levels from -7 to 7 is -98 to 98; a translation
# holds it plus 98, and a sum of 64 fits 16 bits.
_SHIFT = 98
_SHIFTS = _SHIFT * _ROW_BYTES
_LEVELS = (-7, *range(-7, 8))  # -8 stands in no row; its products would not fit

_products: dict[int, bytes] = {}


def rows_of(text: str) -> AbstractSet[int]:
    """Return the rows of the table for the words of *text*, each once, without stop words."""
    return set(map(table().row_of.__getitem__, set(words_of(text)))) - _stop_rows()


def near_rows(
    words: Sequence[str], rows: Collection[int], floor: float
) -> dict[str, dict[int, float]]:
    """
    Return for each of *words* those of *rows* that are near it in meaning.

    Args:
        words: Lower case, as `words_of` gives them; those that are not in the
            table as a whole have no neighbours.
        rows: Rows of the words to compare with, each once, as `rows_of` gives them.
        floor: Cosines up to this say nothing, 0 to 1.

    Returns:
        Cosines over *floor*, at most 1, by word and row; a word is not its
        own neighbour, and one without neighbours is left out.

    Cost: 1 ms for 2,000 rows, and 0.3 ms for each word.
    """
    row_of, data = table().row_of, table().rows
    asked = [word for word in words if row_of[word] != NO_ROW]
    if not rows or not asked:
        return {}
    known = list(rows)
    packed = b"".join([_row(data, row) for row in known])
    planes = [packed[place::_ROW_BYTES] for place in range(_ROW_BYTES)]
    lengths = [*map(sqrt, _sums(planes, [_squares()] * _ROW_BYTES))]
    shortest = min(lengths)
    found: dict[str, dict[int, float]] = {}
    for word in asked:
        row = _row(data, row_of[word])
        own = sqrt(sum(_squares()[byte] for byte in row))
        sums = _sums(planes, [_products_of(byte) for byte in row])
        least = floor * own * shortest + _SHIFTS
        near = {}
        for place, shifted in enumerate(sums):
            if shifted > least and known[place] != row_of[word]:
                cosine = (shifted - _SHIFTS) / (own * lengths[place])
                if cosine > floor:
                    near[known[place]] = min(cosine, 1.0)
        if near:
            found[word] = near
    return found


def _stop_rows() -> frozenset[int]:
    if not _stops:
        row_of = table().row_of
        _stops.append(frozenset([NO_ROW, *(row_of[word] for word in STOP_WORDS)]))
    return _stops[0]


_stops: list[frozenset[int]] = []


def _row(rows: bytes, number: int) -> bytes:
    return rows[number * _ROW_BYTES : (number + 1) * _ROW_BYTES]


def _sums(planes: Sequence[bytes], tables: Sequence[bytes]) -> Sequence[int]:
    """Return for each place the sum of its translated planes."""
    half = (len(planes[0]) + 1) // 2
    mask = int.from_bytes(b"\xff\x00" * half, "little")
    even = total = 0
    for plane, products in zip(planes, tables, strict=True):
        lanes = int.from_bytes(plane.translate(products), "little")
        even += lanes & mask
        total += lanes
    sums = array("H", bytes(4 * half))
    for first, lanes in enumerate((even, (total - even) >> 8)):
        part = array("H", lanes.to_bytes(2 * half, "little"))
        if byteorder == "big":
            part.byteswap()
        sums[first::2] = part
    return sums[: len(planes[0])]


def _levels(byte: int) -> tuple[int, int]:
    """Return the two components that a byte of the table holds."""
    return (byte >> 4) - _OFFSET, (byte & 15) - _OFFSET


def _products_of(byte: int) -> bytes:
    """Return the products of *byte*'s components with those of every byte, each plus `_SHIFT`."""
    if byte not in _products:
        high, low = _levels(byte)
        firsts = [high * level for level in _LEVELS]
        seconds = [low * level + _SHIFT for level in _LEVELS]
        _products[byte] = bytes([first + second for first in firsts for second in seconds])
    return _products[byte]


def _squares() -> bytes:
    """Return the squared length of every byte's two components."""
    if -1 not in _products:
        _products[-1] = bytes(
            [sum(level * level for level in _levels(byte)) for byte in range(256)]
        )
    return _products[-1]
