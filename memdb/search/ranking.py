"""
Scores of recall: two arms in, ranked messages or entries out.

Pure functions over ids and numbers: no SQL, no I/O, no clock. The order of calls for messages is
`Lexical` -> `fuse` -> `best` -> (the caller reads those rows) -> `Lexical.similar` -> `fuse` ->
`rank`; for entries `lexical_scores` with `DOCUMENTS` -> `rank_entries`. Ids are packed as in
`memdb.models.ids`, so that `id - 1` and `id + 1` are the neighbours of a message and `id >> 24`
is its session.

Score of a message, in the names of `Ranked.terms`:

    ((lexical + similar + vector + previous + next) * author * question * length + date + session)
        * excluded

Equal scores are ordered by id, newest first. Source of the recipe: LoCoMo, see `Weights`.
"""

from __future__ import annotations

import math
import time

from memdb.models.record import Record
from memdb.search.lexical import is_place, top
from memdb.search.weights import DOCUMENTS, MESSAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from memdb.english.dates import DateMention
    from memdb.search.query import Query
    from memdb.search.weights import Weights

_SESSION_SHIFT = 24


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
        similar: Share of words that mean about the same as the query's.
        vector: Share of the vector arm in the base score.
        score: Base and neighbours together, also for messages that no arm found themselves.
    """

    lexical: dict[int, float]
    vector: dict[int, float]
    score: dict[int, float]
    similar: dict[int, float]

    def base(self, message: int) -> float:
        """Return the base score of *message*; 0 when no arm found it."""
        found = self.lexical.get(message, 0.0) + self.vector.get(message, 0.0)
        return found + self.similar.get(message, 0.0)


def fuse(
    lexical: Mapping[int, float],
    cosine: Mapping[int, float],
    weights: Weights = MESSAGES,
    similar: Mapping[int, float] | None = None,
) -> Fused:
    """
    Return base and neighbour scores from both arms.

    base = share * (lexical + similar) / best lexical + (1 - share) * cosine / best cosine, over the
    best `weights.arm` by words, all with a cosine and all with similar words; an arm that found
    nothing leaves its share to the other. Then
    score = base + previous * base(id - 1) + next * base(id + 1), also for neighbours that no arm
    found. Scores of 0 or less count as not found; any scale will do.

    Args:
        lexical: `Lexical.scores`.
        cosine: Cosine similarity by id, higher is nearer; none for ids that were not measured.
        weights: `arm`, `lexical_share`, `previous` and `next` are used.
        similar: `Lexical.similar`, on the scale of *lexical*; None: not asked for.
    """
    best_lexical = max(lexical.values(), default=0.0)
    best_cosine = max(cosine.values(), default=0.0)
    share = weights.lexical_share if best_cosine > 0 else 1.0
    by_words, rest = {}, {}
    if best_lexical > 0:
        chosen = {message: lexical[message] for message in top(lexical, weights.arm)}
        by_words = _scaled(chosen, share / best_lexical)
        rest = _scaled(similar or {}, share / best_lexical)
    left = 1.0 - share if best_lexical > 0 else 1.0
    by_vector = _scaled(cosine, left / best_cosine) if best_cosine > 0 else {}
    base = dict(by_words)
    for part in (by_vector, rest):
        for message, value in part.items():
            base[message] = base.get(message, 0.0) + value
    score = dict(base)
    for offset, gain in ((1, weights.previous), (-1, weights.next)):
        if gain:
            for message, value in base.items():
                score[message + offset] = score.get(message + offset, 0.0) + gain * value
    return Fused(lexical=by_words, vector=by_vector, score=score, similar=rest)


def best(fused: Fused, count: int) -> list[int]:
    """Return the *count* best ids of *fused*, best first: the rows that `rank` should see."""
    return [message for message in top(fused.score, count) if is_place(message)]


def rank(
    query: Query,
    fused: Fused,
    rows: Mapping[int, Row],
    *,
    weights: Weights = MESSAGES,
    limit: int = 10,
    explain: bool = False,
    excluded: Collection[int] = (),
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
        excluded: Ids of messages that hold a word which the query excludes; they come last.
    """
    dates = _DateScorer(query, weights)
    scores: dict[int, float] = {}
    for message, row in rows.items():
        author, question, length = _factors(query, row, weights)
        score = fused.score.get(message, 0.0) * author * question * length
        scores[message] = score + dates.score(row.created_ms)
    bonus = _session_bonus(scores, weights)
    for message in scores:
        scores[message] += bonus[message >> _SESSION_SHIFT]
        if message in excluded:
            scores[message] *= weights.excluded
    found = []
    for message in top(scores, limit):
        terms: dict[str, float] = {}
        if explain:
            row = rows[message]
            terms = {
                "lexical": fused.lexical.get(message, 0.0),
                "similar": fused.similar.get(message, 0.0),
                "vector": fused.vector.get(message, 0.0),
                "previous": weights.previous * fused.base(message - 1),
                "next": weights.next * fused.base(message + 1),
                "date": dates.score(row.created_ms),
                "session": bonus[message >> _SESSION_SHIFT],
            }
            factors = _factors(query, row, weights)
            terms.update(zip(("author", "question", "length"), factors, strict=True))
            if message in excluded:
                terms["excluded"] = weights.excluded
        found.append(Ranked(message, scores[message], terms))
    return found


class Worth(Record):
    """
    What counts for an entry besides what it says.

    Attributes:
        importance: 1 to 10.
        decay: 1.0 for a new one, falling to 0 as it fades.
        use_count: How often it was recalled.
    """

    importance: int = 5
    decay: float = 1.0
    use_count: int = 0

    def factors(self, weights: Weights) -> tuple[float, float, float]:
        """Return the factors for importance, freshness and use; 1.0 is neutral."""
        return (
            1.0 + weights.importance * (self.importance - 5) / 5,
            1.0 - weights.fading * (1.0 - self.decay),
            1.0 + weights.use * math.log10(1 + min(self.use_count, 99)),
        )


_NEW = Worth()


def rank_entries(
    lexical: Mapping[int, float],
    cosine: Mapping[int, float],
    worths: Mapping[int, Worth],
    *,
    weights: Weights = DOCUMENTS,
    limit: int = 10,
    explain: bool = False,
    excluded: Collection[int] = (),
) -> list[Ranked]:
    """
    Return the best *limit* entries, best first; equal scores newest first.

    score = (lexical + vector) * importance * freshness * use * scale: half of each arm, a factor
    of 1 + weights.importance * (importance - 5) / 5, one of 1 - weights.fading * (1 - decay), one
    that gains weights.use for ten uses and twice that for a hundred, and `weights.entry_scale`,
    which makes the scores comparable with those of messages for the same query.

    Args:
        lexical: Scores by id, as `lexical_scores` gives them.
        cosine: Cosine similarity by id, higher is nearer.
        worths: By id; that of a new entry where it is absent.
        weights, limit, explain, excluded: As in `rank`.
    """
    fused = fuse(lexical, cosine, weights)
    scale = weights.entry_scale
    factors = {entry: worths.get(entry, _NEW).factors(weights) for entry in fused.score}
    scores = {
        entry: value * math.prod(factors[entry]) * scale for entry, value in fused.score.items()
    }
    for entry in scores.keys() & set(excluded):
        scores[entry] *= weights.excluded
    found = []
    for entry in top(scores, limit):
        terms: dict[str, float] = {}
        if explain:
            terms = {
                "lexical": fused.lexical.get(entry, 0.0),
                "vector": fused.vector.get(entry, 0.0),
                "scale": scale,
            }
            terms.update(zip(_WORTH_TERMS, factors[entry], strict=True))
            if entry in excluded:
                terms["excluded"] = weights.excluded
        found.append(Ranked(entry, scores[entry], terms))
    return found


_WORTH_TERMS = ("importance", "freshness", "use")
_ADDED = ("lexical", "similar", "vector", "previous", "next")


def score_of(terms: Mapping[str, float]) -> float:
    """
    Return the score that *terms* of a `Ranked` make; names that are absent count as neutral.

    >>> score_of({"lexical": 0.5, "previous": 0.25, "length": 2.0, "session": 0.25})
    1.75
    """
    added = sum(terms.get(name, 0.0) for name in _ADDED)
    for name in ("author", "question", "length", *_WORTH_TERMS, "scale"):
        added *= terms.get(name, 1.0)
    added += terms.get("date", 0.0) + terms.get("session", 0.0)
    return added * terms.get("excluded", 1.0)


def _scaled(scores: Mapping[int, float], scale: float) -> dict[int, float]:
    return {message: scale * value for message, value in scores.items() if value > 0}


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

    def __init__(self, query: Query, weights: Weights) -> None:
        self._dates = query.dates
        self._spans = query.spans
        self._weights = weights
        self._by_day: dict[int, float] = {}

    def score(self, created_ms: int) -> float:
        if not (self._dates or self._spans):
            return 0.0
        day = created_ms // 86_400_000
        if day not in self._by_day:
            named = [self._match(mention, day) for mention in self._dates]
            for span in self._spans:
                gain = self._weights.day if span.first == span.last else self._weights.month
                named.append(gain if span.first <= day <= span.last else 0.0)
            self._by_day[day] = max(named)
        return self._by_day[day]

    def _match(self, mention: DateMention, day: int) -> float:
        try:
            date = time.gmtime(day * 86_400)
        except (OverflowError, ValueError, OSError):
            return 0.0
        if mention.year not in {None, date.tm_year} or mention.month not in {None, date.tm_mon}:
            return 0.0
        return self._weights.day if mention.day == date.tm_mday else self._weights.month
