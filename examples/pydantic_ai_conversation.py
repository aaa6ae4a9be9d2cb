"""
A conversation of Pydantic AI in a memdb file, with a scripted model.

    python examples/pydantic_ai_conversation.py [FILE]
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

import memdb
from memdb.integrations.pydantic_ai import MemdbConversationStore


async def main(path: str) -> None:
    """Talk twice, go back to the first answer, and recall what was said."""
    agent = Agent(TestModel(custom_output_text="Noted."))
    with memdb.open(path) as db:
        store = MemdbConversationStore(db, user="ann")
        for question in ("We fly to Oslo on 3 May.", "We stay at the lighthouse."):
            trip = await store.load("trip") or Conversation(conversation_id="trip")
            result = await agent.run(question, conversation=trip)
            await store.save(result)
        revision = result.conversation.revision or ""
        trip = await store.branch("trip", at=2, expected_revision=revision)
        print([one.text for one in db.scope("ann").session("trip").messages()])
        print(db.scope("ann").recall("lighthouse", 1)[0].text)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ":memory:"))
