"""
Proving the archive: each archived message in one segment, with its words indexed.
"""

from __future__ import annotations

from apsw import Connection

from memdb.engine.sqlite import segments
from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.errors import Corrupt
from memdb.models.messages import Finding
from memdb.text.grams import bigrams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Row

MAX_PER_RULE = 20

SELECT_WITHOUT_SEGMENT = """/* check_archive.without_segment */
SELECT 'message ' || id FROM messages
WHERE
  text IS NULL
  AND coalesce(
    (
      SELECT last_seq FROM archive_segments
      WHERE session_id = messages.id & ~:seq_mask AND first_seq <= messages.id & :seq_mask
      ORDER BY first_seq DESC
      LIMIT 1
    ),
    0
  ) < messages.id & :seq_mask
ORDER BY id
LIMIT 20
"""

SELECT_WRONG_COUNTS = """/* check_archive.wrong_counts */
SELECT 'segment ' || first_seq || ' of session ' || session_id FROM archive_segments
WHERE message_count <> (
  SELECT count(*) FROM messages
  WHERE
    messages.id BETWEEN session_id + first_seq AND session_id + archive_segments.last_seq
    AND text IS NULL
)
ORDER BY session_id, first_seq
LIMIT 20
"""

SELECT_OVERLAPS = """/* check_archive.overlaps */
SELECT 'segment ' || first_seq || ' of session ' || session_id FROM archive_segments
WHERE EXISTS (
  SELECT 1 FROM archive_segments AS next
  WHERE
    next.session_id = archive_segments.session_id
    AND next.first_seq > archive_segments.first_seq
    AND next.first_seq <= archive_segments.last_seq
)
ORDER BY session_id, first_seq
LIMIT 20
"""

SELECT_INDEX_DIFFERS = """/* check_archive.index_differs */
SELECT 'message ' || id FROM (
  SELECT id FROM (SELECT id FROM messages WHERE text IS NULL EXCEPT SELECT rowid FROM archived_fts)
  UNION ALL
  SELECT id FROM (
    SELECT rowid AS id FROM archived_fts EXCEPT SELECT id FROM messages WHERE text IS NULL
  )
)
ORDER BY id
LIMIT 20
"""

SELECT_SEGMENTS = """/* check_archive.segments */
SELECT session_id, first_seq, last_seq, message_count, codec, data, sha256
FROM archive_segments
WHERE (session_id, first_seq) > (:session, :first_seq)
ORDER BY session_id, first_seq
LIMIT 100
"""

SELECT_ARCHIVED = """/* check_archive.archived */
SELECT id, text FROM messages
WHERE id > :after AND text IS NULL
ORDER BY id
LIMIT 1000
"""

SELECT_INDEX_SQL = """/* check_archive.index_sql */
SELECT sql FROM sqlite_schema WHERE name = 'archived_fts'
"""

CREATE_WORDS = """/* check_archive.create_words */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.archived_words USING fts5vocab (main, archived_fts, col)
"""

DROP_WORDS = """/* check_archive.drop_words */
DROP TABLE IF EXISTS temp.archived_words
"""

# FTS5 cuts a term after 32,766 bytes, in the middle of a character if need be.
SELECT_WORDS = """/* check_archive.words */
SELECT CAST(term AS BLOB), col, doc, cnt FROM temp.archived_words ORDER BY term, col
"""

INSERT_TEXT = """/* check_archive.insert_text */
INSERT INTO archived_fts (rowid, text, bigrams) VALUES (:id, :text, :bigrams)
"""

# (code, statement, whether `rebuild` mends it)
RULES = (
    ("archived_without_segment", SELECT_WITHOUT_SEGMENT, False),
    ("segment_rows", SELECT_WRONG_COUNTS, False),
    ("segment_overlap", SELECT_OVERLAPS, False),
    ("archived_fts", SELECT_INDEX_DIFFERS, True),
)


def damaged(tx: Tx) -> Iterator[Finding]:
    """Open every segment; yield a finding for each that does not hold what it says."""
    after = {"session": 0, "first_seq": 0}
    while rows := tx.all(SELECT_SEGMENTS, after):
        for row in rows:
            problem = _problem(row)
            if problem is not None:
                place = f"segment {row[1]} of session {row[0]}"
                yield Finding("segment", f"{place}: {problem}", rebuildable=False)
        after = {"session": rows[-1][0], "first_seq": rows[-1][1]}


def _problem(row: Row) -> str | None:
    session, first_seq, last_seq, message_count, *stored = row
    try:
        held = segments.opened(session, first_seq, tuple(stored))
    except Corrupt as error:
        return str(error.__cause__)
    if (held[0][0], held[-1][0], len(held)) != (first_seq, last_seq, message_count):
        return "it holds other messages than it says"
    return None


def words(db: Database) -> Iterator[Finding]:
    """
    Compare the words of the index of archived messages with those of the segments.

    Its texts stand nowhere else in the file, so SQLite cannot do it: they are
    indexed again beside it.
    """
    if db.path == MEMORY:
        with db.read() as tx:
            yield from _words(tx)
        return
    # Readers may not even make a temporary table.
    fresh = Tx(db.connection(writable=True))
    try:
        fresh.run("BEGIN")
        yield from _words(fresh)
    finally:
        fresh.close()


def _words(tx: Tx) -> Iterator[Finding]:
    (sql,) = tx.one(SELECT_INDEX_SQL) or ("",)
    beside = Tx(Connection(""))
    try:
        beside.run(sql)
        beside.run("BEGIN")
        after = 0
        while rows := tx.all(SELECT_ARCHIVED, {"after": after}):
            said = segments.fill(tx, rows, row_id=0, places=(1,), lost_ok=True)
            beside.many(INSERT_TEXT, [_to_index(row_id, text or "") for row_id, text in said])
            after = rows[-1][0]
        expected, stored = set(_vocabulary(beside)), set(_vocabulary(tx))
    finally:
        beside.close()
    for term in sorted({row[0] for row in expected ^ stored})[:MAX_PER_RULE]:
        yield Finding("archived_fts", f"word {term.decode(errors='replace')!r}", rebuildable=True)


def _to_index(row_id: int, text: str) -> dict[str, Any]:
    return {"id": row_id, "text": text, "bigrams": bigrams_of(text)}


def _vocabulary(tx: Tx) -> list[Row]:
    """Return each word with the column, the number of its messages and of its places."""
    tx.run(CREATE_WORDS)
    try:
        return tx.all(SELECT_WORDS)
    finally:
        tx.run(DROP_WORDS)
