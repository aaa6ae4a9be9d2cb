"""
Find the time in a question, in the languages of `times.json`, and what else it asks for.

`memdb.facts.dates` reads English and ISO dates. This module adds weekdays, dates in figures and the
words of other languages ("gestern", "la semaine dernière", "9月15日"). It also tells whether a
question asks for more than the time; "what did we talk about yesterday?" does not. All functions
are pure.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from memdb.facts.calendar import (
    EPOCH,
    MONTHS,
    WEEKDAYS,
    AskedDays,
    DateMention,
    DaySpan,
    days_of,
    period_of,
    span_of,
)
from memdb.facts.dates import asked_days
from memdb.facts.wording import recognise
from memdb.models.record import Record
from memdb.search.words import word_weight
from memdb.text.resources import compiled, read_json
from memdb.text.terms import STOP_WORDS, has_cjk, query_words

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC = 0.35
"""Weight from which on a word of another language than English is a topic, not grammar."""

PARTICLE = 2
"""Letters up to which a word of another language than English is grammar: qu', je, du."""

_LAST_DAY = (date(9998, 12, 31) - EPOCH).days
_CHARS = 1_000
_WEEK, _YEAR, _MARGIN = 7, 366, 3
_SENTENCE = 3
_UNITS = {"w": "week", "m": "month", "y": "year"}
_MONTHS = 12

_TALK = (
    "talk talked talking discuss discussed discussing speak spoke spoken chat chatted mention "
    "mentioned conversation conversations happen happens happened going thing things "
    "message messages latest recent recently newest most anything something everything remember "
    "write wrote written note noted"
)
# What a date is written with in English; the date of a message answers it, not its words.
_DATE_WORDS = frozenset(
    "today yesterday tonight day days week weeks month months year years weekend weekends last ago "
    "past spring summer autumn winter morning evening afternoon couple few two three four five six "
    "seven since until before after between earlier".split()
).union(WEEKDAYS)
_MONTH_STEMS = frozenset(name[:3] for name in MONTHS)
_LATEST = r"(?i)\b(?:last|latest|newest|most recent) (?:thing|message|chat|conversation)s?\b"
_WEEKDAY = rf"\b({'|'.join(WEEKDAYS)})\b"
_PAST_WEEKDAY = rf"\b(on|last|this|since) ({'|'.join(WEEKDAYS)})\b"
_BEFORE_LAST = r"(?i)\b(week|weekend|month|year) before last\b"
_SAME = ((r"(?i)\bago today\b", "ago"), (r"(?i)\ba fortnight\b", "two weeks"))
_EXACT = r"(?i)\bago today\b|\bexactly .*\bago\b"
_WEEKEND = r"(?i)\b(?:over|at|on) the (weekend)\b"
_FIGURES = r"(?<![\d./-])(\d{1,2})([./])(\d{1,2})(?:\2(\d{4})|\2?)(?![\d./]\d)"


class AskedTime(Record):
    """
    The time that a question names.

    Attributes:
        asked: The days.
        is_all: Whether it asks for nothing but the time, if it names one.
    """

    asked: AskedDays
    is_all: bool


def read_time(text: str, today: int | None) -> AskedTime:
    """
    Return the time in *text*, counted from *today*, days from 1 January 1970.

    >>> read_time("Was haben wir gestern besprochen?", 1_000).asked.spans
    (DaySpan(first=999, last=999),)
    """
    if today is None or not 0 < today < _LAST_DAY or len(text) > _CHARS:
        return AskedTime(asked_days(text, today), is_all=False)
    day = EPOCH + timedelta(days=today)
    is_exact = compiled(_EXACT).search(text) is not None
    for pattern, same in _SAME:
        text = compiled(pattern).sub(same, text)
    periods: list[DaySpan] = []
    for pattern, step in ((_BEFORE_LAST, -2), (_WEEKEND, -1)):
        found = compiled(pattern).findall(text)
        periods += [span_of(*period_of(unit.lower(), day, step)) for unit in found]
        text = compiled(pattern).sub(" ", text) if found else text
    asked = asked_days(text, today)
    rest = text.lower()
    language = recognise(text)
    if language == "en" and asked.is_empty and len(text.split()) < _SENTENCE:
        language = _language_of_time(rest, day)
    if language == "en":
        found = [_past_weekday(match, day) for match in compiled(_PAST_WEEKDAY).finditer(rest)]
        spans = found if asked.is_empty else []
        if is_exact:
            asked = asked.replace(spans=tuple(map(_middle, asked.spans)))
        asked = _in_week(asked, periods, rest)
        if compiled(_LATEST).search(rest):
            spans.append(DaySpan(0, today))
        dates: list[DateMention] = []
    else:
        spans, dates, rest = _read(language, rest, day)
    rest, figures = _read_figures(rest)
    known = {(one.month, one.day) for one in (*dates, *figures)}
    dates = [*figures, *dates]
    # English reads some words of other languages in part: "15. September" without its day.
    own = [one for one in asked.dates if not (known and one.day is None)]
    asked = asked.replace(
        spans=tuple(dict.fromkeys((*asked.spans, *periods, *spans))),
        dates=tuple(dict.fromkeys((*dates, *own))),
    )
    # A word or two are a topic, in whatever language they seem to be.
    is_short = asked.is_empty and bool(text.strip()) and len(text.split()) < _SENTENCE
    return AskedTime(asked, not (is_short or _topics(rest, language)))


def _middle(span: DaySpan) -> DaySpan:
    """Return the middle day of a week or less; a longer *span* unchanged."""
    middle = (span.first + span.last) // 2
    return span if span.last - span.first >= _WEEK else DaySpan(middle, middle)


def _in_week(asked: AskedDays, periods: list[DaySpan], text: str) -> AskedDays:
    """Return *asked* with the weekdays that *text* names, "Tuesday last week", for their week."""
    places = [WEEKDAYS.index(name) for name in compiled(_WEEKDAY).findall(text)]
    weeks = [span for span in (*asked.spans, *periods) if span.last - span.first == _WEEK - 1]
    if not (places and len(weeks) == 1):
        return asked
    periods.clear()
    week = weeks[0].first
    return asked.replace(spans=(DaySpan(week + min(places), week + max(places)),))


def is_date_word(word: str) -> bool:
    """Return whether an English date contains *word*, in lower case."""
    is_month = word[:3] in _MONTH_STEMS and word.isascii() and word.isalpha()
    number = word[:-2] if word.endswith(("st", "nd", "rd", "th")) else word
    return is_month or word in _DATE_WORDS or number.isdecimal()


def windows(asked: AskedDays, today: int) -> list[DaySpan]:
    """
    Return the days that are asked for.

    A date without a year means the last one up to *today*.
    """
    found = [*asked.spans, *asked.bounds]
    for mention in asked.dates:
        days = days_of(mention, DaySpan(today - _YEAR, today))
        if mention.day is not None:
            days = [span for span in days if span.first == span.last]
        begun = [span for span in days if span.first <= today]
        found += begun[-1:] or days[:1]
    return found


@cache
def _times() -> dict[str, dict[str, Any]]:
    """Return the words of time by language."""
    return dict(read_json(__file__, "times.json"))


def _language_of_time(text: str, day: date) -> str:
    """Return the language in which *text*, a word or two, is only a time."""
    for language in _times():
        spans, dates, rest = _read(language, text, day)
        if (spans or dates) and not query_words(rest):
            return language
    return "en"


def _topics(rest: str, language: str) -> list[str]:
    """Return the topic words of a question without its times."""
    if language != "en" and has_cjk(rest):
        left = re.sub(r"[\W\d_]+", "", rest)
        return [left] if len(left) > 1 else []
    talk = frozenset(_TALK.split()) if language == "en" else frozenset()
    return [
        word
        for word in query_words(rest)
        if word not in talk
        and (language == "en" or len(word) > PARTICLE)
        and not (language == "en" and is_date_word(word))
        and (word not in STOP_WORDS if language == "en" else word_weight(word, language) > TOPIC)
    ]


def _read(language: str, text: str, day: date) -> tuple[list[DaySpan], list[DateMention], str]:
    """Return the times of *text* in a language of `times.json`, and the rest of the text."""
    known = _times().get(language)
    if known is None:
        return [], [], text
    spans: list[DaySpan] = []
    dates: list[DateMention] = []
    has_spaces = language not in ("zh", "ja", "ko")

    def take(words: Iterable[str], read: object) -> None:
        nonlocal text
        for match in _pattern(tuple(words), has_spaces).finditer(text):
            read(match)  # type: ignore[operator]  # a function of the row
        text = _pattern(tuple(words), has_spaces).sub(" ", text)

    unit, last, this = known["unit"], known["last"].split(), known["this"].split()
    for step, leads in ((-1, last), (0, this)):
        one, other = _any(leads), _any(unit)
        gap = r"\s+" if has_spaces else r"\s*"
        pattern = compiled(rf"{one}{gap}{other}|{other}{gap}{one}")
        for match in pattern.finditer(text):
            name = max((word for word in unit if word in match[0]), key=len)
            spans.append(span_of(*period_of(_UNITS[unit[name]], day, step)))
        text = pattern.sub(" ", text)
    # vor drei Tagen, hace dos semanas, 3日前
    steps, counts = known["steps"], [names.split("|") for names in known["numbers"].split()]
    numbers = {name: place for place, names in enumerate(counts, start=1) for name in names}
    gap, edges = (r"\s+", (r"(?<!\w)", r"(?!\w)")) if has_spaces else (r"\s*", ("", ""))
    counted = rf"(?<![\d月])(?P<count>\d{{1,3}}|{_any(numbers)}){gap}(?P<step>{_any(steps)})"
    before, _, after = known["ago"].partition("{}")
    about = r"(?:\w+\s+)?" if before else ""  # hace exactamente tres días
    pattern = compiled(edges[0] + before + about + counted + after + edges[1])
    for match in pattern.finditer(text):
        count, step = match["count"], steps[match["step"]]
        back = step * (int(count) if count.isdecimal() else numbers[count])
        margin = timedelta(days=_MARGIN if step > 1 else 0)
        middle = day - timedelta(days=back)
        spans.append(span_of(middle - margin, middle + margin))
    text = pattern.sub(" ", text)
    days = known["days"]
    take(days, lambda match: spans.append(_around(day, days[match[0]])))
    months = [names.split("|") for names in known["months"].split()]
    number = {name: place for place, names in enumerate(months, start=1) for name in names}
    dated = _any(number)
    # 15. September, 15 de septiembre, 9月15日
    day_before = r"(?:(?<!\d)(\d{1,2})(?:\.|er|º)?\s+(?:de\s+)?)?"
    pattern = compiled(
        rf"{day_before}(?<!\w)({dated})(?!\w)()"
        if has_spaces
        else rf"()(?<!\d)({dated})\s*(?:(\d{{1,2}})(?:日|일))?"
    )
    for match in pattern.finditer(text):
        of_month = match[1] or match[3]
        dates.append(DateMention(month=number[match[2]], day=int(of_month) if of_month else None))
    text = pattern.sub(" ", text)
    weekdays = [names.split("|") for names in known["weekdays"].split()]
    places = {name: place for place, names in enumerate(weekdays) for name in names}
    take(places, lambda match: spans.append(_before(day, places[match[0]])))
    take([*known["talk"].split(), *known["fill"].split(), *last, *this], lambda _: None)
    return spans, dates, text


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"


@cache
def _pattern(words: tuple[str, ...], has_spaces: bool) -> re.Pattern[str]:  # noqa: FBT001 (private)
    edge = (r"(?<!\w)", r"(?!\w)") if has_spaces else ("", "")
    return compiled(f"{edge[0]}{_any(words)}{edge[1]}")


def _past_weekday(match: re.Match[str], day: date) -> DaySpan:
    found = _before(day, WEEKDAYS.index(match[2]))
    return DaySpan(found.first, (day - EPOCH).days) if match[1] == "since" else found


def _before(day: date, weekday: int) -> DaySpan:
    """Return the last such weekday before *day*."""
    return _around(day, -((day.weekday() - weekday) % _WEEK or _WEEK))


def _around(day: date, offset: int) -> DaySpan:
    found = day + timedelta(days=offset)
    return span_of(found, found)


def _read_figures(text: str) -> tuple[str, list[DateMention]]:
    """Return *text* without dates such as 15.9.2026 and 9/15, and those dates."""
    found = []

    def read(match: re.Match[str]) -> str:
        day, month = int(match[1]), int(match[3])
        if match[2] == "/" and day <= _MONTHS and (month > _MONTHS or not match[4]):
            day, month = month, day
        if not (1 <= month <= _MONTHS and 1 <= day <= 31) or (match[2] == "." and not match[4]):  # noqa: PLR2004 (days of a month)
            return match[0]
        found.append(DateMention(int(match[4]) if match[4] else None, month, day))
        return " "

    return compiled(_FIGURES).sub(read, text) if any(map(str.isdecimal, text)) else text, found
