"""
Full-text search with FTS5: which rows contain a term. Owns the `*_fts` tables.

Only this module uses FTS5: callers pass terms (`memdb.text.terms.Term`), and this module writes and
quotes the queries.

The words of the newest messages are not in the index yet, but in `memdb.engine.sqlite.tail`. The
author of an archived message stays in `messages_fts`; its words are in `archived_fts`, which is
read only for ranges that contain a segment (ADR-0009).

An index row is written in the transaction of its base row, without triggers, which are two to four
times slower in bulk. A query reads one term at a time inside a range of ids. FTS5's own rank reads
each term's whole list, over all scopes, so the texts of one scope would change the ranking of
another (ADR-0004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.full_text import (
    lists_of,
    query_of,
)
from memdb.engine.segments import fill, spans_of
from memdb.engine.sqlite.tail import Tail
from memdb.models.ids import MASKS
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from memdb.engine.base import Postings, Row, Tx, Values
    from memdb.text.terms import Term

    Span = tuple[int, int, int | None]

# Taking the words of a message out costs as much as adding those of so many: an index that loses
# more than a part of its messages is rebuilt.
DROP_COST, LEAST = 30, 64

# The indexes; that of archived messages has no table of rows.
INDEXES = ("messages", "archived", "entries", "summaries", "artifacts", "items", "sessions")

# By kind: its index, the columns, the table of its rows, and which of these the index holds. Of an
# archived message that is its author, of an artifact its newest text.
KINDS = {
    "message": (
        "messages",
        "text, author, bigrams",
        "messages",
        "id NOT IN (SELECT id FROM messages_fts_tail)",
    ),
    "entry": ("entries", "text, keywords, bigrams", "entries", "true"),
    "summary": ("summaries", "text, bigrams", "summaries", "true"),
    "artifact": ("artifacts", "name, text, bigrams", "artifact_names", "true"),
    "item": ("items", "text, bigrams", "items", "text IS NOT NULL"),
    "session": ("sessions", "title, bigrams", "sessions", "title IS NOT NULL"),
}


def of_each(tag: str, sql: str, names: Iterable[str] = INDEXES) -> dict[str, str]:
    """Return a statement for each index by name; *sql* contains {name}."""
    return {name: f"/* {tag}_{name} */\n{sql.format(name=name)}" for name in names}


def _of_rows(tag: str, sql: str) -> dict[str, str]:
    """Return a statement for the rows of each kind."""
    return {
        kind: f"/* {tag}_{name} */\n"
        + sql.format(name=name, columns=columns, table=table, where=where)
        for kind, (name, columns, table, where) in KINDS.items()
    }


INSERT_MESSAGE = """/* words.insert_message */
INSERT INTO messages_fts (rowid, text, author, bigrams) VALUES (:id, :text, :author, :bigrams)
"""

INSERT_ROWS = _of_rows(
    "words.add",
    """INSERT INTO {name}_fts (rowid, {columns})
SELECT id, {columns} FROM {table} WHERE id BETWEEN :low AND :high AND {where}
""",
)

# FTS5 needs the old values: if the row changed first, its old words would stay.
DELETE_ROWS = _of_rows(
    "words.drop",
    """INSERT INTO {name}_fts ({name}_fts, rowid, {columns})
SELECT 'delete', id, {columns} FROM {table} WHERE id BETWEEN :low AND :high AND {where}
""",
)

COUNT_ROWS = """/* words.count_rows */
SELECT count(*) FROM messages WHERE id BETWEEN :low AND :high
"""

INSERT_ARCHIVED = """/* words.insert_archived */
INSERT INTO archived_fts (rowid, text, bigrams) VALUES (:id, :text, :bigrams)
"""

DELETE_ARCHIVED = """/* words.delete_archived */
INSERT INTO archived_fts (archived_fts, rowid, text, bigrams)
VALUES ('delete', :id, :text, :bigrams)
"""

DELETE_ALL_ARCHIVED = """/* words.delete_all_archived */
INSERT INTO archived_fts (archived_fts) VALUES ('delete-all')
"""

# One statement for all terms. The ids of a term are one JSON array: half the cost of a row each.
SELECT_ALL = of_each(
    "words.postings",
    """SELECT terms.value, (
  SELECT json_group_array(rowid) FROM {name}_fts
  WHERE {name}_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
""",
)

# FTS5 reads a list backwards at half the speed, so this is for long lists only.
SELECT_NEWEST = of_each(
    "words.newest",
    """SELECT terms.value, (
  SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM {name}_fts
    WHERE {name}_fts MATCH terms.value AND rowid BETWEEN :low AND :high
    ORDER BY rowid DESC
    LIMIT :limit
  )
)
FROM json_each(:terms) AS terms
""",
)

# The index has no list of its rows. FTS5 begins its record of averages with their number.
SELECT_ARCHIVED_COUNTS = """/* words.archived_counts */
SELECT
  (SELECT count(*) FROM messages WHERE text IS NULL),
  (SELECT block FROM archived_fts_data WHERE id = 1)
"""

SELECT_AVERAGES = """/* words.averages */
SELECT block FROM messages_fts_data WHERE id = 1
"""

SELECT_ARCHIVED_TEXTS = """/* words.archived_texts */
SELECT id, text FROM messages
WHERE id > :after AND text IS NULL
ORDER BY id
LIMIT 1000
"""

REBUILD = of_each(
    "words.rebuild",
    """INSERT INTO {name}_fts ({name}_fts) VALUES ('rebuild')
""",
    [name for name in INDEXES if name != "archived"],
)

# Deleted words leave an index at once (ADR-0056). A rebuild begins an index whose stored version
# says that none has left. A connection that knew a later version would not store it again, and
# FTS5 would take the index for damaged: setting the option lets every connection read the version.
SET_SECURE_DELETE = of_each(
    "words.secure_delete",
    """INSERT INTO {name}_fts ({name}_fts, rank) VALUES ('secure-delete', 1)
""",
)

# Each merges about so many pages of an index; a number below zero begins to make one part of all.
MERGE = of_each(
    "words.merge",
    """INSERT INTO {name}_fts ({name}_fts, rank) VALUES ('merge', :pages)
""",
)

VARINT_BITS = 0x7F

# Ids of a list that is kept, and of all lists of a connection: 16 MB.
LONG = 200
MAX_KEPT = 200_000

# FTS5's records of averages and of structure.
SELECT_STATE = """/* words.state */
SELECT
  (SELECT block FROM messages_fts_data WHERE id = 1),
  (SELECT block FROM messages_fts_data WHERE id = 10),
  (SELECT number FROM changes WHERE kind = 'message')
"""

SELECT_ANY_SEGMENT = """/* words.any_segment */
SELECT 1 FROM archive_segments WHERE session_id BETWEEN :low & ~:seq_mask AND :high LIMIT 1
"""


class LongLists:
    """
    Long posting lists of messages, cached between searches of a connection.

    A list is valid as long as the index does not change. FTS5 writes its averages or its structure
    with every change of an index. After a rebuild both may be the same as before, so `changes`
    counts the edits. Messages in the tail are in no list, so an append leaves all lists unchanged
    (ADR-0055). The cache also stores whether a range has archived messages, because archiving is
    counted too.
    """

    __slots__ = ("_archived", "_is_writing", "_lists", "_read", "_size", "_state", "_tx")

    def __init__(
        self, tx: Tx, read: Callable[..., Postings], is_writing: Callable[[], bool]
    ) -> None:
        """
        Store the arguments; nothing is read yet.

        Args:
            read: Returns the postings of some terms in the index.
            is_writing: Inside a write nothing is cached, because FTS5 has not written its records
                yet.
        """
        self._tx = tx
        self._read = read
        self._is_writing = is_writing
        self._archived: dict[tuple[int, int], bool] = {}
        self._lists: dict[tuple[Term, Span], frozenset[int]] = {}
        self._size = 0
        self._state: Row | None = None

    def read(self, terms: Sequence[Term], low: int, high: int, newest: int | None) -> Postings:
        """Return the index's part of `memdb.engine.base.Words.postings`."""
        state = None if self._is_writing() else self._tx.one(SELECT_STATE)
        if state is None or state != self._state or self._size > MAX_KEPT:
            self._lists.clear()
            self._archived.clear()
            self._size, self._state = 0, state
        span = low, high, newest
        known = {term: self._lists[term, span] for term in terms if (term, span) in self._lists}
        missing = [term for term in terms if term not in known]
        found = self._read("messages", missing, low, high, newest)
        for term, ids in found.items():
            if len(ids) >= LONG and state is not None:
                found[term] = kept = frozenset(ids)
                self._lists[term, span] = kept
                self._size += len(kept)
        found |= known
        return {term: found[term] for term in terms if term in found}

    def has_archived(self, low: int, high: int) -> bool:
        """Return whether there are archived messages near a range; called after `read`."""
        found = self._archived.get((low, high))
        if found is None or self._state is None:
            row = self._tx.one(SELECT_ANY_SEGMENT, {"low": low, "high": high, **MASKS})
            found = self._archived[low, high] = row is not None
        return found


class SqliteWords:
    """The full-text indexes in one transaction; see `memdb.engine.base.Words`."""

    __slots__ = ("_lists", "_tx", "is_stale", "tail")

    def __init__(
        self,
        tx: Tx,
        now: Callable[[], object] = lambda: None,
        is_writing: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Read and write the indexes in *tx*.

        Args:
            now: Returns a value that every commit changes, None inside a write.
            is_writing: Whether *tx* is inside a write.
        """
        self._tx = tx
        self.tail = Tail(tx, now)
        self.is_stale = False
        self._lists = LongLists(tx, self._read, is_writing)

    def add(self, kind: str, low: int, high: int | None = None) -> None:
        """Add rows to the index: those from *low* to *high*, or only *low*."""
        if kind != "message" or not self.is_stale:
            self._tx.run(INSERT_ROWS[kind], {"low": low, "high": low if high is None else high})

    def load(self, kind: str, low: int, high: int) -> None:
        """Add rows as `add` does."""
        self.add(kind, low, high)

    def drop(self, kind: str, low: int, high: int | None = None) -> None:
        """
        Remove rows from the index; call it before they change or are deleted.

        If over a thirtieth of the messages, and more than 64, are removed, the index is rebuilt
        before it is read, or at the commit.
        """
        span = {"low": low, "high": low if high is None else high}
        if kind != "message":
            self._tx.run(DELETE_ROWS[kind], span)
            return
        self._drop_messages(self._tx.read_number(COUNT_ROWS, span), [span])

    def _drop_messages(self, going: int, spans: Sequence[dict[str, int]]) -> None:
        """Remove the messages of *spans* of ids, *going* in all."""
        self.tail.dropped += going
        if not self.is_stale:
            self.is_stale = going > LEAST and going * DROP_COST > self.count_messages()
        if not self.is_stale:
            self._tx.many(DELETE_ROWS["message"], spans)
            for span in spans:
                self.tail.drop(**span)

    def add_each(self, kind: str, ids: Collection[int]) -> None:
        """Add rows to the index, of any kind but messages."""
        self._tx.many(INSERT_ROWS[kind], [{"low": one, "high": one} for one in ids])

    def drop_each(self, kind: str, ids: Collection[int]) -> None:
        """Remove rows from the index as `drop` does."""
        spans = [{"low": low, "high": high} for low, high in spans_of(sorted(ids))]
        if kind == "message":
            self._drop_messages(len(ids), spans)
        else:
            self._tx.many(DELETE_ROWS[kind], spans)

    def finish(self) -> None:
        """Rebuild the index of messages if many of them were removed or changed; see `drop`."""
        if self.is_stale:
            self.rebuild_one("messages")

    def add_messages(self, rows: Sequence[Values]) -> None:
        """
        Add new messages, given as their rows. A few of them are added to the tail of the index.

        Cost: 8 µs per row in bulk, 15 µs for a single one.
        """
        if self.tail.add(rows):
            return
        low, high = rows[0]["id"], rows[-1]["id"]
        if high - low == len(rows) - 1:  # SQLite reads them again in less time than it binds them
            self.add("message", low, high)
        else:
            self._tx.many(INSERT_MESSAGE, rows)
        self.tail.parts += 1

    def merge_messages(self, pages: int) -> None:
        """Merge about *pages* of the index of messages."""
        self._tx.run(MERGE["messages"], {"pages": pages})

    def count_messages(self) -> int:
        """Return the number of messages in the index, as FTS5 counts them. Cost: 10 µs."""
        row = self._tx.one(SELECT_AVERAGES)
        return 0 if row is None else _first_number(row[0] or b"\0")

    def move_tail(self) -> None:
        """Put the words of all messages into the index that are only in its tail."""
        self.tail.move()

    def add_archived(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add archived messages, given as (id, text): their rows contain no text."""
        self._tx.many(INSERT_ARCHIVED, _with_bigrams(texts))

    def drop_archived(self, texts: Iterable[tuple[int, str]]) -> None:
        """Remove archived messages, given as (id, text) with the text that was added."""
        self._tx.many(DELETE_ARCHIVED, _with_bigrams(texts))

    def postings(
        self, kind: str, terms: Sequence[Term], low: int, high: int, newest: int | None = None
    ) -> Postings:
        """
        Return, for each term, the ids in [low, high] whose text contains it.

        Args:
            kind: "message", "entry", "artifact", "summary", "item" or "session".
            newest: Only this many ids per term, the newest; None means all. Only for
                messages and entries.

        Returns:
            Ids in any order. A list shorter than *newest* is complete, so its length is the term's
            document frequency in the range.

        Cost: 20 µs per term and 0.2 µs per id in the range.
        """
        if kind != "message" or not terms:
            return self._read(KINDS[kind][0], terms, low, high, newest)
        self.finish()
        found = self._lists.read(terms, low, high, newest)
        self._add_tail(found, low, high, newest)
        if self._lists.has_archived(low, high):
            for term, ids in self._read("archived", terms, low, high, newest).items():
                _merge(found, term, ids, newest)
        return found

    def _read(
        self, name: str, terms: Sequence[Term], low: int, high: int, newest: int | None
    ) -> Postings:
        """Return the part of `postings` in one index."""
        sql = (SELECT_ALL if newest is None else SELECT_NEWEST)[name]
        return lists_of(self._tx.all, sql, terms, low, high, newest)

    def _add_tail(self, found: Postings, low: int, high: int, newest: int | None) -> None:
        """Add the tail's matches of its terms to *found*."""
        by_query = {query_of(term): term for term in found}
        for query, ids in self.tail.postings(by_query, low, high).items():
            _merge(found, by_query[query], ids, newest)

    def expect(self, kind: str, terms: Sequence[Term], low: int, high: int) -> None:
        """Do nothing: a file answers at once."""

    def rebuild(self) -> None:
        """Rebuild every index from the rows; that of archived messages from the segments."""
        for name in (*REBUILD, "archived"):
            self.rebuild_one(name)

    def rebuild_one(self, name: str) -> None:
        """Rebuild one index: "messages", "archived", "entries" or another of `REBUILD`."""
        if name == "archived":
            return self.rebuild_archived()
        self._tx.run(REBUILD[name])
        self._tx.run(SET_SECURE_DELETE[name])
        if name == "messages":
            self.is_stale = False
            self.tail.clear()
        return None

    def find_archived_differences(self) -> list[str]:
        """Report if the index contains more or fewer messages than are archived; else return []."""
        row = self._tx.one(SELECT_ARCHIVED_COUNTS)
        archived, averages = (0, b"") if row is None else row
        held = _first_number(averages or b"\0")
        return [] if held == archived else [f"index of {held} messages, {archived} are archived"]

    def rebuild_archived(self) -> None:
        """
        Rebuild the index of archived messages from the segments.

        A message whose segment is damaged gets no words; `check` reports it.
        """
        self._tx.run(DELETE_ALL_ARCHIVED)
        self._tx.run(SET_SECURE_DELETE["archived"])
        for texts in archived_texts(self._tx):
            self.add_archived(texts)


def _first_number(record: bytes) -> int:
    """Return the number that begins a record of FTS5; a byte with the high bit continues."""
    value = 0
    for byte in record[:8]:
        value = value << 7 | byte & VARINT_BITS
        if byte <= VARINT_BITS:
            break
    return value


def archived_texts(tx: Tx) -> Iterator[list[tuple[int, str]]]:
    """Yield all archived messages as (id, text), 1,000 at a time; "" if a segment is damaged."""
    for rows in tx.pages(SELECT_ARCHIVED_TEXTS, {"after": 0}):
        texts = fill(tx, rows, ("id", "text"), lost_ok=True)
        yield [(row_id, text or "") for row_id, text in texts]


def _merge(found: Postings, term: Term, ids: Collection[int], newest: int | None) -> None:
    """Add ids of a second index; an archived message is in two, by author and by text."""
    if ids:
        both = sorted({*found[term], *ids})
        found[term] = both if newest is None else both[-newest:]


def _with_bigrams(texts: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"id": key, "text": text, "bigrams": bigrams_of(text)} for key, text in texts]
