"""
Baselines that recall has to beat: plain FTS5, and the plain cosine of the embedder.

FTS5 uses its porter stemmer and its bm25. Its query asks for any word of the question but stop
words, or any pair of characters in scripts without spaces. The cosine compares the question with
every text by the embedder's vectors. Both baselines rank turns; a session is as good as its best
turn.
"""

from __future__ import annotations

from array import array
from math import sqrt
from operator import mul
from typing import TYPE_CHECKING

import apsw

from memdb.models.record import Record
from memdb.text.derived import bigrams_of
from memdb.text.terms import content_words, query_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.evaluation.dataset import Dataset
    from memdb.models.protocols import Embedder

FTS5 = "FTS5"
COSINE = "cosine"
BASELINES = (FTS5, COSINE)
TABLE = "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')"
INSERT = "INSERT INTO texts (rowid, text) VALUES (?, ?)"
SELECT = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT ?"


class Text(Record):
    """One text of a scope; *session* None for a document."""

    id: str
    session: str | None
    text: str


def texts_of(data: Dataset, scope: str) -> list[Text]:
    """Return the texts of a scope in order, `author: text` where there is an author."""
    found = [
        Text(one.id, session, f"{one.author}: {one.text}" if one.author else one.text)
        for session, talk in data.sessions.get(scope, {}).items()
        for one in talk
    ]
    return found + [Text(one.id, None, one.text) for one in data.documents.get(scope, [])]


def fts5(texts: Sequence[Text]) -> Callable[[str, int], list[Text]]:
    """Return a function that gives the best texts for a question, by plain FTS5."""
    database = apsw.Connection(":memory:")
    database.execute(TABLE)
    rows = [f"{one.text} {bigrams_of(one.text) or ''}" for one in texts]
    database.executemany(INSERT, enumerate(rows))

    def search(question: str, limit: int) -> list[Text]:
        words = content_words(query_words(question)) + (bigrams_of(question) or "").split()
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        return [texts[number] for (number,) in database.execute(SELECT, (match, limit))]

    return search


def cosine(
    texts: Sequence[Text], embedder: Embedder, batch: int = 256
) -> Callable[[str, int], list[Text]]:
    """Return a function that gives the best texts for a question, by plain cosine."""
    vectors: list[array[float] | None] = []
    for start in range(0, len(texts), batch):
        part = embedder.embed([one.text for one in texts[start : start + batch]])
        vectors += [_unit(vector) for vector in part]

    def search(question: str, limit: int) -> list[Text]:
        asked = _unit(embedder.embed([question])[0])
        if asked is None:
            return []
        scores = [
            (-sum(map(mul, asked, vector)), number)
            for number, vector in enumerate(vectors)
            if vector is not None
        ]
        return [texts[number] for _, number in sorted(scores)[:limit]]

    return search


def _unit(vector: bytes | Sequence[float] | None) -> array[float] | None:
    """Return a vector with length 1."""
    if vector is None:
        return None
    numbers = array("f")
    if isinstance(vector, bytes):
        numbers.frombytes(vector)
    else:
        numbers.extend(vector)
    length = sqrt(sum(map(mul, numbers, numbers)))
    return array("d", [number / length for number in numbers]) if length else None


def sessions_of(ranked: Sequence[Text]) -> list[str]:
    """Return the sessions of *ranked*, each at the place of its best turn."""
    return list(dict.fromkeys(one.session for one in ranked if one.session is not None))
