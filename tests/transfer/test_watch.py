"""Watching a folder of notes: what changes becomes a version, what goes is said."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import memdb
from memdb.formats.importing import watch_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB
    from memdb.models.reports import FolderChange


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """Return a folder of two notes."""
    folder = tmp_path / "vault"
    (folder / "trip").mkdir(parents=True)
    write(folder / "a.md", "one", 1)
    write(folder / "trip" / "b.md", "two", 1)
    return folder


def write(path: Path, text: str, second: int) -> None:
    """Write a note, changed at a second of its own."""
    path.write_text(text)
    os.utime(path, ns=(second * 10**9, second * 10**9))


def seen(db: MemDB, vault: Path, *steps: Callable[[], object]) -> list[FolderChange]:
    """Return the changes of a watch during which *steps* happen, one between two looks."""
    waiting = [*steps]

    def sleep(_seconds: float) -> None:
        if not waiting:
            raise KeyboardInterrupt
        waiting.pop(0)()

    found = []
    with pytest.raises(KeyboardInterrupt):
        for change in watch_folder(db, vault, user="ann", sleep=sleep):
            found.append(change)  # noqa: PERF402 (the watch ends by an error)
    return found


def rest() -> None:
    """Let a look pass without a change."""


def test_a_changed_note_is_a_version(db: MemDB, vault: Path) -> None:
    """Once it was left alone for a look; a new note too, and nothing else is read again."""
    changes = seen(
        db,
        vault,
        rest,
        lambda: write(vault / "a.md", "one more", 2),
        rest,
        rest,
        lambda: write(vault / "trip" / "c.md", "three", 3),
        rest,
    )
    added = [
        (one.report.artifacts_added, one.report.artifacts_known) for one in changes if one.report
    ]
    ann = db.scope("ann")

    assert added == [(2, 0), (1, 0), (1, 0)]
    assert [one.version for one in ann.artifacts.versions("user:vault/a.md")] == [2, 1]
    assert ann.artifacts.load("user:vault/trip/c.md").text == "three"


def test_a_note_that_is_being_written_waits(db: MemDB, vault: Path) -> None:
    """Halves of it are no versions."""
    halves = [lambda n=n: write(vault / "a.md", "x" * n, n) for n in (2, 3, 4)]
    changes = seen(db, vault, *halves, rest)

    assert [one.report.artifacts_added for one in changes if one.report] == [2, 1]
    assert db.scope("ann").artifacts.load("user:vault/a.md").text == "xxxx"


def test_a_removed_note_is_said_and_stays(db: MemDB, vault: Path) -> None:
    """Its artifact stays; a note that comes back is read again."""
    changes = seen(
        db,
        vault,
        lambda: (vault / "a.md").unlink(),
        lambda: write(vault / "a.md", "back", 5),
        rest,
    )

    assert [one.removed for one in changes] == [(), ("a.md",), ()]
    assert db.scope("ann").artifacts.load("user:vault/a.md").text == "back"


def test_a_note_that_cannot_be_read(db: MemDB, vault: Path) -> None:
    """The watch says so, and goes on with the others."""
    changes = seen(
        db,
        vault,
        lambda: (vault / "bad.md").write_bytes(b"caf\xe9"),
        rest,
        lambda: write(vault / "a.md", "later", 7),
        rest,
    )

    assert "is not UTF-8" in str(changes[1].error)
    assert db.scope("ann").artifacts.load("user:vault/a.md").text == "later"


def test_the_last_note_may_go(db: MemDB, vault: Path) -> None:
    """An empty folder is watched on; one that is gone is an error."""
    (vault / "trip" / "b.md").unlink()
    changes = seen(db, vault, lambda: (vault / "a.md").unlink(), rest)
    assert changes[-1].removed == ("a.md",)

    write(vault / "a.md", "one", 1)

    def move() -> None:
        vault.rename(vault.with_name("gone"))

    with pytest.raises(memdb.FileError, match="vault cannot be read"):
        list(watch_folder(db, vault, user="ann", sleep=lambda _: move()))


def test_only_notes_are_watched(db: MemDB, tmp_path: Path) -> None:
    """Another format is refused before anything is stored."""
    (tmp_path / "a.jsonl").write_text('{"role": "user", "text": "x", "session": "s"}\n')

    with pytest.raises(
        memdb.InvalidInput, match="only a folder of Markdown or text can be watched"
    ):
        next(watch_folder(db, tmp_path / "a.jsonl", user="ann"))
    assert db.scopes() == []
