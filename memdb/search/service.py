"""
Recall: asking every index of a scope and giving one ranked answer.

Reads candidates, lets `ranking` decide, and fetches what is returned. Pending
embeddings of the scope are done first, a batch of them, so what was said a
moment ago is found by meaning too.
"""

from __future__ import annotations

from memdb.english.dates import dates_in
from memdb.errors import FileError, NotFound, PortError, StorageError
from memdb.models.entries import DAY_MS
from memdb.models.ids import MAX_SEQ, session_range
from memdb.models.messages import Hits
from memdb.search.checks import KINDS, kinds_value, query_text
from memdb.search.entry_search import entries_then, rank_then, shared_question, times_value
from memdb.search.explain import why
from memdb.search.fields import field_of
from memdb.search.grouping import grouped
from memdb.search.query import parse_query
from memdb.search.question_vector import Told, arms_of
from memdb.search.results import Field, Found, Question, merge
from memdb.search.retrieval import Finder
from memdb.tables import entries, messages, sessions, words
from memdb.text.terms import phrase_terms, word_terms
from memdb.text.validate import MAX_MS, MIN_MS, int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from memdb.embeddings.indexer import Indexer
    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx
    from memdb.models.messages import Why
    from memdb.records.scopes import Owner
    from memdb.search.query import Query
    from memdb.search.weights import Weights

MAX_LIMIT = 1000

# Most words of a query that may be looked up: a page of text. 20 µs each where they are rare;
# those after the first 64 only while nothing was found.
MAX_WORDS = 2_000

# "Last week" is counted back from today, or from the newest message where the
# last was said longer ago than this: people come back to old conversations.
PAUSE_MS = 30 * 86_400_000

# Texts that a recall embeds by itself before it answers: 40 ms with the static
# table. `run_pending` does the rest.
DRAIN_TEXTS = 256


class Recaller:
    """Searches the scopes of a file."""

    def __init__(
        self,
        db: Database,
        indexer: Indexer,
        half_lives: Callable[[], Mapping[str, int | None]] = dict,
        note_uses: Callable[[list[int]], object] = list,
        messages: Weights | None = None,
        documents: Weights | None = None,
    ) -> None:
        """
        Search *db*, by meaning where *indexer* has an embedder.

        Args:
            half_lives: After how many milliseconds an entry counts half, by category.
            note_uses: Told the ids of the entries of each answer.
            messages, documents: The numbers of the ranking; None: the model's.
        """
        self._db = db
        self._indexer = indexer
        self._half_lives = half_lives
        self._note_uses = note_uses
        self._finder = Finder(db.clock, half_lives, messages, documents)
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
        as_of: Any = None,
        visible: str | None = None,
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
            as_of=as_of,
            visible=visible,
        )
        if found is None:
            return Hits()
        asked, parts, told = found
        with self._db.read() as tx:
            hits = merge(tx, asked, parts)
        used = [hit.source.entry_id for hit in hits if hit.source.entry_id is not None]
        if used and as_of is None:
            self._note_uses(used)
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
            return Hits()
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
        as_of: Any = None,
        visible: str | None = None,
    ) -> tuple[Question, list[Found], Told] | None:
        """Return what each kind says, and how it was found; None for an unknown scope."""
        text = query_text(text)
        int_value(limit, "limit", 1, MAX_LIMIT)
        since_ms, until_ms, at_ms = times_value(since, until, as_of)
        if session is not None:
            name_value(session, "session")
        if vectors:
            self._drain(owner)
        with self._db.read() as tx:
            asked = self._question(tx, owner, text, limit, session)
            if asked is None and session is None and "entry" in kinds:
                owner, kinds = owner.shared(), ("entry",)
                asked = self._question(tx, owner, text, limit, None, foreign=True)
            if asked is None:
                return None
            asked = asked.replace(
                since_ms=since_ms,
                until_ms=until_ms,
                explain=explain,
                context=vectors,
                rerank=rerank,
                grouped=grouped,
                visible=visible and (sessions.find(tx, asked.scope_no, visible) or 0),
                past=None if at_ms is None else entries_then(tx, owner, at_ms),
            )
            searched = tuple(kind for kind in kinds if at_ms is None or kind != "entry")
            asks = self._asks(tx, owner, asked, searched)
            serving = self._indexer.serving(tx) if vectors else None
        fields = {kind: field for question, kind, field in asks if question is asked}
        meant, told = arms_of(serving, asked, fields, vectors=vectors)
        with self._db.read() as tx:
            found = [self._finder.find(tx, *one, meant) for one in asks]
            if not any(part.ranked for part in found):
                # Nothing but stop words is left that may be shared.
                asked = asked.replace(terms=word_terms(asked.query.words, MAX_WORDS))
                asks = self._asks(tx, owner, asked, searched)
                found = [self._finder.find(tx, *one, meant) for one in asks]
                fields = {kind: field for question, kind, field in asks if question is asked}
        if at_ms is not None and "entry" in kinds:
            by_meaning = None if meant is None or serving is None else (serving.filler, meant)
            found.append(rank_then(by_meaning, asked, self._half_lives(), at_ms))
        held = fields["artifact"].terms() if "artifact" in fields else []
        return asked.replace(terms=held), found, told

    def _asks(
        self, tx: Tx, owner: Owner, asked: Question, kinds: tuple[str, ...]
    ) -> list[tuple[Question, str, Field]]:
        """Return what is to be searched: each kind, and the entries that all users share."""
        now_ms = self._db.clock()
        found = [(asked, kind, field_of(tx, asked, kind, now_ms)) for kind in kinds]
        shared = shared_question(tx, owner, asked) if "entry" in kinds else None
        if shared is not None:
            found.append((shared, "entry", field_of(tx, shared, "entry", now_ms)))
        return found

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
        self,
        tx: Tx,
        owner: Owner,
        text: str,
        limit: int,
        session: str | None,
        *,
        foreign: bool = False,
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
        if len(terms) > words.TERMS_AT_ONCE:
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
            foreign=foreign,
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
            known = entries.find_key(tx, scope_no, "birthday", now_ms)
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
