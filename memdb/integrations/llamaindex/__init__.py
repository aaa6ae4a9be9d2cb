"""
LlamaIndex on one memdb file (extra `llamaindex`, llama-index-core 0.14.24 or newer).

`MemdbChatStore` stores the messages of `Memory` in sessions, which recall finds and every other
client reads. `MemdbVectorStore` stores nodes as items, found by the vectors of your embedding
model. `docs/llamaindex.md` has the mapping.

    memory = Memory.from_defaults(session_id="trip", chat_store=MemdbChatStore("agent.db"))
    storage = StorageContext.from_defaults(vector_store=MemdbVectorStore("agent.db"))
"""

from memdb.adapters.adapter import extra

with extra("llamaindex"):
    from memdb.integrations.llamaindex.chat import MemdbChatStore
    from memdb.integrations.llamaindex.vectors import MemdbVectorStore

__all__ = ["MemdbChatStore", "MemdbVectorStore"]
