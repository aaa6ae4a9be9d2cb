"""What a writer stored is taken back: the rest is as if it had never written."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.fixtures.clock import FrozenClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB, Scope

START_MS = 1_790_000_000_000


def as_left(db: MemDB) -> dict[str, Any]:
    """Return what a scope holds, without numbers and times that a later write changes."""
    ann = db.user("ann")
    kept = "category key text keywords importance pinned active writer".split()
    return {
        "messages": [
            (one.name, message.text, message.writer)
            for one in ann.sessions()
            for message in ann.session(one.name).messages()
        ],
        "entries": sorted(
            repr([one.superseded_by is None, *(getattr(one, name) for name in kept)])
            for one in ann.entries.list(inactive=True)
        ),
        "items": [(one.key, one.value, one.writer) for one in ann.items.list()],
        "artifacts": [
            (one.name, one.size_bytes, one.writer)
            for found in ann.artifacts.list()
            for one in ann.artifacts.versions(found.name)
        ],
        "hits": sorted(
            hit.text for hit in ann.recall("box room", 99, min_score=0, count_use=False)
        ),
    }


def act(ann: Scope, name: str, random: Random, n: int, mine: list[int]) -> None:
    """Do one write of a writer; it changes entries of its own only, *mine*."""
    kind = random.choice(("say", "add", "change", "key", "item", "file"))
    if kind == "say":
        ann.session(random.choice("st")).append("user", f"{name} says box {n}.")
    elif kind == "add":
        mine.append(ann.remember(f"{name} put box {n} into room {n}.").entry.id)
    elif kind == "change" and mine:
        ann.entries.update(random.choice(mine), text=f"{name} moved box {n} to room {n}.")
    elif kind == "key":
        ann.remember(f"{name} has box {n} in room {n}.", key=f"{name} box")
    elif kind == "item":
        ann.items.put((name,), f"k{n}", n)
    else:
        ann.artifacts.save(f"{name}.md", "x" * (n + 1))


@pytest.mark.parametrize("seed", range(12))
def test_what_one_wrote_is_as_if_the_other_never_had(tmp_path: Path, seed: int) -> None:
    """Two writers interleave; undoing the second leaves what the first left alone."""
    kept: list[dict[str, Any]] = []
    for both in (False, True):
        clock = FrozenClock(START_MS)
        path = tmp_path / f"{both}.db"
        random, others = Random(seed), Random(seed + 100)
        mine: dict[str, list[int]] = {"one": [], "two": []}
        for n in range(24):
            clock.advance(1_000)
            for name, source in (("one", random), ("two", others)):
                if name == "one" or both:
                    with memdb.open(path, writer=name, clock=clock, embedder=None) as db:
                        act(db.user("ann"), name, source, n, mine[name])
        with memdb.open(path, clock=clock, embedder=None) as db:
            before = db.user("ann").undo(writer="two", dry_run=True)
            done = db.user("ann").undo(writer="two")
            assert (before.removed, before.rewritten) == (done.removed, done.rewritten)
            assert before.rows == () if not both else len(before.rows) == sum(done.removed.values())
            assert done.remaining == ()
            assert [one for one in db.file.check(deep=True) if one.code != "no_vector"] == []
            assert db.user("ann").undo(writer="two").removed == dict.fromkeys(done.removed, 0)
            kept.append(as_left(db))
    for name in kept[0]:
        assert kept[0][name] == kept[1][name], name


# By name: what the first writer does, what the second does to it, and what undoing it leaves.
TOUCHES: dict[str, tuple[Callable[[Scope], Any], Callable[[Scope], Any]]] = {
    "a new text": (
        lambda ann: ann.remember("The box is red.", key="box"),
        lambda ann: ann.entries.update(1, text="The box is blue.", importance=9, pinned=True),
    ),
    "a new key": (
        lambda ann: ann.remember("The box is red.", key="box"),
        lambda ann: ann.entries.update(1, key="crate"),
    ),
    "a successor": (
        lambda ann: ann.remember("The box is red.", key="box"),
        lambda ann: ann.remember("The box is blue.", key="box"),
    ),
    "the end": (
        lambda ann: ann.remember("The box is red.", key="box"),
        lambda ann: ann.entries.update(1, active=False),
    ),
    "said again": (
        lambda ann: ann.remember("The box is red.", key="box"),
        lambda ann: ann.remember("the box is RED", key="box", importance=9, keywords=["crate"]),
    ),
}


@pytest.mark.parametrize("name", TOUCHES)
def test_an_entry_of_another_goes_back(tmp_path: Path, name: str) -> None:
    """It says, is named and holds as before, and its history has no words of the writer's."""
    first, second = TOUCHES[name]
    path = tmp_path / "a.db"
    with memdb.open(path, writer="one", embedder=None) as db:
        first(db.user("ann"))
        was = as_left(db)
    with memdb.open(path, writer="two", embedder=None) as db:
        second(db.user("ann"))
    with memdb.open(path, embedder=None) as db:
        assert as_left(db) != was
        receipt = db.user("ann").undo(writer="two")
        assert receipt.rewritten == {"entries": 1}
        assert as_left(db) == was
        assert [one for one in db.file.check(deep=True) if one.code != "no_vector"] == []


def test_what_others_changed_since_stays_and_is_named(tmp_path: Path) -> None:
    """An entry that somebody changed later, and an item whose old value is gone, stay."""
    path = tmp_path / "a.db"
    for name, text in (("one", "red"), ("two", "blue"), ("three", "green")):
        with memdb.open(path, writer=name, embedder=None) as db:
            ann = db.user("ann")
            if name == "one":
                ann.remember(f"The box is {text}.")
            else:
                ann.entries.update(1, text=f"The box is {text}.")
            if name != "three":
                ann.items.put((), "k", text)
    with memdb.open(path, embedder=None) as db:
        receipt = db.user("ann").undo(writer="two")
        assert receipt.remaining == (
            "entry 1: others changed it since",
            "item 'k': no value before version 2 is kept",
        )
        assert db.user("ann").entries.get(1).text == "The box is green."


def test_only_what_was_stored_since(tmp_path: Path) -> None:
    """The time is that of storing, whatever time a message is of."""
    clock = FrozenClock(START_MS)
    with memdb.open(tmp_path / "a.db", writer="bot", clock=clock, embedder=None) as db:
        ann = db.user("ann")
        for hour in range(3):
            ann.session("s").append("user", f"message {hour}", created="2020-01-01")
            ann.remember(f"Fact number {hour} is true.")
            clock.advance(3_600_000)
        assert (
            ann.undo(writer="bot", since=START_MS + 3_600_000, dry_run=True).removed["messages"]
            == 2
        )
        receipt = ann.undo(writer="bot", since=START_MS + 3_600_000)
        assert (receipt.removed["messages"], receipt.removed["entries"]) == (2, 2)
        assert [one.text for one in ann.session("s").messages()] == ["message 0"]


def test_what_was_learnt_from_its_messages_goes_too(tmp_path: Path) -> None:
    """Facts that memdb extracted from a message of the writer go with the message."""
    with memdb.open(tmp_path / "a.db", writer="bot", settings={"extract": True}) as db:
        ann = db.user("ann")
        ann.session("s").append("user", "I live in Oslo and I am allergic to peanuts.")
        db.jobs.run()
        learnt = ann.entries.list()
        assert learnt
        assert ann.undo(writer="bot").removed["entries"] == len(learnt)
        assert not ann.entries.list(inactive=True)


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_name_is_needed(name: Any) -> None:
    """What nobody said they wrote is not undone."""
    with memdb.open(":memory:") as db, pytest.raises(memdb.InvalidInput, match="writer"):
        db.user("ann").undo(writer=name)
