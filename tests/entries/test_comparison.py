"""What a category says of statements that repeat others, and of words that many entries have."""

from typing import Any

import pytest

import memdb
from memdb import Category, MemDB
from memdb.facts.pairs import Statement
from memdb.models.ids import number_of
from memdb.records import link_maker
from memdb.tables import scopes

STATEMENTS = (
    "Ann lives in Oslo.",
    "ann lives in oslo",
    "Please remember that Ann lives in Oslo.",
    "Ann has moved to Bergen.",
)


@pytest.mark.parametrize(
    ("merge", "actions"),
    [
        ("meaning", ["added", "repeated", "repeated", "added"]),
        ("words", ["added", "repeated", "added", "added"]),
        ("never", ["added", "added", "added", "added"]),
    ],
)
def test_a_category_says_what_its_statements_change(merge: Any, actions: list[str]) -> None:
    """Built-in ones too."""
    settings = {"categories": [Category("events", "a log", merge=merge)]}
    with memdb.open(":memory:", settings=settings) as db:
        done = [db.scope("ann").remember(text, category="events").action for text in STATEMENTS]

    assert done == actions


@pytest.mark.parametrize("merge", ["words", "never"])
def test_a_key_decides_in_every_category(merge: Any) -> None:
    """Whatever the key named before, this is it now."""
    settings = {"categories": [Category("log", "a log", merge=merge)]}
    with memdb.open(":memory:", settings=settings) as db:
        ann = db.scope("ann")
        done = [ann.remember(text, category="log", key="home").action for text in STATEMENTS]

    assert done == ["added", "repeated", "updated", "updated"]


def _words_of(db: MemDB, text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the entries of ann that resemble a text, if words have a limit."""
    monkeypatch.setattr(link_maker, "MAX_HOLDERS", limit)
    with db._db.read() as tx:
        scope_no = scopes.find(tx, "default", "ann") or 0
        found = link_maker.find_near(tx, scope_no, Statement(text, 0), None)
        return {number_of(near.entry.id) for near in found}


@pytest.mark.parametrize("limit", [50, 60, 1_000])
def test_the_newest_of_a_common_word_are_enough(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that fewer entries hold than the limit bring the same entries as without one."""
    with memdb.open(":memory:", embedder=None) as db, db._db.write():
        for number in range(60):
            rare = f"lantern{number % 20}" if number < 40 else "boat"
            text = f"The harbour keeper painted {rare} number {number}."
            db.scope("ann").remember(text, key=f"k{number}")

        for text in ("My lantern3 is new.", "A boat.", "lantern1 and lantern2, painted.", "Tea."):
            unlimited = _words_of(db, text, 1 << 40, monkeypatch)
            assert _words_of(db, text, limit, monkeypatch) == unlimited


def test_a_common_word_brings_its_newest_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word above the limit brings no old entry, and hides none that a rarer word brings."""
    with memdb.open(":memory:", embedder=None) as db, db._db.write():
        ann = db.scope("ann")
        ids = [
            ann.remember(f"Painted {'lantern' if n == 3 else 'fence'} {n}.", key=f"k{n}").entry.id
            for n in range(40)
        ]

        assert _words_of(db, "A painted lantern", 20, monkeypatch) == {ids[3], *ids[-4:]}
        assert _words_of(db, "It is painted", 20, monkeypatch) <= {*ids[-20:]}
