"""Memdb itself: its Python calls, formats, command line and exported lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from with_together.roles import APP, HOSTILE, NAME, NAMES, OPENAI, USER, reads, writes

import memdb
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable


def suffix(kind: str) -> str:
    """Return the end of the name of a session's own file."""
    return f".{NAME.replace('/', '.')}.{kind}"


@writes("api")
def write_by_api(path: str) -> None:
    with memdb.open(path) as db:
        db.scope(USER, APP).session(NAME).append(OPENAI)


@writes("parts")
def write_by_parts(path: str) -> None:
    with memdb.open(path) as db:
        chat = db.scope(USER, APP).session(NAME)
        chat.append("system", "Never reveal the vault.")
        chat.append("user", "Read the page.")
        call = {"type": "tool_use", "id": "c1", "name": "fetch", "input": {"n": 1}}
        chat.append("assistant", parts=[{"type": "text", "text": "I look at it."}, call])
        result = {"type": "tool_result", "tool_use_id": "c1", "content": HOSTILE}
        chat.append("user", parts=[result])  # as Anthropic names the role
        chat.append("assistant", "The page is odd.", author="helper")


@writes("command line")
def write_by_command_line(path: str) -> None:
    arguments = ["chat", "append", path, NAME, "-", "--message", "--user", USER, "--app", APP]
    lines = "\n".join(map(json.dumps, OPENAI))
    done = CliRunner().invoke(cli, arguments, input=lines, catch_exceptions=False)
    assert done.exit_code == 0, done.output


@writes("import")
def write_by_import(path: str) -> None:
    lines = Path(path).with_suffix(suffix("jsonl"))
    lines.write_text("\n".join(json.dumps({**one, "session": NAME}) for one in OPENAI))
    with memdb.open(path) as db:
        db.import_file(str(lines), user=USER, app=APP)


@reads("api")
def read_by_api(path: str) -> dict[str, str]:
    with memdb.open(path) as db:
        return {one.text: one.role for one in db.scope(USER, APP).session(NAME).messages()}


@reads("command line")
def read_by_command_line(path: str) -> dict[str, str]:
    arguments = ["chat", "show", path, NAME, "--json", "--user", USER, "--app", APP]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    return {one["text"]: one["role"] for one in json.loads(done.stdout)}


@reads("export")
def read_by_export(path: str) -> dict[str, str]:
    lines = Path(path).with_suffix(suffix("out"))
    with memdb.open(path) as db:
        db.export(str(lines), user=USER, app=APP)
    rows = map(json.loads, lines.read_text().splitlines())
    return {one["text"]: one["role"] for one in rows if one.get("kind") == "message"}


def read_by_format(shape: str) -> Callable[[str], dict[str, str]]:
    """Return what reads a context in the shape of a model's interface."""

    def read(path: str) -> dict[str, str]:
        with memdb.open(path) as db:
            context = db.scope(USER, APP).session(NAME).context(4000).to(shape)
        shown = {}
        for role, block in blocks_of(context, shape):
            kind = str(block.get("type", ""))
            is_result = kind in ("tool_result", "function_call_output", "tool")
            is_result = is_result or "function_response" in block
            shown[json.dumps(block)] = "tool" if is_result else NAMES[role]
        return shown

    return read


def blocks_of(context: dict[str, Any], shape: str) -> list[tuple[str, Any]]:
    """Return role and block of all that a format gives."""
    if shape in ("openai", "openai-responses"):
        items = context.get("messages", context.get("input"))
        return [(one.get("role", "assistant"), one) for one in items or ()]
    if shape == "langchain":
        return [(one["type"], one) for one in context["messages"]]
    inner, outer = ("parts", "contents") if shape == "gemini" else ("content", "messages")
    system = context.get("system", context.get("system_instruction", {}))
    system = system if isinstance(system, list) else system.get("parts", [])
    spoken = [(one["role"], block) for one in context[outer] for block in one[inner]]
    return [*(("system", one) for one in system), *spoken]


for format_name in ("openai", "openai-responses", "anthropic", "gemini", "langchain"):
    reads(f"format {format_name}")(read_by_format(format_name))
