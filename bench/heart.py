"""How long an event loop waits while calls run: a beat a millisecond, and how late each was."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

BAR_MS = 5.0


class Heart:
    """Beats once a millisecond; `late` are the milliseconds that each beat was late."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self._task = asyncio.ensure_future(self._beat())

    async def _beat(self) -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            self.late.append(1000 * (time.perf_counter() - begun) - 1)

    def stop(self) -> list[float]:
        """Return how late the beats were, latest first."""
        self._task.cancel()
        return sorted(self.late, reverse=True) or [0.0]


async def idle() -> None:
    """Do nothing for a while: what the machine itself makes beats late by."""
    await asyncio.sleep(2)


async def watch(works: Iterable[tuple[str, Callable[[], Awaitable[Any]]]]) -> int:
    """
    Print how late a heart beats in the loop beside each work, and beside none.

    Returns how many works made a beat more than 5 ms late. What the client's
    package has made by now (a million objects) is not looked through for
    garbage meanwhile, as in a server that calls `gc.freeze` once it has
    started: doing so stops every thread for 60 ms, whoever's call it is.
    """
    gc.collect()
    gc.freeze()
    missed = 0
    for name, work in (("idle", idle), *works, ("idle again", idle)):
        heart = Heart()
        await asyncio.sleep(0)
        await work()
        late = heart.stop()
        missed += late[0] > BAR_MS and not name.startswith("idle")
        p99 = late[len(late) // 100]
        print(f"loop late, {name:24} max {late[0]:7.2f} ms  p99 {p99:6.2f} ms  n {len(late)}")
    gc.unfreeze()
    return missed
