"""
Notify clients of changes of resources, by any process.

A change by a tool of this server is announced before the tool's answer. Changes by other clients of
the file are seen in SQLite's counter of commits, which is read every `POLL_S` seconds while there
are subscriptions.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from memdb.adapters.host import HostFile
from memdb.errors import Busy, Closed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection
    from typing import Any

    from memdb.api.database import MemDB

    Run = Callable[..., Awaitable[Any]]
    Stamps = Callable[[MemDB, Collection[str]], dict[str, object]]
    Tell = Callable[[str], Awaitable[object]]

POLL_S = 0.25
ALL = ""  # means the list of resources
WANTED = ("toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions")


class Caller(Protocol):
    """
    A client that sent a request.

    Attributes:
        connection: The same object for each request of one client.
        request: Id of this request.
        client: Name that the client gave itself; None means that it gave none.
    """

    connection: Any
    request: Any

    @property
    def client(self) -> str | None:
        """Return the name that the client gave itself."""

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification; one with `_meta` belongs to the answer of this request."""


class Subscriptions:
    """The clients of one server, and the resources that each has subscribed to."""

    def __init__(self, db: MemDB, run: Run, stamps: Stamps) -> None:
        """Find changes by *stamps*: a value for each URI that changes with the resource."""
        self._db = db
        self._run = run
        self._stamps = stamps
        self._listeners: dict[object, tuple[set[str], Tell]] = {}
        self._known: dict[str, object] = {}
        self._stamp: int | None = None
        self._own_calls = 0
        self._lock = asyncio.Lock()
        self._polling: asyncio.Task[None] | None = None

    async def subscribe(self, caller: Caller, params: dict[str, Any]) -> dict[str, Any]:
        """Send a client the changes of a resource until it unsubscribes; any URI is accepted."""

        async def tell(uri: str) -> None:
            await caller.notify("notifications/resources/updated", {"uri": uri})

        uris, _ = self._listeners.setdefault(caller.connection, (set(), tell))
        uris.add(params["uri"])
        await self._begin()
        return {}

    async def unsubscribe(self, caller: Caller, params: dict[str, Any]) -> dict[str, Any]:
        """Stop notifying a client of a resource; without a subscription this does nothing."""
        uris, _ = self._listeners.get(caller.connection, (set(), None))
        uris.discard(params["uri"])
        return {}

    def __contains__(self, connection: object) -> bool:
        """Return whether a client has subscribed to something."""
        return connection in self._listeners

    def leave(self, connection: object) -> None:
        """Forget a client that has disconnected."""
        self._listeners.pop(connection, None)

    async def listen(self, caller: Caller, params: dict[str, Any]) -> dict[str, Any]:
        """Send news to a client of the protocol without a handshake, until it is cancelled."""
        wanted = {name: params["notifications"].get(name) for name in WANTED}
        honoured = {name: value for name, value in wanted.items() if value}
        uris = {*honoured.get("resourceSubscriptions", ())}
        uris |= {ALL} if "resourcesListChanged" in honoured else set()
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": caller.request}}
        news: dict[str, None] = {}  # each once, however long the client does not read
        more = asyncio.Event()

        async def tell(uri: str) -> None:
            news[uri] = None
            more.set()

        key = object()
        self._listeners[key] = uris, tell
        try:
            await self._begin()
            await caller.notify(
                "notifications/subscriptions/acknowledged", {"notifications": honoured, **meta}
            )
            while True:
                await more.wait()
                more.clear()
                while news:
                    uri = next(iter(news))
                    del news[uri]
                    if uri:
                        about = {"uri": uri, **meta}
                        await caller.notify("notifications/resources/updated", about)
                    else:
                        await caller.notify("notifications/resources/list_changed", meta)
        finally:
            del self._listeners[key]

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Announce changes after a block that changes the file."""
        self._own_calls += 1
        try:
            yield
            await self._announce()
        finally:
            self._own_calls -= 1

    async def _announce(self) -> None:
        """Announce everything that has changed since the last check."""
        async with self._lock:
            wanted = self._wanted()
            if not wanted:
                return
            self._stamp = self._stamp_of_file()
            now = await self._run(lambda db: self._stamps(db, wanted), kind="read")
            news = {uri for uri in now if uri in self._known and self._known[uri] != now[uri]}
            self._known = now
            for uri in sorted(news):
                for uris, tell in [*self._listeners.values()]:
                    if uri in uris:
                        await tell(uri)

    def _stamp_of_file(self) -> int | None:
        mark = HostFile(self._db).mark()
        return None if mark is None else mark.stamp

    def _wanted(self) -> set[str]:
        return set().union(*(uris for uris, _ in self._listeners.values()))

    async def _begin(self) -> None:
        """Read the current stamps, and check the file from time to time."""
        await self._announce()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        """Announce changes by others, while a client has subscribed."""
        with suppress(Closed):
            while self._wanted():
                await asyncio.sleep(POLL_S)
                if not self._own_calls and self._stamp_of_file() != self._stamp:
                    with suppress(Busy):  # looked at again later
                        await self._announce()
