"""What is of a time that a question, or a filter, names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import memdb
from memdb.cli import cli
from memdb.integrations.mcp.tools import TOOLS
from memdb.search.asked_time import read_time

if TYPE_CHECKING:
    from collections.abc import Callable

# Thursday.
NOW = datetime(2026, 9, 17, 12, tzinfo=UTC)
SAID = {
    "2025-10-05": "Booked the Hotel Krone for the fair.",
    "2026-03-12": "Booked the Hotel Adler for the fair.",
    "2026-08-20": "The roof was painted green.",
    "2026-09-08": "The boiler was repaired by Birger.",
    "2026-09-14": "We sold the trailer.",
    "2026-09-16": "We compared three ferry lines to Bergen.",
}
FERRY, TRAILER, BOILER, ROOF, ADLER = list(SAID.values())[:0:-1]
# What a question finds first; None means that nothing is of that time.
ASKED = {
    "What did we talk about yesterday?": FERRY,
    "what did we discuss on Monday?": TRAILER,
    "What did we talk about last week?": BOILER,
    "What happened on 8 September?": BOILER,
    "What did I say on 2026-09-08?": BOILER,
    "what did we talk about on 9/8?": BOILER,
    "What did we talk about in March?": ADLER,
    "What did we do last month?": ROOF,
    "What did we talk about two days ago?": None,
    "What did we talk about three days ago today?": TRAILER,
    "what was the last thing I told you?": FERRY,
    "What about the ferry yesterday?": FERRY,
    "Which hotel did we book in March?": ADLER,
    "What did we discuss between Monday and Tuesday this week?": TRAILER,
    "Worüber haben wir gestern gesprochen?": FERRY,
    "Was war am 8. September?": BOILER,
    "Was haben wir letzte Woche besprochen?": BOILER,
    "De quoi avons-nous parlé hier ?": FERRY,
    "¿De qué hablamos ayer?": FERRY,
    "¿De qué hablamos el 8 de septiembre?": BOILER,
    "О чём мы говорили вчера?": FERRY,
    "昨天我们聊了什么？": FERRY,
    "9月8日我们谈了什么？": BOILER,
    "昨日何を話しましたか？": FERRY,
    "어제 우리 무슨 얘기 했지?": FERRY,
}
# Nothing of the time has the words of these.
MEANT = {
    "What did you suggest on Monday?": TRAILER,
    "Which decisions did we make last week?": BOILER,
    "Summarise everything from the past seven days.": FERRY,
    "What did I want from you on Tuesday of last week?": BOILER,
}


# (question, days from and to before the Thursday)
AGO = (
    ("What came up exactly a fortnight ago today?", 14, 14),
    ("What did I write a week ago today?", 7, 7),
    ("Worüber haben wir vor drei Tagen gesprochen?", 3, 3),
    ("Was habe ich vor etwa 2 Wochen gesagt?", 17, 11),
    ("De quoi avons-nous parlé il y a trois jours ?", 3, 3),
    ("¿Qué decidimos hace exactamente quince días?", 15, 15),
    ("O que você me disse há três dias?", 3, 3),
    ("Di cosa abbiamo parlato tre giorni fa?", 3, 3),
    ("Waar hebben we drie dagen geleden over gepraat?", 3, 3),
    ("O czym rozmawialiśmy trzy dni temu?", 3, 3),
    ("О чём мы говорили три дня назад?", 3, 3),
    ("Üç gün önce ne konuştuk?", 3, 3),
    ("عن ماذا تحدثنا قبل ثلاثة أيام؟", 3, 3),
    ("我们两周前聊了什么？", 17, 11),
    ("3日前に何を話しましたか？", 3, 3),
    ("3일 전에 무슨 얘기 했지?", 3, 3),
)


@pytest.fixture
def ann(open_db: Callable[..., memdb.MemDB], clock: Any) -> memdb.Scope:
    """Return a scope with a message of each time, among others of none of them."""
    clock.now_ms = round(NOW.timestamp() * 1000)
    scope = open_db(":memory:", clock=clock).scope("ann")
    chat = scope.session("s")
    for day, text in SAID.items():
        chat.append("user", text, created=datetime.fromisoformat(f"{day}T09:00:00Z"))
    return scope


def test_a_question_by_time_finds_what_is_of_it(ann: memdb.Scope) -> None:
    """In any of the languages, with a topic and without one."""
    wrong = []
    for query, text in ASKED.items():
        hits = ann.recall(query)
        found = hits[0].text if hits else None
        if found != text or (text is not None and not hits[0].is_sure):
            wrong.append((query, found, hits.certainty))
    assert wrong == []


def test_another_time_is_never_sure(ann: memdb.Scope) -> None:
    """What has the words of the question and another date may be what is meant."""
    for query in ("Which hotel did we book yesterday?", "What about the boiler in March?"):
        assert ann.recall(query).certainty != "sure", query


def test_a_filter_without_a_question_lists(ann: memdb.Scope) -> None:
    """The newest first, the last day to its end; every kind of caller."""
    week = [TRAILER, BOILER]
    assert [hit.text for hit in ann.recall("", since="2026-09-08", until="2026-09-14")] == week
    listed = ann.recall("what did we talk about?", since="2026-09-08", until="2026-09-14")
    assert [hit.text for hit in listed] == week
    assert [hit.text for hit in ann.recall("", 1, since=0)] == [FERRY]
    (tool,) = (tool for tool in TOOLS if tool.name == "recall")
    given = {"query": "", "since": "2026-09-08", "until": "2026-09-14"}
    assert [hit["text"] for hit in tool.run(ann, given)["hits"]] == week
    assert not ann.recall("")
    assert not ann.recall("", until="2020-01-01")
    with pytest.raises(memdb.InvalidInput, match=r"until .* before since"):
        ann.recall("x", since="2d", until="9d")


@pytest.mark.parametrize(("question", "first", "last"), AGO)
def test_a_number_of_days_or_weeks_ago(question: str, first: int, last: int) -> None:
    """In every language of `times.json`; a week is vague by three days."""
    today = round(NOW.timestamp()) // 86_400
    found = read_time(question, today).asked.spans
    assert [(today - one.first, today - one.last) for one in found] == [(first, last)]


@pytest.mark.parametrize("question", MEANT)
def test_what_is_of_the_time_is_unsure_without_the_words(ann: memdb.Scope, question: str) -> None:
    """It goes before what has a word at another time."""
    hits = ann.recall(question)

    assert (hits[0].text, hits.certainty) == (MEANT[question], "unsure")


def test_the_command_line_lists_a_time(path: str) -> None:
    """`--until` includes the day."""
    with memdb.open(path) as db:
        for day in range(1, 4):
            when = datetime(2026, 9, day, 10, tzinfo=UTC) + timedelta(hours=day)
            db.scope("ann").session("s").append("user", f"Day {day}", created=when)
        where = db.path
    done = CliRunner().invoke(
        cli, ["recall", where, "", "--since", "2026-09-02", "--until", "2026-09-02"]
    )
    assert "Day 2" in done.stdout
    assert "Day 1" not in done.stdout
    assert "Day 3" not in done.stdout


def test_entries_are_of_the_time_that_they_speak_of(ann: memdb.Scope) -> None:
    """A plan is found by its day, whenever it was told."""
    ann.remember("The dentist is on 23 September 2026.")
    assert "dentist" in ann.recall("What happens on 23 September?")[0].text


def test_a_word_of_one_language_is_no_time_in_another() -> None:
    """German has *hier* for here, French for yesterday."""
    assert read_time("Ist das hier der Schlüssel für die Garage?", 20_000).asked.is_empty
    assert read_time("Où est la clé du garage, hier ?", 20_000).asked.spans
