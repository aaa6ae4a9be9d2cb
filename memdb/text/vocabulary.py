"""
The tokens of cl100k_base in one file, each found without loading the others.

Owns the file `data/cl100k_base.tokens`, made by `bench/pack_vocabularies.py`, the pieces into
which the encoding cuts a text, and the merges of bytes within one piece. A process that counts
English reads 1.3 MB and caches the pieces that it met; tiktoken's encoder takes 75 ms and 30 MB
before its first count. ADR-0024 has the numbers.

Format, little-endian words of 4 bytes: magic, number of tokens N, number of buckets B, number of
blocks. Then the first place of each bucket and the end (B + 1), the ranks by bucket (N), the
beginning of each 16th token, one per block. Then the length of each token, a byte; the tokens by
rank. A token is in the bucket of the lowest bits of its CRC-32.
"""

from __future__ import annotations

import sys
from array import array
from binascii import crc32
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from memdb.text.resources import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAGIC = 0x6D64_6274
HEADER_BYTES = 16
BLOCK = 16
# Of bytes that are no token.
NO_RANK = 1 << 32

# A longer piece is for tiktoken: merging takes 3 µs per byte, and more for a long one.
MAX_PIECE_BYTES = 64

# Pieces that are merged here before tiktoken takes over: together they cost what loading it does.
MAX_MERGED = 4_096

# Pieces that are kept, about 4 MB.
MAX_KEPT = 32_768

# Characters that are the same in every version of Unicode: letters, digits and white space,
# and what is none of these. The long s is missing, which is an "s" to a pattern that ignores case.
_LETTERS = (
    "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e\u0180-\u024f"
    "\u0391-\u03a1\u03a3-\u03f5\u03f7-\u03ff\u0400-\u0481\u048a-\u052f"
)
_DIGITS = "0-9\u00b2\u00b3\u00b9\u00bc-\u00be"
_SPACES = "\t-\r \u0085\u00a0"
_SIGNS = (
    "\u00a1-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2010-\u2027"
    "\u2030-\u203e\u20a0-\u20bf\u2122\u2190-\u22ff\u2500-\u26ff\u2701-\u2775\u2794-\u27bf"
    "\ufe0f\u200d\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff"
)


def _pieces(letters: str, digits: str, spaces: str) -> str:
    """Return the pattern of cl100k_base for these characters; see `memdb.text.tokens`."""
    # Its first two alternatives differ only for what begins with an apostrophe.
    return (
        rf"[^\r\n{letters}{digits}']?[{letters}]++"
        r"|'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])"
        rf"|'[{letters}]++|[{digits}]{{1,3}}+| ?[^{spaces}{letters}{digits}]++[\r\n]*+"
        rf"|[{spaces}]++\Z|[{spaces}]*[\r\n]|[{spaces}]+(?![^{spaces}])|[{spaces}]"
    )


_ASCII_PIECES = _pieces("A-Za-z", "0-9", "\t-\r ")
_EUROPEAN_PIECES = _pieces(_LETTERS, _DIGITS, _SPACES)
_UNKNOWN = f"[^\\x00-\\x7f{_LETTERS}{_DIGITS}{_SPACES}{_SIGNS}]"


class Vocabulary:
    """The tokens of an encoding by rank."""

    __slots__ = ("_blocks", "_buckets", "_content", "_lengths", "_mask", "_ranks", "_start")

    def __init__(self, content: bytes) -> None:
        """
        Read *content*, the file.

        Raises:
            ValueError: the file has another format, or was cut.
        """
        magic, size, buckets, blocks = _words(content.ljust(HEADER_BYTES, b"\0"), 0, 4)
        ranks_at = HEADER_BYTES + 4 * (buckets + 1)
        blocks_at = ranks_at + 4 * size
        lengths_at = blocks_at + 4 * blocks
        self._start = lengths_at + size
        if magic != MAGIC or len(content) < self._start:
            raise ValueError("no vocabulary")
        self._buckets = _words(content, HEADER_BYTES, buckets + 1)
        self._ranks = _words(content, ranks_at, size)
        self._blocks = _words(content, blocks_at, blocks)
        self._lengths = content[lengths_at : self._start]
        last_block = sum(self._lengths[(blocks - 1) * BLOCK :])
        if len(content) != self._start + self._blocks[-1] + last_block:
            raise ValueError("the vocabulary was cut")
        self._mask = buckets - 1
        self._content = content

    def rank(self, token: bytes) -> int:
        """Return the rank of a token, or a large number for other bytes. Cost: 2 µs."""
        bucket = crc32(token) & self._mask
        length, lengths = len(token), self._lengths
        for rank in self._ranks[self._buckets[bucket] : self._buckets[bucket + 1]]:
            if lengths[rank] == length:
                block = rank // BLOCK
                start = self._blocks[block] + sum(lengths[block * BLOCK : rank])
                if self._content.startswith(token, self._start + start):
                    return rank
        return NO_RANK

    def merge(self, piece: bytes) -> int:
        """Return the number of tokens of a piece that is not itself a token. Cost: 50 µs a word."""
        rank = self.rank
        parts = [piece[at : at + 1] for at in range(len(piece))]
        ranks = [rank(piece[at : at + 2]) for at in range(len(piece) - 1)]
        while ranks:
            best = min(ranks)
            if best == NO_RANK:
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            if at:
                ranks[at - 1] = rank(parts[at - 1] + parts[at])
            if at < len(ranks):
                ranks[at] = rank(parts[at] + parts[at + 1])
        return len(parts)

    def ranks(self) -> dict[bytes, int]:
        """Return the rank of every token. Cost: 20 ms."""
        ends = list(accumulate(self._lengths, initial=self._start))
        content = self._content
        return {content[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}


class PieceCounter(dict[str, int]):
    """
    The number of tokens of each piece met so far, and of any new piece on request.

    May be shared between threads.
    """

    __slots__ = ("_count_by_encoder", "_merged", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary, count_by_encoder: Callable[[str], int]) -> None:
        """Look up pieces in *vocabulary*; *count_by_encoder* counts slow ones."""
        super().__init__()
        self._vocabulary = vocabulary
        self._count_by_encoder = count_by_encoder
        self._merged = 0

    def __missing__(self, piece: str) -> int:
        """Count a new piece, and cache the number."""
        token = piece.encode()
        if self._vocabulary.rank(token) != NO_RANK:
            count = 1
        elif len(token) > MAX_PIECE_BYTES:
            return self._count_by_encoder(piece)  # hardly met twice
        elif self._merged < MAX_MERGED:
            self._merged += 1
            count = self._vocabulary.merge(token)
        else:
            count = self._count_by_encoder(piece)
        if len(self) >= MAX_KEPT:
            self.clear()
        self[piece] = count
        return count

    def count(self, text: str) -> int:
        """
        Return the number of tokens of *text*.

        Cost: 8 µs per chat message, once most pieces are cached.
        """
        if text.isascii():
            return sum(map(self.__getitem__, compiled(_ASCII_PIECES).findall(text)))
        if compiled(_UNKNOWN).search(text):
            return self._count_by_encoder(text)
        return sum(map(self.__getitem__, compiled(_EUROPEAN_PIECES).findall(text)))


def _words(content: bytes, start: int, count: int) -> Sequence[int]:
    """Return numbers of 4 bytes."""
    part = memoryview(content)[start : start + 4 * count]
    if sys.byteorder == "little":
        return part.cast("I")
    words = array("I", part.tobytes())
    words.byteswap()
    return words
