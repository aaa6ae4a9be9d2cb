"""
Recall: asking every index of a scope and giving one ranked answer.

Reads candidates, lets `ranking` decide, and fetches what is returned. Pending
embeddings of the scope are done first, a batch of them, so what was said a
moment ago is found by meaning too.
"""

from __future__ import annotations

from memdb.errors import FileError, InvalidInput, PortError, StorageError
from memdb.ids import session_range
from memdb.recall import ranking
from memdb.recall.hits import Field, Found, Question, json_ids, merge
from memdb.recall.query import parse_query
from memdb.recall.ranking import DOCUMENTS, MESSAGES, Row
from memdb.stores import artifacts, fulltext, messages, nearest, sessions, standing
from memdb.text.terms import word_terms
from memdb.text.validate import MAX_MS, MIN_MS, int_value, moment_ms, name_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from memdb.db.database import Database
    from memdb.db.transaction import Tx
    from memdb.models import Hit
    from memdb.owner import Owner
    from memdb.recall.indexing import Indexer
    from memdb.recall.ranking import Weights

KINDS = ("message", "entry", "artifact")
MAX_LIMIT = 1000
MAX_QUERY_CHARS = 1_000_000

# Most words of a query that may be looked up: a page of text. 20 µs each where they are rare;
# those after the first 64 only while nothing was found.
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

# Cosines below this say nothing: two sentences on different things come to less. Every model has
# its own scale, so only the built-in one has a floor.
# Source: bench/locomo.py, R@10 of 0, 0.15, 0.2 and 0.25: .818 .818 .812 .809.
NOISE = {"static-en-1": 0.15}

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
            fields = {kind: self._field(tx, asked, kind) for kind in kinds}
        vector = self._query_vector(asked, fields) if vectors else None
        with self._db.read() as tx:
            found = [self._find(tx, asked, kind, fields[kind], vector) for kind in kinds]
            held = fields["artifact"].terms() if "artifact" in fields else []
            return merge(tx, asked.replace(terms=held), found)

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
        query = parse_query(text, self._known_authors(tx, scope_no, talk))
        terms = word_terms(query.content, MAX_WORDS)
        if len(terms) > fulltext.TERMS_AT_ONCE:
            terms.sort(key=len, reverse=True)  # long words are rare, and say most
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

    def _field(self, tx: Tx, asked: Question, kind: str) -> Field:
        """Return what is searched of a kind, and which of it holds which word."""
        span, session = asked.span, None
        if asked.session is not None:
            session = sessions.find(tx, asked.scope_no, asked.session)
            if session is None:
                return Field((0, 0), set(), 0, {})  # deleted between two reads
        if kind == "artifact":
            return _artifact_field(tx, asked)
        if kind == "entry":
            return self._entry_field(tx, asked, session)
        total = sessions.total(tx, asked.scope_no)
        if session is not None:
            span, total = session_range(session), sessions.last_seq(tx, session)
        allowed, cut = None, MAX_POSTINGS if total > LARGE_SCOPE else None
        if asked.timed:
            allowed, cut = messages.ids_between(tx, *span, asked.since_ms, asked.until_ms), None
            total = len(allowed)
        return _looked_up(tx, asked, kind, span, allowed, total, cut)

    def _entry_field(self, tx: Tx, asked: Question, session: int | None) -> Field:
        live = standing.live_ids(
            tx,
            *asked.span,
            now_ms=self._db.clock(),
            since_ms=asked.since_ms,
            until_ms=asked.until_ms,
            session=session,
        )
        # Where all of them are live nothing has to be left out, which is faster.
        whole = len(live) == standing.count(tx, *asked.span) > 0
        return _looked_up(tx, asked, "entry", asked.span, None if whole else live, len(live))

    def _query_vector(self, asked: Question, fields: dict[str, Field]) -> bytes | None:
        """
        Embed the query, without the words that would draw it to everything.

        None where the model does not know its words and others do find something.
        """
        covers = getattr(self._indexer.embedder, "covers", None)
        by_words = any(any(field.postings.values()) for field in fields.values())
        if by_words and covers is not None and not covers(asked.query.text):
            return None
        common: list[str] = []
        if "message" in fields:
            lists, total = fields["message"].postings, fields["message"].total
            common = [
                word
                for word in asked.query.content
                if len(lists.get(f'"{word}"', ())) > COMMON_SHARE * total
            ]
        (vector,) = self._indexer.embed([asked.query.vector_text(common)])
        return vector

    def _find(
        self, tx: Tx, asked: Question, kind: str, field: Field, vector: bytes | None
    ) -> Found:
        if kind == "message":
            return self._find_messages(tx, asked, field, vector)
        if kind == "entry":
            return self._find_entries(tx, asked, field, vector)
        return _find_artifacts(asked, field)

    def _nearest(
        self, tx: Tx, asked: Question, kind: str, field: Field, vector: bytes | None
    ) -> dict[int, float]:
        """Return the cosines that say something."""
        space_no = self._indexer.find_space(tx)
        if vector is None or space_no is None or self._indexer.embedder is None:
            return {}
        if field.allowed is not None and not field.allowed:
            return {}
        found = nearest.find(
            tx,
            space_no,
            kind,
            vector,
            field.span,
            limit=max(VECTOR_ARM, asked.limit),
            allowed=field.allowed,
        )
        floor = NOISE.get(self._indexer.embedder.name, 0.0)
        return {one: cosine for one, cosine in found if cosine > floor}

    def _find_messages(self, tx: Tx, asked: Question, field: Field, vector: bytes | None) -> Found:
        weights = _weights(MESSAGES, asked.limit)
        lexical = ranking.lexical_scores(field.postings, field.total, weights)
        cosine = self._nearest(tx, asked, "message", field, vector)
        if not asked.context:
            held = {one for ids in field.postings.values() for one in ids}
            lexical = {one: value for one, value in lexical.items() if one in held}
        fused = ranking.fuse(lexical, cosine, weights)
        fused = fused.replace(
            score={
                one: value
                for one, value in fused.score.items()
                if field.holds(one) and (asked.context or one in lexical)
            }
        )
        chosen = ranking.best(fused, max(SECOND_STAGE, 2 * asked.limit))
        rows = {
            row_id: Row(text, author, created_ms)
            for row_id, text, author, created_ms in messages.features(tx, json_ids(chosen))
        }
        ranked = ranking.rank(
            asked.query, fused, rows, weights=weights, limit=asked.limit, explain=asked.explain
        )
        return Found("message", ranked, _quality(field, lexical, cosine))

    def _find_entries(self, tx: Tx, asked: Question, field: Field, vector: bytes | None) -> Found:
        weights = _weights(DOCUMENTS, asked.limit)
        lexical = ranking.lexical_scores(field.postings, field.total, weights)
        cosine = self._nearest(tx, asked, "entry", field, vector)
        ranked = ranking.rank_entries(
            lexical,
            cosine,
            standing.importance(tx, json_ids({*lexical, *cosine})),
            weights=weights,
            limit=asked.limit,
            explain=asked.explain,
        )
        return Found("entry", ranked, _quality(field, lexical, cosine))


def _looked_up(
    tx: Tx,
    asked: Question,
    kind: str,
    span: tuple[int, int],
    allowed: set[int] | None,
    total: int,
    newest: int | None = None,
) -> Field:
    """Return the field with the postings of the query's words in it."""
    if not total:
        return Field(span, set(), 0, {})

    def keep(found: dict[str, list[int]]) -> dict[str, list[int]]:
        return found if allowed is None else _only(found, allowed)

    found = fulltext.first_postings(tx, kind, asked.terms, span, keep, newest)
    return Field(span, allowed, total, found)


def _artifact_field(tx: Tx, asked: Question) -> Field:
    if asked.timed:
        return Field(asked.span, set(), 0, {})  # a version has a time, its text as a whole none
    names: set[int] = set()

    def keep(found: dict[str, list[int]]) -> dict[str, list[int]]:
        known = artifacts.get_many(tx, json_ids({one for ids in found.values() for one in ids}))
        names.update(key for key, name in known.items() if asked.session in {None, name.session})
        return _only(found, names)

    found = fulltext.first_postings(tx, "artifact", asked.terms, asked.span, keep)
    return Field(asked.span, names, max(len(names), 1), found)


def _find_artifacts(asked: Question, field: Field) -> Found:
    weights = _weights(DOCUMENTS, asked.limit)
    lexical = ranking.lexical_scores(field.postings, field.total, weights)
    ranked = ranking.rank_entries(
        lexical, {}, {}, weights=weights, limit=asked.limit, explain=asked.explain
    )
    return Found("artifact", ranked, _quality(field, lexical, {}))


def _weights(weights: Weights, limit: int) -> Weights:
    """Return *weights* with arms and seeds that are long enough for *limit*."""
    if limit <= min(weights.arm, weights.seeds):
        return weights
    return weights.replace(arm=max(weights.arm, limit), seeds=max(weights.seeds, limit))


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


def _only(postings: dict[str, list[int]], allowed: Any) -> dict[str, list[int]]:
    return {term: [one for one in ids if one in allowed] for term, ids in postings.items()}


def _quality(field: Field, lexical: dict[int, float], cosine: dict[int, float]) -> float:
    """
    Return how well the best candidate fits: covered share of the query plus best cosine.

    The covered share is its lexical score by that of a row that holds every
    word, so a kind whose best row holds one word of five cannot outrank one
    whose best row holds all.
    """
    lengths = [len(ids) for ids in field.postings.values()]
    every_word = sum(ranking.idf(length, max(field.total, length)) for length in lengths)
    covered = max(lexical.values(), default=0.0) / every_word if every_word else 0.0
    return covered + max(cosine.values(), default=0.0)
