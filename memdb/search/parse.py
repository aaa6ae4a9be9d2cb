"""
Parse stage: the question in parts.

`parse_query` finds words, phrases, named authors and dates. The records of later
stages stand here too. Pure: no SQL, no clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memdb.embeddings.static_model import NO_ROW, table
from memdb.facts.wording import fold, recognise
from memdb.models.record import Record
from memdb.search.asked_time import read_time
from memdb.text.resources import compiled
from memdb.text.terms import (
    MAX_PHRASES,
    STOP_WORDS,
    content_words,
    has_cjk,
    phrase_terms,
    query_words,
    quoted_runs,
    spellings,
    word_terms,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memdb.facts.calendar import DateMention, DaySpan

    Moment = int | datetime | None
    # First and last millisecond of a time that is asked for; the last one is outside.
    Window = tuple[int, int]
    from memdb.engine.base import Postings
    from memdb.engine.branches import Run
    from memdb.models.entries import Entry
    from memdb.search.request import SearchRequest
    from memdb.text.terms import Term

KEYWORDS = 4
"""Words up to which a query that asks nothing is one of keywords."""

_ASKING_WORDS = """
    who whom whose what which when where why how is are was were do does did can could would should
    has
"""
_ASKING = frozenset(_ASKING_WORDS.split())
_FIRST_WORD = r"\s*+([A-Za-z]++)(?!\S)"
STATING_MARKS = (".", "!", "\u3002", "\uff01")
ASKING_MARKS = ("?", "\uff1f", "\u061f", "\u037e")


# Words joined without a space: a path, a file name, an identifier, a version, a number; and a flag
# with the word before it.
# Possessive, from the first letter on: backing up takes quadratic time in a long word.
_JOINED = r"(?<!\w)(?:\w++(?:[./:@#\\-]{1,2}\w++)+|_*+[^\W_]++_\w++|\w++ -{1,2}\w++)"
_PHRASE_CHARS = 10_000

# More marks upon one letter than any language has; signs and emoji are no part of words either.
_PILE = r"([^\w\s\x00-\x7f]{64})[^\w\s\x00-\x7f]+"


class Query(Record):
    """
    A parsed query.

    Attributes:
        text: The query as it was given.
        words: All its words in lower case, each once, in order.
        content: The words to search for: without stop words, unless no others remain.
        asked: The same, but pairs of characters for a script without spaces.
        authors: Authors of the scope that it names, spelt as they were passed in.
        dates: Days, months and years that it names, each once, in order.
        spans: Spans of days relative to today, each once.
        bounds: Open spans before or after a time, as in "before May".
        limits: The times that its bounds exclude; a text may name them too.
        phrases: Runs of words that belong together: quoted, or joined as in `file_name.py`.
        is_question: Whether it ends with a question mark or begins with an asking word.
        user: Its words that are in the name of the scope's user; in that user's memory they say
            little.
        is_time: Whether it has no topic but a time, if any: "what did we do yesterday?".
        identifiers: Words of the names and identifiers that it asks about, in the form that texts
            have.
        misspelt: Words of *text* that are an author's name without its accents. `words` contains
            the name instead.
    """

    text: str
    words: tuple[str, ...]
    content: tuple[str, ...]
    asked: tuple[str, ...]
    authors: frozenset[str]
    dates: tuple[DateMention, ...]
    is_question: bool
    spans: tuple[DaySpan, ...] = ()
    bounds: tuple[DaySpan, ...] = ()
    limits: tuple[DaySpan, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    user: frozenset[str] = frozenset()
    misspelt: frozenset[str] = frozenset()
    identifiers: tuple[str, ...] = ()
    is_time: bool = False

    def vector_text(self, drop: Collection[str] = ()) -> str:
        """
        Return the text to embed, without names of authors and of the user and the words in *drop*.

        Names, and words of many messages, pull the vector towards all messages. Leaving them out
        adds 0.19 to R@10 on LoCoMo. If no content word would remain, the whole text is used.

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

    def exact_terms(self) -> list[Term]:
        """
        Return the terms of numbers and identifiers that an answer must contain.

        A statement of many words states a number and asks for none; a date is compared instead.
        """
        if self.is_dated or not (self.is_question or len(self.words) <= KEYWORDS):
            return []
        runs = [run for run in self.phrases if any(map(compiled(_HAS_DIGIT).search, run))]
        joined = {word for run in runs for word in run}
        words = [
            word
            for word in self.words
            if word not in joined and compiled(_IDENTIFIER).fullmatch(word)
        ]
        return phrase_terms(runs) + word_terms(words)

    def names(self) -> set[str]:
        """Return the words of the authors that it names."""
        return {word for author in self.authors for word in query_words(author)}


def parse_query(
    text: str,
    authors: Sequence[str] = (),
    today: int | None = None,
) -> Query:
    """
    Return the parsed query; never fails. Dates are read in the first 10,000 characters.

    A name without its accents counts as the name.

    Cost: about 70 µs for a sentence, 20 ms for 100 KB.

    Args:
        text: The query.
        authors: Names of the authors in the scope; one is named when any word of it is.
        today: Days from 1 January 1970, for dates such as "last week". None means that such dates
            are not read.

    >>> query = parse_query("What did Ann buy on May 3rd?", ["Ann Lee", "Bob"])
    >>> sorted(query.authors), query.dates
    (['Ann Lee'], (DateMention(month=5, day=3),))
    """
    clean = _without_piles(text)
    words = query_words(clean)
    time = read_time(text, today)
    asked = time.asked
    names = {author: query_words(author) for author in authors}
    corrected = _unaccented(words, names.values())
    if corrected:
        words = list(dict.fromkeys(corrected.get(word, word) for word in words))
    content = content_words(words)
    content = list(content if asked.is_empty else _topics(content))
    return Query(
        text=text,
        words=tuple(words),
        content=tuple(content),
        asked=tuple(_pairs(content)),
        authors=_named(text, set(words), names, corrected.values()),
        dates=asked.dates,
        is_question=asks(text),
        spans=asked.spans,
        bounds=asked.bounds,
        limits=asked.limits,
        phrases=_phrases(clean),
        misspelt=frozenset(corrected),
        identifiers=_identifiers(clean, words) if asks(text) else (),
        is_time=time.is_all,
    )


def _pairs(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield from (
            ("".join(term.words) for term in word_terms([word])) if has_cjk(word) else (word,)
        )


def _topics(words: Sequence[str]) -> tuple[str, ...]:
    """Return *words* without those of a date, which is compared instead of searched for."""
    return tuple(word for word in words if not compiled(_DATE_WORD).fullmatch(word)) or tuple(words)


def asks(text: str) -> bool:
    """
    Return whether *text* asks: it ends with a question mark, or starts with an asking word.

    >>> [asks(text) for text in ("Tea?", "where is it", "It is here.")]
    [True, True, False]
    """
    if text.rstrip().endswith(ASKING_MARKS):
        return True
    first = compiled(_FIRST_WORD).match(text)
    return first is not None and first[1].lower() in _ASKING


def only_asks(text: str) -> bool:
    """
    Return whether every sentence of *text* asks; a sentence that ends as a statement does not.

    >>> [
    ...     only_asks(text)
    ...     for text in ("Tea?", "where is it", "It is gone. Why?", "When I sat, I fell.")
    ... ]
    [True, True, False, False]
    """
    return asks(text) and not any(f"{mark} " in f"{text} " for mark in STATING_MARKS)


def _named(
    text: str, words: set[str], names: Mapping[str, Sequence[str]], corrected: Collection[str]
) -> frozenset[str]:
    """Return the keys of the *names* that have a word among *words*."""
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


# Least letters of a misspelt name; from `_LONG_NAME` on, two may be wrong.
_MIN_NAME = 4
_LEAST_NAME = 3  # of a name that no text holds
_LONG_NAME = 7
_CAPITALISED = r"\b[A-Z]\w+|\b[^\W\d_\x00-\x7f]\w+"


def _identifiers(text: str, words: Collection[str]) -> tuple[str, ...]:
    """
    Return the words of a question that are only names: proper names and identifiers.

    German writes all nouns with a capital, so there only a digit shows a name.
    """
    text = text[:_PHRASE_CHARS]
    found = {word for word in words if compiled(_IDENTIFIER).fullmatch(word)}
    if not (text.isupper() or recognise(text) == "de"):
        pieces = compiled(_CAPITALISED).finditer(text)
        named = [
            word
            for piece in pieces
            if piece[0][0].isupper() and not _begins_sentence(text, piece.start())
            for word in query_words(piece[0])
        ]
        found.update(word for word in named if word not in STOP_WORDS and len(word) >= _LEAST_NAME)
    return tuple(
        word for word in words if word in found and not compiled(_DATE_WORD).fullmatch(word)
    )


_HAS_DIGIT = r"\d"
_IDENTIFIER = r"(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{4,}|\d{3,}"
_DATE_WORD = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*|(?:mon|tues|wednes|thurs|fri"
    r"|satur|sun)days?|(?:1[89]|20)\d\d|\d{1,2}(?:st|nd|rd|th)?"
)


def _begins_sentence(text: str, place: int) -> bool:
    before = text[:place].rstrip(" \"'([«„“¿¡")
    return not before or before[-1] in ".!?:;\n…。"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return which of *names* is nearest to *word*. None if it is far, short or ambiguous."""
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
    """Return how many letters to change, add, leave out or swap to turn *first* into *second*."""
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


def is_english(word: str) -> bool:
    """Return whether the built-in table has *word*."""
    return table().row_of[word] != NO_ROW


def _without_piles(text: str) -> str:
    """Return *text* with long runs of marks cut, because sorting those takes quadratic time."""
    return text if text.isascii() else compiled(_PILE).sub(r"\1", text)


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the runs of two and more words that are quoted or joined, each once."""
    joined = compiled(_JOINED).findall(text[:_PHRASE_CHARS])
    runs = quoted_runs(text) + [tuple(query_words(piece)) for piece in joined[: 4 * MAX_PHRASES]]
    return tuple(dict.fromkeys(run for run in runs if len(run) > 1))[:MAX_PHRASES]


def _only(piece: str, gone: set[str]) -> bool:
    words = query_words(_without_piles(piece))
    return bool(words) and all(word in gone for word in words)


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
        session: Id of the session of the request, 0 for one that does not exist. None means all.
        runs: The rows with its messages; () without such a session.
        total: Approximate number of messages in the scope.
        terms: Search terms, the most significant first.
        now_ms: The time at which validity and decay of entries are evaluated, UTC milliseconds.
        half_lives_ms: By category, the age at which an entry counts half.
        unknown_names: Names and identifiers of the query that no text contains.
        texts: Number of searched texts of all kinds.
        windows: Days that are asked for, each with its end.
        is_listing: Whether the answer is a list of those days, the newest first.
        people: The authors of its messages.
        by_passages: Passages of artifacts are compared by meaning too.
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
    runs: tuple[Run, ...] = ()
    unknown_names: tuple[str, ...] = ()
    texts: int = 0
    windows: tuple[Window, ...] = ()
    is_listing: bool = False
    people: Sequence[str] = ()
    by_passages: bool = False


class Corpus(Record):
    """
    The searched rows of one kind, and the terms that each contains.

    Attributes:
        kind: Name of the kind.
        span: First and last id.
        allowed: The ids of the span that count. None means all.
        total: How many rows count.
        postings: For each term that was looked up, the ids that contain it.
        excluded: Ids that contain a word excluded by the request.
        past: Entries as they were at `SearchRequest.at_ms`, by id. None means that current rows are
            read.
        passages: Beginnings of artifacts to compare by meaning, by id; once compared, the nearest
            passage of each.
    """

    kind: str
    span: tuple[int, int]
    allowed: set[int] | None
    total: int
    postings: Postings
    excluded: frozenset[int] = frozenset()
    past: dict[int, Entry] | None = None
    passages: Mapping[int, str] = {}

    def terms(self) -> list[Term]:
        """Return the terms that at least one row contains."""
        return [term for term, ids in self.postings.items() if ids]


class Vector(Record):
    """
    The embedded query.

    Attributes:
        data: float32 components as the file stores them.
        space_no: The embedding space of the vector.
        model: Name of the model that made it.
        past: Cosines of past entries, whose vectors no space holds, by id.
        near: Of artifacts the cosine of the nearest passage, and that passage, by id.
    """

    data: bytes
    space_no: int
    model: str
    past: dict[int, float]
    near: Mapping[int, tuple[float, str]] = {}
