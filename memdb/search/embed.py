"""
Embedding of the question: one vector for all kinds, from one call of the embedder.

Runs outside of transactions. Reasons against the vector arm are stored beside the vector, for
`Hits.missing`.
"""

from __future__ import annotations

from array import array
from heapq import nlargest
from operator import itemgetter, mul
from textwrap import wrap
from typing import TYPE_CHECKING

from memdb.errors import PortError
from memdb.models.messages import Hits
from memdb.models.record import Record
from memdb.search.parse import Vector
from memdb.text.terms import word_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.embeddings.indexer import Serving, SpaceFiller
    from memdb.search.load import Answer
    from memdb.search.parse import Corpus, Question
    from memdb.search.request import SearchRequest

COMMON_SHARES = {"message": 0.15, "entry": 0.5}
"""
Share of the rows from which on a word is left out of the text that is embedded.

Source: bench/recall.py on LoCoMo's development split, worth 0.19 of recall at 10; of ten entries
three may be about one topic.
"""

COMMON_LEAST = 2
"""A word in so many rows, or fewer, is never left out."""

PASSAGE_CHARS = 600
"""Characters of a passage of an artifact that is compared by meaning."""

NEAR_ARTIFACTS = 10
"""Nearest artifacts that are ranked."""

ARMS = ("lexical", "vector", "similar")
"""How hits are found, as the terms of a score name it."""


class Embedding(Record):
    """
    The vector of a question, or the reason why there is none.

    Attributes:
        vector: None means that only words are searched.
        reason: Why there is no vector; otherwise its limits: how far its space is filled, or that
            it does not know the words. None if in nothing.
    """

    vector: Vector | None
    reason: str | PortError | None = None

    def to_hits(self, answer: Answer, request: SearchRequest) -> Hits:
        """
        Return *answer* to *request* with the arms that were used and why others were not.

        Raises:
            PortError: the embedder failed and no words matched: an empty answer would mean that
                nothing is known.
        """
        missing: dict[str, str] = {}
        if self.reason is not None:
            missing["vector"] = str(self.reason)
        if request.by == "vector":
            missing |= dict.fromkeys(("lexical", "similar"), "only vectors were asked for")
        elif self.vector is None:
            missing["similar"] = "it needs the vector arm"
        elif not request.rerank:
            missing["similar"] = "it was not wanted"
        if answer.left_out is not None:
            missing["hits"] = answer.left_out
        if answer.unranked is not None:
            missing["reranker"] = answer.unranked
        failure = self.reason if isinstance(self.reason, PortError) else None
        if failure is not None and not answer.hits:
            raise failure
        absent = {*missing} - ({"vector"} if self.vector else set())
        arms = [arm for arm in ARMS if arm not in absent]
        space = None if self.vector is None else self.vector.model
        found = tuple(answer.hits), tuple(arms), missing, failure, space
        return Hits(*found, answer.certainty)  # type: ignore[arg-type]  # a word of CERTAINTY


class Passages:
    """Vectors of passages of artifacts, which no space holds. Thread-safe; the last are kept."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[int, tuple[str, list[tuple[str, array[float]]]]] = {}

    def nearest(
        self, filler: SpaceFiller, query: bytes, corpora: Sequence[Corpus]
    ) -> dict[int, tuple[float, str]]:
        """Return the cosine of the nearest passage of some artifacts, and that passage, by id."""
        begun = {key: text for corpus in corpora for key, text in corpus.passages.items()}
        known = {key: self._known.get(key, ("", [])) for key in begun}
        self._known = known | {
            key: (text, _embedded(filler, text))
            for key, text in begun.items()
            if text != known[key][0]
        }
        asked = _unit(query)
        found = {
            key: max((sum(map(mul, asked, vector)), text) for text, vector in held)
            for key, (_, held) in self._known.items()
            if held
        }
        return dict(nlargest(NEAR_ARTIFACTS, found.items(), key=itemgetter(1)))


def _embedded(filler: SpaceFiller, text: str) -> list[tuple[str, array[float]]]:
    """Return the paragraphs of a text, long ones in pieces, with their vectors."""
    pieces = [piece for one in text.split("\n\n") for piece in wrap(one, PASSAGE_CHARS)]
    vectors = zip(pieces, filler.embed(pieces), strict=True)
    return [(piece, _unit(vector)) for piece, vector in vectors if vector]


def embed_question(
    serving: Serving | None, question: Question, corpora: Sequence[Corpus], passages: Passages
) -> Embedding:
    """
    Return the vector of the question, and the cosines of past entries and of passages.

    If the model does not know the query's words and other words match something, the vector is left
    out. If nothing matches without it, the vector is used, and the answer has a note.
    """
    request = question.request
    if request.by == "words":
        return Embedding(None, "only words were asked for")
    if serving is None:
        return Embedding(None, "the file was opened without an embedder")
    embedder = serving.filler.embedder
    covers = getattr(embedder, "covers", None)
    partly = serving.partly
    if request.vector is None and covers is not None and not covers(question.query.text):
        partly = f"{embedder.name} does not know these words"
        if request.by == "meaning" and any(corpus.terms() for corpus in corpora):
            return Embedding(None, partly)
        partly += ": it compares their letters"
    past = {key: entry.text for corpus in corpora for key, entry in (corpus.past or {}).items()}
    text = question.query.vector_text(_common_words(question, corpora))
    try:
        if isinstance(request.vector, bytes):  # checked by `SearchService`
            vectors: list[bytes | None] = [request.vector]
            vectors += serving.filler.embed([*past.values()])
        else:
            vectors = serving.filler.embed_question(text, [*past.values()])
    except PortError as error:
        return Embedding(None, error)
    query = vectors[0]
    near = {} if query is None else passages.nearest(serving.filler, query, corpora)
    if query is None or (serving.space is None and not near):
        space_is_empty = f"space {embedder.name}: nothing is embedded yet"
        no_words = f"{embedder.name} finds nothing to embed in the query"
        return Embedding(None, no_words if query is None else space_is_empty)
    cosines = {
        key: sum(map(mul, _unit(query), _unit(vector)))
        for key, vector in zip(past, vectors[1:], strict=True)
        if vector is not None
    }
    space_no = 0 if serving.space is None else serving.space.space_no  # 0: no space has it
    return Embedding(Vector(query, space_no, embedder.name, cosines, near), partly)


def _common_words(question: Question, corpora: Sequence[Corpus]) -> list[str]:
    """Return the query's words that occur in many of the searched texts."""
    return [
        word
        for corpus in corpora
        if corpus.kind in COMMON_SHARES
        for word in question.query.content
        if all(
            len(corpus.postings.get(term, ()))
            > max(COMMON_SHARES[corpus.kind] * corpus.total, COMMON_LEAST)
            for term in word_terms([word])
        )
    ]


def _unit(vector: bytes) -> array[float]:
    """Return a vector with the length 1."""
    one = array("f", vector)
    length = sum(map(mul, one, one)) ** 0.5
    return array("d", [value / length for value in one])
