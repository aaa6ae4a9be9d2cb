"""
Full-text search for every engine: queries of FTS5, and FTS5 in memory for a few texts.

`query_of` defines the meaning of a term. Texts outside an index, and excerpts, are searched with
FTS5 in memory, so an engine without FTS5 gives the same answers.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from apsw import SQLITE_MISUSE, Connection
from apsw import Error as DriverError

from memdb.errors import from_sqlite
from memdb.models.ids import MAX_INT
from memdb.text.derived import bigrams_of
from memdb.text.terms import TERMS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.engine.base import Postings, Row, Values
    from memdb.text.terms import Term

# Characters of a text that FTS5 looks at: with 1,000 matches 10 ms. In front of a word.
MAX_CHARS, BEFORE_CHARS = 4000, 200
EXCERPT_WORDS = 24

# Terms whose first place is looked for in a long text: the most telling ones come first.
MAX_TERMS = 16

# As in schema.sql, but they also store the text: for a few rows, in memory.
CREATE_ENTRIES = """/* full_text.create_entries */
CREATE VIRTUAL TABLE IF NOT EXISTS entries_fts USING fts5 (
  text, keywords, bigrams, tokenize="porter unicode61 remove_diacritics 2"
)
"""

INSERT_ENTRY = """/* full_text.insert_entry */
INSERT INTO entries_fts (rowid, text, keywords, bigrams)
VALUES (:id, :text, :keywords, :bigrams)
"""

SELECT_ENTRIES = """/* full_text.entries */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM entries_fts
  WHERE entries_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""

CREATE_ARTIFACTS = """/* full_text.create_artifacts */
CREATE VIRTUAL TABLE IF NOT EXISTS artifacts_fts USING fts5 (
  name, text, bigrams, tokenize="porter unicode61 remove_diacritics 2"
)
"""

INSERT_ARTIFACT = """/* full_text.insert_artifact */
INSERT INTO artifacts_fts (rowid, name, text, bigrams) VALUES (:id, :name, :text, :bigrams)
"""

SELECT_EXCERPTS = """/* full_text.excerpts */
SELECT rowid, snippet(artifacts_fts, 1, '', '', '…', :words)
FROM artifacts_fts
WHERE artifacts_fts MATCH :match
ORDER BY bm25(artifacts_fts), rowid
"""

# The columns of a field: pairs of characters have a column of their own.
COLUMNS = {"text": "text bigrams"}


def query_of(term: Term) -> str:
    """
    Return the FTS5 query for a term.

    >>> from memdb.text.terms import Term
    >>> query_of(Term(("green", "tea"))), query_of(Term(("猫",), prefix=True))
    ('"green tea"', '"猫" *')
    >>> query_of(Term(("straße",), any_of=("strasse",), fields=("text",)))
    '{text bigrams} : ("straße" OR "strasse")'
    """
    query = _quoted(" ".join(term.words))
    if term.prefix:
        query += " *"
    if term.any_of:
        query = " OR ".join([query, *map(_quoted, term.any_of)])
    if term.fields:
        columns = " ".join(COLUMNS.get(field, field) for field in term.fields)
        query = f"{{{columns}}} : ({query})"
    return query


def _quoted(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'


def lists_of(
    read: Callable[[str, Values], Iterable[Row]],
    sql: str,
    terms: Sequence[Term],
    low: int,
    high: int,
    newest: int | None = None,
) -> Postings:
    """Return the ids in [low, high] by term; *sql* returns a JSON array per FTS5 query."""
    if not terms:
        return {}
    by_query = {query_of(term): term for term in terms}
    values: dict[str, str | int] = {"terms": json.dumps([*by_query]), "low": low, "high": high}
    if newest is not None:
        values["limit"] = newest
    return {by_query[query]: json.loads(ids) for query, ids in read(sql, values)}


def first_postings(
    read: Callable[[Sequence[Term]], Postings],
    terms: Sequence[Term],
    keep: Callable[[Postings], Postings],
) -> Postings:
    """
    Return the postings of the first 64 terms; if there are none, of the next 64, and so on.

    Args:
        read: Returns the postings of some terms.
        keep: Removes the ids that do not count from the postings.
    """
    found: Postings = {}
    for start in range(0, len(terms), TERMS_AT_ONCE):
        found |= keep(read(terms[start : start + TERMS_AT_ONCE]))
        if any(found.values()):
            break
    return found


def postings_in(texts: Iterable[tuple[int, str, str]], terms: Sequence[Term]) -> Postings:
    """
    Return, for each term, which of some (id, text, keywords) contain it, as the index would.

    The function is for earlier versions of entries, which are in no index. Cost: 20 µs per entry.
    """
    rows = [
        {
            "id": one,
            "text": text,
            "keywords": keywords,
            "bigrams": bigrams_of(f"{text}\n{keywords}"),
        }
        for one, text, keywords in texts
    ]
    with in_memory(CREATE_ENTRIES) as scratch:
        scratch.executemany(INSERT_ENTRY, rows)
        return lists_of(scratch.execute, SELECT_ENTRIES, terms[:TERMS_AT_ONCE], 0, MAX_INT)


def excerpts(texts: Iterable[tuple[int, str, str]], terms: Sequence[Term]) -> dict[int, str]:
    """
    Return the best excerpt of each (id, name, text) that contains one of the terms, by id.

    The time of FTS5 for an excerpt grows with the square of the number of matches: 3 s for 16,000.
    FTS5 it gets only a few thousand characters of a long text, around the first place of each word.
    If FTS5 finds nothing in them, the beginning of the first piece is returned. A short text
    without a match has no excerpt. Cost: 10 ms at most for each text, and 1 ms per million
    characters.
    """
    found: dict[int, str] = {}
    if not terms:
        return found
    pieces: list[tuple[int, str, str]] = []
    begun: dict[int, str] = {}
    for row_id, name, text in texts:
        if len(text) <= MAX_CHARS:
            pieces.append((row_id, name, text))
            continue
        parts = _pieces(text, terms)
        pieces += [(row_id, "", part) for part in parts]
        begun[row_id] = " ".join(parts[0].split()[:EXCERPT_WORDS]) + "…"
    with in_memory(CREATE_ARTIFACTS) as scratch:
        rows = [_artifact(number, *piece[1:]) for number, piece in enumerate(pieces)]
        scratch.executemany(INSERT_ARTIFACT, rows)
        for number, excerpt in scratch.execute(
            SELECT_EXCERPTS, {"match": match_of(terms), "words": EXCERPT_WORDS}
        ):
            found.setdefault(pieces[number][0], excerpt)
    return begun | found


def match_of(terms: Sequence[Term]) -> str:
    """Return the FTS5 query for texts with any of the terms."""
    return " OR ".join(map(query_of, terms))


def _artifact(number: int, name: str, text: str) -> dict[str, int | str | None]:
    return {"id": number, "name": name, "text": text, "bigrams": bigrams_of(text)}


def _pieces(text: str, terms: Sequence[Term]) -> list[str]:
    """Return the text around the first place of each word, or its beginning for an absent word."""
    folded = text.lower()
    starts: list[int] = []
    for term in terms[:MAX_TERMS]:
        for word in (*term.words, *term.any_of):
            start = max(folded.find(word.lower()) - BEFORE_CHARS, 0)
            if start == 0 or all(abs(start - other) >= MAX_CHARS // 2 for other in starts):
                starts.append(start)
    return [text[start : start + MAX_CHARS] for start in sorted({*starts})]


@contextmanager
def in_memory(create: str) -> Iterator[Connection]:
    """Make a database with the table of *create* for a block; its errors are memdb's."""
    scratch = None
    try:
        scratch = Connection(":memory:")
        scratch.execute(create)
        yield scratch
    except DriverError as error:
        code = getattr(error, "extendedresult", SQLITE_MISUSE)
        raise from_sqlite(code, str(error)) from error
    finally:
        if scratch is not None:
            scratch.close()
