"""Sentences: scripts, lists, code, logs, bounds; terms and their weights."""

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.facts.sentences import (
    MAX_SENTENCE_CHARS,
    head_and_tail,
    is_code,
    is_question,
    sentences,
    tells_outcome,
    tidy,
    weighted_terms,
)


@each(
    "text, expected",
    [
        pytest.param("", [], id="empty"),
        pytest.param(" \n\t ", [], id="white space"),
        pytest.param("Hi. You there? Yes!", ["Hi.", "You there?", "Yes!"], id="english"),
        pytest.param("See Dr. Wu at 3.50 p.m. today. Ok", ["See Dr. Wu at 3.50 p.m. today.", "Ok"]),
        pytest.param("J. R. Tolkien wrote.", ["J. R. Tolkien wrote."], id="initials"),
        pytest.param("Open app.py or a@b.io now", ["Open app.py or a@b.io now"], id="dots inside"),
        pytest.param('He said "No." Then left.', ['He said "No."', "Then left."], id="quotes"),
        pytest.param("Am 30. Mai im 2. Stock. Ja.", ["Am 30. Mai im 2. Stock.", "Ja."]),
        pytest.param("She is 42. He left.", ["She is 42.", "He left."], id="a number ends"),
        pytest.param("Wait...! Then", ["Wait...!", "Then"], id="many stops"),
        pytest.param("Я пошёл. Ты нет?", ["Я пошёл.", "Ты нет?"], id="russian"),
        pytest.param("我们去北京。你呢？好！", ["我们去北京。", "你呢？", "好！"], id="chinese"),
        pytest.param("- milk\n* [x] eggs\n1. tea", ["milk", "eggs", "1. tea"], id="lists"),
        pytest.param("# Plan\n> quoted\n=====\ngo", ["Plan", "quoted", "go"], id="marks and rules"),
        pytest.param("--- a/b.py\n+added", ["--- a/b.py", "+added"], id="diff"),
        pytest.param("a\0b", ["a b"], id="nul"),
        pytest.param("🎉🎉", ["🎉🎉"], id="emoji"),
        pytest.param(
            "See:\n```python\ndef load(x):\n    pass\n```\nDone.",
            ["See:", "[python code, 2 lines: def load]", "Done."],
            id="code",
        ),
        pytest.param("```\nx = 1", ["[some code, 1 lines]"], id="open fence"),
        pytest.param("```\n```", [], id="empty fence"),
    ],
)
def test_a_text_is_cut_into_sentences(text: str, expected: list[str]) -> None:
    """Each script and layout by its own rules."""
    assert sentences(text) == expected


def test_a_wrapped_paragraph_is_joined() -> None:
    """A long line that goes on in small letters is one sentence, unless it is a log."""
    text = "a paragraph that somebody wrapped by hand at a width of\nsixty columns. Next"

    assert sentences(text) == [text.replace("\n", " ")[:-5], "Next"]
    assert len(sentences(text, wrapped=False)) == 3


@pytest.mark.parametrize("text", ["x" * 1000, "word " * 200, "a,b," * 250, "好" * 1000], ids=repr)
def test_a_long_stretch_is_cut(text: str) -> None:
    """No sentence is longer than the limit, and nothing is lost but spaces."""
    found = sentences(text)

    assert max(map(len, found)) <= MAX_SENTENCE_CHARS
    assert "".join(found).replace(" ", "") == text.replace(" ", "")


@given(st.text(alphabet=st.sampled_from("aB1 .!?\n`~-*#>。？\t\0\"'é好🎉"), max_size=300))
def test_any_text_gives_clean_sentences(text: str) -> None:
    """One line each, not empty, not too long, without NUL."""
    for one in sentences(text):
        assert one
        assert one == one.strip()
        assert len(one) <= MAX_SENTENCE_CHARS
        assert not {"\0", "\n"} & set(one)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param(" short ", 10, ("short", ""), id="all"),
        pytest.param("one two three four five", 12, ("one two", "five"), id="at spaces"),
        pytest.param("x" * 30, 12, ("x" * 8, "x" * 4), id="unbroken"),
        pytest.param("", 0, ("", ""), id="nothing"),
    ],
)
def test_head_and_tail(text: str, limit: int, expected: tuple[str, str]) -> None:
    """Both ends, cut at white space where there is some."""
    assert head_and_tail(text, limit) == expected


@given(st.text(max_size=200), st.integers(0, 100))
def test_head_and_tail_keep_the_limit(text: str, limit: int) -> None:
    """Never more characters than allowed."""
    head, tail = head_and_tail(text, limit)

    assert len(head) + len(tail) <= limit


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Hey Mel, moved to Oslo 😊.", "Moved to Oslo."),
        ("Thanks, Melanie, see you in May!", "See you in May!"),
        ("Great Britain won, Melanie.", "Great Britain won."),
        ("So far all is well", "So far all is well"),
        ("Hi!", "Hi!"),
        ("🎉", "🎉"),
        ("", ""),
    ],
)
def test_tidy_leaves_out_what_says_nothing(sentence: str, expected: str) -> None:
    """Interjections, vocatives and emoji go, unless there is nothing else."""
    assert tidy(sentence, frozenset({"mel", "melanie"})) == expected


def test_weights_put_facts_before_words() -> None:
    """A file name, a number and a name weigh more than a word, that more than small talk."""
    terms, shown, decides = weighted_terms(
        "yes Kyoto has app.py and 2024 wonderful elephants", frozenset()
    )

    assert min(terms["kyoto"], terms["app.py"], terms["2024"]) > terms["elephants"]
    assert terms["elephants"] > terms["wonderful"] > 0
    assert "has" not in terms
    assert shown["kyoto"] == "Kyoto"
    assert not decides


@pytest.mark.parametrize(
    "sentence", ["We decided on tea.", "Let\u2019s go", "I'll do it", "我们决定了", "Решили так"]
)
def test_decisions_are_seen(sentence: str) -> None:
    """A word or a pair of characters tells, with either apostrophe."""
    assert weighted_terms(sentence, frozenset())[2]


def test_names_of_speakers_say_little() -> None:
    """Nicknames that begin like a name too."""
    terms, _, _ = weighted_terms("I told Mel about Rio", frozenset({"melanie"}))

    assert terms["mel"] < terms["rio"]


def test_bare_digits_are_not_shown() -> None:
    """A lone 5 would be a poor topic."""
    assert weighted_terms("we saw 5 of 20", frozenset())[1] == {}


@pytest.mark.parametrize(
    ("check", "yes", "no"),
    [
        (is_question, "你呢？", "Yes."),
        (is_code, "def load(x):", "I define it."),
        (tells_outcome, "E  ValueError: bad", "collecting"),
    ],
)
def test_kinds_of_lines(check, yes: str, no: str) -> None:
    """Questions, code and results are told from other lines."""
    assert check(yes)
    assert not check(no)
