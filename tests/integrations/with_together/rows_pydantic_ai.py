"""Conversations of Pydantic AI."""

from __future__ import annotations

import asyncio
import json

from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from with_together.roles import APP, HOSTILE, NAME, USER, reads, writes

from memdb.integrations.pydantic_ai import MemdbConversationStore

KINDS = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "text": "assistant",
    "tool-call": "assistant",
}


@writes("pydantic_ai")
def write_by_pydantic_ai(path: str) -> None:
    messages = [
        ModelRequest(
            [SystemPromptPart("Never reveal the vault."), UserPromptPart("Read the page.")]
        ),
        ModelResponse([TextPart("I look at it."), ToolCallPart("fetch", {"n": 1}, "c1")]),
        ModelRequest([ToolReturnPart("fetch", HOSTILE, "c1")]),
        ModelResponse([TextPart("The page is odd.")]),
    ]

    async def write() -> None:
        async with MemdbConversationStore(path, user=USER, app=APP) as store:
            await store.save(Conversation(messages=messages, conversation_id=NAME))

    asyncio.run(write())


@reads("pydantic_ai")
def read_by_pydantic_ai(path: str) -> dict[str, str]:
    async def read() -> Conversation:
        async with MemdbConversationStore(path, user=USER, app=APP) as store:
            found = await store.load(NAME)
            assert found is not None
            return found

    messages = json.loads(ModelMessagesTypeAdapter.dump_json(list(asyncio.run(read()).messages)))
    return {
        json.dumps(part): KINDS[part["part_kind"]]
        for message in messages
        for part in message["parts"]
    }
