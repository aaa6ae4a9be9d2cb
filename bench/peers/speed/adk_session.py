"""ADK's SqliteSessionService: an event per message; a session is read with its last 50 events."""

import asyncio
import time

import driver

STARTED = time.perf_counter()
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

APP = "bench"


class Peer:
    def __init__(self, folder: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.service = SqliteSessionService(f"{folder}/adk.db")
        self.sessions: dict[tuple[str, str], object] = {}

    def put(self, row: dict) -> None:
        self.loop.run_until_complete(self._put(row))

    async def _put(self, row: dict) -> None:
        key = (row["user"], row["session"])
        if key not in self.sessions:
            self.sessions[key] = await self.service.create_session(
                app_name=APP, user_id=key[0], session_id="/".join(key)
            )
        content = types.Content(role="user", parts=[types.Part(text=row["text"])])
        await self.service.append_event(self.sessions[key], Event(author="user", content=content))

    def last(self, asked: dict) -> None:
        self.loop.run_until_complete(
            self.service.get_session(
                app_name=APP,
                user_id=asked["user"],
                session_id=f"{asked['user']}/{asked['session']}",
                config=GetSessionConfig(num_recent_events=50),
            )
        )


driver.serve(Peer, "google-adk", STARTED)
