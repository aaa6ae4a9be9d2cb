"""
Bytes of a SQLite file that belong to no row: free pages, gaps inside pages, ends of long rows.

Bytes that the format does not explain count as dead, so nothing is overlooked. A proof of
forgetting searches these bytes for every piece, and the rows by SQL (ADR-0035). Source:
https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from memdb.engine.sqlite.wal_file import MAX_PAGE_BYTES
from memdb.rescue.pages import (
    HEADER_BYTES,
    INNER_INDEX,
    INNER_TABLE,
    LEAF_INDEX,
    LEAF_TABLE,
    pointer_pages,
)
from memdb.text.validate import SQLITE_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Read = Callable[[int, int], bytes]

# Of a page: its kind, its first free block, its number of cells, where they begin.
_PAGE = struct.Struct(">BHHH")
_PAIR = struct.Struct(">HH")
_LONG_PAIR = struct.Struct(">II")
_NUMBER = struct.Struct(">I")

LEAF_HEADER, INNER_HEADER = 8, 12
_HEADERS = {
    LEAF_TABLE: LEAF_HEADER,
    LEAF_INDEX: LEAF_HEADER,
    INNER_TABLE: INNER_HEADER,
    INNER_INDEX: INNER_HEADER,
}
OVERFLOW_KIND = 0  # the first byte of the number of the next page
MIN_PAGE_BYTES = 512


class DeadBytes:
    """
    Finds the dead bytes in the pages of one file.

    Attributes:
        page_bytes: Size of a page.
    """

    def __init__(self, read: Read, size: int, roots: Iterable[int] = ()) -> None:
        """
        Read header and free list of a file of *size* bytes; *read* takes offset and length.

        Args:
            roots: First pages of the tables whose rows need no search.

        Raises:
            ValueError: the pages do not follow the format.
        """
        header = read(0, HEADER_BYTES) if size >= HEADER_BYTES else b""
        page_bytes = int.from_bytes(header[16:18], "big")
        self.page_bytes = MAX_PAGE_BYTES if page_bytes == 1 else page_bytes
        if header[:16] != SQLITE_MAGIC or self.page_bytes < MIN_PAGE_BYTES:
            raise ValueError("the file has no header of a plain SQLite file")
        self._unused = header[20]
        self._count = -(-size // self.page_bytes)
        self._read = read
        self._headers = struct.Struct(f"{_PAGE.format}{self.page_bytes - _PAGE.size}x").iter_unpack
        self._free = self._read_free_list(int.from_bytes(header[32:36], "big"))
        if header[52:56] != bytes(4):  # auto_vacuum: some pages hold no row either
            self._free |= pointer_pages(self.page_bytes, self._unused, self._count)
        self._leaves = {leaf for root in roots for leaf in self._list_leaves(root)}

    def _page(self, number: int) -> bytes:
        if not 1 <= number <= self._count:
            raise ValueError(f"there is no page {number}")
        return self._read((number - 1) * self.page_bytes, self.page_bytes)

    def _read_free_list(self, trunk: int) -> set[int]:
        found: set[int] = set()
        while trunk:
            if trunk in found:
                raise ValueError("the list of free pages does not end")
            found.add(trunk)
            page = self._page(trunk)
            trunk, leaves = _LONG_PAIR.unpack_from(page)
            if leaves > self.page_bytes // 4 - 2:
                raise ValueError("the list of free pages is too long")
            found.update(struct.unpack_from(f">{leaves}I", page, 8))
        return found

    def _list_leaves(self, root: int) -> list[int]:
        """Return the pages with the rows of a table, which are all at the same depth."""
        level = [root]
        while self._page(level[0])[0] == INNER_TABLE:
            following: list[int] = []
            for number in level:
                page = self._page(number)
                _, _, cells, _ = _PAGE.unpack_from(page)
                places = struct.unpack_from(f">{cells}H", page, INNER_HEADER)
                following += [_NUMBER.unpack_from(page, at)[0] for at in places]
                following += _NUMBER.unpack_from(page, LEAF_HEADER)
            if len(following) > self._count:
                raise ValueError("a table has more pages than the file")
            level = following
        return level

    def sort(self, data: bytes, first: int) -> tuple[list[bytes], list[bytes]]:
        """
        Return the dead bytes of some pages, and the pages whose rows need a search.

        Zeros around dead bytes are removed.

        Args:
            data: Whole pages.
            first: Number of the first page, from 1.

        Raises:
            ValueError: a page is cut.

        Cost: 2 µs per page.
        """
        found: list[bytes] = []
        pages: list[bytes] = []
        page_bytes, free, leaves = self.page_bytes, self._free, self._leaves
        if len(data) % page_bytes:
            raise ValueError("the last page is incomplete")
        at = -page_bytes
        for number, (kind, block, cells, start) in enumerate(self._headers(data), first):
            at += page_bytes
            if number in leaves and kind == LEAF_TABLE and not block and not self._unused:
                gap = LEAF_HEADER + 2 * cells
                if gap <= start <= page_bytes:  # nearly all pages of a large file
                    found.append(data[at + gap : at + start].strip(b"\0"))
                    continue
            page = data[at : at + page_bytes]
            if number not in leaves and number not in free:
                pages.append(page)
            found += [page.strip(b"\0")] if number in free else self._parts(page, number)
        return list(filter(None, found)), pages

    def _parts(self, page: bytes, number: int) -> list[bytes]:
        """Return the dead bytes of one page that is in use."""
        header = HEADER_BYTES if number == 1 else 0
        kind, block, cells, start = _PAGE.unpack_from(page, header)
        if kind == OVERFLOW_KIND and not self._is_last(page):
            return []
        gap = header + _HEADERS.get(kind, MAX_PAGE_BYTES) + 2 * cells
        end = start or MAX_PAGE_BYTES
        if not gap <= end <= self.page_bytes:  # not as the format says
            return [page]
        unused = page[self.page_bytes - self._unused :] if self._unused else b""
        return [page[gap:end].strip(b"\0"), unused.strip(b"\0"), *self._blocks(page, block)]

    def _is_last(self, page: bytes) -> bool:
        """Return whether no page follows an overflow page, so that its end is unused."""
        return not 1 <= _NUMBER.unpack_from(page)[0] <= self._count

    def _blocks(self, page: bytes, block: int) -> list[bytes]:
        """
        Return the free blocks of a page; *block* is the first.

        The blocks include their headers, which may be bytes of earlier rows.
        """
        found = []
        while block:
            if block + 4 > self.page_bytes:
                return [page]
            following, size = _PAIR.unpack_from(page, block)
            found.append(page[block : block + max(size, 4)].strip(b"\0"))
            if following and following <= block:  # they stand in order
                return [page]
            block = following
        return found
