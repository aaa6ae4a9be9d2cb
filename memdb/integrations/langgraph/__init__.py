"""
LangGraph on one memdb file (extra `langgraph`): its store and its checkpointer.

`MemdbStore` is a `BaseStore`, `MemdbSaver` a `BaseCheckpointSaver`; both have synchronous and
asynchronous calls. Each opens the file at its path, or shares one that is open.

    with MemdbSaver("agent.db") as saver, MemdbStore("agent.db") as store:
        graph = builder.compile(checkpointer=saver, store=store)

`docs/langgraph.md` has the mapping.
"""

from memdb.adapters.adapter import extra

with extra("langgraph"):
    from memdb.integrations.langgraph.saver import MemdbSaver
    from memdb.integrations.langgraph.store import MemdbStore

__all__ = ["MemdbSaver", "MemdbStore"]
