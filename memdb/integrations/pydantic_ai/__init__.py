"""
Pydantic AI on one memdb file (extra `pydantic-ai`).

`MemdbConversationStore` stores conversations as sessions, which recall finds and every other client
reads. `docs/pydantic-ai.md` has the mapping.

    store = MemdbConversationStore("agent.db", user="ann")
    conversation = await store.load("trip") or Conversation(conversation_id="trip")
    result = await agent.run("We fly to Oslo on 3 May.", conversation=conversation)
    await store.save(result)
"""

from memdb.adapters.adapter import extra

with extra("pydantic-ai"):
    from memdb.integrations.pydantic_ai.conversations import MemdbConversationStore

__all__ = ["MemdbConversationStore"]
