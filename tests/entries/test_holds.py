"""Every public read answers with the entries that hold at its time, and with no others."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000  # of the clock
TEXT = "The wifi code is 4471."

# How an entry comes not to hold, and when it is read.
CASES = {
    "expired": ({"expires": "1h"}, None, 2),
    "not yet valid": ({"valid_from": START_MS + 2 * HOUR_MS}, None, 1),
    "valid no more": ({}, {"valid_from": START_MS + HOUR_MS}, 2),
    "superseded": ({}, {}, 0),
}


def read_key(scope: memdb.Scope) -> list[str]:
    """Return what `entries.find` says."""
    found = scope.entries.find("wifi")
    return [] if found is None else [found.text]


def read_context(scope: memdb.Scope) -> list[str]:
    """Return the text of a context about the entry, if it says it."""
    session = scope.session("chat")
    session.append("user", "Hello.")
    said = "\n".join(one.text for one in session.context(2000, query="wifi code").messages)
    return [TEXT] if TEXT in said else []


# Every public read of entries that says what holds now.
READS: dict[str, Callable[[memdb.Scope], list[str]]] = {
    "find": read_key,
    "list": lambda scope: [entry.text for entry in scope.entries.list()],
    "list a category": lambda scope: [
        entry.text for entry in scope.entries.list(category="entities")
    ],
    "list pinned": lambda scope: [entry.text for entry in scope.entries.list(pinned=True)],
    "recall": lambda scope: [hit.text for hit in scope.recall("wifi code", kinds=("entry",))],
    "context": read_context,
}


@pytest.fixture
def ann(open_db: Callable[..., MemDB]) -> memdb.Scope:
    """Return a scope without an embedder, so that words alone decide."""
    return open_db(":memory:", embedder=None).scope("ann")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize(("given", "successor", "hours"), CASES.values(), ids=CASES)
def test_a_read_leaves_out_what_does_not_hold(
    ann: memdb.Scope,
    clock: Any,
    given: dict[str, Any],
    successor: dict[str, Any] | None,
    hours: int,
    read: Callable[[memdb.Scope], list[str]],
) -> None:
    """Expired, not yet valid, valid no more, or superseded: no read answers with it."""
    same: dict[str, Any] = {"key": "wifi", "category": "entities", "pinned": True}
    ann.remember(TEXT, **same, **given)
    if successor is not None:
        ann.remember("The wifi code is 9032 now.", **same, **successor)
    clock.advance(hours * HOUR_MS)

    assert TEXT not in read(ann)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_answers_with_what_holds(
    ann: memdb.Scope, clock: Any, read: Callable[[memdb.Scope], list[str]]
) -> None:
    """Within its time, every read does."""
    same: dict[str, Any] = {"key": "wifi", "category": "entities", "pinned": True}
    ann.remember(TEXT, expires="3h", valid_from=START_MS - HOUR_MS, **same)
    ann.remember("The wifi code is 9032 now.", valid_from=START_MS + 3 * HOUR_MS, **same)
    clock.advance(HOUR_MS)

    assert read(ann) == [TEXT]


STATUSES = {**dict.fromkeys(["expired", "valid no more"], "expired"), "superseded": "superseded"}


@pytest.mark.parametrize("worker", [False, True], ids=["before the worker", "after it"])
@pytest.mark.parametrize(("given", "successor", "hours"), CASES.values(), ids=CASES)
def test_the_status_says_why_it_does_not_hold(
    open_db: Callable[..., MemDB],
    given: dict[str, Any],
    successor: dict[str, Any] | None,
    hours: int,
    worker: bool,
    request: pytest.FixtureRequest,
) -> None:
    """Of the entry and of the view, whether or not expiry was noted yet."""
    now = [START_MS]
    db = open_db(":memory:", embedder=None, clock=lambda: now[0])
    ann = db.scope("ann")
    first = ann.remember(TEXT, key="wifi", **given).entry
    if successor is not None:
        ann.remember("The wifi code is 9.", key="wifi", **successor)
    now[0] += hours * HOUR_MS
    if worker:
        db.jobs.run(due=True)
    case = request.node.callspec.id.removeprefix("before the worker-").removeprefix("after it-")
    case = next(name for name in CASES if name in case)
    status = {"not yet valid": "future", "valid no more": "superseded"}.get(
        case, STATUSES.get(case)
    )

    assert ann.entries.get(first.id).status(now[0]) == status
    if case != "not yet valid":  # the view goes by the clock of the machine
        rows = db.query("SELECT status FROM entries_view WHERE text = ?", [TEXT]).rows
        assert rows == ((status,),)


@pytest.mark.parametrize("worker", [False, True], ids=["before the worker", "after it"])
def test_a_later_expiry_lets_it_hold_again(open_db: Callable[..., MemDB], worker: bool) -> None:
    """Whether or not its end was noted yet."""
    now = [START_MS]
    db = open_db(":memory:", embedder=None, clock=lambda: now[0])
    ann = db.scope("ann")
    entry = ann.remember(TEXT, key="wifi", expires="1h").entry
    now[0] += 2 * HOUR_MS
    if worker:
        db.jobs.run(due=True)
    assert ann.entries.update(entry.id, importance=7).status(now[0]) == "expired"

    assert ann.entries.update(entry.id, expires="30d").status(now[0]) == "active"
    assert ann.entries.find("wifi") is not None


def test_a_later_expiry_brings_back_nothing_else(open_db: Callable[..., MemDB]) -> None:
    """Not what was switched off, nor what another entry took the place of."""
    now = [START_MS]
    db = open_db(":memory:", embedder=None, clock=lambda: now[0])
    ann = db.scope("ann")
    off = ann.remember("The bike is blue.", expires="1h").entry
    ann.entries.update(off.id, active=False)
    over = ann.remember(TEXT, key="wifi", expires="1h").entry
    now[0] += 2 * HOUR_MS
    db.jobs.run(due=True)
    ann.remember("Ask the landlord for the internet password.", key="wifi")

    assert not ann.entries.update(off.id, expires="30d").active
    with pytest.raises(memdb.InvalidInput, match=r"was replaced by .*give active=True"):
        ann.entries.update(over.id, expires="30d")
    assert not ann.entries.get(over.id).active


@pytest.mark.parametrize("worker", [False, True], ids=["before the worker", "after it"])
def test_an_expired_key_is_told_anew(open_db: Callable[..., MemDB], worker: bool) -> None:
    """Other words are another entry; what expired stays what it was."""
    now = [START_MS]
    db = open_db(":memory:", embedder=None, clock=lambda: now[0])
    ann = db.scope("ann")
    old = ann.remember(TEXT, key="wifi", expires="1h").entry
    now[0] += 2 * HOUR_MS
    if worker:
        db.jobs.run(due=True)
    done = ann.remember("Ask the landlord for the internet password.", key="wifi")

    assert (done.action, done.reason) == ("added", "no entry says the same")
    assert done.entry.expires_ms is None
    assert ann.entries.get(old.id).text == TEXT
    assert ann.entries.get(old.id).status(now[0]) == "expired"
    assert [one.text for one in ann.entries.list(as_of=START_MS + 1)] == [TEXT]


@pytest.mark.parametrize("worker", [False, True], ids=["before the worker", "after it"])
def test_an_expired_key_in_the_same_words_is_told_anew(
    open_db: Callable[..., MemDB], worker: bool
) -> None:
    """The old entry stays what it was."""
    now = [START_MS]
    db = open_db(":memory:", embedder=None, clock=lambda: now[0])
    ann = db.scope("ann")
    old = ann.remember(TEXT, key="wifi", expires="1h").entry
    now[0] += 2 * HOUR_MS
    if worker:
        db.jobs.run(due=True)
    done = ann.remember(TEXT, key="wifi")

    assert (done.action, done.entry.id == old.id) == ("added", False)
    assert done.entry.status(now[0]) == "active"
