"""Whatever a scope holds: its export, imported elsewhere, exports the same bytes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from row_digests import renew_digests

from memdb.text.validate import SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope

CALM = [HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=10, deadline=None, suppress_health_check=CALM)
MANY = settings(max_examples=500, deadline=None, suppress_health_check=CALM)

_characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
_texts = st.text(_characters, max_size=20)
_said = _texts.filter(lambda text: text.strip())
_names = st.sampled_from(["a", "b", "user:c", "d/é", '"; --', "日本"])
_times = st.integers(-62_135_596_800_000, 253_402_300_799_999).filter(lambda ms: ms not in SECONDS)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_metadata = st.none() | st.dictionaries(_texts, _values, max_size=3)
_parts = st.none() | st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "image"]), "text": _texts}), max_size=2
)

_appends = st.fixed_dictionaries(
    {
        "do": st.just("append"),
        "session": _names,
        "role": st.sampled_from(["system", "user", "assistant", "tool"]),
        "text": _texts,
        "author": st.none() | _said,
        "parts": _parts,
        "created": st.none() | _times,
        "metadata": _metadata,
        "external": st.booleans(),
    }
)
_remembers = st.fixed_dictionaries(
    {
        "do": st.just("remember"),
        "text": _said,
        "category": st.sampled_from(["events", "profile"]),
        "key": st.none() | _names,
        "keywords": st.lists(_texts, max_size=2),
        "importance": st.integers(1, 10),
        "valid_from": st.none() | _times,
        "expires": st.none() | _times,
        "created": st.none() | _times,
        "metadata": _metadata,
    }
)
_saves = st.fixed_dictionaries(
    {
        "do": st.just("save"),
        "name": _names,
        "session": st.none() | _names,
        "data": _texts | st.binary(max_size=20),
        "created": st.none() | _times,
        "metadata": _metadata,
    }
)
_others = st.fixed_dictionaries(
    {
        "do": st.sampled_from(["delete session", "delete entry", "delete version", "use", "embed"]),
        "name": _names,
        "number": st.integers(1, 4),
    }
)
_steps = st.lists(_appends | _remembers | _saves | _others, max_size=25)

_numbers = itertools.count()


def _run(opened: MemDB, scope: Scope, step: dict[str, Any]) -> None:
    """Do one step as a program would."""
    given_ = dict(step)
    match given_.pop("do"):
        case "append":
            external = given_.pop("external")
            given_["external_id"] = f"x{next(_numbers)}" if external else None
            scope.session(given_.pop("session")).append(
                given_.pop("role"), given_.pop("text"), **given_
            )
        case "remember":
            scope.remember(given_.pop("text"), **given_)
        case "save":
            session = given_.pop("session")
            owner = scope if session is None else scope.session(session)
            owner.artifacts.save(given_.pop("name"), given_.pop("data"), **given_)
        case "delete session":
            scope.session(step["name"]).delete()
        case "delete version":
            scope.session(step["name"]).artifacts.delete(step["name"], step["number"])
        case "delete entry":
            for entry in list(scope.entries.list())[: step["number"] - 2]:
                scope.entries.delete(entry.id)
        case "use":
            with opened._db.write() as tx:
                tx.run("UPDATE entries SET use_count = use_count + 1, last_used_ms = 5")
                renew_digests(tx, "entries")
        case "embed":
            opened.jobs.run()


@given(steps=_steps)
@FEW
def test_export_import_export(
    steps: list[dict[str, Any]], open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """The copy of a scope exports the same bytes, also when it was imported twice."""
    export_twice(steps, open_db, tmp_path)


@pytest.mark.slow
@given(steps=_steps)
@MANY
def test_many_exports_are_the_same_bytes(
    steps: list[dict[str, Any]], open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """The same for many more scopes."""
    export_twice(steps, open_db, tmp_path)


def export_twice(
    steps: list[dict[str, Any]], open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Fail unless export, import, export gives equal bytes."""
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    with open_db(":memory:") as original, open_db(":memory:") as copy:
        for step in steps:
            _run(original, original.scope("ann"), step)
        original.export(one, replace=True)
        copy.import_file(one)
        copy.import_file(one)
        copy.export(two, replace=True)

        assert two.read_bytes() == one.read_bytes()
        assert copy.file.check(deep=True) == []


@given(steps=_steps, cut=st.floats(0, 1))
@FEW
def test_an_import_can_stop_anywhere(
    steps: list[dict[str, Any]], cut: float, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """The beginning of an export, then all of it: the same as all of it."""
    import_in_two(steps, cut, open_db, tmp_path)


@pytest.mark.slow
@given(steps=_steps, cut=st.floats(0, 1))
@MANY
def test_many_imports_can_stop_anywhere(
    steps: list[dict[str, Any]], cut: float, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """The same for many more scopes."""
    import_in_two(steps, cut, open_db, tmp_path)


def import_in_two(
    steps: list[dict[str, Any]], cut: float, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Fail unless a beginning and then all of an export give what all of it gives."""
    one, part, two = (tmp_path / name for name in ("one.jsonl", "part.jsonl", "two.jsonl"))
    with open_db(":memory:") as original, open_db(":memory:") as copy:
        for step in steps:
            _run(original, original.scope("ann"), step)
        original.export(one, replace=True)
        lines = one.read_bytes().splitlines(keepends=True)
        part.write_bytes(b"".join(lines[: 1 + round(cut * (len(lines) - 1))]))
        copy.import_file(part)
        copy.import_file(one)
        copy.export(two, replace=True)

        assert two.read_bytes() == one.read_bytes()
        assert copy.file.check(deep=True) == []
