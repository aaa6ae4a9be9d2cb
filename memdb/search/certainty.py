"""
Certainty: whether the ranked rows answer the question, and which rows are kept.

Pure functions over rankings. A row is sure if it answers by itself (`Ranking.is_sure`). A score
below `POSSIBLE` means that the row says nothing about the question. Rows in between are returned
and marked as unsure. A question about a name or identifier that no text contains has no answer at
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.record import Record
from memdb.search.relevance import POSSIBLE
from memdb.text.terms import word_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.search.parse import Question
    from memdb.search.rank import Ranked, Ranking
    from memdb.search.request import SearchRequest

    # Score, place of the ranking, and the row.
    Line = tuple[float, int, Ranked]

HIT_LEAST = 0.05
"""Score below which a hit is left out, whatever the best one says."""

CUT_SHARE = 0.6
"""Share of the best score from which on `cut="auto"` keeps a hit; after no gap, half of it."""

CUT_GAP = 0.15
"""Fall of the score at once, as a share of the best one, that is a gap."""

SEEN = "min_score=0 shows the closest"
EXCLUDED = "exclude leaves out all that matches: give fewer words"


class Choice(Record):
    """
    The rows of an answer.

    Attributes:
        lines: Best first, at most the request's limit.
        certainty: As `Hits.certainty` has it.
        left_out: A sentence about the rows that were left out, and how to see them. None if nothing
            was.
    """

    lines: list[Line]
    certainty: str
    left_out: str | None = None


def choose(question: Question, rankings: Sequence[Ranking], limit: int) -> Choice:
    """Return the rows that are an answer, of all *rankings* on one scale."""
    lines = [
        (-ranking.score(row), order, place, row)
        for order, ranking in enumerate(rankings)
        for place, row in enumerate(ranking.ranked)
    ]
    lines.sort()  # no two have one place
    ranked = [(-score, order, row) for score, order, _, row in lines]
    certainty = certainty_of(question, rankings)
    kept, left = ranked, None
    if question.request.only_sure:
        kept = [line for line in ranked if is_sure(question, rankings[line[1]], line[2])]
        kept = [] if certainty == "none" else kept
        if len(kept) < len(ranked):
            matches = _matches(len(ranked) - len(kept))
            left = f"{matches} left out that may not answer: only_sure=False shows them"
    count, reason = keep(question, rankings, [score for score, *_ in kept], certainty)
    return Choice(kept[: min(count, limit)], certainty, left or reason)


def certainty_of(question: Question, rankings: Sequence[Ranking]) -> str:
    """Return "sure", "unsure" or "none" for the best row of all *rankings*."""
    found = [ranking for ranking in rankings if ranking.ranked]
    if not found:
        return "none"
    if any(ranking.relevance is None for ranking in found):
        return "unsure"  # a cosine says how near, not whether it is an answer
    best = max(ranking.score(row) for ranking in found for row in ranking.ranked)
    if question.unknown_names or best < POSSIBLE:
        return "none"
    sure = any(is_sure(question, ranking, row) for ranking in found for row in ranking.ranked)
    return "sure" if sure else "unsure"


def is_sure(question: Question, ranking: Ranking, row: Ranked) -> bool:
    """
    Return whether a row answers the question by itself.

    The row must contain each number and identifier in the question: "ticket 418" is not answered by
    ticket 419. If the question names a time and names, the row must contain one of the names. A
    question that lists the messages of a time requires neither.
    """
    if not ranking.is_sure(row):
        return False
    query, postings = question.query, ranking.corpus.postings
    held = (row.id in postings.get(term, ()) for term in query.exact_terms())
    if question.is_listing or not all(held):
        return question.is_listing
    names = set(query.identifiers) - query.names() - query.user if query.is_dated else ()
    return not names or any(row.id in postings.get(term, ()) for term in word_terms(names))


def keep(
    question: Question, rankings: Sequence[Ranking], scores: Sequence[float], certainty: str
) -> tuple[int, str | None]:
    """
    Return how many of the falling *scores* are kept, and why the others are not.

    Args:
        certainty: Certainty of the answer.
    """
    if not scores:
        is_excluded = any(one.corpus.excluded and not one.ranked for one in rankings)
        return 0, EXCLUDED if is_excluded else None
    request = question.request
    least = request.min_score
    if least is None:
        has_cosines = any(one.relevance is None for one in rankings if one.ranked)
        least = -1.0 if has_cosines else 2.0 if certainty == "none" else HIT_LEAST
    count = sum(score >= least for score in scores)
    if count < len(scores) and (not count or request.min_score is not None):
        return _cut(request, scores, count), _reason(question, scores, count, least)
    # What is unsure is shown for a person or a model to judge: its scores do not tell.
    kept = _cut(request, scores, count) if certainty == "sure" else count
    if kept < count:
        return kept, f"{_matches(count - kept)} left out behind the best: cut=None shows them"
    return kept, None


def _cut(request: SearchRequest, scores: Sequence[float], count: int) -> int:
    """Return how many of the first *count* scores stand out from the others."""
    best = scores[0]
    if request.cut is not None and best > 0:
        for place in range(1, count):
            share, gap = scores[place] / best, (scores[place - 1] - scores[place]) / best
            if share < CUT_SHARE / 2 or (share < CUT_SHARE and gap >= CUT_GAP):
                return place
    return count


def _reason(question: Question, scores: Sequence[float], count: int, least: float) -> str:
    """Explain why only *count* of the scored matches are shown."""
    request, left = question.request, _matches(len(scores) - count)
    if request.min_score is not None and least == request.min_score:
        return f"min_score={least:g} leaves {left} out: the best of all scores {scores[0]:.2f}"
    if question.unknown_names:
        names = ", ".join(question.unknown_names)
        return f"no text names {names}; {SEEN}"
    return f"nothing is known: the best of {left} scores {scores[0]:.2f} of 1; {SEEN}"


def _matches(count: int) -> str:
    return "1 match" if count == 1 else f"{count} matches"
