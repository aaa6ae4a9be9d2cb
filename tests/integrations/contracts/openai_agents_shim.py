"""Puts memdb in the place of the SDK's SQLite sessions: a plugin for the SDK's own tests."""

import agents
import agents.extensions.memory
import agents.extensions.memory.advanced_sqlite_session
import agents.extensions.memory.async_sqlite_session
import agents.memory

from memdb.integrations.openai_agents import MemDBSession


class SQLiteSession(MemDBSession):
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
        await self.aclose()


class AdvancedSQLiteSession(MemDBSession):
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
