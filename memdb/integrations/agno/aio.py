"""
`MemdbAsyncDb`: the same tables for agno's asynchronous agents.

Each call runs in a thread of the file. One that is cancelled after it began is finished first.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial, wraps
from typing import TYPE_CHECKING

from agno.db.base import AsyncBaseDb
from agno.db.json import JsonDb

from memdb.adapters.adapter import Adapter
from memdb.integrations.agno.store import READS, WRITES, MemdbDb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from memdb.adapters.adapter import Source


class MemdbAsyncDb(Adapter, AsyncBaseDb):
    """An `AsyncBaseDb` of agno on a memdb file; see `MemdbDb`."""

    def __init__(
        self,
        source: Source,
        *,
        user: str = "default",
        app: str = "default",
        id: str | None = None,  # noqa: A002 (agno's word)
        **options: Any,
    ) -> None:
        """Use a memdb file; see `MemdbDb`."""
        tables = {name: options.pop(name) for name in [*options] if name.endswith("_table")}
        Adapter.__init__(self, source, **options)
        self._tables = MemdbDb(self._db, user=user, app=app, id=id, **tables)
        AsyncBaseDb.__init__(self, id=self._tables.id, **tables)

    async def close(self) -> None:  # type: ignore[override]  # agno awaits it
        """Close the file; again does nothing."""
        await Adapter.aclose(self)


def _in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    method = getattr(MemdbDb, name)
    is_write = name in WRITES

    @wraps(method)
    async def call(self: MemdbAsyncDb, *args: Any, **options: Any) -> Any:
        if is_write:  # the caller may go on changing what it gave
            args, options = deepcopy((args, options))
            return await self._run(partial(method, self._tables, *args, **options))
        return await self._read(partial(method, self._tables, *args, **options))

    return call


for _name in (*WRITES, *READS):
    if hasattr(JsonDb, _name):
        setattr(MemdbAsyncDb, _name, _in_thread(_name))
MemdbAsyncDb.__abstractmethods__ = frozenset(
    name
    for name in MemdbAsyncDb.__abstractmethods__
    if getattr(getattr(MemdbAsyncDb, name), "__isabstractmethod__", False)
)
