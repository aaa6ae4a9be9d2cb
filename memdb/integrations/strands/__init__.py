"""
Strands Agents: its sessions in a memdb file (extra `strands`).

    repository = MemdbSessionRepository("agent.db", user="ann")
    manager = RepositorySessionManager("trip", repository)
    agent = Agent(model=model, session_manager=manager)

`docs/strands.md` has the mapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.adapters.adapter import import_class

if TYPE_CHECKING:
    from memdb.integrations.strands.sessions import MemdbSessionRepository

__all__ = ["MemdbSessionRepository"]


def __getattr__(name: str) -> object:
    """Import Strands with the first class that is used."""
    places = {"MemdbSessionRepository": "sessions"}
    return import_class(__name__, places, name, "strands.session.session_repository", "strands")
