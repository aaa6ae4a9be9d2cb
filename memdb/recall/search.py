"""
Recall: asking every index of a scope and giving one ranked answer.

Reads candidates, lets `ranking` decide, and fetches what is returned. Pending
embeddings of the scope are done first, a batch of them, so what was said a
moment ago is found by meaning too.
"""

from __future__ import annotations

from memdb.errors import FileError, InvalidInput, NotFound, PortError, StorageError
from memdb.ids import MAX_SEQ, session_range
from memdb.models import Hits
from memdb.recall.candidates import Finder, Meant
from memdb.recall.dates import dates_in
from memdb.recall.explain import why
from memdb.recall.fields import field_of
from memdb.recall.grouping import grouped
from memdb.recall.hits import Field, Found, Question, merge
from memdb.recall.query import parse_query
from memdb.stores import entries, fulltext, messages, sessions
from memdb.text.terms import phrase_terms, word_terms
from memdb.text.validate import MAX_MS, MIN_MS, int_value, moment_ms, name_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from memdb.db.database import Database
    from memdb.db.transaction import Tx
    from memdb.models import Hit, Why
    from memdb.owner import Owner
    from memdb.recall.indexing import Indexer, Serving
    from memdb.recall.query import Query
    from memdb.recall.weights import Weights

KINDS = ("message", "entry", "artifact")

# How hits are found, as the terms of a score name it.
ARMS = ("lexical", "vector", "similar")
MAX_LIMIT = 1000
MAX_QUERY_CHARS = 1_000_000

# Most words of a query that may be looked up: a page of text. 20 µs each where they are rare;
# those after the first 64 only while nothing was found.
MAX_WORDS = 2_000

# A word in more than this share of the scope says nothing to the vector arm.
# Source: retrieval evidence, worth 0.19 of recall at 10.
COMMON_SHARE = 0.15

# "Last week" is counted back from today, or from the newest message where the
# last was said longer ago than this: people come back to old conversations.
PAUSE_MS = 30 * 86_400_000
DAY_MS = 86_400_000

# Texts that a recall embeds by itself before it answers: 40 ms with the static
# table. `run_pending` does the rest.
DRAIN_TEXTS = 256


class Recaller:
    """Searches the scopes of a file."""

    def __init__(
        self,
        db: Database,
        indexer: Indexer,
        messages: Weights | None = None,
        documents: Weights | None = None,
    ) -> None:
        """Search *db*, by meaning where *indexer* has an embedder; None: the model's weights."""
        self._db = db
        self._indexer = indexer
        self._finder = Finder(messages, documents)
        self._authors: dict[tuple[int, int], tuple[int, list[str]]] = {}

    def recall(
        self,
        owner: Owner,
        text: str,
        limit: int = 10,
        *,
        kinds: Sequence[str] = KINDS,
        since: Any = None,
        until: Any = None,
        session: str | None = None,
        explain: bool = False,
        vectors: bool = True,
        rerank: bool = True,
    ) -> Hits:
        """Return the hits of all *kinds*, best first; see `Scope.recall`."""
        found = self._found(
            owner,
            text,
            kinds_value(kinds),
            limit=limit,
            since=since,
            until=until,
            session=session,
            explain=explain,
            vectors=vectors,
            rerank=rerank,
        )
        if found is None:
            return Hits((), (), {})
        asked, parts, told = found
        with self._db.read() as tx:
            hits = merge(tx, asked, parts)
        return told.answer(hits)

    def sessions(
        self,
        owner: Owner,
        text: str,
        limit: int = 10,
        *,
        since: Any = None,
        until: Any = None,
        rerank: bool = True,
    ) -> Hits:
        """Return the sessions that say most about the query, best first; see `Scope.recall`."""
        int_value(limit, "limit", 1, MAX_LIMIT)
        found = self._found(
            owner, text, ("message",), since=since, until=until, rerank=rerank, grouped=True
        )
        if found is None:
            return Hits((), (), {})
        asked, (part,), told = found
        with self._db.read() as tx:
            return told.answer(grouped(tx, asked, part, limit))

    def why(
        self,
        owner: Owner,
        text: str,
        place: tuple[str, int],
        limit: int = 10,
        *,
        since: Any = None,
        until: Any = None,
        rerank: bool = True,
    ) -> Why:
        """Return why a message is where it is in an answer, or not in it; see `Scope.why`."""
        int_value(limit, "limit", 1, MAX_LIMIT)
        name, seq = name_value(place[0], "session"), int_value(place[1], "seq", 1, MAX_SEQ)
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            target = None if scope_no is None else sessions.find(tx, scope_no, name)
            known = None if target is None else messages.find(tx, target, name, seq)
        if known is None:
            raise NotFound("message", f"{name}#{seq}")
        found = self._found(
            owner,
            text,
            ("message",),
            limit=MAX_LIMIT,
            since=since,
            until=until,
            explain=True,
            rerank=rerank,
        )
        if found is None:
            raise NotFound("message", f"{name}#{seq}")  # deleted between two reads
        asked, (part,), _ = found
        return why(asked, part, known, limit)

    def _found(
        self,
        owner: Owner,
        text: str,
        kinds: tuple[str, ...],
        *,
        limit: int = MAX_LIMIT,
        since: Any = None,
        until: Any = None,
        session: str | None = None,
        explain: bool = False,
        vectors: bool = True,
        rerank: bool = True,
        grouped: bool = False,
    ) -> tuple[Question, list[Found], _Told] | None:
        """Return what each kind says, and how it was found; None for an unknown scope."""
        text = query_text(text)
        int_value(limit, "limit", 1, MAX_LIMIT)
        since_ms = moment_ms(since, "since")
        until_ms = moment_ms(until, "until")
        if session is not None:
            name_value(session, "session")
        if vectors:
            self._drain(owner)
        with self._db.read() as tx:
            asked = self._question(tx, owner, text, limit, session)
            if asked is None:
                return None
            asked = asked.replace(
                since_ms=MIN_MS if since_ms is None else since_ms,
                until_ms=MAX_MS + 1 if until_ms is None else until_ms,
                explain=explain,
                context=vectors,
                rerank=rerank,
                grouped=grouped,
            )
            now_ms = self._db.clock()
            fields = {kind: field_of(tx, asked, kind, now_ms) for kind in kinds}
            serving = self._indexer.serving(tx)
        told = _Told()
        meant = self._meant(serving, asked, fields, told) if vectors else None
        if not vectors:
            told.missing["vector"] = "only words were asked for"
        if meant is None or not rerank:
            told.missing["similar"] = "it was not wanted" if meant else "it needs the vector arm"
        with self._db.read() as tx:
            found = [self._finder.find(tx, asked, kind, fields[kind], meant) for kind in kinds]
            if not any(part.ranked for part in found):
                # Nothing but stop words is left that may be shared.
                asked = asked.replace(terms=word_terms(asked.query.words, MAX_WORDS))
                fields = {kind: field_of(tx, asked, kind, now_ms) for kind in kinds}
                found = [self._finder.find(tx, asked, kind, fields[kind], meant) for kind in kinds]
        held = fields["artifact"].terms() if "artifact" in fields else []
        return asked.replace(terms=held), found, told

    def search(self, owner: Owner, session: str, query: str, limit: int) -> Hits:
        """Return the messages of a session that share words with *query*, best first."""
        return self.recall(owner, query, limit, kinds=("message",), session=session, vectors=False)

    def _drain(self, owner: Owner) -> None:
        """Embed what the scope still waits for, a batch; reading goes on if that fails."""
        with self._db.read() as tx:
            span = owner.span(tx)
        if span is None or self._db.writing:
            return
        try:
            self._indexer.drain(span, DRAIN_TEXTS)
        except (FileError, PortError, StorageError):
            return  # noted in the job, tried again later; the query itself will tell

    def _question(
        self, tx: Tx, owner: Owner, text: str, limit: int, session: str | None
    ) -> Question | None:
        """Return what is asked, None where there is nothing to ask."""
        scope_no, span = owner.find(tx), owner.span(tx)
        if scope_no is None or span is None:
            return None
        talk = span
        if session is not None:
            found = sessions.find(tx, scope_no, session)
            if found is None:
                return None
            talk = session_range(found)
        query = self._parsed(tx, text, scope_no, talk)
        terms = word_terms(query.content, MAX_WORDS)
        if len(terms) > fulltext.TERMS_AT_ONCE:
            terms.sort(key=len, reverse=True)  # long words are rare, and say most
        terms += phrase_terms(query.phrases)
        return Question(
            query,
            scope_no,
            span,
            terms,
            limit,
            MIN_MS,
            MAX_MS + 1,
            session,
            False,
            True,
            True,
            False,
        )

    def _parsed(self, tx: Tx, text: str, scope_no: int, talk: tuple[int, int]) -> Query:
        """Return what the query says, with what it counts back from and the user's birthday."""
        authors = self._known_authors(tx, scope_no, talk)
        now_ms = self._db.clock()
        query = parse_query(text, authors, now_ms // DAY_MS)
        if query.spans:
            newest_ms = messages.newest_ms(tx, *talk)
            if newest_ms is not None and newest_ms < now_ms - PAUSE_MS:
                query = parse_query(text, authors, newest_ms // DAY_MS)
        if "birthday" in query.words:
            known = entries.find_key(tx, scope_no, "birthday")
            told = None if known is None else entries.text(tx, known)
            days = [one.replace(year=None) for one in dates_in(told[0] if told else "") if one.day]
            query = query.replace(dates=(*query.dates, *days))
        return query

    def _known_authors(self, tx: Tx, scope_no: int, talk: tuple[int, int]) -> list[str]:
        """Return who speaks in a range of messages; read again once some were added."""
        total = sessions.total(tx, scope_no)
        known = self._authors.get(talk)
        if known is None or known[0] != total:
            known = self._authors[talk] = (total, messages.authors(tx, *talk))
        return known[1]

    def _meant(
        self, serving: Serving | None, asked: Question, fields: dict[str, Field], told: _Told
    ) -> Meant | None:
        """
        Embed the query, without the words that would draw it to everything.

        None where there is no embedder, it fails, or the model does not know the
        query's words and others do find something; *told* then says so.
        """
        if serving is None:
            told.missing["vector"] = "the file was opened without an embedder"
            return None
        embedder = serving.filler.embedder
        covers = getattr(embedder, "covers", None)
        by_words = any(any(field.postings.values()) for field in fields.values())
        if by_words and covers is not None and not covers(asked.query.text):
            told.missing["vector"] = f"{embedder.name} does not know these words"
            return None
        common: list[str] = []
        if "message" in fields:
            lists, total = fields["message"].postings, fields["message"].total
            common = [
                word
                for word in asked.query.content
                if all(
                    len(lists.get(term, ())) > COMMON_SHARE * total for term in word_terms([word])
                )
            ]
        try:
            (vector,) = serving.filler.embed([asked.query.vector_text(common)])
        except PortError as error:
            told.missing["vector"] = error
            return None
        if vector is None:
            told.missing["vector"] = f"{embedder.name} finds nothing to embed in the query"
            return None
        if serving.space_no is None:
            told.missing["vector"] = f"space {embedder.name}: nothing is embedded yet"
            return None
        told.space, told.partly = embedder.name, serving.partly
        return Meant(vector, serving.space_no, embedder.name)


class _Told:
    """How an answer was found: which arms are missing and why, and which space answered."""

    def __init__(self) -> None:
        self.missing: dict[str, str | PortError] = {}
        self.space: str | None = None
        self.partly: str | None = None

    def answer(self, hits: list[Hit]) -> Hits:
        """Return *hits* with how they were found; what failed is raised where there are none."""
        failure = self.missing.get("vector")
        if not hits and isinstance(failure, PortError):
            raise failure  # an empty answer would say that nothing is known
        arms = [arm for arm in ARMS if arm not in self.missing]
        missing = {arm: str(reason) for arm, reason in self.missing.items()}
        if self.partly is not None:
            missing["vector"] = self.partly
        known = failure if isinstance(failure, PortError) else None
        return Hits(hits, arms, missing, known, self.space)


def kinds_value(kinds: Any) -> tuple[str, ...]:
    """Return *kinds* in their order; InvalidInput for what is none."""
    if not isinstance(kinds, (list, tuple, set, frozenset)):
        raise InvalidInput(f"kinds is {kinds!r}: give a list of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"kinds holds {kind!r}: use {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


def query_text(text: str) -> str:
    """
    Return *text* as a query: what cannot be stored cannot be found, so it is left out.

    Raises:
        InvalidInput: it is no str, or longer than 1,000,000 characters.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"query is {type(text).__name__}: give a str")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput(f"query has {len(text):,} characters: ask in fewer than a million")
    clean = text.replace("\0", " ")
    if not clean.isascii():
        clean = clean.encode("utf-8", "replace").decode()
    return text_value(clean, "query")
