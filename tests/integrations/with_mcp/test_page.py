"""What docs/mcp.md and the docstrings show is true."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from pages import ROOT, blocks, run_block, run_doctests


def test_the_json_that_desktop_clients_paste_starts_a_server(tmp_path):
    """With another path it serves the tools that the page lists."""
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


def test_the_python_of_the_page_makes_a_server(tmp_path, monkeypatch):
    """It runs as it stands."""
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("mcp.md", "python")

    assert run_block(code)["server"].name == "memdb"


def test_the_docstrings_are_true():
    """Their examples give what stands below them."""
    assert run_doctests("memdb.integrations.mcp") > 0
