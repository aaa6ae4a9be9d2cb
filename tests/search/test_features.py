"""Features of messages: what each says of a candidate, and of nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from memdb.embeddings import static_model
from memdb.search import features as module
from memdb.search.candidates import Candidates, Lexical, fuse
from memdb.search.features import (
    LONG_SPREAD,
    MOST_RUNS,
    SIMILAR_CHARS,
    SPREADS,
    TRAITS,
    Features,
    read_features,
    row_of,
    traits_of,
)
from memdb.search.parse import Corpus, parse_query
from memdb.search.weights import MESSAGES
from memdb.text.resources import compiled
from memdb.text.terms import Term

if TYPE_CHECKING:
    from memdb.search.candidates import Row
    from memdb.search.weights import Weights

FIRST = 1 << 44 | 1 << 24
OTHER = 1 << 44 | 2 << 24
LONG = "word " * 200
NOON_3_MAY_2023 = 1_683_115_200_000


def row(text: str = "word", author: str | None = None, role: str = "user", at: int = 0) -> Row:
    """Return a row with only what a test cares for."""
    return row_of(text, author, at, role)


def features(
    query: str,
    rows: dict[int, Row],
    postings: dict[str, list[int]] | None = None,
    cosine: dict[int, float] | None = None,
    similar: bool = False,
    weights: Weights = MESSAGES,
) -> Features:
    """Return the features of *rows*; *postings* by word."""
    found = {Term((word,)): ids for word, ids in (postings or {}).items()}
    lexical = Lexical(found, 40, MESSAGES)
    corpus = Corpus("message", (FIRST, OTHER), None, 40, found)
    fused = fuse(lexical.scores, cosine or {}, MESSAGES)
    candidates = Candidates(corpus, lexical, lexical.scores, cosine or {}, fused, rows)
    parsed = parse_query(query, ["Ann", "Bob"])
    return read_features(parsed, candidates, weights, with_similar=similar)


def column(found: Features, name: str) -> dict[int, float]:
    """Return one feature by id, zeros left out."""
    values = zip(found.ids, found.columns[name], strict=True)
    return {key: round(value, 6) for key, value in values if value}


@pytest.mark.parametrize("cover", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("answers", [False, True])
def test_words_weigh_by_what_the_best_row_holds_of_the_question(
    cover: float, answers: bool
) -> None:
    """All of them in full, one of four a quarter; in a chat with an assistant always in full."""
    one = FIRST + 1
    rows = {one: row(), FIRST + 5: row("word " * 60, role="assistant" if answers else "user")}
    words = {"tea": [one], "oslo": [], "rain": [], "boat": []}
    weights = MESSAGES.replace(cover=cover)
    held = {word: [one] for word in words}

    def share(postings: dict[str, list[int]]) -> float:
        return features("any", rows, postings, {one: 0.5}, weights=weights).base["words"]

    whole = MESSAGES.lexical_share
    said = Lexical({Term((word,)): ids for word, ids in words.items()}, 40)
    quarter = said.scores[one] / said.every_word
    least = 1.0 if answers or not cover else quarter / cover
    assert share(held) == pytest.approx(whole)
    assert share(words) == pytest.approx(whole * least)


def test_words_count_by_what_they_say_and_less_in_a_long_message() -> None:
    """A share of the question: one for all of it, whatever the words weigh."""
    rows = {FIRST + 1: row(), FIRST + 5: row(LONG), FIRST + 9: row()}
    postings = {"tea": [FIRST + 1, FIRST + 5], "oslo": [FIRST + 1]}

    found = features("tea in oslo", rows, postings)

    held, words = column(found, "held"), column(found, "words")
    assert held[FIRST + 1] == words[FIRST + 1] == 1.0
    assert 0 < held[FIRST + 5] < 0.5
    assert words[FIRST + 5] == pytest.approx(
        held[FIRST + 5] * dict(zip(TRAITS, traits_of(LONG), strict=True))["short"], abs=1e-5
    )
    assert column(found, "count") == {FIRST + 1: 1.0, FIRST + 5: 0.5}
    assert FIRST + 9 not in words


@pytest.mark.parametrize(
    ("offset", "holder", "name"),
    [
        (1, row("Tea?", "Ann"), "question_before"),
        (1, row("Tea?", "Bob"), "before"),
        (1, row("Tea.", "Ann"), "before"),
        (-1, row("Tea.", "Ann"), "after"),
        (2, row("Tea.", "Ann"), "two_before"),
        (-2, row("Tea.", "Ann"), "two_after"),
    ],
    ids=["question of another", "own question", "no question", "after", "two before", "two after"],
)
def test_a_word_beside_a_message_counts_by_what_holds_it(
    offset: int, holder: Row, name: str
) -> None:
    """In one feature only, whole: its weight is learned."""
    key = FIRST + 5
    rows = {key: row("Yes.", "Bob"), key - offset: holder}

    found = features("tea", rows, {"tea": [key - offset]})

    assert {one: column(found, one) for one in SPREADS if column(found, one).get(key)} == {
        name: {key: 1.0}
    }


def test_a_long_neighbour_lends_little() -> None:
    """Or each answer of an assistant would lift whatever stands beside it."""
    rows = {FIRST + 1: row(LONG, "Ann"), FIRST + 2: row("Yes.", "Bob")}

    found = features("tea", rows, {"tea": [FIRST + 1]}, {FIRST + 1: 0.5})

    assert column(found, "before") == {FIRST + 2: LONG_SPREAD}
    assert 0 < column(found, "before_near")[FIRST + 2] <= LONG_SPREAD


def test_nothing_is_lent_across_sessions() -> None:
    """The ids of two sessions are far apart."""
    rows = {FIRST + 1: row(), OTHER + 1: row()}

    found = features("tea", rows, {"tea": [FIRST + 1]})

    for name in (*SPREADS, "before_near", "after_near", "question_near"):
        assert OTHER + 1 not in column(found, name)
    assert column(found, "session")[FIRST + 1] > column(found, "session").get(OTHER + 1, 0.0)


def test_similar_words_count_unless_they_are_not_wanted() -> None:
    """In part; a message that holds the word itself gains nothing."""
    rows = {FIRST + 1: row("My physician called."), FIRST + 5: row("The doctor."), FIRST + 9: row()}
    postings = {"doctor": [FIRST + 5]}

    near = {FIRST + 1: 0.3}

    found = column(features("doctor", rows, postings, near, similar=True), "similar")

    assert set(found) == {FIRST + 1}
    assert 0 < found[FIRST + 1] < 1
    assert column(features("doctor", rows, postings), "similar") == {}


def test_only_the_beginning_of_a_long_text_is_compared() -> None:
    """The cost does not grow with what somebody pasted."""
    text = "x " * (SIMILAR_CHARS // 2) + "physician"

    found = features("doctor", {FIRST + 1: row(text)}, {"doctor": [FIRST + 5]}, similar=True)

    assert column(found, "similar") == {}


@pytest.mark.parametrize(
    ("query", "author", "role"),
    [
        ("what did Ann drink?", {1: 1.0}, {}),
        ("did Ann and Bob drink?", {1: 0.5, 2: 0.5}, {}),
        ("what did I drink?", {}, {1: 1.0, 3: 1.0}),
        ("what did you advise?", {}, {2: 1.0}),
        ("what did you tell me?", {}, {1: 1.0, 3: 1.0}),
        ("tea", {}, {}),
        ("what did I tell Ann?", {1: 1.0}, {}),
    ],
)
def test_a_person_of_the_question_is_preferred(
    query: str, author: dict[int, float], role: dict[int, float]
) -> None:
    """By name; if nobody is named, "I" is the user and "you" the assistant."""
    rows = {1: row(author="Ann"), 2: row(author="Bob", role="assistant"), 3: row()}

    found = features(query, rows)

    assert column(found, "author") == author
    assert column(found, "role") == role


@pytest.mark.parametrize(
    ("query", "text", "name"),
    [
        ("when did it rain?", "It was last month.", "when"),
        ("how many cats?", "There are three.", "how_many"),
        ("who came?", "We met, with Marta.", "who"),
        ("where is it?", "It is in Oslo.", "who"),
    ],
)
def test_a_message_has_what_a_question_asks_for(query: str, text: str, name: str) -> None:
    """A time, a number, a name; whoever does not ask for it gains nothing."""
    rows = {1: row(text), 2: row("no idea at all")}

    assert set(column(features(query, rows), name)) == {1}
    assert column(features("tea", rows), name) == {}


def test_a_message_that_asks_is_known_in_any_script() -> None:
    """The question mark of Chinese and Arabic too."""
    rows = {1: row("Tea?"), 2: row("Tea."), 3: row("茶？"), 4: row("شاي؟")}

    assert set(column(features("tea", rows), "asks")) == {1, 3, 4}


def test_dates_count_if_the_question_names_one() -> None:
    """The day that a message was said on."""
    rows = {1: row(at=NOON_3_MAY_2023), 2: row(at=0)}

    assert set(column(features("on 3 May", rows), "date")) == {1}
    assert column(features("tea", rows), "date") == {}


@pytest.mark.parametrize(
    ("answer", "share"), [("word " * 30, 0.0), ("word " * 60, 0.33), ("word " * 900, 1.0)]
)
def test_a_chat_with_an_assistant_is_known_by_its_answers(answer: str, share: float) -> None:
    """Eight times as long as what the user says, or more: whole."""
    rows = {1: row("word " * 30), 2: row(answer, role="assistant")}

    assert features("tea", rows).assistance == pytest.approx(share, abs=0.01)


def test_a_chat_of_one_role_is_between_people() -> None:
    """Nothing can be compared."""
    assert features("tea", {1: row(LONG)}).assistance == 0.0
    assert features("tea", {}).assistance == 0.0


def test_the_neighbours_count_by_how_much_of_a_scope_alternates() -> None:
    """Runs of one author have features of their own."""
    alternating = {FIRST + 1: row(author="Ann"), FIRST + 2: row(author="Bob")}
    run = {FIRST + 1: row(author="Ann"), FIRST + 2: row(author="Ann")}
    postings = {"tea": [FIRST + 1]}

    assert column(features("tea", alternating, postings), "before_run") == {}
    assert column(features("tea", run, postings), "before_run") == {FIRST + 2: MOST_RUNS}


def test_what_makes_a_number_and_a_time() -> None:
    """Whole words and digits, in whatever script and beside whatever sign."""
    expected = {
        "Two of them": (1, 0),
        "twofold, tent, onerous": (0, 0),
        "(ten) \u201cdozen\u201d": (1, 0),
        "ten\u00eda once": (0, 0),
        "12:30": (1, 0),
        "in 2024": (1, 1),
        "20245": (1, 0),
        "a1 3rd 1999a": (0, 0),
        "\u201cMonday\u201d \u2014 maybe": (0, 1),
        "half-year": (0, 1),
        "weekdays, mayor, Lasts": (0, 0),
        "\u5728 2019 \u5e74": (1, 1),
        "b" * 40: (0, 0),
        "": (0, 0),
    }
    found = {}
    for text in expected:
        traits = dict(zip(TRAITS, module._read_traits(text), strict=True))
        found[text] = (int(traits["number"]), int(traits["time"]))
        assert set(traits["vocabulary"]) == set(static_model.rows_of(text)), text
        if text.isascii():
            assert static_model.words_of(text) == compiled(static_model._WORD).findall(
                text.lower()
            ), text

    assert found == expected


def test_a_capital_within_a_sentence_is_a_name() -> None:
    """Not at the beginning, and not behind a full stop."""
    for text in ("Oslo is far", "in Oslo, Bergen. Rome", "we, Ann and BOB", "\u00e9 Paris"):
        before = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", text)
        assert compiled(module._CAPITAL).findall(text) == before, text
