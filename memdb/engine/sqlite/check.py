"""
What only SQLite can check: pages, keys, and full-text indexes, which are also made anew here.
"""

from __future__ import annotations

from apsw import Connection

from memdb.engine import segments
from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.errors import Corrupt, ReadOnly, StorageError
from memdb.text.derived import bigrams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Row
    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.database import Database

MAX_PER_INDEX = 20
SQLITE_READONLY = 8

QUICK_CHECK = """/* check.quick */
PRAGMA quick_check(20)
"""

INTEGRITY_CHECK = """/* check.integrity */
PRAGMA integrity_check(20)
"""

SELECT_BROKEN_KEYS = """/* check.foreign_keys */
SELECT "table" || ' row ' || coalesce(rowid, '?') || ' points to a missing ' || parent
FROM pragma_foreign_key_check
LIMIT 20
"""

# Only the form with a rank compares the index with its content table; the one
# without, and PRAGMA integrity_check, overlook a ghost row. Archived messages
# have no content table: `differing_words` compares their index.
CHECK_FTS = {
    "messages_fts": """/* check.messages_fts */
INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)
""",
    "archived_fts": """/* check.archived_fts */
INSERT INTO archived_fts (archived_fts) VALUES ('integrity-check')
""",
    "entries_fts": """/* check.entries_fts */
INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)
""",
    "summaries_fts": """/* check.summaries_fts */
INSERT INTO summaries_fts (summaries_fts, rank) VALUES ('integrity-check', 1)
""",
    "artifacts_fts": """/* check.artifacts_fts */
INSERT INTO artifacts_fts (artifacts_fts, rank) VALUES ('integrity-check', 1)
""",
}

SELECT_INDEX_DIFFERS = """/* check.index_differs */
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

SELECT_ARCHIVED = """/* check.archived */
SELECT id, text FROM messages
WHERE id > :after AND text IS NULL
ORDER BY id
LIMIT 1000
"""

SELECT_INDEX_SQL = """/* check.index_sql */
SELECT sql FROM sqlite_schema WHERE name = 'archived_fts'
"""

CREATE_WORDS = """/* check.create_words */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.archived_words USING fts5vocab (main, archived_fts, col)
"""

DROP_WORDS = """/* check.drop_words */
DROP TABLE IF EXISTS temp.archived_words
"""

# FTS5 cuts a term after 32,766 bytes, in the middle of a character if need be.
SELECT_WORDS = """/* check.words */
SELECT CAST(term AS BLOB), col, doc, cnt FROM temp.archived_words ORDER BY term, col
"""

INSERT_TEXT = """/* check.insert_text */
INSERT INTO archived_fts (rowid, text, bigrams) VALUES (:id, :text, :bigrams)
"""


def find_damaged_pages(db: Database, *, deep: bool) -> list[str]:
    """
    Return what SQLite itself finds, each page read if *deep*.

    On a connection of its own: FTS5 reports corruption from an older one whose
    picture of the index dates from before a rebuild (SQLite 3.54.1).
    """
    sql = INTEGRITY_CHECK if deep else QUICK_CHECK
    if db.path == MEMORY:
        with db.read() as tx:
            rows = tx.all(sql)
    else:
        fresh = Tx(db.connection(writable=False))
        try:
            rows = fresh.all(sql)
        finally:
            fresh.close()
    return [row[0] for row in rows if row[0] != "ok"]


def find_broken_keys(tx: AnyTx) -> list[str]:
    """Return the rows that point to a row that is not there, 20 at most."""
    return [row[0] for row in tx.all(SELECT_BROKEN_KEYS)]


def find_damaged_indexes(db: Database) -> Iterator[tuple[str, str]]:
    """
    Yield the name of each index that differs from its rows, and how.

    Nothing is compared if the file cannot be written.

    Raises:
        Busy: another process kept the write lock, which comparing needs.
    """
    for table, sql in CHECK_FTS.items():
        try:
            with db.write() as tx:
                tx.run(sql)
        except Corrupt as error:
            yield table, str(error)
        except ReadOnly:
            return
        except StorageError as error:
            if error.sqlite_code & 0xFF == SQLITE_READONLY:
                return
            raise


def find_archived_differences(tx: AnyTx) -> list[str]:
    """Return the archived messages without a row in their index, and rows without a message."""
    return [row[0] for row in tx.all(SELECT_INDEX_DIFFERS)]


def find_differing_words(db: Database) -> list[str]:
    """
    Return words of archived messages that their index has otherwise than the segments.

    Their texts stand nowhere else in the file, so SQLite cannot compare them:
    they are indexed again beside it.
    """
    if db.path == MEMORY:
        with db.read() as tx:
            return _differing_words(tx)
    # Readers may not even make a temporary table.
    fresh = Tx(db.connection(writable=True))
    try:
        fresh.run("BEGIN")
        return _differing_words(fresh)
    finally:
        fresh.close()


def _differing_words(tx: Tx) -> list[str]:
    (sql,) = tx.one(SELECT_INDEX_SQL) or ("",)
    beside = Tx(Connection(""))
    try:
        beside.run(sql)
        beside.run("BEGIN")
        after = 0
        while rows := tx.all(SELECT_ARCHIVED, {"after": after}):
            said = segments.fill(tx, rows, ("id", "text"), lost_ok=True)
            beside.many(INSERT_TEXT, [_to_index(row_id, text or "") for row_id, text in said])
            after = rows[-1][0]
        expected, stored = set(_vocabulary(beside)), set(_vocabulary(tx))
    finally:
        beside.close()
    terms = sorted({row[0] for row in expected ^ stored})[:MAX_PER_INDEX]
    return [f"word {term.decode(errors='replace')!r}" for term in terms]


def _to_index(row_id: int, text: str) -> dict[str, Any]:
    return {"id": row_id, "text": text, "bigrams": bigrams_of(text)}


def _vocabulary(tx: Tx) -> list[Row]:
    """Return each word with the column, the number of its messages and of its places."""
    tx.run(CREATE_WORDS)
    try:
        return tx.all(SELECT_WORDS)
    finally:
        tx.run(DROP_WORDS)
