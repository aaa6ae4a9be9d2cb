"""The public classes: their size, real signatures, types that can be imported, sync and async."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from source_tree import FILES, text_of

import memdb
from memdb import aio

# What is reachable from `open()`: its classes, and how many names and parameters they have at
# most. Both only fall: to 110 and 290.
REACHABLE = (
    "MemDB Jobs StoredSettings File Scope Session Entries Artifacts Summaries State Items Tools "
    "Worker Transaction"
).split()
MOST_NAMES = 134
MOST_PARAMETERS = 324

# `db.run` has the whole of a transaction in one thread.
PAIRS = [
    (getattr(memdb, name), getattr(aio, name, None) or getattr(aio.parts, name, None))
    for name in REACHABLE
    if name != "Transaction"
]


async def parent_of_branch(session: aio.Session) -> aio.Session | None:
    return await (await session.branch("short", 1)).parent()


# The calls of `memdb.aio` that give an object with calls of its own.
GIVEN = {
    "MemDB.jobs": lambda db: db.jobs,
    "MemDB.file": lambda db: db.file,
    "MemDB.settings": lambda db: db.settings,
    "MemDB.user": lambda db: db.user("ann"),
    "MemDB.scope": lambda db: db.scope("ann"),
    "MemDB.shared": lambda db: db.shared(),
    "MemDB.scopes": lambda db: db.scopes(),
    "Jobs.start": lambda db: db.jobs.start(),
    "Scope.state": lambda db: db.scope("ann").state,
    "Scope.entries": lambda db: db.scope("ann").entries,
    "Scope.items": lambda db: db.scope("ann").items,
    "Scope.artifacts": lambda db: db.scope("ann").artifacts,
    "Scope.session": lambda db: db.scope("ann").session("trip"),
    "Session.summaries": lambda db: db.scope("ann").session("trip").summaries,
    "Session.state": lambda db: db.scope("ann").session("trip").state,
    "Session.artifacts": lambda db: db.scope("ann").session("trip").artifacts,
    "Session.parent": lambda db: parent_of_branch(db.scope("ann").session("trip")),
    "Session.branch": lambda db: db.scope("ann").session("trip").branch("other", 1),
    "Session.fork": lambda db: db.scope("ann").session("trip").fork("copy"),
    "Session.tools": lambda db: db.scope("ann").session("trip").tools(),
}

# Everything that can be imported from memdb.
NAMES = [name for names in memdb._HOMES.values() for name in names.split()]

# A mapping becomes a few coroutines, a property one, an iterator a list. Who has a worker has one
# that was started.
OTHERWISE = {
    "State": {"get", "delete"},
    "MemDB": {"run", "transaction"},
    "Worker": {"start"},
}


def public_names(cls: type) -> list[str]:
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_") and not inspect.ismemberdescriptor(value)
    ]


def test_the_interface_does_not_grow() -> None:
    """One more name or parameter takes the place of another: `pytest -s` shows both numbers."""
    calls = [
        getattr(memdb, name).__dict__[member]
        for name in REACHABLE
        for member in public_names(getattr(memdb, name))
    ]
    functions = [getattr(one, "__func__", one) for one in calls]
    taken = [
        name
        for one in [memdb.open, *functions]
        if inspect.isfunction(one)
        for name in inspect.signature(one).parameters
        if name != "self"
    ]
    print(len(calls), "names,", len(taken), "parameters")  # noqa: T201 (shown by `-s`)

    assert len(calls) <= MOST_NAMES
    assert len(taken) <= MOST_PARAMETERS


@pytest.mark.parametrize(("sync", "awaited"), PAIRS, ids=lambda cls: getattr(cls, "__name__", "?"))
def test_aio_has_every_name(sync: type, awaited: type) -> None:
    if sync is memdb.State:
        return
    here = set(public_names(sync)) - OTHERWISE.get(sync.__name__, set())
    # Names that both set on the instance.
    there = {*public_names(awaited), "app", "user", "path", "name"}

    assert here <= there


def test_aio_gives_twins(tmp_path: Path) -> None:
    """What has calls and is had from `memdb.aio` is a twin too: nothing leads to calls that block."""

    async def found() -> dict[str, type]:
        async with aio.open(tmp_path / "a.db") as db:
            await db.scope("ann").session("trip").append("user", "We fly.")
            given = {}
            for name, give in GIVEN.items():
                value = give(db)
                value = await value if inspect.isawaitable(value) else value
                given[name] = type(value[0] if isinstance(value, list) else value)
            return given

    leading = {
        f"{cls.__name__}.{name}"
        for cls, _ in PAIRS
        for name in public_names(cls)
        for call in [inspect.getattr_static(cls, name)]
        for told in [inspect.get_annotations(getattr(call, "fget", call)).get("return", "")]
        if {*re.findall(r"\w+", str(told))} & {"Self", *REACHABLE} - {"Transaction"}
    }
    given = asyncio.run(found())

    assert {*GIVEN} == leading
    assert [name for name, cls in given.items() if not issubclass(cls, aio.Twin)] == []


@pytest.mark.parametrize(("sync", "awaited"), PAIRS, ids=lambda cls: getattr(cls, "__name__", "?"))
def test_aio_methods_take_the_arguments_of_their_twins(sync: type, awaited: type) -> None:
    for name in public_names(awaited):
        mine, theirs = getattr(awaited, name), getattr(sync, name, None)
        if not callable(mine) or not callable(theirs) or name in OTHERWISE.get(sync.__name__, ()):
            continue
        assert parameters(mine) == parameters(theirs), f"{sync.__name__}.{name}"


def test_aio_open_takes_the_arguments_of_open() -> None:
    assert parameters(aio.open) == parameters(memdb.open)


def parameters(call: Callable[..., object]) -> list[tuple[str, object, object]]:
    return [
        (one.name, one.kind, one.default)
        for one in inspect.signature(call).parameters.values()
        if one.name not in ("self", "name_") and one.kind is not one.POSITIONAL_ONLY
    ]


def callables() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield every public function, and every public method of a public class."""
    for name in NAMES:
        value = getattr(memdb, name)
        if inspect.isclass(value):
            for member in public_names(value):
                found = inspect.getattr_static(value, member)
                call = found.fget if isinstance(found, property) else getattr(value, member)
                if inspect.isfunction(call) or inspect.ismethod(call):
                    yield f"{name}.{member}", call
        elif inspect.isfunction(value):
            yield name, value


def own_types() -> set[str]:
    """Return the name of every class of memdb, and of the two callables it asks for."""
    return {"Clock", "Ids"} | {
        found
        for name in FILES
        for found in re.findall(r"^class (\w+)", text_of(name), re.MULTILINE)
    }


def test_every_type_that_is_taken_or_returned_can_be_imported() -> None:
    ours = own_types()
    missing = {
        f"{name}: {word}"
        for name, call in callables()
        for annotation in inspect.get_annotations(call).values()
        for word in re.findall(r"[A-Za-z_]\w*", str(annotation))
        if word in ours and word not in NAMES
    }

    assert missing == set()


def test_every_field_of_a_public_record_has_a_type_that_can_be_imported() -> None:
    ours = own_types()
    missing = {
        f"{name}.{field}: {word}"
        for name in NAMES
        if hasattr(record := getattr(memdb, name), "_fields")
        for field, annotation in record.__annotations__.items()
        for word in re.findall(r"[A-Za-z_]\w*", str(annotation))
        if word in ours and word not in NAMES
    }

    assert missing == set()


def test_every_error_is_exported_and_in_the_drawn_tree() -> None:
    from memdb import errors

    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, memdb.MemDBError)
    }

    assert found <= set(NAMES)
    for name in found:
        assert re.search(rf"^ *{name}\b", errors.__doc__ or "", re.MULTILINE), name
