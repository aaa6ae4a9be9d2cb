"""
Subscriptions to resources: who hears that one changed, through whatever process.

A change by a tool of this server is announced before the tool's answer. Changes of other
clients of the file are seen by SQLite's counter of commits, which is read `POLL_S` apart while
there are subscriptions.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from memdb.errors import Busy, Closed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection
    from typing import Any

    import mcp_types as types

    from memdb import aio
    from memdb.api.database import MemDB

    Stamps = Callable[[MemDB, Collection[str]], dict[str, object]]

POLL_S = 0.25
ALL = ""  # stands for the list of resources


class Subscriptions:
    """The clients of one server, and the resources that each wants to hear of."""

    def __init__(self, db: aio.MemDB, stamps: Stamps) -> None:
        """Tell changes by *stamps*: for each URI a value that changes with the resource."""
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self._db = db
        self._stamps = stamps
        self._bus = InMemorySubscriptionBus()
        self._stream = ListenHandler(self._bus)
        self._sessions: dict[object, tuple[Any, set[str]]] = {}  # by connection
        self._streams: list[set[str]] = []
        self._known: dict[str, object] = {}
        self._stamp: int | None = None
        self._own_calls = 0
        self._lock = asyncio.Lock()
        self._polling: asyncio.Task[None] | None = None

    async def subscribe(
        self, context: Any, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Let a client hear of a resource until it unsubscribes or goes; any URI will do."""
        import mcp_types as types

        connection = getattr(context.session, "_connection", context.session)
        if connection not in self._sessions:
            self._sessions[connection] = context.session, set()
            with suppress(AttributeError):
                connection.exit_stack.callback(self._sessions.pop, connection, None)
        self._sessions[connection][1].add(str(params.uri))
        await self._begin()
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Any, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Let a client hear no more of a resource; of none it subscribed to does nothing."""
        import mcp_types as types

        connection = getattr(context.session, "_connection", context.session)
        _, uris = self._sessions.get(connection, (None, set()))
        uris.discard(str(params.uri))
        return types.EmptyResult()

    async def listen(
        self, context: Any, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve the stream of a client of the protocol without a handshake, until it goes."""
        wanted = params.notifications
        uris = {str(uri) for uri in wanted.resource_subscriptions or ()}
        uris |= {ALL} if wanted.resources_list_changed else set()
        self._streams.append(uris)
        try:
            await self._begin()
            return await self._stream(context, params)
        finally:
            self._streams.remove(uris)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Announce what has changed, after a block that changes the file."""
        self._own_calls += 1
        try:
            yield
            await self._announce()
        finally:
            self._own_calls -= 1

    async def _announce(self) -> None:
        """Send news of whatever has changed since the last look."""
        async with self._lock:
            wanted = self._wanted()
            if not wanted:
                return
            self._stamp = self._stamp_of_file()
            now = await self._db.run(lambda db: self._stamps(db, wanted), kind="read")
            news = {uri for uri in now if uri in self._known and self._known[uri] != now[uri]}
            self._known = now
            for uri in sorted(news):
                await self._send(uri)

    def _stamp_of_file(self) -> int | None:
        mark = self._db.sync.file.mark()
        return None if mark is None else mark.stamp

    def _wanted(self) -> set[str]:
        return set().union(*self._streams, *(uris for _, uris in self._sessions.values()))

    async def _begin(self) -> None:
        """Know how things are now, and look at the file from time to time."""
        await self._announce()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        """Announce what others change, while somebody wants to hear it."""
        with suppress(Closed):
            while self._wanted():
                await asyncio.sleep(POLL_S)
                if not self._own_calls and self._stamp_of_file() != self._stamp:
                    with suppress(Busy):  # looked at again later
                        await self._announce()

    async def _send(self, uri: str) -> None:
        from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated

        await self._bus.publish(ResourceUpdated(uri) if uri else ResourcesListChanged())
        for session, uris in [*self._sessions.values()]:
            if uri in uris:
                await session.send_resource_updated(uri)
