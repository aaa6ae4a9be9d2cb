"""No call opens a file that this process has open but through its connections."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import fixtures
from memdb.models.reports import TableColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMATS = ("jsonl", "markdown", "html", "csv", "sqlite")

# Calls that take a path of the caller: with an open file, another path, and a free one.
CALLS: dict[str, Callable[[memdb.MemDB, str, str], object]] = {
    "import": lambda db, path, _: db.import_file(path, user="ann"),
    "import as csv": lambda db, path, _: db.import_file(path, user="ann", format="csv"),
    "import as jsonl": lambda db, path, _: db.import_file(path, user="ann", format="jsonl"),
    "import a table": lambda db, path, _: db.import_file(
        path, user="ann", columns=TableColumns("messages", "text")
    ),
    "import the folder": lambda db, path, _: db.import_file(os.path.dirname(path), user="ann"),
    **{
        f"export {one}": lambda db, path, _, one=one: db.export(path, format=one, replace=True)
        for one in FORMATS
    },
    "backup": lambda db, path, _: db.file.backup(path, replace=True),
    "copy": lambda db, path, _: db.file.copy(path),
    "save": lambda db, path, _: db.user("ann").artifacts.save("x", Path(path)),
    "write": lambda db, path, _: db.user("ann").artifacts.export("x", path, replace=True),
    "sync": lambda db, path, _: db.sync(path),
    "sync the folder": lambda db, path, _: db.sync(os.path.dirname(path)),
    "open": lambda _, path, __: memdb.open(path, embedder=None).close(),
    "recover": lambda _, path, new: memdb.recover(path, new),
    "restore from": lambda _, path, new: memdb.restore(path, new),
    "restore into": lambda db, path, _: memdb.restore(db.path, path),
    "rekey": lambda _, path, __: memdb.rekey(path, "new", key="old"),
    "make a pack of": lambda _, path, new: fixtures.make_pack(path, new),
    "make a pack at": lambda db, path, _: fixtures.make_pack(db.path, path, replace=True),
    "verify a pack": lambda _, path, __: fixtures.verify_pack(path),
    "unpack": lambda _, path, new: fixtures.unpack(path, new),
    "open a pack": lambda _, path, __: fixtures.open_pack(path).__enter__(),
}

_opened: list[str] = []
_watched: set[tuple[int, int]] = set()


def _note(event: str, given: tuple[Any, ...]) -> None:
    """Note what Python opens, also with its own SQLite."""
    if _watched and event in ("open", "sqlite3.connect") and isinstance(given[0], (str, bytes)):
        name = os.fsdecode(given[0]).removeprefix("file:").partition("?")[0]
        with suppress(OSError, ValueError):
            found = os.stat(name)
            if (found.st_dev, found.st_ino) in _watched:
                _opened.append(name)


sys.addaudithook(_note)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[list[memdb.MemDB]]:
    """Yield two open files; what is opened of them and their -shm is noted."""
    (tmp_path / "place").mkdir()
    with (
        memdb.open(tmp_path / "own.db", embedder=None) as own,
        memdb.open(tmp_path / "place" / "other.db", embedder=None) as other,
    ):
        for db in (own, other):
            db.user("ann").session("trip").append("user", "We fly in May.")
            db.user("ann").artifacts.save("x", b"tea")
        for db in (own, other):
            for end in ("", "-shm"):  # on these are SQLite's locks
                found = os.stat(f"{db.path}{end}")
                _watched.add((found.st_dev, found.st_ino))
        _opened.clear()
        yield [own, other]
        _watched.clear()


def test_no_call_opens_a_live_file(live: list[memdb.MemDB], tmp_path: Path) -> None:
    """Neither its own nor another one, under any name, and not their -shm."""
    own, other = live
    os.symlink(other.path, tmp_path / "place" / "link")
    paths = [own.path, other.path, f"{other.path}-shm", f"{other.path}-wal"]
    for number, path in enumerate([*paths, str(tmp_path / "place" / "link")]):
        for name, call in CALLS.items():
            with suppress(memdb.MemDBError):
                call(own, path, str(tmp_path / f"{number} {name}"))
            assert _opened == [], (name, path)
    for db in live:
        assert db.user("ann").session("trip").append("user", "We take the train.").seq > 1
        assert db.file.check() == []


def test_a_folder_is_imported_without_the_live_file_in_it(live: list[memdb.MemDB]) -> None:
    """The report names it, and the other files are read."""
    own, other = live
    (Path(other.path).parent / "note.md").write_text("Tea at noon.")

    report = own.import_file(os.path.dirname(other.path), user="ann")

    assert report.artifacts_added == 1
    assert any("open in this program" in one.why for one in report.left_out)


def test_the_watch_sees_what_opens_a_file(live: list[memdb.MemDB]) -> None:
    """Both Python's own SQLite and a plain opening."""
    import sqlite3

    with open(live[0].path, "rb"):
        pass
    sqlite3.connect(f"file:{live[0].path}?mode=ro", uri=True).close()

    assert _opened == [live[0].path] * 2
