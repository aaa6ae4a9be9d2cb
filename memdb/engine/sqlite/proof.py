"""
Proof that a text is gone from the file: take its bytes off the disk, then search for them.

A DELETE leaves bytes in four places: free pages, the slack of used pages, segments of full-text
indexes, and the WAL. `purge` removes them. `SqliteProbes.prove` searches the disk, the WAL and the
copies for pieces and words of the text. A piece that a remaining row also holds was said twice and
not left behind; every other piece was left behind.
"""

from __future__ import annotations

import os
import sys
from itertools import chain

import apsw

from memdb.engine import segments
from memdb.engine.segments import Damaged, inflate_segment
from memdb.engine.sqlite.connection import MEMORY, Tx, open_temporary, translated_errors
from memdb.engine.sqlite.maintenance import ANALYZE, VACUUM
from memdb.engine.sqlite.marker import kept_wal
from memdb.errors import Busy
from memdb.models.ids import SCOPE_SHIFT, scope_of, seq_of, session_of
from memdb.models.reports import Proof
from memdb.text.terms import word_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from memdb.engine.base import Row
    from memdb.engine.sqlite.connection import SqliteFile
    from memdb.text.terms import Term

PIECE_BYTES = 32
PIECES_PER_TEXT = 16
MIN_BYTES = 8
MAX_PIECES = 400
MIN_WORD_BYTES = 8
SHARED_BYTES = 2
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

STEP_BYTES = 4 << 20
OVERLAP_BYTES = 64
MAX_PLACES = 10

# Rows that are asked together whether they hold the words of a query.
WORDS_AT_ONCE = 500

# What is searched in its unpacked form too.
UNPACKED = ("archive", "artifacts")

SELECT_SEGMENTS = """/* proof.segments */
SELECT session_id, first_seq, codec, data, sha256 FROM archive_segments
WHERE (session_id, first_seq) > (:session, :first_seq)
ORDER BY session_id, first_seq
LIMIT 100
"""

SELECT_CHUNKS = """/* proof.chunks */
SELECT blob_no, chunk_no, codec, data FROM blob_chunks
WHERE (blob_no, chunk_no) > (:blob_no, :chunk_no)
ORDER BY blob_no, chunk_no
LIMIT 20
"""

SELECT_USED = """/* proof.used_blob */
SELECT scope_no, name FROM artifacts WHERE blob_no = :blob_no ORDER BY scope_no, name LIMIT 1
"""

SELECT_MESSAGES = """/* proof.messages */
SELECT id, text, parts, metadata, author, external_id FROM messages
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

SELECT_ENTRIES = """/* proof.entries */
SELECT id, text, keywords, key, metadata, category, source FROM entries
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

SELECT_HISTORY = """/* proof.history */
SELECT entry_id, version, text, keywords, key, metadata, category, source FROM entry_history
WHERE (entry_id, version) > (:entry_id, :version)
ORDER BY entry_id, version
LIMIT 1000
"""

SELECT_ITEMS = """/* proof.items */
SELECT id, key, metadata, value, data, text FROM items
WHERE id > :after
ORDER BY id
LIMIT 100
"""

# Everything small, with the name of its place: names of any kind, titles, metadata
# and state of hosts. What belongs to no scope has the id 0.
SELECT_NAMES = """/* proof.names */
SELECT
  id,
  'name, title or metadata of session ' || name,
  coalesce(name, '') || char(10) || branch || char(10) || coalesce(title, '')
  || coalesce(metadata, '')
FROM sessions
UNION ALL
SELECT scope_no << 44, 'the name of the user or the app', app || char(10) || user_name FROM scopes
UNION ALL
SELECT id, 'the namespace of items', path FROM item_namespaces
UNION ALL
SELECT id, 'artifact ' || name, name || char(10) || coalesce(text, '') FROM artifact_names
UNION ALL
SELECT scope_no << 44, 'metadata of artifact ' || name, coalesce(metadata, '') || mime
FROM artifacts
UNION ALL
SELECT
  coalesce(scopes.scope_no << 44, 0),
  'state ' || key || CASE session WHEN '' THEN '' ELSE ' of session ' || session END,
  session || char(10) || key || char(10) || value
FROM state
LEFT JOIN scopes ON scopes.app = state.app AND scopes.user_name = state.user_name
UNION ALL
SELECT 0, 'meta', key || char(10) || value FROM meta
UNION ALL
SELECT 0, 'settings', name || char(10) || value FROM settings
UNION ALL
SELECT 0, 'schema', sql FROM sqlite_schema WHERE sql IS NOT NULL
UNION ALL
SELECT 0, 'embedding space', model FROM embedding_spaces
UNION ALL
SELECT scope_no << 44, 'tombstone', ref FROM tombstones
UNION ALL
SELECT 0, 'summarizer', summarizer || char(10) || counter
FROM (SELECT DISTINCT summarizer, counter FROM summaries)
UNION ALL
SELECT 0, 'counter', counter FROM (SELECT DISTINCT counter FROM messages)
"""

SELECT_SESSION_NAME = """/* proof.session_name */
SELECT name, branch FROM sessions WHERE id = :id
"""

SELECT_SUMMARIES = """/* proof.summaries */
SELECT id, text || char(10) || coalesce(hint, '') FROM summaries WHERE text IS NOT NULL
"""

CREATE_WORDS = (
    """/* proof.create_words_of_messages */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_messages USING fts5vocab (main, messages_fts, row)
""",
    """/* proof.create_words_of_archived */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_archived USING fts5vocab (main, archived_fts, row)
""",
    """/* proof.create_words_of_entries */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_entries USING fts5vocab (main, entries_fts, row)
""",
    """/* proof.create_words_of_summaries */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_summaries USING fts5vocab (main, summaries_fts, row)
""",
    """/* proof.create_words_of_artifacts */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_artifacts USING fts5vocab (main, artifacts_fts, row)
""",
    """/* proof.create_words_of_items */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_items USING fts5vocab (main, items_fts, row)
""",
    """/* proof.create_words_of_sessions */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_sessions USING fts5vocab (main, sessions_fts, row)
""",
)

SELECT_WORDS = """/* proof.words */
SELECT term FROM temp.scan_messages
UNION SELECT term FROM temp.scan_archived
UNION SELECT term FROM temp.scan_entries
UNION SELECT term FROM temp.scan_summaries
UNION SELECT term FROM temp.scan_artifacts
UNION SELECT term FROM temp.scan_items
UNION SELECT term FROM temp.scan_sessions
"""

PAGE_NUMBERS_ONLY = "its -shm file was not read: it holds page numbers only"


class SqliteProbes:
    """
    The pieces and words of forgotten texts.

    Attributes:
        short: How many texts were too short to give one.
    """

    def __init__(self, db: SqliteFile) -> None:
        """Start with none; they are searched for in *db*."""
        self._db = db
        self._pieces: dict[bytes, bool] = {}
        self._stride = 1
        self._seen = 0
        self._texts: list[str] = []
        self._words: list[str] = []
        self._asked: list[Term] = []
        self.short = 0

    def ask(self, words: Iterable[str]) -> None:
        """Look for places that still say all of *words*, by their letters or by their stems."""
        self._words = [word.casefold() for word in words]
        self._asked = word_terms(self._words)

    def add(self, values: Iterable[str | bytes | None], *, summary: bool = False) -> None:
        """
        Add texts, or bytes as they are stored; None and "" are nothing.

        Args:
            summary: They are texts of summaries: a piece that spans two
                messages may also be in a summary that stays or is rewritten.
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

    def words(self) -> list[bytes]:
        """Return the longest words as an index holds them, without their first two bytes."""
        scratch = open_temporary()
        try:
            scratch.run(CREATE_TEXTS)
            scratch.run(CREATE_VOCABULARY)
            scratch.many(INSERT_TEXT, [{"text": text} for text in self._texts])
            rows = scratch.all(SELECT_LONGEST, {"least": MIN_WORD_BYTES, "most": MAX_WORDS})
        finally:
            scratch.close()
        return [row[0].encode()[SHARED_BYTES:PIECE_BYTES] for row in rows]

    def purge(self) -> list[str]:
        """Remove every byte that is not part of a row; see `purge`."""
        return purge(self._db)

    def prove(self, notices: list[str], scope_no: int | None) -> Proof:
        """
        Return what is left of the texts in the file, its WAL and the copies beside it.

        Args:
            notices: What `purge` returned.
            scope_no: Places of this scope are named, of others nothing is told.
                None means that no place is named.

        Cost: 0.3 s per MB of file and WAL.

        Transaction: one read; the files are read as they lie on the disk.
        """
        db, pieces, words = self._db, self.pieces(), self.words()
        search = _ByteSearch([*pieces, *words])
        notices = list(notices)
        for name, path in _files(db):
            search.add(b"", name)
            for window in _windows(path):
                search.add(window, name)
        if db.path != MEMORY:
            search.add(_shared_memory(f"{db.path}-shm", notices), "the -shm")
        with db.read() as tx:
            if db.path == MEMORY:
                search.add(tx.raw.serialize("main"), "the memory")
            for name in UNPACKED:
                search.add(b"", name)  # named also if nobody has any: that is not told
            for name, packed in _unpacked(tx):
                search.add(packed, name)
            said = _Said(search, self._words, self._asked, scope_no)
            summarized = {piece for piece, summary in pieces.items() if summary}
            said.read(tx, summarized)
        if search.found:
            search.explain(_vocabulary(db), set(words))
        return Proof(
            pieces=len(search.probes),
            short=self.short,
            searched=tuple(search.places),
            found_bytes=sum(map(len, search.found)),
            found_in=tuple(sorted({place for places in search.found.values() for place in places})),
            said_elsewhere=said.pieces,
            said_in=tuple(said.places),
            still_said_in=tuple(said.still),
            notices=tuple(notices),
        )


def _pieces(data: bytes) -> list[bytes]:
    """Return up to 16 pieces, the first and the last included; all of a short text."""
    last = len(data) - PIECE_BYTES
    if last <= PIECE_BYTES // 2:
        return [data]
    count = min(PIECES_PER_TEXT, -(-len(data) // PIECE_BYTES))
    starts = {last * n // (count - 1) for n in range(count)}
    return [data[start : start + PIECE_BYTES] for start in sorted(starts)]


def purge(db: SqliteFile) -> list[str]:
    """
    Remove every byte that is not part of a row; return what prevented it.

    Needs as much free disk as the file is large, and keeps other writers
    waiting. Cost: 1 s per 20,000 messages, and 1 s per 100 MB.

    Transaction: several of its own, not inside another. Each leaves a sound file.
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
    return db.maintenance.empty_log()


class _ByteSearch:
    """
    The probes, and the places where each was found.

    Attributes:
        found: Places by probe, without the probes that were explained.
    """

    def __init__(self, probes: Iterable[bytes]) -> None:
        self.probes = list(dict.fromkeys(probes))
        self.found: dict[bytes, set[str]] = {}
        self.places: dict[str, None] = {}

    def add(self, data: bytes, place: str) -> None:
        """Search *data* from *place* and note the probes that it holds."""
        self.places[place] = None
        for probe in self.probes:
            if probe in data:
                self.found.setdefault(probe, set()).add(place)

    def explain(self, said: bytes, among: set[bytes] | None = None) -> int:
        """Drop the found probes that *said*, the text of a row, holds; return how many."""
        held = [one for one in self.found if one in said and (among is None or one in among)]
        for one in held:
            del self.found[one]
        return len(held)


class _Said:
    """
    What remaining rows say of the probes, and of the words that a query named.

    Rows of other scopes explain a probe too, but nothing is told of them: it
    would tell one user what another has said.

    Attributes:
        pieces: Probes that a row of the own scope holds.
        places: Some of those rows, by name.
        still: Rows of the own scope that hold every word.
    """

    def __init__(
        self, search: _ByteSearch, words: list[str], asked: list[Term], scope_no: int | None
    ) -> None:
        self._search = search
        self._words = words
        self._asked = asked
        self._scope_no = scope_no
        self.pieces = 0
        self.places: dict[str, None] = {}
        self.still: dict[str, None] = {}
        self._waiting: list[tuple[int, str, str]] = []

    def read(self, tx: Tx, summarized: set[bytes]) -> None:
        """Read the rows of the own scope, then those of the others."""
        if self._scope_no is not None and (self._search.found or self._asked):
            for row_id, kind, values in _said(tx):
                if scope_of(row_id) == self._scope_no:
                    self._note(tx, row_id, kind, values, summarized)
            self._match_waiting(tx)
        if self._search.found:
            for row_id, kind, values in _said(tx):
                if scope_of(row_id) != self._scope_no:
                    among = summarized if kind == "summary" else None
                    self._search.explain(_bytes_of(values), among)
                    if not self._search.found:
                        return

    def _note(
        self, tx: Tx, row_id: int, kind: str, values: list[Any], summarized: set[bytes]
    ) -> None:
        among = summarized if kind == "summary" else None
        explained = self._search.explain(_bytes_of(values), among)
        self.pieces += explained
        if explained and len(self.places) < MAX_PLACES:
            self.places[_place(tx, kind, row_id)] = None
        if self._asked and len(self.still) < MAX_PLACES and kind != "archive":
            text = str(_bytes_of(values), "utf-8", "replace")
            letters = text.casefold()
            if all(word in letters for word in self._words):
                self.still[_place(tx, kind, row_id)] = None
                return
            self._waiting.append((row_id, kind, text))
            if len(self._waiting) >= WORDS_AT_ONCE:
                self._match_waiting(tx)

    def _match_waiting(self, tx: Tx) -> None:
        """Note which of the waiting rows hold every word."""
        if not self._waiting:
            return
        texts = [(place, text, "") for place, (_, _, text) in enumerate(self._waiting)]
        postings = tx.words.postings_in(texts, self._asked)
        for place in sorted(set.intersection(*map(set, postings.values()))):
            row_id, kind, _ = self._waiting[place]
            if len(self.still) < MAX_PLACES:
                self.still[_place(tx, kind, row_id)] = None
        self._waiting.clear()


def _bytes_of(values: list[Any]) -> bytes:
    return b"\n".join(one if isinstance(one, bytes) else one.encode() for one in values)


def _files(db: SqliteFile) -> Iterator[tuple[str, str]]:
    """Yield the name in the proof and the path of each file, without the -shm."""
    if db.path == MEMORY:
        return
    folder, name = os.path.split(db.path)
    for one in sorted(os.listdir(folder)):  # noqa: PTH208 (pathlib is slow to load)
        if one in (name, f"{name}-wal", f"{name}-journal", kept_wal(name)) or (
            one.startswith(name) and ".bak" in one
        ):
            yield one, os.path.join(folder, one)  # noqa: PTH118


def _windows(path: str) -> Iterator[bytes]:
    """
    Yield the bytes of a file as they are on the disk, in parts that overlap.

    Uses SQLite's VFS: closing a file that was opened in any other way drops
    every lock that this process holds on it.
    """
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    with translated_errors():
        file = apsw.VFSFile("", path, flags)
        try:
            size = file.xFileSize()
            for start in range(0, size, STEP_BYTES):
                yield file.xRead(min(STEP_BYTES + OVERLAP_BYTES, size - start), start)
        finally:
            file.xClose()


def _shared_memory(path: str, notices: list[str]) -> bytes:
    """Return the bytes of the -shm file, read by a child process: closing it drops our locks."""
    if not os.path.exists(path):  # noqa: PTH110
        return b""
    if not sys.executable or getattr(sys, "frozen", False):
        notices.append(PAGE_NUMBERS_ONLY)
        return b""
    import subprocess

    program = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    try:
        done = subprocess.run(  # noqa: S603 (our own interpreter, a fixed program)
            [sys.executable, "-I", "-S", "-c", program, path], capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        notices.append(PAGE_NUMBERS_ONLY)
        return b""
    return done.stdout


def _unpacked(tx: Tx) -> Iterator[tuple[str, bytes]]:
    """Yield the contents of every archive segment and artifact chunk, used or not."""
    for _, _, codec, data, _ in _segments(tx):
        yield "archive", _inflated(codec, data)
    for _, _, codec, data in _chunks(tx):
        yield "artifacts", _inflated(codec, data)


def _inflated(codec: str, data: bytes) -> bytes:
    """Return *data* decompressed; unchanged if it is damaged."""
    try:
        return inflate_segment(data) if codec == "zlib" else data
    except Damaged:
        return data


def _said(tx: Tx) -> Iterator[tuple[int, str, list[Any]]]:
    """Yield (id, kind, texts) of every row with text."""
    yield from _rows(tx)
    for row_id, place, text in tx.all(SELECT_NAMES):
        yield row_id, place, [text]
    for row_id, text in tx.all(SELECT_SUMMARIES):
        yield row_id, "summary", [text]
    for row in _segments(tx):
        yield row[0], "archive", [row[3]]  # compressed as stored; `_rows` yields the texts
    for blob_no, _, codec, data in _chunks(tx):
        user = tx.one(SELECT_USED, {"blob_no": blob_no})
        if user is not None:
            yield user[0] << SCOPE_SHIFT, f"artifact {user[1]}", [_inflated(codec, data), data]


def _rows(tx: Tx) -> Iterator[tuple[int, str, list[Any]]]:
    """Yield (id, kind, texts) of messages, entries, earlier versions of entries, and items."""
    columns = ("id", *segments.CONTENT, "author", "external_id")
    for rows in tx.pages(SELECT_MESSAGES, {"after": 0}):
        for row in segments.fill(tx, rows, columns, lost_ok=True):
            yield row[0], "message", [value for value in row[1:] if value]
    for rows in tx.pages(SELECT_ENTRIES, {"after": 0}):
        for row in rows:
            yield row[0], "entry", [value for value in row[1:] if value]
    for rows in tx.pages(SELECT_HISTORY, {"entry_id": 0, "version": 0}):
        for row in rows:
            yield row[0], "entry", [value for value in row[2:] if value]
    for rows in tx.pages(SELECT_ITEMS, {"after": 0}):
        for row in rows:
            yield row[0], f"item {row[1]}", [value for value in row[1:] if value]


def _segments(tx: Tx) -> Iterator[Row]:
    return chain.from_iterable(tx.pages(SELECT_SEGMENTS, {"session": 0, "first_seq": 0}))


def _chunks(tx: Tx) -> Iterator[Row]:
    return chain.from_iterable(tx.pages(SELECT_CHUNKS, {"blob_no": 0, "chunk_no": -1}))


def _place(tx: Tx, kind: str, row_id: int) -> str:
    """Return the name of a place in the own scope."""
    if kind == "message":
        name = tx.one(SELECT_SESSION_NAME, {"id": session_of(row_id)})
        branch = f" ({name[1]})" if name and name[1] else ""
        return f"message {name[0] if name else '?'}{branch}#{seq_of(row_id)}"
    return f"{kind} {row_id}" if kind in ("entry", "summary") else kind


def _vocabulary(db: SqliteFile) -> bytes:
    """Return every word of the indexes, one per line."""
    with db.apart() as tx:
        for sql in CREATE_WORDS:
            tx.run(sql)
        return "\n".join(row[0] for row in tx.all(SELECT_WORDS)).encode()
