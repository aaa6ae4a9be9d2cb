"""
Search for many byte strings at once, in time that hardly depends on their number.

`bytes.find` looks for one string at 3 GB/s, so 500 of them take 0.2 s per MB. Here 8 bytes at
regular distances are compared with all 8-byte words of the strings.
"""

from __future__ import annotations

import sys
from array import array
from itertools import compress, count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WORD_BYTES = 8

# Shorter strings are found one by one.
LONG_BYTES = 32


class ByteSearch:
    """Finds which of some byte strings are in some data."""

    def __init__(self, wanted: Iterable[bytes]) -> None:
        """Prepare the search of *wanted*. Cost: 10 µs per string."""
        self._short: list[bytes] = []
        self._by_word: dict[int, list[tuple[bytes, int]]] = {}
        long: list[bytes] = []
        for one in wanted:
            (long if len(one) >= LONG_BYTES else self._short).append(one)
        # A string of n bytes holds a word that begins at a multiple of this, wherever it stands.
        least = min(map(len, long), default=LONG_BYTES)
        self._stride = (least - WORD_BYTES + 1) // WORD_BYTES
        for one in long:
            for at in range(self._stride * WORD_BYTES):
                word = int.from_bytes(one[at : at + WORD_BYTES], sys.byteorder)
                self._by_word.setdefault(word, []).append((one, at))
        self._words = frozenset(self._by_word)  # asked twice as fast as the keys of a dict

    def find(self, data: bytes) -> set[bytes]:
        """Return which strings *data* contains. Cost: 5 ms per MB if all strings are long."""
        found = {one for one in self._short if one in data}
        if self._words:
            words = array("Q")
            words.frombytes(memoryview(data)[: len(data) // WORD_BYTES * WORD_BYTES])
            some = words[:: self._stride]
            if not self._words.isdisjoint(some):
                for number in compress(count(), map(self._words.__contains__, some)):
                    start = number * self._stride * WORD_BYTES
                    for one, at in self._by_word[some[number]]:
                        if at <= start and data.startswith(one, start - at):
                            found.add(one)
        return found
