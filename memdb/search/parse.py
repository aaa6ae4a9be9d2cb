"""
Parse stage: the arguments of `recall` as one checked request, and the question in parts.

`search_request` is the only place that checks the arguments; `parse_query`
finds words, phrases, named authors, dates and exclusions. The records of later
stages stand here too. Pure: no SQL, no clock.
"""

from __future__ import annotations

from memdb.english.dates import asked_days
from memdb.errors import InvalidInput
from memdb.models.messages import ROLES
from memdb.models.record import Record
from memdb.search.weights import GROUP_DEPTH, GROUP_ROWS
from memdb.text import regex as re
from memdb.text.canonical import fold
from memdb.text.terms import STOP_WORDS, content_words, query_words, spellings
from memdb.text.validate import (
    MAX_MS,
    MIN_MS,
    choice_value,
    flag_value,
    int_value,
    json_object,
    moment_ms,
    name_value,
    parse_json,
    share_value,
    text_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from memdb.english.calendar import DateMention, DaySpan

    Moment = int | datetime | None
    from memdb.engine.base import Postings, Tx
    from memdb.engine.branches import Run
    from memdb.models.entries import Entry
    from memdb.text.terms import Term

_ASKING_WORDS = """
    who whom whose what which when where why how is are was were do does did can could would should
    has
"""
_ASKING = frozenset(_ASKING_WORDS.split())
_ASKING_MARKS = ("?", "\uff1f", "\u061f", "\u037e")


# `-word`, `-"two words"`: not a minus between words or before a number.
_EXCLUDED = re.compile(r"""(?<!\S)-(?:"([^"]{1,200})"|([^\W\d_]\w*))""")
_QUOTED = re.compile(r"""["“«「]([^"“”«»「」]{3,200})["”»」]""")
# Words joined without a space: a path, a file name, an identifier, a version, a number.
# Possessive, from the first letter on: backing up takes quadratic time in a long word.
_JOINED = re.compile(r"(?<!\w)(?:\w++(?:[./:@#\\-]{1,2}\w++)+|_*+[^\W_]++_\w++)")
_MAX_PHRASES = 8
_PHRASE_CHARS = 10_000

# More marks upon one letter than any language has; signs and emoji are no part of words either.
_PILE = re.compile(r"([^\w\s\x00-\x7f]{64})[^\w\s\x00-\x7f]+")


class Query(Record):
    """
    A parsed query.

    Attributes:
        text: The query as it was given.
        words: All its words, lower case, each once, in order.
        content: The words to search for: without stop words, unless nothing else remains.
        authors: Authors of the scope that it names, spelt as they were passed in.
        dates: Days, months and years that it names, each once, in order.
        spans: Days that it counts from today, each once.
        bounds: All days before or after a time, for "before May".
        limits: The times that its bounds exclude; a text may name them too.
        phrases: Runs of words that belong together: in quotes, or joined as in `file_name.py`.
        excluded: Words that put what holds them last, from `-word`.
        is_question: It ends with a question mark or begins with an asking word.
        user: Words of the name of the scope's user that it holds: in a memory of
            theirs, they say little.
        misspelt: Words of *text* that stand for the word of an author's name. `words`
            holds that word in their place.
    """

    text: str
    words: tuple[str, ...]
    content: tuple[str, ...]
    authors: frozenset[str]
    dates: tuple[DateMention, ...]
    is_question: bool
    spans: tuple[DaySpan, ...] = ()
    bounds: tuple[DaySpan, ...] = ()
    limits: tuple[DaySpan, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[str, ...] = ()
    user: frozenset[str] = frozenset()
    misspelt: frozenset[str] = frozenset()

    def vector_text(self, drop: Collection[str] = ()) -> str:
        """
        Return the text to embed: without author names and without the words in *drop*.

        Names and words that stand in every other message draw the vector to all of them; leaving
        them out is worth 0.19 of recall at 10 on LoCoMo. Falls back to
        the whole text when no content word would remain.

        Args:
            drop: Words as in `words`, usually those in more than 15 % of the scope.

        >>> parse_query("What does Ann drink?", ["Ann"]).vector_text()
        'What does drink?'
        """
        gone = self.names().union(self.user, self.misspelt, drop)
        if not any(word not in gone and word not in STOP_WORDS for word in self.words):
            return self.text
        kept = [piece for piece in self.text.split() if not _only(piece, gone)]
        return " ".join(kept)

    @property
    def is_dated(self) -> bool:
        """Whether it names a time."""
        return bool(self.dates or self.spans or self.bounds)

    def names(self) -> set[str]:
        """Return the words of the authors that it names."""
        return {word for author in self.authors for word in query_words(author)}


def parse_query(
    text: str,
    authors: Sequence[str] = (),
    today: int | None = None,
    is_held: Callable[[str], bool] = lambda _word: False,
) -> Query:
    """
    Return the parsed query; never fails. Dates are read in the first 10,000 characters.

    A misspelt name counts as the name, see `misspelt_names`, and so does one without
    its accents.

    Cost: about 70 µs for a sentence, 20 ms for 100 KB.

    Args:
        text: The query.
        authors: Names of the authors in the scope; one is named when any word of it is.
        today: Days from 1 January 1970, for dates such as "last week". None means
            that those are not read.
        is_held: Says whether a word stands in the scope; it is asked of words that
            seem to be misspelt names, and one that stands there is none.

    >>> query = parse_query("What did Ann buy on May 3rd?", ["Ann Lee", "Bob"])
    >>> sorted(query.authors), query.dates
    (['Ann Lee'], (DateMention(year=None, month=5, day=3),))
    """
    clean = _without_piles(text)
    excluded = _excluded(clean)
    if excluded:
        clean = _EXCLUDED.sub(" ", clean)
    words = query_words(clean)
    asked = asked_days(text, today)
    if excluded and not words:  # nothing but exclusions: they are what is asked about
        excluded, clean = (), _without_piles(text)
        words = query_words(clean)
    names = {author: query_words(author) for author in authors}
    corrected = _unaccented(words, names.values())
    misspelt = misspelt_names(clean, words, names.values())
    corrected |= {
        word: name for word, name in misspelt.items() if word not in corrected and not is_held(word)
    }
    if corrected:
        words = list(dict.fromkeys(corrected.get(word, word) for word in words))
    return Query(
        text=text,
        words=tuple(words),
        content=tuple(content_words(words)),
        authors=_named(text, set(words), names, corrected.values()),
        dates=asked.dates,
        is_question=asks(text),
        spans=asked.spans,
        bounds=asked.bounds,
        limits=asked.limits,
        phrases=_phrases(clean),
        excluded=excluded,
        misspelt=frozenset(corrected),
    )


def asks(text: str) -> bool:
    """
    Say whether *text* asks something: a question mark at its end, or an asking word at its start.

    >>> [asks(text) for text in ("Tea?", "where is it", "It is here.")]
    [True, True, False]
    """
    if text.rstrip().endswith(_ASKING_MARKS):
        return True
    first = text.split(maxsplit=1)[:1]
    return bool(first) and first[0].lower() in _ASKING


def _named(
    text: str, words: set[str], names: Mapping[str, Sequence[str]], corrected: Collection[str]
) -> frozenset[str]:
    """Return the keys of *names* one of whose words is named: it is among *words*."""
    named: set[str] = set()
    capital: dict[str, bool] = dict.fromkeys(corrected, True)
    for author, parts in names.items():
        for part in parts:
            if part not in words:
                continue
            # "Will" and "May" are names only with a capital.
            if part in STOP_WORDS and part not in capital:
                capital[part] = re.search(rf"\b{part.capitalize()}\b", text) is not None
            if not capital.get(part, True):
                continue
            named.add(author)
            break
    return frozenset(named)


def _unaccented(words: Iterable[str], names: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return by word the word of *names* that it is but for accents or umlauts: jose is José."""
    parts = {part for name in names for part in name}
    plain = {
        spelling: part
        for part in parts
        if not part.isascii()
        for spelling in (fold(part), *spellings(part))
    }
    found = {word: plain[word] for word in words if word in plain}
    found |= {word: fold(word) for word in words if not word.isascii() and fold(word) in parts}
    return {word: part for word, part in found.items() if word not in parts}


def misspelt_names(
    text: str, words: Iterable[str], names: Iterable[Sequence[str]]
) -> dict[str, str]:
    """
    Return by misspelt word of *text* the word of *names* that is meant.

    A word of a name has one letter wrong, or two if it has more than six: another,
    missing, additional, or swapped with the next. The first letter is right, and no
    other name is as near. Short names, words in lower case among others with a
    capital, and words that English has are never taken for misspelt.

    Args:
        words: The words of *text*, as `query_words` gives them.
        names: The words of each name.

    Cost: 4 µs for a question in which no word resembles a name, 30 µs for one that does.

    >>> misspelt_names("What did Melonie buy?", ["what", "did", "melonie", "buy"], [["melanie"]])
    {'melonie': 'melanie'}
    """
    parts = {part for name in names for part in name}
    near = [part for part in parts if len(part) <= _MAX_NAME and part.isalpha()]
    initials = {part[0] for part in near if len(part) >= _MIN_NAME}
    found: dict[str, str] = {}
    if not initials:
        return found
    likely: Iterable[str] = words
    if not text.islower():
        capitals = {word.lower() for word in _CAPITALISED.findall(text[:_PHRASE_CHARS])}
        likely = [word for word in words if word in capitals]
    likely = [word for word in likely if word[0] in initials and word not in parts]
    for word in likely[:_MAX_MISSPELT]:
        if word.isalpha() and word not in STOP_WORDS:
            nearest = _nearest(word, near)
            if nearest is not None and not _is_english(word):
                found[word] = nearest
    return found


# Letters of a name: fewer make no misspelt name, from the second on two may be wrong.
_MIN_NAME = 4
_LONG_NAME = 7
_MAX_NAME = 32
_MAX_MISSPELT = 32
_CAPITALISED = re.compile(r"\b[A-Z]\w+|\b[^\W\d_\x00-\x7f]\w+")


def _nearest(word: str, names: Iterable[str]) -> str | None:
    """Return which of *names* is nearest to *word*. None if it is far, short or not alone."""
    found: dict[int, list[str]] = {}
    letters = set(word)
    for name in names:
        if name[0] != word[0]:
            continue
        most = 2 if len(name) >= _LONG_NAME else 1
        # An edit changes two letters of a word at most; the rest need no closer look.
        if (
            abs(len(name) - len(word)) <= most
            and len(letters.symmetric_difference(name)) <= 2 * most
        ):
            distance = _edits(word, name)
            if distance <= most:
                found.setdefault(distance, []).append(name)
    best = found[min(found)] if found else []
    return best[0] if len(best) == 1 and len(best[0]) >= _MIN_NAME else None


def _edits(first: str, second: str) -> int:
    """Return how many letters to change, add, leave out or swap make *first* into *second*."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for place, letter in enumerate(first):
        older, before, row = before, row, [place + 1]
        for column, other in enumerate(second):
            least = min(before[column] + (letter != other), before[column + 1] + 1, row[column] + 1)
            is_swap = (
                place and column and letter == second[column - 1] and other == first[place - 1]
            )
            row.append(min(least, older[column - 1] + 1) if is_swap else least)
    return row[-1]


def _is_english(word: str) -> bool:
    from memdb.embeddings.static_model import NO_ROW, table

    return table().row_of[word] != NO_ROW


def _without_piles(text: str) -> str:
    """Return *text* with long runs of marks cut: putting those in order takes quadratic time."""
    return text if text.isascii() else _PILE.sub(r"\1", text)


def _excluded(text: str) -> tuple[str, ...]:
    found = [
        word for pair in _EXCLUDED.findall(text) for part in pair for word in query_words(part)
    ]
    return tuple(dict.fromkeys(found))


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the runs of two and more words that are quoted or joined, each once."""
    pieces = _QUOTED.findall(text) + _JOINED.findall(text[:_PHRASE_CHARS])
    runs = [tuple(query_words(piece)) for piece in pieces[: 4 * _MAX_PHRASES]]
    return tuple(dict.fromkeys(run for run in runs if len(run) > 1))[:_MAX_PHRASES]


def _only(piece: str, gone: set[str]) -> bool:
    words = query_words(_without_piles(piece))
    return bool(words) and all(word in gone for word in words)


KINDS = ("message", "entry", "artifact", "summary", "item", "session")
"""Every kind of record that can be searched."""

DEFAULT_KINDS = ("message", "entry", "artifact", "session")
"""The kinds that are searched if a caller names none."""

WAYS = ("meaning", "words", "vector")
GROUPS = ("session",)
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
        at_ms: Answer as the file would have at this time. None means now.
        session: The session that asks: only its messages, artifacts and
            summaries, and the entries that it may recall. None means all sessions;
            then entries of a single session are left out.
        scope_entries: With *session*: False means only entries of that session.
        explain: Whether hits carry the terms of their score.
        by: One of `WAYS`; "words" uses neither vectors nor neighbouring messages,
            "vector" uses the cosine alone.
        rerank: Whether words of similar meaning count in the best messages.
        group: "session" returns sessions. None returns single records.
        depth: How many records of each kind are ranked.
        categories: Only entries of these categories. None means every category.
        roles, authors: Only messages of these. None means all.
        where: Only records whose metadata has these values, by top-level key.
            None means all.
        partition: Which entries: of the scope, of all users, or both.
        vector: Vector of the query, of the embedder's dimension. None means that
            the embedder makes it.
        min_score: Least score of a hit, 0 to 1. None means the floor of the file.
        item_filter: Returns the ids of the items of a scope that count. None means all.
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
    categories: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    authors: tuple[str, ...] | None = None
    where: dict[str, Any] | None = None
    partition: str = "both"
    vector: bytes | Sequence[float] | None = None
    min_score: float | None = None
    item_filter: Callable[[Tx, int], set[int]] | None = None

    @property
    def is_timed(self) -> bool:
        """Whether the request excludes a part of time."""
        return self.since_ms > MIN_MS or self.until_ms <= MAX_MS

    @property
    def has_message_filter(self) -> bool:
        """Whether the request excludes some messages by what stands in their rows."""
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
) -> SearchRequest:
    """
    Validate the arguments of a recall; see `Scope.recall` and `SearchRequest`.

    Raises:
        InvalidInput: an argument is out of range, contradicts *group*, or no
            kind is left that all filters apply to.
    """
    int_value(limit, "limit", 1, MAX_LIMIT)
    choice_value(partition, "partition", PARTITIONS)
    filters: dict[str, Any] = {
        "categories": _names(categories, "categories"),
        "roles": _names(roles, "roles", ROLES),
        "authors": _names(authors, "authors"),
        "where": parse_json(json_object(where, "where")) or None,
    }
    choice_value(by, "by", WAYS)
    if vector is not None and by == "words":
        raise InvalidInput("vector is given with by='words': use by='meaning' or 'vector'")
    kinds = _filtered_kinds(kinds_value(kinds), filters, partition=partition, by=by)
    if group is not None:
        kinds = _grouped_kinds(group, kinds, is_alone=session is None and not explain)
    if session is not None:
        name_value(session, "session")
    since_ms, until_ms = moment_ms(since, "since"), moment_ms(until, "until")
    at_ms = moment_ms(as_of, "as_of")
    end_ms = MAX_MS + 1 if until_ms is None else until_ms
    return SearchRequest(
        text=query_text(query),
        limit=limit,
        kinds=kinds,
        since_ms=MIN_MS if since_ms is None else since_ms,
        until_ms=end_ms if at_ms is None else min(end_ms, at_ms + 1),
        at_ms=at_ms,
        session=session,
        scope_entries=flag_value(scope_entries, "scope_entries"),
        explain=explain,
        by=by,
        rerank=rerank,
        group=group,
        depth=limit if group is None else min(MAX_LIMIT, max(GROUP_DEPTH, GROUP_ROWS * limit)),
        partition=partition,
        vector=vector,
        min_score=None if min_score is None else share_value(min_score, "min_score"),
        **filters,
    )


def _filtered_kinds(
    kinds: tuple[str, ...], filters: Mapping[str, object], *, partition: str, by: str
) -> tuple[str, ...]:
    """Return those of *kinds* that every filter which is given applies to."""
    given = [name for name, value in filters.items() if value is not None]
    given += ["partition"] if partition == "shared" else []
    given += ["by"] if by == "vector" else []
    left = tuple(kind for kind in kinds if all(kind in FILTERED_KINDS[name] for name in given))
    if kinds and not left:
        reach = "; ".join(f"{name} filters {' and '.join(FILTERED_KINDS[name])}" for name in given)
        raise InvalidInput(
            f"{' and '.join(given)} leave nothing of kinds {', '.join(kinds)} to search "
            f"({reach}): leave one out, or recall twice"
        )
    return left


def _grouped_kinds(group: str, kinds: tuple[str, ...], *, is_alone: bool) -> tuple[str, ...]:
    """Return the kinds that *group* groups; InvalidInput where it cannot."""
    if group not in GROUPS or not is_alone or "message" not in kinds:
        raise InvalidInput(
            f"group is {group!r}: 'session' groups messages, without session and explain"
        )
    return ("message", "session") if "session" in kinds else ("message",)


def _names(
    given: object, field: str, choices: tuple[str, ...] | None = None
) -> tuple[str, ...] | None:
    """Return a list of names, all of *choices* if those are given; None for None."""
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
            raise InvalidInput(f"kinds holds {kind!r}: use {', '.join(KINDS)}")
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
        own: First and last id of the scope's own entries, if they are searched.
        shared: First and last id of the scope that all users of the app share,
            if its entries are searched too.
        session: Id of the session that asks, 0 for one that does not exist.
            None means all.
        runs: Where its messages are; () without such a session.
        total: About how many messages the scope has.
        terms: Search terms, those that say most first.
        now_ms: The time for which entries are valid and faded, UTC milliseconds.
        half_lives_ms: By category, after what time an entry counts half.
        floor: Relevance from which on a ranking is an answer, 0 to 1.
    """

    request: SearchRequest
    query: Query
    scope_no: int | None
    span: tuple[int, int]
    own: tuple[int, int] | None
    shared: tuple[int, int] | None
    session: int | None
    total: int
    terms: list[Term]
    now_ms: int
    half_lives_ms: Mapping[str, int | None]
    floor: float
    runs: tuple[Run, ...] = ()


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
