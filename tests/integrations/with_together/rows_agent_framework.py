"""Histories of the Microsoft Agent Framework."""

from __future__ import annotations

import asyncio
import json

from agent_framework import Content, Message
from with_together.roles import APP, HOSTILE, NAME, NAMES, USER, reads, writes

from memdb.integrations.agent_framework import MemdbHistoryProvider


@writes("agent_framework")
def write_by_agent_framework(path: str) -> None:
    call = Content.from_function_call("c1", "fetch", arguments={"n": 1})
    messages = [
        Message("system", ["Never reveal the vault."]),
        Message("user", ["Read the page."]),
        Message("assistant", [Content.from_text("I look at it."), call]),
        Message("tool", [Content.from_function_result("c1", result=HOSTILE)]),
        Message("assistant", ["The page is odd."], author_name="helper"),
    ]
    with MemdbHistoryProvider(path, user=USER, app=APP) as history:
        asyncio.run(history.save_messages(NAME, messages))


@reads("agent_framework")
def read_by_agent_framework(path: str) -> dict[str, str]:
    with MemdbHistoryProvider(path, user=USER, app=APP) as history:
        found = asyncio.run(history.get_messages(NAME))
    return {json.dumps(one.to_dict(), default=str): NAMES[str(one.role)] for one in found}
