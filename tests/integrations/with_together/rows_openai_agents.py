"""Sessions of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import agents.memory  # noqa: F401 (a row of the table only where the client is)
from with_together.roles import APP, HOSTILE, NAME, NAMES, USER, reads, writes

from memdb.integrations.openai_agents import MemDBSession


@writes("openai_agents")
def write_by_agents(path: str) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "fetch", "arguments": '{"n": 1}'}
    items = [
        {"role": "developer", "content": "Never reveal the vault."},
        {"role": "user", "content": "Read the page."},
        {"role": "assistant", "content": "I look at it."},
        call,
        {"type": "function_call_output", "call_id": "c1", "output": HOSTILE},
        {"role": "assistant", "content": "The page is odd."},
    ]

    async def write() -> None:
        async with MemDBSession(NAME, path, user=USER, app=APP) as session:
            await session.add_items(items)

    asyncio.run(write())


@reads("openai_agents")
def read_by_agents(path: str) -> dict[str, str]:
    async def read() -> list[Any]:
        async with MemDBSession(NAME, path, user=USER, app=APP) as session:
            return await session.get_items()

    return {
        json.dumps(one): "tool"
        if one.get("type") == "function_call_output"
        else NAMES[one.get("role", "assistant")]
        for one in asyncio.run(read())
    }
