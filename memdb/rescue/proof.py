"""
Prove that a text is gone from the file: remove its bytes from the disk, then search for them.

A DELETE leaves bytes in four places: free pages, the slack of used pages, segments of full-text
indexes, and the WAL. `purge` removes them. `SqliteProbes.prove` searches the disk, the WAL and the
copies for pieces and words of the text. A piece that a remaining row also contains belongs to that
row; every other piece was left behind.

First `mend_indexes` rebuilds each full-text index that may contain a word of no row, however short.
In the file itself, bytes that belong to no row are searched for pieces and words. Pages of small
tables are searched for the longer pieces. Messages are read by SQL (ADR-0035, ADR-0060). Every byte
is searched for the pieces if the WAL could not be emptied, and in other files.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memdb.engine.files import opened
from memdb.engine.sqlite.connection import MEMORY, open_temporary, translated_errors
from memdb.engine.sqlite.maintenance import (
    ANALYZE,
    READING,
    VACUUM,
    describe_copy,
    list_migration_copies,
)
from memdb.engine.sqlite.schema import list_other_tables
from memdb.errors import Busy
from memdb.models.reports import Proof
from memdb.rescue.byte_search import ByteSearch
from memdb.rescue.dead_bytes import DeadBytes
from memdb.rescue.index_words import find_indexed, mend_indexes
from memdb.rescue.remaining import Remaining, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.engine.base import Probes
    from memdb.engine.sqlite.base import SqliteFile
    from memdb.text.terms import Term

PIECE_BYTES = 32
PIECES_PER_TEXT = 16
MIN_BYTES = 8
MAX_PIECES = 400
MIN_WORD_BYTES = 4
MAX_WORDS = 100

# Words are taken from so many characters of each text.
WORDS_OF_CHARS = 20_000

CREATE_TEXTS = """/* proof.create_texts */
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
  text, tokenize="porter unicode61 remove_diacritics 2"
)
"""

CREATE_VOCABULARY = """/* proof.create_vocabulary */
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5vocab (texts, row)
"""

INSERT_TEXT = """/* proof.insert_text */
INSERT INTO texts (text) VALUES (:text)
"""

SELECT_LONGEST = """/* proof.longest */
SELECT term FROM words
WHERE length(CAST(term AS BLOB)) >= :least
ORDER BY length(term) DESC, term
LIMIT :most
"""

# ANALYZE leaves samples of keys in the file, for the query planner.
SELECT_SAMPLES = """/* proof.samples */
SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4'
"""

WRITING = "another program kept writing, so the file could not be packed: prove again"

# Whole pages of every size, and what a piece may reach into the next step.
STEP_BYTES = 4 << 20
OVERLAP_BYTES = 128

# Large tables whose rows need no search of their bytes: messages and summaries are read by SQL,
# the words in an index are looked up, and vectors are numbers.
PLAIN_TABLES = (
    "messages",
    "messages_fts_data",
    "archived_fts_data",
    "summaries",
    "summaries_fts_data",
    "vectors",
    "vector_groups",
)

SELECT_ROOTS = """/* proof.roots */
SELECT rootpage FROM sqlite_schema
WHERE type = 'table' AND name IN (SELECT value FROM json_each(:names))
"""

# What is searched in its unpacked form too.
UNPACKED = ("archive", "artifacts")


def new_probes(db: Any) -> Probes:
    """Return an empty collection of texts to purge from a database and to search for."""
    return db.new_probes() if hasattr(db, "new_probes") else SqliteProbes(db)


class SqliteProbes:
    """
    The pieces and words of forgotten texts.

    Attributes:
        short: Number of texts that were too short to give a piece.
    """

    def __init__(self, db: SqliteFile) -> None:
        """Begin without texts; they are searched for in *db*."""
        self._db = db
        self._pieces: dict[bytes, bool] = {}
        self._stride = 1
        self._seen = 0
        self._texts: list[str] = []
        self._asked: list[Term] = []
        self.short = 0

    def ask(self, terms: Sequence[Term]) -> None:
        """Look for places that still contain all *terms*, as a search would find them."""
        self._asked = [*terms]

    def add(self, values: Iterable[str | bytes | None], *, summary: bool = False) -> None:
        """
        Add texts, or bytes as they are stored; None and "" are skipped.

        Args:
            summary: Whether they are texts of summaries: a piece over two messages may also be in a
                summary that stays or is rewritten.
        """
        for value in values:
            if not value:
                continue
            data = value if isinstance(value, bytes) else value.encode()
            if isinstance(value, str):
                self._texts.append(value[:WORDS_OF_CHARS])
            if len(data) < MIN_BYTES:
                self.short += 1
                continue
            for piece in _pieces(data):
                self._keep(piece, summary=summary)

    def _keep(self, piece: bytes, *, summary: bool) -> None:
        """Keep every n-th piece; n doubles each time there are too many."""
        self._seen += 1
        if self._seen % self._stride:
            return
        self._pieces[piece] = summary and self._pieces.get(piece, True)
        if len(self._pieces) > MAX_PIECES:
            self._pieces = dict(list(self._pieces.items())[::2])
            self._stride *= 2

    def pieces(self) -> dict[bytes, bool]:
        """Return the pieces, and whether each comes only from summaries."""
        return self._pieces

    def words(self) -> list[str]:
        """Return the longest words in the form of an index."""
        scratch = open_temporary()
        try:
            scratch.run(CREATE_TEXTS)
            scratch.run(CREATE_VOCABULARY)
            scratch.many(INSERT_TEXT, [{"text": text} for text in self._texts])
            rows = scratch.all(SELECT_LONGEST, {"least": MIN_WORD_BYTES, "most": MAX_WORDS})
        finally:
            scratch.close()
        return [row[0] for row in rows]

    def mend_indexes(self) -> None:
        """Rebuild each index that may contain more than the words of its rows."""
        mend_indexes(self._db)

    def purge(self) -> list[str]:
        """Remove every byte that belongs to no row; see `purge`."""
        return purge(self._db)

    def prove(self, notices: list[str], scopes: Sequence[int]) -> Proof:
        """
        Return the remains of the texts in the file, its WAL and the copies beside it.

        Args:
            notices: What `purge` returned.
            scopes: Places in these scopes are named, and others are not reported.

        Cost: 1 ms per MB of the file, 10 µs per row of the scope; 0.3 s per MB of WAL and copies.

        Transaction: one read; the files are read from the disk.
        """
        db = self._db
        words = self.words()
        held = find_indexed(db, words)
        pieces = self._pieces
        search = _FileSearch([*pieces, *(one.encode() for one in words if one not in held)])
        notices = [*notices, *map(describe_copy, list_migration_copies(db.path))]
        self._search_files(search, notices)
        of_summaries = {piece for piece, summary in pieces.items() if summary}
        with db.read() as tx:
            if db.path == MEMORY:
                data = tx.raw.serialize("main")
                self._search_pages(
                    search, "the memory", lambda at, size: data[at : at + size], len(data)
                )
            in_packed = ByteSearch(pieces)
            for name in UNPACKED:
                search.places[name] = None  # also if nobody has any: that is not told
            for name, data in unpacked(tx):
                for one in in_packed.find(data):
                    search.note(one, name)
            rows = Remaining({*pieces, *search.found}, of_summaries, self._asked, scopes)
            rows.read_own(tx)
            for one in rows.summarized:
                search.note(one, _name_of(db))
        search.explain(rows.said)
        if search.found:
            with db.read() as tx:
                search.explain(rows.said_by_others(tx, {*search.found}))
        return Proof(
            pieces=len(pieces) + len(words),  # not which of them others hold too
            short=self.short,
            searched=tuple(search.places),
            found_bytes=sum(map(len, search.found)),
            found_in=tuple(sorted({place for places in search.found.values() for place in places})),
            said_elsewhere=len(rows.said),
            said_in=tuple(rows.places),
            still_said_in=tuple(rows.still),
            notices=tuple(notices),
        )

    def _search_files(self, search: _FileSearch, notices: list[str]) -> None:
        """Search the file and the files beside it."""
        db = self._db
        for name, path in _files(db):
            search.places[name] = None  # an empty WAL too
            with _opened(db, path) as (read, size):
                if path == db.path and READING not in notices and WRITING not in notices:
                    self._search_pages(search, name, read, size)
                else:
                    self._search_all(search, name, read, size)

    def _search_pages(
        self, search: _FileSearch, name: str, read: Callable[[int, int], bytes], size: int
    ) -> None:
        """Search the file itself: its dead bytes for all probes, some tables for pieces."""
        pages = _sort_pages(self._db, read, size)
        if pages is None:
            return self._search_all(search, name, read, size)
        pieces = [*self._pieces]
        if not _has_other_tables(self._db):  # whose rows may hold short ones
            pieces = [one for one in pieces if len(one) >= PIECE_BYTES]
        search.add(search.probes, pages[0], name)
        search.add(pieces, pages[1], name)
        return None

    def _search_all(
        self, search: _FileSearch, name: str, read: Callable[[int, int], bytes], size: int
    ) -> None:
        """Search every byte of a file for the pieces."""
        for data in _steps(read, size):
            search.add([*self._pieces], data[1], name)


def _pieces(data: bytes) -> list[bytes]:
    """Return up to 16 pieces, including the first and the last; all pieces of a short text."""
    last = len(data) - PIECE_BYTES
    if last <= PIECE_BYTES // 2:
        return [data]
    count = min(PIECES_PER_TEXT, -(-len(data) // PIECE_BYTES))
    starts = {last * n // (count - 1) for n in range(count)}
    return [data[start : start + PIECE_BYTES] for start in sorted(starts)]


def purge(db: SqliteFile) -> list[str]:
    """
    Remove every byte that belongs to no row; return what prevented it.

    The call needs as much free disk as the file is large, and other writers wait. Cost: 1 s per
    20,000 messages, and 1 s per 100 MB.

    Transaction: several of its own, not inside another. The file is sound after each of them.
    """
    db.refuse_inside("purge")
    try:
        with db.write() as tx:
            tx.words.rebuild()
            if tx.one(SELECT_SAMPLES) is not None:
                tx.run(ANALYZE)
        with db.apart() as tx:
            tx.run(VACUUM)
    except Busy:
        return [WRITING]
    return db.maintenance.truncate_wal()


class _FileSearch:
    """
    The probes, and the places where each was found.

    Attributes:
        probes: The searched pieces and words.
        found: Places by probe, without probes that were explained.
        places: What was searched.
    """

    def __init__(self, probes: Iterable[bytes]) -> None:
        self.probes = list(dict.fromkeys(probes))
        self.found: dict[bytes, set[str]] = {}
        self.places: dict[str, None] = {}

    def add(self, probes: list[bytes], data: bytes, place: str) -> None:
        """Search *data* from *place* for *probes*, and note those that it contains."""
        self.places[place] = None
        for probe in ByteSearch(probes).find(data):
            self.note(probe, place)

    def note(self, probe: bytes, place: str) -> None:
        """Note that *place* contains a probe."""
        self.found.setdefault(probe, set()).add(place)

    def explain(self, probes: Iterable[bytes]) -> None:
        """Drop probes that a remaining row contains."""
        for one in probes:
            self.found.pop(one, None)


def _files(db: SqliteFile) -> Iterator[tuple[str, str]]:
    """Yield name and path of each file except the -shm, which contains only numbers of pages."""
    if db.path == MEMORY:
        return
    folder, name = os.path.split(db.path)
    for one in sorted(os.listdir(folder)):
        if one in (name, f"{name}-wal", f"{name}-journal") or (
            one.startswith(name) and (".bak" in one or "-wal.lost-" in one)
        ):
            yield one, os.path.join(folder, one)


@contextmanager
def _opened(db: SqliteFile, path: str) -> Iterator[tuple[Callable[[int, int], bytes], int]]:
    """
    Return a function that reads a file on the disk by offset and length, and its size.

    An encrypted file is decrypted with its key, in memory. Another one is read by SQLite's VFS.
    Closing a file that was opened in any other way drops every lock that this process has on it.
    """
    if db.key is not None and path == db.path:
        with translated_errors(), db.apart(writable=False) as tx:
            image = tx.raw.serialize("main")
        yield lambda start, length: image[start : start + length], len(image)
        return
    with translated_errors(), opened(path) as file:
        yield lambda start, length: file.xRead(length, start), file.xFileSize()


def _steps(read: Callable[[int, int], bytes], size: int) -> Iterator[tuple[int, bytes]]:
    """Yield offsets and bytes of a file in parts that overlap."""
    for start in range(0, size, STEP_BYTES):
        yield start, read(start, min(STEP_BYTES + OVERLAP_BYTES, size - start))


def _sort_pages(
    db: SqliteFile, read: Callable[[int, int], bytes], size: int
) -> tuple[bytes, bytes] | None:
    """
    Return the dead bytes of a file, and its pages without those of `PLAIN_TABLES`.

    None if they cannot be distinguished from others.
    """
    with db.read() as tx:
        roots = [root for (root,) in tx.all(SELECT_ROOTS, {"names": json.dumps([*PLAIN_TABLES])})]
    parts: list[bytes] = []
    rest: list[bytes] = []
    try:
        dead = DeadBytes(read, size, roots)
        for start, data in _steps(read, size):
            found, pages = dead.sort(data[:STEP_BYTES], start // dead.page_bytes + 1)
            parts += found
            rest += pages
    except ValueError:
        return None
    return b"\0".join(parts), b"".join(rest)


def _has_other_tables(db: SqliteFile) -> bool:
    """Return whether there are tables of other programs, or statistics of the query planner."""
    with db.read() as tx:
        return bool(list_other_tables(tx)) or tx.one(SELECT_SAMPLES) is not None


def _name_of(db: SqliteFile) -> str:
    return os.path.basename(db.path)
