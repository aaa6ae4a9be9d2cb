"""The memory tool beside Anthropic's own, and what two writers and a crash would break."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import random
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from anthropic.lib.tools import ToolError
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once

import memdb
from memdb.errors import InvalidInput
from memdb.integrations.anthropic import MemdbAsyncMemoryTool, MemdbMemoryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Command = dict[str, Any]
    Call = Callable[[Command], str]

own = importlib.import_module("anthropic.lib.tools._beta_builtin_memory_tool")
NEEDS_NEWEST = pytest.mark.skipif(
    not hasattr(own, "_split_lines_keeping_cr"),
    reason="older releases split lines at other characters and could delete the root",
)

NAMES = ["a", "b.txt", "c d", "d", ".h", "é", "..", ".", "a", "b", "", "x%_*["]
TEXTS = [
    "",
    "one\ntwo\nthree\n",
    "one",
    "\n\n",
    "a\r\nb\r\n",
    "aa aa",
    "é😀\nline",
    "x" * 300,
    "one\none\n",
    "nul\0here",
    "\u2028sep\x0bvt",
    "two\ttabs",
]
OLD = ["one", "a", "aa", "\n", "", "two", "zzz"]
SCRIPT_OF_ALL = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/notes/trip.md", "file_text": "ferry\nat noon\n"},
    {"command": "create", "path": "/memories/notes/trip.md", "file_text": "other"},
    {"command": "view", "path": "/memories/notes/trip.md"},
    {"command": "view", "path": "/memories/notes/trip.md", "view_range": [2, -1]},
    {
        "command": "str_replace",
        "path": "/memories/notes/trip.md",
        "old_str": "noon",
        "new_str": "8",
    },
    {
        "command": "str_replace",
        "path": "/memories/notes/trip.md",
        "old_str": "noon",
        "new_str": "8",
    },
    {"command": "str_replace", "path": "/memories/notes/trip.md", "old_str": "t", "new_str": "8"},
    {"command": "str_replace", "path": "/memories/notes", "old_str": "t", "new_str": "8"},
    {
        "command": "insert",
        "path": "/memories/notes/trip.md",
        "insert_line": 1,
        "insert_text": "to Oslo\n",
    },
    {"command": "insert", "path": "/memories/notes/trip.md", "insert_line": 9, "insert_text": "x"},
    {"command": "view", "path": "/memories"},
    {"command": "rename", "old_path": "/memories/notes", "new_path": "/memories/old/2026/notes"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/old/2026"},
    {"command": "rename", "old_path": "/memories/x", "new_path": "/memories/old"},
    {"command": "rename", "old_path": "/memories/x", "new_path": "/memories/new/y"},
    {"command": "delete", "path": "/memories/old/2026/notes/trip.md"},
    {"command": "view", "path": "/memories/old/2026"},
    {"command": "delete", "path": "/memories/old"},
    {"command": "delete", "path": "/memories/old"},
    {"command": "delete", "path": "/memories"},
    {"command": "view", "path": "/memories/../secret"},
    {"command": "view", "path": "/etc/passwd"},
    {"command": "view", "path": "/memories"},
]


def random_commands(seed: int, count: int) -> Iterator[Command]:
    """Yield commands of all kinds over few names, so that they meet."""
    rng = random.Random(seed)

    def path() -> str:
        top = rng.choice(["/memories"] * 12 + ["/memory", "memories", "/memoriesx", ""])
        steps = [
            rng.choice("/" * 9 + "\\").replace("\\", "//") + rng.choice(NAMES)
            for _ in range(rng.randint(0, 3))
        ]
        return top + "".join(steps) + rng.choice([""] * 9 + ["/"])

    for _ in range(count):
        name = rng.choice(
            "view view view create create create create str_replace str_replace "
            "insert insert delete rename rename".split()
        )
        command: Command = {"command": name}
        if name == "rename":
            command |= {"old_path": path(), "new_path": path()}
        else:
            command["path"] = path()
        if name == "view" and rng.random() < 0.4:
            command["view_range"] = [rng.randint(-2, 5) for _ in range(rng.choice([2, 2, 2, 1]))]
        if name == "create":
            command["file_text"] = rng.choice(TEXTS)
        if name == "str_replace":
            command |= {"old_str": rng.choice(OLD), "new_str": rng.choice(TEXTS)}
        if name == "insert":
            command |= {"insert_line": rng.randint(-1, 5), "insert_text": rng.choice(TEXTS)}
        yield command


def answer(call: Call, command: Command) -> str:
    """Return what the model reads; "?" for what only a file system has an error for."""
    try:
        text = call(dict(command))
    except ToolError as error:
        return f"error: {error}"
    except (OSError, ValueError):
        return "?"
    # Folders have other sizes on other file systems.
    text = re.sub(r"^[0-9.]+[BKM](\t.*/)$", r"4K\1", text, flags=re.MULTILINE)
    return re.sub(r"(hidden items:\n)[0-9.]+[BKM]\t", r"\g<1>4K\t", text)


def differences(call: Call, folder: Path, commands: Iterator[Command] | list[Command]) -> list[Any]:
    """Return the commands that Anthropic's own tool answers otherwise."""
    reference = own.BetaLocalFilesystemMemoryTool(str(folder))
    wrong = []
    for command in commands:
        expected, got = answer(reference.call, command), answer(call, command)
        alike = got.startswith("error: ") if expected == "?" else got == expected
        if not alike:
            wrong.append((command, expected, got))
    return wrong


@NEEDS_NEWEST
def test_a_script_beside_anthropics_own_tool(tmp_path: Path) -> None:
    """Every text and error is the same."""
    with MemdbMemoryTool(tmp_path / "a.db") as tool:
        assert differences(tool.call, tmp_path, SCRIPT_OF_ALL) == []


@NEEDS_NEWEST
@pytest.mark.parametrize("seed", range(12))
def test_random_commands_beside_anthropics_own_tool(tmp_path: Path, seed: int) -> None:
    """No difference in 80 commands."""
    with MemdbMemoryTool(tmp_path / "a.db", counter="estimate", embedder=None) as tool:
        assert differences(tool.call, tmp_path, random_commands(seed, 80)) == []


@NEEDS_NEWEST
@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.asyncio
async def test_the_async_tool_gives_the_same(tmp_path: Path, seed: int) -> None:
    """As the sync one, command by command."""
    with (
        MemdbMemoryTool(tmp_path / "a.db", counter="estimate", embedder=None) as tool,
        MemdbAsyncMemoryTool(tmp_path / "b.db", counter="estimate", embedder=None) as other,
    ):
        for command in [*SCRIPT_OF_ALL, *random_commands(seed, 60)]:
            expected = answer(tool.call, command)
            try:
                got = await other.call(dict(command))
            except ToolError as error:
                got = f"error: {error}"
            assert got == expected


def create(path: str, text: str) -> Command:
    """Return a command that makes a file."""
    return {"command": "create", "path": path, "file_text": text}


HOSTILE = [
    "%",
    "_",
    "*",
    "[",
    "a%2Fb",
    "~",
    "C:\\x",
    "\u202e",
    "a" * 1000,
    "'; DROP TABLE items;--",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_every_character_of_a_name_is_literal(name: str) -> None:
    """It is one file, and no pattern."""
    with MemdbMemoryTool(":memory:") as tool:
        tool.call(create("/memories/other", "kept"))
        tool.call(create(f"/memories/{name}/{name}", "text"))
        assert "text" in tool.call({"command": "view", "path": f"/memories/{name}/{name}"})
        tool.call({"command": "delete", "path": f"/memories/{name}"})
        assert "kept" in tool.call({"command": "view", "path": "/memories/other"})


IMPOSSIBLE = ["a\0b", "\ud800", "b" * 10_000, "\x1f/x", " "]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_name_that_no_file_can_have(name: str) -> None:
    """Making it is a ToolError, and it is absent; nothing is written, no folder either."""
    with memdb.open(":memory:") as db, MemdbMemoryTool(db) as tool:
        with pytest.raises(ToolError):
            tool.call(create(f"/memories/new/{name}/x", "text"))
        with pytest.raises(ToolError, match="does not exist"):
            tool.call({"command": "view", "path": f"/memories/{name}"})
        with pytest.raises(ToolError):
            tool.call(
                {"command": "rename", "old_path": f"/memories/{name}", "new_path": "/memories/q/r"}
            )
        assert not [one for one in db.scope("default").items.list() if one.value is not None]


@pytest.mark.parametrize(
    "path",
    [
        "/memories/..",
        "/memories/../x",
        "/memories/a/../../b",
        "/memories/../memories2/x",
        "/etc",
        "",
        None,
        5,
        "/memories/a/../../../memories/x",
    ],
)
def test_paths_that_leave_the_folder(path: Any) -> None:
    """Every command refuses them."""
    with memdb.open(":memory:") as db, MemdbMemoryTool(db) as tool:
        tool.call(create("/memories/a", "text"))
        for command in (
            {"command": "view", "path": path},
            create(path, "x"),
            {"command": "delete", "path": path},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
            {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
            {"command": "rename", "old_path": "/memories/a", "new_path": path},
            {"command": "rename", "old_path": path, "new_path": "/memories/b"},
        ):
            with pytest.raises(ToolError):
                tool.call(command)
        assert [(one.key, one.value) for one in db.scope("default").items.list()] == [("a", "text")]


@pytest.mark.parametrize("text", [None, 5, ["x"], "\ud800"])
def test_a_text_that_is_none(text: Any) -> None:
    """Nothing is written, no folder either."""
    with memdb.open(":memory:") as db, MemdbMemoryTool(db) as tool:
        with pytest.raises(ToolError):
            tool.call(create("/memories/a/b", text))
        assert db.scope("default").items.list() == []


@pytest.mark.parametrize(
    "command",
    [
        {"command": "view"},
        {"command": "create", "path": "/memories/b"},
        {"command": "create", "file_text": "x"},
        {"command": "str_replace", "path": "/memories/a", "old_str": "text"},
        {"command": "str_replace", "path": "/memories/a", "old_str": 5, "new_str": "x"},
        {"command": "insert", "path": "/memories/a", "insert_line": "x", "insert_text": "x"},
        {"command": "insert", "path": "/memories/a", "insert_line": 0},
        {"command": "view", "path": "/memories/a", "view_range": ["a", "b"]},
        {"command": "rename", "old_path": "/memories/a"},
        {"command": "delete"},
    ],
)
def test_a_command_with_wrong_or_missing_fields(command: Command) -> None:
    """The model reads what is wrong, and nothing is written."""
    with memdb.open(":memory:") as db, MemdbMemoryTool(db) as tool:
        tool.call(create("/memories/a", "text"))
        with pytest.raises(ToolError):
            tool.call(command)
        assert [(one.key, one.value) for one in db.scope("default").items.list()] == [("a", "text")]


def test_recall_finds_files_and_other_clients_read_them(tmp_path: Path) -> None:
    """A file is an item under its folders."""
    with memdb.open(tmp_path / "a.db") as db, MemdbMemoryTool(db, user="ann", app="desk") as tool:
        tool.call(create("/memories/people/zoe.md", "Zoe lives in Bergen and sails."))
        items = db.scope("ann", "desk").items
        assert items.get(("memories", "people"), "zoe.md").value == "Zoe lives in Bergen and sails."
        (found,) = items.recall("where does Zoe live?", prefix=("memories",))
        assert found.item.key == "zoe.md"
        items.put(("memories", "deep", "er"), "x.json", {"a": 1})
        assert "/memories/deep/er/" in tool.call({"command": "view", "path": "/memories"})
        assert '"a": 1' in tool.call({"command": "view", "path": "/memories/deep/er/x.json"})
        assert tool.clear_all_memory() == "All memory cleared"
        assert items.list() == []
        assert db.file.check() == []


def test_a_secret_is_an_error_that_the_model_reads() -> None:
    """If the file refuses keys; the answer does not repeat it."""
    with MemdbMemoryTool(":memory:", settings={"secrets_in_messages": "refuse"}) as tool:
        with pytest.raises(ToolError) as caught:
            tool.call(create("/memories/a", "key AKIAIOSFODNN7EXAMPLQ"))
        assert "AKIAIOSFODNN7EXAMPLQ" not in str(caught.value)
        assert "a" not in tool.call({"command": "view", "path": "/memories"}).splitlines()[1:]


def test_a_closed_tool() -> None:
    """It says so as a ToolError, and wrong sources as memdb does."""
    tool = MemdbMemoryTool(":memory:")
    tool.close()
    with pytest.raises(ToolError, match="closed"):
        tool.call(create("/memories/a", "x"))
    with pytest.raises(InvalidInput):
        MemdbMemoryTool(5)


def test_it_tells_the_api_what_it_is() -> None:
    """As Anthropic's own class does."""
    with MemdbMemoryTool(":memory:", cache_control={"type": "ephemeral"}) as tool:
        assert tool.to_dict() == {
            "type": "memory_20250818",
            "name": "memory",
            "cache_control": {"type": "ephemeral"},
        }


@pytest.mark.asyncio
async def test_cancelling_at_any_await(tmp_path: Path) -> None:
    """A command is done or not, and the next one works."""
    async with MemdbAsyncMemoryTool(tmp_path / "a.db") as tool:
        number = itertools.count()

        async def call() -> None:
            await tool.call(create(f"/memories/{next(number)}/b/c", "x"))

        async def check() -> None:
            for item in tool._files._items.list(("memories",), exact=True):
                assert "x" in await tool.call(
                    {"command": "view", "path": f"/memories/{item.key}/b/c"}
                )

        assert await cancel_at_each_await(call, check) > 0


@pytest.mark.asyncio
async def test_two_writers_in_one_process(tmp_path: Path) -> None:
    """Each of fifty insertions of two tools stays."""
    async with (
        MemdbAsyncMemoryTool(tmp_path / "a.db") as one,
        MemdbAsyncMemoryTool(tmp_path / "a.db") as two,
    ):
        await one.call(create("/memories/log", "begin\n"))
        insert = {"command": "insert", "path": "/memories/log", "insert_line": 1}
        await asyncio.gather(
            *(
                tool.call({**insert, "insert_text": f"{at}"})
                for at, tool in enumerate([one, two] * 25)
            )
        )
        text = await one.call({"command": "view", "path": "/memories/log"})
        assert {str(at) for at in range(50)} <= {
            line.partition("\t")[2] for line in text.splitlines()
        }


SCRIPT = """
import sys
from memdb.integrations.anthropic import MemdbMemoryTool
from anthropic.lib.tools import ToolError
path, number, writes = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True); sys.stdin.readline()
with MemdbMemoryTool(path) as tool:
    try:
        tool.call({"command": "create", "path": "/memories/log", "file_text": "end\\n"})
    except ToolError:
        pass
    for at in range(writes):
        new = f"w{number}x{at}\\nend"
        tool.call({"command": "str_replace", "path": "/memories/log", "old_str": "end", "new_str": new})
"""


@pytest.mark.slow
def test_processes_that_edit_one_file_at_once(tmp_path: Path) -> None:
    """Eight processes change the same file, and no change is lost."""
    run_at_once(SCRIPT, tmp_path / "a.db")
    with MemdbMemoryTool(tmp_path / "a.db") as tool:
        text = tool.call({"command": "view", "path": "/memories/log"})
    words = [line.partition("\t")[2] for line in text.splitlines()[1:]]
    assert sorted(words[:-2]) == sorted(
        f"w{n}x{at}" for n in range(PROCESSES) for at in range(WRITES)
    )


@pytest.mark.slow
def test_fresh_openers(tmp_path: Path) -> None:
    """A dozen processes open a file that is not there yet, and each writes."""
    run_at_once(SCRIPT, tmp_path / "a.db", processes=OPENERS, writes=1)


class _Model(BaseHTTPRequestHandler):
    """Answers with the commands of a script, then with a text."""

    steps: list[Command]
    seen: list[Any]

    def do_POST(self) -> None:
        """Give the next message."""
        self.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        content: list[Any] = [{"type": "text", "text": "Done."}]
        if self.steps:
            content = [
                {
                    "type": "tool_use",
                    "id": f"t{len(self.steps)}",
                    "name": "memory",
                    "input": self.steps.pop(0),
                }
            ]
        body = json.dumps(
            {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "scripted",
                "content": content,
                "usage": {"input_tokens": 1, "output_tokens": 1},
                "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
            }
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_anthropics_runner_with_a_scripted_model(tmp_path: Path) -> None:
    """Results and errors reach the model as the runner sends them."""
    _Model.steps = [
        create("/memories/tea.md", "Ann drinks tea."),
        create("/memories/tea.md", "again"),
        {"command": "view", "path": "/memories/tea.md"},
    ]
    _Model.seen = []
    server = HTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        client = anthropic.Anthropic(
            api_key="none", base_url=f"http://127.0.0.1:{server.server_port}"
        )
        with MemdbMemoryTool(tmp_path / "a.db") as tool:
            runner = client.beta.messages.tool_runner(
                model="scripted",
                max_tokens=100,
                tools=[tool],
                messages=[{"role": "user", "content": "Remember that I drink tea."}],
            )
            assert runner.until_done().content[0].text == "Done."
    finally:
        server.shutdown()
        server.server_close()
    told = [
        block
        for one in _Model.seen
        for message in one["messages"]
        if message["role"] == "user"
        for block in message["content"]
        if isinstance(block, dict)
    ]
    results = [*{one["tool_use_id"]: one for one in told}.values()]
    assert [bool(one.get("is_error")) for one in results] == [False, True, False]
    assert "already exists" in str(results[1]["content"])
    assert "     1\tAnn drinks tea." in results[2]["content"]
