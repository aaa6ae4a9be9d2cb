"""
Claude Agent SDK: a memdb file as its `SessionStore` (extra `claude-agent`).

    store = MemdbSessionStore("agent.db", user="ann")
    options = ClaudeAgentOptions(session_store=store)

Each transcript is a session of memdb, each sub-agent one under its parent: lines come
back as they were, and `recall` finds what was said. `docs/claude-agent-sdk.md` has more.

>>> import asyncio, memdb
>>> from memdb.integrations.claude_agent import MemdbSessionStore
>>> async def mirror(db):
...     key = {"project_key": "-home-ann-trip", "session_id": "s1"}
...     line = {"type": "user", "message": {"role": "user", "content": "We fly on 3 May."}}
...     await MemdbSessionStore(db, user="ann").append(key, [line])
...     return db.scope("ann", "-home-ann-trip").recall("When do we fly?")[0].text
>>> with memdb.open(":memory:") as db:
...     asyncio.run(mirror(db))
'We fly on 3 May.'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdb.integrations.claude_agent.store import MemdbSessionStore

__all__ = ["MemdbSessionStore"]


def __getattr__(name: str) -> object:
    """Import the SDK with the class that is asked for."""
    from memdb.adapters.adapter import import_class

    places = {"MemdbSessionStore": "store"}
    return import_class(__name__, places, name, "claude_agent_sdk", "claude-agent")
