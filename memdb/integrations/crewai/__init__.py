"""
CrewAI: its memory in a memdb file (extra `crewai`).

    memory = Memory(storage=MemdbStorage("agent.db", user="ann"))
    crew = Crew(agents=[...], tasks=[...], memory=memory)

`docs/crewai.md` has the mapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
    from memdb.integrations.crewai.storage import MemdbStorage

__all__ = ["MemdbStorage"]


def __getattr__(name: str) -> object:
    """Import CrewAI with the first class that is used."""
    places = {"MemdbStorage": "storage"}
    return import_class(__name__, places, name, "crewai.memory.types", "crewai")
