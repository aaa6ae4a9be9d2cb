"""
Users apart through the objects of a client, as `tests/faults/test_isolation.py`.

Each call is made in a file where ann is alone, and in one with other users.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tenants import assert_apart

if TYPE_CHECKING:
    import asyncio

    from tenants import Files

    from memdb import MemDB


def compare_services(
    files: Files, loop: asyncio.AbstractEventLoop, make: Any, calls: list[tuple[str, Any]]
) -> set[str]:
    """Do the calls of a service or session on both files, in turn; return their names."""
    served = {id(db): make(db) for db in files.opened}
    for _, call in calls:

        def run(db: MemDB, call: Any = call) -> object:
            return loop.run_until_complete(_wait(call(served[id(db)])))

        assert_apart(files, inspect.getsource(call), files.compare(run))
    for service in served.values():
        closing = service.close()
        if closing is not None:
            loop.run_until_complete(closing)
    return {name for name, _ in calls}


def coroutines(kind: type) -> set[str]:
    """Return the names of the public coroutine functions of a class."""
    return {
        name
        for name in dir(kind)
        if name[0] != "_" and inspect.iscoroutinefunction(getattr(kind, name))
    }


async def _wait(value: Any) -> Any:
    return await value
