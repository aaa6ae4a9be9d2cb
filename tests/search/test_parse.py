"""What a query says: words, names, dates, whether it asks."""

from __future__ import annotations

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.facts.calendar import DateMention
from memdb.search.parse import asks, parse_query


def test_a_query_in_full() -> None:
    """Every field of a plain question is filled."""
    query = parse_query("What did Ann buy in May 2023?", ["Ann", "Bob"])

    assert query.text == "What did Ann buy in May 2023?"
    assert query.words == ("what", "did", "ann", "buy", "in", "may", "2023")
    assert query.content == ("ann", "buy")
    assert query.authors == frozenset({"Ann"})
    assert query.dates == (DateMention(year=2023, month=5),)
    assert query.is_question


def test_an_empty_query() -> None:
    """Nothing is said by nothing."""
    query = parse_query("")

    assert (query.words, query.content, query.dates) == ((), (), ())
    assert query.vector_text() == ""
    assert not query.is_question


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("where does ann live", {"Ann Lee"}, id="first name"),
        pytest.param("Lee's dog", {"Ann Lee", "Lee Wu"}, id="shared name"),
        pytest.param("annex and bobbing", set(), id="part of a word"),
        pytest.param("what will Ann do", {"Ann Lee"}, id="will is a verb"),
        pytest.param("what did Will do", {"Will"}, id="Will is a name"),
        pytest.param("wo wohnt 李娜", {"李娜"}, id="Chinese"),
    ],
)
def test_authors(text: str, named: set[str]) -> None:
    """An author is named by any word of the name, in any case."""
    assert parse_query(text, ["Ann Lee", "Lee Wu", "Will", "李娜"]).authors == named


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        pytest.param("José", "What did Jose buy?", "josé", id="accent left out"),
        pytest.param("Jose", "What did José buy?", "jose", id="accent too many"),
        pytest.param("Zoë Kühn", "Where is Kuehn?", "kühn", id="umlaut as two letters"),
        pytest.param("Zoë Kühn", "Where is Kuhn?", "kühn", id="umlaut left out"),
        pytest.param("Łukasz", "lukasz?", "łukasz", id="stroke"),
        pytest.param("Алёна", "Где Алена", "алёна", id="another script"),
    ],
)
def test_a_name_without_its_accents(name: str, text: str, word: str) -> None:
    """It names its author, also where the scope holds it: the index sees no accents."""
    query = parse_query(text, [name, "Bob"])

    assert query.authors == {name}
    assert word in query.words
    assert query.misspelt.isdisjoint(query.words)


def test_two_names_that_differ_in_an_accent_are_two() -> None:
    """Each is named as it is spelt."""
    assert parse_query("Is Rene here?", ["René", "Rene"]).authors == {"Rene"}
    assert parse_query("Is René here?", ["René", "Rene"]).authors == {"René"}


@each(
    "text, dates",
    [
        pytest.param("3 May", [DateMention(month=5, day=3)], id="day first"),
        pytest.param("3rd of May, 2023", [DateMention(2023, 5, 3)], id="with year"),
        pytest.param("May 3rd", [DateMention(month=5, day=3)], id="month first"),
        pytest.param("Sept. 12, 2022", [DateMention(2022, 9, 12)], id="short name"),
        pytest.param("in may 2023", [DateMention(2023, 5)], id="month and year"),
        pytest.param("2023-05-03", [DateMention(2023, 5, 3)], id="iso"),
        pytest.param("2023/5", [DateMention(2023, 5)], id="iso month"),
        pytest.param("during October", [DateMention(month=10)], id="month"),
        pytest.param("since march", [DateMention(month=3)], id="lower case after since"),
        pytest.param("by March", [DateMention(month=3)], id="capital after by"),
        pytest.param("what may Ann eat?", [], id="may is a verb"),
        pytest.param("the protest and march", [], id="march is a noun"),
        pytest.param("May I come?", [], id="May begins"),
        pytest.param("in 2021?", [DateMention(year=2021)], id="year"),
        pytest.param("12023 and 2023.5 and 0.2023", [], id="other numbers"),
        pytest.param("on 32 May", [], id="no such day"),
        pytest.param(
            "between 1 June and 4 July 2020",
            [DateMention(month=6, day=1), DateMention(2020, 7, 4)],
            id="two, in order",
        ),
        pytest.param("June, in June", [DateMention(month=6)], id="once"),
    ],
)
def test_dates(text: str, dates: list[DateMention]) -> None:
    """Days, months and years are read; words that only look like them are not."""
    assert list(parse_query(text).dates) == dates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Tea?", True, id="mark"),
        pytest.param("茶？ ", True, id="wide mark"),
        pytest.param("where is the tea", True, id="asking word"),
        pytest.param("Tea is where I left it.", False, id="statement"),
        pytest.param("", False, id="empty"),
    ],
)
def test_asks(text: str, expected: bool) -> None:
    """A question ends with its mark or begins with an asking word."""
    assert asks(text) is expected


@pytest.mark.parametrize(
    ("text", "drop", "expected"),
    [
        pytest.param("What did Ann's dog eat?", (), "What did dog eat?", id="name"),
        pytest.param("What did Ann eat, today?", {"today"}, "What did eat,", id="common word"),
        pytest.param("Who is Ann?", (), "Who is Ann?", id="nothing would remain"),
        pytest.param("dog", {"dog"}, "dog", id="only the common word"),
        pytest.param("a red-hot dog", {"red"}, "a red-hot dog", id="part of a piece stays"),
    ],
)
def test_vector_text(text: str, drop: set[str], expected: str) -> None:
    """Names and common words go, unless no content word would remain."""
    assert parse_query(text, ["Ann"]).vector_text(drop) == expected


@given(st.text(), st.lists(st.text(), max_size=3))
def test_no_text_fails(text: str, authors: list[str]) -> None:
    """Any text and any names are understood somehow."""
    query = parse_query(text, authors)

    assert set(query.content) <= set(query.words)
    assert query.authors <= set(authors)
    assert query.vector_text(query.words) == text


@given(st.dates())
def test_every_iso_date_of_two_centuries_is_read(date: object) -> None:
    """A date in digits is read exactly when its year is 1900 to 2099."""
    text = str(date)
    year, month, day = (int(part) for part in text.split("-"))
    expected = (DateMention(year, month, day),) if 1900 <= year <= 2099 else ()

    assert parse_query(f"on {text} we met").dates == expected


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("may " * 25_000, id="months"),
        pytest.param("to May " * 14_000, id="months after words"),
        pytest.param("2023-05-01 " * 9_000, id="dates"),
        pytest.param("in" + " " * 50_000 + "may", id="blanks"),
        pytest.param("\u0327\u0301" * 25_000, id="marks"),
    ],
)
def test_a_long_query_is_read_at_once(text: str) -> None:
    """Time grows with the length: 30 ms; with its square it would be 160 s."""
    parse_query(text)


def test_dates_far_into_a_query_are_not_looked_for() -> None:
    """The first 10,000 characters count."""
    assert parse_query("x" * 9_000 + " 2023-05-01").dates == (DateMention(2023, 5, 1),)
    assert parse_query("x" * 10_000 + " 2023-05-01").dates == ()


@pytest.mark.parametrize(
    ("text", "months"),
    [
        pytest.param("within may", 0, id="the end of a word"),
        pytest.param("in - may", 1, id="a dash between"),
        pytest.param("to - May", 0, id="a dash after to"),
        pytest.param("in" + " " * 20 + "may", 1, id="many blanks"),
        pytest.param("inmay", 0, id="no blank"),
        pytest.param("may", 0, id="nothing before"),
    ],
)
def test_a_month_that_is_a_word_needs_the_right_word_before(text: str, months: int) -> None:
    """Only what stands right before it counts."""
    assert len(parse_query(text).dates) == months


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        pytest.param('who said "green tea"?', [("green", "tea")], id="quotes"),
        pytest.param("who said “green tea”?", [("green", "tea")], id="curly quotes"),
        pytest.param(
            "open memdb/recall/search.py", [("memdb", "recall", "search", "py")], id="path"
        ),
        pytest.param("call run_pending()", [("run", "pending")], id="identifier"),
        pytest.param("gpt-4o or 1.2.3", [("gpt", "4o"), ("1", "2", "3")], id="versions"),
        pytest.param('a "word" alone', [], id="one word"),
        pytest.param('"', [], id="lone quote"),
        pytest.param("tea. Coffee", [], id="sentences"),
    ],
)
def test_phrases(text: str, phrases: list[tuple[str, ...]]) -> None:
    """Words in quotes, and words joined without a space, belong together."""
    assert list(parse_query(text).phrases) == phrases
