"""Times as a model and a person read them."""

from __future__ import annotations


def iso_day(created_ms: int) -> str:
    """
    Return the day of UTC that a time lies in, for any time that memdb stores.

    >>> iso_day(1_700_000_000_000), iso_day(-1)
    ('2023-11-14', '1969-12-31')
    """
    from datetime import UTC, datetime, timedelta

    start = datetime(1970, 1, 1, tzinfo=UTC)
    return (start + timedelta(milliseconds=created_ms)).date().isoformat()


def iso_time(created_ms: int) -> str:
    """
    Return a time of UTC to the millisecond.

    >>> iso_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    from datetime import UTC, datetime, timedelta

    start = datetime(1970, 1, 1, tzinfo=UTC)
    moment = start + timedelta(milliseconds=created_ms)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
