"""
Full-text search on a server: which rows contain a term. Owns `words` and `words_tail`.

A row of `words` lists the ids that contain one token in a block of a scope (`tokens.block_of`), 6
bytes each. The words of a few new rows are first stored in `words_tail`, one row each, and later
added to the lists together. So an append writes one row, and a search reads both in one statement.
Both rows are written under the lock of the scope (ADR-0032).

The tokens are those of FTS5 (`memdb.postgres.tokens`). Lists contain no positions: phrases and
fields are searched in the texts of the rows that contain all of their tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from memdb.engine.compose import select
from memdb.engine.segments import fill
from memdb.models.ids import MAX_SCOPE_NO, scope_of, scope_range
from memdb.postgres.binary import BYTEA, INT8, TEXT, array_of
from memdb.postgres.tokens import (
    EVERY,
    PART_BITS,
    NewLists,
    Phrase,
    beginning_of,
    block_of,
    copied_rows,
    is_in_row,
    key_of,
    keys_of,
    packed,
    phrases_of,
    refs_of,
    tokens_by_column,
)
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Postings, Tx, Values
    from memdb.text.terms import Term

    # The texts of a row that are in an index.
    Columns = Sequence[str | None]

    # The ids of rows by what they hold.
    Lists = dict[str, list[int]]

TABLES = """
CREATE TABLE words (
  scope_no INTEGER NOT NULL,
  block BIGINT NOT NULL,
  kind SMALLINT NOT NULL,
  term TEXT COLLATE "C" NOT NULL,
  refs BYTEA NOT NULL,
  PRIMARY KEY (scope_no, kind, term, block)
);
CREATE TABLE words_tail (
  scope_no INTEGER NOT NULL,
  block BIGINT NOT NULL,
  kind SMALLINT NOT NULL,
  ref BIGINT NOT NULL,
  terms TEXT[] COLLATE "C" NOT NULL,
  PRIMARY KEY (scope_no, kind, ref)
);
"""

# Of rows in the index. Archived messages have an index of their own beside that of messages.
KINDS = {
    "message": 0,
    "archived": 1,
    "entry": 2,
    "summary": 3,
    "artifact": 4,
    "item": 5,
    "session": 6,
}

# About so many rows of a scope and kind wait in the tail. More rows than that, or rows with more
# keys, go into the lists at once.
TAIL_ROWS = 64
MAX_TAIL_KEYS = 1_000

# Rows that are read at once, and whose words are sent at once.
PAGE = 1_000

# The columns of a list, and how many characters of texts are collected before their lists are
# stored: each list that is there already is read and written back.
LIST_COLUMNS = ("scope_no", "kind", "term", "block", "refs")
MAX_COLLECTED = 16 << 20

# One in 64 refs, at random but the same ones every time.
SCATTER = 0x9E3779B97F4A7C15

INSERT_TAIL = """/* words.put_in_tail */
INSERT INTO words_tail (scope_no, block, kind, ref, terms)
VALUES (:scope_no, :block, :kind, :ref, string_to_array(:terms, ' '))
ON CONFLICT (scope_no, kind, ref) DO UPDATE SET terms = excluded.terms
"""

MOVE_TAIL = """/* words.move_tail */
INSERT INTO words (scope_no, block, kind, term, refs)
SELECT scope_no, block, kind, term, string_agg(substr(int8send(ref), 3), '' ORDER BY ref)
FROM words_tail
CROSS JOIN LATERAL unnest(terms) AS term
WHERE scope_no = :scope_no AND kind = :kind
GROUP BY scope_no, block, kind, term
ORDER BY term, block
ON CONFLICT (scope_no, kind, term, block) DO UPDATE SET refs = words.refs || excluded.refs
"""

DELETE_TAIL = """/* words.empty_tail */
DELETE FROM words_tail WHERE scope_no = :scope_no AND kind = :kind
"""

INSERT_LISTS = """/* words.put_lists */
INSERT INTO words (scope_no, block, kind, term, refs)
SELECT CAST(:scope_no AS INTEGER), block, CAST(:kind AS SMALLINT), term, refs
FROM unnest(
  CAST(:blocks AS BIGINT[]), CAST(:terms AS TEXT[]), CAST(:lists AS BYTEA[])
) AS added (block, term, refs)
ON CONFLICT (scope_no, kind, term, block) DO UPDATE SET refs = words.refs || excluded.refs
"""

SELECT_ANY = """/* words.any */
SELECT 1 FROM words WHERE scope_no = :scope_no AND kind = :kind LIMIT 1
"""

SELECT_LISTS = """/* words.lists */
SELECT term, string_agg(refs, '')
FROM (
  SELECT kind, term, refs FROM words
  WHERE
    scope_no = :scope_no
    AND kind BETWEEN :kind AND :last_kind
    AND term = ANY(:terms)
    AND block BETWEEN :first AND :last
  UNION ALL
  SELECT kind, term, substr(int8send(ref), 3)
  FROM words_tail
  CROSS JOIN LATERAL unnest(terms) AS term
  WHERE
    scope_no = :scope_no
    AND kind BETWEEN :kind AND :last_kind
    AND terms && CAST(:terms AS TEXT[])
    AND term = ANY(:terms)
) AS lists
GROUP BY kind, term
"""

SELECT_BEGUN = """/* words.begun */
SELECT string_agg(refs, '')
FROM (
  SELECT refs FROM words
  WHERE
    scope_no = :scope_no
    AND kind BETWEEN :kind AND :last_kind
    AND term >= :beginning
    AND term < :after
    AND block BETWEEN :first AND :last
  UNION ALL
  SELECT substr(int8send(ref), 3)
  FROM words_tail
  CROSS JOIN LATERAL unnest(terms) AS term
  WHERE
    scope_no = :scope_no
    AND kind BETWEEN :kind AND :last_kind
    AND term >= :beginning
    AND term < :after
) AS lists
"""

TAKE_EACH = """/* words.take_each */
DELETE FROM words_tail
WHERE scope_no = :scope_no AND kind = :kind AND ref IN (SELECT value FROM json_each(:ids))
RETURNING ref
"""

TAKE_FROM_TAIL = """/* words.take_from_tail */
DELETE FROM words_tail
WHERE scope_no = :scope_no AND kind = :kind AND ref BETWEEN :low AND :high
RETURNING ref
"""

SELECT_BLOCKS = """/* words.blocks */
SELECT term, block, refs FROM words
WHERE scope_no = :scope_no AND kind = :kind AND term = ANY(:terms) AND block = ANY(:blocks)
"""

UPDATE_BLOCK = """/* words.change_block */
UPDATE words SET refs = :refs
WHERE scope_no = :scope_no AND kind = :kind AND term = :term AND block = :block
"""

DELETE_BLOCK = """/* words.delete_block */
DELETE FROM words
WHERE scope_no = :scope_no AND kind = :kind AND term = :term AND block = :block
"""

DELETE_KIND = """/* words.delete_kind */
DELETE FROM words WHERE scope_no = :scope_no AND kind = :kind
"""

SELECT_TAILS = """/* words.tails */
SELECT DISTINCT scope_no, kind FROM words_tail ORDER BY scope_no, kind
"""

SELECT_SCOPES = """/* words.scopes */
SELECT scope_no FROM scopes
WHERE scope_no BETWEEN CAST(:first AS BIGINT) AND CAST(:last AS BIGINT)
ORDER BY scope_no
"""

# What is in the index of a kind: a table, its texts, and which of its rows.
INDEXED = {
    "message": ("messages", "text, author, bigrams", ""),
    "entry": ("entries", "text, keywords, bigrams", ""),
    "summary": ("summaries", "text, bigrams", ""),
    "artifact": ("artifact_names", "name, text, bigrams", ""),
    "item": ("items", "text, bigrams", "AND text IS NOT NULL"),
    "session": ("sessions", "title, bigrams", "AND title IS NOT NULL"),
}
COLUMNS = {kind: columns.split(", ") for kind, (_, columns, _) in INDEXED.items()}
SELECT_ROWS = {
    kind: select(
        f"words.{kind}_rows",
        f"id, {columns}",
        table,
        f"id BETWEEN :low AND :high {which}",
        order="id",
        limit=":limit",
    )
    for kind, (table, columns, which) in INDEXED.items()
}
SELECT_TEXTS = {
    kind: select(
        f"words.{kind}_texts", f"id, {columns}", table, "id IN (SELECT value FROM json_each(:ids))"
    )
    for kind, (table, columns, _) in INDEXED.items()
}

SELECT_ARCHIVED_ROWS = """/* words.archived_rows */
SELECT id, text FROM messages
WHERE id BETWEEN :low AND :high AND text IS NULL
ORDER BY id
LIMIT :limit
"""


class PostgresWords:
    """The full-text indexes in one transaction; see `memdb.engine.base.Words`."""

    __slots__ = ("_tx",)

    def __init__(self, tx: Tx) -> None:
        """Read and write the indexes in *tx*."""
        self._tx = tx

    def add(self, kind: str, low: int, high: int | None = None) -> None:
        """Add rows to the index: those from *low* to *high*, or only *low*."""
        for rows in self.rows(SELECT_ROWS[kind], low, low if high is None else high):
            self._put(kind, ((row[0], row[1:]) for row in rows))

    def load(self, kind: str, low: int, high: int) -> None:
        """
        Add rows of a scope that nobody uses yet.

        Lists are collected over many rows. The first lists of a scope and kind are stored by COPY,
        which is not repeated after a lost connection.
        """
        for scope_no, first, last in self._spans(low, high):
            place = {"scope_no": scope_no, "kind": KINDS[kind]}
            is_new = self._tx.one(SELECT_ANY, place) is None
            lists = NewLists(kind)
            for rows in self.rows(SELECT_ROWS[kind], first, last):
                for row in rows:
                    lists.add(row[0], row[1:])
                if lists.size >= MAX_COLLECTED:
                    self._put_lists(scope_no, lists, is_new=is_new)
                    is_new, lists = False, NewLists(kind)
            self._put_lists(scope_no, lists, is_new=is_new)

    def _put_lists(self, scope_no: int, lists: NewLists, *, is_new: bool = False) -> None:
        """Store the collected lists; *is_new*: the scope has no list of the kind yet."""
        kind, found = KINDS[lists.kind], lists.sorted()
        if not found:
            return
        if is_new:
            rows: list[Any] = copied_rows(scope_no, kind, found)  # bytes: of this engine's `load`
            self._tx.load("words", LIST_COLUMNS, rows)
            return
        values = {
            "scope_no": scope_no,
            "kind": kind,
            "blocks": array_of(INT8, [block.to_bytes(8, "big") for _, block, _ in found]),
            "terms": array_of(TEXT, [term for term, _, _ in found]),
            "lists": array_of(BYTEA, [data for _, _, data in found]),
        }
        self._tx.many(INSERT_LISTS, [values])

    def drop(self, kind: str, low: int, high: int | None = None) -> None:
        """Remove rows from the index; call it before they change or are deleted."""
        high = low if high is None else high
        for scope_no, first, last in self._spans(low, high):
            place = {"scope_no": scope_no, "kind": KINDS[kind]}
            span = {"low": first, "high": last}
            waiting = {row[0] for row in self._tx.all(TAKE_FROM_TAIL, {**place, **span})}
            for rows in self.rows(SELECT_ROWS[kind], first, last):
                listed = {row[0]: keys_of(row[1:]) for row in rows if row[0] not in waiting}
                self._take(kind, scope_no, listed)

    def add_each(self, kind: str, ids: Collection[int]) -> None:
        """Add rows to the index, of any kind but messages."""
        for _, some in _pages(ids):
            rows = self._tx.all(SELECT_TEXTS[kind], {"ids": some})
            self._put(kind, ((row[0], row[1:]) for row in rows))

    def drop_each(self, kind: str, ids: Collection[int]) -> None:
        """Remove rows from the index as `drop` does."""
        for scope_no, some in _pages(ids):
            values = {"scope_no": scope_no, "kind": KINDS[kind], "ids": some}
            waiting = {row[0] for row in self._tx.all(TAKE_EACH, values)}
            listed = [one for one in some if one not in waiting]
            rows = self._tx.all(SELECT_TEXTS[kind], {"ids": listed}) if listed else []
            self._take(kind, scope_no, {row[0]: keys_of(row[1:]) for row in rows})

    def add_messages(self, rows: Sequence[Values]) -> None:
        """
        Add new messages, given as their rows.

        Cost: 4 µs per row to tokenize it. Up to 64 rows need one statement each, for which nobody
        waits; more rows need one per 1,000.
        """
        self._put(
            "message", ((row["id"], (row["text"], row["author"], row["bigrams"])) for row in rows)
        )

    def move_tail(self) -> None:
        """Move the words of all rows in the tail into the lists."""
        for scope_no, kind in self._tx.all(SELECT_TAILS):
            self._move(scope_no, kind)

    def add_archived(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add archived messages, given as (id, text): their rows contain no text."""
        self._put("archived", ((ref, (text, bigrams_of(text))) for ref, text in texts))

    def drop_archived(self, texts: Iterable[tuple[int, str]]) -> None:
        """Remove archived messages, given as (id, text) with the text that was added."""
        by_scope: dict[int, dict[int, set[str]]] = {}
        for ref, text in texts:
            by_scope.setdefault(scope_of(ref), {})[ref] = archived_keys(text)
        for scope_no, listed in by_scope.items():
            place = {"scope_no": scope_no, "kind": KINDS["archived"]}
            self._tx.all(TAKE_EACH, {**place, "ids": [*listed]})
            self._take("archived", scope_no, listed)

    def postings(
        self, kind: str, terms: Sequence[Term], low: int, high: int, newest: int | None = None
    ) -> Postings:
        """
        Return, for each term, the ids in [low, high] whose text contains it.

        Args:
            kind: "message", "entry", "artifact", "summary", "item" or "session".
            newest: Only this many of the newest ids per term; None means all.

        Returns:
            Ids rising. A list shorter than *newest* is complete: its length is the term's
            document frequency in the range.

        Cost: one statement, and 0.06 µs per id. Phrases, and terms limited to some fields, need a
        second statement and 5 µs per row with all their tokens.
        """
        phrases = {term: phrases_of(term) for term in terms}
        found: dict[Term, list[int]] = {term: [] for term in phrases}
        for scope_no, first, last in self._spans(low, high):
            lists = self._lists(kind, scope_no, phrases.values(), (first, last))
            sure, doubtful = _matches(phrases, lists)
            for term, ids in self._search(kind, doubtful).items():
                sure[term] = sorted({*sure[term], *ids})
            for term, ids in sure.items():
                found[term] += ids
        return {**found} if newest is None else {term: ids[-newest:] for term, ids in found.items()}

    def expect(self, kind: str, terms: Sequence[Term], low: int, high: int) -> None:
        """Prefetch what `postings` reads; see `Tx.expect`."""
        whole, _ = _keys_asked([phrases_of(term) for term in terms])
        if whole and scope_of(low) == scope_of(high):
            place = _place_of(kind, scope_of(low), (low, high))
            self._tx.expect(SELECT_LISTS, {**place, "terms": sorted(whole)})

    def rebuild_scope(self, scope_no: int) -> None:
        """
        Rebuild the indexes of one scope; that of archived messages from the segments.

        Only the writers of this scope wait.
        """
        for kind, sql in SELECT_ROWS.items():
            self._empty(scope_no, kind)
            for rows in self.rows(sql, *scope_range(scope_no)):
                self._put_many(kind, scope_no, {row[0]: row[1:] for row in rows})
        self._rebuild_archived(scope_no)

    def find_archived_differences(self) -> list[str]:
        """Return archived messages without an index row, and index rows without one; at most 20."""
        found: list[int] = []
        for scope_no in self.scopes():
            span = scope_range(scope_no)
            listed = set(self._archived(*span))
            for rows in self.rows(SELECT_ARCHIVED_ROWS, *span):
                stored = {row[0] for row in rows}
                found += sorted(stored - listed)
                listed -= stored
            found += sorted(listed)
        return [f"message {one}" for one in sorted(found)[:20]]

    def rebuild_archived(self) -> None:
        """
        Rebuild the index of archived messages from the segments.

        A message whose segment is damaged gets no words; `check` reports it.
        """
        for scope_no in self.scopes():
            self._rebuild_archived(scope_no)

    def _rebuild_archived(self, scope_no: int) -> None:
        self._empty(scope_no, "archived")
        for texts in self.archived_texts(scope_no):
            rows = {ref: (text, bigrams_of(text)) for ref, text in texts}
            self._put_many("archived", scope_no, rows)

    def archived_texts(self, scope_no: int) -> Iterator[list[tuple[int, str]]]:
        """Yield the archived messages of a scope as (id, text); "" if a segment is damaged."""
        for rows in self.rows(SELECT_ARCHIVED_ROWS, *scope_range(scope_no)):
            texts = fill(self._tx, rows, ("id", "text"), lost_ok=True)
            yield [(row_id, text or "") for row_id, text in texts]

    def rows(self, sql: str, low: int, high: int) -> Iterator[list[tuple[int, *tuple[str, ...]]]]:
        """Yield the rows with *low* <= id <= *high*, 1,000 at a time."""
        while low <= high:
            rows = self._tx.all(sql, {"low": low, "high": high, "limit": PAGE})
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            low = rows[-1][0] + 1

    def scopes(self, first: int = 0, last: int = MAX_SCOPE_NO) -> list[int]:
        """Return the numbers of the scopes from *first* to *last*; all of them by default."""
        rows = self._tx.all(SELECT_SCOPES, {"first": first, "last": last})
        return [row[0] for row in rows]

    def _spans(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Yield (scope_no, first, last) for each part of a range of ids in one scope."""
        if scope_of(low) == scope_of(high):
            yield scope_of(low), low, high
            return
        for scope_no in self.scopes(scope_of(low), scope_of(high)):
            first, last = scope_range(scope_no)
            yield scope_no, max(first, low), min(last, high)

    def _archived(self, low: int, high: int) -> Iterator[int]:
        """Yield the ids of archived messages in the index."""
        every = [[Phrase((EVERY,))]]
        for scope_no, first, last in self._spans(low, high):
            yield from self._lists("archived", scope_no, every, (first, last)).get(EVERY, ())

    def _put(self, kind: str, rows: Iterable[tuple[int, Columns]]) -> None:
        """Add rows, given as id and columns; a few are added to the tail."""
        by_scope: dict[int, dict[int, Columns]] = {}
        for ref, columns in rows:
            by_scope.setdefault(scope_of(ref), {})[ref] = columns
        for scope_no, listed in by_scope.items():
            if len(listed) >= TAIL_ROWS or not self._put_in_tail(kind, scope_no, listed):
                self._put_many(kind, scope_no, listed)

    def _put_in_tail(self, kind: str, scope_no: int, listed: dict[int, Columns]) -> bool:
        """Add rows of a scope to the tail; return False if a row has too many keys for it."""
        keys = {ref: _keys_of(kind, columns) for ref, columns in listed.items()}
        if any(len(one) > MAX_TAIL_KEYS for one in keys.values()):
            return False
        place = {"scope_no": scope_no, "kind": KINDS[kind]}
        self._tx.many(
            INSERT_TAIL,
            [
                {**place, "block": block_of(kind, ref), "ref": ref, "terms": _joined(own)}
                for ref, own in keys.items()
                if own
            ],
        )
        if any(
            ref * SCATTER % (1 << 64) < (1 << 64) // TAIL_ROWS for ref, own in keys.items() if own
        ):
            self._move(scope_no, KINDS[kind])
        return True

    def _put_many(self, kind: str, scope_no: int, listed: Mapping[int, Columns]) -> None:
        """Add rows of a scope to the lists."""
        lists = NewLists(kind)
        for ref, columns in listed.items():
            lists.add(ref, columns)
        self._put_lists(scope_no, lists)

    def _move(self, scope_no: int, kind: int) -> None:
        """Move the words in the tail of a scope and kind into the lists."""
        place = {"scope_no": scope_no, "kind": kind}
        self._tx.many(MOVE_TAIL, [place])
        self._tx.many(DELETE_TAIL, [place])

    def _take(self, kind: str, scope_no: int, listed: dict[int, set[str]]) -> None:
        """Remove rows of a scope, given as id and keys, from the lists."""
        if not listed:
            return
        place = {"scope_no": scope_no, "kind": KINDS[kind]}
        blocks = sorted({block_of(kind, ref) for ref in listed})
        changed, emptied = [], []
        terms = sorted(set().union(*listed.values()))
        for start in range(0, len(terms), PAGE):
            values = {**place, "terms": terms[start : start + PAGE], "blocks": blocks}
            for term, block, data in self._tx.all(SELECT_BLOCKS, values):
                refs = refs_of(scope_no, data)
                kept = [ref for ref in refs if ref not in listed]
                row = {**place, "term": term, "block": block}
                if not kept:
                    emptied.append(row)
                elif len(kept) < len(refs):
                    changed.append({**row, "refs": packed(kept)})
        self._tx.many(UPDATE_BLOCK, changed)
        self._tx.many(DELETE_BLOCK, emptied)

    def _empty(self, scope_no: int, kind: str) -> None:
        place = {"scope_no": scope_no, "kind": KINDS[kind]}
        self._tx.run(DELETE_KIND, place)
        self._tx.run(DELETE_TAIL, place)

    def _lists(
        self, kind: str, scope_no: int, phrases: Iterable[list[Phrase]], span: tuple[int, int]
    ) -> Lists:
        """Return the ids of a scope in *span* by key, and by beginning (`begun`), rising."""
        place = _place_of(kind, scope_no, span)
        whole, begun = _keys_asked(phrases)
        found: Lists = {}
        if whole:
            for term, data in self._tx.all(SELECT_LISTS, {**place, "terms": sorted(whole)}):
                refs = _cut(refs_of(scope_no, data), span)
                # An archived message may be in two lists, by its author and by its text.
                found[term] = sorted({*found[term], *refs}) if term in found else refs
        for beginning in begun:
            values = {**place, "beginning": beginning, "after": f"{beginning}\U0010ffff"}
            row = self._tx.one(SELECT_BEGUN, values)
            data = None if row is None else row[0]
            refs = list(set(refs_of(scope_no, data or b"")))
            found[_begun(beginning)] = _cut(refs, span)
        return found

    def _search(self, kind: str, doubtful: dict[Term, set[int]]) -> dict[Term, list[int]]:
        """Return the *doubtful* ids whose row contains the term."""
        found: dict[Term, list[int]] = {}
        phrases = {term: phrases_of(term) for term in doubtful}
        ids = sorted(set().union(*doubtful.values()))
        for start in range(0, len(ids), PAGE):
            rows = self._tx.all(SELECT_TEXTS[kind], {"ids": ids[start : start + PAGE]})
            if kind == "message" and any(row[1] is None for row in rows):
                full = fill(self._tx, rows, ("id", "text", "author", "bigrams"), lost_ok=True)
                rows = [(*row[:3], bigrams_of(row[1] or "")) for row in full]
            for row in rows:
                tokens = tokens_by_column(dict(zip(COLUMNS[kind], row[1:], strict=True)))
                for term, candidates in doubtful.items():
                    if row[0] in candidates and is_in_row(term, phrases[term], tokens):
                        found.setdefault(term, []).append(row[0])
        return found


def _pages(ids: Collection[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield (scope_no, up to 1,000 of its ids) for all *ids*."""
    for scope_no, rising in groupby(sorted(ids), scope_of):
        while some := [*islice(rising, PAGE)]:
            yield scope_no, some


def _keys_asked(phrases: Iterable[list[Phrase]]) -> tuple[set[str], set[str]]:
    """Return the keys of all tokens of some phrases, and the beginnings of tokens."""
    every = [phrase for some in phrases for phrase in some]
    whole = {key_of(token) for one in every for token in one.whole}
    begun = {beginning_of(one.tokens[-1]) for one in every if one.prefix}
    return whole, begun


def _place_of(kind: str, scope_no: int, span: tuple[int, int]) -> dict[str, Any]:
    """Return the range of the table with the lists of a kind."""
    first, last = (block_of(kind, one) for one in span)
    place = {
        "scope_no": scope_no,
        "kind": KINDS[kind],
        "last_kind": KINDS["archived"] if kind == "message" else KINDS[kind],
        "first": first,
        "last": last,
    }
    if kind in ("message", "archived"):  # every part of the first and of the last session
        place["first"] = first >> PART_BITS << PART_BITS
        place["last"] = last | (1 << PART_BITS) - 1
    return place


def _cut(refs: list[int], span: tuple[int, int]) -> list[int]:
    """Return the *refs* within *span*, rising."""
    refs.sort()
    return refs[bisect_left(refs, span[0]) : bisect_right(refs, span[1])]


def _matches(
    phrases: dict[Term, list[Phrase]], lists: Lists
) -> tuple[dict[Term, list[int]], dict[Term, set[int]]]:
    """Return the ids that contain each term, and the ids that may, whose texts must be read."""
    sure: dict[Term, list[int]] = {}
    doubtful: dict[Term, set[int]] = {}
    for term, some in phrases.items():
        certain: list[list[int]] = []
        maybe: set[int] = set()
        for phrase in some:
            ids = _candidates(phrase, lists)
            if len(phrase.tokens) == 1 and not term.fields and not _is_cut(phrase):
                certain.append(ids)
            else:
                maybe.update(ids)
        sure[term] = certain[0] if len(certain) == 1 else sorted(set().union(*certain))
        maybe.difference_update(sure[term])
        if maybe:
            doubtful[term] = maybe
    return sure, doubtful


def _candidates(phrase: Phrase, lists: Lists) -> list[int]:
    """Return the ids of rows that contain all tokens of a phrase."""
    keys = [key_of(token) for token in phrase.tokens]
    if phrase.prefix:
        keys[-1] = _begun(beginning_of(phrase.tokens[-1]))
    found = [lists.get(key, []) for key in keys]
    if len(found) == 1:
        return found[0]
    return list(set.intersection(*map(set, found)))


def _is_cut(phrase: Phrase) -> bool:
    return phrase.prefix and beginning_of(phrase.tokens[-1]) != phrase.tokens[-1]


def _begun(beginning: str) -> str:
    """Return the key of tokens with a common beginning in `Lists`; no token ends with it."""
    return f"{beginning}*"


def _joined(keys: set[str]) -> str:
    return " ".join(sorted(keys))


def _keys_of(kind: str, columns: Columns) -> set[str]:
    return {EVERY, *keys_of(columns)} if kind == "archived" else keys_of(columns)


def archived_keys(text: str) -> set[str]:
    """Return the keys of an archived message."""
    return _keys_of("archived", (text, bigrams_of(text)))
