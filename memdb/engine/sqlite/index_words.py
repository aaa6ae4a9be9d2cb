"""
Words that the full-text indexes of a file hold beyond those of its rows, and how they go.

Words of removed rows leave the leaves of an index at once (ADR-0056). The key by which FTS5 finds a
leaf stays, and is the beginning of a word or all of it. An index with a key that begins no word of
a row any more is made anew, and so is one whose option another program has switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.text.data_files import dump_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx

CREATE_WORDS = (
    """/* index_words.create_words_of_messages */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_messages USING fts5vocab (main, messages_fts, instance)
""",
    """/* index_words.create_words_of_archived */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_archived USING fts5vocab (main, archived_fts, instance)
""",
    """/* index_words.create_words_of_entries */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_entries USING fts5vocab (main, entries_fts, instance)
""",
    """/* index_words.create_words_of_summaries */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_summaries
USING fts5vocab (main, summaries_fts, instance)
""",
    """/* index_words.create_words_of_artifacts */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_artifacts
USING fts5vocab (main, artifacts_fts, instance)
""",
    """/* index_words.create_words_of_items */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_items USING fts5vocab (main, items_fts, instance)
""",
    """/* index_words.create_words_of_sessions */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_sessions USING fts5vocab (main, sessions_fts, instance)
""",
)

# Each key has the letter of its index before the word; no text sorts behind the byte FF.
SELECT_STALE = """/* index_words.stale */
SELECT 'messages' WHERE
  NOT EXISTS (SELECT 1 FROM messages_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM messages_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_messages
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
UNION ALL SELECT 'archived' WHERE
  NOT EXISTS (SELECT 1 FROM archived_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM archived_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_archived
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
UNION ALL SELECT 'entries' WHERE
  NOT EXISTS (SELECT 1 FROM entries_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM entries_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_entries
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
UNION ALL SELECT 'summaries' WHERE
  NOT EXISTS (SELECT 1 FROM summaries_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM summaries_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_summaries
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
UNION ALL SELECT 'artifacts' WHERE
  NOT EXISTS (SELECT 1 FROM artifacts_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM artifacts_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_artifacts
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
UNION ALL SELECT 'items' WHERE
  NOT EXISTS (SELECT 1 FROM items_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM items_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_items
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
UNION ALL SELECT 'sessions' WHERE
  NOT EXISTS (SELECT 1 FROM sessions_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM sessions_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_sessions
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
"""

SELECT_INDEXED = """/* index_words.indexed */
SELECT value FROM json_each(:words) WHERE
  EXISTS (SELECT 1 FROM temp.scan_messages WHERE term = value)
  OR EXISTS (SELECT 1 FROM temp.scan_archived WHERE term = value)
  OR EXISTS (SELECT 1 FROM temp.scan_entries WHERE term = value)
  OR EXISTS (SELECT 1 FROM temp.scan_summaries WHERE term = value)
  OR EXISTS (SELECT 1 FROM temp.scan_artifacts WHERE term = value)
  OR EXISTS (SELECT 1 FROM temp.scan_items WHERE term = value)
  OR EXISTS (SELECT 1 FROM temp.scan_sessions WHERE term = value)
"""

SET_ERASING = {
    "messages": """/* index_words.erase_messages */
INSERT INTO messages_fts (messages_fts, rank) VALUES ('secure-delete', 1)
""",
    "archived": """/* index_words.erase_archived */
INSERT INTO archived_fts (archived_fts, rank) VALUES ('secure-delete', 1)
""",
    "entries": """/* index_words.erase_entries */
INSERT INTO entries_fts (entries_fts, rank) VALUES ('secure-delete', 1)
""",
    "summaries": """/* index_words.erase_summaries */
INSERT INTO summaries_fts (summaries_fts, rank) VALUES ('secure-delete', 1)
""",
    "artifacts": """/* index_words.erase_artifacts */
INSERT INTO artifacts_fts (artifacts_fts, rank) VALUES ('secure-delete', 1)
""",
    "items": """/* index_words.erase_items */
INSERT INTO items_fts (items_fts, rank) VALUES ('secure-delete', 1)
""",
    "sessions": """/* index_words.erase_sessions */
INSERT INTO sessions_fts (sessions_fts, rank) VALUES ('secure-delete', 1)
""",
}


def mend_indexes(db: SqliteFile) -> list[str]:
    """
    Make each index anew that may hold more than the words of its rows; return their names.

    Cost: 20 µs per leaf of the indexes, and 1 s per 20,000 messages for what is made anew.

    Transaction: its own, only if there is such an index.
    """
    with db.apart() as tx:
        _create_words(tx)
        stale = [name for (name,) in tx.all(SELECT_STALE)]
    if stale:
        with db.write() as tx:
            for name in stale:
                tx.run(SET_ERASING[name])
                tx.words.rebuild_one(name)
    return stale


def find_indexed(db: SqliteFile, words: Iterable[str]) -> set[str]:
    """Return those of *words* that a row has."""
    with db.apart() as tx:
        _create_words(tx)
        return {word for (word,) in tx.all(SELECT_INDEXED, {"words": dump_texts(words)})}


def _create_words(tx: Tx) -> None:
    for sql in CREATE_WORDS:
        tx.run(sql)
