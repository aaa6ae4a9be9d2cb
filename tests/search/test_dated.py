"""Questions that name a time: the days that texts speak of, and the bounds of the question."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cases import each

from memdb import MemDB
from memdb.facts.calendar import DaySpan
from memdb.facts.dates import asked_days
from memdb.search.date_score import DateScorer
from memdb.search.parse import parse_query
from memdb.search.weights import MESSAGES

TODAY = (datetime(2024, 5, 15, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
DAY_MS = 86_400_000
FILLER = [
    ("Ann went to a market and bought green apples.", "2022-07-05"),
    ("Ann went to the lake and bought a red boat.", "2022-09-03"),
    ("Ann went to a museum and bought old maps.", "2022-03-11"),
    ("Ann went to a farm and bought fresh eggs.", "2021-08-20"),
]


def ms(day: str) -> int:
    """Return noon of a day, UTC milliseconds."""
    return round(datetime.fromisoformat(f"{day}T12:00+00:00").timestamp()) * 1000


def day(text: str) -> int:
    """Return a day counted from 1 January 1970."""
    return ms(text) // DAY_MS


def span(first: str, last: str | None = None) -> DaySpan:
    """Return the days from one to another."""
    return DaySpan(day(first), day(last or first))


@pytest.fixture
def talk(open_db: Callable[..., MemDB]) -> Any:
    """Return a session with messages of several months."""
    session = open_db(":memory:", embedder=None).scope("ann").session("s")
    for text, said in FILLER:
        session.append("user", text, author="Ann", created=ms(said))
    return session


@pytest.mark.parametrize(
    ("text", "said", "question"),
    [
        ("Ann went to Oslo last month and bought a coat.", "2022-06-20", "in May 2022"),
        ("Ann bought a coat, two weeks ago.", "2022-06-05", "in May 2022"),
        ("Ann will buy a coat next month.", "2022-04-20", "in May 2022"),
        ("Ann bought a coat on 3 May.", "2022-10-20", "on 3 May 2022"),
        ("Ann bought a coat in the summer of 2019.", "2022-10-20", "in July 2019"),
        ("Ann bought a coat at Christmas.", "2022-01-20", "in December 2021"),
        ("Ann bought a coat back in 2019.", "2022-01-20", "in 2019"),
        ("Ann bought a coat in May 2019.", "2022-01-20", "before July 2019"),
        ("Ann bought a coat next month.", "2022-12-20", "since January 2023"),
        ("Ann bought a coat in May 2020.", "2022-12-20", "between April and June 2020"),
    ],
)
def test_a_question_finds_what_was_said_later_about_its_time(
    talk: Any, text: str, said: str, question: str
) -> None:
    """Without that all of them say the same words."""
    talk.append("user", text, author="Ann", created=ms(said))

    hits = talk.recall(f"What did Ann buy {question}?", limit=1, explain=True)

    assert hits[0].text == text
    assert hits[0].explanation["date"] > 0


def test_what_was_said_then_still_counts_as_much(talk: Any) -> None:
    """A message of July is found as before."""
    hits = talk.recall("What did Ann buy in July 2022?", limit=1)

    assert hits[0].text == FILLER[0][0]


def test_entries_are_found_by_the_days_that_they_speak_of(open_db: Callable[..., MemDB]) -> None:
    """The same words, another time."""
    ann = open_db(":memory:", embedder=None).scope("ann")
    for year in (2019, 2020, 2021, 2022):
        ann.remember(f"The flat was painted {year - 2000} times since May {year}.", key=str(year))

    hits = ann.recall("What was painted in May 2020?", limit=1, kinds=["entry"], explain=True)

    assert "May 2020" in hits[0].text
    assert hits[0].explanation["date"] > 0


def test_a_past_entry_has_its_days_too(open_db: Callable[..., MemDB], clock: Any) -> None:
    """No column holds those of an earlier version."""
    ann = open_db(":memory:", embedder=None, clock=clock).scope("ann")
    entry = ann.remember("The flat was painted on 3 May 2020.", key="flat").entry
    then = entry.stored_ms
    clock.advance(1_000)
    ann.entries.update(entry.id, text="The flat was never painted.")

    hits = ann.recall("flat in May 2020", kinds=["entry"], as_of=then, explain=True)

    assert hits[0].text == "The flat was painted on 3 May 2020."
    assert hits[0].explanation["date"] > 0


def score(question: str, said: str | None, *spans: DaySpan) -> float:
    """Return the date term of a record, `month` and `day` 1 and 2."""
    weights = MESSAGES.replace(month=1.0, day=2.0, bound=0.5, about=1.0, own=1.0, vague=1.0)
    query = parse_query(question, today=TODAY)
    return DateScorer(query, weights).score(None if said is None else ms(said), spans)


SCORES = [
    ("tea", "2022-05-03", [], 0.0),
    ("tea in May 2022", "2022-05-03", [], 1.0),
    ("tea on 3 May 2022", "2022-05-03", [], 2.0),
    ("tea in May", "2019-05-03", [], 1.0),
    ("tea in May 2022", "2022-08-03", [], 0.0),
    ("tea in May 2022", "2022-08-03", [span("2022-05-07")], 1.0),
    ("tea in May", "2022-08-03", [span("2019-05-07")], 1.0),
    ("tea on 3 May 2022", "2022-08-03", [span("2022-05-03")], 2.0),
    ("tea on 3 May 2022", "2022-08-03", [span("2022-05-01", "2022-05-31")], 1.0),
    ("tea in May 2022", "2022-08-03", [span("2022-01-01", "2022-12-31")], 31 / 365),
    ("tea in 2022", "2023-08-03", [span("2022-05-01", "2022-05-31")], 1.0),
    ("tea in May 2022", "2022-08-03", [span("2021-05-07"), span("2022-05-07")], 1.0),
    ("tea yesterday", "2024-05-14", [], 2.0),
    ("tea last week", "2024-05-01", [span("2024-05-08")], 1.0),
    ("tea next week", "2024-05-01", [span("2024-05-21")], 1.0),
    ("tea before May 2022", "2022-04-03", [], 0.5),
    ("tea before May 2022", "2022-07-03", [span("2022-05-01", "2022-05-31")], 1.0),
    ("tea by 3 May 2022", "2022-07-03", [span("2022-05-03")], 2.0),
    ("tea by 3 May 2022", "2022-05-03", [], 2.0),
    ("tea by 3 May 2022", "2022-04-03", [], 0.5),
    ("tea by 3 May 2022", "2022-06-03", [], 0.0),
    ("tea before 3 May 2022", "2022-05-03", [], 0.0),
    ("tea the week before 3 May 2022", "2022-05-01", [], 1.0),
    ("tea the week before 3 May 2022", "2022-05-03", [], 2.0),
    ("tea before May 2022", "2022-05-03", [], 0.0),
    ("tea since May 2022", "2022-05-03", [], 1.0),
    ("tea since May 2022", "2022-06-03", [], 0.5),
    ("tea since May 2022", "2022-04-03", [span("2022-06-01")], 0.5),
    ("tea between April and June 2022", "2022-05-03", [], 1.0),
    ("tea on 29 February", "2023-02-28", [], 1.0),
    ("tea in May 2022", None, [], 0.0),
    ("tea in May 2022", None, [span("2022-05-07")], 1.0),
]


@each("question, said, spans, expected", SCORES)
def test_the_best_of_all_days_of_a_record_counts(
    question: str, said: str | None, spans: list[DaySpan], expected: float
) -> None:
    """By the share of a span that the question's days hold."""
    assert score(question, said, *spans) == pytest.approx(expected)


def test_days_far_from_the_calendar_match_nothing() -> None:
    """A time in milliseconds reaches farther than the years from 1 to 9999."""
    weights = MESSAGES
    query = parse_query("tea in May", today=TODAY)

    assert DateScorer(query, weights).score(10**17, [DaySpan(10**9, 10**9)]) == 0.0
    asked = asked_days("tea since May 2022", 10**12)
    assert [(one.year, one.month) for one in asked.dates] == [(2022, 5)]
    assert asked.bounds == ()
