"""Item lines: an export gives the same items elsewhere, and a hand-written line makes one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import memdb
from memdb import MemDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES: list[Any] = [None, True, 2**70, "text", {"b": 1, "a": [None]}, b"", b"\0\xff", bytes(300)]


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_an_export_gives_the_same_items(
    db: MemDB, tmp_path: Path, open_db: Callable[..., MemDB], clock: Any
) -> None:
    """Values, versions, times, words and expiries; exporting them again gives the same lines."""
    items = db.scope("ann").items
    for number, value in enumerate(VALUES):
        items.put(("n", str(number % 3)), f"k{number}", value, metadata={"m": number}, ttl=90)
        clock.advance(7)
    items.put(("n", "0"), "k0", {"text": "red lamp", "more": "x"}, index=["text"])
    items.put((), "k", "not found", index=False)
    lines = [*db.export_lines(user="ann")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")

    other = open_db(tmp_path / "other.db")
    report = other.import_file(tmp_path / "a.jsonl")
    again = other.import_file(tmp_path / "a.jsonl")
    there = other.scope("ann").items
    assert (report.items_added, report.items_known) == (len(VALUES) + 1, 0)
    assert (again.items_added, again.items_known) == (0, len(VALUES) + 1)
    assert [one.replace(id=0) for one in there.list()] == [
        one.replace(id=0) for one in items.list()
    ]
    assert [one.item.key for one in there.recall("red lamp")] == ["k0"]
    assert "k" not in [one.item.key for one in there.recall("found")]
    assert [*other.export_lines(user="ann", embeddings=False)] == lines
    assert other.file.check(deep=True) == []


def test_what_is_here_stays(db: MemDB, tmp_path: Path) -> None:
    """An import changes no item."""
    items = db.scope("ann").items
    items.put(("n",), "k", "old")
    lines = [*db.export_lines(user="ann")]
    items.put(("n",), "k", "new")
    items.put(("n",), "gone", 1)
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    db.import_file(tmp_path / "a.jsonl")

    assert (items.get(("n",), "k").value, items.get(("n",), "k").version) == ("new", 2)


def test_a_line_by_hand_makes_an_item(db: MemDB, tmp_path: Path, clock: Any) -> None:
    """Namespace, key and value are enough; null is a value."""
    path = written(
        tmp_path / "a.jsonl",
        {"kind": "item", "namespace": ["n"], "key": "a", "value": {"text": "red lamp"}},
        {"kind": "item", "namespace": [], "key": "b", "value": None, "ttl_ms": 50, "index": ["x"]},
        {"kind": "item", "namespace": ["n"], "key": "c", "data": "AP8="},
    )
    assert db.import_file(path, user="ann").items_added == 3
    items = db.scope("ann").items

    assert items.get(("n",), "a").version == 1
    assert items.get((), "b").expires_ms == clock() + 50
    assert items.get(("n",), "c").value == b"\0\xff"
    assert [one.item.key for one in items.recall("lamp")] == ["a"]
    assert db.import_file(path, user="ann").items_known == 3


GOOD = {"kind": "item", "namespace": ["n"], "key": "k", "value": 1}
EXPORTED = {**GOOD, "uid": "u", "version": 1, "created_ms": 5, "updated_ms": 5}


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({**GOOD, "namespace": "n"}, "namespace"),
        ({**GOOD, "namespace": ["\x1f"]}, "namespace"),
        ({**GOOD, "key": ""}, "key"),
        ({**GOOD, "data": "AP8="}, "value or data"),
        ({"kind": "item", "namespace": ["n"], "key": "k"}, "value or data"),
        ({"kind": "item", "namespace": ["n"], "key": "k", "data": "?"}, "data"),
        ({**GOOD, "metadata": [1]}, "metadata"),
        ({**GOOD, "index": "title"}, "index"),
        ({**GOOD, "ttl_ms": 0}, "ttl_ms"),
        ({**GOOD, "version": 3}, "version"),
        ({**GOOD, "size": 3}, "size"),
        ({**EXPORTED, "version": 0}, "version"),
        ({**EXPORTED, "version": None}, "version"),
        ({**EXPORTED, "ttl_ms": 5}, "ttl_ms"),
        ({**EXPORTED, "expires_ms": 5}, "expires_ms"),
    ],
)
def test_a_bad_line_is_refused(db: MemDB, tmp_path: Path, line: dict[str, Any], field: str) -> None:
    """The error names the line and the field; nothing is stored."""
    with pytest.raises(memdb.InvalidInput, match=rf"line 1: .*{field}"):
        db.import_file(written(tmp_path / "a.jsonl", line), user="ann")
    assert db.scope("ann").items.list() == []


def test_a_plain_copy_has_a_table_of_items(db: MemDB, tmp_path: Path) -> None:
    """Values of every type, integers of any size too; the view shows them in the file itself."""
    items = db.scope("ann").items
    for number, value in enumerate(VALUES):
        items.put(("n", "x"), f"k{number}", value, ttl="1d")
    db.scope("ann").state["large"] = -(2**70)
    db.export(tmp_path / "plain.db", format="sqlite")
    connection = apsw.Connection(str(tmp_path / "plain.db"))
    rows = connection.execute(
        "SELECT key, namespace, value, data FROM items ORDER BY key"
    ).fetchall()

    assert len(rows) == len(VALUES)
    assert rows[2] == ("k2", '["n", "x"]', str(2**70), None)
    assert rows[6][3] == "AP8="
    assert connection.execute("SELECT value FROM state").fetchall() == [(str(-(2**70)),)]
    shown = [
        *db.query("SELECT namespace, key, value, size_bytes, version FROM items_view ORDER BY key")
    ]
    assert shown[3] == {
        "namespace": "n/x",
        "key": "k3",
        "value": '"text"',
        "size_bytes": None,
        "version": 1,
    }
    assert shown[7]["size_bytes"] == 300
