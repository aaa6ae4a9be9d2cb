"""
Rows of a damaged file, read from its pages without SQLite.

SQLite gives up a whole range of rows where one inner page of a table cannot be read. Here each leaf
page is read by itself. First come the pages that a table still leads to, then the others,
recognised by the form of their rows. Pages in the free list are left out. If the list cannot be
read, memdb's own deletions stay deleted all the same, because they left zeros (ADR-0018).
Source: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from memdb.engine.files import read_chunks
from memdb.engine.sqlite.wal_file import read_frames
from memdb.models.record import Record
from memdb.text.validate import SQLITE_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Values = tuple[Any, ...]
    # The key of the row, 0 in a table without one, and what its record holds.
    RawRow = tuple[int, Values]


HEADER_BYTES = 100
DEFAULT_PAGE_BYTES = 4096

INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13
CELLS_AT = {INNER_INDEX: 12, INNER_TABLE: 12, LEAF_INDEX: 8, LEAF_TABLE: 8}
INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
FLOAT = 7
SMALL = {0: None, 8: 0, 9: 1}
FIRST_SIZED = 12
MAX_CELLS = 16_384


# Of an entry in a page of pointers: a kind, and the number of a page.
POINTER_BYTES = 5

# The kind of the first entry: page 3 is the first of a table.
FIRST_PAGE = 1

# What locks are taken on: no page there holds anything.
LOCKED_BYTE = 1 << 30


def pointer_pages(page_bytes: int, unused: int, count: int) -> set[int]:
    """
    Return the pages that only link other pages, in a file that moves its pages.

    Source: https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages

    Args:
        unused: Number of bytes at the end of each page that SQLite leaves unused.
        count: Number of pages.
    """
    locked = LOCKED_BYTE // page_bytes + 1
    every = range(2, count + 1, (page_bytes - unused) // POINTER_BYTES + 1)
    return {number + (number == locked) for number in every}


class BrokenPage(Exception):
    """A page, or a cell of it, does not follow the format."""


class Tree(Record):
    """Remains of one table or index: its rows, its pages, and whether a page is broken."""

    rows: list[RawRow]
    pages: set[int]
    is_broken: bool


class PageFile:
    """
    The pages of a SQLite file with its WAL, which are only read.

    Attributes:
        page_bytes: Size of a page.
        count: Number of pages.
        has_wal: Whether pages of the WAL replace pages of the file.
    """

    def __init__(self, path: str, data: bytes | None = None, *, wal: bool = True) -> None:
        """
        Read the file at *path*; *wal*: with the commits in its WAL.

        Args:
            data: The file with its WAL, if it is encrypted on the disk.

        Raises:
            apsw.Error: the file cannot be read.
        """
        if data is None:
            self._data = b"".join(read_chunks(path))
        else:
            self._data, wal = data, False
        self.page_bytes, unused = DEFAULT_PAGE_BYTES, 0
        if self._data[:16] == SQLITE_MAGIC:  # else the first page is damaged too
            stated = int.from_bytes(self._data[16:18], "big")
            stated = 65_536 if stated == 1 else stated
            if stated >= 512 and stated & (stated - 1) == 0:  # noqa: PLR2004 (the smallest page)
                self.page_bytes, unused = stated, self._data[20]
        self._newer = committed_pages(f"{path}-wal", self.page_bytes) if wal else {}
        self.has_wal = bool(self._newer)
        self.count = max([-(-len(self._data) // self.page_bytes), *self._newer])
        self._usable = self.page_bytes - unused

    def page(self, number: int) -> bytes:
        """
        Return the bytes of a page, numbered from 1.

        Raises:
            BrokenPage: the page does not exist.
        """
        if not 1 <= number <= self.count:
            raise BrokenPage
        newer = self._newer.get(number)
        start = (number - 1) * self.page_bytes
        page = self._data[start : start + self.page_bytes] if newer is None else newer
        if len(page) < self.page_bytes:
            raise BrokenPage
        return page

    def tree(self, root: int) -> Tree:
        """Return the readable part of the table or index that begins at page *root*."""
        rows: list[RawRow] = []
        pages: set[int] = set()
        broken = False
        todo = [root]
        while todo:
            number = todo.pop()
            if number in pages:
                continue
            pages.add(number)
            try:
                children, found, whole = self._read(number, pages)
            except BrokenPage:
                broken = True
                continue
            broken = broken or not whole
            todo += reversed(children)
            rows += found
        return Tree(rows, pages, broken)

    def leaf(self, number: int) -> tuple[int, list[RawRow]]:
        """
        Return kind and rows of a page that no table leads to.

        Raises:
            BrokenPage: the page is not a page with rows.
        """
        kind = self.page(number)[0]
        if kind not in (INNER_INDEX, LEAF_INDEX, LEAF_TABLE) or number == 1:
            raise BrokenPage
        _, rows, _ = self._read(number, set())
        return LEAF_INDEX if kind == INNER_INDEX else kind, rows

    def pointer_pages(self) -> set[int]:
        """Return the pages that contain no rows, only numbers of pages; {} if pages do not move."""
        try:
            moves = self.page(2)[0] == FIRST_PAGE  # also if the header is damaged
        except BrokenPage:
            return set()
        unused = self.page_bytes - self._usable
        return pointer_pages(self.page_bytes, unused, self.count) if moves else set()

    def free_pages(self) -> set[int] | None:
        """Return the pages of the free list; None if it cannot be read to its end."""
        found: set[int] = set()
        try:
            first = self.page(1)
            if first[:16] != SQLITE_MAGIC:
                return None
            trunk, count = struct.unpack(">II", first[32:40])
            while trunk and trunk not in found:
                found.add(trunk)
                page = self.page(trunk)
                following, leaves = struct.unpack(">II", page[:8])
                if leaves > self.page_bytes // 4 - 2:
                    return None
                found.update(struct.unpack(f">{leaves}I", page[8 : 8 + 4 * leaves]))
                trunk = following
        except BrokenPage:
            return None
        return found if len(found) == count else None

    def _read(self, number: int, pages: set[int]) -> tuple[list[int], list[RawRow], bool]:
        """Return the children of a page, its rows, and whether every cell could be read."""
        page = self.page(number)
        start = HEADER_BYTES if number == 1 else 0
        kind = page[start]
        if kind not in CELLS_AT:
            raise BrokenPage
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        first = start + CELLS_AT[kind]
        if cells > MAX_CELLS or first + 2 * cells > self._usable:
            raise BrokenPage
        places = struct.unpack(f">{cells}H", page[first : first + 2 * cells])
        children: list[int] = []
        rows: list[RawRow] = []
        whole = True
        for place in places:
            try:
                if place < first + 2 * cells or place >= self._usable:
                    raise BrokenPage  # noqa: TRY301 (caught below)
                if kind in (INNER_INDEX, INNER_TABLE):
                    children.append(int.from_bytes(page[place : place + 4], "big"))
                if kind != INNER_TABLE:
                    rows.append(self._cell(page, place, kind, pages))
            except (BrokenPage, IndexError, struct.error):
                whole = False
        if kind in (INNER_INDEX, INNER_TABLE):
            children.append(int.from_bytes(page[start + 8 : start + 12], "big"))
        return children, rows, whole

    def _cell(self, page: bytes, place: int, kind: int, pages: set[int]) -> RawRow:
        if kind == INNER_INDEX:
            place += 4
        size, place = varint(page, place)
        key = 0
        if kind == LEAF_TABLE:
            key, place = varint(page, place)
            key -= (key >> 63) << 64
        usable = self._usable
        most = usable - 35 if kind == LEAF_TABLE else (usable - 12) * 64 // 255 - 23
        if size <= most:
            if place + size > usable:
                raise BrokenPage
            return key, record_values(page[place : place + size])
        least = (usable - 12) * 32 // 255 - 23
        here = least + (size - least) % (usable - 4)
        here = least if here > most else here
        if size > self.count * usable or place + here + 4 > usable:
            raise BrokenPage
        payload = bytearray(page[place : place + here])
        following = int.from_bytes(page[place + here : place + here + 4], "big")
        chain: set[int] = set()
        while len(payload) < size:
            if following in chain:
                raise BrokenPage
            chain.add(following)
            more = self.page(following)
            payload += more[4 : min(usable, 4 + size - len(payload))]
            following = int.from_bytes(more[:4], "big")
        if following:
            raise BrokenPage
        values = record_values(bytes(payload))
        pages |= chain
        return key, values


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at *at*, and where it ends."""
    value = 0
    for step in range(8):
        byte = data[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 (seven bits)
            return value, at + step + 1
    return value << 8 | data[at + 8], at + 9


def record_values(payload: bytes) -> Values:
    """
    Return the values of a record.

    Raises:
        BrokenPage: the bytes are not a record.
    """
    end, at = varint(payload, 0)
    if end > len(payload):
        raise BrokenPage
    kinds = []
    while at < end:
        kind, at = varint(payload, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        size = INTEGER_BYTES.get(kind, 8 if kind == FLOAT else max(kind - 12, 0) // 2)
        if at + size > len(payload):
            raise BrokenPage
        values.append(_value(kind, payload[at : at + size]))
        at += size
    if at != len(payload):
        raise BrokenPage
    return tuple(values)


def _value(kind: int, data: bytes) -> Any:
    """Return the value of a type in the head of a record."""
    if kind in INTEGER_BYTES:
        return int.from_bytes(data, "big", signed=True)
    if kind == FLOAT:
        return struct.unpack(">d", data)[0]
    if kind < FIRST_SIZED:
        if kind not in SMALL:
            raise BrokenPage
        return SMALL[kind]
    if kind % 2 == 0:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BrokenPage from error


def committed_pages(wal: str, page_bytes: int | None = None) -> dict[int, bytes]:
    """
    Return the newest committed content of each page in a WAL, {} if there is none.

    *page_bytes*: {} for a WAL with pages of another size; None means any size.
    """
    committed: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    most = 0
    try:
        for number, page, last in read_frames(wal):
            if len(page) != (page_bytes or len(page)):
                return {}
            waiting[number] = page
            if last:
                committed |= waiting
                waiting.clear()
                if last < most:  # the file was cut
                    committed = {key: each for key, each in committed.items() if key <= last}
                most = last
    except OSError:
        return {}
    return committed


def orphans(
    file: PageFile, known: set[int], fits: Callable[[int, RawRow], str | None]
) -> Iterator[tuple[str, list[RawRow]]]:
    """
    Yield the rows of leaf pages that no table leads to, with the name of their table.

    Args:
        known: Pages that belong to a table or index, or to the free list.
        fits: Returns the table to which a row on a kind of page can belong, or None.
    """
    for number in range(2, file.count + 1):
        if number in known:
            continue
        try:
            kind, rows = file.leaf(number)
        except (BrokenPage, IndexError, struct.error):
            continue
        names = {fits(kind, row) for row in rows}
        if len(names) == 1 and (name := names.pop()) is not None:
            yield name, rows
