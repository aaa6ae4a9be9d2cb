"""
Limits of a server for clients that have not shown a token.

`memdb serve`, `memdb web` and MCP over HTTP all run on `Server`. The server closes a connection
whose headers or body take too long, and limits connections without a token. The server slows down
clients that fail again and again. The server refuses a request whose end two servers could see at
different places.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import uvicorn
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from memdb.models.record import Record
from memdb.web.errors import problem

if TYPE_CHECKING:
    import socket
    from typing import Any

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_HEADER_BYTES = 16 << 10
KEEP_ALIVE_S = 30
BACKLOG = 512
MAX_ADDRESSES = 1_024
CONNECTION = "memdb.connection"


class Limits(Record):
    """
    Limits of one server.

    Attributes:
        headers_s: Seconds for the headers of a request, and for the handshake of TLS.
        body_s: Seconds for its body.
        strangers: Largest number of connections without a valid token; one more closes the oldest.
        failures: Largest number of refused credentials of an address within *window_s*. A later
            request without a valid credential gets 429, and its connection ends; a valid one is
            always answered.
        window_s: Seconds in which failures are counted.
    """

    headers_s: float = 10.0
    body_s: float = 30.0
    strangers: int = 128
    failures: int = 60
    window_s: float = 60.0


class Gate:
    """State shared by a server's connections: strangers, and failures per client."""

    def __init__(self, limits: Limits) -> None:
        """Keep to *limits*."""
        self.limits = limits
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def enter(self, connection: Connection) -> None:
        """Accept a new connection; if there are too many strangers, close the oldest one."""
        self._strangers[connection] = None
        if len(self._strangers) > self.limits.strangers:
            oldest, _ = self._strangers.popitem(last=False)
            oldest.transport.abort()

    def leave(self, connection: Connection) -> None:
        """Stop counting a connection as a stranger's."""
        self._strangers.pop(connection, None)

    def count_failure(self, address: str) -> bool:
        """Count a refused credential; return whether the address had too many."""
        now_s = time.monotonic()
        end_s, count = self._failures.pop(address, (0.0, 0))
        if now_s >= end_s:
            end_s, count = now_s + self.limits.window_s, 0
        self._failures[address] = end_s, count + 1
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return count >= self.limits.failures


def admit(scope: Scope) -> None:
    """Mark the connection of a request with a valid credential as no stranger's."""
    connection = scope.get(CONNECTION)
    if connection is not None:
        connection.gate.leave(connection)


class Connection(H11Protocol):  # type: ignore[misc] # its types are not read
    """One connection, with limits for the time in which its requests must arrive."""

    def __init__(self, gate: Gate, **given: Any) -> None:
        """Store *gate*; *given* are the arguments of uvicorn."""
        super().__init__(**given)
        self.gate = gate
        self._answer: ASGIApp = given["config"].loaded_app
        self.app = self._serve
        self._waits_for: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start waiting for the first headers."""
        super().connection_made(transport)
        self.gate.enter(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self.gate.leave(self)
        self._wait_for(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, then wait for the missing part of the request."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request as long as uvicorn keeps an idle connection."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._wait_for(None)
        else:
            self._wait()

    def _wait(self) -> None:
        missing = {h11.IDLE: "headers", h11.SEND_BODY: "body"}
        self._wait_for(missing.get(self.conn.their_state))

    def _wait_for(self, part: str | None) -> None:
        """Start the time limit for a part of a request, unless it runs already."""
        if part == self._waits_for:
            return
        self._waits_for = part
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if part is not None:
            limits = self.gate.limits
            seconds = limits.headers_s if part == "headers" else limits.body_s
            self._timer = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Close a connection that took too long, with 408 if nothing was answered."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("connection", "close"), ("content-length", "0")]
            status = HTTPStatus.REQUEST_TIMEOUT
            answer = h11.Response(
                status_code=status, headers=headers, reason=status.phrase.encode()
            )
            events = answer, h11.EndOfMessage()
            for event in events:
                self.transport.write(self.conn.send(event))
        self.transport.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless its end is unclear or its address failed too often."""
        names = [name for name, _ in scope.get("headers", ())]
        if b"content-length" in names and b"transfer-encoding" in names:
            detail = "the request has Content-Length and Transfer-Encoding"
            await problem("framing", detail, headers=CLOSE)(scope, receive, send)
            return
        refused = False

        async def watched(message: Message) -> None:
            nonlocal refused
            if message.get("status") == HTTPStatus.UNAUTHORIZED:
                refused = self.gate.count_failure(self.client[0] if self.client else "")
                if refused:
                    detail = "too many requests without a valid credential came from this address"
                    await problem("attempts", detail, headers=CLOSE)(scope, receive, send)
            if not refused:
                await send(message)

        scope[CONNECTION] = self
        try:
            await self._answer(scope, receive, watched)
        except ClientDisconnect:
            return  # who went away gets no answer, and no line in a log


CLOSE = {"Connection": "close"}


class Server(uvicorn.Server):  # type: ignore[misc] # its types are not read
    """uvicorn on sockets that are already bound, with `Limits`."""

    def __init__(
        self, app: ASGIApp, *, shutdown_s: int, limits: Limits | None = None, **options: Any
    ) -> None:
        """
        Serve *app* over HTTP only; log only failures, and reveal nothing about the server.

        Args:
            shutdown_s: How long to wait for answers at the end.
            limits: None means the default limits.
            options: Further options of `uvicorn.Config`.
        """
        given = {
            "ws": "none",
            "lifespan": "off",
            "log_config": None,
            "log_level": "error",  # who sends no HTTP writes no log
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
            "h11_max_incomplete_event_size": 2 * MAX_HEADER_BYTES,
            "timeout_keep_alive": KEEP_ALIVE_S,
            "timeout_graceful_shutdown": shutdown_s,
        }
        super().__init__(uvicorn.Config(app, **{**given, **options}))
        self.gate = Gate(limits or Limits())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn does, with `Connection` and a limit for the handshake."""
        await self.lifespan.startup()
        config = self.config

        def make() -> Connection:
            return Connection(
                self.gate,
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        seconds = self.gate.limits.headers_s if config.ssl else None
        self.servers = [
            await asyncio.get_running_loop().create_server(
                make, sock=one, ssl=config.ssl, backlog=BACKLOG, ssl_handshake_timeout=seconds
            )
            for one in sockets or ()
        ]
        self.started = True
