"""
Values that the stages of recall hand on: the question, what it searches, what was found.

Plain records without I/O. `memdb.search.retrieve` fills them, `memdb.search.rank`
and `memdb.search.load` read them.
"""

from __future__ import annotations

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from memdb.engine.base import Postings
    from memdb.models.messages import Entry
    from memdb.search.parse import Query
    from memdb.search.request import SearchRequest
    from memdb.text.terms import Term

NO_SPAN = (0, -1)
"""First and last id of a scope that does not exist."""


class Question(Record):
    """
    A request, parsed and bound to a scope.

    Attributes:
        scope_no: Number of the scope. None means it was never written to.
        span: First and last id of the scope.
        shared: First and last id of the scope that all users of the app share,
            if its entries are searched too.
        session: Id of the only session that is searched. None means all.
        messages_of: Id of the only session whose messages are searched, 0 for
            a session that does not exist. None means all.
        visible: Id of the session that asks, 0 for a new one. None means that
            entries of every session are visible.
        total: About how many messages the scope has.
        terms: Search terms, those that say most first.
        now_ms: The time for which entries are valid and faded, UTC milliseconds.
        half_lives_ms: By category, after what time an entry counts half.
    """

    request: SearchRequest
    query: Query
    scope_no: int | None
    span: tuple[int, int]
    shared: tuple[int, int] | None
    session: int | None
    messages_of: int | None
    visible: int | None
    total: int
    terms: list[Term]
    now_ms: int
    half_lives_ms: Mapping[str, int | None]


class Corpus(Record):
    """
    The rows of one kind that are searched, and which of them hold which term.

    Attributes:
        kind: Name of the kind.
        span: First and last id.
        allowed: The ids of the span that count. None means all.
        total: How many rows count.
        postings: For each term that was looked up, the ids that hold it.
        excluded: Ids that hold a word which the query excludes.
        past: Entries as they were at `SearchRequest.at_ms`, by id. None means
            that rows are read as they are.
    """

    kind: str
    span: tuple[int, int]
    allowed: set[int] | None
    total: int
    postings: Postings
    excluded: frozenset[int] = frozenset()
    past: dict[int, Entry] | None = None

    def terms(self) -> list[Term]:
        """Return the terms that at least one row holds."""
        return [term for term, ids in self.postings.items() if ids]


class Vector(Record):
    """
    The embedded query.

    Attributes:
        data: float32 components as the file stores them.
        space_no: The embedding space to compare it in.
        model: Name of the model that made it.
        past: Cosines of past entries, whose vectors no space holds, by id.
    """

    data: bytes
    space_no: int
    model: str
    past: dict[int, float]
