"""
Words that the full-text indexes of a file hold, also those of rows that are dropped.

FTS5 takes a dropped row out of an index with a mark, and its words stay until parts are merged.
The leaf that would hold a word is found in the `_idx` table of the index, and its terms are
decoded: each is stored without the letters that it shares with the one before, so a search of its
bytes would miss a word beside one that begins alike (ADR-0053). The keys of that table are words
too, or their beginnings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memdb.engine.sqlite.pages import varint
from memdb.text.data_files import dump_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx

# What is searched of a word in plain bytes, where its first letters may be missing.
SHARED_BYTES = 2
LAST_BYTE = 32

# Every term and key of an index begins with it, before the word.
MAIN_INDEX = b"0"

LEAF_HEADER = 4

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
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM messages_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM messages_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN messages_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM messages_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
""",
    """/* index_words.leaves_of_archived */
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM archived_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM archived_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN archived_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM archived_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
""",
    """/* index_words.leaves_of_entries */
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM entries_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM entries_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN entries_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM entries_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
""",
    """/* index_words.leaves_of_summaries */
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM summaries_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM summaries_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN summaries_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM summaries_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
""",
    """/* index_words.leaves_of_artifacts */
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM artifacts_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM artifacts_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN artifacts_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM artifacts_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
""",
    """/* index_words.leaves_of_items */
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM items_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM items_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN items_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM items_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
""",
    """/* index_words.leaves_of_sessions */
SELECT
  leaf.block,
  json_group_array(words.value),
  json_group_array(words.value) FILTER (WHERE EXISTS (
    SELECT 1 FROM sessions_fts_idx
    WHERE segid = parts.segid AND term = CAST('0' || words.value AS BLOB)
  ))
FROM (SELECT DISTINCT segid FROM sessions_fts_idx) AS parts
CROSS JOIN json_each(:words) AS words
LEFT JOIN sessions_fts_data AS leaf ON leaf.id = (parts.segid << 37) + coalesce((
  SELECT pgno >> 1 FROM sessions_fts_idx
  WHERE segid = parts.segid AND term <= CAST('0' || words.value AS BLOB)
  ORDER BY term DESC
  LIMIT 1
), 1)
GROUP BY leaf.id
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
    """Return the bytes of a word that are searched for where no index explains them."""
    return word.encode()[SHARED_BYTES:LAST_BYTE]


def find_in_leaves(tx: Tx, words: Iterable[str]) -> tuple[set[str], set[str]]:
    """
    Return those of *words* that an index holds, for a row or a dropped one; and the keys.

    A key is as much of a word as tells it from the one before, so a word may be one by chance.

    Cost: 0.1 ms per word and part.
    """
    asked = {"words": dump_texts(words)}
    terms: set[str] = set()
    keys: set[str] = set()
    for sql in SELECT_LEAVES:
        for leaf, words_here, keys_here in tx.all(sql, asked):
            keys.update(json.loads(keys_here))
            if leaf is not None:
                terms |= _held(leaf, set(json.loads(words_here)) - terms)
    return terms, keys


def _held(leaf: bytes, words: set[str]) -> set[str]:
    """Return those of *words* that are terms of a leaf; all if it is not as the format says."""
    wanted = {MAIN_INDEX + word.encode(): word for word in words}
    try:
        return {wanted[term] for term in leaf_terms(leaf) if term in wanted}
    except IndexError:
        return words


def leaf_terms(leaf: bytes) -> Iterator[bytes]:
    """
    Yield the terms of a leaf of FTS5, each with the letter of its index.

    After two bytes the header has where the terms end; there stand the places of all, each as the
    distance from the one before. A term is the length that it shares with the one before, but for
    the first, its other length, and its other bytes.

    Raises:
        IndexError: it is cut.
    """
    end = index = int.from_bytes(leaf[2:4], "big")
    if not LEAF_HEADER <= end <= len(leaf):
        raise IndexError("the leaf is cut")
    place = shared = 0
    term = b""
    while index < len(leaf):
        step, index = varint(leaf, index)
        place += step
        at = place
        if term:
            shared, at = varint(leaf, at)
        size, at = varint(leaf, at)
        if shared > len(term) or at + size > end:
            raise IndexError("a term is cut")
        term = term[:shared] + leaf[at : at + size]
        yield term


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
