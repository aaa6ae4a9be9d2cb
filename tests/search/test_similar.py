"""Late interaction: what words of similar meaning add, and to whom."""

import pytest

from memdb.search.rank import Lexical, idf, near_words
from memdb.search.weights import DOCUMENTS, MESSAGES, SIMILAR_CHARS

FIRST = 1 << 44 | 1 << 24


def test_the_nearest_word_of_a_text_counts() -> None:
    """One value per word and text, from the floor up to 1."""
    near = near_words(["doctor"], {1: "My physician, a surgeon, called.", 2: "A guitar."}, 0.3)

    assert set(near) == {"doctor"}
    assert set(near["doctor"]) == {1}
    assert 0 < near["doctor"][1] < 1


def test_stop_words_are_near_to_nothing() -> None:
    """They stand everywhere."""
    assert near_words(["one"], {1: "it and they were some of those"}, 0.0) == {}


def test_only_the_beginning_of_a_long_text_is_compared() -> None:
    """The cost does not grow with what somebody pasted."""
    text = "x " * (SIMILAR_CHARS // 2) + "physician"

    assert near_words(["doctor"], {1: text}, 0.3) == {}


def test_a_similar_word_counts_in_part_and_reaches_the_neighbours() -> None:
    """As a word that a message holds does."""
    arm = Lexical({'"doctor"': [FIRST + 9]}, 10, MESSAGES.replace(context=((1, 0.5),)))

    added = arm.similar({'"doctor"': {FIRST + 3: 0.8}})

    whole = idf(1, 10)
    assert added == pytest.approx({FIRST + 3: 0.8 * whole, FIRST + 4: 0.4 * whole})


def test_a_word_that_counts_already_adds_only_what_is_missing() -> None:
    """The holder gains nothing, its neighbour the difference; the next gets half."""
    arm = Lexical({'"doctor"': [FIRST + 3]}, 10, MESSAGES.replace(context=((1, 0.5),)))

    added = arm.similar({'"doctor"': {FIRST + 3: 0.9, FIRST + 4: 0.8}})

    whole = idf(1, 10)
    assert added == pytest.approx({FIRST + 4: 0.3 * whole, FIRST + 5: 0.4 * whole})


def test_words_that_nobody_holds_add_nothing() -> None:
    """They have no weight in the scope."""
    assert Lexical({'"a"': [5]}, 10, DOCUMENTS).similar({'"b"': {5: 0.9}}) == {}


def test_what_similar_words_add_stays_in_the_session() -> None:
    """Seq 0 is no message."""
    arm = Lexical({'"a"': [FIRST + 9]}, 10, MESSAGES.replace(context=((-1, 0.5),)))

    assert set(arm.similar({'"a"': {FIRST + 1: 0.5}})) == {FIRST + 1}
