"""ADK's own services and memdb's side by side: what holds for the former is asked of the latter."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.artifacts import FileArtifactService, InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from memdb.integrations.adk import MemdbArtifactService, MemdbMemoryService, MemdbSessionService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# ADK's own services are what memdb's are compared with as they are since then.
IS_LATEST = [int(part) for part in version("google-adk").split(".")[:2]] >= [2, 13]

ANN = {"app_name": "desk", "user_id": "ann"}
BOB = {"app_name": "desk", "user_id": "bob"}

FAST = {"durability": "process", "counter": "estimate", "embedder": None}

# What `adk web` reads.
YAML = """
services:
  - {scheme: memdb, type: session, class: memdb.integrations.adk.MemdbSessionService}
  - {scheme: memdb, type: memory, class: memdb.integrations.adk.MemdbMemoryService}
  - {scheme: memdb, type: artifact, class: memdb.integrations.adk.MemdbArtifactService}
"""

MAKERS: dict[str, Any] = {
    "session-memdb": lambda folder: MemdbSessionService(folder / "agent.db", **FAST),
    "session-memory": lambda _: InMemorySessionService(),
    "session-sqlite": lambda folder: SqliteSessionService(str(folder / "adk.db")),
    "memory-memdb": lambda folder: MemdbMemoryService(folder / "agent.db", **FAST),
    "memory-memory": lambda _: InMemoryMemoryService(),
    "memory-sqlite": lambda folder: SqliteMemoryService(folder / "adk.db"),
    "artifact-memdb": lambda folder: MemdbArtifactService(folder / "agent.db", **FAST),
    "artifact-memory": lambda _: InMemoryArtifactService(),
    "artifact-file": lambda folder: FileArtifactService(folder / "files"),
}


@asynccontextmanager
async def service(name: str, folder: Path) -> AsyncIterator[Any]:
    """Give a service that is closed at the end, where it can be."""
    if not IS_LATEST and not name.endswith("-memdb"):
        pytest.skip("in this release ADK's own services behave otherwise")
    made = MAKERS[name](folder)
    try:
        yield made
    finally:
        if hasattr(made, "close"):
            await made.close()


def event(text: str | None = None, *, author: str = "user", **fields: Any) -> Event:
    """Return an event; `state` and `at` are its delta and time."""
    state, at = fields.pop("state", None), fields.pop("at", None)
    if state is not None:
        fields["actions"] = EventActions(state_delta=state)
    if at is not None:
        fields["timestamp"] = at
    if text is not None:
        role = "user" if author == "user" else "model"
        fields["content"] = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author=author, **fields)


def texts(events: list[Event]) -> list[str]:
    """Return the first text of each event."""
    return [one.content.parts[0].text for one in events]
