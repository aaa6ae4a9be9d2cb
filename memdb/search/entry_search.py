"""
Which entries a question sees: the scope's own, those all users share, and past ones.

What a user holds goes before what all share: a shared entry with a key or the
words of one of the user's own is not seen.
"""

from __future__ import annotations

from memdb.models.entries import decay_of
from memdb.models.ids import scope_range
from memdb.records.past import page
from memdb.search import ranking
from memdb.search.lexical import lexical_scores
from memdb.search.ranking import Worth
from memdb.search.results import Field, Found
from memdb.search.retrieval import quality
from memdb.search.weights import DOCUMENTS
from memdb.tables import words
from memdb.text.hashing import said_hash
from memdb.text.validate import MAX_MS, MIN_MS, moment_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memdb.embeddings.filling import Filler
    from memdb.engine.sqlite.transaction import Tx
    from memdb.models.messages import Entry
    from memdb.records.scopes import Owner
    from memdb.search.results import Question
    from memdb.search.retrieval import Meant

PAGE = 500


def shared_question(tx: Tx, owner: Owner, asked: Question) -> Question | None:
    """Return *asked* of what all users of the app share; None where that is nothing."""
    scope_no = owner.shared().find(tx)
    if scope_no is None or scope_no == asked.scope_no or asked.session is not None:
        return None
    return asked.replace(scope_no=scope_no, span=scope_range(scope_no), before=asked.span)


def entries_then(tx: Tx, owner: Owner, at_ms: int) -> dict[int, Entry]:
    """Return the entries of the scope and the shared ones as they were at *at_ms*, by id."""
    found: dict[int, Entry] = {}
    keys: set[str | None] = set()
    texts: set[bytes] = set()
    for one in (owner, owner.shared()) if owner.shared() is not owner else (owner,):
        span = one.span(tx)
        held = [] if span is None else _all_then(tx, *span, at_ms)
        held = [entry for entry in held if said_hash(entry.text) not in texts]
        found |= {entry.id: entry for entry in held if entry.key not in keys}
        keys = {entry.key for entry in held} - {None}
        texts = {said_hash(entry.text) for entry in held}
    return found


def _all_then(tx: Tx, after: int, high: int, at_ms: int) -> list[Entry]:
    found: list[Entry] = []
    while True:
        some = page(tx, after, high, at_ms=at_ms, limit=PAGE)
        found += some
        if len(some) < PAGE:
            return found
        after = some[-1].id


def rank_then(
    by_meaning: tuple[Filler, Meant] | None,
    asked: Question,
    half_lives_ms: Mapping[str, int | None],
    at_ms: int,
) -> Found:
    """
    Return the ranked entries of a past question.

    No index holds what entries said once, so all of them are looked through:
    a millisecond for ten.

    Args:
        by_meaning: What embedded the query, and the query; None: words alone.
    """
    past = {
        key: entry
        for key, entry in (asked.past or {}).items()
        if asked.since_ms <= entry.created_ms < asked.until_ms
        and asked.session in {None, entry.session}
    }
    said = [(key, entry.text, "\n".join(entry.keywords)) for key, entry in past.items()]
    postings = words.scratch_postings(said, asked.terms)
    field = Field(asked.span, set(past), len(past), postings)
    by_words = lexical_scores(postings, len(past), DOCUMENTS)
    cosine = {} if by_meaning is None else _cosines(*by_meaning, past)
    worths = {
        key: Worth(
            entry.importance,
            decay_of(entry.category, entry.updated_ms, at_ms, half_lives_ms),
        )
        for key, entry in past.items()
    }
    ranked = ranking.rank_entries(
        by_words, cosine, worths, limit=asked.limit, explain=asked.explain
    )
    return Found("entry", ranked, quality(field, by_words, cosine))


def _cosines(filler: Filler, meant: Meant, past: dict[int, Entry]) -> dict[int, float]:
    """Return the cosines of what entries said, embedded anew."""
    from array import array
    from operator import mul

    def product(one: array[float], other: array[float]) -> float:
        return sum(map(mul, one, other), 0.0)

    query = array("f", meant.vector)
    found = {}
    vectors = filler.embed([entry.text for entry in past.values()])
    for key, one in zip(past, vectors, strict=True):
        if one is None:
            continue
        said = array("f", one)
        found[key] = product(query, said) / (product(query, query) * product(said, said)) ** 0.5
    return found


def times_value(since: Any, until: Any, as_of: Any) -> tuple[int, int, int | None]:
    """Return from when on and until when was said what is asked for, and as of when."""
    since_ms = moment_ms(since, "since")
    until_ms = moment_ms(until, "until")
    at_ms = moment_ms(as_of, "as_of")
    last_ms = MAX_MS + 1 if until_ms is None else until_ms
    if at_ms is not None:
        last_ms = min(last_ms, at_ms + 1)
    return MIN_MS if since_ms is None else since_ms, last_ms, at_ms
