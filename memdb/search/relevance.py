"""
Relevance: how much the best rows say about the question, on one absolute scale.

Pure functions over ids and numbers. The scores of `memdb.search.rank` order the rows of one
answer; a best row always has a high one. Relevance tells whether that row is an answer at all.
It sums what the words of the question that a row holds say, and how near the row is in meaning,
less what the question says and no row does:

    known + share + all + cosine + names - missing - unknown - crowd

and brings the sum to 0..1 by a logistic curve with 0.5 at `Scale.middle`. How much a word says is
its rarity in English, the same in every file: how often it stands in the scope counts only if
that is in nearly every text. So scores of two questions, and of two files, can be compared.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from memdb.embeddings.static_model import rarity
from memdb.facts.languages import LANGUAGES, fold, recognise
from memdb.models.record import Record
from memdb.search.weights import (
    COMMON_POWER,
    EQUAL,
    FEW_ROWS,
    FORM,
    FORM_CHARS,
    NAME_WORD,
    NARROW,
    PAIR_WORD,
    RELEVANT_ROWS,
    SENTENCES_READ,
    STATIC_MODEL,
    STEM_LETTERS,
    STEM_SHARE,
    STOP_WORD,
    scale_of,
)
from memdb.text.terms import STOP_WORDS, has_cjk, query_words, word_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.search.parse import Corpus, Query
    from memdb.text.terms import Term

# What a date is written with; the date of a message answers it, not its words.
_DATE_WORDS = re.compile(
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*|[12]\d{3}|\d{1,2}(?:st|nd|rd|th)?"
    r"|today|yesterday|days?|weeks?|months?|years?|last|ago"
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f\n]")
# Words that ask, beside those by which `memdb.facts.languages` knows a language.
_ASKING = {
    "de": "wer wen wem was wie wo wohin woher wann warum welche welcher welches viel viele gibt",
    "es": "quien quienes cual cuales donde cuando como cuanto cuantos cuantas hay",
    "fr": "qui quoi quel quelle quels quelles quand comment pourquoi combien est t il y",
}


class Relevance(Record):
    """
    How much the best row of a ranking says about the question.

    Attributes:
        value: 0 to 1; 0.5 is as likely an answer as not.
        terms: The sum by name, see the module.
    """

    value: float
    terms: dict[str, float]


NOTHING = Relevance(0.0, {})
"""The relevance of no rows."""


class Evidence(Record):
    """
    What is known of the best rows of a ranking.

    Attributes:
        rows: Their ids, best first.
        holders: Returns the ids of the rows that hold a term.
        cosines: Cosine similarity by id, also of other rows.
        texts: By id, where they are known.
        model: Name of the model that the cosines are of. None means that rows
            were not compared by meaning.
    """

    corpus: Corpus
    rows: Sequence[int]
    holders: Callable[[Term], AbstractSet[int]]
    cosines: Mapping[int, float]
    texts: Mapping[int, str]
    model: str | None


class Word(Record):
    """
    A word of the question, or a pair of characters of one.

    Attributes:
        weight: How much it says, 0 to 1.
        holders: The ids of the rows that hold it.
        stem: Letters by which its forms begin. None if the index knows them.
    """

    weight: float
    holders: AbstractSet[int]
    stem: str | None


def relevance(query: Query, evidence: Evidence) -> Relevance:
    """
    Return the relevance of the most relevant of the first `RELEVANT_ROWS` rows.

    Cost: 0.2 ms for five words.
    """
    if not evidence.rows:
        return NOTHING
    scale, cosines = scale_of(evidence.model), _widened(evidence)
    words = read_words(query, evidence)
    rows = [(row_id, evidence.texts.get(row_id, "")) for row_id in evidence.rows[:RELEVANT_ROWS]]
    best, most = {}, -math.inf
    for part in _parts(query, words):
        whole = sum([word.weight for word in part])
        nobody = sum([word.weight for word in part if not word.holders])
        unknown = scale.unknown * nobody / whole if whole else 0.0
        for row_id, text in rows:
            known, missing = _compare(part, row_id, text)
            terms = {
                "known": scale.known * min(known, scale.most),
                "share": scale.share * known / whole if whole else 0.0,
                "all": 0.0 if missing else scale.all,
                "cosine": scale.cosine * cosines.get(row_id, 0.0),
                "missing": -scale.missing * missing,
                "unknown": -unknown,
            }
            found = sum(terms.values())
            if found > most:
                most, best = found, terms
    best["names"] = scale.user if query.user else scale.names if query.authors else 0.0
    best["crowd"] = -scale.crowd * math.log10(max(evidence.corpus.total, 1))
    total = sum(best.values())
    return Relevance(1 / (1 + math.exp(scale.slope * (scale.middle - total))), best)


def read_words(query: Query, evidence: Evidence) -> dict[str, list[Word]]:
    """
    Return the terms of each word of the query that was looked up, with what it says.

    Rare words say most. Names, words that ask and words of a date say little or
    nothing, and so does a word that stands in nearly every text.
    """
    language = recognise(fold(query.text))
    asking: frozenset[str] = frozenset()
    if language != "en":
        asking = LANGUAGES[language].common.union(_ASKING.get(language, "").split())
    names, is_dated = query.names(), query.is_dated
    postings, texts = evidence.corpus.postings, evidence.corpus.total + 1
    words: dict[str, list[Word]] = {}
    for word in query.content:
        weight = rare = rarity(word)
        pairs = not word.isascii() and has_cjk(word)
        if word in STOP_WORDS or word in query.user or fold(word) in asking:
            weight = STOP_WORD
        elif is_dated and _DATE_WORDS.fullmatch(word):
            continue
        elif word in names:
            weight *= NAME_WORD
        elif pairs:
            weight = PAIR_WORD
        stem = None
        if rare == 1 and len(word) >= STEM_LETTERS and not pairs:
            stem = word[: math.ceil(STEM_SHARE * len(word))]
        words[word] = [
            Word(
                weight * (1 - min(len(ids) / texts, 1.0) ** COMMON_POWER),
                evidence.holders(term),
                stem,
            )
            for term in word_terms([word])
            if (ids := postings.get(term)) is not None
        ]
    return words


def _parts(query: Query, words: Mapping[str, list[Word]]) -> list[list[Word]]:
    """Return the words by sentence of the query: a message says more than what it asks."""
    sentences = _SENTENCE_END.split(query.text, SENTENCES_READ)
    if len(sentences) > 1:
        parts = [
            [each for word in query_words(sentence) for each in words.get(word, ())]
            for sentence in sentences
        ]
        if parts := [part for part in parts if part]:
            return parts
    return [[each for found in words.values() for each in found]]


def _compare(part: Sequence[Word], row_id: int, text: str) -> tuple[float, float]:
    """Return how much of *part* a row says, and the most that a word says which it lacks."""
    known = missing = 0.0
    text = text[:FORM_CHARS].lower() if any(word.stem for word in part) else ""
    for word in part:
        if row_id in word.holders:
            known += word.weight
        elif word.stem is not None and word.stem in text:
            known += FORM * word.weight
        elif word.weight > missing:
            missing = word.weight
    return known, missing


def _widened(evidence: Evidence) -> Mapping[int, float]:
    """Return the cosines; of a model to which all texts are near, how far above the farthest."""
    cosines = evidence.cosines
    if evidence.model == STATIC_MODEL or len(cosines) < FEW_ROWS:
        return cosines
    farthest = min(cosines.values())
    if farthest < NARROW:
        return cosines
    room = 1 - farthest
    if room < EQUAL:
        return dict.fromkeys(cosines, 0.0)
    return {key: (cosine - farthest) / room for key, cosine in cosines.items()}
