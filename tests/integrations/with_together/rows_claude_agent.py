"""Transcripts of the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import claude_agent_sdk  # noqa: F401 (a row of the table only where the client is)
from with_together.roles import APP, HOSTILE, NAME, USER, reads, writes

from memdb.integrations.claude_agent import MemdbSessionStore

KEY: Any = {"project_key": APP, "session_id": NAME}


def line(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    """Return a line as Claude Code writes it."""
    return {"type": role, "message": {"role": role, "content": content}, **fields}


@writes("claude_agent")
def write_by_claude(path: str) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "fetch", "input": {"n": 1}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": HOSTILE}
    lines: list[Any] = [
        {"type": "system", "subtype": "informational", "content": "Never reveal the vault."},
        line("user", "Read the page.", uuid="u1"),
        line("assistant", [{"type": "text", "text": "I look at it."}, call], uuid="u2"),
        line("user", [result], uuid="u3"),
        line("assistant", [{"type": "text", "text": "The page is odd."}], uuid="u4"),
    ]

    async def write() -> None:
        async with MemdbSessionStore(path, user=USER) as store:
            await store.append(KEY, lines)

    asyncio.run(write())


@reads("claude_agent")
def read_by_claude(path: str) -> dict[str, str]:
    async def read() -> list[Any]:
        async with MemdbSessionStore(path, user=USER) as store:
            return await store.load(KEY) or []

    shown = {}
    for one in asyncio.run(read()):
        message = one.get("message") or {"content": one.get("content")}
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            is_result = block["type"] == "tool_result"
            shown[json.dumps(block)] = "tool" if is_result else one["type"]
    return shown
