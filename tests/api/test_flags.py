"""Flags: a public parameter that is True or False takes nothing else, in every call."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from cases import arguments_of, each

import memdb
from memdb import aio
from memdb.aio import parts

if TYPE_CHECKING:
    from collections.abc import Callable

# Classes with public calls; each object comes of the place that gives it to a program.
CLASSES: dict[type, Callable[[memdb.MemDB], Any]] = {
    memdb.MemDB: lambda db: db,
    memdb.File: lambda db: db.file,
    memdb.Jobs: lambda db: db.jobs,
    memdb.StoredSettings: lambda db: db.settings,
    memdb.Scope: lambda db: db.scope("ann"),
    memdb.Entries: lambda db: db.scope("ann").entries,
    memdb.Artifacts: lambda db: db.scope("ann").artifacts,
    memdb.State: lambda db: db.scope("ann").state,
    memdb.Session: lambda db: db.scope("ann").session("s"),
    memdb.Summaries: lambda db: db.scope("ann").session("s").summaries,
    memdb.Tools: lambda db: db.scope("ann").session("s").tools(),
    memdb.Worker: lambda db: db.jobs.start(),
}
AIO: dict[type, Callable[[aio.MemDB], Any]] = {
    aio.MemDB: lambda db: db,
    aio.Scope: lambda db: db.scope("ann"),
    aio.Session: lambda db: db.scope("ann").session("s"),
    parts.Entries: lambda db: db.scope("ann").entries,
    parts.Artifacts: lambda db: db.scope("ann").artifacts,
    parts.Tools: lambda db: db.scope("ann").session("s").tools(),
}
FUNCTIONS = ("open", "recover", "restore", "find_secrets", "redact_secrets")


def flags_of(call: Any) -> dict[str, bool]:
    """Return the parameters of *call* whose type is bool, each with whether None is one."""
    kinds = {"bool": False, "bool | None": True}
    found = arguments_of(call).values()
    return {one.name: kinds[one.annotation] for one in found if one.annotation in kinds}


def calls_of(owner: type) -> dict[str, Any]:
    """Return the public methods of a class that have flags, by name."""
    named = {name: getattr(owner, name) for name in vars(owner) if not name.startswith("_")}
    return {name: one for name, one in named.items() if callable(one) and flags_of(one)}


def call_with(method: Any, owner: Any, flag: str, value: Any) -> Any:
    """Call a method with *value* for *flag*, and with nothing for all that it requires."""
    call = getattr(owner, method.__name__)
    needed = {
        one.name: [] if one.name == "seqs" else ""
        for one in inspect.signature(call).parameters.values()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    }
    return call(**{**needed, flag: value})


CASES = [
    pytest.param(owner, name, flag, id=f"{owner.__name__}.{name} {flag}")
    for owner in CLASSES
    for name, method in calls_of(owner).items()
    for flag in flags_of(method)
]
AIO_CASES = [
    pytest.param(owner, name, flag, id=f"{owner.__name__}.{name} {flag}")
    for owner in AIO
    for name, method in calls_of(owner).items()
    for flag in flags_of(method)
]


def test_the_table_is_whole() -> None:
    """Every class with calls is in it: what `memdb` exports and has methods with flags."""
    exported = {getattr(memdb, name) for name in memdb.__all__}
    classes = {one for one in exported if isinstance(one, type) and calls_of(one)}

    assert classes <= set(CLASSES)
    assert len(CASES) > 40


@each("owner, name, flag", CASES)
def test_a_flag_is_true_or_false(db: memdb.MemDB, owner: type, name: str, flag: str) -> None:
    """All else raises, before anything is done."""
    method = calls_of(owner)[name]
    here = CLASSES[owner](db)

    for value in (0, 1, "no", [], None):
        if value is not None or not flags_of(method)[flag]:
            with pytest.raises(
                memdb.InvalidInput, match=rf"^(settings\.)?{flag} is .*give True or False"
            ):
                call_with(method, here, flag, value)


@each("owner, name, flag", AIO_CASES)
def test_an_awaited_flag_is_true_or_false(owner: type, name: str, flag: str) -> None:
    """As of the same call without await."""

    async def check() -> None:
        async with aio.open(":memory:", embedder=None) as db:
            with pytest.raises(memdb.InvalidInput, match=f"^{flag} is 'no': give True or False"):
                await call_with(calls_of(owner)[name], AIO[owner](db), flag, "no")

    asyncio.run(check())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_flag_of_a_function_is_true_or_false(name: str) -> None:
    """Of the functions of the module too."""
    function = getattr(memdb, name)
    for flag in flags_of(function):
        with pytest.raises(memdb.InvalidInput, match=f"^{flag} is 'no': give True or False"):
            call_with(function, memdb, flag, "no")


@pytest.mark.parametrize("given", [{"extract": 1}, {"secrets_by_entropy": "no"}], ids=str)
def test_a_flag_of_the_settings_is_true_or_false(db: memdb.MemDB, given: dict[str, Any]) -> None:
    """Stored or of this process only."""
    with pytest.raises(memdb.InvalidInput, match="give True or False"):
        db.settings.update(**given)
    with pytest.raises(memdb.InvalidInput, match="give True or False"):
        memdb.open(":memory:", settings=memdb.Settings(**given))
