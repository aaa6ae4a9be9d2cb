"""Days of seasons and holidays, and how spans of days are stored."""

from __future__ import annotations

from datetime import date

import pytest

from memdb.facts.calendar import (
    DateMention,
    DaySpan,
    days_of,
    holiday_of,
    nearest,
    read_spans,
    season_of,
    span_of,
    write_spans,
)


@pytest.mark.parametrize(
    "sunday", ["1961-04-02", "1999-04-04", "2008-03-23", "2019-04-21", "2024-03-31", "2038-04-25"]
)
def test_easter(sunday: str) -> None:
    """From Good Friday to Monday."""
    day = date.fromisoformat(sunday)
    first, last = holiday_of("easter", None, day.year)

    assert (day - first).days == 2
    assert (last - day).days == 1


@pytest.mark.parametrize("day", ["2019-11-28", "2022-11-24", "2023-11-23", "2024-11-28"])
def test_thanksgiving_is_the_fourth_thursday_of_november(day: str) -> None:
    """Not the last one."""
    expected = date.fromisoformat(day)

    assert holiday_of("thanksgiving", None, expected.year) == (expected, expected)


def test_a_winter_ends_in_the_next_year() -> None:
    """Its year is that of its December."""
    assert season_of("winter", 2023) == (date(2023, 12, 1), date(2024, 2, 29))


def test_what_comes_once_a_year_is_the_nearest_one() -> None:
    """Or the next, the latest that began, or the latest that is over."""
    day = date(2024, 7, 20)

    def summer(year: int) -> tuple[date, date]:
        return season_of("summer", year)

    assert nearest(summer, day)[0].year == 2024
    assert nearest(summer, day, is_over=True)[0].year == 2023
    assert nearest(lambda year: (date(year, 5, 3),) * 2, day, ahead=True)[0].year == 2025
    assert nearest(lambda year: (date(year, 9, 3),) * 2, day, ahead=False)[0].year == 2023


def test_a_date_without_a_year_is_in_each_year_of_a_span() -> None:
    """A long span is read in its first three years."""
    spans = days_of(DateMention(month=5), span_of(date(2000, 1, 1), date(2020, 1, 1)))

    assert spans == [span_of(date(year, 5, 1), date(year, 5, 31)) for year in (2000, 2001, 2002)]


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (DaySpan(0, 0),),
        (DaySpan(-400, -370), DaySpan(19_000, 19_000)),
        (span_of(date.min, date.max),),
    ],
)
def test_spans_are_read_as_they_were_written(spans: tuple[DaySpan, ...]) -> None:
    """Also the first and last days there are; none is NULL."""
    assert read_spans(write_spans(spans)) == spans
    assert (write_spans(spans) is None) == (not spans)


def test_a_span_whose_ends_were_exchanged_is_read() -> None:
    """No length is below one day."""
    assert read_spans("1970-01-05/1970-01-02") == (DaySpan(1, 4),)
