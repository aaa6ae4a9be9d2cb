"""
Pydantic AI on one memdb file (extras `pydantic-ai` and `pydantic-harness`).

`MemdbConversationStore` stores conversations as sessions, which recall finds and every other client
reads. `MemdbMemoryStore` stores the files of the harness's `Memory` as items. `docs/pydantic-ai.md`
has the mapping.

    store = MemdbConversationStore("agent.db", user="ann")
    conversation = await store.load("trip") or Conversation(conversation_id="trip")
    result = await agent.run("We fly to Oslo on 3 May.", conversation=conversation)
    await store.save(result)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
    from memdb.integrations.pydantic_ai.conversations import MemdbConversationStore
    from memdb.integrations.pydantic_ai.memory import MemdbMemoryStore

__all__ = ["MemdbConversationStore", "MemdbMemoryStore"]

# By class its module, what it needs, and the extra that installs that.
_CLASSES = {
    "MemdbConversationStore": ("conversations", "pydantic_ai.conversation_store", "pydantic-ai"),
    "MemdbMemoryStore": ("memory", "pydantic_ai_harness.memory", "pydantic-harness"),
}


def __getattr__(name: str) -> object:
    """Import Pydantic AI, or its harness, with the class that is asked for."""
    module, needs, extra = _CLASSES.get(name, ("", "", ""))
    return import_class(__name__, {name: module} if module else {}, name, needs, extra)
