"""
Puts memdb in the place of LangGraph's own stores and savers: a plugin for LangGraph's own tests.

Leaves out what `deselected.txt` names, each test under its reason.
"""

from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import langgraph.store.memory
import langgraph.store.sqlite
import langgraph.store.sqlite.aio

from memdb.integrations.langgraph import MemdbSaver, MemdbStore

# A file without an embedder's worker; LangGraph's classes sync as often as "process".
OPTIONS = {"embedder": None, "counter": "estimate"}


class SyncNames:
    """Takes the arguments of LangGraph's synchronous classes."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string, **options):
        """Yield an object on a file."""
        with cls(conn_string, **OPTIONS, **options) as made:
            yield made

    def setup(self):
        """Do nothing: the file is ready."""


class AsyncNames:
    """Takes the arguments of LangGraph's asynchronous classes."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string, **options):
        """Yield an object on a file."""
        async with cls(conn_string, **OPTIONS, **options) as made:
            yield made

    async def setup(self):
        """Do nothing: the file is ready."""


class SqliteStore(SyncNames, MemdbStore):
    """For `langgraph.store.sqlite.SqliteStore`."""


class AsyncSqliteStore(AsyncNames, MemdbStore):
    """For `langgraph.store.sqlite.aio.AsyncSqliteStore`, whose sweeper is awaited."""

    async def sweep_ttl(self):
        """Remove expired items."""
        return super().sweep_ttl()

    def _sweep(self, pause_s, done):
        while not self._end_sweeper.wait(pause_s):
            super().sweep_ttl()
        done.set_result(None)

    async def start_ttl_sweeper(self, *given):
        """Begin to remove expired items."""
        return super().start_ttl_sweeper(*given)

    async def stop_ttl_sweeper(self, *given):
        """End it."""
        return super().stop_ttl_sweeper(*given)

    def _end(self):
        super().stop_ttl_sweeper()


class InMemoryStore(MemdbStore):
    """For `langgraph.store.memory.InMemoryStore`."""

    def __init__(self, *, index=None):
        """Open a file in memory."""
        super().__init__(":memory:", index=index, **OPTIONS)


class SqliteSaver(SyncNames, MemdbSaver):
    """For `langgraph.checkpoint.sqlite.SqliteSaver`."""


class AsyncSqliteSaver(AsyncNames, MemdbSaver):
    """For `langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver`."""


langgraph.store.memory.InMemoryStore = InMemoryStore
langgraph.store.sqlite.SqliteStore = SqliteStore
langgraph.store.sqlite.AsyncSqliteStore = AsyncSqliteStore
langgraph.store.sqlite.aio.AsyncSqliteStore = AsyncSqliteStore
langgraph.checkpoint.sqlite.SqliteSaver = SqliteSaver
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSqliteSaver

LINES = (Path(__file__).parent / "deselected.txt").read_text().splitlines()
LEFT_OUT = {line for line in LINES if "::" in line}


def pytest_collection_modifyitems(config, items):
    """Leave out what is listed."""
    folder = Path(config.rootpath).name.rpartition("-")[0]
    named = [(f"{folder}/{item.nodeid.partition('[')[0]}", item) for item in items]
    out = [item for name, item in named if name in LEFT_OUT]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
