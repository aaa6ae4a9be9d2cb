"""
The lexical arm: what the words of a query say about the messages that hold them.

Pure functions over ids and numbers, as `memdb.search.ranking`. A word counts in
full for a message that holds it, in part for its neighbours, and, once texts
were read, in part for a message with a word that means about the same.
"""

from __future__ import annotations

import math

from memdb.search.weights import MESSAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from memdb.search.weights import Weights

_SESSION_SHIFT = 24
_SEQ_MASK = (1 << _SESSION_SHIFT) - 1
_WIDEST_CONTEXT = 4


def idf(frequency: int, total: int) -> float:
    """
    Return the weight of a word that stands in *frequency* of *total* messages; always positive.

    log(1 + (total - frequency + 0.5) / (frequency + 0.5)), frequency at most total.
    Source: Robertson and Sparck Jones 1976, with the 1 + of Lucene's BM25.
    """
    rest = max(total - frequency, 0)
    return math.log1p((rest + 0.5) / (frequency + 0.5))


def lexical_scores(
    postings: Mapping[str, Collection[int]], total: int, weights: Weights = MESSAGES
) -> dict[int, float]:
    """Return `Lexical(...).scores`."""
    return Lexical(postings, total, weights).scores


class Lexical:
    """
    The words of one query in one scope.

    The score of a message is the sum over the words of idf * (1 if the message holds it, else the
    best of `weights.context`). How often a word stands in a message, and how long the message is,
    do not count: with both, real BM25 finds less (R@10 0.630 against 0.643, arm alone).

    Exact for the best `weights.seeds` by their own words; the words of others are not spread.
    Cost: 0.8 ms for five words that stand in 2,000 messages together.

    Attributes:
        scores: Above 0, by id. Ids of neighbours are computed, so some may not exist.
    """

    __slots__ = ("_spread", "_words", "scores")

    def __init__(
        self, postings: Mapping[str, Collection[int]], total: int, weights: Weights = MESSAGES
    ) -> None:
        """
        Score the messages of a scope.

        Args:
            postings: For each term, the ids in the scope that hold it.
            total: Messages in the scope.
            weights: `context`, `seeds` and `pool` are used.
        """
        weighted = [(set(ids), idf(len(ids), total), term) for term, ids in postings.items() if ids]
        weighted.sort(key=lambda word: len(word[0]))
        own: dict[int, float] = {}
        for ids, weight, _ in weighted:
            for message in ids if len(own) < weights.pool else ids & own.keys():
                own[message] = own.get(message, 0.0) + weight
        self._spread = ((0, 1.0), *weights.context)
        self._words: dict[str, tuple[float, Mapping[int, float]]] = {}
        if not weights.context:
            self.scores = own
            for ids, weight, term in weighted:
                self._words[term] = (weight, dict.fromkeys(ids, weight))
            return
        seeds = set(top(own, weights.seeds))
        spread = sorted(weights.context, key=lambda pair: pair[1])
        scores: dict[int, float] = {}
        for ids, weight, term in weighted:
            held = ids & seeds
            reach: dict[int, float] = {}
            for offset, part in spread:
                reach.update(dict.fromkeys([message + offset for message in held], weight * part))
            reach.update(dict.fromkeys(held, weight))
            for message, value in reach.items():
                scores[message] = scores.get(message, 0.0) + value
            self._words[term] = (weight, reach)
        self.scores = {message: value for message, value in scores.items() if is_place(message)}

    def similar(self, near: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
        """
        Return what words of similar meaning add to the scores, by id.

        A word that counts for a message already, because it or a neighbour holds it, adds only
        what is missing.

        Args:
            near: For a term, how near the nearest word of a message is to it, 0 to 1 by id.
        """
        added: dict[int, float] = {}
        for term, found in near.items():
            if term not in self._words:
                continue
            weight, reach = self._words[term]
            best: dict[int, float] = {}
            for message, nearness in found.items():
                for offset, part in self._spread:
                    value = weight * nearness * part
                    if value > best.get(message + offset, 0.0):
                        best[message + offset] = value
            for message, value in best.items():
                gain = value - reach.get(message, 0.0)
                if gain > 0:
                    added[message] = added.get(message, 0.0) + gain
        return {message: value for message, value in added.items() if is_place(message)}


def top(scores: Mapping[int, float], count: int) -> list[int]:
    """
    Return the *count* ids with the highest scores, best first; equal scores newest first.

    >>> top({1: 0.5, 2: 0.9, 3: 0.5}, 2)
    [2, 3]
    """
    if count <= 0:
        return []
    kept: Iterable[int] = scores
    if len(scores) > count:
        bar = sorted(scores.values(), reverse=True)[count - 1]
        above = [message for message, value in scores.items() if value > bar]
        level = [message for message, value in scores.items() if value == bar]
        level.sort(reverse=True)
        kept = above + level[: count - len(above)]
    return sorted(sorted(kept, reverse=True), key=scores.__getitem__, reverse=True)


def is_place(message: int) -> bool:
    """
    Say whether *message* can be the id of one.

    A neighbour of the first messages of a session falls on seq 0 or, one session earlier, on the
    last numbers, which no real session reaches.
    """
    return 0 < message & _SEQ_MASK <= _SEQ_MASK - _WIDEST_CONTEXT
