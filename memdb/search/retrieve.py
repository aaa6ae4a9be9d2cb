"""
Retrieval: read the data for a question: posting lists, vectors and the best rows.

All I/O of the search stages before the hits are loaded. `memdb.search.candidates` scores.
Each function joins the caller's transaction. `memdb.search.kinds` defines which of them a kind
uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine.branches import holds, runs_of
from memdb.engine.full_text import first_postings, postings_in
from memdb.facts.calendar import AskedDays, read_spans
from memdb.facts.dates import days_about
from memdb.models.entries import decay_of
from memdb.models.ids import scope_range
from memdb.records.scopes import find_session
from memdb.search.asked_time import windows as windows_of
from memdb.search.candidates import Candidates, Lexical, Worth, best, fuse_candidates, strongest
from memdb.search.features import row_of
from memdb.search.parse import NO_SPAN, Corpus, Question, parse_query
from memdb.search.request import has_metadata
from memdb.search.spelling import Speller
from memdb.search.weights import STATIC_MODEL
from memdb.tables import entries, items, messages, sessions
from memdb.text.terms import TERMS_AT_ONCE, begun_terms, phrase_terms, query_words, word_terms
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from memdb.engine.base import Postings, Tx
    from memdb.models.entries import Entry
    from memdb.models.messages import Message
    from memdb.records.scopes import ScopeRef
    from memdb.search.parse import Query, Vector, Window
    from memdb.search.request import SearchRequest
    from memdb.search.weights import Weights
    from memdb.text.terms import Term

    Keep = Callable[[Postings], Postings]

MAX_TERMS = 2_000
"""
Most words of a query that are looked up, a page of text: 20 us each where they are rare.

Those after the first 64 are looked up only while nothing was found.
"""

SECOND_STAGE = 200
"""
Messages whose text the second stage reads; 1,000 find no more.

Source: bench/recall.py on LoCoMo's development split, R@10 of 100, 200 and 1,000: .808 .810 .810.
"""

NOISE = {STATIC_MODEL: 0.15}
"""
Cosines below this are noise: two sentences on different things have less.

Each model has its own scale, so only the built-in one has a floor. Source: bench/recall.py, R@10 of
0, 0.15, 0.2 and 0.25: .818 .818 .812 .809.
"""

SPELT_ROWS = 16
"""Rows that are read for the words that begin as a misspelt one does."""

PAUSE_MS = 30 * DAY_MS
""""Last week" is counted back from today, or from the newest message if that is older than this."""

# Reads the rows of a kind whose texts are looked at for other spellings.
_SPELT: Mapping[str, Callable[[Tx, Sequence[int]], Mapping[int, Message | Entry]]] = {
    "message": messages.get_many,
    "entry": entries.get_many,
}


class Authors:
    """Authors of messages by id range, read again after messages were added."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_span: dict[tuple[int, int], tuple[int, list[str]]] = {}

    def of_span(self, tx: Tx, span: tuple[int, int], total: int) -> list[str]:
        """Return the authors in *span*; *total* changes if the scope gets messages."""
        cached = self._by_span.get(span)
        if cached is None or cached[0] != total:
            cached = self._by_span[span] = (total, messages.authors(tx, *span))
        return cached[1]


def read_question(
    tx: Tx,
    scope: ScopeRef,
    request: SearchRequest,
    *,
    authors: Authors,
    now_ms: int,
    half_lives_ms: Mapping[str, int | None],
) -> Question | None:
    """Return *request* bound to *scope*. None means that there is nothing to search."""
    scope_no = scope.find(tx)
    own, shared = _entry_spans(tx, scope, scope_no, request)
    session = None
    if request.session is not None:
        session = find_session(tx, scope, request.session) or 0
    if scope_no is None and shared is None:
        return None
    span = NO_SPAN if scope_no is None else scope_range(scope_no)
    total = 0 if scope_no is None else sessions.total(tx, scope_no)
    runs = tuple(runs_of(tx, session)) if session else ()
    talk = span
    if runs and request.is_of_session:
        talk = min(run.span[0] for run in runs), runs[-1].span[1]
    people = authors.of_span(tx, talk, total)
    query, today_ms = _parse(tx, request.text, talk, people, now_ms)
    query = query.replace(user=frozenset(query_words(scope.user)).intersection(query.words))
    windows = _windows(request, query, today_ms)
    terms = word_terms(query.content, MAX_TERMS)
    if request.prefix:
        terms = begun_terms(terms, request.text)
    if len(terms) > TERMS_AT_ONCE:
        terms.sort(key=len, reverse=True)  # long words are rare, and say most
    return Question(
        request=request,
        query=query,
        scope_no=scope_no,
        span=span,
        own=own,
        shared=shared,
        session=session,
        total=total,
        terms=terms + phrase_terms(query.phrases),
        now_ms=now_ms if request.at_ms is None else request.at_ms,
        half_lives_ms=half_lives_ms,
        runs=runs,
        windows=windows,
        is_listing=bool(windows) and query.is_time,
        people=people,
    )


def spell(tx: Tx, question: Question, corpora: Iterable[Corpus]) -> SearchRequest:
    """Return the request of *question* with its words as the texts have them, see `Speller`."""
    request, found = question.request, [corpus.postings for corpus in corpora if corpus.postings]
    missing = {
        word
        for word in question.query.content
        for term in word_terms([word])
        if found and not any(postings.get(term, True) for postings in found)
    }
    if not missing or request.by == "vector" or request.prefix or request.at_ms is not None:
        return request
    spans = {corpus.kind: corpus.span for corpus in corpora if corpus.kind in _SPELT}
    kinds: dict[int, str] = {}

    def holders(terms: Sequence[Term]) -> dict[Term, list[int]]:
        found: dict[Term, list[int]] = {term: [] for term in terms}
        for kind, span in spans.items():
            for term, ids in tx.words.postings(kind, terms, *span, newest=SPELT_ROWS).items():
                found[term] += ids
                kinds.update(dict.fromkeys(ids, kind))
        return found

    def texts(ids: Sequence[int]) -> list[str]:
        return [
            row.text
            for kind in spans
            for row in _SPELT[kind](tx, [key for key in ids if kinds[key] == kind]).values()
        ]

    names = [word for name in question.people for word in query_words(name)]
    text = Speller(holders, texts, names).spelt(request.text, missing)
    return request if text == request.text else request.replace(text=text)


def _windows(request: SearchRequest, query: Query, today_ms: int) -> tuple[Window, ...]:
    """Return the times that a query names, within its filter, else the filter; () for neither."""
    low, high = request.since_ms, request.until_ms
    if not query.is_dated:
        return ((low, high),) if request.is_timed else ()
    asked = AskedDays(query.dates, query.spans, query.bounds, query.limits)
    found = (
        (max(low, span.first * DAY_MS), min(high, (span.last + 1) * DAY_MS))
        for span in windows_of(asked, today_ms // DAY_MS)
    )
    return tuple((first, end) for first, end in found if first < end)


def expect_question(tx: Tx, scope: ScopeRef, request: SearchRequest) -> None:
    """Prefetch what `read_question` reads first."""
    scope_no = scope.find(tx)
    if "entry" in request.kinds:
        scope.shared().expect(tx)
    if scope_no is not None:
        sessions.expect_total(tx, scope_no)


def _entry_spans(
    tx: Tx, scope: ScopeRef, scope_no: int | None, request: SearchRequest
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Return the id ranges of own and shared entries that the request searches."""
    if "entry" not in request.kinds:
        return None, None
    shared_no = scope.shared().find(tx)
    is_shared = shared_no == scope_no  # for every user these are the shared entries
    own = shared = None
    if scope_no is not None and (request.partition != "shared" or is_shared):
        own = scope_range(scope_no)
    of_session = request.session is not None and not request.scope_entries
    if shared_no is not None and not (is_shared or of_session or request.partition == "own"):
        shared = scope_range(shared_no)
    return own, shared


def _parse(
    tx: Tx, text: str, talk: tuple[int, int], authors: Sequence[str], now_ms: int
) -> tuple[Query, int]:
    """
    Return the parsed query, with its relative dates resolved.

    Returns:
        The query, and the time from which its dates are counted back, UTC milliseconds.
    """
    query = parse_query(text, authors, now_ms // DAY_MS)
    if query.is_dated:
        newest_ms = messages.newest_ms(tx, *talk)
        if newest_ms is not None and newest_ms < now_ms - PAUSE_MS:
            now_ms = newest_ms
            query = parse_query(text, authors, now_ms // DAY_MS)
    return query, now_ms


def read_corpus(
    tx: Tx,
    question: Question,
    kind: str,
    span: tuple[int, int],
    *,
    allowed: set[int] | None,
    total: int,
    newest: int | None = None,
) -> Corpus:
    """
    Return the searched rows of a kind, with the posting lists of the question's terms.

    Args:
        newest: Read only this many of the newest ids per term. None means all.
    """
    if not total:
        return Corpus(kind, span, set(), 0, {})

    def keep(postings: Postings) -> Postings:
        return postings if allowed is None else restricted(postings, allowed)

    postings, excluded = read_postings(tx, question, kind, span, keep, newest)
    return Corpus(kind, span, allowed, total, postings, excluded)


def read_postings(
    tx: Tx,
    question: Question,
    kind: str,
    span: tuple[int, int],
    keep: Keep,
    newest: int | None = None,
) -> tuple[Postings, frozenset[int]]:
    """Return the posting lists of the terms, and the ids that contain an excluded word."""
    unwanted = word_terms(question.request.exclude, TERMS_AT_ONCE)
    excluded = tx.words.postings(kind, unwanted, *span) if unwanted else {}

    def read(some: Sequence[Term]) -> Postings:
        return tx.words.postings(kind, some, *span, newest=newest)

    postings = first_postings(read, question.terms, keep)
    return postings, frozenset(key for ids in excluded.values() for key in ids)


def past_corpus(question: Question, past: dict[int, Entry]) -> Corpus:
    """
    Return past entries as a corpus with an index in memory.

    The stored indexes do not contain old texts.

    Cost: a millisecond per ten entries.
    """
    request = question.request
    past = {
        key: entry
        for key, entry in past.items()
        if request.since_ms <= entry.created_ms < request.until_ms
        and _is_recalled(entry, question)
        and (request.categories is None or entry.category in request.categories)
        and (request.where is None or has_metadata(entry.metadata, request.where))
    }
    texts = [(key, entry.text, "\n".join(entry.keywords)) for key, entry in past.items()]
    postings = postings_in(texts, question.terms)
    return Corpus("entry", question.span, set(past), len(past), postings, past=past)


def _is_recalled(entry: Entry, question: Question) -> bool:
    """Return whether the requesting session may recall *entry*; see `Scope.recall`."""
    request = question.request
    if (
        request.session is not None
        and entry.session == str(request.session)
        and holds(question.runs, entry.branch, entry.first_seq)
    ):
        return True
    return not entry.session_only and (request.session is None or request.scope_entries)


def restricted(postings: Postings, allowed: set[int] | Mapping[int, object]) -> Postings:
    """Return *postings* limited to the ids in *allowed*."""
    return {term: [key for key in ids if key in allowed] for term, ids in postings.items()}


def find_messages(
    tx: Tx, question: Question, corpus: Corpus, vector: Vector | None, weights: Weights
) -> Candidates:
    """Return candidate messages with the rows of the best."""
    lexical = Lexical(corpus.postings, corpus.total, weights)
    scores = lexical.scores
    cosine = _nearest(tx, question, corpus, vector, weights.arm)
    if vector is not None and cosine:
        # The best by words get their cosine too, or the vector arm would pass over them.
        missing = [key for key in strongest(scores, weights.arm) if key not in cosine]
        if question.query.is_dated and not question.is_listing:
            of_time = newest_within(tx, question, corpus, weights.arm)
            missing += [key for key, _ in of_time if key not in cosine and key not in missing]
        if missing:
            near = tx.vectors.measure(vector.space_no, "message", vector.data, missing)
            cosine |= _without_noise(near, vector.model)
    with_neighbours = question.request.by != "words"
    if not with_neighbours:
        held = {key for ids in corpus.postings.values() for key in ids}
        scores = {key: score for key, score in scores.items() if key in held}
    model = None if vector is None else vector.model
    candidates = Candidates(corpus, lexical, scores, cosine, model=model)
    fused = fuse_candidates(candidates, weights, with_neighbours=with_neighbours)
    request = question.request
    ids = best(fused, max(SECOND_STAGE, request.depth if request.group else 2 * request.depth))
    is_dated = question.query.is_dated
    # What stands beside a hit may be a message without words, which answers nothing.
    found = [row for row in messages.features(tx, ids) if row[1].strip()] if ids else []
    rows = {
        key: row_of(text, author, created_ms, role, read_spans(spans) if is_dated else ())
        for key, text, author, created_ms, role, spans in found
    }
    texts = {key: text for key, text, *_ in found}
    return candidates.replace(fused=fused, rows=rows, texts=texts)


def newest_within(tx: Tx, question: Question, corpus: Corpus, limit: int) -> list[tuple[int, int]]:
    """Return id and time of the newest messages of the times in the question."""
    request, corpus_ids = question.request, corpus.allowed
    found: dict[int, int] = {}
    for first, end in question.windows:
        rows = messages.newest_between(
            tx, *corpus.span, first, end, limit, roles=request.roles, authors=request.authors
        )
        found.update(row for row in rows if corpus_ids is None or row[0] in corpus_ids)
    found = {key: time_ms for key, time_ms in found.items() if key not in corpus.excluded}
    return sorted(found.items(), key=lambda row: (-row[1], -row[0]))[:limit]


def list_of_time(tx: Tx, question: Question, corpus: Corpus, limit: int) -> dict[int, int]:
    """Return, by id, the time of the newest messages or entries of the times in the question."""
    if corpus.kind == "message":
        return dict(newest_within(tx, question, corpus, limit))
    if corpus.kind != "entry" or corpus.past is not None:
        return {}
    ids, request = corpus.allowed, question.request
    if ids is None:
        ids, _ = entries.list_active_ids(
            tx,
            *corpus.span,
            now_ms=question.now_ms,
            since_ms=request.since_ms,
            until_ms=request.until_ms,
        )
        ids = {*entries.ids_between(tx, *corpus.span)} if ids is None else ids
    times = {
        key: entry.created_ms
        for key, entry in entries.get_many(tx, ids).items()
        if key not in corpus.excluded
        and any(first <= entry.created_ms < end for first, end in question.windows)
    }
    newest = sorted(times, key=lambda key: (-times[key], -key))
    return {key: times[key] for key in newest[:limit]}


def find_entries(
    tx: Tx, question: Question, corpus: Corpus, vector: Vector | None, weights: Weights
) -> Candidates:
    """Return candidate entries with their weights besides the words."""
    lexical = Lexical(corpus.postings, corpus.total, weights)
    scores = lexical.best(weights.arm)
    cosine = _nearest(tx, question, corpus, vector, weights.arm)
    ids = {*scores, *cosine}
    now_ms, half_lives_ms = question.now_ms, question.half_lives_ms
    texts: dict[int, str] = {}
    worths: dict[int, Worth] = {}
    for key, text, importance, category, updated_ms, uses, spans in (
        entries.get_worths(tx, ids) if ids else ()
    ):
        texts[key] = text
        decay = decay_of(category, updated_ms, now_ms, half_lives_ms)
        is_dated = question.query.is_dated
        days = read_spans(spans) if is_dated else ()
        worths[key] = Worth(importance, decay, uses, days, updated_ms if is_dated else None)
    model = None if vector is None else vector.model
    return Candidates(corpus, lexical, scores, cosine, worths=worths, texts=texts, model=model)


def find_past_entries(
    _tx: Tx, question: Question, corpus: Corpus, vector: Vector | None, weights: Weights
) -> Candidates:
    """Return candidate past entries; their earlier use is unknown."""
    lexical = Lexical(corpus.postings, corpus.total, weights)
    is_dated = question.query.is_dated
    worths = {
        key: Worth(
            entry.importance,
            decay_of(entry.category, entry.updated_ms, question.now_ms, question.half_lives_ms),
            spans=tuple(days_about(entry.text, entry.updated_ms)) if is_dated else (),
            created_ms=entry.updated_ms if is_dated else None,
        )
        for key, entry in (corpus.past or {}).items()
    }
    texts = {key: entry.text for key, entry in (corpus.past or {}).items()}
    cosine = {} if vector is None else vector.past
    model = None if vector is None else vector.model
    return Candidates(
        corpus, lexical, lexical.scores, cosine, worths=worths, texts=texts, model=model
    )


def find_texts(
    _tx: Tx, _question: Question, corpus: Corpus, _vector: Vector | None, weights: Weights
) -> Candidates:
    """Return candidates of a kind that is found by words alone."""
    lexical = Lexical(corpus.postings, corpus.total, weights)
    return Candidates(corpus, lexical, lexical.scores, {})


def find_artifacts(
    _tx: Tx, _question: Question, corpus: Corpus, vector: Vector | None, weights: Weights
) -> Candidates:
    """Return candidate artifacts, by their words and by the nearest passage of each."""
    lexical = Lexical(corpus.postings, corpus.total, weights)
    if vector is None:
        return Candidates(corpus, lexical, lexical.scores, {})
    near = ((key, vector.near[key][0]) for key in corpus.passages if key in vector.near)
    cosine = _without_noise(near, vector.model)
    texts = {key: vector.near[key][1] for key in cosine}
    corpus = corpus.replace(passages=texts)
    return Candidates(corpus, lexical, lexical.scores, cosine, texts=texts, model=vector.model)


def find_items(
    tx: Tx, question: Question, corpus: Corpus, vector: Vector | None, weights: Weights
) -> Candidates:
    """Return candidate items, by their words and by the best vector of each."""
    lexical = Lexical(corpus.postings, corpus.total, weights)
    scores = lexical.best(weights.arm)
    cosine = _nearest(tx, question, corpus, vector, weights.arm)
    ids = {*scores, *cosine}
    texts = items.texts(tx, ids) if ids else {}
    model = None if vector is None else vector.model
    return Candidates(corpus, lexical, scores, cosine, texts=texts, model=model)


def find_vectors(
    tx: Tx, question: Question, corpus: Corpus, vector: Vector | None, weights: Weights
) -> Candidates:
    """Return the nearest rows, whatever words they contain."""
    cosine = _nearest(tx, question, corpus, vector, weights.arm)
    if corpus.past is not None:
        cosine = {} if vector is None else vector.past
    return Candidates(corpus, Lexical({}, corpus.total, weights), {}, cosine)


def _nearest(
    tx: Tx, question: Question, corpus: Corpus, vector: Vector | None, most: int
) -> dict[int, float]:
    """Return the cosines of the *most* nearest rows, without those that are noise."""
    if (
        vector is None
        or corpus.span == NO_SPAN
        or (corpus.allowed is not None and not corpus.allowed)
    ):
        return {}
    allowed: Collection[int] | None = corpus.allowed
    if corpus.kind == "item" and allowed is not None:
        allowed = items.list_refs(tx, allowed)
    near = tx.vectors.nearest(
        vector.space_no,
        corpus.kind,
        vector.data,
        corpus.span,
        limit=max(most, question.request.depth),
        allowed=allowed,
    )
    if corpus.kind == "item":
        best = items.best_by_item(tx, near)
        near = [(item_id, cosine) for item_id, (_, cosine) in best.items()]
    return _without_noise(near, vector.model)


def _without_noise(near: Iterable[tuple[int, float]], model: str) -> dict[int, float]:
    floor = NOISE.get(model, 0.0)
    return {key: cosine for key, cosine in near if cosine > floor}
