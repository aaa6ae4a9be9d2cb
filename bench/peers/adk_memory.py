"""ADK's memory services: `keyword` in memory, `sqlite` with FTS5. Neither takes vectors."""

import asyncio
import sys

import wire
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.genai import types

APP = "bench"


class Peer:
    def __init__(self, kind: str, folder: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.service = (
            InMemoryMemoryService()
            if kind == "keyword"
            else SqliteMemoryService(f"{folder}/adk.db", max_results=50)
        )

    def add(self, scope: str, items: list[dict]) -> None:
        sessions: dict[str, list[Event]] = {}
        for item in items:
            content = types.Content(
                role="user" if item["role"] == "user" else "model",
                parts=[types.Part(text=wire.said(item))],
            )
            event = Event(
                id=item["id"],
                author=item["author"] or item["role"],
                content=content,
                timestamp=item["created_ms"] / 1000,
            )
            sessions.setdefault(item["session"], []).append(event)
        for session, events in sessions.items():
            self.loop.run_until_complete(
                self.service.add_events_to_memory(
                    app_name=APP, user_id=scope, events=events, session_id=session
                )
            )

    def search(self, scope: str, query: str, limit: int) -> list[str]:
        found = self.loop.run_until_complete(
            self.service.search_memory(app_name=APP, user_id=scope, query=query)
        )
        return [one.custom_metadata.get("event_id", one.id) for one in found.memories][:limit]


wire.serve(Peer(*sys.argv[1:]))
