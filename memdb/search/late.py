"""
Late interaction: tokens of the best messages near words of the question that they do not hold.

A sentence model gives every token of a text a vector for what it means there. Each word of
the question counts by the nearest token of a message, as far as neither the message nor one
beside it holds the word, and by how rare the word is in the scope. Calls the embedder, so it
runs outside of transactions, over the best messages of a ranking; see
`Settings.late_interaction`.

Source: MaxSim of ColBERT, Khattab and Zaharia 2020, weighted by `candidates.idf`.
"""

from __future__ import annotations

import re
import threading
from math import exp
from typing import TYPE_CHECKING, Any

from memdb.errors import PortError
from memdb.models.record import Record
from memdb.search.candidates import idf
from memdb.search.weights import (
    LATE_BYTES,
    LATE_FLOOR,
    LATE_LEVELS,
    LATE_ROWS,
    LATE_SPREADS,
    LATE_WEIGHT,
)
from memdb.text.terms import STOP_WORDS, Term, query_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from memdb.models.protocols import Embedder, TokenVectors
    from memdb.search.parse import Query, Question
    from memdb.search.rank import Ranking

_WORD = re.compile(r"\w+")


class _AskedWord(Record):
    """
    A word of the question that may be near to a token.

    Attributes:
        places: Its tokens among those of the question.
        weight: Its share of what all such words say, 0 to 1.
        holders: Ids of the messages that hold it.
    """

    places: list[int]
    weight: float
    holders: AbstractSet[int]

    def coverage(self, message: int) -> float:
        """Return how far *message*, or the best beside it, holds the word itself, 0 to 1."""
        if message in self.holders:
            return 1.0
        beside = (part for offset, part in LATE_SPREADS if message + offset in self.holders)
        return max(beside, default=0.0)


class LateInteraction:
    """
    Compares messages with questions token by token, by one embedder.

    Token vectors of messages are kept, as one byte per number, until `LATE_BYTES` are
    full: 9 KB for a message of 25 tokens and 384 dimensions. May be shared between
    threads.
    """

    def __init__(self, embedder: Embedder) -> None:
        """Compare by *embedder*, which must have `token_vectors`."""
        self._embedder: Any = embedder
        self._name = f"embedder {embedder.name!r}"
        self._kept: dict[tuple[int, int], bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def rerank(self, question: Question, ranking: Ranking) -> Ranking:
        """
        Return *ranking* of messages with the term "late" in the scores of its best 30.

        The term is 0 for the message that gains least, so none falls behind the others.

        Raises:
            PortError: the embedder failed, or broke its contract; or numpy is missing.

        Cost: a call of the embedder for the question and for all messages whose vectors
        are not kept, 10 ms of processor time for each text of 20 words with MiniLM; then 2 ms.
        """
        first = [row for row in ranking.ranked[:LATE_ROWS] if row.id in ranking.texts]
        if len(first) < 2:  # noqa: PLR2004 (nothing can change places)
            return ranking
        try:
            import numpy as np
        except ImportError as error:
            raise PortError(self._name, f"numpy cannot be imported: {error}") from error
        query = question.query
        asked, packed = self._vectors(query.text, [ranking.texts[row.id] for row in first])
        words = _asked_words(query, asked.spans, ranking)
        dim = self._embedder.dim
        vectors = _scaled(asked.data, dim)
        gains = {}
        for row, data in zip(first, packed, strict=True):
            tokens = np.frombuffer(data, np.int8).reshape(-1, dim).astype(np.float32)
            nearest = (vectors @ tokens.T).max(axis=1, initial=0.0) / LATE_LEVELS
            gains[row.id] = sum(_gain(word, nearest, row.id) for word in words)
        least = min(gains.values())
        ranked = []
        for row in ranking.ranked:
            term = LATE_WEIGHT * (gains.get(row.id, least) - least)
            terms = {**row.terms, "late": term} if question.request.explain and term else row.terms
            ranked.append(row.replace(score=row.score * exp(term), terms=terms))
        ranked.sort(key=lambda row: (-row.score, -row.id))
        return ranking.replace(ranked=ranked)

    def _vectors(self, question: str, texts: Sequence[str]) -> tuple[TokenVectors, list[bytes]]:
        """Return the tokens of *question*, and the packed vectors of each of *texts*."""
        keys = [(len(text), hash(text)) for text in texts]
        with self._lock:
            packed = {key: self._kept[key] for key in keys if key in self._kept}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in packed}
        asked, *found = self._ask([question, *missing.values()])
        new = {
            key: _packed(tokens.data, self._embedder.dim)
            for key, tokens in zip(missing, found, strict=True)
        }
        packed |= new
        with self._lock:
            for key, data in new.items():
                self._size += len(data) - len(self._kept.pop(key, b""))
                self._kept[key] = data
            while self._size > LATE_BYTES:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        return asked, [packed[key] for key in keys]

    def _ask(self, texts: list[str]) -> list[TokenVectors]:
        """Return the tokens of each of *texts*, checked."""
        try:
            answer = list(self._embedder.token_vectors(texts))
        except PortError:
            raise
        except Exception as error:
            raise PortError(self._name, str(error) or type(error).__name__) from error
        if len(answer) != len(texts):
            raise PortError(self._name, f"gave tokens of {len(answer)} texts for {len(texts)}")
        dim = self._embedder.dim
        for tokens, text in zip(answer, texts, strict=True):
            if not _is_sound(tokens, len(text), dim):
                raise PortError(self._name, "token_vectors gave no finite vectors of its dimension")
        return answer


def _is_sound(tokens: Any, length: int, dim: int) -> bool:
    """Return whether *tokens* are `TokenVectors` of a text of *length* characters."""
    import numpy as np

    try:
        vectors = np.frombuffer(tokens.data, "<f4").reshape(len(tokens.spans), dim)
        is_inside = all(0 <= start <= end <= length for start, end in tokens.spans)
    except (AttributeError, TypeError, ValueError):
        return False
    return is_inside and bool(np.isfinite(vectors).all())


def _scaled(data: bytes, dim: int) -> Any:
    """Return the vectors in *data*, each of length 1, or 0 if it is no direction."""
    import numpy as np

    rows = np.frombuffer(data, "<f4").reshape(-1, dim).astype(np.float32)
    with np.errstate(all="ignore"):
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return np.where(np.isfinite(lengths) & (lengths > 0), rows / lengths, 0.0)


def _packed(data: bytes, dim: int) -> bytes:
    import numpy as np

    return bytes(np.rint(_scaled(data, dim) * LATE_LEVELS).astype(np.int8).tobytes())


def _asked_words(
    query: Query, spans: Sequence[tuple[int, int]], ranking: Ranking
) -> list[_AskedWord]:
    """Return the words of the question that count: no names, stop words or excluded words."""
    corpus = ranking.corpus
    silent = query.names().union(query.user, query.misspelt, query.excluded, STOP_WORDS)
    # Words after the last token are those that the model cut off.
    end_of_tokens = max((end for _, end in spans), default=0)
    found = []
    for match in _WORD.finditer(query.text, 0, end_of_tokens):
        words = query_words(match.group())
        places = [
            place
            for place, (start, end) in enumerate(spans)
            if match.start() <= start < end <= match.end()
        ]
        if words and places and words[0] not in silent:
            holders = frozenset(corpus.postings.get(Term((words[0],)), ()))
            found.append(_AskedWord(places, idf(len(holders), corpus.total), holders))
    every = sum(word.weight for word in found)
    return [word.replace(weight=word.weight / every) for word in found]


def _gain(word: _AskedWord, nearest: Any, message: int) -> float:
    """Return what the tokens of *message* add for a word; *nearest* by token of the question."""
    coverage = word.coverage(message)
    near = ((float(nearest[place]) - LATE_FLOOR) / (1 - LATE_FLOOR) for place in word.places)
    parts = [min(max(value - coverage, 0.0), 1.0) for value in near]
    return word.weight * sum(parts) / len(parts)
