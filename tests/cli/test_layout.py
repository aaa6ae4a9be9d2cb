"""Text laid out for a screen: whole words, and the passage that answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.cli.layout import WHOLE_CHARS, passage, width_of, wrap

TEXTS = st.text(st.sampled_from("ab e\n.绿茶é\u0301🍵-、（」"), max_size=300)


@given(TEXTS, st.integers(10, 60), st.sampled_from(["", "    "]))
def test_lines_fit_and_no_word_is_broken(text: str, width: int, indent: str) -> None:
    """Every character stays in its order; a line is too wide only for one word."""
    lines = list(wrap(text, width, indent))

    assert "".join("".join(lines).split()) == "".join(text.split())
    for line in lines:
        assert line.startswith(indent) or not line
        assert width_of(line) <= width or len(line.split()) == 1
    joined = " ".join(" ".join(lines).split())
    assert {word for word in joined.split() if word.isascii()} <= {*text.split()} or not (
        text.isascii()
    )


@given(TEXTS, st.integers(10, 60), st.integers(0, 40))
def test_what_leads_the_first_line_counts(text: str, width: int, lead: int) -> None:
    """The first line is too wide only for one word behind its lead."""
    first, *_ = [*wrap(text, width, "  ", "-" * lead), ""]

    assert width_of(first) <= width or len(first[lead:].split()) <= 1


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("green tea is good", 9, ["green tea", "is good"]),
        ("绿茶很好喝", 4, ["绿茶", "很好", "喝"]),
        ("a\n\nb", 10, ["a", "", "b"]),
        ("  code\n    more", 20, ["  code", "    more"]),
        ("https://example.com/a/b/c x", 10, ["https://example.com/a/b/c", "x"]),
        ("", 10, [""]),
    ],
)
def test_lines_of_whole_words(text: str, width: int, lines: list[str]) -> None:
    """Line breaks and leading blanks stay; a long word has a line of its own."""
    assert list(wrap(text, width)) == lines


@given(st.text(st.sampled_from("ab .\n茶"), max_size=2000), st.text("ab 茶", max_size=20))
def test_a_passage_is_of_the_text(text: str, query: str) -> None:
    """It is one piece of at most 600 characters, and the rest is counted."""
    piece, left_out = passage(text, query)

    assert piece in text
    assert len(piece) <= max(WHOLE_CHARS, 0)
    assert left_out == (len(text) - len(piece) if len(text) > WHOLE_CHARS else 0)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("when is the dentist", "The dentist is on Friday at nine."),
        ("appointments with DENTISTS", "The dentist is on Friday at nine."),
        ("酒店", "我们住在奥斯陆的酒店。"),
    ],
)
def test_the_passage_holds_the_words_of_the_question(query: str, said: str) -> None:
    """Also with another ending, and in Chinese; it begins with a sentence."""
    text = f"{'We talked of the weather again. ' * 40}{said} {'Nothing more was said. ' * 40}"
    piece, left_out = passage(text, query)

    assert said in piece
    assert piece.startswith("We talked of the weather again.")
    assert left_out > 1000


def test_without_a_word_of_the_question_it_is_the_beginning() -> None:
    """And ends behind a word."""
    piece, _ = passage("seat " * 400, "umbrella")

    assert piece.startswith("seat seat")
    assert piece.endswith(" seat")


@pytest.mark.parametrize("part", ["a", "a ", " ", "茶", "\n", ". ", "é", "a\n"])
def test_long_texts_take_no_quadratic_time(part: str) -> None:
    """200,000 characters of anything end before the test's timeout."""
    text = part * (200_000 // len(part))
    assert list(wrap(text, 80))
    assert passage(text, " ".join(f"a{number}" for number in range(1000)) + " a茶")
