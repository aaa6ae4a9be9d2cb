"""A refused `expected=` names what is at another version: its kind, and its name or number."""

import inspect
from collections.abc import Callable

import pytest

import memdb
from memdb import MemDB, VersionConflict

KINDS = (memdb.Session, memdb.Entries, memdb.Artifacts, memdb.Items, memdb.State)
NOTES = ("notes", "home")
SAID = [{"role": "user", "text": "x"}]


def trip(db: MemDB) -> memdb.Session:
    """Return the session that the calls are made in."""
    return db.user("ann").session("trip")


CALLS: dict[str, tuple[str, str | int, Callable[[MemDB], object]]] = {
    "Session.append": ("session", "trip", lambda db: trip(db).append("user", "x", expected=99)),
    "Session.extend": ("session", "trip", lambda db: trip(db).extend(SAID, expected=99)),
    "Session.pop": ("session", "trip", lambda db: trip(db).pop(expected=99)),
    "Session.replace": ("session", "trip", lambda db: trip(db).replace([1], expected=99)),
    "Entries.update": (
        "entry",
        1,
        lambda db: db.user("ann").entries.update(1, text="x", expected=99),
    ),
    "Entries.revert": ("entry", 1, lambda db: db.user("ann").entries.revert(1, 1, expected=99)),
    "Entries.supersede": (
        "entry",
        1,
        lambda db: db.user("ann").entries.supersede(1, 2, expected=99),
    ),
    "Entries.delete": ("entry", 1, lambda db: db.user("ann").entries.delete(1, expected=99)),
    "Artifacts.save": ("artifact", "a", lambda db: trip(db).artifacts.save("a", "x", expected=99)),
    "Artifacts.delete": ("artifact", "a", lambda db: trip(db).artifacts.delete("a", expected=99)),
    "Artifacts.rename": (
        "artifact",
        "a",
        lambda db: trip(db).artifacts.rename("a", "b", expected=99),
    ),
    "Items.put": (
        "item",
        "notes/home/k",
        lambda db: db.user("ann").items.put(NOTES, "k", 1, expected=99),
    ),
    "Items.delete": (
        "item",
        "notes/home/k",
        lambda db: db.user("ann").items.delete(NOTES, "k", expected=99),
    ),
    "State.put": ("key", "k", lambda db: trip(db).state.put("k", 1, expected=99)),
    "State.delete": ("key", "k", lambda db: trip(db).state.delete("k", expected=99)),
}


def test_every_call_that_expects_a_version_is_here() -> None:
    """`Session.update` is not: it takes a head, see the last test."""
    takes = {
        f"{kind.__name__}.{name}"
        for kind in KINDS
        for name, call in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and "expected" in inspect.signature(call).parameters
        and "Receipt" not in str(inspect.signature(call).parameters["expected"].annotation)
    }

    assert takes - {"Session.update"} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_conflict_names_its_thing(db: MemDB, name: str) -> None:
    """It stands in the message and in the error's fields."""
    kind, ref, call = CALLS[name]
    ann = db.user("ann")
    trip(db).append("user", "Hi.")
    ann.remember("Ann likes tea.")
    ann.remember("The boiler is in the cellar.")
    trip(db).artifacts.save("a", "x")
    ann.items.put(NOTES, "k", 1)
    trip(db).state["k"] = 1

    with pytest.raises(VersionConflict, match="not at 99") as caught:
        call(db)

    error = caught.value
    assert (error.kind, error.ref, error.expected, error.got) == (kind, ref, 99, 1)
    assert f"{kind} {ref!r} is at " in str(error)


def test_a_stale_head_names_its_session(db: MemDB) -> None:
    """`Session.update` compares a whole head."""
    chat = trip(db)
    chat.append("user", "Hi.")
    head = chat.head()
    chat.append("user", "Again.")

    with pytest.raises(VersionConflict, match="session 'trip' is at seq 2, not at 1"):
        chat.update(title="x", expected=head)
