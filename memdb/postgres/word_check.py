"""
Check of the full-text indexes of a server: lists of words against the rows they are about.

A token's list is compared by how many ids it has and by their sum, so one scope and kind takes as
much memory as it has different words. For `memdb check`; `rebuild` mends what differs.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from memdb.models.ids import scope_range
from memdb.postgres.tokens import keys_of, refs_of
from memdb.postgres.words import KINDS, PostgresWords, archived_keys
from memdb.postgres.words import SELECT_ROWS as ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.engine.base import Tx

    # How many ids a token has, and their sum.
    Sums = dict[str, tuple[int, int]]

# What `check` calls the index of a kind, in every engine.
INDEXES = {
    "message": "messages_fts",
    "entry": "entries_fts",
    "summary": "summaries_fts",
    "artifact": "artifacts_fts",
    "item": "items_fts",
    "session": "sessions_fts",
}

# Words that one finding names.
EXAMPLES = 3

SELECT_PAGE = """/* word_check.page */
SELECT term, block, refs FROM words
WHERE scope_no = :scope_no AND kind = :kind AND (term, block) > (:term, :block)
ORDER BY term, block
LIMIT 1000
"""

SELECT_TAIL = """/* word_check.tail */
SELECT ref, terms FROM words_tail
WHERE scope_no = :scope_no AND kind = :kind
ORDER BY ref
"""


def find_differences(tx: Tx, scope_no: int) -> Iterator[tuple[str, str]]:
    """
    Yield the name of each index of a scope that differs from its rows, and how.

    Cost: 20 µs per row, which are all read.
    """
    words = PostgresWords(tx)
    for kind, index in INDEXES.items():
        pages = words.rows(ROWS[kind], *scope_range(scope_no))
        rows = ((row[0], keys_of(row[1:])) for page in pages for row in page)
        if differing := _differing(tx, scope_no, kind, rows):
            named = ", ".join(map(repr, islice(differing, EXAMPLES)))
            yield index, f"words of scope {scope_no} differ from its rows: {named}"


def find_archived_words(tx: Tx, scope_no: int) -> list[str]:
    """Return words of archived messages on which their index and the segments differ; some."""
    texts = (one for page in PostgresWords(tx).archived_texts(scope_no) for one in page)
    rows = ((ref, archived_keys(text)) for ref, text in texts)
    return [f"word {term!r}" for term in _differing(tx, scope_no, "archived", rows)[:EXAMPLES]]


def _differing(tx: Tx, scope_no: int, kind: str, rows: Iterable[tuple[int, set[str]]]) -> list[str]:
    """Return the tokens whose list is not that of *rows*, which are ids with their keys."""
    expected, stored = _sums(rows), _stored_sums(tx, scope_no, kind)
    return sorted(
        term for term in expected.keys() | stored.keys() if expected.get(term) != stored.get(term)
    )


def _sums(rows: Iterable[tuple[int, Iterable[str]]]) -> Sums:
    sums: Sums = {}
    for ref, keys in rows:
        for key in keys:
            count, total = sums.get(key, (0, 0))
            sums[key] = count + 1, total + ref
    return sums


def _stored_sums(tx: Tx, scope_no: int, kind: str) -> Sums:
    """Return the sums of the lists and of the tail of a scope and kind."""
    place = {"scope_no": scope_no, "kind": KINDS[kind]}
    sums = _sums(tx.all(SELECT_TAIL, place))
    after = {"term": "", "block": -1}
    while page := tx.all(SELECT_PAGE, {**place, **after}):
        for term, _, data in page:
            refs = refs_of(scope_no, data)
            count, total = sums.get(term, (0, 0))
            sums[term] = count + len(refs), total + sum(refs)
        after = {"term": page[-1][0], "block": page[-1][1]}
    return sums
