"""English dates: times of a statement in full, and the days that a question names."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.facts.calendar import DaySpan
from memdb.facts.dates import asked_days, find_times

# A Wednesday.
EPOCH = date(1970, 1, 1)
TODAY = (date(2024, 5, 15) - EPOCH).days
CREATED_MS = round(datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()) * 1000


def in_full(text: str, created_ms: int, *, ahead: bool | None = None) -> tuple[str, int | None]:
    """Return *text* with its times in full, and when the first of them begins."""
    times = find_times(text, created_ms, ahead=ahead)
    for time in reversed(times):
        text = text[: time.start] + time.shown + text[time.end :]
    return text, times[0].first_ms if times else None


TIMES = [
    ("today", None, "on 15 May 2024"),
    ("yesterday evening", None, "on 14 May 2024"),
    ("last night", None, "on 14 May 2024"),
    ("tomorrow", None, "on 16 May 2024"),
    ("the day after tomorrow", None, "on 17 May 2024"),
    ("two days ago", None, "on 13 May 2024"),
    ("3 weeks ago", None, "in the week of 22 April 2024"),
    ("a month ago", None, "in April 2024"),
    ("five years ago", None, "in 2019"),
    ("in two days", None, "on 17 May 2024"),
    ("in six months", None, "in November 2024"),
    ("last Friday", None, "on 10 May 2024"),
    ("this Friday", None, "on 17 May 2024"),
    ("next Friday", None, None),
    ("on Friday", True, "on 17 May 2024"),
    ("on Friday", False, "on 10 May 2024"),
    ("on Friday", None, None),
    ("last week", None, "in the week of 6 May 2024"),
    ("next weekend", None, "on the weekend of 25 May 2024"),
    ("last year", None, "in 2023"),
    ("on 3 May", False, "on 3 May 2024"),
    ("on 3 May", True, "on 3 May 2025"),
    ("on March 3rd", True, "on 3 March 2025"),
    ("on the 3rd of June", None, "on 3 June 2024"),
    ("on Dec. 24, 2022", None, "on 24 December 2022"),
    ("on 2022-12-24", None, "on 24 December 2022"),
    ("in June", False, "in June 2023"),
    ("in June", True, "in June 2024"),
    ("in June 2020", None, "in June 2020"),
    ("since March", None, "since March 2024"),
    ("since 2016", None, "since 2016"),
    ("on 31 June", None, None),
    ("a few days ago", None, None),
    ("a couple of days ago", None, "on 13 May 2024"),
    ("thirty days ago", None, "on 15 April 2024"),
    ("two weekends ago", None, "on the weekend of 4 May 2024"),
    ("in two weeks' time", None, None),
    ("last week's dinner", None, None),
    ("two weeks before", None, None),
    ("I may go 3 times", None, None),
]


@each("text, ahead, shown", TIMES)
def test_a_time_is_written_in_full(text: str, ahead: bool | None, shown: str | None) -> None:
    """Relative times become days, weeks, months or years; what is not certain stays."""
    full, first_ms = in_full(text, CREATED_MS, ahead=ahead)

    assert full == (shown or text)
    assert (first_ms is None) == (shown is None)


def test_times_do_not_overlap_and_say_where_they_stand() -> None:
    """Two times in one sentence are both returned."""
    text = "We met on 3 May 2020 and again last week."
    found = find_times(text, CREATED_MS)

    assert [text[one.start : one.end] for one in found] == ["on 3 May 2020", "last week"]


@pytest.mark.parametrize("created_ms", [-62_135_596_800_000, 253_402_300_799_999])
def test_the_ends_of_the_calendar_make_nothing_fail(created_ms: int) -> None:
    """What would lie outside is left as it was said."""
    full, _ = in_full("yesterday, tomorrow, in 10 years, 900 years ago", created_ms)

    assert full


def days(span: DaySpan) -> tuple[str, str]:
    """Return the first and last day as people write them."""
    return (
        date.fromordinal(EPOCH.toordinal() + span.first).isoformat(),
        date.fromordinal(EPOCH.toordinal() + span.last).isoformat(),
    )


@each(
    "text, first, last",
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
        ("thirty days ago", "2024-04-12", "2024-04-18"),
        ("several weeks back", "2024-04-21", "2024-04-27"),
        ("last week's dinner", "2024-05-06", "2024-05-12"),
        ("tomorrow", "2024-05-16", "2024-05-16"),
        ("next week", "2024-05-20", "2024-05-26"),
        ("next March", "2025-03-01", "2025-03-31"),
        ("in two months", "2024-07-01", "2024-07-31"),
        ("last summer", "2023-06-01", "2023-08-31"),
        ("in the summer of 2021", "2021-06-01", "2021-08-31"),
        ("Christmas 2022", "2022-12-24", "2022-12-26"),
        ("last Christmas", "2023-12-24", "2023-12-26"),
        ("New Year's Eve", "2023-12-31", "2023-12-31"),
        ("at Easter", "2024-03-29", "2024-04-01"),
        ("Thanksgiving", "2023-11-23", "2023-11-23"),
        ("Q3 2022", "2022-07-01", "2022-09-30"),
        ("the week of 7 May 2024", "2024-05-06", "2024-05-12"),
        ("before July 2022", "0001-01-01", "2022-06-30"),
        ("until the end of July 2022", "0001-01-01", "2022-07-31"),
        ("as of 3 May 2022", "0001-01-01", "2022-05-03"),
        ("since March 2022", "2022-03-01", "9999-12-31"),
        ("since March", "2024-03-01", "9999-12-31"),
        ("after 2021-05-03", "2021-05-04", "9999-12-31"),
        ("before last week", "0001-01-01", "2024-05-05"),
        ("between March and June 2022", "2022-03-01", "2022-06-30"),
        ("from 3 May 2022 to 10 May 2022", "2022-05-03", "2022-05-10"),
        ("between November and February", "2023-11-01", "2024-02-29"),
        ("the week before 10 April 2023", "2023-04-03", "2023-04-09"),
        ("two days after May 3, 2023", "2023-05-05", "2023-05-05"),
    ],
)
def test_relative_dates(text: str, first: str, last: str) -> None:
    """Each names one span of days."""
    asked = asked_days(text, TODAY)
    span = (*asked.bounds, *asked.spans)[0]

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
    assert asked_days(text, TODAY).spans == ()


@given(st.text(max_size=40), st.integers(-(10**7), 10**7))
def test_no_text_and_no_day_fails(text: str, today: int) -> None:
    """Whatever is asked, and whatever the clock says."""
    for span in asked_days(f"999 years ago, last may, 3 weeks ago {text}", today).spans:
        assert span.first <= span.last
