"""
Search request: the checked arguments of `recall`. Only `search_request` checks them.

Pure: no SQL, no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.fields import DEFAULT_KINDS
from memdb.models.messages import ROLES
from memdb.models.record import Record
from memdb.text.terms import query_words
from memdb.text.validate import (
    MAX_MS,
    MIN_MS,
    choice_value,
    flag_value,
    int_value,
    json_object,
    moment_ms,
    name_value,
    optional_name,
    parse_json,
    share_value,
    span_value,
    text_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from memdb.engine.base import Tx

    Moment = int | datetime | None

GROUP_DEPTH = 200
"""Messages that are ranked for an answer of sessions; 1,000 find the same in twice the time."""

GROUP_ROWS = 10
"""The same for each session that is asked for, if that is more."""

KINDS = ("message", "entry", "artifact", "summary", "item", "session")
"""Every kind of record that can be searched."""

WAYS = ("meaning", "words", "vector")
GROUPS = ("session",)
CUTS = ("auto",)
PARTITIONS = ("both", "own", "shared")

FILTERED_KINDS = {
    "categories": ("entry",),
    "roles": ("message",),
    "authors": ("message",),
    "where": ("message", "entry"),
    "partition": ("entry",),
    "by": ("message", "entry", "item"),
}
"""The kinds that a filter can apply to; it leaves out the others."""

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
        at_ms: Answer as the file would have answered at this time. None means now.
        session: The session of the request: only its messages, artifacts and summaries, and the
            entries that it may recall. None means all sessions; then entries of a single session
            are left out.
        scope_entries: With *session*: False means only entries of that session.
        scope_messages: With *session*: messages of all sessions, except of its own branches that it
            does not share.
        explain: Whether hits have the terms of their score.
        by: One of `WAYS`; "words" uses neither vectors nor neighbouring messages,
            "vector" uses the cosine alone.
        rerank: Whether words of similar meaning are compared in the best messages.
        group: "session" returns sessions. None returns single records.
        depth: Number of ranked records of each kind.
        categories: Only entries of these categories. None means every category.
        roles, authors: Only messages with one of these. None means all.
        where: Only records whose metadata has these values, by top-level key.
            None means all.
        partition: Entries of the scope, of all users, or of both.
        vector: Vector of the query, of the embedder's dimension. None means that the embedder
            computes it.
        min_score: Least score of a hit, 0 to 1. None means what `certainty` keeps.
        only_sure: Whether only sure hits are returned.
        cut: "auto" leaves out hits that score far less than the best. None keeps it.
        item_filter: Returns the ids of the items of a scope to search. None means all.
        count_use: False writes nothing, neither counts of use nor due embeddings.
        prefix: Whether the last word of the text is only the beginning of a word.
        exclude: Words that no hit may contain.
    """

    text: str
    limit: int
    kinds: tuple[str, ...]
    since_ms: int
    until_ms: int
    at_ms: int | None
    session: str | None
    explain: bool
    by: str
    rerank: bool
    group: str | None
    depth: int
    scope_entries: bool = True
    scope_messages: bool = False
    categories: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    authors: tuple[str, ...] | None = None
    where: dict[str, Any] | None = None
    partition: str = "both"
    vector: bytes | Sequence[float] | None = None
    min_score: float | None = None
    only_sure: bool = False
    cut: str | None = None
    item_filter: Callable[[Tx, int], set[int]] | None = None
    count_use: bool = True
    prefix: bool = False
    exclude: tuple[str, ...] = ()

    @property
    def is_timed(self) -> bool:
        """Whether the request excludes some times."""
        return self.since_ms > MIN_MS or self.until_ms <= MAX_MS

    @property
    def is_of_session(self) -> bool:
        """Whether only messages of one session are searched."""
        return self.session is not None and not self.scope_messages

    @property
    def has_message_filter(self) -> bool:
        """Whether the request excludes some messages by the values in their rows."""
        given = (self.roles, self.authors, self.where)
        return self.is_timed or any(value is not None for value in given)


def search_request(
    query: str,
    limit: int = 10,
    *,
    kinds: Sequence[str] = DEFAULT_KINDS,
    since: Moment = None,
    until: Moment = None,
    session: str | None = None,
    scope_entries: bool = True,
    explain: bool = False,
    by: str = "meaning",
    rerank: bool = True,
    group: str | None = None,
    as_of: Moment = None,
    categories: Sequence[str] | None = None,
    roles: Sequence[str] | None = None,
    authors: Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    partition: str = "both",
    vector: bytes | Sequence[float] | None = None,
    min_score: float | None = None,
    only_sure: bool = False,
    cut: str | None = None,
    count_use: bool = True,
    prefix: bool = False,
    exclude: Sequence[str] = (),
) -> SearchRequest:
    """
    Validate the arguments of a recall; see `Scope.recall` and `SearchRequest`.

    Raises:
        InvalidInput: an argument is out of range or contradicts *group*, or no kind accepts all
            filters.
    """
    int_value(limit, "limit", 0, MAX_LIMIT)
    choice_value(partition, "partition", PARTITIONS)
    filters: dict[str, Any] = {
        "categories": _names(categories, "categories"),
        "roles": _names(roles, "roles", ROLES),
        "authors": _names(authors, "authors"),
        "where": parse_json(json_object(where, "where")) or None,
    }
    _check_way(by, vector)
    kinds = _filtered_kinds(kinds_value(kinds), filters, partition=partition, by=by)
    if group is not None:
        kinds = _grouped_kinds(group, kinds, is_alone=session is None and not explain)
    optional_name(session, "session")
    since_ms, until_ms, at_ms = times_of(since, until, as_of)
    return SearchRequest(
        text=query_text(query),
        limit=limit,
        kinds=kinds,
        since_ms=since_ms,
        until_ms=until_ms,
        at_ms=at_ms,
        session=session,
        scope_entries=flag_value(scope_entries, "scope_entries"),
        explain=flag_value(explain, "explain"),
        by=by,
        rerank=flag_value(rerank, "rerank"),
        group=group,
        depth=limit if group is None else min(MAX_LIMIT, max(GROUP_DEPTH, GROUP_ROWS * limit)),
        partition=partition,
        vector=vector,
        min_score=None if min_score is None else share_value(min_score, "min_score"),
        only_sure=flag_value(only_sure, "only_sure"),
        cut=None if cut is None else choice_value(cut, "cut", CUTS),
        count_use=flag_value(count_use, "count_use"),
        prefix=flag_value(prefix, "prefix"),
        exclude=_excluded(exclude),
        **filters,
    )


def _check_way(by: object, vector: object) -> None:
    if choice_value(by, "by", WAYS) == "words" and vector is not None:
        raise InvalidInput("vector is given with by='words': use by='meaning' or 'vector'")


def times_of(since: Moment, until: Moment, as_of: Moment) -> tuple[int, int, int | None]:
    """
    Return `since_ms`, `until_ms` and `at_ms` of a request.

    Raises:
        InvalidInput: one is not a time, or the end is before the beginning.
    """
    since_ms, end_ms = span_value(moment_ms(since, "since"), moment_ms(until, "until"))
    at_ms = moment_ms(as_of, "as_of")
    return since_ms, end_ms if at_ms is None else min(end_ms, at_ms + 1), at_ms


def _excluded(given: object) -> tuple[str, ...]:
    """Return the words in a list of texts."""
    texts = _names(given, "exclude") or ()
    words = {text: query_words(text) for text in texts}
    for text, found in words.items():
        if not found:
            raise InvalidInput(f"exclude contains {text!r}, which has no word: leave it out")
    return tuple(dict.fromkeys(word for found in words.values() for word in found))


def _filtered_kinds(
    kinds: tuple[str, ...], filters: Mapping[str, object], *, partition: str, by: str
) -> tuple[str, ...]:
    """Return the *kinds* to which every given filter applies."""
    given = [name for name, value in filters.items() if value is not None]
    given += ["partition"] if partition == "shared" else []
    given += ["by"] if by == "vector" else []
    left = tuple(kind for kind in kinds if all(kind in FILTERED_KINDS[name] for name in given))
    if kinds and not left:
        reach = "; ".join(f"{name} is for {' and '.join(FILTERED_KINDS[name])}" for name in given)
        raise InvalidInput(
            f"kinds {', '.join(kinds)} cannot be searched with {' and '.join(given)} ({reach}): "
            "remove one of these arguments, or recall twice"
        )
    return left


def _grouped_kinds(group: str, kinds: tuple[str, ...], *, is_alone: bool) -> tuple[str, ...]:
    """Return the kinds for *group*; InvalidInput if it cannot be used."""
    if group not in GROUPS or not is_alone or "message" not in kinds:
        raise InvalidInput(
            f"group is {group!r}: only 'session' is allowed; it groups messages, and cannot be "
            "used with session or explain"
        )
    return ("message", "session") if "session" in kinds else ("message",)


def _names(
    given: object, field: str, choices: tuple[str, ...] | None = None
) -> tuple[str, ...] | None:
    """Return a list of names, all from *choices* if those are given; None for None."""
    if given is None:
        return None
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise InvalidInput(f"{field} is {given!r}: give a list of names")
    if choices is not None:
        return tuple(choice_value(name, field, choices) for name in given)
    return tuple(name_value(name, field) for name in given)


def kinds_value(kinds: object) -> tuple[str, ...]:
    """Return *kinds* in the order of `KINDS`; InvalidInput for an unknown one."""
    if not isinstance(kinds, (list, tuple, set, frozenset)):
        raise InvalidInput(f"kinds is {kinds!r}: give a list of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"kinds contains {kind!r}: use {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


def has_metadata(metadata: Mapping[str, Any] | None, where: Mapping[str, Any]) -> bool:
    """
    Return whether *metadata* has every value of *where*; a number never equals a bool.

    >>> has_metadata({"n": 1, "of": "tea"}, {"n": 1}), has_metadata({"n": True}, {"n": 1})
    (True, False)
    """
    return metadata is not None and all(
        key in metadata
        and metadata[key] == value
        and isinstance(metadata[key], bool) == isinstance(value, bool)
        for key, value in where.items()
    )


def query_text(text: object) -> str:
    """
    Return *text* without NUL and lone surrogates, which no stored text contains.

    Raises:
        InvalidInput: *text* is not a str, or longer than 1,000,000 characters.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"query is {type(text).__name__}: give a str")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput(f"query has {len(text):,} characters: give fewer than a million")
    clean = text.replace("\0", " ")
    if not clean.isascii():
        clean = clean.encode("utf-8", "replace").decode()
    return text_value(clean, "query")
