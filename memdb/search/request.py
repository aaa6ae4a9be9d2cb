"""
Search requests: the arguments of `recall`, validated once, as one value.

`search_request` is the only place that checks them. The stages of
`memdb.search.service` take the `SearchRequest` that it returns.

Values that the stages of recall hand on: the question, what it searches, what was found.

Plain records without I/O. `memdb.search.retrieve` fills them, `memdb.search.rank`
and `memdb.search.load` read them.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.record import Record
from memdb.text.validate import MAX_MS, MIN_MS, int_value, moment_ms, name_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    Moment = int | datetime | None
    from collections.abc import Mapping

    from memdb.engine.base import Postings
    from memdb.models.messages import Entry
    from memdb.search.parse import Query
    from memdb.text.terms import Term

KINDS = ("message", "entry", "artifact", "summary")
"""Every kind of record that can be searched."""

DEFAULT_KINDS = ("message", "entry", "artifact")
"""The kinds that are searched if a caller names none."""

WAYS = ("meaning", "words")
GROUPS = ("session",)

MAX_LIMIT = 1_000
MAX_QUERY_CHARS = 1_000_000


class SearchRequest(Record):
    """
    A validated search, not yet bound to a scope.

    Attributes:
        text: The query, without characters that cannot be stored.
        limit: Most hits to return.
        kinds: In the order of `KINDS`.
        since_ms: Only records from this time on, UTC milliseconds, inclusive.
        until_ms: Only records before this time.
        at_ms: Answer as the file would have at this time. None means now.
        session: Only records of this session. None means all sessions.
        messages_of: Only messages of this session; other kinds are not limited.
        visible: Name of the session that asks: entries that only other sessions
            recall are left out. None means all entries.
        explain: Whether hits carry the terms of their score.
        by: One of `WAYS`; "words" uses neither vectors nor neighbouring messages.
        rerank: Whether words of similar meaning count in the best messages.
        group: "session" returns sessions. None returns single records.
        depth: How many records of each kind are ranked.
    """

    text: str
    limit: int
    kinds: tuple[str, ...]
    since_ms: int
    until_ms: int
    at_ms: int | None
    session: str | None
    messages_of: str | None
    visible: str | None
    explain: bool
    by: str
    rerank: bool
    group: str | None
    depth: int

    @property
    def is_timed(self) -> bool:
        """Whether the request excludes a part of time."""
        return self.since_ms > MIN_MS or self.until_ms <= MAX_MS


def search_request(
    query: str,
    limit: int = 10,
    *,
    kinds: Sequence[str] = DEFAULT_KINDS,
    since: Moment = None,
    until: Moment = None,
    session: str | None = None,
    messages_of: str | None = None,
    visible: str | None = None,
    explain: bool = False,
    by: str = "meaning",
    rerank: bool = True,
    group: str | None = None,
    as_of: Moment = None,
) -> SearchRequest:
    """
    Validate the arguments of a recall; see `Scope.recall` and `SearchRequest`.

    Raises:
        InvalidInput: an argument is out of range, or contradicts *group*.
    """
    text = query_text(query)
    int_value(limit, "limit", 1, MAX_LIMIT)
    kinds = kinds_value(kinds)
    if by not in WAYS:
        raise InvalidInput(f"by is {by!r}: use {' or '.join(map(repr, WAYS))}")
    if group is not None:
        if group not in GROUPS or session is not None or explain or "message" not in kinds:
            raise InvalidInput(
                f"group is {group!r}: 'session' groups messages, without session and explain"
            )
        kinds = ("message",)
    if session is not None:
        name_value(session, "session")
    since_ms, until_ms = moment_ms(since, "since"), moment_ms(until, "until")
    at_ms = moment_ms(as_of, "as_of")
    end_ms = MAX_MS + 1 if until_ms is None else until_ms
    return SearchRequest(
        text=text,
        limit=limit,
        kinds=kinds,
        since_ms=MIN_MS if since_ms is None else since_ms,
        until_ms=end_ms if at_ms is None else min(end_ms, at_ms + 1),
        at_ms=at_ms,
        session=session,
        messages_of=messages_of,
        visible=visible,
        explain=explain,
        by=by,
        rerank=rerank,
        group=group,
        depth=limit if group is None else MAX_LIMIT,
    )


def kinds_value(kinds: object) -> tuple[str, ...]:
    """Return *kinds* in the order of `KINDS`; InvalidInput for an unknown one."""
    if not isinstance(kinds, (list, tuple, set, frozenset)):
        raise InvalidInput(f"kinds is {kinds!r}: give a list of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"kinds holds {kind!r}: use {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


def query_text(text: object) -> str:
    """
    Return *text* without NUL and lone surrogates, which no stored text holds.

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
