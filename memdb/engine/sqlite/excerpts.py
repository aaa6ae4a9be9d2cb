"""
Excerpts of artifacts: the words around what was asked for.

FTS5 finds the excerpt of a text in time that grows with the square of its matches: 3 s for
16,000. Of a long text it is therefore asked about a few thousand characters alone, those
around the first place of each word.
"""

from __future__ import annotations

from memdb.text.derived import bigrams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.engine.base import Tx
    from memdb.text.terms import Term

# Characters of a text that FTS5 looks at: with 1,000 matches 10 ms. In front of a word.
MAX_CHARS, BEFORE_CHARS = 4000, 200

# Terms whose first place is looked for in a long text: the most telling ones come first.
MAX_TERMS = 16

SELECT_SHORT = """/* excerpts.short */
SELECT artifacts_fts.rowid, snippet(artifacts_fts, 1, :before, :after, '…', :words)
FROM json_each(:ids) AS ids
CROSS JOIN artifact_names AS names
CROSS JOIN artifacts_fts
WHERE
  names.id = ids.value
  AND length(names.text) <= :most
  AND artifacts_fts MATCH :match
  AND artifacts_fts.rowid = names.id
"""

SELECT_LONG = """/* excerpts.long */
SELECT id, text FROM artifact_names
WHERE id IN (SELECT value FROM json_each(:ids)) AND length(text) > :most
"""

# As in schema.sql, but it also stores the text: for a few rows, in memory.
CREATE_SCRATCH = """/* excerpts.create_scratch */
CREATE VIRTUAL TABLE IF NOT EXISTS artifacts_fts USING fts5 (
  name, text, bigrams, tokenize="porter unicode61 remove_diacritics 2"
)
"""

INSERT_SCRATCH = """/* excerpts.insert_scratch */
INSERT INTO artifacts_fts (name, text, bigrams) VALUES ('', :text, :bigrams)
"""

SELECT_SCRATCH = """/* excerpts.scratch */
SELECT snippet(artifacts_fts, 1, :before, :after, '…', :words)
FROM artifacts_fts
WHERE artifacts_fts MATCH :match
ORDER BY bm25(artifacts_fts), rowid
LIMIT 1
"""


def excerpts(
    tx: Tx,
    ids: Iterable[int],
    terms: Sequence[Term],
    match: str,
    *,
    before: str = "",
    after: str = "",
    words: int = 24,
) -> dict[int, str]:
    """
    Return the best matching excerpt of each artifact's text, by id.

    Args:
        ids: Of artifact names.
        terms: Texts that hold none of them are left out; long ones begin at their beginning.
        match: The same as FTS5 takes it.
        before: Text before each match.
        after: Text after each match.
        words: Most words, 1 to 64.

    Cost: 10 ms at most for each text, and 1 ms per million characters.
    """
    if not terms:
        return {}
    place = {"ids": [*ids], "most": MAX_CHARS}
    shape = {"before": before, "after": after, "words": words, "match": match}
    found = {row[0]: row[1] for row in tx.all(SELECT_SHORT, {**place, **shape})}
    for row_id, text in tx.all(SELECT_LONG, place):
        found[row_id] = _of_pieces(_pieces(text, terms), shape)
    return found


def _pieces(text: str, terms: Sequence[Term]) -> list[str]:
    """Return the text around the first place of each word; its beginning for one that it lacks."""
    folded = text.lower()
    starts: list[int] = []
    for term in terms[:MAX_TERMS]:
        for word in (*term.words, *term.any_of):
            start = max(folded.find(word.lower()) - BEFORE_CHARS, 0)
            if start == 0 or all(abs(start - other) >= MAX_CHARS // 2 for other in starts):
                starts.append(start)
    return [text[start : start + MAX_CHARS] for start in sorted({*starts})]


def _of_pieces(pieces: list[str], shape: dict[str, object]) -> str:
    """Return the excerpt of the piece that matches best, else the beginning of the first one."""
    from contextlib import closing

    from apsw import Connection
    from apsw import Error as DriverError

    from memdb.errors import from_sqlite

    try:
        with closing(Connection(":memory:")) as scratch:
            scratch.execute(CREATE_SCRATCH)
            rows = [{"text": piece, "bigrams": bigrams_of(piece)} for piece in pieces]
            scratch.executemany(INSERT_SCRATCH, rows)
            row = scratch.execute(SELECT_SCRATCH, shape).fetchone()
    except DriverError as error:
        raise from_sqlite(getattr(error, "extendedresult", 1), str(error)) from error
    if row is not None:
        return str(row[0])
    return " ".join(pieces[0].split()[: int(str(shape["words"]))]) + "…"
