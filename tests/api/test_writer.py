"""Every row says what wrote it: the name that its handle was opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.models.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB, Scope

KINDS = ("message", "entry", "history", "item", "artifact")

# By kind, a call that writes one; *n* makes it another one.
WRITES: dict[str, Callable[[Scope, int], Any]] = {
    "message": lambda ann, n: ann.session("s").append("user", f"word {n}"),
    "entry": lambda ann, n: ann.remember(f"Box {n} is in room {n}.").entry,
    "item": lambda ann, n: ann.items.put(("n",), f"k{n}", n),
    "artifact": lambda ann, n: ann.artifacts.save(f"f{n}.md", f"text {n}"),
}


def test_every_kind_that_a_program_writes_has_the_field() -> None:
    """What undo removes is what says who wrote it."""
    having = {
        kind for kind, fields in FIELDS.items() if any(one.name == "writer" for one in fields)
    }

    assert having == {*KINDS}


@pytest.mark.parametrize("kind", WRITES)
def test_a_row_says_what_wrote_it(tmp_path: Path, kind: str) -> None:
    """Each handle writes its own name, an unnamed one none."""
    path = tmp_path / "a.db"
    for n, name in enumerate(("mail", None, "mcp:claude")):
        with memdb.open(path, writer=name) as db:
            assert WRITES[kind](db.user("ann"), n).writer == name
            assert WRITES[kind](db.user("ann"), n + 10).to_dict().get("writer") == name


def test_a_version_says_what_wrote_it(tmp_path: Path) -> None:
    """The history of an entry names each writer; a use or an unnamed handle changes none."""
    path = tmp_path / "a.db"
    with memdb.open(path, writer="one") as db:
        box = db.user("ann").remember("The box is red.", key="box").entry
        put = db.user("ann").items.put(("n",), "k", 1)
    with memdb.open(path, writer="two") as db:
        ann = db.user("ann")
        ann.remember("The box is red.", importance=9)
        ann.entries.update(box.id, text="The box is blue.")
        ann.entries.update(box.id, pinned=True)
        assert ann.items.put(("n",), "k", 2).writer == "two"
    with memdb.open(path) as db:
        ann = db.user("ann")
        ann.entries.update(box.id, pinned=False)
        assert [one.writer for one in ann.entries.history(box.id)] == ["one", "two", "two", "two"]
        assert (put.writer, ann.entries.get(box.id).writer) == ("one", "two")


def test_an_export_keeps_the_writer_and_an_import_of_others_names_its_own(tmp_path: Path) -> None:
    """A row of an export stays as it was; a line that a program wrote gets the name of the handle."""
    lines = tmp_path / "a.jsonl"
    with memdb.open(":memory:", writer="one") as db:
        for n, write in enumerate(WRITES.values()):
            write(db.user("ann"), n)
        db.export(lines)
    with memdb.open(":memory:", writer="two") as db:
        db.import_file(lines)
        assert set(writers(db)) == {"one"}
    lines.write_text(
        '{"kind": "message", "session": "s", "role": "user", "text": "word"}\n'
        '{"kind": "entry", "text": "A fact."}\n'
        '{"kind": "item", "namespace": ["n"], "key": "k", "value": 1}\n'
        '{"kind": "artifact", "name": "user:f.md", "text": "x"}\n'
    )
    with memdb.open(":memory:", writer="two") as db:
        db.import_file(lines, user="ann")
        assert writers(db) == ["two"] * 4


def writers(db: MemDB) -> list[str | None]:
    """Return the writer of one row of each kind."""
    ann = db.user("ann")
    rows: list[Any] = [ann.session("s").last(1)[0], ann.entries.list()[0]]
    rows += [ann.items.list(("n",))[0], ann.artifacts.versions(ann.artifacts.list()[0].name)[0]]
    return [one.writer for one in rows]


@pytest.mark.parametrize("name", ["", 3, "a" * 2_000, "ghp_" + "a1B2" * 9])
def test_a_name_that_cannot_be_stored_is_refused(name: Any) -> None:
    """No text, too long, and a key are no names."""
    with pytest.raises(memdb.InvalidInput):
        memdb.open(":memory:", writer=name)
