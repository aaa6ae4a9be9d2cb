"""Times named in a sentence, against the time it was said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memdb.english.moments import find_moments, in_full

# A Wednesday.
SAID_MS = round(datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()) * 1000

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
    ("I may go 3 times", None, None),
]


@pytest.mark.parametrize(("text", "ahead", "shown"), TIMES, ids=[f"{a} {b}" for a, b, _ in TIMES])
def test_a_time_is_written_in_full(text: str, ahead: bool | None, shown: str | None) -> None:
    """Relative times become days, weeks, months or years; what is not certain stays."""
    full, first_ms = in_full(text, SAID_MS, ahead=ahead)

    assert full == (shown or text)
    assert (first_ms is None) == (shown is None)


def test_times_do_not_overlap_and_say_where_they_stand() -> None:
    """Two times in one sentence are two moments."""
    text = "We met on 3 May 2020 and again last week."
    found = find_moments(text, SAID_MS)

    assert [text[one.start : one.end] for one in found] == ["on 3 May 2020", "last week"]


@pytest.mark.parametrize("said_ms", [-62_135_596_800_000, 253_402_300_799_999])
def test_the_ends_of_the_calendar_make_nothing_fail(said_ms: int) -> None:
    """What would lie outside is left as it was said."""
    full, _ = in_full("yesterday, tomorrow, in 10 years, 900 years ago", said_ms)

    assert full
