"""
Candidates: the rows of a corpus found by words or meaning, before they are ranked.

Pure functions over ids and numbers: no SQL, no I/O, no clock. `Lexical` scores posting lists,
`fuse` adds cosines and neighbours, and `best` chooses the messages whose rows are read.
`memdb.search.rank` ranks those. Ids are packed as in `memdb.models.ids`, so that `id - 1` and `id +
1` are the neighbours of a message.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from memdb.models.entries import NEUTRAL_IMPORTANCE
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.search.weights import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.facts.calendar import DaySpan
    from memdb.search.parse import Corpus
    from memdb.search.weights import Weights
    from memdb.text.terms import Term

    # As `memdb.search.features.row_of` gives them; `TRAITS` says what the first are.
    Traits = tuple[int, float, float, float, float, float, float, float, Sequence[int]]
    Row = tuple[Traits, str | None, int, str, Sequence[DaySpan]]

WIDEST_CONTEXT = 4
"""No neighbour is farther away than this; see `Weights.context`."""

MAX_USES = 99
"""Uses of an entry beyond which more add nothing."""


class Fused(Record):
    """
    Scores of one query before any row is read, by id.

    Attributes:
        lexical: Share of the lexical arm in the base score.
        vector: Share of the vector arm in the base score.
        score: Base and neighbours together, also of messages that only their neighbours brought.
    """

    lexical: dict[int, float]
    vector: dict[int, float]
    score: dict[int, float]

    def base(self, message: int) -> float:
        """Return the base score of *message*; 0 when no arm found it."""
        return self.lexical.get(message, 0.0) + self.vector.get(message, 0.0)


def fuse(
    lexical: Mapping[int, float],
    cosine: Mapping[int, float],
    weights: Weights = MESSAGES,
    least: float = 0.0,
) -> Fused:
    """
    Return base and neighbour scores from both arms.

    base = share * lexical / best lexical + (1 - share) * cosine / best cosine, over the best
    `weights.arm` by words and all with a cosine. If an arm found nothing, the other gets its share.
    Then score = base + previous * base(id - 1) + next * base(id + 1), also for neighbours that no
    arm found. Scores of 0 or less count as not found; the scale does not matter.

    Args:
        lexical: `Lexical.scores`.
        cosine: Cosine similarity by id, higher is nearer; ids that were not measured are absent.
        weights: `arm`, `lexical_share`, `previous` and `next` are used.
        least: Lower bound of the best score by words, 0 or more, see `Weights.cover`.
    """
    best_lexical = max(lexical.values(), default=0.0)
    if best_lexical > 0:
        best_lexical = max(best_lexical, least)
    best_cosine = max(cosine.values(), default=0.0)
    share = weights.lexical_share if best_cosine > 0 else 1.0
    by_words = {}
    if best_lexical > 0:
        chosen = {message: lexical[message] for message in strongest(lexical, weights.arm)}
        by_words = _scaled(chosen, share / best_lexical)
    left = 1.0 - share if best_lexical > 0 else 1.0
    by_vector = _scaled(cosine, left / best_cosine) if best_cosine > 0 else {}
    base = by_words | by_vector
    for message in by_words.keys() & by_vector.keys():
        base[message] = by_words[message] + by_vector[message]
    score = dict(base)
    for offset, gain in ((1, weights.previous), (-1, weights.next)):
        if gain:
            lent = {message + offset: gain * value for message, value in base.items()}
            for message in score.keys() & lent.keys():
                lent[message] += score[message]
            score |= lent
    return Fused(lexical=by_words, vector=by_vector, score=score)


def best(fused: Fused, count: int) -> list[int]:
    """Return the *count* best ids of *fused*, in any order, whose rows `rank` should read."""
    return [one for one in strongest(fused.score, count) if 0 < one & MAX_SEQ <= LAST_PLACE]


class Worth(Record):
    """
    Weights of an entry besides its text.

    Attributes:
        importance: 1 to 10.
        decay: 1.0 for a new one, falling to 0 as it fades.
        use_count: How often it was recalled.
        spans: Days named in the text; only read if the query names a time.
        created_ms: Time of the statement; only read if the query names a time. None means that it
            does not count.
    """

    importance: int = NEUTRAL_IMPORTANCE
    decay: float = 1.0
    use_count: int = 0
    spans: tuple[DaySpan, ...] = ()
    created_ms: int | None = None

    def factors(self, weights: Weights) -> tuple[float, float, float]:
        """Return the factors for importance, freshness and use; 1.0 is neutral."""
        return (
            1.0 + weights.importance * (self.importance - NEUTRAL_IMPORTANCE) / NEUTRAL_IMPORTANCE,
            1.0 - weights.fading * (1.0 - self.decay),
            1.0 + weights.use * math.log10(1 + min(self.use_count, MAX_USES)),
        )


def _scaled(scores: Mapping[int, float], scale: float) -> dict[int, float]:
    return {message: scale * value for message, value in scores.items() if value > 0}


def idf(frequency: int, total: int) -> float:
    """
    Return the weight of a word in *frequency* of *total* messages; always positive.

    log(1 + (total - frequency + 0.5) / (frequency + 0.5)), frequency at most total.
    Source: Robertson and Sparck Jones 1976, with the 1 + of Lucene's BM25.
    """
    rest = max(total - frequency, 0)
    return math.log1p((rest + 0.5) / (frequency + 0.5))


class Lexical:
    """
    The words of one query in one scope.

    The score of a message is the sum over the words of idf * (1 if the message contains it, else
    the best of `weights.context`). The number of times a word occurs and the length of the message
    do not count. BM25, which uses both, finds less (R@10 0.630 against 0.643, arm alone).

    The scores are exact for the best `weights.arm` by their own words; the words of other messages
    are not spread to neighbours. Cost: 0.8 ms for five words in 2,000 messages together.

    Attributes:
        scores: Above 0, by id. Ids of neighbours are computed, so some may not exist.
        every_word: The score of a row with every word, including words that no row contains.
    """

    __slots__ = ("_holders", "_weights", "every_word", "scores")

    def __init__(
        self, postings: Mapping[Term, Collection[int]], total: int, weights: Weights = MESSAGES
    ) -> None:
        """
        Score the messages of a scope.

        Args:
            postings: For each term, the ids in the scope that contain it.
            total: Messages in the scope.
            weights: `context`, `arm` and `pool` are used.
        """
        weighted = [
            (ids if isinstance(ids, frozenset) else set(ids), idf(len(ids), total), term)
            for term, ids in postings.items()
            if ids
        ]
        weighted.sort(key=lambda word: len(word[0]))
        self._holders = {term: ids for ids, _, term in weighted}
        self.every_word = sum(idf(len(ids), total) for ids in postings.values())
        own: dict[int, float] = {}
        for ids, weight, _ in weighted:
            add_weight(own, ids, weight, only_known=len(own) >= weights.pool)
        self._weights = {term: weight for _, weight, term in weighted}
        if not weights.context:
            self.scores = own
            return
        seeds = set(strongest(own, weights.arm))
        spread = sorted(weights.context, key=lambda pair: pair[1])
        scores: dict[int, float] = {}
        for ids, weight, _ in weighted:
            held = ids & seeds
            reach: dict[int, float] = {}
            for offset, part in spread:
                reach.update(dict.fromkeys([message + offset for message in held], weight * part))
            reach.update(dict.fromkeys(held, weight))
            for message, value in reach.items():
                scores[message] = scores.get(message, 0.0) + value
        self.scores = {
            message: value
            for message, value in scores.items()
            if 0 < message & MAX_SEQ <= LAST_PLACE
        }

    def best(self, count: int) -> dict[int, float]:
        """Return the *count* highest of `scores`, which `fuse` uses for the arm of its weights."""
        return {key: self.scores[key] for key in top(self.scores, count)}

    def words(self) -> list[tuple[Term, float, AbstractSet[int]]]:
        """Return the terms of the query that rows contain, with weights and rows."""
        return [(term, weight, self._holders[term]) for term, weight in self._weights.items()]

    def holders(self, term: Term) -> AbstractSet[int]:
        """Return the ids of the rows that contain *term*."""
        return self._holders.get(term, frozenset())


def add_weight(
    scores: dict[int, float], ids: AbstractSet[int], weight: float, *, only_known: bool = False
) -> None:
    """Add *weight* to the scores of *ids*, or only of those that already have a score."""
    known = scores.keys() & ids
    for message in known:
        scores[message] += weight
    if not only_known:
        scores.update(dict.fromkeys(ids - known if known else ids, weight))


def top(scores: Mapping[int, float], count: int) -> list[int]:
    """
    Return the *count* ids with the highest scores, best first; equal scores newest first.

    >>> top({1: 0.5, 2: 0.9, 3: 0.5}, 2)
    [2, 3]
    """
    kept = sorted(strongest(scores, count), reverse=True)
    return sorted(kept, key=scores.__getitem__, reverse=True)


def strongest(scores: Mapping[int, float], count: int) -> list[int]:
    """Return the ids of `top` in any order, which takes a third less time."""
    if len(scores) <= count:
        return list(scores)
    if count <= 0:
        return []
    bar = sorted(scores.values(), reverse=True)[count - 1]
    reached = [message for message, value in scores.items() if value >= bar]
    if len(reached) == count:
        return reached
    above = [message for message in reached if scores[message] > bar]
    level = [message for message in reached if scores[message] == bar]
    level.sort(reverse=True)
    return above + level[: count - len(above)]


# A neighbour of the first messages of a session falls on seq 0 or, one session earlier, on the
# last numbers, which no real session reaches.
LAST_PLACE = MAX_SEQ - WIDEST_CONTEXT


class Candidates(Record):
    """
    The rows of a corpus found by words or meaning, before they are ranked.

    Attributes:
        lexical: The words of the query in the corpus.
        scores: Lexical scores by id, without rows that must not be found by their neighbours.
        cosine: Cosine similarity by id.
        fused: Words and meaning together; None for kinds without neighbours.
        rows: For messages, the rows of the best candidates.
        worths: For entries, their weights besides their words.
        texts: For messages and entries, the texts of the best candidates.
        model: Name of the model of the cosines. None means that rows were not compared by meaning.
    """

    corpus: Corpus
    lexical: Lexical
    scores: dict[int, float]
    cosine: dict[int, float]
    fused: Fused | None = None
    rows: Mapping[int, Row] = {}
    worths: Mapping[int, Worth] = {}
    texts: Mapping[int, str] = {}
    model: str | None = None

    def without(self, gone: AbstractSet[int], weights: Weights) -> Candidates:
        """Return the candidates as they are without the messages of the ids *gone*."""
        postings = {term: {*ids} - gone for term, ids in self.corpus.postings.items()}
        lexical = Lexical(postings, self.corpus.total, weights)
        scores = {key: score for key, score in lexical.scores.items() if key in self.scores}
        cosine = {key: value for key, value in self.cosine.items() if key not in gone}
        left = self.replace(lexical=lexical, scores=scores, cosine=cosine)
        fused = fuse_candidates(left, weights)
        found = fused.score.keys() - gone
        kept = {key: row for key, row in self.rows.items() if key in found}
        return left.replace(fused=fused, rows=kept)


def fuse_candidates(
    candidates: Candidates, weights: Weights, *, with_neighbours: bool = True
) -> Fused:
    """Return `fuse` for messages, with scores of rows of the corpus only."""
    corpus, scores = candidates.corpus, candidates.scores
    least = weights.cover * candidates.lexical.every_word
    fused = fuse(scores, candidates.cosine, weights, least)
    (low, high), allowed, kept = corpus.span, corpus.allowed, fused.score
    if kept and not (low <= min(kept) and max(kept) <= high):
        kept = {key: score for key, score in kept.items() if low <= key <= high}
    if allowed is not None:
        kept = {key: score for key, score in kept.items() if key in allowed}
    if not with_neighbours:
        kept = {key: score for key, score in kept.items() if key in scores}
    return fused.replace(score=kept)
