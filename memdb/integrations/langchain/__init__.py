"""
LangChain on one memdb file (extra `langchain`, langchain-core).

`MemdbChatMessageHistory` is a conversation of memdb, and `MemdbRetriever` is recall.
`MemdbVectorStore`, `MemdbByteStore` and `MemdbCache` store items. Each opens the file at its path,
or shares an open one; `docs/langchain.md` has the mapping.

    history = MemdbChatMessageHistory("trip", "agent.db", user="ann")
    history.add_messages([HumanMessage("We fly to Oslo on 3 May."), AIMessage("Noted.")])
    MemdbRetriever(source="agent.db", user="ann").invoke("When do we fly?")
"""

from memdb.adapters.adapter import extra

with extra("langchain"):
    from memdb.integrations.langchain.history import MemdbChatMessageHistory, MemdbRetriever
    from memdb.integrations.langchain.stores import MemdbByteStore, MemdbCache
    from memdb.integrations.langchain.vectors import MemdbVectorStore

__all__ = [
    "MemdbByteStore",
    "MemdbCache",
    "MemdbChatMessageHistory",
    "MemdbRetriever",
    "MemdbVectorStore",
]
