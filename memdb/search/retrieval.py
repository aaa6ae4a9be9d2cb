"""
The candidates of each kind, from both arms, and their ranking.

Reads posting lists, vectors and the texts of the best, and lets `ranking` decide.
"""

from __future__ import annotations

from memdb.models.entries import decay_of
from memdb.models.record import Record
from memdb.search import lexical, ranking
from memdb.search.lexical import Lexical, lexical_scores
from memdb.search.ranking import Row, Worth
from memdb.search.results import Field, Found, Question, json_ids
from memdb.search.weights import DOCUMENTS, for_messages
from memdb.tables import active_entries, messages, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memdb.engine.sqlite.transaction import Tx
    from memdb.search.ranking import Fused
    from memdb.search.weights import Weights

# Messages whose text the second stage sees; 1,000 find no more.
# Source: LoCoMo development split, R@10 of 100, 200 and 1,000: .808 .810 .810.
SECOND_STAGE = 200

# Rows that the vector arm brings: 100 find less (R@10 0.809 against 0.818,
# LoCoMo development split).
VECTOR_ARM = 200

# Cosines below this say nothing: two sentences on different things come to less. Every model has
# its own scale, so only the built-in one has a floor.
# Source: bench/recall.py, R@10 of 0, 0.15, 0.2 and 0.25: .818 .818 .812 .809.
NOISE = {"static-en-1": 0.15}


class Meant(Record):
    """
    The query by meaning: what *model* makes of it, and the space to compare it in.
    """

    vector: bytes
    space_no: int
    model: str


class Finder:
    """Finds and ranks, one kind at a time."""

    def __init__(
        self,
        clock: Callable[[], int],
        half_lives: Callable[[], Mapping[str, int | None]],
        messages: Weights | None = None,
        documents: Weights | None = None,
    ) -> None:
        """Rank with these weights, None: those of the model that answers; entries may fade."""
        self._clock = clock
        self._half_lives = half_lives
        self._messages = messages
        self._documents = documents

    def find(self, tx: Tx, asked: Question, kind: str, field: Field, meant: Meant | None) -> Found:
        """Return the ranked rows of a kind."""
        if kind == "message":
            return self._find_messages(tx, asked, field, meant)
        if kind == "entry":
            return self._find_entries(tx, asked, field, meant)
        return self._find_artifacts(asked, field)

    def _find_messages(self, tx: Tx, asked: Question, field: Field, meant: Meant | None) -> Found:
        model = None if meant is None else meant.model
        weights = _weights(self._messages or for_messages(model), asked.limit)
        if asked.grouped:
            weights = weights.replace(session=0.0)  # what a session says is added up later
        arm = Lexical(field.postings, field.total, weights)
        by_words = arm.scores
        cosine = _nearest(tx, asked, "message", field, meant)
        if cosine:
            # The best by words get their cosine too, or the vector arm would pass over them.
            missing = [one for one in lexical.top(by_words, weights.arm) if one not in cosine]
            cosine |= _measured(tx, "message", meant, missing)
        if not asked.context:
            held = {one for ids in field.postings.values() for one in ids}
            by_words = {one: value for one, value in by_words.items() if one in held}

        def fused(similar: dict[int, float]) -> Fused:
            made = ranking.fuse(by_words, cosine, weights, similar)
            (low, high), allowed = field.span, field.allowed
            score = {one: value for one, value in made.score.items() if low <= one <= high}
            if allowed is not None:
                score = {one: value for one, value in score.items() if one in allowed}
            if not asked.context:
                score = {one: value for one, value in score.items() if one in by_words}
            return made.replace(score=score)

        first = fused({})
        chosen = ranking.best(first, max(SECOND_STAGE, 2 * asked.limit))
        rows = {
            row_id: Row(text, author, created_ms)
            for row_id, text, author, created_ms in messages.features(tx, json_ids(chosen))
        }
        if cosine and asked.rerank:
            first = fused(arm.similar(_near(asked, field, rows, weights)))
        ranked = ranking.rank(
            asked.query,
            first,
            rows,
            weights=weights,
            limit=asked.limit,
            explain=asked.explain,
            excluded=field.dropped,
        )
        return Found("message", ranked, quality(field, by_words, cosine))

    def _find_entries(self, tx: Tx, asked: Question, field: Field, meant: Meant | None) -> Found:
        weights = _weights(self._documents or DOCUMENTS, asked.limit)
        by_words = lexical_scores(field.postings, field.total, weights)
        cosine = _nearest(tx, asked, "entry", field, meant)
        ranked = ranking.rank_entries(
            by_words,
            cosine,
            worths(tx, {*by_words, *cosine}, self._clock(), self._half_lives()),
            weights=weights,
            limit=asked.limit,
            explain=asked.explain,
            excluded=field.dropped,
        )
        return Found("entry", ranked, quality(field, by_words, cosine))

    def _find_artifacts(self, asked: Question, field: Field) -> Found:
        weights = _weights(self._documents or DOCUMENTS, asked.limit)
        by_words = lexical_scores(field.postings, field.total, weights)
        ranked = ranking.rank_entries(
            by_words,
            {},
            {},
            weights=weights,
            limit=asked.limit,
            explain=asked.explain,
            excluded=field.dropped,
        )
        return Found("artifact", ranked, quality(field, by_words, {}))


def worths(
    tx: Tx, ids: set[int], now_ms: int, half_lives_ms: Mapping[str, int | None]
) -> dict[int, Worth]:
    """Return what counts for entries besides what they say."""
    return {
        key: Worth(importance, decay_of(category, updated_ms, now_ms, half_lives_ms), use_count)
        for key, importance, category, updated_ms, use_count in active_entries.worths(
            tx, json_ids(ids)
        )
    }


def _nearest(
    tx: Tx, asked: Question, kind: str, field: Field, meant: Meant | None
) -> dict[int, float]:
    """Return the cosines that say something."""
    if meant is None or (field.allowed is not None and not field.allowed):
        return {}
    found = nearest.find(
        tx,
        meant.space_no,
        kind,
        meant.vector,
        field.span,
        limit=max(VECTOR_ARM, asked.limit),
        allowed=field.allowed,
    )
    return _telling(found, meant.model)


def _measured(tx: Tx, kind: str, meant: Meant | None, refs: Sequence[int]) -> dict[int, float]:
    """Return the cosines of certain rows that say something."""
    if meant is None or not refs:
        return {}
    return _telling(nearest.measure(tx, meant.space_no, kind, meant.vector, refs), meant.model)


def _telling(found: Iterable[tuple[int, float]], model: str) -> dict[int, float]:
    floor = NOISE.get(model, 0.0)
    return {one: cosine for one, cosine in found if cosine > floor}


def _near(
    asked: Question, field: Field, rows: dict[int, Row], weights: Weights
) -> dict[str, dict[int, float]]:
    """Return, for each term, which of *rows* hold a word of about its meaning, and how near."""
    from memdb.search.similar import near_words

    names = asked.query.names()
    words = [word for word in asked.query.content if word not in names]
    words = [word for word in words if field.postings.get(f'"{word}"')]
    texts = {key: row.text for key, row in rows.items()}
    near = near_words(words, texts, weights.similar_floor)
    return {f'"{word}"': found for word, found in near.items()}


def _weights(weights: Weights, limit: int) -> Weights:
    """Return *weights* with arms and seeds that are long enough for *limit*."""
    if limit <= min(weights.arm, weights.seeds):
        return weights
    return weights.replace(arm=max(weights.arm, limit), seeds=max(weights.seeds, limit))


def quality(field: Field, by_words: dict[int, float], cosine: dict[int, float]) -> float:
    """
    Return how well the best candidate fits: covered share of the query plus best cosine.

    The covered share is its lexical score by that of a row that holds every
    word, so a kind whose best row holds one word of five cannot outrank one
    whose best row holds all.
    """
    lengths = [len(ids) for ids in field.postings.values()]
    every_word = sum(lexical.idf(length, max(field.total, length)) for length in lengths)
    covered = max(by_words.values(), default=0.0) / every_word if every_word else 0.0
    return covered + max(cosine.values(), default=0.0)
