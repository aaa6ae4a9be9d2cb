"""Every call of the API at every door: HTTP, `memdb.aio`, the command line and MCP say the same."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import pytest
from source_tree import FILES, text_of

import memdb
from memdb import aio
from memdb.api import pages
from memdb.api.collections import Artifacts
from memdb.api.scope import Scope
from memdb.api.session import Session
from memdb.api.signatures import own_parameters, schema_of
from memdb.api.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable

OWNERS = (
    "MemDB Jobs StoredSettings File Scope Session Entries Artifacts Summaries State Items Tools "
    "Worker"
).split()
CALLS: dict[str, Callable[..., Any]] = {
    f"{owner}.{name}": call
    for owner in OWNERS
    for name, call in vars(getattr(memdb, owner)).items()
    if inspect.isfunction(call) and not name.startswith("_")
}

# What JSON cannot give or take stands in `pages`: the function of a row, and the call it makes.
THROUGH = {
    "run_jobs": "Jobs.run",
    "list_scopes": "MemDB.scopes",
    "save_artifact": "Artifacts.save",
    "open_part": "Session.messages",
    "list_messages": "Session.messages",
    "fork_session": "Session.fork",
    "make_branch": "Session.branch",
    "open_artifact": "Artifacts.open",
    "find_artifact": "Artifacts.versions",
    "change_settings": "StoredSettings.update",
    "add_part": "MemDB.import_file",
    "import_upload": "MemDB.import_file",
    "export_lines": "MemDB.export_lines",
    "copy_file": "File.backup",
    "send_context": "Session.context",
}
# Calls without a row, and why.
NOT_OVER_HTTP = {
    "choose whose memory it is, which each request says": "MemDB.user MemDB.scope MemDB.shared "
    "Scope.session",
    "are an object of this process": "MemDB.transaction MemDB.close MemDB.watch Jobs.start "
    "Worker.stop Session.tools Tools.call",
    "read or write a path of the server's disk": "MemDB.export MemDB.sync MemDB.sync_status "
    "File.copy Artifacts.export",
    "are a row with other arguments": "Session.last Session.find Session.recall Artifacts.load "
    "Items.find Items.keys Items.clear State.update State.clear Session.delete Session.clear",
    "are for programs beside the file": "File.delete_space File.count_tokens Session.pop "
    "Session.replace Summaries.upgrade Items.recall Items.batch",
}
# Calls that no command makes, and why.
NOT_ON_THE_COMMAND_LINE = {
    "choose whose memory it is, as --user, --app and SESSION do": "MemDB.user MemDB.shared",
    "are for a program that talks to a model": "Session.tools Tools.call File.count_tokens "
    "Items.batch Session.head Session.create Session.fork",
    "have a command that shows more": "StoredSettings.prompts StoredSettings.categories "
    "Scope.profile Summaries.rewrite",
    "keep what a host's program knows": "State.all State.put",
}
# The tools of MCP that make one call: the call, and fields that are called otherwise there.
TOOLS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "remember": (Scope.remember, {}),
    "recall": (Scope.recall, {}),
    "context": (Session.context, {}),
    "expand": (memdb.Summaries.expand, {"id": "summary_id", "after": "after_seq"}),
    "forget": (Scope.forget, {}),
    "artifact_save": (Artifacts.save, {"text": "data", "base64": "data"}),
    "artifact_load": (Artifacts.load, {}),
    "list": (Artifacts.list, {}),
    "chat_append": (Session.append, {}),
}
IN_JSON = {"after", "data"}  # the last row as it was sent; bytes as base64
WHOSE = {"session", "kind", "skip"}  # choose what a call is asked of, and the page


def named(reasons: dict[str, str]) -> list[str]:
    return [name for names in reasons.values() for name in names.split()]


def test_each_call_has_a_row_or_a_reason() -> None:
    """And each row, and each reason, is of a call that there is."""
    called = [verb.call.__qualname__ for verb in VERBS]
    rows = {THROUGH.get(name, name) for name in called}
    reasons = named(NOT_OVER_HTTP)

    assert {name for name in called if "." not in name} == set(THROUGH)
    assert sorted({*rows, *reasons}) == sorted(CALLS)
    assert sorted(reasons) == sorted({*reasons} - rows)


@pytest.mark.parametrize("name", THROUGH)
def test_a_row_through_a_function_takes_what_its_call_takes(name: str) -> None:
    """Parameters of one name have one type."""
    known = inspect.signature(CALLS[THROUGH[name]]).parameters
    made = dict([*inspect.signature(getattr(pages, name)).parameters.items()][1:])
    pairs = {
        one: (str(made[one].annotation), str(known[one].annotation)) for one in made.keys() & known
    }
    differing = {
        one: types
        for one, types in pairs.items()
        if one not in IN_JSON
        and schema_of(types[0], nullable=False) != schema_of(types[1], nullable=False)
    }

    assert differing == {}


@pytest.mark.parametrize("name", CALLS)
def test_a_coroutine_takes_what_its_call_takes(name: str) -> None:
    """The same parameters, in the same order, with the same defaults."""
    owner, _, method = name.partition(".")
    twin = getattr(getattr(aio, owner, None) or getattr(aio.parts, owner), method, None)
    if name in ("MemDB.transaction", "State.get"):
        assert twin is None
        return
    if name in ("MemDB.watch", "MemDB.close", "MemDB.scopes"):
        assert [*inspect.signature(twin).parameters] == [*inspect.signature(CALLS[name]).parameters]
        return
    assert inspect.signature(twin) == inspect.signature(CALLS[name])


def test_each_call_has_a_command_or_a_reason() -> None:
    """A command is made of the call, or makes it."""
    source = "\n".join(text_of(file) for file in FILES if file.startswith("cli/"))
    absent = {
        name
        for name in CALLS
        if name not in source and not re.search(rf"\.{name.partition('.')[2]}\(", source)
    }

    assert sorted(absent) == sorted(named(NOT_ON_THE_COMMAND_LINE))


def test_each_tool_takes_what_its_call_takes() -> None:
    """A field has the name and a type of a parameter."""
    tools = pytest.importorskip("memdb.integrations.mcp.tools")
    wrong = []
    for tool in tools.TOOLS:
        call, renamed = TOOLS[tool.name]
        known = {one.name: str(one.annotation) for one in own_parameters(call)}
        for name, schema in tool.arguments["properties"].items():
            parameter = renamed.get(name, name)
            if parameter not in known:
                wrong += [] if name in WHOSE else [(tool.name, name, "no parameter")]
                continue
            if parameter == "data":  # bytes as base64
                continue
            found = schema_of(known[parameter], nullable=False)
            types = {one.get("type") for one in found.get("anyOf", [found])}
            given = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            wrong += [] if types >= {*given} else [(tool.name, name, types)]

    assert wrong == []
    assert {tool.name for tool in tools.TOOLS} == set(TOOLS)
