"""
Scores of recall: two arms in, ranked messages or entries out.

Pure functions over ids and numbers: no SQL, no I/O, no clock. The order of calls for messages is
`lexical_scores` -> `fuse` -> `best` -> (the caller reads those rows) -> `rank`; for entries
`lexical_scores` with `DOCUMENTS` -> `rank_entries`. Ids are packed as in `memdb.ids`, so that
`id - 1` and `id + 1` are the neighbours of a message and `id >> 24` is its session.

Score of a message, in the names of `Ranked.terms`:

    (lexical + vector + previous + next) * author * question * length + date + session

Equal scores are ordered by id, newest first. Source of the recipe: LoCoMo, see `Weights`.
"""

from __future__ import annotations

import math
import time

from memdb.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from memdb.recall.query import DateMention, Query

_SESSION_SHIFT = 24
_SEQ_MASK = (1 << _SESSION_SHIFT) - 1
_WIDEST_CONTEXT = 4


class Weights(Record):
    """
    Every number of the ranking.

    "x without" is R@10 when a term is switched off and the others stay; with all of them it is
    0.810, with the recipe of the design document 0.769. Source: LoCoMo's five development
    conversations, 997 questions, mean of lexical alone and with the static table, with and without
    picture captions, 2026-11. Choosing among nine variants on four conversations and measuring on
    the fifth gains nothing over these values (-0.0001).

    Attributes:
        arm: Candidates taken from each arm.
        lexical_share: Share of the lexical arm when both answer; 0.5 loses 0.004, 0.7 loses 0.001.
        context: What a query word counts for in a message when it stands in the message this
            far before (positive) or after (negative) it instead; 0.758 without.
        previous, next: Share of the neighbours' base scores that is added; 0.802, 0.806 without.
        author: Gain when the query names this author and no other; half of it for all when it
            names nobody, for each named one when it names several; 0.798 without.
        question: Loss of a message that asks something itself; 0.799 without.
        length: Gain of a message of `length_words` words or more, in proportion below that; it
            moves nDCG@10, 0.628 without and 0.632 with it.
        month, day: Added when the query names the message's month or year, or its day; 0.794
            without both.
        session: Share of its session's best score that is added to each message; 0.798 without.
        seeds: Messages whose words are spread to their neighbours; more change nothing.
        pool: Once so many messages hold a rarer word, a commoner word adds no new ones.
        importance: Gain of an entry of importance 10, and loss of importance 0; 5 is neutral.
        entry_scale: Final by base score of the first ten messages, median 2.2 with and without
            vectors, so that entries, which have no context terms, come to the same scale.
    """

    arm: int = 200
    lexical_share: float = 0.6
    context: tuple[tuple[int, float], ...] = ((1, 0.5), (-1, 0.3), (2, 0.3), (-2, 0.2))
    previous: float = 0.15
    next: float = 0.1
    author: float = 0.3
    question: float = 0.15
    length: float = 0.2
    length_words: int = 40
    month: float = 0.5
    day: float = 1.0
    session: float = 0.3
    seeds: int = 200
    pool: int = 1000
    importance: float = 0.2
    entry_scale: float = 2.2


MESSAGES = Weights()
"""The ranking of messages."""

DOCUMENTS = MESSAGES.replace(lexical_share=0.5, context=(), previous=0.0, next=0.0)
"""The ranking of entries: documents have no neighbours."""


class Row(Record):
    """What `rank` needs to see of a message; *created_ms* is UTC milliseconds."""

    text: str
    author: str | None
    created_ms: int


class Ranked(Record):
    """
    One ranked message or entry; higher *score* is better.

    Attributes:
        id: Row id.
        score: Comparable within one query only.
        terms: Every term of the score by name, from which `score_of` gives the score again; empty
            unless an explanation was asked for.
    """

    id: int
    score: float
    terms: dict[str, float]


class Fused(Record):
    """
    Scores of one query before any row is read, by id.

    Attributes:
        lexical: Share of the lexical arm in the base score.
        vector: Share of the vector arm in the base score.
        score: Base and neighbours together, also for messages that no arm found themselves.
    """

    lexical: dict[int, float]
    vector: dict[int, float]
    score: dict[int, float]

    def base(self, message: int) -> float:
        """Return the base score of *message*; 0 when no arm found it."""
        return self.lexical.get(message, 0.0) + self.vector.get(message, 0.0)


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
    """
    Return the lexical score of each message that holds a query word, or whose neighbours do.

    Sum over the words of idf * (1 if the message holds it, else the best of `weights.context`).
    How often a word stands in a message, and how long the message is, do not count: with both,
    real BM25 finds less (R@10 0.630 against 0.643, arm alone).

    Exact for the best `weights.seeds` by their own words; the words of others are not spread.
    Cost: 0.8 ms for five words that stand in 2,000 messages together.

    Args:
        postings: For each term, the ids in the scope that hold it.
        total: Messages in the scope.
        weights: `context`, `seeds` and `pool` are used.

    Returns:
        Scores above 0. Ids of neighbours are computed, so some may not exist.
    """
    weighted = [(set(ids), idf(len(ids), total)) for ids in postings.values() if ids]
    weighted.sort(key=lambda pair: len(pair[0]))
    own: dict[int, float] = {}
    for ids, weight in weighted:
        for message in ids if len(own) < weights.pool else ids & own.keys():
            own[message] = own.get(message, 0.0) + weight
    if not weights.context:
        return own
    seeds = set(top(own, weights.seeds))
    spread = sorted(weights.context, key=lambda pair: pair[1])
    scores: dict[int, float] = {}
    for ids, weight in weighted:
        held = ids & seeds
        reach: dict[int, float] = {}
        for offset, part in spread:
            reach.update(dict.fromkeys([message + offset for message in held], weight * part))
        reach.update(dict.fromkeys(held, weight))
        for message, value in reach.items():
            scores[message] = scores.get(message, 0.0) + value
    return {message: value for message, value in scores.items() if _is_place(message)}


def fuse(
    lexical: Mapping[int, float], cosine: Mapping[int, float], weights: Weights = MESSAGES
) -> Fused:
    """
    Return base and neighbour scores from both arms.

    base = share * lexical / best lexical + (1 - share) * cosine / best cosine, over the best
    `weights.arm` of each; an arm that found nothing leaves its share to the other. Then
    score = base + previous * base(id - 1) + next * base(id + 1), also for neighbours that no arm
    found. Scores of 0 or less count as not found; any scale will do.
    """
    has_lexical = any(value > 0 for value in lexical.values())
    has_vector = any(value > 0 for value in cosine.values())
    share = weights.lexical_share if has_vector else 1.0
    left = _share(lexical, weights.arm, share)
    right = _share(cosine, weights.arm, 1.0 - share if has_lexical else 1.0)
    base = dict(left)
    for message, value in right.items():
        base[message] = base.get(message, 0.0) + value
    score = dict(base)
    for offset, part in ((1, weights.previous), (-1, weights.next)):
        if part:
            for message, value in base.items():
                score[message + offset] = score.get(message + offset, 0.0) + part * value
    return Fused(lexical=left, vector=right, score=score)


def best(fused: Fused, count: int) -> list[int]:
    """Return the *count* best ids of *fused*, best first: the rows that `rank` should see."""
    return [message for message in top(fused.score, count) if _is_place(message)]


def rank(
    query: Query,
    fused: Fused,
    rows: Mapping[int, Row],
    *,
    weights: Weights = MESSAGES,
    limit: int = 10,
    explain: bool = False,
) -> list[Ranked]:
    """
    Return the best *limit* messages of *rows*, best first; equal scores newest first.

    Ids without a row do not exist and are left out.

    Args:
        query: What the query says.
        fused: What `fuse` returned.
        rows: The rows of the ids that `best` returned; 200 lose no R@10, 100 lose 0.002.
        weights: All but those of the first stage are used.
        limit: Most messages to return.
        explain: Whether to fill `Ranked.terms`.
    """
    dates = _DateScorer(query.dates, weights)
    scores: dict[int, float] = {}
    for message, row in rows.items():
        author, question, length = _factors(query, row, weights)
        score = fused.score.get(message, 0.0) * author * question * length
        scores[message] = score + dates.score(row.created_ms)
    bonus = _session_bonus(scores, weights)
    for message in scores:
        scores[message] += bonus[message >> _SESSION_SHIFT]
    found = []
    for message in top(scores, limit):
        terms: dict[str, float] = {}
        if explain:
            row = rows[message]
            terms = {
                "lexical": fused.lexical.get(message, 0.0),
                "vector": fused.vector.get(message, 0.0),
                "previous": weights.previous * fused.base(message - 1),
                "next": weights.next * fused.base(message + 1),
                "date": dates.score(row.created_ms),
                "session": bonus[message >> _SESSION_SHIFT],
            }
            factors = _factors(query, row, weights)
            terms.update(zip(("author", "question", "length"), factors, strict=True))
        found.append(Ranked(message, scores[message], terms))
    return found


def rank_entries(
    lexical: Mapping[int, float],
    cosine: Mapping[int, float],
    importance: Mapping[int, int],
    *,
    weights: Weights = DOCUMENTS,
    limit: int = 10,
    explain: bool = False,
) -> list[Ranked]:
    """
    Return the best *limit* entries, best first; equal scores newest first.

    score = (lexical + vector) * importance * scale: half of each arm, a factor of
    1 + weights.importance * (importance - 5) / 5, and `weights.entry_scale`, which makes the
    scores comparable with those of messages for the same query.

    Args:
        lexical: Scores by id, as `lexical_scores` gives them.
        cosine: Cosine similarity by id, higher is nearer.
        importance: 1 to 10 by id; 5 where it is absent.
        weights, limit, explain: As in `rank`.
    """
    fused = fuse(lexical, cosine, weights)
    gain, scale = weights.importance / 5, weights.entry_scale
    factors = {entry: 1.0 + gain * (importance.get(entry, 5) - 5) for entry in fused.score}
    scores = {entry: value * factors[entry] * scale for entry, value in fused.score.items()}
    found = []
    for entry in top(scores, limit):
        terms: dict[str, float] = {}
        if explain:
            terms = {
                "lexical": fused.lexical.get(entry, 0.0),
                "vector": fused.vector.get(entry, 0.0),
                "importance": factors[entry],
                "scale": scale,
            }
        found.append(Ranked(entry, scores[entry], terms))
    return found


def score_of(terms: Mapping[str, float]) -> float:
    """
    Return the score that *terms* of a `Ranked` make; names that are absent count as neutral.

    >>> score_of({"lexical": 0.5, "previous": 0.25, "length": 2.0, "session": 0.25})
    1.75
    """
    added = sum(terms.get(name, 0.0) for name in ("lexical", "vector", "previous", "next"))
    for name in ("author", "question", "length", "importance", "scale"):
        added *= terms.get(name, 1.0)
    return added + terms.get("date", 0.0) + terms.get("session", 0.0)


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


def _is_place(message: int) -> bool:
    # A neighbour of the first messages of a session falls on seq 0 or, one session earlier, on
    # the last numbers, which no real session reaches.
    return 0 < message & _SEQ_MASK <= _SEQ_MASK - _WIDEST_CONTEXT


def _share(scores: Mapping[int, float], arm: int, share: float) -> dict[int, float]:
    chosen = [message for message in top(scores, arm) if scores[message] > 0]
    if not chosen:
        return {}
    scale = share / scores[chosen[0]]
    return {message: scale * scores[message] for message in chosen}


def _factors(query: Query, row: Row, weights: Weights) -> tuple[float, float, float]:
    """Return the factors for author, question and length."""
    if not query.authors:
        author = 1.0 + weights.author / 2
    elif row.author in query.authors:
        author = 1.0 + weights.author / min(len(query.authors), 2)
    else:
        author = 1.0
    asks = "?" in row.text or "\uff1f" in row.text
    words = min(len(row.text.split(None, weights.length_words)), weights.length_words)
    length = 1.0 + weights.length * words / weights.length_words
    return author, 1.0 - weights.question if asks else 1.0, length


def _session_bonus(scores: Mapping[int, float], weights: Weights) -> dict[int, float]:
    bonus: dict[int, float] = {}
    for message, score in scores.items():
        session = message >> _SESSION_SHIFT
        bonus[session] = max(bonus.get(session, 0.0), weights.session * score)
    return bonus


class _DateScorer:
    """Date scores of one query; each day is looked at once."""

    def __init__(self, dates: Iterable[DateMention], weights: Weights) -> None:
        self._dates = tuple(dates)
        self._weights = weights
        self._by_day: dict[int, float] = {}

    def score(self, created_ms: int) -> float:
        if not self._dates:
            return 0.0
        day = created_ms // 86_400_000
        if day not in self._by_day:
            self._by_day[day] = max(self._match(mention, day) for mention in self._dates)
        return self._by_day[day]

    def _match(self, mention: DateMention, day: int) -> float:
        try:
            date = time.gmtime(day * 86_400)
        except (OverflowError, ValueError, OSError):
            return 0.0
        if mention.year not in {None, date.tm_year} or mention.month not in {None, date.tm_mon}:
            return 0.0
        return self._weights.day if mention.day == date.tm_mday else self._weights.month
