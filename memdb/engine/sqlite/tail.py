"""
The tail of the full-text index of messages: new messages whose words are not yet in it.

Adding one row costs FTS5 as many pages as adding sixty. So the transaction that stores a message
only lists it in `messages_fts_tail`, and up to 64 messages are indexed together. A search reads
both. The tail is indexed in memory, by the same rules. So every process finds a stored message at
once and counts it as the index would (ADR-0027).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import apsw

from memdb.errors import from_sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memdb.engine.base import Tx, Values

# Messages in the tail before they are moved. With 128 a search after an append reads
# twice as much, and an append costs the same.
MAX_ROWS = 64

# A longer text goes into the index at once, so a search never reads 64 books again.
MAX_CHARS = 16_384

# Question of `Tx.known`: how many messages the tail lists.
COUNT = ("tail",)

COUNT_TAIL = """/* tail.count */
SELECT count(*) FROM messages_fts_tail
"""

INSERT_TAIL = """/* tail.insert */
INSERT INTO messages_fts_tail (id) VALUES (:id)
"""

# FTS5 writes rows with rising ids as one part of the index.
MOVE_TAIL = """/* tail.move */
INSERT INTO messages_fts (rowid, text, author, bigrams)
SELECT messages.id, text, author, bigrams
FROM messages_fts_tail
CROSS JOIN messages ON messages.id = messages_fts_tail.id
ORDER BY messages_fts_tail.id
"""

DELETE_TAIL = """/* tail.delete */
DELETE FROM messages_fts_tail
"""

DELETE_TAIL_RANGE = """/* tail.delete_range */
DELETE FROM messages_fts_tail WHERE id BETWEEN :low AND :high
"""

# The digest covers what a message says.
SELECT_TAIL = """/* tail.list */
SELECT messages.id, messages.digest
FROM messages_fts_tail
CROSS JOIN messages ON messages.id = messages_fts_tail.id
ORDER BY messages_fts_tail.id
"""

SELECT_TEXTS = """/* tail.texts */
SELECT id, text, author, bigrams FROM messages
WHERE id IN (SELECT value FROM json_each(:ids))
"""

COLUMNS = ("id", "text", "author", "bigrams")

# As in schema.sql, but with no table behind it: for at most 64 rows, in memory.
CREATE_INDEX = """/* tail.create_index */
CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5 (
  text, author, bigrams,
  content="", contentless_delete=1, tokenize="porter unicode61 remove_diacritics 2"
)
"""

INSERT_WORDS = """/* tail.insert_words */
INSERT INTO messages_fts (rowid, text, author, bigrams) VALUES (:id, :text, :author, :bigrams)
"""

DELETE_ALL_WORDS = """/* tail.delete_all_words */
INSERT INTO messages_fts (messages_fts) VALUES ('delete-all')
"""

DELETE_WORDS = """/* tail.delete_words */
DELETE FROM messages_fts WHERE rowid = :id
"""

SELECT_POSTINGS = """/* tail.postings */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM messages_fts
  WHERE messages_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""


class Tail:
    """
    The tail in one connection, with the in-memory index that it keeps for searches.

    Attributes:
        parts: Number of parts that the connection added to the index and that nobody counted yet.
        dropped: Number of messages that it dropped from that index and that nobody counted yet.
    """

    __slots__ = ("_digests", "_index", "_now", "_state", "_tx", "dropped", "parts")

    def __init__(self, tx: Tx, now: Callable[[], object]) -> None:
        """
        Read and write the tail in *tx*; nothing is read yet.

        Args:
            now: Returns a value that every commit changes, None inside a write.
        """
        self._tx = tx
        self._now = now
        self._index: apsw.Connection | None = None
        self.parts = self.dropped = 0
        self._digests: dict[int, int] = {}  # of the messages in the index in memory, by id
        self._state: object = None  # of the file when that index was made

    def add(self, rows: Sequence[Values]) -> bool:
        """
        List new messages, given as rows; move the tail into the index if it would get too long.

        Returns:
            False, and nothing is done, if they are too many or too long for the tail.

        Cost: 5 µs per message, and 10 µs more when the tail is moved.
        """
        if len(rows) >= MAX_ROWS or any(len(row["text"]) > MAX_CHARS for row in rows):
            return False
        known = self._tx.known()
        count = known.get(COUNT)
        if count is None:
            count = self.count()
        if len(rows) == 1:
            self._tx.run(INSERT_TAIL, {"id": rows[0]["id"]})
        else:
            self._tx.many(INSERT_TAIL, [{"id": row["id"]} for row in rows])
        count += len(rows)
        if count >= MAX_ROWS:
            self.move()
            count = 0
        known[COUNT] = count
        self._tx.keep_known()
        return True

    def count(self) -> int:
        """Return the number of messages in the tail."""
        return self._tx.read_number(COUNT_TAIL)

    def move(self) -> None:
        """Add the words of all messages in the tail to the index."""
        if self._tx.count_changed(MOVE_TAIL):
            self.parts += 1
        self.clear()

    def drop(self, low: int, high: int) -> None:
        """Remove messages with *low* <= id <= *high* from the tail."""
        self._tx.run(DELETE_TAIL_RANGE, {"low": low, "high": high})

    def clear(self) -> None:
        """Remove all messages from the tail, because their words are in the index."""
        self._tx.run(DELETE_TAIL)

    def postings(self, queries: Iterable[str], low: int, high: int) -> dict[str, list[int]]:
        """
        Return, for each FTS5 query, the ids in [low, high] of the tail that match it, rising.

        Queries without a match may be left out. Cost: 5 µs if nothing was written since the last
        call, else 50 µs and 20 µs per new message; 5 µs per query.
        """
        state = self._now()
        try:
            if state is None or state != self._state:
                self._refresh()
                self._state = state
            if self._index is None or not any(low <= one <= high for one in self._digests):
                return {}
            values = {"terms": json.dumps([*queries]), "low": low, "high": high}
            found: list[tuple[Any, ...]] = self._index.execute(SELECT_POSTINGS, values).fetchall()
        except apsw.Error as error:  # those of the file are translated
            code = getattr(error, "extendedresult", apsw.SQLITE_MISUSE)
            raise from_sqlite(code, str(error)) from error
        return {query: ids for query, text in found if (ids := json.loads(text))}

    def _refresh(self) -> None:
        """Update the in-memory index to the messages in the tail."""
        listed: dict[int, int] = dict(self._tx.all(SELECT_TAIL))
        kept, self._digests = self._digests, {}
        gone = [{"id": one} for one, digest in kept.items() if listed.get(one) != digest]
        new = [one for one, digest in listed.items() if kept.get(one) != digest]
        if self._index is None and new:
            self._index = apsw.Connection(":memory:")
            self._index.execute(CREATE_INDEX)
        if self._index is not None:
            if gone and len(gone) == len(kept):
                self._index.execute(DELETE_ALL_WORDS)
            else:
                self._index.executemany(DELETE_WORDS, gone)
            texts = self._tx.all(SELECT_TEXTS, {"ids": new}) if new else []
            rows = [dict(zip(COLUMNS, text, strict=True)) for text in texts]
            self._index.executemany(INSERT_WORDS, rows)
        self._digests = listed
