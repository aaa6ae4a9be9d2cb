"""
Recall: asking every index of a scope and giving one ranked answer.

Reads candidates, lets `ranking` decide, and fetches what is returned. Pending
embeddings of the scope are done first, a batch of them, so what was said a
moment ago is found by meaning too.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, PortError, StorageError
from memdb.ids import session_range
from memdb.recall import ranking
from memdb.recall.hits import Found, Question, json_ids, merge
from memdb.recall.query import parse_query
from memdb.recall.ranking import DOCUMENTS, Row
from memdb.stores import artifacts, entries, fulltext, messages, nearest, sessions
from memdb.text.terms import word_terms
from memdb.text.validate import MAX_MS, MIN_MS, int_value, moment_ms, name_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from memdb.db.database import Database, Tx
    from memdb.models import Hit
    from memdb.owner import Owner
    from memdb.recall.indexing import Indexer

KINDS = ("message", "entry", "artifact")
MAX_LIMIT = 1000
MAX_QUERY_CHARS = 1_000_000

# Most words of a query that are looked up: a page of text. 20 µs each.
MAX_WORDS = 2_000

# In a scope of more messages than this, only the newest of a common word's rows
# are looked at: such a word says little, and 20,000 rows take 8 ms.
LARGE_SCOPE = 100_000
MAX_POSTINGS = 20_000

# A word in more than this share of the scope says nothing to the vector arm.
# Source: retrieval evidence, worth 0.19 of recall at 10.
COMMON_SHARE = 0.15

# Messages whose text the second stage sees; 1,000 find no more.
# Source: LoCoMo development split, R@10 of 100, 200 and 1,000: .808 .810 .810.
SECOND_STAGE = 200

# Rows that the vector arm brings: 100 find less (R@10 0.809 against 0.818,
# LoCoMo development split).
VECTOR_ARM = 200

# Texts that a recall embeds by itself before it answers: 40 ms with the static
# table. `run_pending` does the rest.
DRAIN_TEXTS = 256


class Recaller:
    """Searches the scopes of a file."""

    def __init__(self, db: Database, indexer: Indexer) -> None:
        """Search *db*, by meaning where *indexer* has an embedder."""
        self._db = db
        self._indexer = indexer
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
    ) -> list[Hit]:
        """Return the hits of all *kinds*, best first; see `Scope.recall`."""
        if not isinstance(kinds, (list, tuple, set, frozenset)):
            raise InvalidInput(f"kinds is {kinds!r}: give a list of {', '.join(KINDS)}")
        for kind in kinds:
            if kind not in KINDS:
                raise InvalidInput(f"kinds holds {kind!r}: use {', '.join(KINDS)}")
        kinds = tuple(kind for kind in KINDS if kind in kinds)
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
                return []
            asked = asked.replace(
                since_ms=MIN_MS if since_ms is None else since_ms,
                until_ms=MAX_MS + 1 if until_ms is None else until_ms,
                explain=explain,
                context=vectors,
            )
            total = sessions.total(tx, asked.scope_no)
            postings = {kind: _postings(tx, asked, kind, total) for kind in kinds}
        vector = self._query_vector(asked, postings, total) if vectors else None
        with self._db.read() as tx:
            found = [self._find(tx, asked, kind, postings[kind], vector, total) for kind in kinds]
            return merge(tx, asked, found)

    def search(self, owner: Owner, session: str, query: str, limit: int) -> list[Hit]:
        """Return the messages of a session that share words with *query*, best first."""
        return self.recall(owner, query, limit, kinds=("message",), session=session, vectors=False)

    def _drain(self, owner: Owner) -> None:
        """Embed what the scope still waits for, a batch; reading goes on if that fails."""
        with self._db.read() as tx:
            span = owner.span(tx)
        if span is None or self._db.writing:
            return
        try:
            self._indexer.run_pending(DRAIN_TEXTS, span)
        except (PortError, StorageError):
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
        query = parse_query(text, self._known_authors(tx, scope_no, talk))
        terms = word_terms(query.content, MAX_WORDS)
        return Question(
            query, scope_no, span, terms, limit, MIN_MS, MAX_MS + 1, session, False, True
        )

    def _known_authors(self, tx: Tx, scope_no: int, talk: tuple[int, int]) -> list[str]:
        """Return who speaks in a range of messages; read again once some were added."""
        total = sessions.total(tx, scope_no)
        known = self._authors.get(talk)
        if known is None or known[0] != total:
            known = self._authors[talk] = (total, messages.authors(tx, *talk))
        return known[1]

    def _query_vector(
        self, asked: Question, postings: dict[str, dict[str, list[int]]], total: int
    ) -> bytes | None:
        """Embed the query, without the words that would draw it to everything."""
        lists = postings.get("message", {})
        common = [
            word
            for word in asked.query.content
            if len(lists.get(f'"{word}"', ())) > COMMON_SHARE * total
        ]
        (vector,) = self._indexer.embed([asked.query.vector_text(common)])
        return vector

    def _find(
        self,
        tx: Tx,
        asked: Question,
        kind: str,
        postings: dict[str, list[int]],
        vector: bytes | None,
        total: int,
    ) -> Found:
        if kind == "message":
            return self._find_messages(tx, asked, postings, vector, total)
        if kind == "entry":
            return self._find_entries(tx, asked, postings, vector)
        return _find_artifacts(tx, asked, postings)

    def _nearest(
        self,
        tx: Tx,
        kind: str,
        vector: bytes | None,
        span: tuple[int, int],
        allowed: set[int] | None,
    ) -> dict[int, float]:
        space_no = self._indexer.find_space(tx)
        if vector is None or space_no is None:
            return {}
        found = nearest.find(
            tx,
            space_no,
            kind,
            vector,
            span,
            limit=VECTOR_ARM,
            allowed=allowed,
        )
        return dict(found)

    def _find_messages(
        self,
        tx: Tx,
        asked: Question,
        postings: dict[str, list[int]],
        vector: bytes | None,
        total: int,
    ) -> Found:
        span, allowed = _message_range(tx, asked)
        if allowed is not None:
            postings = _only(postings, allowed)
        elif asked.session is not None:
            postings = _within(postings, span)
        lexical = ranking.lexical_scores(postings, total)
        cosine = self._nearest(tx, "message", vector, span, allowed)
        if not asked.context:
            held = {one for ids in postings.values() for one in ids}
            lexical = {one: value for one, value in lexical.items() if one in held}
        fused = ranking.fuse(lexical, cosine)
        chosen = ranking.best(fused, max(SECOND_STAGE, 2 * asked.limit))
        if allowed is not None:
            chosen = [message for message in chosen if message in allowed]
        elif asked.session is not None:
            chosen = [message for message in chosen if span[0] <= message <= span[1]]
        rows = {
            row_id: Row(text, author, created_ms)
            for row_id, text, author, created_ms in messages.features(tx, json_ids(chosen))
        }
        if not asked.context:
            rows = {key: row for key, row in rows.items() if key in lexical}
        ranked = ranking.rank(asked.query, fused, rows, limit=asked.limit, explain=asked.explain)
        return Found("message", ranked, _quality(postings, total, lexical, cosine))

    def _find_entries(
        self, tx: Tx, asked: Question, postings: dict[str, list[int]], vector: bytes | None
    ) -> Found:
        low, high = asked.span
        live = entries.live_ids(
            tx,
            low,
            high,
            now_ms=self._db.clock(),
            since_ms=asked.since_ms,
            until_ms=asked.until_ms,
        )
        if not live:
            return Found("entry", [], 0.0)
        postings = _only(postings, live)
        lexical = ranking.lexical_scores(postings, len(live), DOCUMENTS)
        cosine = {
            entry: value
            for entry, value in self._nearest(tx, "entry", vector, asked.span, None).items()
            if entry in live
        }
        facts = entries.get_many(tx, json_ids({*lexical, *cosine}))
        if asked.session is not None:
            facts = {key: entry for key, entry in facts.items() if entry.session == asked.session}
            lexical = {key: value for key, value in lexical.items() if key in facts}
            cosine = {key: value for key, value in cosine.items() if key in facts}
        ranked = ranking.rank_entries(
            lexical,
            cosine,
            {key: entry.importance for key, entry in facts.items()},
            limit=asked.limit,
            explain=asked.explain,
        )
        return Found("entry", ranked, _quality(postings, len(live), lexical, cosine))


def _postings(tx: Tx, asked: Question, kind: str, total: int) -> dict[str, list[int]]:
    cut = MAX_POSTINGS if kind == "message" and total > LARGE_SCOPE else None
    return fulltext.postings(tx, kind, asked.terms, *asked.span, newest=cut)


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


def _message_range(tx: Tx, asked: Question) -> tuple[tuple[int, int], set[int] | None]:
    """Return the ids to look at, and which of them where not all count."""
    span = asked.span
    if asked.session is not None:
        found = sessions.find(tx, asked.scope_no, asked.session)
        span = (0, 0) if found is None else session_range(found)
    if not asked.timed:
        return span, None
    return span, messages.ids_between(tx, *span, asked.since_ms, asked.until_ms)


def _find_artifacts(tx: Tx, asked: Question, postings: dict[str, list[int]]) -> Found:
    if asked.timed:
        return Found("artifact", [], 0.0)  # a version has a time, its text as a whole has none
    names = artifacts.get_many(tx, json_ids({name for ids in postings.values() for name in ids}))
    if asked.session is not None:
        names = {key: name for key, name in names.items() if name.session == asked.session}
    postings = _only(postings, names.keys())
    lexical = ranking.lexical_scores(postings, max(len(names), 1), DOCUMENTS)
    ranked = ranking.rank_entries(lexical, {}, {}, limit=asked.limit, explain=asked.explain)
    return Found("artifact", ranked, _quality(postings, max(len(names), 1), lexical, {}))


def _only(postings: dict[str, list[int]], allowed: Any) -> dict[str, list[int]]:
    return {term: [one for one in ids if one in allowed] for term, ids in postings.items()}


def _within(postings: dict[str, list[int]], span: tuple[int, int]) -> dict[str, list[int]]:
    low, high = span
    return {term: [one for one in ids if low <= one <= high] for term, ids in postings.items()}


def _quality(
    postings: dict[str, list[int]], total: int, lexical: dict[int, float], cosine: dict[int, float]
) -> float:
    """
    Return how well the best candidate fits: covered share of the query plus best cosine.

    The covered share is its lexical score by that of a row that holds every
    word, so a kind whose best row holds one word of five cannot outrank one
    whose best row holds all.
    """
    every_word = sum(ranking.idf(len(ids), max(total, len(ids))) for ids in postings.values())
    covered = max(lexical.values(), default=0.0) / every_word if every_word else 0.0
    return covered + max(cosine.values(), default=0.0)
