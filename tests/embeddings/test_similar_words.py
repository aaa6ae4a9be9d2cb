"""Words of about the same meaning: against numpy, and what the user of a search expects."""

import random
from collections.abc import Collection

import numpy as np
import pytest
from cases import each

from memdb.embeddings.static_model import near_rows, rows_of, table

ROW_OF = {piece.decode(): row for piece, row in table().row_of._pieces.ranks().items()}
WORDS = sorted(word for word in ROW_OF if not word.startswith("##"))


def similar_words(
    words: list[str], others: Collection[str], floor: float
) -> dict[str, dict[str, float]]:
    """Return what `near_rows` does, by word instead of row."""
    row_of = ROW_OF
    names = {row_of[other]: other for other in others if other in row_of}
    return {
        word: {names[row]: value for row, value in near.items()}
        for word, near in near_rows(words, list(names), floor).items()
    }


def levels(word: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the components of a word's row as the table file holds them."""
    place = ROW_OF[word] * 64
    row = np.frombuffer(table().rows[place : place + 64], np.uint8)
    return np.stack([row >> 4, row & 15], axis=1).ravel().astype(np.float64) - 8


def cosine(one: str, other: str) -> float:
    """Return the cosine of two words of the table, in double precision."""
    first, second = levels(one), levels(other)
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


@each("count", [1, 2, 3, 500, 1_001])
@each("floor", [0.0, 0.2, 0.5])
def test_cosines_agree_with_numpy(count: int, floor: float) -> None:
    """For any number of words, whatever lane they come to stand in."""
    source = random.Random(count)
    others = source.sample(WORDS, count)
    asked = source.sample(WORDS, 3)

    found = similar_words(asked, others, floor)

    expected = {
        word: {
            other: value
            for other in others
            if (value := cosine(word, other)) > floor and other != word
        }
        for word in asked
    }
    assert {word: dict.fromkeys(near, 0) for word, near in found.items()} == {
        word: dict.fromkeys(near, 0) for word, near in expected.items() if near
    }
    for word, near in found.items():
        assert near == pytest.approx(expected[word])


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [("doctor", "physician", "guitar"), ("car", "truck", "poem"), ("happy", "glad", "table")],
)
def test_what_means_the_same_is_nearer(word: str, near: str, far: str) -> None:
    """The reason for all this."""
    found = similar_words([word], {near, far}, 0.0)[word]

    assert found[near] > 0.3 > found.get(far, 0.0)


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ([], ["tea"]),
        (["tea"], []),
        (["猫"], ["tea"]),
        (["tea"], ["猫", "zzxqvw"]),
        (["tea"], ["tea"]),
    ],
    ids=["no words", "no others", "unknown word", "unknown others", "itself"],
)
def test_where_nothing_is_known_nothing_is_near(words: list[str], others: list[str]) -> None:
    """No error, and a word is not its own neighbour."""
    assert similar_words(words, others, 0.3) == {}


def test_the_rows_of_a_text_are_those_of_its_words() -> None:
    """Each once, without stop words and what the table does not know."""
    row_of = ROW_OF

    assert set(rows_of("The tea, and more TEA: zzxqvw doctor")) == {
        row_of[word] for word in ("tea", "doctor")
    }
    assert not rows_of("it was the \u732b")
