"""
The rows of one scope, step by step: read, moved to other ids, hashed and written.

A step is a table, the links between its rows, the bytes of artifacts, or the vectors. What is
derived (words, sketches) is made by the engine that stores the rows.
"""

from __future__ import annotations

from hashlib import sha256
from json import dumps as to_json
from json import loads as from_json
from marshal import dumps
from typing import TYPE_CHECKING

from memdb.engine.segments import opened
from memdb.errors import Corrupt
from memdb.models.ids import SCOPE_SHIFT, scope_of, scope_range
from memdb.models.record import Record
from memdb.tables import blobs, copies
from memdb.tables.copies import (
    ARTIFACTS,
    CHUNK_COLUMNS,
    SEGMENTS,
    SESSIONS,
    TABLES,
    TOMBSTONES,
    Table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from memdb.engine.base import Row, Tx

    Hashes = dict[str, Any]

KINDS = ("entry", "item", "message", "summary")
VECTORS = "vectors"
BLOBS = "blobs"
VECTOR_LIMIT = 4096

# In the format of which every type has one form; the same as that of row digests.
MARSHAL = 2


class Link(Record):
    """The step that lets the rows of a table name each other, once all are there."""

    table: Table

    @property
    def name(self) -> str:
        """The name of the step."""
        return f"links of {self.table.name}"


class Bytes(Record):
    """The step of the bytes of artifacts, or of the vectors."""

    name: str


Step = Table | Link | Bytes


def _steps() -> Iterator[Step]:
    for table in TABLES:
        if table is ARTIFACTS:
            yield Bytes(BLOBS)
        yield table
        if table.link:
            yield Link(table)
    yield Bytes(VECTORS)


STEPS: tuple[Step, ...] = tuple(_steps())
ROW_STEPS = tuple(step.name for step in STEPS if not isinstance(step, Link))


class Page(Record):
    """
    Some rows of a step.

    Attributes:
        space: Of vectors, the place of their space in the list of the reader.
    """

    step: int
    rows: list[Row]
    space: int = 0
    kind: str = ""


class Reader:
    """Reads the rows of a scope in a transaction, as rows of a scope with another number."""

    def __init__(
        self, tx: Tx, scope_no: int, spaces: Sequence[int | None], *, as_no: int | None = None
    ) -> None:
        """
        Read the scope *scope_no*.

        Args:
            spaces: The numbers of the spaces, in an order that both databases share.
            as_no: The number of the scope that ids are moved to. None means its own.
        """
        self._tx = tx
        self._no = scope_no
        self._spaces = spaces
        self._as_no = scope_no if as_no is None else as_no
        self.verifies = False

    def pages(self) -> Iterator[Page]:
        """Yield the pages of every step."""
        for number, step in enumerate(STEPS):
            if isinstance(step, Table):
                yield from self._table(number, step)
            elif isinstance(step, Link):
                yield from self._links(number, step.table)
            elif step.name == BLOBS:
                yield from self._blobs(number)
            else:
                yield from self._vectors(number)

    def hashes(self, tick: Callable[[int], object]) -> Hashes:
        """Return the hash of every step; *tick* gets the rows of each page."""
        found = new_hashes()
        for page in self.pages():
            add_to_hash(found, page)
            tick(len(page.rows))
        return found

    def _table(self, number: int, table: Table) -> Iterator[Page]:
        after = copies.first_key(table, self._no)
        while rows := copies.read_page(self._tx, table, self._no, after):
            if self.verifies and table.verify:
                self._tx.verify(table.name, [row[0] for row in rows])
            after = copies.key_of(table, rows[-1])
            yield Page(number, moved(table, rows, self._no, self._as_no))

    def _links(self, number: int, table: Table) -> Iterator[Page]:
        last = self._no << SCOPE_SHIFT
        while rows := copies.read_links(self._tx, table, self._no, last):
            last = rows[-1][0]
            delta = self._as_no - self._no << SCOPE_SHIFT
            yield Page(number, [(one + delta, other + delta) for one, other in rows])

    def _blobs(self, number: int) -> Iterator[Page]:
        last = b""
        while rows := copies.read_blobs(self._tx, self._no, last):
            for row in rows:
                last = row[0]
                yield Page(number, [row])

    def _vectors(self, number: int) -> Iterator[Page]:
        """Yield the vectors of each space and kind; of messages the bytes as they are kept."""
        low, high = scope_range(self._no)
        delta = self._as_no - self._no << SCOPE_SHIFT
        for place, space_no in enumerate(self._spaces):
            for kind in KINDS if space_no is not None else ():
                last = low - 1
                while rows := self._tx.vectors.list_stored(
                    int(space_no or 0), kind, last, high, VECTOR_LIMIT
                ):
                    last = rows[-1][0]
                    there = [(ref + delta, vector) for ref, vector in rows] if delta else rows
                    yield Page(number, there, place, kind)


def new_hashes() -> Hashes:
    """Return a hash of nothing for every step that has rows."""
    return {name: sha256() for name in ROW_STEPS}


def add_to_hash(found: Hashes, page: Page) -> None:
    """Add the rows of a page, which begin where they do elsewhere; of a blob hash and size."""
    step = STEPS[page.step]
    if isinstance(step, Link):
        return
    rows = [page.rows[0][::2]] if step.name == BLOBS else page.rows
    found[step.name].update(dumps((page.space, page.kind, rows), MARSHAL))


def total_hash(found: Hashes) -> str:
    """Return the hash of the content of a scope, 64 hexadecimal digits."""
    return sha256(b"".join(found[name].digest() for name in ROW_STEPS)).hexdigest()


def moved(table: Table, rows: list[Row], old: int, new: int) -> list[Row]:
    """Return rows of the scope *old* as those of the scope *new*."""
    if old == new:
        return rows
    columns = table.columns
    packed = [columns.index(name) for name in table.packed]
    scope = columns.index("scope_no") if "scope_no" in columns else None
    delta = new - old << SCOPE_SHIFT
    there = []
    for row in rows:
        values = list(row)
        for place in packed:
            value = values[place]
            if value is not None and scope_of(value) == old:
                values[place] = value + delta
        if scope is not None:
            values[scope] = new
        if table is SESSIONS:
            place = columns.index("shares")
            values[place] = _moved_shares(values[place], delta)
        if table is TOMBSTONES:
            place = columns.index("ref")
            values[place] = _moved_ref(values[columns.index("kind")], values[place], old, delta)
        there.append(tuple(values))
    return there


def _moved_shares(shares: str | None, delta: int) -> str | None:
    """Return the spans that a branch shares, with the ids of the rows that hold them moved."""
    if shares is None:
        return None
    spans = [[first, last, row + delta] for first, last, row in from_json(shares)]
    return to_json(spans, separators=(",", ":"))


def _moved_ref(kind: str, ref: str, old: int, delta: int) -> str:
    """Return what a tombstone names: of an entry its id."""
    is_id = kind == "entry" and ref.isascii() and ref.isdecimal() and scope_of(int(ref)) == old
    return str(int(ref) + delta) if is_id else ref


class Writer:
    """Writes pages of a scope into a transaction, with what is derived from them."""

    def __init__(self, tx: Tx, source: Tx, space_of: Callable[[int], int]) -> None:
        """
        Write into *tx*.

        Args:
            source: Where the chunks of blobs are read.
            space_of: Returns the number of a space by its place in the list of the reader.
        """
        self._tx = tx
        self._source = source
        self._space_of = space_of
        self._worded: dict[str, tuple[int, int]] = {}

    def finish(self) -> None:
        """Add the words of all rows that were written: those of many at once cost less."""
        for kind, span in self._worded.items():
            self._tx.words.load(kind, *span)
        self._worded.clear()

    def write(self, page: Page) -> None:
        """Store the rows of a page."""
        step = STEPS[page.step]
        if isinstance(step, Link):
            copies.set_links(self._tx, step.table, [(row[0], row[1]) for row in page.rows])
        elif isinstance(step, Table):
            self._load(step, page.rows)
        elif step.name == BLOBS:
            for digest, blob_no, size_bytes in page.rows:
                self._copy_blob(digest, blob_no, size_bytes)
        else:
            self._tx.vectors.load(
                self._space_of(page.space), page.kind, [(row[0], row[1]) for row in page.rows]
            )

    def _load(self, table: Table, rows: list[Row]) -> None:
        if table.link:
            place = table.columns.index(table.link)
            rows = [
                row if row[place] is None else (*row[:place], None, *row[place + 1 :])
                for row in rows
            ]
        if table is ARTIFACTS:
            place = table.columns.index("blob_no")
            rows = [(*row[:place], self._blob(row[place]), *row[place + 1 :]) for row in rows]
        self._tx.load(table.name, table.columns, rows)
        if table.words:
            first, _ = self._worded.get(table.words, (rows[0][0], 0))
            self._worded[table.words] = first, rows[-1][0]
        if table is SEGMENTS:
            for texts in archived_texts(rows):
                self._tx.words.add_archived(texts)

    def _blob(self, digest: bytes) -> int:
        found = blobs.find(self._tx, digest)
        if found is None:
            raise Corrupt("bytes of an artifact went away while it was copied: copy again")
        return found

    def _copy_blob(self, digest: bytes, blob_no: int, size_bytes: int) -> None:
        """
        Copy the chunks of a blob as they are stored, unless the target has its bytes.

        Raises:
            Corrupt: the bytes differ from their hash.
        """
        if blobs.find(self._tx, digest) is not None:
            return
        new_no = blobs.add(self._tx, None, size_bytes)
        last, state = -1, sha256()
        while rows := copies.read_chunks(self._source, blob_no, last):
            last = rows[-1][0]
            for _, codec, _, data in rows:
                state.update(blobs.unpack(codec, data))
            self._tx.load("blob_chunks", CHUNK_COLUMNS, [(new_no, *row) for row in rows])
        if state.digest() != digest:
            raise blobs.damaged_bytes()
        blobs.complete(self._tx, new_no, digest, size_bytes)


def archived_texts(rows: list[Row]) -> Iterator[list[tuple[int, str]]]:
    """Yield the texts of the messages in each of some segments, by id."""
    for session, first_seq, _, _, codec, data, digest, *_ in rows:
        contents = opened(session, first_seq, (codec, data, digest))
        yield [(session | seq, text) for seq, text, _, _ in contents]


def verify_blobs(tx: Tx, scope_no: int) -> None:
    """Read the bytes of every artifact of a scope; Corrupt if some differ from their hash."""
    last = b""
    while rows := copies.read_blobs(tx, scope_no, last):
        for digest, blob_no, _ in rows:
            last = digest
            for _ in blobs.read_parts(tx, blob_no, blobs.CHUNK_BYTES):
                pass


def counts_of(tx: Tx, scope_no: int, spaces: Mapping[int, Any]) -> dict[str, int]:
    """Return how many rows of each step a scope has; *spaces* by number."""
    found = copies.count_rows(tx, scope_no)
    found[VECTORS] = sum(tx.vectors.count(number, scope_no) for number in spaces)
    return found
