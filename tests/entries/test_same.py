"""A statement is a repetition by one rule, whether it has a key or not."""

from collections.abc import Callable
from itertools import product

from memdb import Category, MemDB

LONG = "The list of the house names " + ", ".join(f"box {number}" for number in range(200)) + "."
STATEMENTS = (
    "I drink oat milk",
    "The rent is 14500 SEK",
    "J'habite \u00e0 \u00c9vry.",
    "I take vitamin C.",
    "\u6211\u559d\u8336\u3002",
    LONG,
)
CHANGES: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    "{}!".format,
    '  "{}" '.format,
    "Please remember that {}".format,
    "{}?".format,
    "Not: {}".format,
    lambda text: text.replace("14500", "14 500"),
    lambda text: text.replace("14500", "14501"),
    lambda text: text.replace("\u00e0 \u00c9", "a E"),
    lambda text: text.replace(" ", " , "),
    lambda text: text.replace("C.", "D."),
    lambda text: text.replace("box 199", "the box of tools"),
)
POLICIES = ("meaning", "words")


def test_with_a_key_the_same_is_what_it_is_without_one(open_db: Callable[..., MemDB]) -> None:
    """Whatever differs: case, marks, accents, numbers, an order to remember, the end of a text."""
    kinds = tuple(Category(policy, merge=policy) for policy in POLICIES)
    db = open_db(":memory:", embedder=None, settings={"categories": kinds})
    wrong = []
    for place, (text, change, policy) in enumerate(product(STATEMENTS, CHANGES, POLICIES)):
        plain, keyed = db.scope(f"plain-{place}"), db.scope(f"keyed-{place}")
        plain.remember(text, category=policy)
        keyed.remember(text, category=policy, key="it")
        by_words = plain.remember(change(text), category=policy).action
        by_key = keyed.remember(change(text), category=policy, key="it")
        is_same = by_key.action == "repeated"
        if is_same != (by_words == "repeated") or by_key.entry.text != change(text):
            wrong.append((policy, change(text)[-60:], by_words, by_key.action, by_key.entry.text))

    assert wrong == []


def test_a_long_statement_with_another_end_is_another_one(db: MemDB) -> None:
    """However much is equal before it."""
    ann = db.scope("ann")
    ann.remember(LONG)

    done = ann.remember(LONG.replace("box 199", "the box of tools"))

    assert (done.action, len([*ann.entries.list()])) == ("added", 2)


def test_a_key_keeps_the_newest_spelling(db: MemDB) -> None:
    """Of who is trusted; the fact is the same one, with the old spelling in its history."""
    ann = db.scope("ann")
    first = ann.remember("My name is Jose.", key="name").entry

    done = ann.remember("My name is Jos\u00e9.", key="name")
    refused = ann.remember("my name is jose!", key="name", trust="flagged")

    assert (done.action, done.entry.id, done.entry.text) == (
        "repeated",
        first.id,
        "My name is Jos\u00e9.",
    )
    assert refused.entry.text == "My name is Jos\u00e9."
    assert ann.entries.history(first.id)[0].text == "My name is Jose."
    assert [one.text for one in ann.entries.list()] == ["My name is Jos\u00e9."]


def test_an_older_spelling_comes_too_late(db: MemDB) -> None:
    """As an import of an older chat brings it."""
    ann = db.scope("ann")
    ann.remember("My name is Jos\u00e9.", key="name", created="2026-05-02")

    ann.remember("My name is Jose.", key="name", created="2026-05-01")

    assert [one.text for one in ann.entries.list()] == ["My name is Jos\u00e9."]
