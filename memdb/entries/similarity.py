"""
Find-similar stage of `remember`: entries that a statement may repeat, refine or contradict.

Candidates come from the vector index, from rare words that both share, and
from words in which the same fact is usually stated: a contradiction rarely
resembles what it contradicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, PortError
from memdb.models.ids import branch_of, scope_range
from memdb.models.protocols import Claim
from memdb.models.record import Record
from memdb.models.settings import BY_MEANING, NO_MERGE
from memdb.search.candidates import add_weight, top
from memdb.tables import entries
from memdb.tables import entries as active_entries
from memdb.text.terms import content_words, query_words, word_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.embeddings.indexer import Indexer, SpaceFiller
    from memdb.engine.base import Tx
    from memdb.entries.categories import Categories
    from memdb.entries.validation import Statement
    from memdb.models.entries import Entry
    from memdb.models.protocols import Embedder

# Above any cosine.
NEVER = 2.0

# Cosines per model from which two statements are duplicates unless the rules see a
# difference, and from which an arbiter is asked. Source: ADR-0015 for the built-in
# model; koopa's measurements on sentence models for the others.
THRESHOLDS = {"static-en-1": (NEVER, 0.62)}
DEFAULT_THRESHOLDS = (0.95, 0.85)

# Neighbors by vector and by words, and most entries that a related word brings.
BY_VECTOR = 30
BY_WORDS = 12
MAX_TERMS = 12
MAX_RELATED = 40

# Of a word that more entries hold than this, the newest count: it parts no two of them,
# and reading all of them would cost 1 ms per 1,000 entries and word (ADR-0030). Twice the
# default quota.
MAX_HOLDERS = 2_000

# Entries that expired or were evicted, which a statement is compared with.
MAX_FADED = 5

# Superseded neighbors whose successors are compared too.
MAX_SUPERSEDED = 10


class Neighbor(Record):
    """
    An active entry that resembles a statement.

    Attributes:
        cosine: Similarity of the two; None if no vectors were compared.
        near: Whether the cosine says that the two are duplicates.
        related: Whether a slow arbiter is asked about it.
        before: Texts of similar entries that it replaced.
    """

    entry: Entry
    cosine: float | None = None
    near: bool = False
    related: bool = False
    before: tuple[str, ...] = ()

    @property
    def claim(self) -> Claim:
        """The entry as an arbiter sees it."""
        entry = self.entry
        facts = (entry.text, entry.category, entry.key, entry.updated_ms)
        return Claim(*facts, self.cosine, self.near, self.before)


class SimilarEntries(Record):
    """
    A statement beside what its scope holds, read in one transaction.

    Attributes:
        vector: Number of the space and vector of the statement, for the index;
            None means that it is embedded later.
        same: Entry with its key or its words, active or able to be active again.
        neighbors: Active entries that resemble it, most similar first.
        faded: Entries that resemble it and expired or were evicted: one that states
            the same becomes active again.
    """

    scope_no: int
    statement: Statement
    vector: tuple[int, bytes] | None
    same: Entry | None = None
    neighbors: tuple[Neighbor, ...] = ()
    faded: tuple[Neighbor, ...] = ()


class StatementVector(Record):
    """
    The vector of a statement, with the embedder that made it.

    Attributes:
        own: Whether it belongs to the space that this process fills.
    """

    vector: bytes
    filler: SpaceFiller
    own: bool

    def in_space(self, tx: Tx, own_space: int | None) -> tuple[int, bytes] | None:
        """Return the number of its space and the vector; None if the space gets no vectors now."""
        if self.own:
            return None if own_space is None else (own_space, self.vector)
        space = self.filler.space(tx)
        return None if space is None or space.retired else (space.space_no, self.vector)


def thresholds_of(embedder: Embedder) -> tuple[float, float]:
    """
    Return the cosines from which two statements of a model are duplicates, and are compared.

    Raises:
        InvalidInput: the `thresholds` of *embedder* are no two numbers, the
            greater first, or below -1.
    """
    given = getattr(embedder, "thresholds", None)
    if given is None:
        return THRESHOLDS.get(embedder.name, DEFAULT_THRESHOLDS)
    try:
        duplicate, ask = map(float, given)
    except (TypeError, ValueError):
        duplicate = ask = float("nan")
    if not -1 <= ask <= duplicate:
        raise InvalidInput(
            f"embedder.thresholds is {given!r}: give two cosines, from which statements are "
            "duplicates and from which an arbiter is asked, the greater first"
        )
    return duplicate, ask


class Comparison(Record):
    """
    How statements are compared: the categories, and the cosines that settings give.

    Attributes:
        duplicate: Cosine of duplicates; None means as the embedder says.
        ask: Cosine from which an arbiter is asked; None means as the embedder says.
    """

    categories: Categories
    duplicate: float | None = None
    ask: float | None = None

    def thresholds(self, embedded: StatementVector | None) -> tuple[float, float]:
        """Return the cosines for the model of a vector, the greater first."""
        own = DEFAULT_THRESHOLDS
        if embedded is not None:
            own = thresholds_of(embedded.filler.embedder)
        duplicate = own[0] if self.duplicate is None else self.duplicate
        return duplicate, min(own[1] if self.ask is None else self.ask, duplicate)

    def merges_by_meaning(self, category: str) -> bool:
        """Return whether entries of a category may change by what resembles them."""
        return self.categories.get(category).merge == BY_MEANING


def embed_statement(text: str, indexer: Indexer) -> StatementVector | None:
    """Return the vector of *text*; None without an embedder, or if it failed: embedded later."""
    filler = indexer.answering()
    if filler is None:
        return None
    try:
        vector = filler.embed([text])[0]
    except PortError:
        return None
    own = filler.embedder is indexer.embedder
    return None if vector is None else StatementVector(vector, filler, own)


def find_similar(
    tx: Tx,
    scope_no: int,
    statement: Statement,
    embedded: StatementVector | None,
    own_space: int | None,
    related: Callable[[str], Sequence[str]],
    comparison: Comparison,
) -> SimilarEntries:
    """
    Return the entries of a scope that resemble a statement.

    An entry of the same key, or an active one with the same words, is the only
    answer: nothing else is searched. The categories of both say what else may be.

    Args:
        statement: With the row id of its session.
        own_space: Number of the space that this process fills.
        related: Gives words in which the fact of a text may be stated.
    """
    vector = None if embedded is None else embedded.in_space(tx, own_space)
    similar = SimilarEntries(scope_no, statement, vector)
    if statement.key is not None:
        keyed = entries.open_key(tx, scope_no, statement.key, statement.private_to)
        if keyed is not None:
            return similar.replace(same=entries.find(tx, keyed))
    if comparison.categories.get(statement.category).merge == NO_MERGE:
        return similar
    same = _with_same_words(tx, scope_no, statement, comparison)
    is_only = same is not None and same.holds(tx.now_ms)
    if is_only or not comparison.merges_by_meaning(statement.category):
        return similar.replace(same=same)
    thresholds = comparison.thresholds(embedded)
    found = _find_neighbors(
        tx, scope_range(scope_no), statement, vector, related(statement.text), thresholds
    )
    found = [
        one
        for one in found
        if _comparable(one.entry, statement) and comparison.merges_by_meaning(one.entry.category)
    ]
    faded = [one for one in found if not one.entry.holds(tx.now_ms)][:MAX_FADED]
    neighbors = tuple(one for one in found if one.entry.holds(tx.now_ms))
    return similar.replace(same=same, neighbors=neighbors, faded=tuple(faded))


def _with_same_words(
    tx: Tx, scope_no: int, statement: Statement, comparison: Comparison
) -> Entry | None:
    """Return the entry with the same normalised text; active ones first, then newer ones."""
    ids = active_entries.find_same_text(tx, scope_no, statement.text)
    found = entries.get_many(tx, ids) if ids else {}
    fitting = (
        found[entry_id]
        for entry_id in ids
        if found[entry_id].superseded_by is None
        and found[entry_id].trust == statement.trust
        and _comparable(found[entry_id], statement)
        and comparison.categories.get(found[entry_id].category).merge != NO_MERGE
    )
    return next(fitting, None)


def _comparable(entry: Entry, statement: Statement) -> bool:
    """Whether both can be the same fact: neither keys nor sessions keep them apart."""
    if entry.key is not None and statement.key not in (None, entry.key):
        return False
    own = (entry.session, entry.branch or "") if entry.session_only else None
    return own == (
        (str(statement.session), branch_of(statement.session))
        if statement.session_only and statement.session is not None
        else None
    )


def _find_neighbors(
    tx: Tx,
    span: tuple[int, int],
    statement: Statement,
    vector: tuple[int, bytes] | None,
    related: Sequence[str],
    thresholds: tuple[float, float],
) -> list[Neighbor]:
    """
    Return the entries of an id range that resemble a statement, most similar first.

    Also those that expired or were evicted, if their trust is that of the statement.
    """
    cosines: dict[int, float] = {}
    if vector is not None:
        space_no, values = vector
        cosines = dict(tx.vectors.nearest(space_no, "entry", values, span, limit=BY_VECTOR))
    ids = {*cosines, *_find_by_words(tx, span, statement.text, related)}
    found = entries.get_many(tx, sorted(ids)) if ids else {}
    before = _find_successors(tx, found, cosines)
    duplicate, ask = thresholds
    neighbors = []
    for entry_id, entry in found.items():
        can_return = entry.superseded_by is None and entry.trust == statement.trust
        if not (entry.holds(tx.now_ms) or can_return):
            continue
        cosine = cosines.get(entry_id)
        level = -1.0 if cosine is None else cosine
        past = tuple(before.get(entry_id, ()))
        is_related = level >= ask or bool(past)
        neighbors.append(Neighbor(entry, cosine, level >= duplicate, is_related, past))
    neighbors.sort(key=lambda one: (-(one.cosine or 0.0), -one.entry.id))
    return neighbors


def _find_successors(
    tx: Tx, found: dict[int, Entry], cosines: dict[int, float]
) -> dict[int, list[str]]:
    """Add the successors of superseded entries to *found*; return what each of them replaced."""
    gone = [entry_id for entry_id, entry in found.items() if entry.superseded_by is not None]
    if not gone:
        return {}
    gone.sort(key=lambda entry_id: (-cosines.get(entry_id, 0.0), -entry_id))
    before: dict[int, list[str]] = {}
    for entry_id, last in active_entries.find_successors(tx, gone[:MAX_SUPERSEDED]).items():
        before.setdefault(last, []).append(found[entry_id].text)
    missing = sorted(before.keys() - found.keys())
    if missing:
        found |= entries.get_many(tx, missing)
    return before


def _find_by_words(tx: Tx, span: tuple[int, int], text: str, related: Sequence[str]) -> set[int]:
    """Return the entries that share the rarest words, and the newest of each related word."""
    own = word_terms(content_words(query_words(text)), MAX_TERMS)
    more = word_terms(related, len(related)) if related else []
    postings = tx.words.postings("entry", [*own, *more], *span, newest=MAX_HOLDERS)
    scores: dict[int, float] = {}
    for term in dict.fromkeys(own):
        ids = postings[term]
        add_weight(scores, {*ids}, 1.0 / (1 + len(ids)))
    found = {*top(scores, BY_WORDS)}
    for term in more:
        found.update(sorted(postings[term])[-MAX_RELATED:])
    return found
