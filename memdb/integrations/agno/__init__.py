"""
agno: its database in a memdb file (extra `agno`).

    agent = Agent(model=model, db=MemdbDb("agent.db"), add_history_to_context=True)

`docs/agno.md` has the mapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
    from memdb.integrations.agno.store import MemdbAsyncDb, MemdbDb

__all__ = ["MemdbAsyncDb", "MemdbDb"]


def __getattr__(name: str) -> object:
    """Import agno with the first class that is used."""
    places = {"MemdbAsyncDb": "store", "MemdbDb": "store"}
    return import_class(__name__, places, name, "agno.db.json", "agno")
