"""Addresses of servers: what is shown of one, and what is refused without being repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

import memdb
from memdb.text.validate import is_address, shown_address

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "s3same"
# Read otherwise than meant, or by other programs.
REFUSED = [
    f"postgresql://ann:12/{SECRET}@db.example/memory",
    f"postgresql://ann:{SECRET}@{SECRET}@db.example/memory",
    f"postgresql://ann:{SECRET}?x@db.example/memory",
    f"postgresql://db.example?password={SECRET}@1",
    f"postgresql://ann:1/2?{SECRET}@db.example/memory",
    f"Postgresql://ann:{SECRET}@db.example/memory",
    f"postgresql+psycopg://ann:{SECRET}@db.example/memory",
    f"postgresql:ann:{SECRET}@db.example/memory",
    f"mysql://ann:{SECRET}@db.example/memory",
    f"https://ann:{SECRET}@db.example/memory",
    f"host=db.example user=ann password={SECRET}",
]


@each(
    "address, shown",
    [
        ("postgresql://", "postgresql://"),
        ("postgresql:///memory", "postgresql:///memory"),
        (f"postgresql://ann:{SECRET}@h:1/d?sslmode=require", "postgresql://ann@h:1/d"),
        (f"postgres://ann:{SECRET}:x@[::1]:1,b:2/d", "postgres://ann@[::1]:1,b:2/d"),
        (f"postgresql://ann@h/d?password={SECRET}%401", "postgresql://ann@h/d"),
        (f"postgresql:///d?host=/run/pg&password={SECRET}", "postgresql:///d"),
        *((one, "postgresql://...") for one in REFUSED),
    ],
)
def test_no_password_is_shown(address: str, shown: str) -> None:
    """Nor an option; of an address that is refused nothing is."""
    assert shown_address(address) == shown


@pytest.mark.parametrize("address", REFUSED)
def test_what_can_be_misread_is_refused(address: str, tmp_path: Path) -> None:
    """By the library, wherever a database or a file is named; no folder or file is made."""
    with memdb.open(":memory:", embedder=None) as db:
        calls: list[Callable[[], Any]] = [
            lambda: memdb.open(address),
            lambda: memdb.recover(address, tmp_path / "new.db"),
            lambda: memdb.restore(address, tmp_path / "new.db"),
            lambda: db.file.copy(address),
            lambda: db.file.backup(address),
            lambda: db.export(address),
            lambda: db.import_file(address, user="ann"),
        ]
        for call in calls:
            with pytest.raises(memdb.InvalidInput) as raised:
                call()
            assert SECRET not in str(raised.value)


@pytest.mark.parametrize("address", [*REFUSED, f"postgresql://ann:{SECRET}@db.example/memory"])
def test_a_server_is_no_file(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads or writes files names the field, and repeats no address."""
    monkeypatch.chdir(tmp_path)
    with memdb.open("a.db", embedder=None) as db:
        db.scope("ann").remember("Ann sails.")
        calls: list[Callable[[], Any]] = [
            lambda: memdb.recover("a.db", address),
            lambda: memdb.recover(address, "b.db"),
            lambda: memdb.restore("a.db", address),
            lambda: memdb.restore(address, "b.db"),
            lambda: db.file.backup(address),
            lambda: db.export(address),
            lambda: db.export(address, format="sqlite"),
            lambda: db.export(address, format="html"),
        ]
        for call in calls:
            with pytest.raises(memdb.InvalidInput, match="path of a file") as raised:
                call()
            assert SECRET not in str(raised.value)
    assert {one.name for one in tmp_path.iterdir()} <= {"a.db"}  # on a server there is none


@pytest.mark.parametrize("name", ["c:/memory/a.db", "a:b.db", "user=ann.db", "a//b.db", "1://x"])
def test_names_of_files_stay_names(name: str) -> None:
    """A drive, a colon or a sign of equality makes no address."""
    from memdb.text.validate import path_value

    assert path_value(name, is_database=True) == path_value(name) == name
    assert not is_address(name)
