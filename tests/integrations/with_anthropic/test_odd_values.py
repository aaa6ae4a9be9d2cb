"""What a model may give by mistake is a ToolError and changes nothing; expiry stays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from anthropic.lib.tools import ToolError
from odd_values import IDS, VALUES

import memdb
from memdb.integrations.anthropic import MemdbAsyncMemoryTool, MemdbMemoryTool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Command = dict[str, Any]

COMMANDS: list[Command] = [
    {"command": "view", "path": "/memories/a", "view_range": [1, 2]},
    {"command": "create", "path": "/memories/new", "file_text": "x"},
    {"command": "str_replace", "path": "/memories/a", "old_str": "two", "new_str": "2"},
    {"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": "x"},
    {"command": "delete", "path": "/memories/a"},
    {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
]
ODD = {**{name: make() for name, make in VALUES.items()}, **IDS}
FIELDS = [(one, field) for one in COMMANDS for field in one if field != "command"]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    """Return an open file with one file of the model."""
    with memdb.open(tmp_path / "a.db", durability="process") as opened:
        opened.scope("default").items.put(("memories",), "a", "one\ntwo\n")
        yield opened


def shown(db: memdb.MemDB) -> list[tuple[str, Any]]:
    """Return what is stored."""
    return [(str(item), item.value) for item in db.scope("default").items.list()]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(("command", "field"), FIELDS, ids=lambda one: str(one)[:40])
def test_an_odd_field_is_done_or_a_tool_error(
    db: memdb.MemDB, command: Command, field: str, name: str
) -> None:
    """With and without await alike; what is refused is not half done."""
    sync, later = MemdbMemoryTool(db), MemdbAsyncMemoryTool(db)
    before = shown(db)
    given = {**command, field: ODD[name]}
    try:
        sync.call(given)
    except ToolError:
        assert shown(db) == before
        with pytest.raises(ToolError):
            asyncio.run(later.call(given))
        assert shown(db) == before
    for path in ("/memories", "/memories/a", "/memories/new"):
        try:
            sync.call({"command": "view", "path": path})
        except ToolError as error:
            assert "does not exist" in str(error)  # noqa: PT017 (most paths are there)


@pytest.mark.parametrize("command", [
    {}, None, 5, "view", [], {"command": None}, {"command": 5}, {"command": "nope"},
    {"command": ["view"]}, {"path": "/memories"}, {"command": "_find", "path": "/memories"},
])  # fmt: skip
def test_what_is_no_command_is_a_tool_error(db: memdb.MemDB, command: Any) -> None:
    """And names those that there are."""
    with pytest.raises(ToolError, match="view, create, str_replace, insert, delete, rename"):
        MemdbMemoryTool(db).call(command)
    with pytest.raises(ToolError, match="Unknown command"):
        asyncio.run(MemdbAsyncMemoryTool(db).call(command))


@pytest.mark.parametrize("command", [{"command": one["command"]} for one in COMMANDS], ids=str)
def test_a_command_without_its_fields_is_a_tool_error(db: memdb.MemDB, command: Command) -> None:
    """The model left all of them out."""
    before = shown(db)
    with pytest.raises(ToolError):
        MemdbMemoryTool(db).call(command)
    assert shown(db) == before


@pytest.mark.parametrize("call", [COMMANDS[2], COMMANDS[3], COMMANDS[5]], ids=str)
def test_an_edit_keeps_the_time_to_live(db: memdb.MemDB, call: Command) -> None:
    """And the metadata of who put it there."""
    items = db.scope("default").items
    items.put(("memories",), "a", "one\ntwo\n", ttl=500, metadata={"by": "me"})
    MemdbMemoryTool(db).call(call)
    (item,) = items.list(("memories",))
    assert (item.ttl_ms, item.metadata) == (500_000, {"by": "me"})
    assert item.expires_ms == item.updated_ms + 500_000


def test_a_folder_that_is_moved_keeps_the_times_to_live(db: memdb.MemDB) -> None:
    """Of each file in it."""
    items = db.scope("default").items
    for name, ttl in (("x", 500), ("y", None), ("z", "1d")):
        items.put(("memories", "f"), name, "text", ttl=ttl)
    MemdbMemoryTool(db).call(
        {"command": "rename", "old_path": "/memories/f", "new_path": "/memories/g"}
    )
    found = {item.key: item.ttl_ms for item in items.list(("memories", "g"))}
    assert found == {"x": 500_000, "y": None, "z": 86_400_000}


def test_a_closed_file_is_a_tool_error(tmp_path: Path) -> None:
    """Also of a command that would read nothing."""
    tool = MemdbMemoryTool(tmp_path / "a.db")
    tool.close()
    for path in ("/memories", "/memories/\0"):
        with pytest.raises(ToolError, match="closed"):
            tool.call({"command": "view", "path": path})
