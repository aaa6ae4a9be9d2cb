"""
Similarity stage of `remember`: the entry that a statement repeats, and similar entries.

Two statements are one only if they have the same key or say the same (`is_repeated`, the one rule).
An index finds texts whose `said_hash` is equal, in every category that merges; a category that
merges by meaning compares the similar statements too. Other similar entries are linked
(`memdb.records.links`), and shown to an arbiter if there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import PortError
from memdb.facts.markers import says_the_same
from memdb.models.ids import branch_of, scope_of
from memdb.models.record import Record
from memdb.models.settings import BY_MEANING, NO_MERGE
from memdb.records import link_maker, links
from memdb.tables import entries
from memdb.text.derived import date_spans, said_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.embeddings.indexer import Indexer, SpaceFiller
    from memdb.engine.base import Tx
    from memdb.entries.categories import Categories
    from memdb.entries.validation import Statement
    from memdb.models.entries import Entry
    from memdb.records.link_maker import Near


class SimilarEntries(Record):
    """
    A statement with the similar entries of its scope, read in one transaction.

    Attributes:
        vector: Number of the space and vector of the statement, for the index;
            None means that it is embedded later.
        same: The entry with its key, or the active entry that says the same.
        nearby: The similar entries, most similar first; none with *same*.
    """

    scope_no: int
    statement: Statement
    vector: tuple[int, bytes] | None
    same: Entry | None = None
    nearby: tuple[Near, ...] = ()


class StatementVector(Record):
    """
    The vector of a statement, with its embedder.

    Attributes:
        own: Whether it belongs to the space that this process fills.
    """

    vector: bytes
    filler: SpaceFiller
    own: bool

    def in_space(self, tx: Tx, own_space: int | None) -> tuple[int, bytes] | None:
        """Return its space's number and the vector; None if the space gets no vectors now."""
        if self.own:
            return None if own_space is None else (own_space, self.vector)
        space = self.filler.space(tx)
        return None if space is None or space.retired else (space.space_no, self.vector)


def embed_statement(text: str, indexer: Indexer) -> StatementVector | None:
    """Return the vector of *text*; None without an embedder or if it failed, to embed it later."""
    filler = indexer.answering()
    if filler is None:
        return None
    try:
        vector = filler.embed([text])[0]
    except PortError:
        return None
    own = filler.embedder is indexer.embedder
    return None if vector is None else StatementVector(vector, filler, own)


def is_repeated(statement: Statement, text: str, categories: Categories) -> bool:
    """
    Return whether a statement says what an entry with *text* says, with a key or without one.

    The texts are the same but for case, spaces and final marks. If the category of the statement
    merges by meaning, accents, punctuation, the format of numbers and an order to remember make no
    difference either.
    """
    if said_hash(statement.text) == said_hash(text):
        return True
    merges = categories.get(statement.category).merge == BY_MEANING
    return merges and says_the_same(statement.text, text)


def find_similar(
    tx: Tx,
    scope_no: int,
    statement: Statement,
    embedded: StatementVector | None,
    own_space: int | None,
    categories: Categories,
) -> SimilarEntries:
    """
    Return the entries of a scope that a statement repeats, or that are similar.

    If an entry has the same key or an active one says the same, only that is returned, without
    further search.

    Args:
        statement: The statement with the row id of its session.
        own_space: Number of the space that this process fills.
    """
    vector = None if embedded is None else embedded.in_space(tx, own_space)
    similar = SimilarEntries(scope_no, statement, vector)
    keyed = entries.open_key(tx, scope_no, statement.key, statement.private_to)
    if keyed is not None:
        return similar.replace(same=entries.find(tx, keyed))
    merge = categories.get(statement.category).merge
    if merge != NO_MERGE:
        ids = entries.find_same_text(tx, scope_no, statement.text)
        same = _first_same(tx, statement, entries.get_many(tx, ids).values(), categories)
        if same is not None:
            return similar.replace(same=same)
    nearby = link_maker.find_near(
        tx, scope_no, statement.said(tx.now_ms), vector, _privacy(statement)
    )
    if merge == BY_MEANING:
        equal = [
            near.entry for near in nearby if is_repeated(statement, near.entry.text, categories)
        ]
        same = _first_same(tx, statement, equal, categories)
        if same is not None:
            return similar.replace(same=same)
    return similar.replace(nearby=nearby)


def _first_same(
    tx: Tx, statement: Statement, found: Iterable[Entry], categories: Categories
) -> Entry | None:
    """Return the newest entry that a statement repeats."""
    said_ms = statement.created_ms or tx.now_ms
    days = date_spans(statement.text, said_ms)  # "tomorrow" is another day each time
    fitting = [
        entry
        for entry in found
        if entry.holds(tx.now_ms)
        and days == date_spans(entry.text, entry.updated_ms)
        and entry.trust == statement.trust
        and (entry.key is None or statement.key in (None, entry.key))
        and links.privacy_of(entry) == _privacy(statement)
        and categories.get(entry.category).merge != NO_MERGE
    ]
    for entry in sorted(fitting, key=lambda one: -one.id):
        # A repeated statement that something newer outdates is the newest statement again.
        if not links.find_newest(tx, scope_of(entry.id), [entry.id], tx.now_ms, links.LEAST):
            return entry
    return None


def _privacy(statement: Statement) -> tuple[str | None, str] | None:
    """Return the only session that recalls a statement, as `links.privacy_of` does."""
    if not statement.session_only or statement.session is None:
        return None
    return str(statement.session), branch_of(statement.session)
