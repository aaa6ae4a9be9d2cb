"""
Texts of all rows of some scopes in any table, to find every row that contains some words.

Owns no table. The search is used by `forget(query=...)`, and by a proof that a text is gone.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from memdb.engine import segments
from memdb.engine.full_text import postings_in
from memdb.engine.segments import Damaged, inflate_segment
from memdb.models.ids import MAX_INT, SCOPE_SHIFT, number_of, seq_of, session_of
from memdb.text.resources import compiled
from memdb.text.values import text_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.engine.base import Row, Tx
    from memdb.text.terms import Term

    Ref = tuple[Any, ...]

    TextRow = tuple[int, Ref, bytes]  # id, kind and what else names its place, what it says

# An escape of JSON for white space.
ESCAPE = r"\\[bfnrt]"

# Rows that are asked together whether they hold the words of a query.
WORDS_AT_ONCE = 500

# The end of a chunk of an artifact that is read again with the next one.
TAIL_BYTES = 256

# Artifacts whose first chunks, of 256 KB at most, are read together.
BLOBS_AT_ONCE = 32

SELECT_SEGMENTS = """/* text_rows.segments */
SELECT session_id, first_seq, data, codec FROM archive_segments
WHERE (session_id, first_seq) > (:session, :first_seq)
ORDER BY session_id, first_seq
LIMIT 100
"""

SELECT_BLOBS = """/* text_rows.blobs */
SELECT blob_no, scope_no, session_no, name, rev_version FROM artifacts
WHERE scope_no BETWEEN CAST(:low AS BIGINT) >> 44 AND CAST(:high AS BIGINT) >> 44
ORDER BY blob_no, scope_no, session_no, name, rev_version
"""

SELECT_FIRST_CHUNKS = """/* text_rows.first_chunks */
SELECT
  blob_no,
  chunk_no,
  codec,
  data,
  (SELECT max(chunk_no) FROM blob_chunks AS every WHERE every.blob_no = blob_chunks.blob_no)
FROM blob_chunks
WHERE blob_no IN (SELECT value FROM json_each(:ids)) AND chunk_no = 0
"""

SELECT_CHUNKS_OF = """/* text_rows.chunks_of */
SELECT blob_no, chunk_no, codec, data FROM blob_chunks
WHERE blob_no = :blob_no AND chunk_no > :chunk_no
ORDER BY chunk_no
LIMIT 20
"""

SELECT_MESSAGES = """/* text_rows.messages */
SELECT id, text, parts, metadata, author, external_id, writer FROM messages
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

SELECT_ENTRIES = """/* text_rows.entries */
SELECT id, text, keywords, key, metadata, category, writer FROM entries
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

SELECT_HISTORY = """/* text_rows.history */
SELECT entry_id, version, text, keywords, key, metadata, category, writer FROM entry_history
WHERE (entry_id, version) > (:entry_id, :version)
ORDER BY entry_id, version
LIMIT 1000
"""

SELECT_ITEMS = """/* text_rows.items */
SELECT items.id, key, metadata, value, data, text, search_fields, path, items.writer
FROM items
JOIN item_namespaces ON item_namespaces.id = items.namespace_id
WHERE items.id > :after
ORDER BY items.id
LIMIT 100
"""

SELECT_SUMMARIES = """/* text_rows.summaries */
SELECT id, text || char(10) || coalesce(hint, '') FROM summaries
WHERE id > :after AND text IS NOT NULL
ORDER BY id
LIMIT 1000
"""

# Everything small that belongs to a scope, with its kind and up to three columns that name its
# place. State of a scope that is gone has the id 0.
SELECT_NAMES = """/* text_rows.names */
SELECT
  id,
  'session',
  name,
  branch,
  0,
  CASE branch WHEN '' THEN name ELSE branch END
FROM sessions
WHERE id BETWEEN :low AND :high
UNION ALL
SELECT id, 'title', name, branch, 0, coalesce(title, '') || char(10) || coalesce(metadata, '')
FROM sessions
WHERE id BETWEEN :low AND :high
UNION ALL
SELECT scope_no << 44, 'scope', '', '', 0, app || char(10) || user_name
FROM scopes
WHERE scope_no BETWEEN CAST(:low AS BIGINT) >> 44 AND CAST(:high AS BIGINT) >> 44
UNION ALL
SELECT id, 'artifact', name, '', session_no, name FROM artifact_names
WHERE id BETWEEN :low AND :high
UNION ALL
SELECT id, 'version', name, '', session_no, name || char(10) || coalesce(text, '')
FROM artifact_names
WHERE id BETWEEN :low AND :high
UNION ALL
SELECT
  scope_no << 44,
  'version',
  name,
  CAST(rev_version AS TEXT),
  session_no,
  name || char(10) || coalesce(metadata, '') || char(10) || mime
  || char(10) || coalesce(writer, '')
FROM artifacts
WHERE scope_no BETWEEN CAST(:low AS BIGINT) >> 44 AND CAST(:high AS BIGINT) >> 44
UNION ALL
SELECT
  coalesce(scopes.scope_no << 44, 0),
  'state',
  key,
  session,
  0,
  session || char(10) || key || char(10) || value
FROM state
LEFT JOIN scopes ON scopes.app = state.app AND scopes.user_name = state.user_name
WHERE coalesce(scopes.scope_no << 44, 0) BETWEEN :low AND :high
UNION ALL
SELECT scope_no << 44, 'tombstone', uid, '', 0, ref FROM tombstones
WHERE scope_no BETWEEN CAST(:low AS BIGINT) >> 44 AND CAST(:high AS BIGINT) >> 44
"""

SELECT_SESSION_NAME = """/* text_rows.session_name */
SELECT name, branch FROM sessions WHERE id = :id
"""

# Statements that page by the first columns, those columns, and the kind of their rows.
# Segments are compressed as stored: what is in them stands in the messages.
PAGED = (
    (SELECT_ENTRIES, ("after",), "entry"),
    (SELECT_HISTORY, ("entry_id", "version"), "history"),
    (SELECT_ITEMS, ("after",), "item"),
    (SELECT_SUMMARIES, ("after",), "summary"),
    (SELECT_SEGMENTS, ("session", "first_seq"), "archive"),
)


ARTIFACT_KINDS = ("artifact", "version")
PACKED_KINDS = ("archive", "packed")  # compressed bytes, which hold no words

# By kind, how a place is named.
PLACES = {
    "archive": "archive",
    "artifact": "artifact {0}",
    "entry": "entry {number}",
    "history": "entry {number}",
    "item": "item {0}",
    "message": "message",  # with its session and seq
    "packed": "artifact {0}",
    "scope": "the name of the user or the app",
    "session": "name, title or metadata of session {0}",
    "state": "state {0}",
    "summary": "summary {number}",
    "title": "name, title or metadata of session {0}",
    "tombstone": "tombstone",
    "version": "artifact {0}",
}


def rows_holding(
    tx: Tx, low: int, high: int, terms: list[Term], *, texts: bool = True, blobs: bool = True
) -> Iterator[TextRow]:
    """
    Yield each row of the scopes in the range that contains every one of *terms*.

    Args:
        texts: Search the rows of `PAGED` and messages too.
        blobs: Search the bytes of artifacts too.
    """
    rows = text_rows(tx, low, high, texts=texts, blobs=blobs) if terms else iter(())
    held: dict[tuple[int, Ref], set[int]] = {}
    while batch := list(islice(rows, WORDS_AT_ONCE)):
        plain = [
            (place, _plain(data), "")
            for place, (_, ref, data) in enumerate(batch)
            if ref[0] not in PACKED_KINDS
        ]
        postings = [set(ids) for ids in postings_in(plain, terms).values()]
        for place in sorted(set.union(*postings)):
            row_id, ref, _ = batch[place]
            own = {number for number, ids in enumerate(postings) if place in ids}
            if ref[0] == "version":  # its bytes come in several rows
                before = held.setdefault((row_id, ref), set())
                if len(before) == len(postings):
                    continue
                before |= own
                own = before
            if len(own) == len(postings):
                yield batch[place]


def _plain(data: bytes) -> str:
    """Return the text of a row; an escape in JSON is not joined to the word after it."""
    text = text_in(data)
    return f"{text}\n{compiled(ESCAPE).sub(' ', text)}" if "\\" in text else text


def text_rows(
    tx: Tx, low: int, high: int, *, texts: bool = True, blobs: bool = True
) -> Iterator[TextRow]:
    """Yield (id, kind, text) of every row with text of the scopes whose ids are in the range."""
    if low > high:
        return
    if texts:
        yield from _text_rows(tx, low, high)
    for row_id, *names, text in tx.all(SELECT_NAMES, {"low": low, "high": high}):
        yield row_id, tuple(names), text.encode()
    stored = tx.all(SELECT_BLOBS, {"low": low, "high": high}) if blobs else []
    for place, (blob_no, scope_no, session_no, name, rev_version) in enumerate(stored):
        if place % BLOBS_AT_ONCE == 0:
            ids = [row[0] for row in stored[place : place + BLOBS_AT_ONCE]]
            firsts = {row[0]: row for row in tx.all(SELECT_FIRST_CHUNKS, {"ids": ids})}
        ref = ("version", name, str(rev_version), session_no)
        tail = b""  # a word may end in the next chunk
        for _, _, codec, data in _chunks(tx, blob_no, firsts.get(blob_no)):
            said = tail + inflated(codec, data)
            yield scope_no << SCOPE_SHIFT, ref, b"\n".join((name.encode(), said))
            if codec == "zlib":
                yield scope_no << SCOPE_SHIFT, ("packed", name), data
            tail = said[-TAIL_BYTES:]


def _chunks(tx: Tx, blob_no: int, first: Row | None) -> Iterator[Row]:
    """Yield the chunks of a blob; *first* was read before, with the number of the last."""
    if first is not None:
        yield first[:4]
    if first is None or first[1] < first[4]:
        after = {"blob_no": blob_no, "chunk_no": -1 if first is None else first[1]}
        yield from chain.from_iterable(tx.pages(SELECT_CHUNKS_OF, after))


def _text_rows(tx: Tx, low: int, high: int) -> Iterator[TextRow]:
    """Yield the rows of the tables that are read in pages."""
    columns = ("id", *segments.CONTENT, "author", "external_id", "writer")
    for rows in _pages(tx, SELECT_MESSAGES, ("after",), low, high):
        for row in segments.fill(tx, rows, columns, lost_ok=True):
            yield row[0], ("message",), _joined(row[1:])
    for sql, keys, kind in PAGED:
        for row in chain.from_iterable(_pages(tx, sql, keys, low, high)):
            yield row[0], (kind, row[1]), _joined(row[len(keys) :])


def _pages(tx: Tx, sql: str, keys: tuple[str, ...], low: int, high: int) -> Iterator[list[Row]]:
    """
    Yield the rows whose first column is in the range.

    *keys* are the names of the first columns.
    """
    after = dict.fromkeys(keys, 0) | {keys[0]: low - 1}
    if len(keys) > 1:
        after[keys[1]] = MAX_INT
    for rows in tx.pages(sql, after):
        if rows[-1][0] > high:
            yield [row for row in rows if row[0] <= high]
            return
        yield rows


def inflated(codec: str, data: bytes) -> bytes:
    """Return *data* decompressed; unchanged if it is damaged."""
    try:
        return inflate_segment(data) if codec == "zlib" else data
    except Damaged:
        return data


def _joined(values: Iterable[Any]) -> bytes:
    return b"\n".join([one if isinstance(one, bytes) else one.encode() for one in values if one])


def name_place(tx: Tx, ref: Ref, row_id: int) -> str:
    """Return the name of a place in its own scope."""
    kind, *names = ref
    if kind == "message":
        name = tx.one(SELECT_SESSION_NAME, {"id": session_of(row_id)})
        branch = f" ({name[1]})" if name and name[1] else ""
        return f"message {name[0] if name else '?'}{branch}#{seq_of(row_id)}"
    if kind == "state" and names[1]:
        return f"state {names[0]} of session {names[1]}"
    return PLACES[kind].format(*names, number=number_of(row_id))
