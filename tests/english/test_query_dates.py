"""Dates that a question counts back from today."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.english.query_dates import DaySpan, relative_dates

EPOCH = date(1970, 1, 1)
# A Wednesday.
TODAY = (date(2024, 5, 15) - EPOCH).days


def days(span: DaySpan) -> tuple[str, str]:
    """Return the first and last day as people write them."""
    return (
        date.fromordinal(EPOCH.toordinal() + span.first).isoformat(),
        date.fromordinal(EPOCH.toordinal() + span.last).isoformat(),
    )


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did I say today?", "2024-05-15", "2024-05-15"),
        ("yesterday's dinner", "2024-05-14", "2024-05-14"),
        ("the day before yesterday", "2024-05-13", "2024-05-13"),
        ("last night", "2024-05-14", "2024-05-14"),
        ("this morning", "2024-05-15", "2024-05-15"),
        ("3 days ago", "2024-05-12", "2024-05-12"),
        ("a week ago", "2024-05-06", "2024-05-10"),
        ("Three weeks ago", "2024-04-21", "2024-04-27"),
        ("a couple of weeks ago", "2024-04-28", "2024-05-04"),
        ("two months ago", "2024-03-01", "2024-03-31"),
        ("six months ago", "2023-11-01", "2023-11-30"),
        ("a year ago", "2023-01-01", "2023-12-31"),
        ("last week", "2024-05-06", "2024-05-12"),
        ("this week", "2024-05-13", "2024-05-19"),
        ("last weekend", "2024-05-11", "2024-05-12"),
        ("last month", "2024-04-01", "2024-04-30"),
        ("this year", "2024-01-01", "2024-12-31"),
        ("last Friday", "2024-05-10", "2024-05-10"),
        ("last Wednesday", "2024-05-08", "2024-05-08"),
        ("this Monday", "2024-05-13", "2024-05-13"),
        ("last May", "2023-05-01", "2023-05-31"),
        ("last March", "2024-03-01", "2024-03-31"),
        ("this may", "2024-05-01", "2024-05-31"),
        ("in the past 10 days", "2024-05-05", "2024-05-15"),
        ("over the last two weeks", "2024-05-01", "2024-05-15"),
    ],
)
def test_relative_dates(text: str, first: str, last: str) -> None:
    """Each names one span of days."""
    (span,) = relative_dates(text, TODAY)

    assert days(span) == (first, last)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "at last",
        "the last one",
        "ago",
        "last but not least",
        "years of tea",
        "last May 3rd",
        "weekly",
    ],
)
def test_what_only_looks_like_a_relative_date_is_none(text: str) -> None:
    """Most sentences count nothing back."""
    assert relative_dates(text, TODAY) == []


@given(st.text(max_size=40), st.integers(-(10**7), 10**7))
def test_no_text_and_no_day_fails(text: str, today: int) -> None:
    """Whatever is asked, and whatever the clock says."""
    for span in relative_dates(f"999 years ago, last may, 3 weeks ago {text}", today):
        assert span.first <= span.last
