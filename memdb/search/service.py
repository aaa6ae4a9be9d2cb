"""
Search service: the stages of recall in order.

Snapshot 1 reads the question and its posting lists, then the embedder is asked
once without a transaction, and snapshot 2 finds, ranks and loads.
A search by words takes one snapshot. Before another search, a batch of the scope's pending
embeddings is made, so that a message that was just added is found by meaning too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import FileError, InvalidInput, NotFound, PortError, StorageError
from memdb.models.ids import MAX_SEQ
from memdb.models.messages import Hits
from memdb.models.record import Record
from memdb.models.vectors import to_vector
from memdb.records.scopes import find_session
from memdb.search.certainty import certainty_of
from memdb.search.embed import Embedding, Passages, embed_question
from memdb.search.kinds import COMPARED_ARTIFACTS, COMPARED_CHARS, kinds_of
from memdb.search.load import Answer, explain_place, load_hits, load_sessions
from memdb.search.order import put_by_scores
from memdb.search.parse import NO_SPAN
from memdb.search.rank import Ranking, rank_listed
from memdb.search.relevance import NOTHING, RELEVANT_ROWS
from memdb.search.request import MAX_LIMIT
from memdb.search.retrieve import (
    MAX_TERMS,
    SECOND_STAGE,
    Authors,
    expect_question,
    find_artifacts,
    find_texts,
    list_of_time,
    read_question,
    spell,
)
from memdb.search.weights import DOCUMENTS, for_messages
from memdb.tables import artifacts, messages
from memdb.text.terms import TERMS_AT_ONCE, word_terms
from memdb.text.validate import int_value, name_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memdb.embeddings.indexer import Indexer, Serving
    from memdb.engine.base import Engine, Tx
    from memdb.models.messages import Hit, Why
    from memdb.models.protocols import Reranker
    from memdb.records.scopes import ScopeRef
    from memdb.search.kinds import Kind
    from memdb.search.parse import Corpus, Question, Vector
    from memdb.search.request import SearchRequest
    from memdb.search.shared import SharedEntries
    from memdb.search.weights import Weights

RERANKED = 30
"""Hits that a reranker gets: they hold what there is to find nine times in ten."""


class Retrieved(Record):
    """Reads of the first snapshot of a search."""

    scope: ScopeRef
    question: Question
    corpora: list[tuple[Kind, Corpus]]
    serving: Serving | None


class SearchService:
    """Searches the scopes of a file."""

    def __init__(
        self,
        db: Engine,
        indexer: Indexer,
        half_lives: Callable[[], Mapping[str, int | None]] = dict,
        note_uses: Callable[[list[int]], object] = list,
        message_weights: Weights | None = None,
        document_weights: Weights | None = None,
        reranker: Reranker | None = None,
        shared: SharedEntries | None = None,
    ) -> None:
        """
        Search *db*, by meaning if *indexer* has an embedder.

        Args:
            half_lives: Returns, by category, the milliseconds after which an entry counts half.
            note_uses: Called with the ids of the entries in each answer.
            message_weights: None means those of the model.
            document_weights: For all other kinds. None means the default.
            reranker: Orders the best hits, within a time limit. None means no reranker.
            shared: What all users share, where it is in another file. None means that it is in this
                one.
        """
        self._db = db
        self._shared = shared
        self._indexer = indexer
        self._half_lives = half_lives
        self._note_uses = note_uses
        self._message_weights = message_weights
        self._document_weights = document_weights or DOCUMENTS
        self._authors = Authors()
        self._passages = Passages()
        self.reranker = reranker

    def recall(self, scope: ScopeRef, request: SearchRequest) -> Hits:
        """
        Return the hits of a request, best first; see `Scope.recall`.

        Transaction: two snapshots, one if only words are searched; or the
        caller's.

        Raises:
            InvalidInput: there is no embedder for a search by vector, or the
                vector is not one of its.
            DimensionMismatch: the vector has another number of components.
            PortError: the embedder failed and no words matched.
        """
        request = self._with_vector(request)
        if request.by == "words" or self._indexer.embedder is None:
            with self._db.read():
                found = self._recall(scope, request)
        else:
            found = self._recall(scope, request)
        return found if self._shared is None else self._shared.join(scope, request, found)

    def _with_vector(self, request: SearchRequest) -> SearchRequest:
        """Return *request* with its vector in the stored form."""
        if request.by != "vector" and request.vector is None:
            return request
        embedder = self._indexer.embedder
        if embedder is None:
            field = "by is 'vector'" if request.vector is None else "vector is given"
            raise InvalidInput(
                f"{field}, but the file was opened without an embedder: open it with the embedder "
                "that made its vectors"
            )
        if request.vector is None:
            return request
        return request.replace(vector=to_vector(request.vector, embedder.dim))

    def _recall(self, scope: ScopeRef, request: SearchRequest) -> Hits:
        retrieved = self.first_read(scope, request)
        if retrieved is None:
            return Hits()
        embedding = self.embed(retrieved)
        is_reranked = self.reranker is not None and request.by == "meaning" and request.rerank
        is_reranked = is_reranked and request.group is None
        with self._db.read() as tx:
            question, rankings = self.rank(tx, retrieved, embedding.vector)
            if request.group:
                answer = load_sessions(tx, question, rankings)
            else:
                more = RERANKED if is_reranked else 0
                answer = load_hits(tx, question, rankings, max(request.limit, more))
        if is_reranked:
            hits, unranked = self.reranked(question, answer.hits, request.limit)
            answer = answer.replace(hits=hits, unranked=unranked)
        self.note(request, answer.hits)
        return embedding.to_hits(answer, request)

    def reranked(
        self, question: Question, hits: list[Hit], limit: int
    ) -> tuple[list[Hit], str | None]:
        """
        Return *limit* hits, the best in the reranker's order, and why it put them in no order.

        If it fails they stay unchanged. Transaction: none.
        """
        if self.reranker is None or question.is_listing or not hits:
            return hits[:limit], None
        try:
            scores = [*self.reranker(question.request.text, [hit.text for hit in hits[:RERANKED]])]
        except PortError as error:
            return hits[:limit], str(error)
        return put_by_scores(question.query, hits, scores, limit), None

    def recall_kinds(
        self, scope: ScopeRef, request: SearchRequest, limits: Mapping[str, int]
    ) -> dict[str, list[Hit]]:
        """Return the best hits of each kind separately, by one search; *limits* by kind."""
        retrieved = self.first_read(scope, request)
        if retrieved is None:
            return {kind: [] for kind in limits}
        embedding = self.embed(retrieved)
        with self._db.read() as tx:
            return self.load_kinds(tx, retrieved, embedding, limits)

    def load_kinds(
        self,
        tx: Tx,
        retrieved: Retrieved,
        embedding: Embedding,
        limits: Mapping[str, int],
        *,
        fill: int = 0,
    ) -> dict[str, list[Hit]]:
        """
        Return what `recall_kinds` does, in the caller's second snapshot.

        Args:
            fill: As in `load_hits`. No message or entry is left out by its own score then, but all
                messages are if none of them answers.
        """
        question, rankings = self.rank(tx, retrieved, embedding.vector)
        fills = question.replace(request=question.request.replace(min_score=0.0))
        by_kind: dict[str, list[Hit]] = {}
        for kind, limit in limits.items():
            chosen = [each for each in rankings if each.corpus.kind == kind]
            asked = fills if fill and kind != "artifact" else question
            answer = load_hits(tx, asked, chosen, limit, fill=fill)
            is_empty = fill and kind == "message" and answer.certainty == "none"
            by_kind[kind] = [] if is_empty else answer.hits
        hits = [hit for some in by_kind.values() for hit in some]
        if self._shared is not None and "entry" in by_kind:
            own, request = Hits(tuple(by_kind["entry"])), (fills if fill else question).request
            request = request.replace(limit=limits["entry"])
            by_kind["entry"] = [*self._shared.join(retrieved.scope, request, own)]
        self.note(retrieved.question.request, hits)
        embedding.to_hits(Answer(hits), retrieved.question.request)
        return by_kind

    def why(self, scope: ScopeRef, request: SearchRequest, session: str, seq: int) -> Why:
        """Return why a message is, or is not, among the hits of *request*; see `Scope.why`."""
        name_value(session, "session")
        int_value(seq, "seq", 1, MAX_SEQ)
        # As deep as recall looks, so that places agree; deeper only for what is not there.
        depth = max(request.limit, SECOND_STAGE // 2)
        request = request.replace(kinds=("message",), explain=True, depth=depth, count_use=False)
        retrieved = self.first_read(scope, request)
        vector = None if retrieved is None else self.embed(retrieved).vector
        with self._db.read() as tx:
            row_id = find_session(tx, scope, session)
            message = None if row_id is None else messages.find(tx, row_id, session, seq)
            if message is None or retrieved is None:
                raise NotFound("message", f"{session}#{seq}")
            question, rankings = self.rank(tx, retrieved, vector)
            if all(row.id != message.row_id for ranking in rankings for row in ranking.ranked):
                request = request.replace(depth=MAX_LIMIT)
                asked = retrieved.question.replace(request=request)
                question, rankings = self.rank(tx, retrieved.replace(question=asked), vector)
        return explain_place(question, rankings[0], message)

    def first_read(self, scope: ScopeRef, request: SearchRequest) -> Retrieved | None:
        """
        Return what the first snapshot reads, after pending embeddings were done.

        None means that neither the scope nor shared entries exist. A caller may read other
        data in the same snapshot: see `is_behind`.
        """
        with self._db.read() as tx:
            serving = self.serving(tx, scope, request)
            if not (request.count_use and self.is_behind(tx, scope, serving)):
                return self.retrieve(tx, scope, request, serving)
        self.catch_up(scope)
        with self._db.read() as tx:
            return self.retrieve(tx, scope, request, self.serving(tx, scope, request))

    def serving(self, tx: Tx, scope: ScopeRef, request: SearchRequest) -> Serving | None:
        """Return the embedding space that answers. None means that only words are searched."""
        expect_question(tx, scope, request)
        if request.by == "words":
            return None
        return self._indexer.serving(tx, scope.span(tx) or NO_SPAN)

    def is_behind(self, tx: Tx, scope: ScopeRef, serving: Serving | None) -> bool:
        """Return whether embeddings of the scope are pending that `catch_up` would make now."""
        span = scope.span(tx)
        if serving is None or span is None or self._db.writing:
            return False
        return serving.is_behind(tx, span)

    def catch_up(self, scope: ScopeRef) -> None:
        """Embed a batch of the scope's pending texts; searching continues if that fails."""
        with self._db.read() as tx:
            span = scope.span(tx)
        try:
            if span is not None:
                self._indexer.drain(span)
        except (FileError, PortError, StorageError):
            return  # noted in the job, tried again later; the query itself will tell

    def retrieve(
        self, tx: Tx, scope: ScopeRef, request: SearchRequest, serving: Serving | None
    ) -> Retrieved | None:
        """Read the question and the data to search."""
        half_lives_ms = self._half_lives() if "entry" in request.kinds else {}
        now_ms = self._db.clock()

        def read(asked: SearchRequest) -> Question | None:
            return read_question(
                tx,
                scope,
                asked,
                authors=self._authors,
                now_ms=now_ms,
                half_lives_ms=half_lives_ms,
            )

        # Only a table of words is so quick that passages can be embedded for each question.
        is_quick = serving is not None and hasattr(serving.filler.embedder, "covers")
        question = read(request)
        if question is None:
            return None
        by_passages = is_quick and question.scope_no is not None and not request.is_timed
        question = question.replace(by_passages=by_passages)
        corpora = _read_corpora(tx, question)
        spelt = spell(tx, question, [corpus for _, corpus in corpora])
        if spelt is not request and (respelt := read(spelt)) is not None:
            question = respelt.replace(by_passages=by_passages)
            corpora = _read_corpora(tx, question)
        return Retrieved(scope, question, corpora, serving)

    def embed(self, retrieved: Retrieved) -> Embedding:
        """Embed the question, once for all kinds; calls the embedder."""
        serving = retrieved.serving
        if (
            retrieved.question.request.vector is not None
            and serving is not None
            and serving.filler.embedder is not self._indexer.embedder
        ):
            name = serving.filler.embedder.name
            return Embedding(None, f"{name} answers until the new space is complete")
        corpora = [corpus for _, corpus in retrieved.corpora]
        return embed_question(retrieved.serving, retrieved.question, corpora, self._passages)

    def rank(
        self, tx: Tx, retrieved: Retrieved, vector: Vector | None
    ) -> tuple[Question, list[Ranking]]:
        """Return the ranking of each corpus; all words of the query count if nothing was found."""
        question, corpora = retrieved.question, retrieved.corpora
        # A session is its messages, which are counted already.
        question = question.replace(texts=sum(c.total for k, c in corpora if k.name != "session"))
        rankings = [self._rank_one(tx, question, *each, vector) for each in corpora]
        if question.is_listing:
            listed = _list(tx, question, rankings)
            words = [word for word in question.query.words if len(word) > 1]
            if len(words) > 1 or any(ranking.ranked for ranking in listed):
                return question, listed
            question = question.replace(is_listing=False)  # one word, a letter aside, is looked up
        elif question.request.by != "vector" and _misses_time(question, rankings):
            # Nothing of the time has the words: it may be meant all the same.
            listed = _list(tx, question, rankings)
            if any(ranking.ranked for ranking in listed):
                return question.replace(is_listing=True), listed
        if not any(ranking.ranked for ranking in rankings):
            # Nothing but stop words is left that may be shared.
            question = question.replace(terms=word_terms(question.query.words, MAX_TERMS))
            corpora = _read_corpora(tx, question)
            rankings = [self._rank_one(tx, question, *each, vector) for each in corpora]
        return question.replace(unknown_names=_unknown_names(question, corpora)), rankings

    def _rank_one(
        self, tx: Tx, question: Question, kind: Kind, corpus: Corpus, vector: Vector | None
    ) -> Ranking:
        is_found = (
            corpus.terms() or corpus.passages or kind.find not in (find_texts, find_artifacts)
        )
        if not (corpus.total and is_found):
            return Ranking(corpus, [], NOTHING)  # in most scopes some kinds are empty
        is_message = kind.name == "message"
        weights = self._document_weights
        if is_message:
            model = None if vector is None else vector.model
            weights = self._message_weights or for_messages(model)
        weights = weights.replace(arm=max(weights.arm, question.request.depth))
        if question.request.group is not None:
            # Messages of a session are added up later.
            weights = weights.replace(off=weights.off | {"session"})
        return kind.rank(question, kind.find(tx, question, corpus, vector, weights), weights)

    def note(self, request: SearchRequest, hits: Iterable[Hit]) -> None:
        """Count the use of the entries among *hits*, unless they are of the past or only shown."""
        found = (one.entry_id for hit in hits for one in (hit.source, *hit.also))
        used = [entry_id for entry_id in found if entry_id is not None]
        if used and request.count_use and request.at_ms is None:
            self._note_uses(used)


def _misses_time(question: Question, rankings: Sequence[Ranking]) -> bool:
    """Return whether no ranked row is of the time in the question, or none is relevant."""
    if not question.query.is_dated:
        return False
    is_of_time = any(row.fits for ranking in rankings for row in ranking.ranked)
    return not is_of_time or certainty_of(question, rankings) == "none"


def _list(tx: Tx, question: Question, rankings: Sequence[Ranking]) -> list[Ranking]:
    """Return the rows of the time in the question, the newest first."""
    limit = max(question.request.depth, RELEVANT_ROWS)
    listed = [list_of_time(tx, question, ranking.corpus, limit) for ranking in rankings]
    return rank_listed(rankings, listed, is_all=question.query.is_time)


def _unknown_names(question: Question, corpora: Iterable[tuple[Kind, Corpus]]) -> tuple[str, ...]:
    """
    Return the names and identifiers in the question, if no text contains any of them.

    A question about a known person and an unknown place may still have an answer.
    """
    query = question.query
    known = query.names() | query.user
    held = {
        word
        for _, corpus in corpora
        for term in corpus.terms()
        for word in (*term.words, *term.any_of)
    }
    asked = [word for word in query.identifiers if word not in known]
    is_known = bool(known.intersection(query.words)) or not held.isdisjoint(asked)
    return () if is_known else tuple(asked)


def _read_corpora(tx: Tx, question: Question) -> list[tuple[Kind, Corpus]]:
    if not question.request.is_of_session:  # else of a part of the scope, or not at all
        for kind in kinds_of(question.request):
            tx.words.expect(kind.name, question.terms[:TERMS_AT_ONCE], *question.span)
            if kind.name == "artifact" and question.by_passages:
                artifacts.expect_beginnings(tx, *question.span, COMPARED_CHARS, COMPARED_ARTIFACTS)
    return [
        (kind, corpus)
        for kind in kinds_of(question.request)
        for corpus in kind.corpora(tx, question)
    ]
