"""
Words in the full-text indexes that no row has any more, and their removal.

Words of removed rows are removed from the leaves of an index at once (ADR-0056). The key by which
FTS5 finds a leaf stays, and is the beginning of a word or a whole word. An index with a key that
begins no remaining word is rebuilt. So is an index in which another program has switched off that
option.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memdb.engine.sqlite.words import of_each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx

CREATE_WORDS = of_each(
    "index_words.create",
    """CREATE VIRTUAL TABLE IF NOT EXISTS temp.scan_{name}
USING fts5vocab (main, {name}_fts, instance)
""",
)

# Each key has the letter of its index before the word; no text sorts behind the byte FF.
SELECT_STALE = of_each(
    "index_words.stale",
    """SELECT 1 WHERE
  NOT EXISTS (SELECT 1 FROM {name}_fts_config WHERE k = 'secure-delete' AND v = 1)
  OR EXISTS (
    SELECT 1 FROM {name}_fts_idx AS keys
    WHERE keys.term <> x'' AND NOT EXISTS (
      SELECT 1 FROM temp.scan_{name}
      WHERE
        term >= CAST(substr(keys.term, 2) AS TEXT)
        AND term < CAST(substr(keys.term, 2) || x'ff' AS TEXT)
    )
  )
""",
)

SELECT_INDEXED = of_each(
    "index_words.indexed",
    """SELECT value FROM json_each(:words)
WHERE EXISTS (SELECT 1 FROM temp.scan_{name} WHERE term = value)
""",
)


def mend_indexes(db: SqliteFile) -> list[str]:
    """
    Rebuild each index that may contain more than the words of its rows; return their names.

    Cost: 20 µs per leaf of the indexes, and 1 s per 20,000 messages for what is rebuilt.

    Transaction: its own, only if there is such an index.
    """
    with db.apart() as tx:
        _create_words(tx)
        stale = [name for name, sql in SELECT_STALE.items() if tx.one(sql)]
    if stale:
        with db.write() as tx:
            for name in stale:
                tx.words.rebuild_one(name)
    return stale


def find_indexed(db: SqliteFile, words: Iterable[str]) -> set[str]:
    """Return the *words* that a row has."""
    with db.apart() as tx:
        _create_words(tx)
        values = {"words": json.dumps([*words])}
        return {word for sql in SELECT_INDEXED.values() for (word,) in tx.all(sql, values)}


def _create_words(tx: Tx) -> None:
    for sql in CREATE_WORDS.values():
        tx.run(sql)
