"""Times as text: format UTC milliseconds, parse times and spans of arguments."""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.text.validate import DAY_MS, HOUR_MS, MINUTE_MS, moment_ms, time_value


def iso_day(created_ms: int) -> str:
    """
    Return the UTC day of a time as ISO text, for any time that memdb stores.

    >>> iso_day(1_700_000_000_000), iso_day(-1)
    ('2023-11-14', '1969-12-31')
    """
    from datetime import UTC, datetime, timedelta

    start = datetime(1970, 1, 1, tzinfo=UTC)
    return (start + timedelta(milliseconds=created_ms)).date().isoformat()


def iso_time(created_ms: int) -> str:
    """
    Return a time as ISO text in UTC, to the millisecond.

    >>> iso_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    from datetime import UTC, datetime, timedelta

    start = datetime(1970, 1, 1, tzinfo=UTC)
    moment = start + timedelta(milliseconds=created_ms)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS}
_MAX_SPAN_DIGITS = 6


def moment_or_span(value: object, field: str, now_ms: int) -> int | None:
    """
    Return None for None, else UTC milliseconds of a time or of a span from now.

    Args:
        value: Milliseconds, an aware datetime, or a span: digits and one of
            d, h, m, as in "30d". No sign, no fraction, nothing else.

    Raises:
        InvalidInput: it is none of them.

    >>> moment_or_span("2h", "expires", 1_000), moment_or_span(5, "expires", 1_000)
    (7201000, 5)
    """
    if not isinstance(value, str):
        return moment_ms(value, field)
    digits, unit = value[:-1], value[-1:]
    if (
        unit not in UNITS_MS
        or not (digits.isascii() and digits.isdecimal())
        or len(digits) > _MAX_SPAN_DIGITS
        or not int(digits)
    ):
        raise InvalidInput(
            f"{field} is {value!r}: give milliseconds, a datetime, or a span such as '30d', "
            "'12h' or '45m'"
        )
    return time_value(now_ms + int(digits) * UNITS_MS[unit], field)
