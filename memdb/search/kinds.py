"""
The kinds of records that recall searches, as data: one `Kind` each.

A kind describes the rows of a scope that are searched and how candidates are found and ranked. It
also turns a row into text and source of a hit. Entries of the past are another kind, chosen by
`kinds_of`, not another path through the stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine.branches import branches_of, holds
from memdb.engine.full_text import excerpts
from memdb.models.ids import is_branch, session_of
from memdb.models.messages import Hit, Source
from memdb.models.record import Record
from memdb.records.entries import page
from memdb.search.parse import Corpus
from memdb.search.rank import rank_documents, rank_messages, rank_vectors
from memdb.search.request import has_metadata
from memdb.search.retrieve import (
    find_artifacts,
    find_entries,
    find_items,
    find_messages,
    find_past_entries,
    find_texts,
    find_vectors,
    past_corpus,
    read_corpus,
    read_postings,
    restricted,
)
from memdb.tables import artifacts, entries, items, messages, sessions, summaries
from memdb.text.derived import said_hash
from memdb.text.trust import TRUSTED, UNTRUSTED, trust_of_role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memdb.engine.base import Postings, Tx
    from memdb.models.entries import Entry
    from memdb.search.candidates import Candidates
    from memdb.search.parse import Question, Vector
    from memdb.search.rank import Ranking
    from memdb.search.request import SearchRequest
    from memdb.search.weights import Weights

    Scores = Mapping[int, float]  # of ranked rows, by id

LARGE_SCOPE = 100_000
"""Messages of a scope from which on not every row of a common word is read."""

MAX_POSTINGS = 20_000
"""Newest rows of a word that are read there: such a word says little, and these take 8 ms."""

COMPARED_ARTIFACTS = 100
"""Newest artifacts whose passages are compared by meaning; no file holds their vectors."""

COMPARED_CHARS = 3_000
"""Characters of an artifact that are compared, from its beginning: 80 us, or 6 us the next time."""

# Past entries read per statement.
PAST_PAGE = 500


class Kind(Record):
    """
    Rules of recall for one kind of record.

    Attributes:
        name: Its name in `SearchRequest.kinds` and `Hit.kind`.
        corpora: Reads the searched rows, in the first snapshot.
        find: Reads candidates by words and by vector, in the second snapshot.
        rank: Ranks them; pure.
        read: Reads ranked rows as hits without a rank, by id.
    """

    name: str
    corpora: Callable[[Tx, Question], list[Corpus]]
    find: Callable[[Tx, Question, Corpus, Vector | None, Weights], Candidates]
    rank: Callable[[Question, Candidates, Weights], Ranking]
    read: Callable[[Tx, Question, Corpus, Scores], dict[int, Hit]]


def kinds_of(request: SearchRequest) -> list[Kind]:
    """Return the kinds that a request searches."""
    kinds = KINDS if request.at_ms is None else {**KINDS, "entry": PAST_ENTRIES}
    wanted = [kinds[name] for name in request.kinds]
    if request.by == "vector":
        return [kind.replace(find=find_vectors, rank=rank_vectors) for kind in wanted]
    return wanted


def _message_corpora(tx: Tx, question: Question) -> list[Corpus]:
    request = question.request
    if question.scope_no is None or (question.session == 0 and request.is_of_session):
        return []
    span, total = question.span, question.total
    spans = [span]
    family: set[int] = set()  # the rows of the session that asks and of its branches, if any
    if question.session and request.is_of_session:
        spans = [run.span for run in question.runs]
        span = min(low for low, _ in spans), max(high for _, high in spans)
        total = sessions.last_seq(tx, question.session)
    elif question.session:
        branches = branches_of(tx, question.session)
        family = {row for branch in branches for row in (branch.id, branch.parent_id)}
    if request.has_message_filter or len(spans) > 1 or family:
        allowed: set[int] = set()
        for one in spans:
            allowed |= _allowed_messages(tx, request, one)
        if family:
            path = [run.span for run in question.runs]
            allowed = {
                key
                for key in allowed
                if session_of(key) not in family or any(low <= key <= high for low, high in path)
            }
        return [read_corpus(tx, question, "message", span, allowed=allowed, total=len(allowed))]
    newest = MAX_POSTINGS if total > LARGE_SCOPE else None
    return [read_corpus(tx, question, "message", span, allowed=None, total=total, newest=newest)]


def _allowed_messages(tx: Tx, request: SearchRequest, span: tuple[int, int]) -> set[int]:
    """Return the ids in a span that pass the filters of a request."""
    allowed = messages.ids_between(
        tx,
        *span,
        request.since_ms,
        request.until_ms,
        roles=request.roles,
        authors=request.authors,
    )
    if request.where is not None:
        found = messages.metadata_between(tx, *span)
        allowed &= {key for key, held in found if has_metadata(held, request.where)}
    return allowed


def _entry_corpora(tx: Tx, question: Question) -> list[Corpus]:
    """Return the scope's own entries, and the shared ones that no own entry replaces."""
    found = []
    if question.own is not None:
        found.append(_entry_corpus(tx, question, question.own, None))
    if question.shared is not None:
        found.append(_entry_corpus(tx, question, question.shared, question.own))
    return found


def _entry_corpus(
    tx: Tx, question: Question, span: tuple[int, int], before: tuple[int, int] | None
) -> Corpus:
    request = question.request
    allowed, total = entries.list_active_ids(
        tx,
        *span,
        now_ms=question.now_ms,
        since_ms=request.since_ms,
        until_ms=request.until_ms,
        path=[run.session for run in question.runs],
        of_scope=question.session is None or request.scope_entries,
        before=before,
        categories=request.categories,
    )
    if total and (len(question.runs) > 1 or request.where is not None):
        allowed = {*entries.ids_between(tx, *span)} if allowed is None else allowed
        if len(question.runs) > 1:
            allowed -= _beyond_path(tx, question)
        if request.where is not None:
            found = entries.get_metadata(tx, allowed)
            allowed = {key for key, held in found if has_metadata(held, request.where)}
        total = len(allowed)
    # If no entry has to be left out, postings need no filter, which is faster.
    return read_corpus(tx, question, "entry", span, allowed=allowed, total=total)


def _beyond_path(tx: Tx, question: Question) -> set[int]:
    """Return the entries of the path's rows whose messages are not on the branch's path."""
    of_scope = question.request.scope_entries
    branches = {run.session: run.branch for run in question.runs}
    return {
        entry_id
        for row, branch in branches.items()
        for entry_id, seq, session_only in entries.list_places(tx, row)
        if (session_only or not of_scope) and not holds(question.runs, branch, seq)
    }


def _past_entry_corpora(tx: Tx, question: Question) -> list[Corpus]:
    """Return the scope's own and the shared entries as they were at the request's time."""
    past: dict[int, Entry] = {}
    keys: set[str | None] = set()
    texts: set[bytes] = set()
    at_ms = question.request.at_ms
    assert at_ms is not None
    for span in (question.own, question.shared):
        held = [] if span is None else _entries_at(tx, *span, at_ms)
        held = [entry for entry in held if said_hash(entry.text) not in texts]
        past |= {entry.id: entry for entry in held if entry.key not in keys}
        keys = {entry.key for entry in held} - {None}
        texts = {said_hash(entry.text) for entry in held}
    return [past_corpus(question, past)]


def _entries_at(tx: Tx, after: int, high: int, at_ms: int) -> list[Entry]:
    found: list[Entry] = []
    while True:
        some = page(tx, after, high, limit=PAST_PAGE, wanted=entries.EntryFilter(at_ms))
        found += some
        if len(some) < PAST_PAGE:
            return found
        after = some[-1].id


def _artifact_corpora(tx: Tx, question: Question) -> list[Corpus]:
    if question.scope_no is None or question.request.is_timed:
        return []  # a version has a time, its text as a whole has none
    allowed: set[int] = set()
    session = str(question.request.session) if question.request.is_of_session else None

    def keep(postings: Postings) -> Postings:
        ids = {key for keys in postings.values() for key in keys}
        if not ids:
            return postings
        named = artifacts.get_many(tx, ids)
        allowed.update(key for key, name in named.items() if session in {None, name.session})
        return restricted(postings, allowed)

    postings, excluded = read_postings(tx, question, "artifact", question.span, keep)
    begun: dict[int, str] = {}
    if question.by_passages:
        span = question.span
        begun = artifacts.beginnings(tx, *span, COMPARED_CHARS, COMPARED_ARTIFACTS)
        named = artifacts.get_many(tx, begun) if begun and session is not None else {}
        begun = {key: begun[key] for key in begun if not named or named[key].session == session}
    allowed |= {*begun}
    found = Corpus("artifact", question.span, allowed, len(allowed) or 1, postings, excluded)
    return [found.replace(passages=begun)]


def _summary_corpora(tx: Tx, question: Question) -> list[Corpus]:
    if question.scope_no is None or question.request.is_timed:
        return []  # the time of a summary is not that of its messages
    allowed = summaries.ids_with_text(tx, *question.span, question.session)
    return [
        read_corpus(tx, question, "summary", question.span, allowed=allowed, total=len(allowed))
    ]


def _item_corpora(tx: Tx, question: Question) -> list[Corpus]:
    """Return the items that have not expired and that the request's filter lets through."""
    request, scope_no = question.request, question.scope_no
    if scope_no is None or request.session is not None or request.is_timed:
        return []  # an item belongs to no session, and its words have no time
    if request.item_filter is not None:
        ids = request.item_filter(tx, scope_no)
        return [read_corpus(tx, question, "item", question.span, allowed=ids, total=len(ids))]

    def keep(postings: Postings) -> Postings:
        ids = {key for keys in postings.values() for key in keys}
        return restricted(postings, items.live_ids(tx, ids, question.now_ms)) if ids else postings

    total = items.count(tx, scope_no)
    if not total:
        return []
    postings, excluded = read_postings(tx, question, "item", question.span, keep)
    return [Corpus("item", question.span, None, total, postings, excluded)]


def _session_corpora(tx: Tx, question: Question) -> list[Corpus]:
    if question.scope_no is None or question.session is not None or question.request.is_timed:
        return []  # the title of a session is no news in it, and has no time
    total = max(question.total, 1)
    return [read_corpus(tx, question, "session", question.span, allowed=None, total=total)]


def _hit(kind: str, text: str, score: float, source: Source, **more: str | None) -> Hit:
    """Return a hit without a rank."""
    return Hit(kind, text, score, 0, source, **more)  # type: ignore[arg-type]  # words of the schema


def _read_messages(tx: Tx, _: Question, __: Corpus, scores: Scores) -> dict[int, Hit]:
    messages.expect_many(tx, [*scores])
    of = {session_of(key) for key in scores}
    titles = sessions.titles(tx, of)
    branches = sessions.branch_names(tx, of) if any(map(is_branch, of)) else {}
    return {
        key: _hit(
            "message",
            row.text,
            scores[key],
            Source(
                row.session,
                row.seq,
                row.external_id,
                row.author,
                row.created_ms,
                title=titles.get(session_of(key)),
                metadata=row.metadata,
                branch=branches.get(session_of(key)),
            ),
            trust=trust_of_role(row.role),
            role=row.role,
            writer=row.author,
        )
        for key, row in messages.get_many(tx, [*scores]).items()
    }


def _read_entries(tx: Tx, question: Question, corpus: Corpus, scores: Scores) -> dict[int, Hit]:
    found = entries.get_many(tx, scores) if corpus.past is None else corpus.past
    low, high = question.span
    return {
        key: _hit(
            "entry",
            entry.text,
            score,
            Source(
                session=entry.session,
                seq=entry.first_seq,
                created_ms=entry.created_ms,
                entry_id=key,
                category=entry.category,
                shared=not low <= key <= high,
                metadata=entry.metadata,
                branch=entry.branch,
            ),
            trust=entry.trust,
            writer=entry.writer,
        )
        for key, score in scores.items()
        if (entry := found.get(key)) is not None
    }


def _read_artifacts(tx: Tx, _: Question, corpus: Corpus, scores: Scores) -> dict[int, Hit]:
    """Return the best matching passage of each artifact, which has no text of its own."""
    held = {key for ids in corpus.postings.values() for key in ids}
    by_words = [key for key in scores if key in held or key not in corpus.passages]
    texts = {**corpus.passages}
    texts |= excerpts(artifacts.texts(tx, by_words), corpus.terms()) if by_words else {}
    return {
        key: _hit(
            "artifact",
            texts.get(key, ""),
            scores[key],
            Source(
                session=name.session,
                created_ms=name.created_ms,
                artifact=name.name,
                version=name.version,
            ),
            trust=UNTRUSTED,
        )
        for key, name in artifacts.get_many(tx, [*scores]).items()
    }


def _read_summaries(tx: Tx, _: Question, __: Corpus, scores: Scores) -> dict[int, Hit]:
    return {
        row.id: _hit(
            "summary",
            row.text,
            scores[row.id],
            Source(
                session=row.session,
                seq=row.first_seq,
                created_ms=row.created_ms,
                summary_id=row.id,
                last_seq=row.last_seq,
                branch=row.branch,
            ),
            trust=row.trust,
            writer=row.summarizer,
        )
        for row in summaries.get_many(tx, [*scores])
    }


def _read_items(tx: Tx, question: Question, __: Corpus, scores: Scores) -> dict[int, Hit]:
    live = items.live_ids(tx, [*scores], question.now_ms)
    return {
        key: _hit(
            "item",
            stored.text or "",
            scores[key],
            Source(
                created_ms=stored.item.created_ms,
                metadata=stored.item.metadata,
                namespace=stored.item.namespace,
                key=stored.item.key,
                version=stored.item.version,
            ),
            trust=TRUSTED,
        )
        for key, stored in items.get_many(tx, [*scores]).items()
        if key in live
    }


def _read_sessions(tx: Tx, _: Question, __: Corpus, scores: Scores) -> dict[int, Hit]:
    """Return the titles."""
    return {
        key: _hit(
            "session",
            card.title or "",
            scores[key],
            Source(session=card.name, title=card.title, created_ms=card.first_ms),
            trust=TRUSTED,
        )
        for key, card in sessions.cards(tx, [*scores]).items()
    }


_DOCUMENTS = (
    ("entry", _entry_corpora, find_entries, _read_entries),
    ("artifact", _artifact_corpora, find_artifacts, _read_artifacts),
    ("summary", _summary_corpora, find_texts, _read_summaries),
    ("item", _item_corpora, find_items, _read_items),
    ("session", _session_corpora, find_texts, _read_sessions),
)
KINDS = {
    "message": Kind("message", _message_corpora, find_messages, rank_messages, _read_messages)
} | {
    name: Kind(name, corpora, find, rank_documents, read)
    for name, corpora, find, read in _DOCUMENTS
}

PAST_ENTRIES = KINDS["entry"].replace(corpora=_past_entry_corpora, find=find_past_entries)
