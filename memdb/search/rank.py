"""
Ranking: from posting lists, cosines and rows of the best to scored records.

Pure functions over ids and numbers: no SQL, no I/O, no clock. The order of calls for messages is
`Lexical` -> `fuse` -> `best` -> (the caller reads those rows) -> `near_words` ->
`Lexical.similar` -> `fuse` -> `rank`; for other kinds `lexical_scores` with `DOCUMENTS` ->
`rank_entries`. `rank_messages` and `rank_documents` do that for `Candidates`. Ids are packed as
in `memdb.models.ids`, so that `id - 1` and `id + 1` are the neighbours of a message.

Score of a message, in the names of `Ranked.terms`:

    ((lexical + similar + vector + previous + next) * author * question * length + date + session)
        * excluded

Equal scores are ordered by id, newest first. Source of the recipe: LoCoMo, see `Weights`.
"""

from __future__ import annotations

import math

from memdb.models.ids import MAX_SEQ, SESSION_SHIFT
from memdb.models.record import Record
from memdb.search.date_score import DateScorer
from memdb.search.relevance import Evidence, Relevance, relevance
from memdb.search.weights import (
    DOCUMENTS,
    LEAST_COVER,
    MAX_USES,
    MESSAGES,
    NEUTRAL_IMPORTANCE,
    RELEVANT_ROWS,
    SIMILAR_CHARS,
    SIMILAR_WORDS,
    WIDEST_CONTEXT,
)
from memdb.text.terms import STOP_WORDS, Term

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.english.calendar import DaySpan
    from memdb.search.parse import Corpus, Query, Question
    from memdb.search.weights import Weights


class Row(Record):
    """
    What `rank` needs to see of a message.

    Attributes:
        created_ms: UTC milliseconds.
        spans: Days that the text speaks of besides its own; only read if the query names a time.
    """

    text: str
    author: str | None
    created_ms: int
    spans: tuple[DaySpan, ...] = ()


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
    least: float = 0.0,
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
        similar: `Lexical.similar`, on the scale of *lexical*; None means none.
        least: The best by words counts as at least so much, 0 or more.
    """
    best_lexical = max(lexical.values(), default=0.0)
    if best_lexical > 0:
        best_lexical = max(best_lexical, least)
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
    dates = DateScorer(query, weights)
    scores: dict[int, float] = {}
    for message, row in rows.items():
        author, question, length = _factors(query, row, weights)
        score = fused.score.get(message, 0.0) * author * question * length
        scores[message] = score + dates.score(row.created_ms, row.spans)
    bonus = _session_bonus(scores, weights)
    for message in scores:
        scores[message] += bonus[message >> SESSION_SHIFT]
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
                "date": dates.score(row.created_ms, row.spans),
                "session": bonus[message >> SESSION_SHIFT],
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
        spans: Days that the text speaks of; only read if the query names a time.
    """

    importance: int = 5
    decay: float = 1.0
    use_count: int = 0
    spans: tuple[DaySpan, ...] = ()

    def factors(self, weights: Weights) -> tuple[float, float, float]:
        """Return the factors for importance, freshness and use; 1.0 is neutral."""
        return (
            1.0 + weights.importance * (self.importance - NEUTRAL_IMPORTANCE) / NEUTRAL_IMPORTANCE,
            1.0 - weights.fading * (1.0 - self.decay),
            1.0 + weights.use * math.log10(1 + min(self.use_count, MAX_USES)),
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
    least: float = 0.0,
    dates: DateScorer | None = None,
) -> list[Ranked]:
    """
    Return the best *limit* entries, best first; equal scores newest first.

    score = (lexical + vector) * importance * freshness * use * scale + date: half of each arm, a
    factor of 1 + weights.importance * (importance - 5) / 5, one of 1 - weights.fading *
    (1 - decay), one that gains weights.use for ten uses and twice that for a hundred, and
    `weights.entry_scale`, which makes the scores comparable with those of messages.

    Args:
        lexical: Scores by id, as `lexical_scores` gives them.
        cosine: Cosine similarity by id, higher is nearer.
        worths: By id; that of a new entry where it is absent.
        weights, limit, explain, excluded: As in `rank`.
        least: As in `fuse`.
        dates: Scores the days that the texts speak of. None means that they do not count.
    """
    fused = fuse(lexical, cosine, weights, least=least)
    scale = weights.entry_scale
    factors = {entry: worths.get(entry, _NEW).factors(weights) for entry in fused.score}
    scores = {
        entry: value * math.prod(factors[entry]) * scale for entry, value in fused.score.items()
    }
    gains = {} if dates is None else {key: dates.score(None, worths[key].spans) for key in worths}
    for entry in scores.keys() & gains.keys():
        scores[entry] += gains[entry]
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
            if gains.get(entry):
                terms["date"] = gains[entry]
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
        session = message >> SESSION_SHIFT
        bonus[session] = max(bonus.get(session, 0.0), weights.session * score)
    return bonus


def idf(frequency: int, total: int) -> float:
    """
    Return the weight of a word that stands in *frequency* of *total* messages; always positive.

    log(1 + (total - frequency + 0.5) / (frequency + 0.5)), frequency at most total.
    Source: Robertson and Sparck Jones 1976, with the 1 + of Lucene's BM25.
    """
    rest = max(total - frequency, 0)
    return math.log1p((rest + 0.5) / (frequency + 0.5))


def lexical_scores(
    postings: Mapping[Term, Collection[int]], total: int, weights: Weights = MESSAGES
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
        every_word: The score of a row that holds every word, also those of none.
    """

    __slots__ = ("_holders", "_spread", "_words", "every_word", "scores")

    def __init__(
        self, postings: Mapping[Term, Collection[int]], total: int, weights: Weights = MESSAGES
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
        self._holders = {term: ids for ids, _, term in weighted}
        self.every_word = sum(idf(len(ids), total) for ids in postings.values())
        own: dict[int, float] = {}
        for ids, weight, _ in weighted:
            for message in ids if len(own) < weights.pool else ids & own.keys():
                own[message] = own.get(message, 0.0) + weight
        self._spread = ((0, 1.0), *weights.context)
        self._words: dict[Term, tuple[float, Mapping[int, float]]] = {}
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

    def holders(self, term: Term) -> AbstractSet[int]:
        """Return the ids of the rows that hold *term*."""
        return self._holders.get(term, frozenset())

    def similar(self, near: Mapping[Term, Mapping[int, float]]) -> dict[int, float]:
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
    return 0 < message & MAX_SEQ <= MAX_SEQ - WIDEST_CONTEXT


def near_words(
    words: Sequence[str], texts: Mapping[int, str], floor: float
) -> dict[str, dict[int, float]]:
    """
    Return for each of *words* how near the nearest word of each text comes to it.

    Args:
        words: Of the query, as `Query.content` has them.
        texts: By id.
        floor: Cosines up to this count as nothing.

    Returns:
        (cosine - floor) / (1 - floor), over 0 to 1, by word and id; what is not
        near is left out.

    Cost: 3 ms for five words and 200 chat messages.
    """
    from memdb.embeddings.static_model import similar_words, words_of

    words_in = {key: set(words_of(text[:SIMILAR_CHARS])) for key, text in texts.items()}
    vocabulary = set().union(*words_in.values()) - STOP_WORDS
    near: dict[str, dict[int, float]] = {}
    for word, found in similar_words(words[:SIMILAR_WORDS], vocabulary, floor).items():
        nearby = found.keys()
        reached = {
            key: (max(map(found.__getitem__, both)) - floor) / (1 - floor)
            for key, held in words_in.items()
            if (both := held & nearby)
        }
        near[word] = reached
    return near


class Candidates(Record):
    """
    The rows of a corpus that words or meaning brought, before they are ranked.

    Attributes:
        lexical: The words of the query in the corpus.
        scores: Lexical scores by id, without rows that may not be found by their neighbours.
        cosine: Cosine similarity by id.
        fused: Both of them together; None for kinds without neighbours.
        rows: Of messages, the rows of the best.
        worths: Of entries, what counts besides their words.
        texts: Of messages and entries, the texts of the best.
        model: Name of the model that the cosines are of. None means that rows
            were not compared by meaning.
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


class Ranking(Record):
    """
    The ranked rows of one corpus, best first.

    Attributes:
        ranked: `RELEVANT_ROWS` or more, if so many were found.
        relevance: How much they say about the question. None means that a score
            is a cosine and stays as it is.
    """

    corpus: Corpus
    ranked: list[Ranked]
    relevance: Relevance | None

    def score(self, row: Ranked) -> float:
        """Return the score of one of `ranked` on the scale of every answer, see `Hit.score`."""
        if self.relevance is None:
            return row.score
        best = self.ranked[0].score
        return self.relevance.value * (row.score / best) if best > 0 else 0.0

    def explain(self, row: Ranked) -> dict[str, float]:
        """Return the terms of a row's score: those of its place, then those of the relevance."""
        if self.relevance is None:
            return row.terms
        own = {f"relevance.{name}": value for name, value in self.relevance.terms.items()}
        best = self.ranked[0].score
        return {**row.terms, "best": best, **own, "relevance": self.relevance.value}


def fuse_candidates(
    candidates: Candidates,
    weights: Weights,
    similar: Mapping[int, float] | None = None,
    *,
    with_neighbours: bool = True,
) -> Fused:
    """Return `fuse` of messages, with scores for rows of the corpus only."""
    corpus, scores = candidates.corpus, candidates.scores
    fused = fuse(scores, candidates.cosine, weights, similar)
    (low, high), allowed = corpus.span, corpus.allowed
    kept = {key: score for key, score in fused.score.items() if low <= key <= high}
    if allowed is not None:
        kept = {key: score for key, score in kept.items() if key in allowed}
    if not with_neighbours:
        kept = {key: score for key, score in kept.items() if key in scores}
    return fused.replace(score=kept)


def rank_messages(question: Question, candidates: Candidates, weights: Weights) -> Ranking:
    """Rank candidate messages, with words of similar meaning if the request allows them."""
    request, corpus, fused = question.request, candidates.corpus, candidates.fused
    assert fused is not None
    if candidates.cosine and request.rerank:
        near = _near_terms(question.query, candidates, weights)
        fused = fuse_candidates(candidates, weights, candidates.lexical.similar(near))
    ranked = rank(
        question.query,
        fused,
        candidates.rows,
        weights=weights,
        limit=max(request.depth, RELEVANT_ROWS),
        explain=request.explain,
        excluded=corpus.excluded,
    )
    return Ranking(corpus, ranked, _relevance(question, candidates, ranked))


def rank_documents(question: Question, candidates: Candidates, weights: Weights) -> Ranking:
    """Rank candidates of a kind without neighbours: entries, artifacts, summaries."""
    ranked = rank_entries(
        candidates.scores,
        candidates.cosine,
        candidates.worths,
        weights=weights,
        limit=max(question.request.depth, RELEVANT_ROWS),
        explain=question.request.explain,
        excluded=candidates.corpus.excluded,
        least=LEAST_COVER * candidates.lexical.every_word,
        dates=DateScorer(question.query, weights),
    )
    return Ranking(candidates.corpus, ranked, _relevance(question, candidates, ranked))


def rank_vectors(question: Question, candidates: Candidates, weights: Weights) -> Ranking:
    """Rank candidates by their cosine alone: that is the score, of every kind."""
    excluded = candidates.corpus.excluded
    terms = {
        key: {"vector": cosine, **({"excluded": weights.excluded} if key in excluded else {})}
        for key, cosine in candidates.cosine.items()
    }
    scores = {key: score_of(of_row) for key, of_row in terms.items()}
    ranked = [
        Ranked(key, scores[key], terms[key] if question.request.explain else {})
        for key in top(scores, question.request.depth)
    ]
    return Ranking(candidates.corpus, ranked, None)


def _relevance(question: Question, candidates: Candidates, ranked: Sequence[Ranked]) -> Relevance:
    """Return how much ranked candidates say about the question."""
    evidence = Evidence(
        corpus=candidates.corpus,
        rows=[row.id for row in ranked],
        holders=candidates.lexical.holders,
        cosines=candidates.cosine,
        texts=candidates.texts,
        model=candidates.model,
    )
    return relevance(question.query, evidence)


def _near_terms(
    query: Query, candidates: Candidates, weights: Weights
) -> dict[Term, dict[int, float]]:
    """Return, for each term, which rows hold a word of about its meaning, and how near."""
    names, postings = query.names(), candidates.corpus.postings
    words = [word for word in query.content if word not in names and postings.get(Term((word,)))]
    near = near_words(words, candidates.texts, weights.similar_floor)
    return {Term((word,)): nearness for word, nearness in near.items()}
