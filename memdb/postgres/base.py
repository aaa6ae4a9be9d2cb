"""
What the modules of the PostgreSQL engine ask of the open database that uses them. Types only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from memdb.engine.base import Engine
    from memdb.engine.base import Tx as AnyTx
    from memdb.postgres.connection import Tx

    class PostgresDatabase(Engine, Protocol):
        """An open database, as the modules that `PostgresEngine` calls see it."""

        partitions: int
        verify: Callable[[AnyTx], str]

        def read(self) -> AbstractContextManager[Tx]:
            """See `PostgresEngine.read`."""

        def write(self) -> AbstractContextManager[Tx]:
            """See `PostgresEngine.write`."""

        def run_apart(self, sql: str) -> None:
            """See `PostgresEngine.run_apart`."""
