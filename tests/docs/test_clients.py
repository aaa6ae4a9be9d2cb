"""The blocks of docs/mcp.md and docs/openai-agents.md, as a reader pastes them."""

import ast
import asyncio
import functools
import json
import os
import re
import sys
from pathlib import Path

import pytest

import memdb

ROOT = Path(memdb.__file__).parents[1]


def blocks(name, kind):
    """Return the code blocks of a page."""
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)


def run_block(code, **names):
    """Run a block that may await at its top, and return its names."""
    compiled = compile(code, "<block>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names["__name__"] = "block"

    async def run():
        found = eval(compiled, names)
        if asyncio.iscoroutine(found):
            await found

    asyncio.run(run())
    return names


def test_the_json_that_desktop_clients_paste_starts_a_server(tmp_path):
    """With another path it serves the tools that the page lists."""
    pytest.importorskip("mcp")
    from mcp import Client, StdioServerParameters

    (text,) = blocks("mcp.md", "json")
    entry = json.loads(text)["mcpServers"]["memory"]
    assert entry["command"] == "memdb"
    args = [str(tmp_path / "a.db") if "/" in one else one for one in entry["args"]]

    async def tools():
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "memdb", *args],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        async with Client(server) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    page = (ROOT / "docs" / "mcp.md").read_text()
    assert [name for name in asyncio.run(tools()) if f"`{name}`" not in page] == []


def test_the_python_of_the_mcp_page_makes_a_server(tmp_path, monkeypatch):
    """It runs as it stands."""
    pytest.importorskip("mcp")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("mcp.md", "python")

    assert run_block(code)["server"].name == "memdb"


def test_the_python_of_the_agents_page_runs(tmp_path, monkeypatch):
    """With a scripted model in place of OpenAI's."""
    agents = pytest.importorskip("agents")
    from agents.testing import ScriptedModel
    from openai.types.responses import ResponseOutputMessage

    agents.set_tracing_disabled(True)
    monkeypatch.chdir(tmp_path)
    said = {
        "id": "m",
        "content": [{"annotations": [], "text": "Noted.", "type": "output_text"}],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }
    model = ScriptedModel([[ResponseOutputMessage.model_validate(said)]])
    monkeypatch.setattr(agents, "Agent", functools.partial(agents.Agent, model=model))
    (code,) = blocks("openai-agents.md", "python")

    found = run_block(code)

    assert found["result"].final_output == "Noted."
    assert len(asyncio.run(found["session"].get_items())) == 2
    found["session"].close()
