"""
An agent of the Microsoft Agent Framework that remembers, with a scripted chat client.

    python examples/agent_framework_memory.py [FILE]
"""

import asyncio
import sys
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

import memdb
from memdb.integrations.agent_framework import MemdbContextProvider, MemdbHistoryProvider


class Script(BaseChatClient):
    """Tells what it was given first; needs no key and no network."""

    async def _inner_get_response(self, *, messages: Any, **_: Any) -> ChatResponse:
        text = f"I see {len(messages)} messages, first: {messages[0].text.splitlines()[-1]}"
        return ChatResponse(messages=[Message("assistant", [text])])


async def main(path: str) -> None:
    """Talk in one session, go on with it, and ask in another."""
    with memdb.open(path) as db:
        providers = [MemdbHistoryProvider(db, user="ann"), MemdbContextProvider(db, user="ann")]
        agent = Agent(Script(), context_providers=providers)
        for name, question in (("trip", "We fly to Oslo."), ("trip", "When?"), ("food", "Oslo?")):
            print(
                question, await agent.run(question, session=agent.create_session(session_id=name))
            )


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ":memory:"))
