"""Times that a caller gives: milliseconds, datetimes, dates, spans and English."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from memdb.errors import InvalidInput
from memdb.facts.dates import find_times
from memdb.text.validate import DAY_MS, MAX_MS, MIN_MS, UNITS_MS, moment_ms

_MAX_SPAN_DIGITS = 6
_ISO_DAY_CHARS = len("2026-05-01")


def when_ms(
    value: object, field: str, now_ms: int, *, ahead: bool = False, end: bool = False
) -> int | None:
    """
    Return UTC milliseconds of a time that a caller gives; None for None.

    Args:
        value: Milliseconds, an aware datetime, a date, or text. A date is read as its ISO text. A
            text is an ISO date or time (UTC if it names no zone), or a span of days, hours or
            minutes ("30d", "12h", "45m"). English ("2 weeks ago", "3 May") means the beginning of
            the day, week, month or year that it names.
        ahead: Whether a span or a day without a year is after now, or before it.
        end: Whether a day, week, month or year that is named counts to its end.

    Raises:
        InvalidInput: it is none of them.

    >>> when_ms("2h", "expires", 1_000, ahead=True), when_ms("1970-01-02", "since", 0)
    (7201000, 86400000)
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    if not isinstance(value, str):
        return moment_ms(value, field)
    text = value.strip()
    for read in (_span_ms, _iso_ms, _english_ms):
        found = read(text, now_ms, ahead=ahead, end=end)
        if found is None:
            continue
        if not MIN_MS <= found - end <= MAX_MS:  # the end of the last day is the first one after it
            raise InvalidInput(f"{field} is {value!r}: give a time of the years 1 to 9999")
        return min(found, MAX_MS)
    raise InvalidInput(
        f"{field} is {value[:MAX_CHARS]!r}: give milliseconds, a datetime, a date such as "
        "'2026-05-01', a span such as '30d', '12h' or '45m', or '2 weeks ago'"
    )


# A time in words is short; more is a text that names one.
MAX_CHARS = 64


def _span_ms(text: str, now_ms: int, *, ahead: bool, end: bool) -> int | None:  # noqa: ARG001 (one of READERS)
    digits, unit = text[:-1], text[-1:]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_SPAN_DIGITS
    if unit not in UNITS_MS or not is_number or not int(digits):
        return None
    span_ms = int(digits) * UNITS_MS[unit]
    return now_ms + span_ms if ahead else now_ms - span_ms


def _iso_ms(text: str, _now_ms: int, *, ahead: bool, end: bool) -> int | None:  # noqa: ARG001 (one of READERS)
    found = iso_ms(text)
    is_day = end and found is not None and len(text) <= _ISO_DAY_CHARS
    return found + DAY_MS if is_day and found is not None else found


def iso_ms(value: object) -> int | None:
    """Return ISO 8601 text as UTC milliseconds, None for other text. Without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def _english_ms(text: str, now_ms: int, *, ahead: bool, end: bool) -> int | None:
    if len(text) > MAX_CHARS:
        return None
    times = find_times(text, now_ms, ahead=ahead)
    whole = [
        (time.span.last + 1) * DAY_MS if end else time.first_ms
        for time in times
        if (time.start, time.end) == (0, len(text))
    ]
    return whole[0] if whole else None
