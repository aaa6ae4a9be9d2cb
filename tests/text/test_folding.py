"""Spellings that unicode61 does not fold, and words of several scripts."""

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.text.terms import Term, cjk_grams, runs_of, spellings, word_terms


@each(
    "word, others",
    [
        ("straße", ["strasse"]),
        ("grüße", ["grusse", "gruesse"]),
        ("für", ["fuer"]),
        ("łódź", ["lodz"]),
        ("ærø", ["aero"]),
        ("ışık", ["isik"]),
        ("đậu", ["dau"]),
        ("όσλο", ["οσλο"]),
        ("ёлка", ["елка"]),
        ("мой", []),
        ("أوسلو", ["اوسلو"]),
        ("والكتاب", ["كتاب"]),
        ("الكِتَابُ", ["الكتاب", "كتاب"]),
        ("٢٠٢٤", ["2024"]),
        ("שָׁלוֹם", ["שלום", "לום"]),
        ("לאוסלו", ["אוסלו"]),
        ("ﬁne", ["fine"]),
        ("café", []),
        ("हिन्दी", []),
        ("tea", []),
    ],
)
def test_other_spellings(word, others):
    """What unicode61 folds by itself is not written twice."""
    assert spellings(word) == others


@pytest.mark.parametrize(
    ("word", "runs"),
    [
        ("caféбар", ["café", "бар"]),
        ("приветworld123", ["привет", "world123"]),
        ("3rd", ["3rd"]),
        ("2024год", ["2024год"]),
        ("x²", ["x²"]),
        ("αβγabcאבג", ["αβγ", "abc", "אבג"]),
        ("हिन्दीabc", ["हिन्दी", "abc"]),
    ],
)
def test_runs_of_one_script(word, runs):
    """Digits and marks stay with what they touch."""
    assert runs_of(word) == runs


@given(st.text(max_size=40))
def test_nothing_is_lost_and_nothing_fails(text):
    """Runs make the word again; spellings are words."""
    assert "".join(runs_of(text)) == text
    assert all(spellings(text))


def test_a_word_with_other_spellings_is_one_term():
    """Its document frequency is that of all spellings together."""
    assert word_terms(["straße", "tea"]) == [
        Term(("straße",), any_of=("strasse",)),
        Term(("tea",)),
    ]


def test_the_second_column_holds_glued_words_spellings_and_emoji():
    """And nothing for a text of plain words."""
    assert cjk_grams("Приветworld!") == "привет world"
    assert cjk_grams("Ёлка 🇳🇴👍🏽") == "елка emoji1f1f31f1f4 emoji1f44d"
    assert cjk_grams("“It’s a café – really…”") == ""
