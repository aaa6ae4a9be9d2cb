"""
LangChain on one memdb file (extra `langchain`, langchain-core).

`MemdbChatMessageHistory` is a conversation of memdb, and `MemdbRetriever` is recall.
`MemdbVectorStore`, `MemdbByteStore` and `MemdbCache` store items. Each opens the file at its path,
or shares an open one; `docs/langchain.md` has the mapping.

    history = MemdbChatMessageHistory("trip", "agent.db", user="ann")
    history.add_messages([HumanMessage("We fly to Oslo on 3 May."), AIMessage("Noted.")])
    MemdbRetriever(source="agent.db", user="ann").invoke("When do we fly?")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
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

_MODULES = {
    "MemdbByteStore": "stores",
    "MemdbCache": "stores",
    "MemdbChatMessageHistory": "history",
    "MemdbRetriever": "history",
    "MemdbVectorStore": "vectors",
}


def __getattr__(name: str) -> object:
    """Import langchain-core with the first class that is used."""
    return import_class(__name__, _MODULES, name, "langchain_core", "langchain")
