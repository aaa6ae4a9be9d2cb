"""
Protocols of the open file, for the modules of the SQLite engine. Types only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from memdb.engine.base import Engine
    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.connection import Tx

    class SqliteFile(Engine, Protocol):
        """An open file, as seen by the modules that `SqliteEngine` calls."""

        def read(self) -> AbstractContextManager[Tx]:
            """See `SqliteEngine.read`."""

        def write(self) -> AbstractContextManager[Tx]:
            """See `SqliteEngine.write`."""

        def apart(self, *, writable: bool = True) -> AbstractContextManager[Tx]:
            """See `SqliteEngine.apart`."""

        def write_briefly(self) -> AbstractContextManager[Tx]:
            """See `SqliteEngine.write_briefly`."""

        def checkpoint_passive(self) -> None:
            """See `SqliteEngine.checkpoint_passive`."""

        def checkpoint_if_idle(self) -> bool:
            """See `SqliteEngine.checkpoint_if_idle`."""

        commits: int
        pool: Any  # a ConnectionPool, whose module needs those that take this
        verify: Callable[[AnyTx], str]

        def pause_upkeep(self) -> Callable[[], None]:
            """See `SqliteEngine.pause_upkeep`."""
