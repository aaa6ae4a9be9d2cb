"""
Microsoft Agent Framework: history and memory in a memdb file (extra `agent-framework`).

    history = MemdbHistoryProvider("agent.db", user="ann")
    agent = Agent(client, context_providers=[history])

`docs/agent-framework.md` has the mapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
    from memdb.integrations.agent_framework.history import (
        MemdbContextProvider,
        MemdbHistoryProvider,
    )

__all__ = ["MemdbContextProvider", "MemdbHistoryProvider"]


def __getattr__(name: str) -> object:
    """Import the framework with the first class that is used."""
    places = {"MemdbContextProvider": "history", "MemdbHistoryProvider": "history"}
    return import_class(__name__, places, name, "agent_framework", "agent-framework")
