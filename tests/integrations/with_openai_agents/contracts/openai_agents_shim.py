"""
Puts memdb in the place of the SDK's SQLite sessions: a plugin for the SDK's own tests.

Leaves out what `openai_agents_deselected.txt` names, each test under its reason.
"""

import asyncio
from pathlib import Path

import agents
import agents.extensions.memory
import agents.extensions.memory.advanced_sqlite_session
import agents.extensions.memory.async_sqlite_session
import agents.memory

from memdb.errors import SessionClosed
from memdb.integrations.openai_agents import MemDBSession


class Named(MemDBSession):
    """Says that it is closed in the words that the SDK's tests look for."""

    def _opened(self):
        try:
            return super()._opened()
        except SessionClosed as error:
            raise SessionClosed(f"{type(self).__name__} is closed") from error


class SQLiteSession(Named):
    """Takes the arguments of the SDK's class."""

    def __init__(
        self,
        session_id,
        db_path=":memory:",
        sessions_table="agent_sessions",
        messages_table="agent_messages",
        session_settings=None,
    ):
        """Name the session; tables have no names of their own here."""
        super().__init__(session_id, db_path, session_settings=session_settings)


class AsyncSQLiteSession(SQLiteSession):
    """Takes the arguments of the SDK's class on aiosqlite, whose end is awaited."""

    async def close(self):
        """Close it."""
        await asyncio.to_thread(super().close)


class AdvancedSQLiteSession(Named):
    """Takes the arguments of the SDK's class with branches."""

    def __init__(
        self,
        *,
        session_id,
        db_path=":memory:",
        create_tables=False,
        logger=None,
        session_settings=None,
    ):
        """Name the session; there are no tables to make."""
        super().__init__(session_id, db_path, session_settings=session_settings)

    @property
    def _current_branch_id(self):
        """What the SDK's tests look at."""
        return self._branch


agents.SQLiteSession = agents.memory.SQLiteSession = SQLiteSession
extensions = agents.extensions.memory
extensions.AdvancedSQLiteSession = AdvancedSQLiteSession
extensions.advanced_sqlite_session.AdvancedSQLiteSession = AdvancedSQLiteSession
extensions.AsyncSQLiteSession = AsyncSQLiteSession
extensions.async_sqlite_session.AsyncSQLiteSession = AsyncSQLiteSession

LEFT_OUT = Path(__file__).with_name("openai_agents_deselected.txt")


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of the list; one that names no test is a mistake in it."""
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines()
    named = {line for line in lines if line.startswith("tests/")}
    found = {item: {item.nodeid, item.nodeid.partition("[")[0]} & named for item in items}
    stale = named.difference(*found.values())
    if stale:
        raise ValueError(f"{LEFT_OUT.name} names what is no test: {sorted(stale)}")
    config.hook.pytest_deselected(items=[item for item in items if found[item]])
    items[:] = [item for item in items if not found[item]]
