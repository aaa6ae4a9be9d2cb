"""
Relevance: how much the best rows say about the question, on one absolute scale.

Pure functions over ids and numbers. The scores of `memdb.search.rank` order the rows of one
answer; a best row always has a high one. Relevance tells whether that row is an answer at all.
Relevance is the probability of a logistic model over a few facts about a row and the question
(`FACTS`). `answers.json` has its weights, with words alone, with the built-in table and with a
sentence model. `bench/answers/train.py` learns them from notebooks that were written for it.

An English word says more the rarer it is. A word of another language is weighed by the share of
statements and questions that contain it. Both weights are the same in every file. So scores of two
questions, and of two files, can be compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from memdb.embeddings.static_model import near_rows, rarity
from memdb.facts.wording import recognise
from memdb.models.record import Record
from memdb.search.asked_time import is_date_word
from memdb.search.features import (
    SIMILAR_FLOOR,
    SIMILAR_WORDS,
    TRAIT_CHARS,
    asked_traits,
    traits_of,
)
from memdb.search.parse import KEYWORDS
from memdb.search.weights import STATIC_MODEL, for_messages
from memdb.search.words import learned, own_lean, word_weight
from memdb.text.resources import compiled
from memdb.text.terms import has_cjk, query_words, word_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.search.parse import Corpus, Query
    from memdb.text.terms import Term

SURE = 0.5
"""Relevance from which on a row answers the question for sure."""

ALMOST_SURE = 0.49
"""Most relevance of a row that lacks the topic, see `limited`."""

POSSIBLE = 0.115
"""Relevance below which a row is no answer."""

LEAST_TOPICS = 0.9
"""Share of what the words but names say that a sure row holds."""

LEAST_TOPICS_TYPED = 0.5
"""The same of a row with the number, time or name that is asked for, and for keywords."""

SURELY_OWN = 4
"""`own` from which on a question is so clearly about the user that a sure row holds any topic."""

MOST_KNOWN = 3.0
"""What the words that a row holds say counts up to so much."""

NAME_WORD = 0.7
"""Factor of a word that names an author of the scope or its user."""

COMMON_POWER = 8
"""A word says 1 - share ** 8, where share of the texts hold it: half at 92 %."""

STEM_LETTERS = 6
"""Letters from which on a word is found by its first ones: an inflected form, a compound's part."""

STEM_SHARE = 0.75
"""Share of its letters that are looked for."""

FORM = 0.8
"""What such a word counts, if English does not know it and the text has only these letters."""

RELEVANT_ROWS = 10
"""Rows that may make an answer relevant."""

SENTENCES_READ = 16
"""Sentences of a query that are looked at."""

FEW_ROWS = 21
"""Rows from which on the farthest one says whether all texts are near for a model."""

NARROW = 0.5
"""Cosine of the farthest row from which on they are."""

EQUAL = 1e-6
"""Cosines that differ by less are equal: engines round them differently."""

_SENTENCE_END = r"[.!?](?=\s)|[\u3002\uff01\uff1f\n]"

FACTS = (
    *("bias", "known", "missing", "unknown", "lead", "typed", "crowd", "statement", "keywords"),
    *("statement_topics", "own", "foreign"),
)
"""
What relevance knows of a row; `bias` is 1.0 of every row.

known: What the words that the row holds say, up to `MOST_KNOWN`.
missing: The most that a word says, but a name, which it lacks, and nothing near it.
unknown: Share of the question that no row holds.
lead: How far its cosine is above the mean of the other rows.
typed: Whether it has the number, time or name that is asked for.
crowd: Tenfolds of texts that are searched, of all kinds.
statement, keywords: Whether the query is no question, and then has few words.
statement_topics: Of a statement, the share of its words but names that the row holds, or
    that a word of it is near to (`topics` of any query).
own: How much the words of a question ask for what one tells of oneself, not about the world.
foreign: Whether a question is in another language than English.
"""


class Relevance(Record):
    """
    How much the best row of a ranking says about the question.

    Attributes:
        value: 0 to 1; 0.5 is as likely an answer as not.
        terms: The terms of the sum by name, see the module.
        rows: By id, how much each of the first rows says by itself.
    """

    value: float
    terms: dict[str, float]
    rows: Mapping[int, float] = {}


NOTHING = Relevance(0.0, {})
"""The relevance of no rows."""


class Evidence(Record):
    """
    Facts about the best rows of a ranking.

    Attributes:
        rows: Their ids, best first.
        holders: Returns the ids of the rows that contain a term.
        cosines: Cosine similarity by id, also of other rows.
        texts: By id, as far as they are known.
        model: Name of the model that the cosines are of. None means that rows
            were not compared by meaning.
        crowd: Number of searched texts of all kinds.
        without: Ids of rows that are no evidence.
        near: For words that were compared already, the similarity of a row's nearest word, by id.
        replies: By id of a reply, the row with the question; the reply counts as having its words.
    """

    corpus: Corpus
    rows: Sequence[int]
    holders: Callable[[Term], AbstractSet[int]]
    cosines: Mapping[int, float]
    texts: Mapping[int, str]
    model: str | None
    crowd: int = 0
    without: AbstractSet[int] = frozenset()
    near: Mapping[str, Mapping[int, float]] = {}
    replies: Mapping[int, int] = {}


class Word(Record):
    """
    A word of the question, or a pair of characters of one.

    Attributes:
        weight: Its significance, 0 to 1.
        holders: The ids of the rows that contain it.
        stem: Letters with which its forms begin. None if the index finds its forms.
        is_name: Whether it is only a name of a person or thing.
        near: By row id, the similarity of the row's nearest word, 0 to 1.
    """

    weight: float
    holders: AbstractSet[int]
    stem: str | None
    is_name: bool
    near: Mapping[int, float]


def relevance(query: Query, evidence: Evidence) -> Relevance:
    """
    Return the relevance of the most relevant of the first `RELEVANT_ROWS` rows.

    Cost: 0.5 ms for five words.
    """
    if not evidence.rows:
        return NOTHING
    weights = learned()["tables"][for_messages(evidence.model).table]
    most, best = -1.0, dict[str, float]()
    rows: dict[int, float] = {}
    for row_id, facts in facts_of(query, evidence):
        terms = {name: weight * facts[name] for name, weight in weights.items() if facts[name]}
        value = limited(1 / (1 + math.exp(-sum(terms.values()))), facts)
        value += EQUAL * evidence.cosines.get(row_id, 0.0)  # of two kinds that say as much
        rows[row_id] = max(value, rows.get(row_id, 0.0))
        if value > most:
            most, best = value, terms
    return Relevance(most, best, rows)


def limited(value: float, facts: Mapping[str, float]) -> float:
    """
    Return a relevance that is sure only if the row contains the topic of the question.

    A near miss contains the person and the thing, but lacks the word for what is asked. Keywords
    only name a topic, so a row may lack more of them. A question about oneself is rarely asked in
    the words of the fact, so its answer may lack more too. But that row must hold a word of the
    topic, since such questions are also asked about untold things.
    """
    least = LEAST_TOPICS_TYPED if facts["typed"] or facts["keywords"] else LEAST_TOPICS
    is_own = facts["own"] >= SURELY_OWN and facts["topics"] > 0
    is_sure = is_own or facts["topics"] >= least
    return value if is_sure else min(value, ALMOST_SURE)


def facts_of(query: Query, evidence: Evidence) -> list[tuple[int, dict[str, float]]]:
    """Return id and `FACTS` of each of the first rows, once for each sentence of the query."""
    cosines, words = _widened(evidence), read_words(query, evidence)
    rows = [(row_id, evidence.texts.get(row_id, "")) for row_id in evidence.rows[:RELEVANT_ROWS]]
    near = [cosines.get(row_id, 0.0) for row_id, _ in rows]
    statement, language = float(not query.is_question), recognise(query.text)
    of_question = {
        "bias": 1.0,
        "crowd": math.log10(max(evidence.crowd, evidence.corpus.total, 1)),
        "statement": statement,
        "keywords": float(statement and len(query.words) <= KEYWORDS),
        "own": 0.0 if statement else own_lean(query.words, language),
        "foreign": float(not statement and language != "en"),
    }
    wanted = asked_traits(query.text)
    found = []
    for part in _parts(query, words):
        for place, (row_id, text) in enumerate(rows):
            facts = _compare(part, row_id, text)
            has_type = any(traits_of(text)[trait] for trait in wanted)
            facts |= of_question
            facts["lead"] = near[place] - (sum(near) - near[place]) / max(len(near) - 1, 1)
            facts["typed"] = float(has_type)
            facts["statement_topics"] = statement * facts["topics"]
            found.append((row_id, facts))
    return found


def read_words(query: Query, evidence: Evidence) -> dict[str, list[Word]]:
    """
    Return the terms of each word of the query that was looked up, with its weight.

    Rare words say most. Names, question words and words of a date have little or no weight, and
    neither has a word in nearly every text.
    """
    language = recognise(query.text)
    names = query.names() | query.user
    only_names = names.union(query.identifiers)
    postings, texts = evidence.corpus.postings, evidence.corpus.total + 1
    near = _near_words(query, evidence, only_names)
    words: dict[str, list[Word]] = {}
    for word in query.content:
        if query.is_dated and is_date_word(word):
            continue
        pairs = not word.isascii() and has_cjk(word)
        stem = None
        if not pairs and len(word) >= STEM_LETTERS and rarity(word) == 1:
            stem = word[: math.ceil(STEM_SHARE * len(word))]
        words[word] = [
            Word(
                (NAME_WORD if word in names else 1.0)
                * word_weight("".join(term.words) if pairs else word, language)
                * (1 - min(len(ids) / texts, 1.0) ** COMMON_POWER),
                _holders(evidence, term),
                stem,
                word in names or (word in only_names and bool(ids)),  # else it is missing
                near.get(word, {}),
            )
            for term in word_terms([word])
            if (ids := postings.get(term)) is not None
        ]
    return words


def _holders(evidence: Evidence, term: Term) -> AbstractSet[int]:
    """Return the ids of the rows with a term, and of replies to questions with it."""
    held = evidence.holders(term)
    replies = {reply for reply, asked in evidence.replies.items() if asked in held}
    return (held - evidence.without) | replies


def _near_words(
    query: Query, evidence: Evidence, names: AbstractSet[str]
) -> Mapping[str, Mapping[int, float]]:
    """Return, by word of the query and row, the similarity of the row's nearest word."""
    if evidence.model is None:
        return {}
    words = [word for word in query.content if word not in names][:SIMILAR_WORDS]
    words = [word for word in words if word not in evidence.near]
    vocabularies = {
        row_id: frozenset(traits_of(evidence.texts.get(row_id, ""))[-1])
        for row_id in evidence.rows[:RELEVANT_ROWS]
    }
    rows = set().union(*vocabularies.values())
    found: dict[str, dict[int, float]] = {}
    for word, near in near_rows(words, rows, SIMILAR_FLOOR).items():
        of_rows = found[word] = {}
        for row_id, vocabulary in vocabularies.items():
            best = max((near[row] for row in vocabulary & near.keys()), default=0.0)
            if best:
                of_rows[row_id] = (best - SIMILAR_FLOOR) / (1 - SIMILAR_FLOOR)
    return {**evidence.near, **found}


def _parts(query: Query, words: Mapping[str, list[Word]]) -> list[list[Word]]:
    """Return the words by sentence of the query, because a message says more than its question."""
    sentences = compiled(_SENTENCE_END).split(query.text, SENTENCES_READ)
    if len(sentences) > 1:
        parts = [
            [each for word in query_words(sentence) for each in words.get(word, ())]
            for sentence in sentences
        ]
        if parts := [part for part in parts if part]:
            return parts
    return [[each for found in words.values() for each in found]]


def _compare(part: Sequence[Word], row_id: int, text: str) -> dict[str, float]:
    """Return a row's value for *part* by the names of `FACTS`, and its share of the topics."""
    text = text[:TRAIT_CHARS].lower() if any(word.stem for word in part) else ""
    known = missing = unknown = topics = whole = of_topics = 0.0
    for word in part:
        share = 0.0
        if row_id in word.holders:
            share = 1.0
        elif word.stem is not None and word.stem in text:
            share = FORM
        if not (word.holders or share):
            unknown += word.weight
        whole += word.weight
        known += share * word.weight
        if not word.is_name:
            near = max(share, word.near.get(row_id, 0.0))
            of_topics += word.weight
            topics += near * word.weight
            missing = max(missing, (1 - near) * word.weight)
    return {
        "known": min(known, MOST_KNOWN),
        "missing": missing,
        "unknown": unknown / (whole or 1.0),
        "topics": topics / (of_topics or 1.0),
    }


def _widened(evidence: Evidence) -> Mapping[int, float]:
    """Return the cosines; for a model whose texts are all near, the distance above the farthest."""
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
