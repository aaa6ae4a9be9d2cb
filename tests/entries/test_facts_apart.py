"""
Facts are never retired by guess: different ones stay, equal ones are recognised, in six languages.

The pairs of `bench/facts` are remembered as a user would, with the built-in table and without
an embedder. What went wrong is counted, not shown: half of the pairs was kept out of tuning.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parents[2] / "bench" / "facts"

# Share of pairs that must come out right, in English and elsewhere. Of the half that nobody
# read, English reaches less than it should (0.85 and 0.8): what is measured may not fall.
BARS = {
    "read": {"different": (0.99, 0.99), "equal": (0.85, 0.6), "corrected": (0.8, 0.5)},
    "held_out": {"different": (0.99, 0.99), "equal": (0.7, 0.6), "corrected": (0.65, 0.5)},
}


def is_right(scope: memdb.Scope, pair: dict[str, str]) -> bool:
    """Remember both statements; return whether what stays is right."""
    first, second = pair["first"], pair["second"]
    for text in (first, second):
        scope.remember(text, secrets="allow")
    active = [entry.text for entry in scope.entries.list()]
    if pair["kind"] == "equal":
        return len(active) == 1
    if pair["kind"] == "corrected":
        return first not in active and second in active
    return all(any(text in one for one in active) for text in (first, second))


def pairs(name: str) -> list[dict[str, str]]:
    """Return the pairs of a file."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("half", "options"),
    [
        pytest.param("read", {}, marks=pytest.mark.slow),
        pytest.param("read", {"embedder": None}, marks=pytest.mark.slow),
        ("held_out", {}),
        ("held_out", {"embedder": None}),
    ],
)
def test_facts_of_six_languages_are_told_apart(half: str, options: dict[str, None]) -> None:
    """At most 1 % of different facts is lost in any language, and the bars are met."""
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    with memdb.open(":memory:", **options) as db:
        for number, pair in enumerate(pairs(half)):
            right[pair["lang"], pair["kind"]].append(is_right(db.scope(f"u{number}"), pair))

    rates = {key: sum(found) / len(found) for key, found in right.items()}
    below = {
        key: rate
        for key, rate in rates.items()
        if rate < BARS[half][key[1]][0 if key[0] == "en" else 1]
    }
    assert below == {}


@pytest.mark.slow
def test_no_fact_about_another_thing_is_lost() -> None:
    """Numbers, names, times and cases tell facts apart: also values of what has several."""
    with memdb.open(":memory:") as db:
        lost = [
            (pair["first"], pair["second"])
            for number, pair in enumerate(pairs("different"))
            if not is_right(db.scope(f"u{number}"), pair)
        ]

    assert lost == []


class Close:
    """Puts all texts at a cosine of 0.97 or more."""

    name, dim = "close", 4

    def embed(self, texts: Sequence[str]) -> list[list[float] | None]:
        """Return vectors that differ a little."""
        return [[1.0, 0.0, 0.0, 0.02 * (len(text) % 7)] for text in texts]


@pytest.mark.parametrize(
    "texts",
    [
        ("用户喜欢喝咖啡。", "用户爱喝咖啡。", "用户很喜欢咖啡。", "用户喜爱咖啡。"),
        ("Der Nutzer trinkt gern Kaffee.", "Der Nutzer mag Kaffee."),
        (
            "The user prefers dark roast coffee from Ethiopia.",
            "The user likes dark roast coffee of Ethiopian origin.",
        ),
        ("The project uses Go and PostgreSQL.", "The project is built with Go and PostgreSQL."),
    ],
    ids=["zh", "de", "en", "en names"],
)
def test_what_a_model_calls_equal_is_stored_once_in_every_language(texts: tuple[str]) -> None:
    """From the upper threshold on the cosine decides."""
    with memdb.open(":memory:", embedder=Close()) as db:
        ann = db.scope("ann")
        done = [ann.remember(text).action for text in texts]

        assert done == ["added", *["ignored"] * (len(texts) - 1)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Der Nutzer hat 2 Hunde.", "Der Nutzer hat 3 Katzen."),
        ("Anna kocht gern.", "Die Nachbarin Berta kocht gern."),
        ("用户喜欢咖啡。", "用户不喜欢茶。"),
        ("The trip goes to Rome.", "The trip goes to Oslo."),
    ],
)
def test_digits_names_and_negation_keep_apart_what_a_model_calls_equal(
    first: str, second: str
) -> None:
    """Whatever the cosine says."""
    with memdb.open(":memory:", embedder=Close()) as db:
        ann = db.scope("ann")
        ann.remember(first)
        ann.remember(second)

        assert [entry.text for entry in ann.entries.list()] == [first, second]


def test_an_expired_fact_in_other_words_holds_again(clock: Any) -> None:
    """It is the entry that it was: what a model calls equal, and what is spelled otherwise."""
    with memdb.open(":memory:", embedder=Close(), clock=clock) as db:
        ann = db.scope("ann")
        first = ann.remember("Der Nutzer mag Kaffee.", expires="7d").entry
        clock.advance(8 * 86_400_000)

        done = ann.remember("Der Nutzer trinkt gern Kaffee.")

        assert (done.action, done.entry.id) == ("merged", first.id)
        assert [entry.text for entry in ann.entries.list()] == ["Der Nutzer trinkt gern Kaffee."]


def test_many_numbered_facts_stay_beside_each_other() -> None:
    """A hundred servers are a hundred facts."""
    with memdb.open(":memory:") as db:
        ann, bob = db.scope("ann"), db.scope("bob")
        for number in range(100):
            ann.remember(f"Server {number} runs Debian.")
        for number in range(30):
            bob.remember(f"fact number {number} about topic {number}")

        assert len(list(ann.entries.list())) == 100
        assert len(list(bob.entries.list())) == 30
