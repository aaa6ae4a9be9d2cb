"""
Lists of ids, as the table `words` holds them: 6 bytes for each id, a list per token and block.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict

from memdb.models.ids import MAX_SEQ, SCOPE_SHIFT, SESSION_NO_MASK, SESSION_SHIFT

# A list is for 32 sessions and the same 2,048 messages of each, so one of a common word is read
# and written back as some kilobytes; of other kinds for 2,048 numbers.
SESSION_BITS, SEQ_BITS = 5, 11
PART_BITS = SESSION_SHIFT - SEQ_BITS  # what of a block's number says which part of its sessions
MAX_BLOCK = (1 << 31) - 1


class NewLists:
    """
    Lists that are collected before they are stored.

    Attributes:
        kind: Of their rows.
        count: Of the ids in all of them.
    """

    __slots__ = ("_lists", "count", "kind")

    def __init__(self, kind: str) -> None:
        """Begin with none."""
        self.kind = kind
        self.count = 0
        self._lists: dict[int, defaultdict[str, bytearray]] = {}

    def add(self, ref: int, keys: set[str]) -> None:
        """Add the row *ref*, which holds *keys*; rising refs."""
        block = block_of(self.kind, ref)
        lists = self._lists.get(block)
        if lists is None:
            lists = self._lists[block] = defaultdict(bytearray)
        data = packed([ref])
        for key in keys:
            lists[key] += data
        self.count += len(keys)

    def sorted(self) -> list[tuple[str, int, bytes]]:
        """Return (key, block, list), as the index has them in order."""
        found = [
            (key, block, bytes(data))
            for block, lists in self._lists.items()
            for key, data in lists.items()
        ]
        found.sort()
        return found


def block_of(kind: str, ref: int) -> int:
    """Return in which lists of its scope and kind the row with id *ref* stands."""
    if kind in ("message", "archived"):
        session_no = ref >> SESSION_SHIFT & SESSION_NO_MASK
        return session_no >> SESSION_BITS << PART_BITS | (ref & MAX_SEQ) >> SEQ_BITS
    if kind == "session":
        return (ref >> SESSION_SHIFT & SESSION_NO_MASK) >> SEQ_BITS
    return min((ref & (1 << SCOPE_SHIFT) - 1) >> SEQ_BITS, MAX_BLOCK)


def packed(refs: list[int]) -> bytes:
    """Return ids as a list holds them: 6 bytes each, the first ones left out."""
    return b"".join([ref.to_bytes(8, "big")[2:] for ref in refs])


def refs_of(scope_no: int, data: bytes) -> list[int]:
    """Return the ids of *scope_no* that `packed` gave. Cost: 25 ns for each."""
    count = len(data) // 6
    whole = bytearray(8 * count)
    start = (scope_no << SCOPE_SHIFT).to_bytes(8, "big")
    for place in range(2):
        whole[place::8] = start[place : place + 1] * count
    for place in range(6):
        whole[place + 2 :: 8] = data[place::6]
    refs = array("q", bytes(whole))
    if sys.byteorder == "little":
        refs.byteswap()
    return refs.tolist()
