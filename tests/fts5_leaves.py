"""
The terms that the leaves of an FTS5 index hold, read without FTS5: also of removed rows.

Source: https://www.sqlite.org/fts5.html, https://sqlite.org/src/file/ext/fts5/fts5_index.c
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INDEXES = ("messages", "archived", "entries", "summaries", "artifacts", "items", "sessions")

# A leaf has the id (segment << 37) + page; in other pages some of the bits between are set.
PAGE_BITS, OTHER_PAGES = 31, 63


def read_terms(ask: Callable[[str], list[Any]], index: str) -> set[str]:
    """Return every term of the leaves of an index; *ask* runs SQL."""
    rows = ask(f"SELECT id, block FROM {index}_fts_data WHERE id > 10")
    leaves = (block for row_id, block in rows if not row_id >> PAGE_BITS & OTHER_PAGES)
    return {term[1:].decode(errors="replace") for leaf in leaves for term in leaf_terms(leaf)}


def read_keys(ask: Callable[[str], list[Any]], index: str) -> set[str]:
    """Return the keys by which the leaves of an index are found: beginnings of terms."""
    rows = ask(f"SELECT term FROM {index}_fts_idx")
    return {bytes(key)[1:].decode(errors="replace") for (key,) in rows if key}


def leaf_terms(leaf: bytes) -> Iterator[bytes]:
    """
    Yield the terms of a leaf, each with the letter of its index.

    After two bytes the header has where the terms end; there stand the places of all, each as the
    distance from the one before. A term is the length that it shares with the one before, but for
    the first, its other length, and its other bytes.
    """
    end = index = int.from_bytes(leaf[2:4], "big")
    place = shared = 0
    term = b""
    while index < len(leaf):
        step, index = varint(leaf, index)
        place += step
        at = place
        if term:
            shared, at = varint(leaf, at)
        size, at = varint(leaf, at)
        assert shared <= len(term), "a term is cut"
        assert at + size <= end, "a term is cut"
        term = term[:shared] + leaf[at : at + size]
        yield term


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of up to nine bytes, and where it ends."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9
