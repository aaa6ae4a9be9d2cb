"""
Lists of ids, as the table `words` holds them: 6 bytes for each id, a list per token and block.
"""

from __future__ import annotations

import sys
from array import array
from struct import Struct
from typing import TYPE_CHECKING

from memdb.models.ids import MAX_SEQ, SCOPE_SHIFT, SESSION_NO_MASK, SESSION_SHIFT
from memdb.postgres.binary import SIZE, row_of
from memdb.postgres.tokens import inverted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A list is for 32 sessions and the same 2,048 messages of each, so one of a common word is read
# and written back as some kilobytes; of other kinds for 2,048 numbers.
SESSION_BITS, SEQ_BITS = 5, 11
PART_BITS = SESSION_SHIFT - SEQ_BITS  # what of a block's number says which part of its sessions
MAX_BLOCK = (1 << 31) - 1


# Every archived message has this key too: its row says nothing of what it held.
EVERY = "\x01"


class NewLists:
    """
    Lists that are collected before they are stored.

    Attributes:
        kind: Of their rows.
        size: Of the texts of all of them, in characters.
    """

    __slots__ = ("_blocks", "kind", "size")

    def __init__(self, kind: str) -> None:
        """Begin with none."""
        self.kind = kind
        self.size = 0
        self._blocks: dict[int, list[tuple[int, Sequence[str | None]]]] = {}

    def add(self, ref: int, columns: Sequence[str | None]) -> None:
        """Add the row *ref* with its texts; rising refs."""
        self._blocks.setdefault(block_of(self.kind, ref), []).append((ref, columns))
        self.size += sum([len(column) for column in columns if column])

    def sorted(self) -> list[tuple[bytes, int, bytes]]:
        """Return (key, block, list), as the index has them in order."""
        found = []
        for block, rows in self._blocks.items():
            refs = [ref.to_bytes(8, "big")[2:] for ref, _ in rows]  # as `packed` has them
            if self.kind == "archived":
                found.append((EVERY.encode(), block, b"".join(refs)))
            keys, numbers = inverted([columns for _, columns in rows])
            data, start = b"".join(map(refs.__getitem__, numbers)), 0
            for key, count in keys:
                end = start + 6 * count
                found.append((key, block, data[start:end]))
                start = end
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


def copied_rows(scope_no: int, kind: int, lists: Iterable[tuple[bytes, int, bytes]]) -> list[bytes]:
    """Return what `NewLists.sorted` gave as rows of `words` in the binary format of COPY."""
    start = row_of(5, scope_no.to_bytes(4, "big"), kind.to_bytes(2, "big"))
    size, block_and_size = SIZE.pack, Struct("!iii").pack
    rows = []
    for key, block, data in lists:
        rest = block_and_size(4, block, len(data))
        rows.append(b"".join((start, size(len(key)), key, rest, data)))
    return rows


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
