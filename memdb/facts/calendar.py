"""
Calendar of English: days, weeks, months, seasons and holidays by their first and last day.

The columns `messages.spans` and `entries.spans` store spans of days too. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date, timedelta

    # First and last day, both inclusive.
    Days = tuple[date, date]
else:
    from datetime import date, timedelta

MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
# "one" to "twenty".
NUMBER_WORDS = tuple(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty".split()
)
EPOCH = date(1970, 1, 1)
_FIRST = EPOCH.toordinal()
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_MAX_YEARS = 3
UNIT_DAYS = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}


class DaySpan(Record):
    """Days from *first* to *last*, both inclusive, counted from 1 January 1970."""

    first: int
    last: int


class DateMention(Record):
    """
    A day, month or year in a text; None for a part that the text leaves out.

    A day always has its month.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None


class AskedDays(Record):
    """
    The days in a question.

    Attributes:
        dates: Days, months and years, in order.
        spans: Days counted from today, and from one time to another.
        bounds: All days before, until, since or after a time.
        limits: The times that bounds exclude; a text that names them is about them too.
    """

    dates: tuple[DateMention, ...] = ()
    spans: tuple[DaySpan, ...] = ()
    bounds: tuple[DaySpan, ...] = ()
    limits: tuple[DaySpan, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it names no time."""
        return not (self.dates or self.spans or self.bounds)


def span_of(first: date, last: date) -> DaySpan:
    """Return the days from *first* to *last*, both inclusive."""
    return DaySpan((first - EPOCH).days, (last - EPOCH).days)


def month_of(year: int, month: int) -> Days:
    """Return the first and last day of a month; month 0 is December of the year before."""
    year, place = year + (month - 1) // 12, (month - 1) % 12 + 1
    after = date(year + place // 12, place % 12 + 1, 1)
    return date(year, place, 1), after - timedelta(days=1)


def period_of(unit: str, day: date, step: int) -> Days:
    """Return the first and last day of the unit of time that is *step* after that of *day*."""
    if unit == "year":
        return date(day.year + step, 1, 1), date(day.year + step, 12, 31)
    if unit == "month":
        return month_of(day.year, day.month + step)
    day += timedelta(days=step * UNIT_DAYS[unit])
    if unit == "day":
        return day, day
    monday = day - timedelta(days=day.weekday())
    return monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6)


def season_of(name: str, year: int) -> Days:
    """Return a season of the northern hemisphere; the winter of a year begins in its December."""
    month = _SEASONS[name]
    return month_of(year, month)[0], month_of(year, month + 2)[1]


def holiday_of(name: str, part: str | None, year: int) -> Days:
    """Return the days of a holiday in a year; *part* is "eve", "day" or None."""
    if name == "easter":
        sunday = _easter(year)
        return sunday - timedelta(days=2), sunday + timedelta(days=1)
    if name == "thanksgiving":  # the fourth Thursday of November
        first = date(year, 11, 1)
        day = first + timedelta(days=(3 - first.weekday()) % 7 + 21)
        return day, day
    if name in ("christmas", "xmas"):
        days = {"eve": (24, 24), "day": (25, 25)}.get(part or "", (24, 26))
        return date(year, 12, days[0]), date(year, 12, days[1])
    month, number = {"halloween": (10, 31), "valentine": (2, 14)}.get(
        name, (12, 31) if part == "eve" else (1, 1)
    )
    day = date(year, month, number)
    return day, day


def _easter(year: int) -> date:
    """Return Easter Sunday. Source: Meeus 1991, the Gregorian algorithm."""
    golden, century, rest = year % 19, year // 100, year % 100
    shift = century // 4 + (century - (century + 8) // 25 + 1) // 3
    moon = (19 * golden + century - shift + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - moon - rest % 4) % 7
    late = (golden + 11 * moon + 22 * week) // 451
    month, day = divmod(moon + week - 7 * late + 114, 31)
    return date(year, month, day + 1)


def nearest(
    make: Callable[[int], Days], day: date, *, ahead: bool | None = None, is_over: bool = False
) -> Days:
    """
    Return a yearly event in the year in which it is nearest to *day*.

    Args:
        make: Returns its first and last day in a year.
        ahead: Only if it is not over (True), or has begun (False). None means either.
        is_over: Only if it is over.
    """
    choices = [make(year) for year in range(day.year - 2, day.year + 2)]
    if is_over:
        choices = [days for days in choices if days[1] < day]
    elif ahead is not None:
        choices = [days for days in choices if (days[1] >= day if ahead else days[0] <= day)]
    return min(choices, key=lambda days: abs(days[0] + (days[1] - days[0]) / 2 - day))


def days_of(mention: DateMention, near: DaySpan) -> list[DaySpan]:
    """
    Return the days that *mention* may mean: in each year of *near* if it has no year.

    If it names a day, the whole month is one of them.

    >>> days_of(DateMention(month=1, day=3), DaySpan(40, 50))
    [DaySpan(first=0, last=30), DaySpan(first=2, last=2)]
    """
    try:
        years = [(EPOCH + timedelta(days=day)).year for day in (near.first, near.last)]
    except OverflowError:
        return []
    named = range(years[0], years[1] + 1) if mention.year is None else (mention.year,)
    found = []
    for year in named[:_MAX_YEARS]:
        first = month_of(year, mention.month or 1)[0]
        last = month_of(year, mention.month or 12)[1]
        found.append(span_of(first, last))
        if mention.day is not None and mention.day <= last.day:
            found.append(span_of(*[first.replace(day=mention.day)] * 2))
    return found


def write_spans(spans: Iterable[DaySpan]) -> str | None:
    """Return spans of days as a column contains them; None if there are none."""
    written = []
    for span in spans:
        days = (date.fromordinal(_FIRST + day) for day in (span.first, span.last))
        first, last = map(date.isoformat, days)
        written.append(first if first == last else f"{first}/{last}")
    return " ".join(written) or None


def read_spans(stored: str | None) -> tuple[DaySpan, ...]:
    """
    Return the spans that `write_spans` wrote; none if the text is damaged.

    >>> read_spans("1970-01-02 1970-02-01/1970-02-28")
    (DaySpan(first=1, last=1), DaySpan(first=31, last=58))
    """
    if stored is None:
        return ()
    try:
        days = [
            [date.fromisoformat(day).toordinal() - _FIRST for day in span.split("/")]
            for span in stored.split()
        ]
    except ValueError:
        return ()
    return tuple(DaySpan(min(span), max(span)) for span in days)
