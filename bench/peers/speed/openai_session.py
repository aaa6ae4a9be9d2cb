"""The Agents SDK's SQLiteSession: one call per message, one session object per session."""

import asyncio
import time

import driver

STARTED = time.perf_counter()
from agents.memory.sqlite_session import SQLiteSession


class Peer:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.sessions: dict[tuple[str, str], SQLiteSession] = {}

    def _session(self, asked: dict) -> SQLiteSession:
        key = (asked["user"], asked["session"])
        if key not in self.sessions:
            self.sessions[key] = SQLiteSession("/".join(key), f"{self.folder}/sessions.db")
        return self.sessions[key]

    def put(self, row: dict) -> None:
        item = {"role": "user", "content": row["text"]}
        self.loop.run_until_complete(self._session(row).add_items([item]))

    def last(self, asked: dict) -> None:
        self.loop.run_until_complete(self._session(asked).get_items(limit=50))


driver.serve(Peer, "openai-agents", STARTED)
