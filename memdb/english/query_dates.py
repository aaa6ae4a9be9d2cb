"""
Dates that a query names, in words or digits, or counted back from today.

Pure: no SQL, no clock; today is handed in. Month names and the words of relative dates are
English; dates written in digits work in every language.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_YEAR_ROUND = (
    "january february march april may june july august september october november december"
)
_MONTH_NAMES = tuple(_YEAR_ROUND.split())
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}

_NAME = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:19|20)\d\d"
_NUMERIC = re.compile(rf"(?<!\d)({_YEAR})[-/](0?[1-9]|1[0-2])(?:[-/]({_DAY}))?(?!\d)")
_DAY_FIRST = re.compile(
    rf"\b({_DAY})(?:st|nd|rd|th)?\s+(?:of\s+)?({_NAME})\b\.?(?:,?\s+({_YEAR})\b)?", re.IGNORECASE
)
_MONTH_FIRST = re.compile(
    rf"\b({_NAME})\b\.?\s+(?:the\s+)?({_DAY})(?:st|nd|rd|th)?(?!\d)(?:,?\s+({_YEAR})\b)?",
    re.IGNORECASE,
)
_MONTH_YEAR = re.compile(rf"\b({_NAME})\b\.?,?\s+(?:of\s+)?({_YEAR})\b", re.IGNORECASE)
_MONTH_ALONE = re.compile(rf"\b({_NAME})\b", re.IGNORECASE)
_YEAR_ALONE = re.compile(rf"(?<![\d.,-])({_YEAR})(?![\d-]|[.,]\d)")

# Month names that are also words ("may", "march", "mar", "sep") count alone only after one of
# these, so that "what may Ann eat" names no month; after the second group only with a capital.
_PLAIN_MONTHS = frozenset(_MONTH_NAMES) - {"may", "march"}
_IN_MONTH = frozenset("in during since until last next early late mid".split())
_BY_MONTH = frozenset("on of by till before after from to between and this".split())
_NO_WORD = re.compile(r"\W+")
_GAP = re.compile(r"[\s-]+")

_NUMBERS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
} | {"a": 1, "an": 1, "couple": 2, "few": 3, "several": 3}
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_UNIT = "day|week|weekend|month|year"
_AGO = re.compile(
    rf"\b(?:(\d{{1,3}})|(?:a\s+)?({'|'.join(_NUMBERS)})(?:\s+of)?)\s+({_UNIT})s?\s+(?:ago|back|before)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    rf"\b(?:last|past)\s+(?:(\d{{1,3}})|({'|'.join(_NUMBERS)}))\s+({_UNIT})s?\b", re.IGNORECASE
)
_LAST = re.compile(rf"\b(last|this)\s+({_UNIT}|night|{'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)
_LAST_MONTH = re.compile(rf"\b(last|this)\s+({_NAME})\b(?!\.?,?\s+\d)", re.IGNORECASE)
_NEAR = re.compile(
    r"\b(today|tonight|this\s+(?:morning|afternoon|evening)|(?:the\s+day\s+before\s+)?yesterday)\b",
    re.IGNORECASE,
)
_DAYS = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
_EPOCH = date(1970, 1, 1)

# Dates are looked for so far into a query; what precedes a month name is a short word.
_DATE_CHARS = 10_000
_BEFORE_CHARS = 24


class DateMention(Record):
    """
    A day, month or year named in a query; the parts that were not named are None.

    A day never comes without its month.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None


class DaySpan(Record):
    """Days from *first* to *last*, both inclusive, counted from 1 January 1970."""

    first: int
    last: int


def dates_in(text: str) -> list[DateMention]:
    """
    Return the days, months and years that *text* names, in order.

    Those of its first 10,000 characters.

    >>> dates_in("on May 3rd, and in 2021")
    [DateMention(year=None, month=5, day=3), DateMention(year=2021, month=None, day=None)]
    """
    found: list[tuple[int, DateMention]] = []
    rest = text[:_DATE_CHARS]

    def take(pattern: re.Pattern[str], parts: str) -> None:
        nonlocal rest

        def blank(match: re.Match[str]) -> str:
            found.append((match.start(), _mention(parts, match.groups())))
            return "#" * len(match.group())

        rest = pattern.sub(blank, rest)

    take(_NUMERIC, "ymd")
    take(_DAY_FIRST, "dmy")
    take(_MONTH_FIRST, "mdy")
    take(_MONTH_YEAR, "my")
    take(_YEAR_ALONE, "y")
    found += [
        (match.start(), _mention("m", match.groups()))
        for match in _MONTH_ALONE.finditer(rest)
        if _is_month(rest, match)
    ]
    return [mention for _, mention in sorted(found, key=lambda pair: pair[0])]


def _is_month(text: str, match: re.Match[str]) -> bool:
    word = match.group()
    if word.lower() in _PLAIN_MONTHS:
        return True
    before = text[max(0, match.start() - _BEFORE_CHARS) : match.start()]
    found = _GAP.match(before[::-1])
    if found is None:
        return False
    gap = found.group()
    last = _NO_WORD.split(before[: -len(gap)])[-1].lower()
    return last in _IN_MONTH or (word[0].isupper() and last in _BY_MONTH and "-" not in gap)


def _mention(parts: str, values: tuple[str | None, ...]) -> DateMention:
    year = month = day = None
    for part, value in zip(parts, values, strict=True):
        if value is None:
            continue
        if part == "y":
            year = int(value)
        elif part == "d":
            day = int(value)
        else:
            month = _MONTHS.get(value.lower()) or int(value)
    return DateMention(year=year, month=month, day=day)


def relative_dates(text: str, today: int) -> list[DaySpan]:
    """
    Return the days that *text* counts back from today, in order of kind.

    A day is named with a margin that grows with how long ago it is: "three weeks ago" is a week
    around that day, "two years ago" the whole of that year.

    Args:
        text: A question; its first 10,000 characters count.
        today: Days from 1 January 1970.

    >>> relative_dates("what did we do yesterday, and a week ago?", 1_000)
    [DaySpan(first=999, last=999), DaySpan(first=991, last=995)]
    """
    try:
        now = _EPOCH + timedelta(days=today)
    except OverflowError:
        return []
    text = text[:_DATE_CHARS]
    found: list[DaySpan] = []
    for pattern, read in _RELATIVE:
        for match in pattern.finditer(text):
            try:
                found.append(read(match, now))
            except (OverflowError, ValueError):
                continue  # before the year 1
    return list(dict.fromkeys(found))


def _span(first: date, last: date) -> DaySpan:
    return DaySpan((first - _EPOCH).days, (last - _EPOCH).days)


def _near(match: re.Match[str], now: date) -> DaySpan:
    words = match.group().lower()
    back = 2 if "before" in words else int("yesterday" in words)
    day = now - timedelta(days=back)
    return _span(day, day)


def _count(match: re.Match[str]) -> int:
    digits, word = match.group(1), match.group(2)
    return int(digits) if digits else _NUMBERS[word.lower()]


def _ago(match: re.Match[str], now: date) -> DaySpan:
    count, unit = _count(match), match.group(3).lower()
    if unit == "year":
        return _span(date(now.year - count, 1, 1), date(now.year - count, 12, 31))
    if unit == "month":
        return _month(now.year, now.month - count)
    day = now - timedelta(days=count * _DAYS[unit])
    vague = unit != "day" or count >= _DAYS["week"]
    margin = timedelta(days=(2 if count == 1 else 3) if vague else 0)
    return _span(day - margin, day + margin)


def _past(match: re.Match[str], now: date) -> DaySpan:
    days = _count(match) * _DAYS[match.group(3).lower()]
    return _span(now - timedelta(days=days), now)


def _last(match: re.Match[str], now: date) -> DaySpan:
    back, unit = int(match.group(1).lower() == "last"), match.group(2).lower()
    if unit in ("day", "night"):
        day = now - timedelta(days=back)
        return _span(day, day)
    if unit == "year":
        return _span(date(now.year - back, 1, 1), date(now.year - back, 12, 31))
    if unit == "month":
        return _month(now.year, now.month - back)
    monday = now - timedelta(days=now.weekday() + 7 * back)
    if unit == "week":
        return _span(monday, monday + timedelta(days=6))
    if unit == "weekend":
        return _span(monday + timedelta(days=5), monday + timedelta(days=6))
    place = _WEEKDAYS.index(unit)
    passed = (now.weekday() - place) % 7
    day = now - timedelta(days=passed if not back else passed or 7)
    return _span(day, day)


def _last_month(match: re.Match[str], now: date) -> DaySpan:
    """Return the month of that name that is over, or for "this" the one of this year."""
    month = _MONTHS[match.group(2).lower()]
    year = now.year - int(match.group(1).lower() == "last" and month >= now.month)
    return _month(year, month)


def _month(year: int, month: int) -> DaySpan:
    """Return a whole month; 0 is December of the year before, and so on."""
    year, place = year + (month - 1) // 12, (month - 1) % 12 + 1
    first = date(year, place, 1)
    after = date(year + place // 12, place % 12 + 1, 1)
    return _span(first, after - timedelta(days=1))


_RELATIVE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], DaySpan]], ...] = (
    (_NEAR, _near),
    (_AGO, _ago),
    (_PAST, _past),
    (_LAST, _last),
    (_LAST_MONTH, _last_month),
)
