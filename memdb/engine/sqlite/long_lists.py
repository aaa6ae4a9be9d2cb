"""
Long posting lists of messages, kept between searches: what is common is asked for again and again.

A list contains as long as the index does. FTS5 writes its averages or its structure with every
change of an index. After a rebuild both could be the same again, so `changes` counts the edits.
Messages of the tail are in no list, so an append leaves all of them as they are (ADR-0055). Whether
a range has archived messages is kept with them: archiving is counted as a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.ids import MASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.engine.base import Postings, Row, Tx
    from memdb.text.terms import Term

    Span = tuple[int, int, int | None]

# Ids of a list that is kept, and of all lists of a connection: 16 MB.
LONG = 200
MAX_KEPT = 200_000

# FTS5's records of averages and of structure.
SELECT_STATE = """/* long_lists.state */
SELECT
  (SELECT block FROM messages_fts_data WHERE id = 1),
  (SELECT block FROM messages_fts_data WHERE id = 10),
  (SELECT number FROM changes WHERE kind = 'message')
"""

SELECT_ANY_SEGMENT = """/* long_lists.any_segment */
SELECT 1 FROM archive_segments WHERE session_id BETWEEN :low & ~:seq_mask AND :high LIMIT 1
"""


class LongLists:
    """The posting lists of messages as one connection reads them."""

    __slots__ = ("_archived", "_is_writing", "_lists", "_read", "_size", "_state", "_tx")

    def __init__(
        self, tx: Tx, read: Callable[..., Postings], is_writing: Callable[[], bool]
    ) -> None:
        """
        Read the index in *tx*; nothing is read yet.

        Args:
            read: Returns what the index holds of some terms.
            is_writing: Inside a write nothing is kept: FTS5 has not written its records yet.
        """
        self._tx = tx
        self._read = read
        self._is_writing = is_writing
        self._archived: dict[tuple[int, int], bool] = {}
        self._lists: dict[tuple[Term, Span], frozenset[int]] = {}
        self._size = 0
        self._state: Row | None = None

    def read(self, terms: Sequence[Term], low: int, high: int, newest: int | None) -> Postings:
        """Return what the index holds of `memdb.engine.base.Words.postings`."""
        state = None if self._is_writing() else self._tx.one(SELECT_STATE)
        if state is None or state != self._state or self._size > MAX_KEPT:
            self._lists.clear()
            self._archived.clear()
            self._size, self._state = 0, state
        span = low, high, newest
        known = {term: self._lists[term, span] for term in terms if (term, span) in self._lists}
        missing = [term for term in terms if term not in known]
        found = self._read("messages", missing, low, high, newest)
        for term, ids in found.items():
            if len(ids) >= LONG and state is not None:
                found[term] = kept = frozenset(ids)
                self._lists[term, span] = kept
                self._size += len(kept)
        found |= known
        return {term: found[term] for term in terms if term in found}

    def has_archived(self, low: int, high: int) -> bool:
        """Return whether there are archived messages near a range; asked after `read`."""
        found = self._archived.get((low, high))
        if found is None or self._state is None:
            row = self._tx.one(SELECT_ANY_SEGMENT, {"low": low, "high": high, **MASKS})
            found = self._archived[low, high] = row is not None
        return found
