"""
How a server begins and ends: over stdio or HTTP, until the client goes or a signal comes.

SIGINT and SIGTERM end it as a client that goes does: calls under way are
finished and answered. Then the signal goes to the handler that was there
before, so that the program ends as it would have without a server.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from memdb import aio
from memdb.aio.batching import Worker
from memdb.errors import InvalidInput
from memdb.integrations.mcp.http import listening, over_http
from memdb.integrations.mcp.server import make_server
from memdb.integrations.mcp.stdio import over_stdio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

    from memdb.api.database import MemDB

MIN_TOKEN_CHARS = 16

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


def serve(
    db: MemDB,
    *,
    user: str,
    app: str = "default",
    compat: bool = False,
    port: int | None = None,
    token: str | None = None,
) -> None:
    """
    Serve an open file until the client goes: over stdio, or over HTTP on 127.0.0.1.

    In the main thread SIGINT and SIGTERM end it too. Calls under way are
    finished, then the signal is raised again: Ctrl-C gives a KeyboardInterrupt.
    A second one ends the process at once.

    Args:
        db: Stays open, and is closed by the caller.
        port: Serve streamable HTTP there, at `/mcp`, to who sends *token* as
            bearer token; None: stdio.
        token: 16 characters or more; not used over stdio.

    Raises:
        InvalidInput: the mcp package is not installed, a name is unusable,
            *token* is too short, or *port* is in use.
    """
    if port is not None and len(token or "") < MIN_TOKEN_CHARS:
        raise InvalidInput(
            f"token has {len(token or '')} characters: give one of {MIN_TOKEN_CHARS} or more"
        )
    db._services.counting.count_many([""])  # loading it later would hold up the event loop
    end = Ending()
    with _signals(end), Worker(db.path) as worker:
        shared = aio.MemDB(db, worker)
        end.idle = lambda: shared.run(lambda _: None)  # calls run in their order
        server = make_server(shared, user=user, app=app, compat=compat)
        if port is None:
            asyncio.run(over_stdio(server, end))
        else:
            with listening(port) as socket:
                asyncio.run(over_http(server, end, socket, token or ""))


@contextmanager
def _signals(end: Ending) -> Iterator[None]:
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
