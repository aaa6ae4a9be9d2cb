"""What statements are compared with is a setting: cosines, and a merge policy per category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import Category, Claim, InvalidInput, Verdict
from memdb.entries import similarity
from memdb.models.ids import scope_of, scope_range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb import MemDB

COSINE = 0.9
SAID = ("The river boat is called Swan.", "Swan, so they named that vessel.")


class Ninety:
    """Gives the first text a direction, and the second one with a cosine of 0.9 to it."""

    name, dim = "ninety", 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector per text."""
        return [[1.0, 0.0] if text == SAID[0] else [0.9, 0.19**0.5] for text in texts]


class Counting:
    """Adds, and counts how often it was asked."""

    name = "counting"
    asked = 0

    def decide(self, new: Claim, stored: Sequence[Claim]) -> Verdict:
        """Return that the statement stands beside the others."""
        self.asked += 1
        return Verdict("add")


@pytest.mark.parametrize(
    ("settings", "action"),
    [
        ({}, "added"),
        ({"duplicate_cosine": 0.89}, "ignored"),
        ({"duplicate_cosine": 0.91}, "added"),
        ({"duplicate_cosine": 0.89, "compare_cosine": 0.5}, "ignored"),
    ],
)
def test_from_a_cosine_on_statements_are_duplicates(settings: dict[str, Any], action: str) -> None:
    """The file says from which one; without it the embedder does."""
    with memdb.open(":memory:", embedder=Ninety(), settings=settings) as db:
        ann = db.scope("ann")
        actions = [ann.remember(text).action for text in SAID]

    assert actions == ["added", action]


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, 1),
        ({"compare_cosine": 0.89}, 1),
        ({"compare_cosine": 0.91}, 0),
        ({"duplicate_cosine": 0.8}, 1),
    ],
)
def test_from_a_cosine_on_an_arbiter_is_asked(settings: dict[str, Any], asked: int) -> None:
    """A cosine of duplicates below that of questions takes it along."""
    arbiter = Counting()
    with memdb.open(":memory:", embedder=Ninety(), arbiter=arbiter, settings=settings) as db:
        for text in SAID:
            db.scope("ann").remember(text)

    assert arbiter.asked == asked


def test_no_more_is_asked_about_than_resembles() -> None:
    """A cosine of questions above that of duplicates contradicts itself."""
    with pytest.raises(InvalidInput, match="compare_cosine"):
        memdb.open(":memory:", settings={"duplicate_cosine": 0.5, "compare_cosine": 0.6})


@pytest.mark.parametrize("thresholds", [(0.8, 0.9), 0.9, ("a", "b"), (0.9,), (float("nan"), 0.5)])
@pytest.mark.parametrize("field", ["embedder", "previous_embedder"])
def test_thresholds_of_an_embedder_are_checked_at_opening(thresholds: Any, field: str) -> None:
    """Like an argument: not at the first fact."""
    given = Ninety()
    given.thresholds = thresholds  # type: ignore[attr-defined]
    ports: dict[str, Any] = {"embedder": Ninety(), field: given}

    with pytest.raises(InvalidInput, match="thresholds"):
        memdb.open(":memory:", **ports)


STATEMENTS = (
    "Ann lives in Oslo.",
    "ann lives in oslo",
    "Ann lives in the city of Oslo.",
    "Ann has moved to Bergen.",
)


@pytest.mark.parametrize(
    ("merge", "actions"),
    [
        ("meaning", ["added", "ignored", None, "superseded"]),
        ("words", ["added", "ignored", "added", "added"]),
        ("never", ["added", "added", "added", "added"]),
    ],
)
def test_a_category_says_what_its_statements_change(merge: Any, actions: list[str | None]) -> None:
    """Built-in ones too; None may be either."""
    settings = {"categories": [Category("events", "a log", merge=merge)]}
    with memdb.open(":memory:", settings=settings) as db:
        done = [db.scope("ann").remember(text).action for text in STATEMENTS]

    assert [one if hoped else None for one, hoped in zip(done, actions, strict=True)] == actions


@pytest.mark.parametrize("merge", ["words", "never"])
def test_a_key_decides_in_every_category(merge: Any) -> None:
    """Whatever the key named before, this is it now."""
    settings = {"categories": [Category("log", "a log", merge=merge)]}
    with memdb.open(":memory:", settings=settings) as db:
        ann = db.scope("ann")
        done = [ann.remember(text, category="log", key="home").action for text in STATEMENTS]

    assert done == ["added", "ignored", "superseded", "superseded"]


@pytest.mark.parametrize("merge", ["words", "never"])
def test_a_log_is_not_superseded_from_outside(merge: Any, open_db: Callable[..., MemDB]) -> None:
    """What a statement of another category contradicts in it stays."""
    db = open_db(":memory:", settings={"categories": [Category("log", "a log", merge=merge)]})
    ann = db.scope("ann")
    ann.remember("Ann lives in Oslo.", category="log")

    done = ann.remember("Ann has moved to Bergen.", category="identity")

    assert done.action == "added"
    assert len(list(ann.entries.list())) == 2


def _words_of(db: MemDB, text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the entries of ann that share words with a text, if words have a limit."""
    monkeypatch.setattr(similarity, "MAX_HOLDERS", limit)
    with db._db.read() as tx:
        (scope_no,) = {scope_of(entry.id) for entry in db.scope("ann").entries.list()}
        return similarity._find_by_words(tx, scope_range(scope_no), text, ["harbour"])


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

        assert _words_of(db, "A painted lantern", 20, monkeypatch) >= {ids[3], *ids[-11:]}
        assert _words_of(db, "It is painted", 20, monkeypatch) <= {*ids[-20:]}
