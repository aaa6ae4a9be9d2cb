"""How many SQL statements `remember` runs: a bar, so that none creeps in."""

from collections.abc import Callable, Iterator

import pytest

from memdb import MemDB, Scope
from memdb.engine.sqlite.connection import Tx

CALLS = ("all", "one", "run", "many")

# What is known before, what is remembered, what that does, and with how many statements at most;
# BEGIN and COMMIT count too.
BARS = {
    "a new fact": (24, "added", lambda ann: ann.remember("The printer is blue.")),
    "a new fact with words to compare": (
        24,
        "added",
        lambda ann: ann.remember("Ann works at Acme in Oslo since 2019."),
    ),
    "a new fact of a session": (
        27,
        "added",
        lambda ann: ann.remember("The dog is called Rex.", session="s", seq=1),
    ),
    "the same again": (13, "repeated", lambda ann: ann.remember("the lamp is green")),
    "another value of a key": (
        30,
        "updated",
        lambda ann: ann.remember("Her seat is at the aisle.", key="seat"),
    ),
    "a contradiction": (25, "added", lambda ann: ann.remember("Ann does not drink tea.")),
    "a detail more": (25, "added", lambda ann: ann.remember("Ann drinks tea with milk.")),
}


@pytest.fixture
def ann(open_db: Callable[..., MemDB]) -> Scope:
    """Return a scope that holds three facts and a message."""
    ann = open_db(":memory:").scope("ann")
    ann.session("s").append("user", "I have a dog called Rex.")
    ann.remember("Ann drinks tea.")
    ann.remember("Her seat is at the window.", key="seat")
    ann.remember("The lamp is green.")
    ann.recall("tea")
    return ann


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the names of the statements that run from now on."""
    names: list[str] = []
    for call in CALLS:

        def counted(tx: Tx, sql: str, *values: object, _run: object = getattr(Tx, call)) -> object:
            names.append(sql.split("*/")[0].strip("/* "))
            return _run(tx, sql, *values)

        monkeypatch.setattr(Tx, call, counted)
    return names


@pytest.mark.parametrize("case", BARS)
def test_remember_runs_few_statements(ann: Scope, statements: list[str], case: str) -> None:
    """At most as many as last time, and 30 in any case; one of them is for a link."""
    most, action, remember = BARS[case]

    done = remember(ann)

    assert done.action == action
    assert len(statements) <= most <= 30, statements
