"""
When something happens: time words of a sentence against the time it was said.

English words, and dates in digits. A day is a day of UTC: the file does not
know where somebody was. Pure: no clock.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = {"a": 1, "an": 1, "one": 1, "a couple of": 2, "a couple": 2, "two": 2, "three": 3}
_NUMBERS |= {"four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_NUMBERS |= {"eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30}

_MONTH = r"(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS) + r"|sept)\b\.?"
_WEEKDAY = "|".join(_DAYS)
_COUNT = r"(?:\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + r")"
_NTH = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:19|20)\d\d"
_PART = r"(?: (?:morning|afternoon|evening|night))?"
_WEEK_DAYS = 7
_MONTH_COUNT = 12
_MS = 1000


class Moment(Record):
    """
    A time that a text names.

    Attributes:
        start: With *end* where in the text it is named.
        first_ms: When that day, week, month or year begins.
        shown: The same time in words that stay true: "on 7 May 2023".
    """

    start: int
    end: int
    first_ms: int
    shown: str


class _Said(Record):
    """The day on which something was said, and whether it is about what is to come."""

    day: date
    ahead: bool | None


def find_moments(text: str, said_ms: int, *, ahead: bool | None = None) -> list[Moment]:
    """
    Return the times that *text* names, in order, none overlapping.

    Args:
        text: A sentence.
        said_ms: When it was said, UTC milliseconds.
        ahead: Whether it speaks of what is to come, for a day or month without
            its year; None: of the nearest.

    >>> [one.shown for one in find_moments("I flew in yesterday, she comes next month.", 0)]
    ['on 31 December 1969', 'in February 1970']
    """
    said = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=said_ms)).date()
    found: list[Moment] = []
    for pattern, resolve in _RULES:
        for match in pattern.finditer(text):
            if any(match.start() < one.end and one.start < match.end() for one in found):
                continue
            try:
                resolved = resolve(match, _Said(said, ahead))
            except (ValueError, OverflowError):
                continue  # 31 June, or outside of the calendar
            if resolved is not None:
                first, shown = resolved
                found.append(Moment(match.start(), match.end(), _to_ms(first), shown))
    return sorted(found, key=lambda one: one.start)


def in_full(text: str, said_ms: int, *, ahead: bool | None = None) -> tuple[str, int | None]:
    """
    Return *text* with its times written in full, and when the first of them begins.

    >>> in_full("met Ann two days ago", 1_700_000_000_000)
    ('met Ann on 12 November 2023', 1699747200000)
    """
    moments = find_moments(text, said_ms, ahead=ahead)
    for one in reversed(moments):
        text = text[: one.start] + one.shown + text[one.end :]
    return text, moments[0].first_ms if moments else None


def _to_ms(day: date) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * _MS


def _on(day: date) -> tuple[date, str]:
    return day, f"on {day.day} {_MONTHS[day.month - 1].capitalize()} {day.year}"


def _in_month(year: int, month: int) -> tuple[date, str]:
    return date(year, month, 1), f"in {_MONTHS[month - 1].capitalize()} {year}"


def _in_year(year: int) -> tuple[date, str]:
    return date(year, 1, 1), f"in {year}"


def _in_week(day: date) -> tuple[date, str]:
    monday = day - timedelta(days=day.weekday())
    return monday, f"in the week of {_on(monday)[1][3:]}"


def _weekend(day: date) -> tuple[date, str]:
    saturday = day + timedelta(days=5 - day.weekday())
    return saturday, f"on the weekend of {_on(saturday)[1][3:]}"


def _shifted_month(day: date, months: int) -> tuple[date, str]:
    count = day.year * _MONTH_COUNT + day.month - 1 + months
    return _in_month(count // _MONTH_COUNT, count % _MONTH_COUNT + 1)


def _near_day(match: re.Match[str], said: _Said) -> tuple[date, str]:
    word = match[0].lower()
    steps = {"yesterday": -1, "last night": -1, "tomorrow": 1}
    if "day before" in word or "day after" in word:
        return _on(said.day + timedelta(days=-2 if "before" in word else 2))
    shift = next((days for name, days in steps.items() if word.startswith(name)), 0)
    return _on(said.day + timedelta(days=shift))


def _count_of(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBERS[word.lower()]


def _distance(match: re.Match[str], said: _Said) -> tuple[date, str]:
    count = _count_of(match["count"] or match["count2"])
    unit = (match["unit"] or match["unit2"]).lower()
    count = -count if match["count"] else count
    if unit == "day":
        return _on(said.day + timedelta(days=count))
    if unit == "week":
        return _in_week(said.day + timedelta(days=_WEEK_DAYS * count))
    return _shifted_month(said.day, count) if unit == "month" else _in_year(said.day.year + count)


def _neighbour(match: re.Match[str], said: _Said) -> tuple[date, str] | None:
    step = {"last": -1, "past": -1, "this": 0, "next": 1, "coming": 1}[match["which"].lower()]
    unit = match["unit"].lower()
    if unit in _DAYS:
        days = (_DAYS.index(unit) - said.day.weekday()) % _WEEK_DAYS
        if step > 0:
            return None  # "next Friday": this week's or the one after, nobody knows
        return _on(said.day + timedelta(days=days if step == 0 else days - _WEEK_DAYS))
    if unit == "week":
        return _in_week(said.day + timedelta(days=_WEEK_DAYS * step))
    if unit == "weekend":
        return _weekend(said.day + timedelta(days=_WEEK_DAYS * step))
    return _shifted_month(said.day, step) if unit == "month" else _in_year(said.day.year + step)


def _weekday(match: re.Match[str], said: _Said) -> tuple[date, str] | None:
    if said.ahead is None:
        return None
    days = (_DAYS.index(match["day"].lower()) - said.day.weekday()) % _WEEK_DAYS
    return _on(said.day + timedelta(days=days if said.ahead else (days - _WEEK_DAYS)))


def _month_of(word: str) -> int:
    return next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(word[:3].lower()))


def _dated(match: re.Match[str], said: _Said) -> tuple[date, str]:
    month, day = _month_of(match["month"]), int(match["day"])
    if match["year"]:
        return _on(date(int(match["year"]), month, day))
    return _on(_nearest(lambda year: date(year, month, day), said))


def _iso(match: re.Match[str], _: _Said) -> tuple[date, str]:
    return _on(date(int(match["year"]), int(match["month"]), int(match["day"])))


def _month(match: re.Match[str], said: _Said) -> tuple[date, str]:
    month = _month_of(match["month"])
    lead = match[0].split()[0].lower()
    if match["year"]:
        first, shown = _in_month(int(match["year"]), month)
    else:
        way = {"since": False, "last": False, "next": True}.get(lead, said.ahead)
        # A month that has begun still lies ahead, and one that is not over lies behind.
        day = _nearest(lambda year: date(year, month, 15), _Said(said.day, way), slack_days=16)
        first, shown = _in_month(day.year, day.month)
    return first, _since(lead, shown)


def _nearest(make: Callable[[int], date], said: _Said, slack_days: int = 0) -> date:
    """Return *make*(a year) nearest to *said*, in the direction that is meant."""
    choices = [make(year) for year in (said.day.year - 1, said.day.year, said.day.year + 1)]
    if said.ahead is not None:
        slack = timedelta(days=slack_days)
        choices = [
            one
            for one in choices
            if (one >= said.day - slack if said.ahead else one <= said.day + slack)
        ]
    return min(choices, key=lambda one: abs(one - said.day))


def _plain_year(match: re.Match[str], _: _Said) -> tuple[date, str]:
    first, shown = _in_year(int(match["year"]))
    return first, _since(match[0].split()[0].lower(), shown)


def _since(lead: str, shown: str) -> str:
    return f"since {shown[3:]}" if lead == "since" else shown


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# In this order: an earlier rule takes its words from the later ones.
_RULES: tuple[tuple[re.Pattern[str], Callable[..., tuple[date, str] | None]], ...] = (
    (_rule(rf"\b(?:on )?(?P<year>{_YEAR})-(?P<month>0[1-9]|1[0-2])-(?P<day>{_NTH})\b"), _iso),
    (
        _rule(
            rf"\b(?:on )?(?:the )?(?P<day>{_NTH})(?:st|nd|rd|th)? (?:of )?(?P<month>{_MONTH})"
            rf"(?:,? (?P<year>{_YEAR})\b)?"
        ),
        _dated,
    ),
    (
        _rule(
            rf"\b(?:on )?(?P<month>{_MONTH}) (?:the )?(?P<day>{_NTH})(?:st|nd|rd|th)?\b"
            rf"(?:,? (?P<year>{_YEAR})\b)?"
        ),
        _dated,
    ),
    (_rule(r"\bthe day (?:before yesterday|after tomorrow)\b"), _near_day),
    (
        _rule(
            rf"\b(?:(?:yesterday|tomorrow){_PART}|last night|today|tonight"
            r"|this (?:morning|afternoon|evening))\b"
        ),
        _near_day,
    ),
    (
        _rule(
            rf"\b(?:(?:about |around )?(?P<count>{_COUNT}) (?P<unit>day|week|month|year)s? ago"
            rf"|in (?:about |around )?(?P<count2>{_COUNT}) (?P<unit2>day|week|month|year)s?"
            r"(?! (?:or|to)\b))(?!')\b"
        ),
        _distance,
    ),
    (
        _rule(
            rf"\b(?:(?:on |during )?(?:the )?)(?P<which>last|past|this|next|coming) "
            rf"(?P<unit>week(?:end)?|month|year|{_WEEKDAY})\b(?!')"
        ),
        _neighbour,
    ),
    (_rule(rf"\bon (?P<day>{_WEEKDAY}){_PART}\b"), _weekday),
    (
        _rule(
            rf"\b(?:in|since|back in|this|last|next)(?: (?:early|late|mid))? (?P<month>{_MONTH})"
            rf"(?:,? (?:of )?(?P<year>{_YEAR})\b)?"
        ),
        _month,
    ),
    (_rule(rf"\b(?:(?:back )?in|since) (?P<year>{_YEAR})\b"), _plain_year),
)
