"""
Ranking: from candidates to scored records, best first.

Functions over ids and numbers: no SQL and no clock. The weights are read from a file once. The
candidates come from `memdb.search.candidates`.

The score of a message is e to the power of the sum of its terms. A term is a feature of
`memdb.search.features` times its weight. `bench/ranker/train.py` writes the weights into
`ranker.json`. Each feature has a weight for chats between people, and a number that is added to it
in a chat with an assistant. The score of an entry is in `rank_entries`. Equal scores are ordered by
id, newest first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from memdb.models.record import Record
from memdb.search.candidates import Worth, add_weight, fuse, top
from memdb.search.date_score import DateScorer
from memdb.search.features import read_features, weighted_sum
from memdb.search.parse import only_asks
from memdb.search.relevance import ALMOST_SURE, EQUAL, SURE, Evidence, Relevance, relevance
from memdb.search.weights import DOCUMENTS, MESSAGES
from memdb.text.resources import read_json
from memdb.text.terms import STOP_WORDS, query_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memdb.search.candidates import Candidates, Row
    from memdb.search.features import Features
    from memdb.search.parse import Corpus, Query, Question
    from memdb.search.weights import Weights

ORDERED = 12
"""Rows beyond the limit that are ranked, so that the newer of two that answer alike goes first."""

AGAIN = 0.25
"""
Share of what the question's words say from which on a message that only asks repeats it.

Source: ADR-0019.
"""

OWN_WORDS = 4
"""Other words of such a message, at most: who asks at length tells something too."""

BEHIND = range(1, 9)
"""How far behind a question a reply that says nothing is looked for."""

LISTED = 0.8
"""Score of the oldest row of a time, where a question names a time and no topic; the newest: 1."""

_tables: dict[str, dict[str, tuple[float, float]]] = {}


def weights_of(table: str, assistance: float) -> dict[str, float]:
    """
    Return the weight of each feature by name.

    Args:
        table: "words", "static" or "sentence", see `Weights.table`.
        assistance: How much the chat is one with an assistant, 0 to 1.
    """
    if not _tables:
        content = read_json(__file__, "ranker.json")
        _tables.update(content["tables"])
    return {name: people + assistance * change for name, (people, change) in _tables[table].items()}


class Ranked(Record):
    """
    One ranked message or entry; higher *score* is better.

    Attributes:
        id: Row id.
        score: Comparable within one query only.
        terms: Every term of the score by name; empty unless an explanation was asked for.
        fits: Whether it is of the time in the question, or names it. None if the question names no
            time.
    """

    id: int
    score: float
    terms: dict[str, float]
    fits: bool | None = None


def rank(
    features: Features,
    weights: Weights = MESSAGES,
    *,
    limit: int = 10,
    explain: bool = False,
    dates: DateScorer | None = None,
) -> list[Ranked]:
    """
    Return the best *limit* messages, best first; equal scores newest first.

    Args:
        features: Facts about the rows of the ids that `best` returned.
        weights: `table` and `off` are used.
        limit: Most messages to return.
        explain: Whether to fill `Ranked.terms`.
        dates: Dates of a question that names a time.
    """
    by_name = weights_of(weights.table, features.assistance)
    base = by_name.pop("base")
    for name, part in features.base.items():
        by_name[name] = by_name.get(name, 0.0) + base * part
    by_name = {name: weight for name, weight in by_name.items() if name not in weights.off}
    sums = weighted_sum(features.columns, by_name)
    scores = dict(zip(features.ids, map(math.exp, sums), strict=True))
    lowered = _below_lenders(scores, features.lenders)
    place = {}
    if explain or dates is not None:
        place = {message: number for number, message in enumerate(features.ids)}
    found = []
    for message in top(scores, limit):
        terms: dict[str, float] = {}
        if explain:
            values = ((name, features.columns[name][place[message]]) for name in by_name)
            parts = {name: by_name[name] * value for name, value in values if value}
            terms = dict(sorted(parts.items(), key=lambda part: -abs(part[1])))
            if message in lowered:
                terms["nearness"] = lowered[message]
        fits = None if dates is None else dates.fits(features.columns["date"][place[message]])
        found.append(Ranked(message, scores[message], terms, fits))
    return found


def _below_lenders(
    scores: dict[int, float], lenders: Mapping[int, Sequence[int]]
) -> dict[int, float]:
    """Put what only stands beside words of the question below the best that contains them."""
    lowered = {}
    for message, around in lenders.items():
        most = max([scores[one] for one in around]) * (1 - EQUAL)
        if scores[message] > most:
            lowered[message] = math.log(most / scores[message])
            scores[message] = most
    return lowered


_NEW = Worth()


def rank_entries(
    lexical: Mapping[int, float],
    cosine: Mapping[int, float],
    worths: Mapping[int, Worth],
    *,
    weights: Weights = DOCUMENTS,
    limit: int = 10,
    explain: bool = False,
    least: float = 0.0,
    dates: DateScorer | None = None,
) -> list[Ranked]:
    """
    Return the best *limit* entries, best first; equal scores newest first.

    score = (lexical + vector) * importance * freshness * use * scale + date, with half of each arm.
    `importance` is 1 + weights.importance * (importance - 5) / 5, and `freshness` 1 -
    weights.fading * (1 - decay). `use` gains weights.use for nine uses and twice that for 99.
    `scale` is `weights.entry_scale`, which makes the scores comparable with those of messages.

    Args:
        lexical: Scores by id, as `Lexical.scores` has them.
        cosine: Cosine similarity by id, higher is nearer.
        worths: By id; an absent one counts as that of a new entry.
        weights, limit, explain: As in `rank`.
        least: As in `fuse`.
        dates: Scores by the days that the texts name. None means that dates do not count.
    """
    fused = fuse(lexical, cosine, weights, least=least)
    scale = weights.entry_scale
    factors = {entry: worths.get(entry, _NEW).factors(weights) for entry in fused.score}
    scores = {
        entry: value * math.prod(factors[entry]) * scale for entry, value in fused.score.items()
    }
    gains = {}
    if dates is not None:
        gains = {key: dates.score(worth.created_ms, worth.spans) for key, worth in worths.items()}
    for entry in scores.keys() & gains.keys():
        scores[entry] += gains[entry]
    found = []
    for entry in top(scores, limit):
        terms: dict[str, float] = {}
        if explain:
            terms = {
                "lexical": fused.lexical.get(entry, 0.0),
                "vector": fused.vector.get(entry, 0.0),
                "scale": scale,
            }
            if gains.get(entry):
                terms["date"] = gains[entry]
            terms.update(zip(_WORTH_TERMS, factors[entry], strict=True))
        is_dated = dates is not None and dates.is_dated and entry in gains
        fits = dates.fits(gains[entry]) if is_dated and dates is not None else None
        found.append(Ranked(entry, scores[entry], terms, fits))
    return found


_WORTH_TERMS = ("importance", "freshness", "use")


class Ranking(Record):
    """
    The ranked rows of one corpus, best first.

    Attributes:
        ranked: `ORDERED` more rows than were asked for, if so many were found.
        relevance: How much they say about the question. None means that a score is a cosine and
            stays unchanged.
    """

    corpus: Corpus
    ranked: list[Ranked]
    relevance: Relevance | None

    def score(self, row: Ranked) -> float:
        """Return the score of one of `ranked` on the scale of every answer, see `Hit.score`."""
        if self.relevance is None:
            return row.score
        best = self.ranked[0].score
        score = self.relevance.value * (row.score / best) if best > 0 else 0.0
        return min(score, ALMOST_SURE) if row.fits is False else score

    def is_sure(self, row: Ranked) -> bool:
        """Return whether one of `ranked` answers the question by itself."""
        if self.relevance is None or row.fits is False:
            return False
        return self.relevance.rows.get(row.id, 0.0) >= SURE

    def explain(self, row: Ranked) -> dict[str, float]:
        """Return the terms of a row's score: those of its place, then those of the relevance."""
        if self.relevance is None:
            return row.terms
        own = {f"relevance.{name}": value for name, value in self.relevance.terms.items()}
        best = self.ranked[0].score
        return {**row.terms, "best": best, **own, "relevance": self.relevance.value}


def rank_messages(question: Question, candidates: Candidates, weights: Weights) -> Ranking:
    """Rank candidate messages, with words of similar meaning if the request allows them."""
    unwanted = candidates.corpus.excluded
    ranked, near = _rank_messages(question, candidates, weights, unwanted)
    replies: Mapping[int, int] = {}
    if any(only_asks(candidates.texts[row.id]) for row in ranked):
        again, unanswered, replies = _again(question.query, candidates)
        unwanted |= again
        if again and question.request.min_score != 0:  # 0 asks for every match
            if unanswered:
                candidates = candidates.without(unanswered, weights)
            ranked, near = _rank_messages(question, candidates, weights, unwanted)
    found = _relevance(question, candidates, ranked, unwanted, near)
    if replies:
        # Shown, but not sure: a reply may say nothing.
        asked = _relevance(question, candidates, ranked, unwanted, near, replies)
        if found.value < (value := min(asked.value, ALMOST_SURE)):
            found = found.replace(value=value, terms=asked.terms)
    return Ranking(candidates.corpus, ranked, found)


def _rank_messages(
    question: Question, candidates: Candidates, weights: Weights, unwanted: frozenset[int]
) -> tuple[list[Ranked], Mapping[str, Mapping[int, float]]]:
    """Return the best messages but *unwanted*, and how near their words are to the question's."""
    request, query = question.request, question.query
    with_similar = bool(candidates.cosine) and request.rerank
    features = read_features(query, candidates, weights, with_similar=with_similar)
    ranked = rank(
        features,
        weights,
        limit=request.depth + ORDERED + len(unwanted),
        explain=request.explain,
        dates=DateScorer(query, weights) if query.is_dated else None,
    )
    return [row for row in ranked if row.id not in unwanted], features.near


def _again(query: Query, candidates: Candidates) -> tuple[set[int], set[int], dict[int, int]]:
    """
    Return the messages that only repeat an unanswered question, and their replies.

    The first set answers nothing: a repeated question would otherwise find itself before the fact.
    The second set lends no words to its neighbours either. Both contain the replies that say
    nothing, with calls of tools in between. For each other reply, the question is given.
    """
    asking, unanswered, replies = set[int](), set[int](), dict[int, int]()
    if not query.is_question or STOP_WORDS.issuperset(query.content):
        return asking, unanswered, replies
    texts, rows, words = candidates.texts, candidates.rows, candidates.lexical.words()
    least = AGAIN * sum(weight for _, weight, _ in words)
    held = dict[int, float]()
    for _, weight, holders in words:
        add_weight(held, holders & texts.keys(), weight)
    for key in sorted(key for key, weight in held.items() if weight > least):
        if not only_asks(texts[key]):
            continue
        own = {*query_words(texts[key])}
        if len(own.difference(query.words, STOP_WORDS)) > OWN_WORDS:
            continue
        asking.add(key)
        reply = _reply(key, rows)
        said = {*query_words(texts[reply])}.difference(own, query.words)
        if rows[reply][1:4:2] == rows[key][1:4:2]:
            unanswered.add(key)
        elif STOP_WORDS.issuperset(said):
            unanswered.update(range(key, reply + 1))
        else:
            replies[reply] = key
    return asking | unanswered, unanswered, replies


def _reply(key: int, rows: Mapping[int, Row]) -> int:
    """Return the message after *key*, and after calls and results of tools."""
    roles = [rows[key + step][3] if key + step in rows else "" for step in BEHIND]
    steps = zip(BEHIND, roles, [*roles[1:], ""], strict=True)
    return next(
        (key + step for step, own, then in steps if own not in ("", "tool") and then != "tool"), key
    )


def rank_documents(question: Question, candidates: Candidates, weights: Weights) -> Ranking:
    """Rank candidates of a kind without neighbours: every kind but messages."""
    ranked = rank_entries(
        candidates.scores,
        candidates.cosine,
        candidates.worths,
        weights=weights,
        limit=question.request.depth + ORDERED + len(candidates.corpus.excluded),
        explain=question.request.explain,
        least=weights.cover * candidates.lexical.every_word,
        dates=DateScorer(question.query, weights),
    )
    unwanted = candidates.corpus.excluded
    ranked = [row for row in ranked if row.id not in unwanted]
    return Ranking(candidates.corpus, ranked, _relevance(question, candidates, ranked, unwanted))


def rank_vectors(question: Question, candidates: Candidates, _weights: Weights) -> Ranking:
    """Rank candidates of every kind by their cosine alone, which is the score."""
    scores = {
        key: cosine
        for key, cosine in candidates.cosine.items()
        if key not in candidates.corpus.excluded
    }
    ranked = [
        Ranked(key, scores[key], {"vector": scores[key]} if question.request.explain else {})
        for key in top(scores, question.request.depth)
    ]
    return Ranking(candidates.corpus, ranked, None)


def rank_listed(
    rankings: Sequence[Ranking], listed: Sequence[Mapping[int, int]], *, is_all: bool
) -> list[Ranking]:
    """
    Return rankings of rows of a time, the newest first.

    Args:
        rankings: By words and meaning; rows in them that name that time count too.
        listed: For each of *rankings* the time of each row, by id.
        is_all: Whether only the time is asked for. Else rows of the time are not sure, and rows
            with the words at another time are among them.
    """
    times = [time for found in listed for time in found.values()]
    first, width = min(times, default=0), max(times, default=0) - min(times, default=0)
    made = []
    for ranking, found in zip(rankings, listed, strict=True):
        newness = {key: (time - first) / width if width else 1.0 for key, time in found.items()}
        scores = {key: LISTED + (1 - LISTED) * value for key, value in newness.items()}
        if not is_all:
            scores = {key: ALMOST_SURE * LISTED * score for key, score in scores.items()}
        terms = {row.id: row.terms for row in ranking.ranked}
        for row in ranking.ranked:
            score = ranking.score(row)
            if is_all and row.fits:
                scores.setdefault(row.id, max(score, LISTED))
            elif not is_all:
                says = 0.0 if ranking.relevance is None else ranking.relevance.rows.get(row.id, 0.0)
                scores.setdefault(row.id, score if says >= SURE else ALMOST_SURE * LISTED * score)
        rows = [
            Ranked(key, scores[key], {**terms.get(key, {}), "time": scores[key]})
            for key in top(scores, len(scores))
        ]
        value = rows[0].score if rows else 0.0
        found_by_time = Relevance(value, {"time": value}, scores)
        made.append(ranking.replace(ranked=rows, relevance=found_by_time))
    return made


def _relevance(
    question: Question,
    candidates: Candidates,
    ranked: Sequence[Ranked],
    without: frozenset[int],
    near: Mapping[str, Mapping[int, float]] = {},
    replies: Mapping[int, int] = {},
) -> Relevance:
    """Return how much ranked candidates say about the question, see `Evidence`."""
    usable = [row for row in ranked if row.id not in without]
    rows = [row.id for row in usable if row.fits] or [row.id for row in usable]
    holders, cosines, texts = candidates.lexical.holders, candidates.cosine, candidates.texts
    found = (candidates.corpus, rows, holders, cosines, texts, candidates.model)
    return relevance(question.query, Evidence(*found, question.texts, without, near, replies))
