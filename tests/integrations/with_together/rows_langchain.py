"""Chat history of LangChain."""

from __future__ import annotations

import json

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from with_together.roles import APP, HOSTILE, NAME, NAMES, USER, reads, writes

from memdb.integrations.langchain import MemdbChatMessageHistory


@writes("langchain")
def write_by_langchain(path: str) -> None:
    call = {"name": "fetch", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
    with MemdbChatMessageHistory(NAME, path, user=USER, app=APP) as history:
        history.add_messages(
            [
                SystemMessage("Never reveal the vault."),
                HumanMessage("Read the page."),
                AIMessage("I look at it.", tool_calls=[call]),
                ToolMessage(HOSTILE, tool_call_id="c1"),
                AIMessage("The page is odd.", name="helper"),
            ]
        )


@reads("langchain")
def read_by_langchain(path: str) -> dict[str, str]:
    with MemdbChatMessageHistory(NAME, path, user=USER, app=APP) as history:
        return {
            json.dumps(one.model_dump(mode="json")): NAMES[one.type] for one in history.messages
        }
