"""
Words that the full-text indexes of a file hold, also those of rows that are dropped.

FTS5 takes a dropped row out of an index with a mark, and its words stay until parts are merged.
The leaf that would hold a word is found in the `_idx` table of the index and searched as bytes:
terms share their first letters with the one before, so the first two are left out (ADR-0035).
"""

from __future__ import annotations

from memdb.text.data_files import dump_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx

# Terms share up to so many bytes with the one before, and are compared up to the last.
SHARED_BYTES = 2
LAST_BYTE = 32

CREATE_WORDS = (
    """/* index_words.create_words_of_messages */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_messages USING fts5vocab (main, messages_fts, row)
""",
    """/* index_words.create_words_of_archived */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_archived USING fts5vocab (main, archived_fts, row)
""",
    """/* index_words.create_words_of_entries */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_entries USING fts5vocab (main, entries_fts, row)
""",
    """/* index_words.create_words_of_summaries */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_summaries USING fts5vocab (main, summaries_fts, row)
""",
    """/* index_words.create_words_of_artifacts */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_artifacts USING fts5vocab (main, artifacts_fts, row)
""",
    """/* index_words.create_words_of_items */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_items USING fts5vocab (main, items_fts, row)
""",
    """/* index_words.create_words_of_sessions */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_sessions USING fts5vocab (main, sessions_fts, row)
""",
)

SELECT_WORDS = """/* index_words.words */
SELECT term FROM temp.scan_messages
UNION SELECT term FROM temp.scan_archived
UNION SELECT term FROM temp.scan_entries
UNION SELECT term FROM temp.scan_summaries
UNION SELECT term FROM temp.scan_artifacts
UNION SELECT term FROM temp.scan_items
UNION SELECT term FROM temp.scan_sessions
"""

# A leaf has the id (segid << 37) + page: FTS5_SEGMENT_ROWID in SQLite's fts5_index.c.
# Source: https://sqlite.org/src/file/ext/fts5/fts5_index.c
SELECT_LEAVES = (
    """/* index_words.leaves_of_messages */
SELECT words.value
FROM (SELECT DISTINCT segid FROM messages_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN messages_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM messages_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
    """/* index_words.leaves_of_archived */
SELECT words.value
FROM (SELECT DISTINCT segid FROM archived_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN archived_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM archived_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
    """/* index_words.leaves_of_entries */
SELECT words.value
FROM (SELECT DISTINCT segid FROM entries_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN entries_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM entries_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
    """/* index_words.leaves_of_summaries */
SELECT words.value
FROM (SELECT DISTINCT segid FROM summaries_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN summaries_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM summaries_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
    """/* index_words.leaves_of_artifacts */
SELECT words.value
FROM (SELECT DISTINCT segid FROM artifacts_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN artifacts_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM artifacts_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
    """/* index_words.leaves_of_items */
SELECT words.value
FROM (SELECT DISTINCT segid FROM items_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN items_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM items_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
    """/* index_words.leaves_of_sessions */
SELECT words.value
FROM (SELECT DISTINCT segid FROM sessions_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
JOIN sessions_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM sessions_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
WHERE instr(leaf.block, substr(CAST(words.value AS BLOB), 3, 30)) > 0
""",
)

SELECT_INDEXED = (
    """/* index_words.words_in_messages */
SELECT term FROM temp.scan_messages WHERE term IN (SELECT value FROM json_each(:words))
""",
    """/* index_words.words_in_archived */
SELECT term FROM temp.scan_archived WHERE term IN (SELECT value FROM json_each(:words))
""",
    """/* index_words.words_in_entries */
SELECT term FROM temp.scan_entries WHERE term IN (SELECT value FROM json_each(:words))
""",
    """/* index_words.words_in_summaries */
SELECT term FROM temp.scan_summaries WHERE term IN (SELECT value FROM json_each(:words))
""",
    """/* index_words.words_in_artifacts */
SELECT term FROM temp.scan_artifacts WHERE term IN (SELECT value FROM json_each(:words))
""",
    """/* index_words.words_in_items */
SELECT term FROM temp.scan_items WHERE term IN (SELECT value FROM json_each(:words))
""",
    """/* index_words.words_in_sessions */
SELECT term FROM temp.scan_sessions WHERE term IN (SELECT value FROM json_each(:words))
""",
)


def visible_part(word: str) -> bytes:
    """Return the bytes of a word that a leaf holds."""
    return word.encode()[SHARED_BYTES:LAST_BYTE]


def find_in_leaves(tx: Tx, words: Iterable[str]) -> set[str]:
    """Return those of *words* whose leaf has them in any index. Cost: 20 µs per word and part."""
    asked = {"words": dump_texts(words)}
    return {row[0] for sql in SELECT_LEAVES for row in tx.all(sql, asked)}


def find_indexed(db: SqliteFile, words: Iterable[str]) -> set[str]:
    """Return those of *words* that a row has which is not dropped."""
    asked = {"words": dump_texts(words)}
    with db.apart() as tx:
        for sql in CREATE_WORDS:
            tx.run(sql)
        return {row[0] for sql in SELECT_INDEXED for row in tx.all(sql, asked)}


def read_vocabulary(db: SqliteFile) -> bytes:
    """Return every word of the indexes, one per line. Cost: it reads all of them."""
    with db.apart() as tx:
        for sql in CREATE_WORDS:
            tx.run(sql)
        return "\n".join(row[0] for row in tx.all(SELECT_WORDS)).encode()
