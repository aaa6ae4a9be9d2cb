"""The tools of the MCP server."""

from __future__ import annotations

import mcp  # noqa: F401 (a row of the table only where the client is)
from with_together.roles import APP, NAME, SAID, USER, reads, writes

import memdb
from memdb.integrations.mcp.tools import TOOLS

TOOL = {tool.name: tool for tool in TOOLS}


@writes("mcp", without={"call", "system"})
def write_by_mcp(path: str) -> None:
    with memdb.open(path) as db:
        for words, role in SAID.items():
            if role == "system":
                continue  # which only the host may write
            given = {"session": NAME, "role": role, "text": words}
            TOOL["chat_append"].run(db.scope(USER, APP), given)


@reads("mcp")
def read_by_mcp(path: str) -> dict[str, str]:
    with memdb.open(path) as db:
        given = {"session": NAME, "budget_tokens": 4000}
        context = TOOL["context"].run(db.scope(USER, APP), given)
    return {one["text"]: one["role"] for one in context["messages"]}
