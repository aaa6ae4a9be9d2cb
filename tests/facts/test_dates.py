"""English dates: the times that a text names, and the days that a question names."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.facts.calendar import DaySpan, write_spans
from memdb.facts.dates import asked_days, dates_in, days_about, find_times

# A Wednesday.
EPOCH = date(1970, 1, 1)
TODAY = (date(2024, 5, 15) - EPOCH).days
CREATED_MS = round(datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()) * 1000


TIMES = [
    ("today", None, "2024-05-15"),
    ("yesterday evening", None, "2024-05-14"),
    ("last night", None, "2024-05-14"),
    ("tomorrow", None, "2024-05-16"),
    ("the day after tomorrow", None, "2024-05-17"),
    ("two days ago", None, "2024-05-13"),
    ("3 weeks ago", None, "2024-04-22/2024-04-28"),
    ("a month ago", None, "2024-04-01/2024-04-30"),
    ("five years ago", None, "2019-01-01/2019-12-31"),
    ("in two days", None, "2024-05-17"),
    ("in six months", None, "2024-11-01/2024-11-30"),
    ("last Friday", None, "2024-05-10"),
    ("this Friday", None, "2024-05-17"),
    ("next Friday", None, None),
    ("on Friday", True, "2024-05-17"),
    ("on Friday", False, "2024-05-10"),
    ("on Friday", None, None),
    ("last week", None, "2024-05-06/2024-05-12"),
    ("next weekend", None, "2024-05-25/2024-05-26"),
    ("last year", None, "2023-01-01/2023-12-31"),
    ("on 3 May", False, "2024-05-03"),
    ("on 3 May", True, "2025-05-03"),
    ("on March 3rd", True, "2025-03-03"),
    ("on the 3rd of June", None, "2024-06-03"),
    ("on Dec. 24, 2022", None, "2022-12-24"),
    ("on 2022-12-24", None, "2022-12-24"),
    ("in June", False, "2023-06-01/2023-06-30"),
    ("in June", True, "2024-06-01/2024-06-30"),
    ("in June 2020", None, "2020-06-01/2020-06-30"),
    ("since March", None, "2024-03-01/2024-03-31"),
    ("since 2016", None, "2016-01-01/2016-12-31"),
    ("on 31 June", None, None),
    ("a few days ago", None, None),
    ("a couple of days ago", None, "2024-05-13"),
    ("thirty days ago", None, "2024-04-15"),
    ("two weekends ago", None, "2024-05-04/2024-05-05"),
    ("in two weeks' time", None, None),
    ("last week's dinner", None, None),
    ("two weeks before", None, None),
    ("I may go 3 times", None, None),
]


@each("text, ahead, spans", TIMES)
def test_a_time_that_is_certain(text: str, ahead: bool | None, spans: str | None) -> None:
    """Relative times are days, weeks, months or years; what is not certain is none."""
    assert write_spans(one.span for one in find_times(text, CREATED_MS, ahead=ahead)) == spans


def test_times_do_not_overlap_and_say_where_they_stand() -> None:
    """Two times in one sentence are both returned."""
    text = "We met on 3 May 2020 and again last week."
    found = find_times(text, CREATED_MS)

    assert [text[one.start : one.end] for one in found] == ["on 3 May 2020", "last week"]


@pytest.mark.parametrize("created_ms", [-62_135_596_800_000, 253_402_300_799_999])
def test_the_ends_of_the_calendar_make_nothing_fail(created_ms: int) -> None:
    """What would lie outside is no time."""
    found = find_times("yesterday, tomorrow, in 10 years, 900 years ago", created_ms)

    assert len(found) in (2, 3)


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


@pytest.mark.parametrize("year", ["1900", "2000", "2024", "2099"])
@pytest.mark.parametrize(
    ("text", "is_year"),
    [
        ("It was built {}.", True),
        ("En {} nous avons vendu un bateau.", True),
        ("En {} l'appartement fut vendu", True),
        ("En {} M. Petit est venu", True),
        ("W {} w Krakowie", True),
        ("{} г. мы переехали", True),
        ("{}年に引っ越した", True),
        ("a bag of {} g", False),
        ("{}ml of milk", False),
        ("{} km to go", False),
        ("it costs {} \u20ac", False),
        ("it costs ${}", False),
        ("{}% more", False),
        ("{},5 of them", False),
    ],
)
def test_a_text_and_a_question_take_the_same_numbers_for_years(
    year: str, text: str, *, is_year: bool
) -> None:
    """A number with a unit, or with a sign of money, is none in either of them."""
    text = text.format(year)
    of_question = [one.year for one in dates_in(text)]
    of_text = [days(span)[0] for span in days_about(text, CREATED_MS)]

    assert of_question == ([int(year)] if is_year else [])
    assert of_text == ([f"{year}-01-01"] if is_year else [])


@given(st.text(max_size=40), st.integers(-(10**7), 10**7))
def test_no_text_and_no_day_fails(text: str, today: int) -> None:
    """Whatever is asked, and whatever the clock says."""
    for span in asked_days(f"999 years ago, last may, 3 weeks ago {text}", today).spans:
        assert span.first <= span.last
