"""How a server is asked to end, by a signal or by its client, and what it does before."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

# How long a client may take to get the answers of calls that are finished.
GRACE_S = 1.0
LOOK_S = 0.02


class Ending:
    """Whether a server is to end, and what it still has to do."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self._requested = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.idle: Callable[[], Awaitable[object]] = _nothing

    def tell(self) -> None:
        """Ask the server to end; from any thread, and from a handler of signals."""
        self._requested = True
        if self._waiting is not None:
            loop, event = self._waiting
            with suppress(RuntimeError):  # the loop is closed: the server has ended
                loop.call_soon_threadsafe(event.set)

    async def requested(self) -> None:
        """Return when somebody has asked."""
        event = asyncio.Event()
        self._waiting = asyncio.get_running_loop(), event
        if not self._requested:
            await event.wait()

    async def finished(self, asked: Collection[object]) -> None:
        """Return when the calls under way are done, and *asked* is empty or a second is over."""
        waited_s = 0.0
        while asked and waited_s < GRACE_S:
            await self.idle()
            await asyncio.sleep(LOOK_S)
            waited_s += LOOK_S


async def _nothing() -> None:
    return


@contextmanager
def catch_signals(end: Ending) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the server, and raise them again when it has ended."""
    caught: list[int] = []

    def catch(number: int, _frame: object) -> None:
        caught.append(number)
        if len(caught) > 1:  # at once; SQLite takes back what was not committed
            os._exit(128 + number)
        end.tell()

    if current_thread() is not main_thread():  # Python handles signals in the main one alone
        yield
        return
    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if caught:
        signal.raise_signal(caught[0])
