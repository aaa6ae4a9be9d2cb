"""What is less trusted never takes the key of what is more trusted, by whichever way it comes."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import pytest

import memdb
from memdb.text.trust import TRUST, is_less_trusted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HELD, NEW = "Ann lives in Oslo.", "Ann lives in Rome."


def _remember(db: memdb.MemDB, _folder: Path, trust: str) -> None:
    db.user("ann").remember(NEW, key="home", trust=trust)


def _import_line(db: memdb.MemDB, folder: Path, trust: str) -> None:
    line = {"kind": "entry", "text": NEW, "key": "home", "trust": trust, "category": "profile"}
    (folder / "line.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    for _ in range(2):  # a second import changes nothing
        db.import_file(folder / "line.jsonl", user="ann")


def _import_export(db: memdb.MemDB, folder: Path, trust: str) -> None:
    with memdb.open(folder / "other.db") as other:
        other.user("ann").remember(NEW, key="home", trust=trust)
        other.export(folder / "other.jsonl")
    for _ in range(2):
        db.import_file(folder / "other.jsonl")


def _sync(db: memdb.MemDB, folder: Path, trust: str) -> None:
    (folder / "meeting").mkdir()
    with memdb.open(folder / "other.db") as other:
        other.user("ann").remember(NEW, key="home", trust=trust)
        key = other.sync(folder / "meeting").key
        for one in (db, other, db):
            one.sync(folder / "meeting", pairing_key=key)
        said = [one.user("ann").entries.find(key="home") for one in (db, other)]
    assert said[0] is not None
    assert said[1] is not None
    assert said[0].text == said[1].text


DOORS = {"remember": _remember, "line": _import_line, "export": _import_export, "sync": _sync}


@pytest.mark.parametrize("door", DOORS)
def test_a_key_goes_to_what_is_as_trusted(tmp_path: Path, door: str) -> None:
    come: Callable[[memdb.MemDB, Path, str], None] = DOORS[door]
    for held, new in product(TRUST, TRUST):
        folder = tmp_path / f"{held}-{new}"
        folder.mkdir()
        with memdb.open(folder / "own.db") as db:
            ann = db.user("ann")
            ann.remember(HELD, key="home", trust=held)
            come(db, folder, new)
            now = ann.entries.find(key="home")
            assert now is not None
            if is_less_trusted(new, held):
                assert (now.text, now.trust) == (HELD, held)
            else:
                assert now.text == NEW
            texts = [one.text for one in ann.entries.list(inactive=True)]
            if door == "remember" and is_less_trusted(new, held):
                assert texts == [HELD]  # its result says that it was refused
            else:  # an import or a sync loses nothing
                assert sorted(set(texts) | _old(ann)) == [HELD, NEW]
            assert db.file.check(deep=True) == []


def _old(scope: memdb.Scope) -> set[str]:
    listed = scope.entries.list(inactive=True)
    return {old.text for one in listed for old in scope.entries.history(one.id)}
