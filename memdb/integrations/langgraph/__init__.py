"""
LangGraph on one memdb file (extra `langgraph`): its store and its checkpointer.

`MemdbStore` is a `BaseStore`, `MemdbSaver` a `BaseCheckpointSaver`; both have synchronous and
asynchronous calls. Each opens the file at its path, or shares one that is open.

    with MemdbSaver("agent.db") as saver, MemdbStore("agent.db") as store:
        graph = builder.compile(checkpointer=saver, store=store)

`docs/langgraph.md` has the mapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
    from memdb.integrations.langgraph.saver import MemdbSaver
    from memdb.integrations.langgraph.store import MemdbStore

__all__ = ["MemdbSaver", "MemdbStore"]

_PLACES = {"MemdbSaver": "saver", "MemdbStore": "store"}


def __getattr__(name: str) -> Any:
    """Import the class *name*; its module needs langgraph-checkpoint."""
    return import_class(__name__, _PLACES, name, "langgraph.checkpoint.base", "langgraph")
