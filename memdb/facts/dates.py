"""
Parser of English date expressions: dates, and times relative to a day.

`find_times` returns the times that a text names for certain, `days_about` the days that it is
about, and `asked_days` the days in a question. Dates in digits work in every language. A day is a
day of UTC. Pure: no clock, callers pass the day that a text is relative to.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from memdb.facts.calendar import (
    EPOCH,
    MONTHS,
    NUMBER_WORDS,
    UNIT_DAYS,
    WEEKDAYS,
    AskedDays,
    DateMention,
    DaySpan,
    holiday_of,
    month_of,
    nearest,
    period_of,
    season_of,
    span_of,
)
from memdb.models.record import Record
from memdb.text.resources import compiled
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable
    from datetime import date, timedelta

    # First and last day of a time, and whether the text is certain enough to mean no other.
    _Resolved = tuple[date, date, bool]
    # Words (the text has one of them), the pattern, and what a match means.
    _Row = tuple[tuple[str, ...], str, Callable[[re.Match[str], "_Reference"], _Resolved | None]]
else:
    from datetime import date, timedelta


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """
    Compile a case-insensitive pattern at its first use.

    Joining the flag each time costs more.
    """
    return compiled("(?i)" + text)


_MONTH_NUMBERS = {name: number for number, name in enumerate(MONTHS, start=1)}
_MONTH_NUMBERS |= {name[:3]: number for name, number in _MONTH_NUMBERS.items()} | {"sept": 9}
_COUNTS = {word: number for number, word in enumerate(NUMBER_WORDS, start=1)}
_COUNTS |= {"a": 1, "an": 1, "couple": 2, "thirty": 30}
# Precise enough to search around a day, too vague for a time that is certain.
_VAGUE_COUNTS = {"few": 3, "several": 3}
_VAGUE_RANGE = (2, 5)
_STEPS = {"last": -1, "past": -1, "this": 0, "next": 1, "coming": 1}

# Month names that are also words ("may", "march", "mar", "sep") count alone only after one of
# these, so that "what may Ann eat" names no month; after the second group only with a capital.
_PLAIN_MONTHS = frozenset(MONTHS) - {"may", "march"}
_IN_MONTH = frozenset("in during since until last next early late mid".split())
_BY_MONTH = frozenset("on of by till before after from to between and this".split())
_NO_WORD = r"\W+"
_GAP = r"[\s-]+"

# Characters of a question that are read, and of the word that precedes a month name.
_DATE_CHARS = 10_000
_MAX_SPANS = 16
_FIRST_DAY, _LAST_DAY = (date.min - EPOCH).days, (date.max - EPOCH).days
_BEFORE_CHARS = 24


_NAME = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_MONTH = rf"(?P<month>{_NAME})\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_OF_YEAR = rf"(?:,?\s+{_YEAR}\b)?"
_WORDS = "|".join([*_COUNTS, *_VAGUE_COUNTS])
_COUNT = rf"(?:a\s+(?=couple|few|several))?(?P<count>\d{{1,3}}|{_WORDS})(?:\s+of)?"
_UNIT = "(?P<unit>day|week|weekend|month|year)"
_WEEKDAY = "|".join(WEEKDAYS)
_PART = r"(?:\s+(?:morning|afternoon|evening|night))?"

_NUMERIC = rf"(?<!\d){_YEAR}[-/](?P<month>0?[1-9]|1[0-2])(?:[-/]{_DAY})?(?!\d)"
_DAY_FIRST = rf"{_DAY}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}{_OF_YEAR}"
_MONTH_FIRST = rf"{_MONTH}\s+(?:the\s+)?{_DAY}(?:st|nd|rd|th)?\b{_OF_YEAR}"
_MONTH_YEAR = rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b"
# "2000 g" and "$1900" count something.
_MONEY = "$\u20ac\u00a3\u00a5\u20b9\u20bd\u20ba"
_UNIT_SIGN = rf"\s?(?-i:[%\u00b0{_MONEY}]|[kcdm\u00b5]?[gml](?![\w'\u2019]))"
_YEAR_ALONE = rf"(?<![\d.,{_MONEY}-]){_YEAR}(?![\d-]|[.,]\d|{_UNIT_SIGN})"
_MONTH_ALONE = rf"\b(?P<month>{_NAME})\b"

_NEAR = (
    rf"\b(?:the\s+day\s+(?:before\s+yesterday|after\s+tomorrow)|(?:yesterday|tomorrow){_PART}"
    r"|last\s+night|today|tonight|this\s+(?:morning|afternoon|evening|night))\b"
)
_AGO = rf"\b(?:(?:about|around)\s+)?{_COUNT}\s+{_UNIT}s?\s+(?P<end>ago|back|before)\b"
_AHEAD = rf"\bin\s+(?:(?:about|around)\s+)?{_COUNT}\s+{_UNIT}s?(?!\s+(?:or|to)\b)\b"
_NEIGHBOUR = (
    r"\b(?=[odtlpnc])(?:(?:on|during)\s+)?(?:the\s+)?(?P<step>last|past|this|next|coming)\s+"
    rf"(?:{_UNIT}|(?P<weekday>{_WEEKDAY}))\b"
)
_RECENT = rf"\b(?:last|past)\s+{_COUNT}\s+{_UNIT}s?\b"
_NAMED_MONTH = rf"\b(?P<step>last|this|next)\s+(?P<month>{_NAME})\b(?!\.?,?\s+\d)"
_IN_MONTH_OF = (
    r"\b(?:in|since|back in|this|last|next)(?: (?:early|late|mid))? "
    rf"{_MONTH}(?:,? (?:of )?{_YEAR}\b)?"
)
_SEASON = (
    r"\b(?:(?:(?P<step>last|this|next)|(?P<lead>in|over|during|since|by)(?:\s+the)?)\s+)?"
    r"(?:(?:early|late|mid)[\s-])?(?P<season>spring|summer|autumn|fall|winter)"
    rf"(?:,?\s+(?:of\s+)?{_YEAR})?\b"
)
_HOLIDAY = (
    r"\b(?:(?P<step>last|this|next)\s+)?"
    r"(?P<holiday>christmas|xmas|new\s+year|halloween|valentine|thanksgiving|easter)"
    rf"(?:['\u2019]?s)?(?:\s+(?P<part>eve|day))?(?:,?\s+(?:(?:of|in)\s+)?{_YEAR})?\b"
)
_QUARTER = rf"\bq(?P<quarter>[1-4])\s+(?:of\s+)?{_YEAR}\b"
# Before a time: "before", "since the end of", "between", and "the week before".
_BOUND = (
    r"\b(?P<bound>before|prior\s+to|until|till|up\s+to|by|as\s+of|after|since|starting|between|from)"
    r"\s+(?:in\s+|on\s+)?(?:(?:the\s+)?(?:end|start|beginning|middle)\s+of\s+)?(?:the\s+)?$"
)
_OFFSET = rf"\b(?:the|last|{_COUNT})\s+{_UNIT}s?\s+(?P<side>before|after)\s+(?:the\s+)?$"
_TO = r"\s*(?:and|to|until|till|through|-|\u2013)\s+(?:the\s+)?(?:end\s+of\s+)?"
_WEEK_OF = r"\b(?P<unit>week|weekend)\s+of\s+(?:the\s+)?"


# Parts of a time.


def _near_day(match: re.Match[str], day: date) -> date:
    words = match[0].lower()
    far = 2 if words.startswith("the") else 1
    back = "yesterday" in words or words.startswith("last")
    return day + timedelta(days=-far if back else far if "tomorrow" in words else 0)


def _weekday(match: re.Match[str], day: date, *, ahead: bool) -> date:
    """Return the next such weekday from *day* on, or the last one before it."""
    days = (WEEKDAYS.index(match["weekday"].lower()) - day.weekday()) % 7
    return day + timedelta(days=days if ahead else days - 7)


def _count(match: re.Match[str]) -> int:
    word = match["count"].lower()
    return int(word) if word.isdigit() else (_COUNTS | _VAGUE_COUNTS)[word]


def _number(match: re.Match[str], part: str) -> int | None:
    value = match.groupdict().get(part)
    return None if value is None else _MONTH_NUMBERS.get(value.lower()) or int(value)


# Days that a question names.


def dates_in(text: str) -> list[DateMention]:
    """
    Return the days, months and years in *text*, in order.

    Reads the first 10,000 characters.

    >>> dates_in("on May 3rd, and in 2021")
    [DateMention(month=5, day=3), DateMention(year=2021)]
    """
    mentions: list[tuple[int, DateMention]] = []

    def blank(match: re.Match[str]) -> str:
        year, month, day = (_number(match, part) for part in ("year", "month", "day"))
        mentions.append((match.start(), DateMention(year=year, month=month, day=day)))
        return "#" * len(match[0])

    rest = text[:_DATE_CHARS]
    if any(map(str.isdecimal, rest)):
        for pattern in _DATES:
            rest = _pattern(pattern).sub(blank, rest)
    if not _MONTH_NUMBERS.keys().isdisjoint(compiled(_NO_WORD).split(rest.lower())):
        for match in _pattern(_MONTH_ALONE).finditer(rest):
            if _is_month(rest, match):
                blank(match)
    return [mention for _, mention in sorted(mentions, key=lambda pair: pair[0])]


_DATES = (_NUMERIC, rf"\b{_DAY_FIRST}", rf"\b{_MONTH_FIRST}", _MONTH_YEAR, _YEAR_ALONE)


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Return whether a name that may also be a word means a month."""
    word = match[0]
    if word.lower() in _PLAIN_MONTHS:
        return True
    before = text[max(0, match.start() - _BEFORE_CHARS) : match.start()]
    gap = compiled(_GAP).match(before[::-1])
    if gap is None:
        return False
    last = compiled(_NO_WORD).split(before[: -len(gap[0])])[-1].lower()
    return last in _IN_MONTH or (word[0].isupper() and last in _BY_MONTH and "-" not in gap[0])


# Times of a statement.


class TimeMention(Record):
    """
    A time in a text.

    Attributes:
        start: With *end* its place in the text.
        span: The days of that day, week, month or year.
    """

    start: int
    end: int
    span: DaySpan

    @property
    def first_ms(self) -> int:
        """Start of its first day, UTC milliseconds."""
        return self.span.first * DAY_MS


class _Reference:
    """The day of a statement, and whether it is about the future; None means unknown."""

    __slots__ = ("ahead", "day")

    def __init__(self, day: date, *, ahead: bool | None) -> None:
        self.day, self.ahead = day, ahead


def find_times(text: str, created_ms: int, *, ahead: bool | None = None) -> list[TimeMention]:
    """
    Return the times that *text* names for certain, in order, without overlaps.

    Args:
        text: A sentence.
        created_ms: Time when it was written, UTC milliseconds.
        ahead: Whether it is about the future, which decides the year of a day or month. None means
            the nearest one.

    >>> [time.span for time in find_times("I flew in yesterday, she comes next month.", 0)]
    [DaySpan(first=-1, last=-1), DaySpan(first=31, last=58)]
    """
    reference = _Reference(EPOCH + timedelta(days=created_ms // DAY_MS), ahead=ahead)
    return _times(text, reference, _TIMES, is_certain=True)


def days_about(text: str, created_ms: int) -> list[DaySpan]:
    """
    Return the days that *text* is about, in order, without the day on which it was written.

    The function reads the first 10,000 characters, and the first 16 spans of days. An uncertain
    time counts
    too: "a few weeks ago" is two to five.

    Args:
        text: A message or an entry.
        created_ms: Time when it was written, UTC milliseconds.

    >>> days_about("We flew in yesterday, and go on next month.", 0)
    [DaySpan(first=-1, last=-1), DaySpan(first=31, last=58)]
    """
    day = created_ms // DAY_MS
    try:
        reference = _Reference(EPOCH + timedelta(days=day), ahead=None)
    except OverflowError:
        return []
    found = [time.span for time in _times(text[:_DATE_CHARS], reference, _TIMES)]
    spans = {(one.first, one.last): one for one in found}
    spans.pop((day, day), None)
    return [*spans.values()][:_MAX_SPANS]


def _times(
    text: str, reference: _Reference, rows: Iterable[_Row], *, is_certain: bool = False
) -> list[TimeMention]:
    """Return the times in *text*, in order; earlier rows take precedence over later ones."""
    times: list[TimeMention] = []
    is_read = bytearray(len(text))  # 1 for each character of a time
    lower = text.lower()
    found: dict[tuple[str, ...], bool] = {}
    for cues, pattern, resolve in rows:
        if cues not in found:
            found[cues] = any(map(lower.__contains__, cues))
        if not found[cues]:
            continue
        for match in _pattern(pattern).finditer(text):
            start, end = match.span()
            if 1 in is_read[start:end]:
                continue
            try:
                resolved = resolve(match, reference)
            except (ValueError, OverflowError):
                continue  # 31 June, or outside of the calendar
            if resolved is None or (is_certain and not resolved[2]):
                continue
            times.append(TimeMention(start, end, span_of(*resolved[:2])))
            is_read[start:end] = b"\1" * (end - start)
    return sorted(times, key=lambda time: time.start)


def _time_near(match: re.Match[str], reference: _Reference) -> _Resolved:
    day = _near_day(match, reference.day)
    return day, day, True


def _time_away(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    """Resolve "two weeks ago" and "in two weeks", not "two weeks before" or "two weeks' ..."."""
    end = match.groupdict().get("end")
    if end == "before" or _is_possessive(match):
        return None
    unit, sign = match["unit"].lower(), -1 if end else 1
    if match["count"].lower() in _VAGUE_COUNTS:
        near, far = (period_of(unit, reference.day, sign * count) for count in _VAGUE_RANGE)
        return min(near[0], far[0]), max(near[1], far[1]), False
    return *period_of(unit, reference.day, sign * _count(match)), end != "back"


def _time_neighbour(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    step = _STEPS[match["step"].lower()]
    unit = (match["unit"] or "").lower()
    if unit == "day" or _is_possessive(match):
        return None
    if unit:
        return *period_of(unit, reference.day, step), True
    if step > 0:  # "next Friday" is this week's or the one after
        day = _weekday(match, reference.day + timedelta(days=1), ahead=True)
        return day, day + timedelta(days=7), False
    day = _weekday(match, reference.day, ahead=step == 0)
    return day, day, True


def _is_possessive(match: re.Match[str]) -> bool:
    return match.string.startswith("'", match.end())


def _time_recent(match: re.Match[str], reference: _Reference) -> _Resolved:
    days = _count(match) * UNIT_DAYS[match["unit"].lower()]
    return reference.day - timedelta(days=days), reference.day, False


def _time_weekday(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    if reference.ahead is None:
        return None
    day = _weekday(match, reference.day, ahead=reference.ahead)
    return day, day, True


def _time_dated(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    year, month, day = (_number(match, part) for part in ("year", "month", "day"))
    if month is None:
        return None
    if day is None:
        return None if year is None else (*month_of(year, month), False)
    if year is not None:
        return date(year, month, day), date(year, month, day), True
    days = nearest(lambda of: (date(of, month, day),) * 2, reference.day, ahead=reference.ahead)
    return *days, True


def _time_week_of(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    """Resolve "the week of 6 May 2024"."""
    time = _time_dated(match, reference)
    return None if time is None else (*period_of(match["unit"].lower(), time[0], 0), False)


def _time_in_month(match: re.Match[str], reference: _Reference) -> _Resolved:
    year, month = _number(match, "year"), _MONTH_NUMBERS[match["month"].lower()]
    if year is not None:
        return *month_of(year, month), True
    lead = match[0].split()[0].lower()
    ahead = {"since": False, "last": False, "next": True}.get(lead, reference.ahead)
    return *nearest(lambda year: month_of(year, month), reference.day, ahead=ahead), True


def _time_month(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    if _number(match, "year") is None and not _is_month(match.string, match):
        return None
    return (*_time_in_month(match, reference)[:2], False)


def _time_year(match: re.Match[str], _: _Reference) -> _Resolved:
    return *period_of("year", date(int(match["year"]), 1, 1), 0), True


def _time_season(match: re.Match[str], reference: _Reference) -> _Resolved | None:
    """Resolve a season with its year, or with a word that selects one year."""
    if not (match["step"] or match["lead"] or match["year"]):
        return None
    name = match["season"].lower()
    return _yearly(match, reference, lambda year: season_of(name, year))


def _time_holiday(match: re.Match[str], reference: _Reference) -> _Resolved:
    name, part = " ".join(match["holiday"].lower().split()), (match["part"] or "").lower()
    return _yearly(match, reference, lambda year: holiday_of(name, part, year))


def _time_quarter(match: re.Match[str], _: _Reference) -> _Resolved:
    year, month = int(match["year"]), 3 * int(match["quarter"])
    return month_of(year, month - 2)[0], month_of(year, month)[1], False


def _yearly(
    match: re.Match[str], reference: _Reference, make: Callable[[int], tuple[date, date]]
) -> _Resolved:
    """Resolve a yearly event: in the named year, or the nearest one."""
    day, step = reference.day, (match["step"] or "").lower()
    if match["year"] or step == "this":
        return *make(int(match["year"] or day.year)), False
    if step == "last":
        return *nearest(make, day, is_over=True), False
    ahead = True if step == "next" else reference.ahead
    return *nearest(make, day, ahead=ahead), False


# Words without which a pattern finds nothing: in lower case, one of them is in the text.
_UNIT_CUES = ("day", "week", "month", "year")
_MONTH_CUES = tuple(name[:3] for name in MONTHS)
_YEAR_CUES = ("19", "20")

_NAMED_TIMES: tuple[_Row, ...] = (
    (("week",), _WEEK_OF + _DAY_FIRST, _time_week_of),
    (("week",), _WEEK_OF + _MONTH_FIRST, _time_week_of),
    (("spring", "summer", "autumn", "fall", "winter"), _SEASON, _time_season),
    (
        ("christmas", "xmas", "year", "halloween", "valentine", "thanksgiving", "easter"),
        _HOLIDAY,
        _time_holiday,
    ),
    (_YEAR_CUES, _QUARTER, _time_quarter),
)
# In this order: an earlier pattern takes its words from the later ones.
_TIMES: tuple[_Row, ...] = (
    *_NAMED_TIMES,
    (_YEAR_CUES, rf"\b(?:on )?{_NUMERIC.replace('[-/]', '-')}", _time_dated),
    (_MONTH_CUES, rf"\b(?:on )?(?:the )?{_DAY_FIRST}", _time_dated),
    (_MONTH_CUES, rf"\b(?:on )?{_MONTH_FIRST}", _time_dated),
    (("day", "morrow", "night", "this"), _NEAR, _time_near),
    (("ago", "back"), _AGO, _time_away),
    (_UNIT_CUES, _AHEAD, _time_away),
    (_UNIT_CUES, _NEIGHBOUR, _time_neighbour),
    (_UNIT_CUES, _RECENT, _time_recent),
    (("day",), rf"\bon (?P<weekday>{_WEEKDAY}){_PART}\b", _time_weekday),
    (_MONTH_CUES, _IN_MONTH_OF, _time_in_month),
    (_MONTH_CUES, _MONTH_YEAR, _time_month),
    (_MONTH_CUES, _MONTH_ALONE, _time_month),
    (_YEAR_CUES, rf"(?:\b(?:(?:back )?in|since) )?{_YEAR_ALONE}", _time_year),
)


# Times of a question.


def asked_days(text: str, today: int | None = None) -> AskedDays:
    """
    Return the days in a question: dates, spans of days, and bounds, each once.

    The margin around a day grows with its distance: "three weeks ago" is a week
    around that day, "two years ago" the whole of that year.

    Args:
        text: A question; its first 10,000 characters count.
        today: Days from 1 January 1970. None means that only dates are read.

    >>> asked_days("what did we do yesterday, and on May 3rd?", 1_000).spans
    (DaySpan(first=999, last=999),)
    """
    text = text[:_DATE_CHARS]
    found = AskedDays()
    if today is not None and _FIRST_DAY <= today <= _LAST_DAY:
        reference = _Reference(EPOCH + timedelta(days=today), ahead=False)
        found, text = _read_bounds(text, reference)
        times = _times(text, reference, _ASKED_TIMES)
        spans = (*found.spans, *(time.span for time in times))
        found = found.replace(spans=tuple(dict.fromkeys(spans)))
        text = _without(text, ((time.start, time.end) for time in times))
    return found.replace(dates=tuple(dict.fromkeys(dates_in(text))))


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + "#" * (end - start) + text[end:]
    return text


def _read_bounds(text: str, reference: _Reference) -> tuple[AskedDays, str]:
    """
    Return the times that words such as "before" make of others, and the rest of the text.

    A time that the bound includes stays: a text "by 3 May" was often written then.
    """
    times = _times(text, reference, (*_ASKED_TIMES, *_TIMES))
    found = AskedDays()
    read: list[tuple[int, int]] = []
    for time, end in zip(times, (*times[1:], None), strict=False):
        near = max(0, time.start - _BEFORE_CHARS)
        before = text[near : time.start]
        lead = text[time.start : time.end].split(maxsplit=1)[0].lower()
        if lead in ("since", "by"):
            before += f"{lead} "
        offset, bound = (_pattern(pattern).search(before) for pattern in (_OFFSET, _BOUND))
        word = "" if bound is None else bound["bound"].split()[0].lower()
        if offset is not None:
            found = found.replace(spans=(*found.spans, _offset_from(time.span, offset)))
            read.append((near + offset.start(), time.start))
        elif word in ("between", "from"):
            if end is not None and _pattern(_TO).fullmatch(text[time.end : end.start]):
                found = found.replace(spans=(*found.spans, _between(text, time, end)))
        elif word:
            found = found.replace(bounds=(*found.bounds, _bounded(word, time.span)))
            if word in ("before", "prior", "after"):
                found = found.replace(limits=(*found.limits, time.span))
                read.append((time.start, time.end))
    return found, _without(text, read)


def _bounded(word: str, span: DaySpan) -> DaySpan:
    """Return the days that a word such as "before" selects."""
    always = DaySpan(_FIRST_DAY, _LAST_DAY)
    if word in ("after", "since", "starting"):
        return always.replace(first=span.last + 1 if word == "after" else span.first)
    return always.replace(last=span.first - 1 if word in ("before", "prior") else span.last)


def _between(text: str, start: TimeMention, end: TimeMention) -> DaySpan:
    """Return the days from one time to another; the first is the latest one before the other."""
    until = _Reference(EPOCH + timedelta(days=end.span.last), ahead=False)
    # "Between March and June 2022": the first month has the year of the second.
    again = _times(f"from {text[start.start : start.end]}", until, _TIMES)
    first = again[0].span.first if again else start.span.first
    return DaySpan(min(first, end.span.first), end.span.last)


def _offset_from(span: DaySpan, match: re.Match[str]) -> DaySpan:
    """Return the days of "the week before" or "two days after" the *span*."""
    unit = match["unit"].lower()
    count = 1 if match["count"] is None else _count(match)
    days = count * UNIT_DAYS[unit]
    if match["side"].lower() == "before":
        return DaySpan(span.first - days, span.first - (days if unit == "day" else 1))
    return DaySpan(span.last + (days if unit == "day" else 1), span.last + days)


def _asked_ago(match: re.Match[str], reference: _Reference) -> _Resolved:
    count, unit = _count(match), match["unit"].lower()
    if unit in ("year", "month"):
        return *period_of(unit, reference.day, -count), False
    day = reference.day - timedelta(days=count * UNIT_DAYS[unit])
    vague = unit != "day" or count >= UNIT_DAYS["week"]
    margin = timedelta(days=(2 if count == 1 else 3) if vague else 0)
    return day - margin, day + margin, False


def _asked_neighbour(match: re.Match[str], reference: _Reference) -> _Resolved:
    step = _STEPS[match["step"].lower()]
    if match["unit"]:
        return *period_of(match["unit"].lower(), reference.day, step), False
    # "This Monday" of a question is the latest one, today included.
    day = _weekday(match, reference.day + timedelta(days=step >= 0), ahead=step > 0)
    return day, day + timedelta(days=7 if step > 0 else 0), False


def _asked_month(match: re.Match[str], reference: _Reference) -> _Resolved:
    """Resolve "last", "next" or "this" with the name of a month."""
    step, month = _STEPS[match["step"].lower()], _MONTH_NUMBERS[match["month"].lower()]
    year = reference.day.year
    if step < 0 and month >= reference.day.month:
        year -= 1
    elif step > 0 and month <= reference.day.month:
        year += 1
    return *month_of(year, month), False


_ASKED_TIMES: tuple[_Row, ...] = (
    *_NAMED_TIMES,
    (("day", "morrow", "night", "this"), _NEAR, _time_near),
    (("ago", "back", "before"), _AGO, _asked_ago),
    (_UNIT_CUES, _AHEAD, _time_away),
    (_UNIT_CUES, _RECENT, _time_recent),
    (_UNIT_CUES, _NEIGHBOUR, _asked_neighbour),
    (("last", "this", "next"), _NAMED_MONTH, _asked_month),
)
