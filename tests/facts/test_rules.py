"""Facts found without a model: what is believed, how it is worded, and what is passed over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cases import each

from memdb.facts.rules import RuleExtractor
from memdb.models.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.models.entries import Candidate

# A Wednesday.
SAID_MS = round(datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()) * 1000


def said(text: str, seq: int = 1, *, role: str = "user", author: str | None = "Ann") -> Message:
    """Return a message as the store gives it."""
    return Message(
        seq, role, author, text, None, 0, "estimate", None, SAID_MS, None, "trip", seq, ""
    )


def facts(*texts: str, author: str | None = "Ann") -> list[Candidate]:
    """Return what is found in messages of one person."""
    return RuleExtractor().extract(
        [said(text, n, author=author) for n, text in enumerate(texts, 1)]
    )


def texts(found: Sequence[Candidate]) -> list[str]:
    """Return the sentences."""
    return [one.text for one in found]


STATED = [
    ("My name is Ann Lee.", "Ann's name is Ann Lee.", "name"),
    ("Please call me Annie", "Ann wants to be called Annie.", "preferred_name"),
    ("My pronouns are she/her.", "Ann's pronouns are she/her.", "pronouns"),
    ("I'm allergic to peanuts.", "Ann is allergic to peanuts.", None),
    ("I’m severely allergic to peanuts and shellfish!", "Ann is allergic to peanuts and shellfish.", None),
    ("I have a nut allergy, by the way.", "Ann has a nut allergy.", None),
    ("I'm no longer allergic to cats.", "Ann is not allergic to cats.", None),
    ("I'm a vegetarian.", "Ann is a vegetarian.", "diet"),
    ("Well, I'm lactose intolerant so no cheese.", "Ann is lactose intolerant.", None),
    ("I have asthma.", "Ann has asthma.", None),
    ("I don't eat meat.", "Ann does not eat meat.", None),
    ("I quit smoking.", "Ann gave up smoking.", None),
    ("I live in New York City.", "Ann lives in New York City.", "home_city"),
    ("I moved to Oslo last month.", "Ann lives in Oslo: moved there in April 2024.", "home_city"),
    ("Yesterday we moved to Bergen.", "Ann lives in Bergen: moved there on 14 May 2024.", "home_city"),
    ("I don't live in Oslo anymore.", "Ann no longer lives in Oslo.", "home_city"),
    ("I grew up in Sweden.", "Ann grew up in Sweden.", None),
    ("I'm originally from Peru.", "Ann is from Peru.", "origin"),
    ("I used to live in Rome.", "Ann used to live in Rome.", None),
    ("I work as a data analyst.", "Ann works as a data analyst.", "job"),
    ("I'm a software engineer at Acme.", "Ann is a software engineer at Acme.", "job"),
    ("I work for the city library.", "Ann works for the city library.", "employer"),
    ("I no longer work for Acme.", "Ann no longer works for Acme.", "employer"),
    ("I got a new job at Acme last week!", "Ann got a job at Acme in the week of 6 May 2024.", None),
    ("I was promoted to team lead.", "Ann was promoted to team lead.", None),
    ("I lost my job at Door Dash.", "Ann lost their job at Door Dash.", None),
    ("I'm retired.", "Ann is retired.", "job"),
    ("I'm studying marine biology.", "Ann studies marine biology.", "field_of_study"),
    ("I own a small bakery.", "Ann owns a small bakery.", None),
    ("My birthday is 4 May.", "Ann's birthday is 4 May.", "birthday"),
    ("I'm 34 years old.", "Ann is 34 years old.", "age"),
    ("I speak Spanish and French.", "Ann speaks Spanish and French.", None),
    ("I'm learning German.", "Ann is learning German.", None),
    ("I'm married to Tom.", "Ann is married to Tom.", "marital_status"),
    ("I got engaged two days ago.", "Ann got engaged on 13 May 2024.", None),
    ("I have two kids.", "Ann has two kids.", None),
    ("I have a dog named Max.", "Ann has a dog named Max.", None),
    ("My sister's name is Eva.", "Ann's sister is called Eva.", None),
    ("We adopted a puppy last weekend.", "Ann adopted a puppy on the weekend of 11 May 2024.", None),
    ("My mother is a nurse.", "Ann's mother is a nurse.", None),
    ("My favourite colour is green.", "Ann's favorite colour is green.", "favorite_colour"),
    ("I really love hiking and swimming.", "Ann loves hiking and swimming.", None),
    ("I prefer window seats.", "Ann prefers window seats.", None),
    ("I can't stand jazz.", "Ann cannot stand jazz.", None),
    ("I don't like olives.", "Ann does not like olives.", None),
    ("I'm a big fan of Miles Davis.", "Ann is a big fan of Miles Davis.", None),
    ("I always drink oat milk.", "Ann always drinks oat milk.", None),
    ("Please always answer in German.", "Ann asks: Please always answer in German.", None),
    ("We fly to Oslo on 3 June.", "Ann flies to Oslo on 3 June 2024.", None),
    ("I'm flying to Rome tomorrow.", "Ann is flying to Rome on 16 May 2024.", None),
    ("I have a dentist appointment on Friday.", "Ann has a dentist appointment on 17 May 2024.", None),
    ("I'm planning to learn the cello.", "Ann is planning to learn the cello.", None),
    ("I'm training for my first marathon.", "Ann is training for their first marathon.", None),
    ("Last weekend I joined a book club - it was fun.",
     "Ann joined a book club on the weekend of 11 May 2024.", None),
    ("I went to a support group yesterday and it was so powerful.",
     "Ann went to a support group on 14 May 2024.", None),
    ("I visited Lima in 2019.", "Ann visited Lima in 2019.", None),
    ("Remember that my bike lock code is 4711.", "Ann's bike lock code is 4711.", "bike_lock_code"),
    ("Remember that my dentist is Dr Lund.", "Ann's dentist is called Dr Lund.", None),
    ("Please remember I take my coffee black.", "Ann takes their coffee black.", None),
    ("i moved to bergen last month", "Ann lives in Bergen: moved there in April 2024.", "home_city"),
    ("i live in oslo", "Ann lives in Oslo.", "home_city"),
    ("Could you please always answer in Norwegian?", "Ann asks: always answer in Norwegian.", None),
    ("I've been learning Spanish since January.", "Ann is learning Spanish since January 2024.", None),
    ("I used to smoke but I quit two years ago.", "Ann used to smoke.", None),
    ("The project deadline is 15 June 2026.", "The project deadline is 15 June 2026.",
     "project_deadline"),
    ("I drive a red Volvo.", "Ann drives a red Volvo.", None),
    ("Our dog is called Bello.", "Ann's dog is called Bello.", None),
    ("I use Python and Rust at work.", "Ann uses Python and Rust at work.", None),
]  # fmt: skip


@each("text, expected, key", STATED)
def test_a_statement_becomes_a_sentence_that_stands_alone(
    text: str, expected: str, key: str | None
) -> None:
    """In the third person, with the author's name, times in full, and its key."""
    (found,) = facts(text)

    assert (found.text, found.key) == (expected, key)


NOTHING = Path(__file__).parents[2] / "bench" / "facts"

PASSED_OVER = [
    *(NOTHING / "nothing_read.txt").read_text(encoding="utf-8").splitlines(),
    "Do I love hiking?",
    "What if I moved to Oslo",
    "I'm thinking about moving to Oslo.",
    "I might move to Oslo next year.",
    "I would love to visit Rome.",
    "I'd love to hear more.",
    "If I lived in Paris, I'd eat croissants.",
    "I wish I lived in Paris.",
    "My friend says I live in a bubble.",
    'She said "I am allergic to nuts".',
    "Tom told me I love work too much.",
    "Maybe I love jazz.",
    "Oh great, I love waiting in line.",
    "I love Mondays, yeah right.",
    "I love it!",
    "I love that idea.",
    "I love how you did this.",
    "I like your painting.",
    "I hate this weather.",
    "Translate into French: I live in Oslo.",
    "Please rewrite: my name is Bob and I love tea",
    "> I live in Oslo.",
    "```\nmy_name = 'I live in Oslo'\n```",
    "def load(): return I live in Oslo {",
    "Imagine I'm a pirate.",
    "Pretend my name is Bob.",
    "I guess I like tea.",
    "Is my name Bob?",
    "I had a great time last week!",
    "I'm working on a project.",
    "I will never forget this.",
    "I'll always remember our camping trip last year.",
    "You love hiking.",
    "He lives in Oslo.",
    "I almost bought a car yesterday.",
    "I'm so happy and thankful!",
    "",
    "   \n ",
    "🎉🎉🎉",
]


@each("text", PASSED_OVER)
def test_what_is_no_statement_is_passed_over(text: str) -> None:
    """Questions, ideas, jokes, quotes, code, and what points at something else."""
    assert texts(facts(text)) == []


def test_only_users_are_believed() -> None:
    """An assistant's "I" is not the user."""
    messages = [said("I live in Oslo.", role=role) for role in ("assistant", "tool", "system")]

    assert RuleExtractor().extract(messages) == []


def test_who_is_not_named_is_the_user() -> None:
    """Without an author, or with one that is no name, the sentence still stands alone."""
    assert texts(facts("I live in Oslo.", author=None)) == ["The user lives in Oslo."]
    assert texts(facts("I live in Oslo.", author="<b>\n42")) == ["The user lives in Oslo."]


def test_a_fact_knows_where_and_when_it_was_told() -> None:
    """Category, message, time and words to find it by."""
    (found,) = facts("Hello.", "I've lived in Oslo since 2016.")

    assert (found.category, found.first_seq, found.last_seq) == ("profile", 2, 2)
    assert found.valid_from_ms == datetime(2016, 1, 1, tzinfo=UTC).timestamp() * 1000
    assert "oslo" in found.keywords
    assert "home" in found.keywords


CORRECTIONS = [
    (["I live in Oslo.", "Actually, I live in Bergen."], ["Ann lives in Bergen."]),
    (["I live in Oslo. Sorry, I meant Bergen."], ["Ann lives in Bergen."]),
    (["My birthday is 4 May.", "No, it's 5 May, not 4 May."], ["Ann's birthday is 5 May."]),
    (["I work for Acme.", "Actually it's Apex, not Umbrella."], ["Ann works for Acme."]),
    (["I work for Acme.", "Actually it's raining."], ["Ann works for Acme."]),
    (["I live in Oslo.", "I no longer live in Oslo."], ["Ann no longer lives in Oslo."]),
    (["I love tea.", "I love tea."], ["Ann loves tea."]),
    (["My dog Max is sick.", "My dog, Max, is well again."], ["Ann's dog is called Max."]),
]


@pytest.mark.parametrize(
    ("texts_said", "expected"), CORRECTIONS, ids=[a[-1] for a, _ in CORRECTIONS]
)
def test_a_correction_leaves_the_later_value(texts_said: list[str], expected: list[str]) -> None:
    """Of one key the last statement remains; "it's X, not Y" changes the one that says Y."""
    assert texts(facts(*texts_said)) == expected


def test_a_sentence_may_state_several_facts() -> None:
    """Each clause that begins with "I" or "my" is read by itself."""
    found = facts("I live in Oslo, I work as a nurse, and my favorite food is sushi.")

    assert texts(found) == [
        "Ann lives in Oslo.",
        "Ann works as a nurse.",
        "Ann's favorite food is sushi.",
    ]


def test_my_becomes_their() -> None:
    """What belongs to the speaker does so in the third person too."""
    assert texts(facts("I love walking my dog.")) == ["Ann loves walking their dog."]


def test_a_text_of_any_kind_and_length_makes_nothing_fail() -> None:
    """100 KB, stops without end, control characters, other scripts."""
    for text in (
        "I love " + "a" * 100_000,
        "I live in " * 5_000,
        "!?" * 50_000,
        "\x1b[31mI",
        "我住在北京。",
    ):
        assert isinstance(facts(text), list)


def test_sentences_that_state_nothing_teach_nothing() -> None:
    """A hundred questions, jokes, ideas and errands that were kept out of tuning."""
    held_out = (NOTHING / "nothing_held_out.txt").read_text(encoding="utf-8").splitlines()

    assert sum(len(facts(text)) for text in held_out) == 0


def test_plain_statements_are_learnt() -> None:
    """Each of the twenty, as people type them."""
    plain = (NOTHING / "plain.txt").read_text(encoding="utf-8").splitlines()

    assert [text for text in plain if not facts(text)] == []
