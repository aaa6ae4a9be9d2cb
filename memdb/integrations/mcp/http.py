"""
MCP over HTTP on loopback, for those who know the token.

The socket is bound before anything is served, so that a port in use is an
error of memdb's.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mcp.server import Server

    from memdb.integrations.mcp.serving import Ending

HOST = "127.0.0.1"

# The longest text that a file takes, 64 MB, also as base64. The package's own limit of 4 MB
# is for servers that strangers reach; here nothing is read before the token is known.
MAX_REQUEST_BYTES = 96 << 20


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """
    Listen on *port* of this machine for a `with` block.

    Raises:
        InvalidInput: it is in use, or not to be had.
    """
    with socket.socket() as made:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, port))
            made.listen()
        except (OSError, OverflowError) as error:
            raise InvalidInput(
                f"port {port} of {HOST} cannot be used ({getattr(error, 'strerror', error)}): end "
                "the program that has it, or choose another with --http or port="
            ) from error
        yield made


async def over_http(server: Server[Any], end: Ending, listener: socket.socket, token: str) -> None:
    """Serve until *end* is told."""
    import uvicorn

    app = _Guarded(server.streamable_http_app(host=HOST, max_request_body_size=MAX_REQUEST_BYTES))
    app.expected = token.encode()
    # ws: an upgrade is a request like others. error: no warning that uvicorn has no WebSockets.
    config = uvicorn.Config(app, ws="none", log_level="error", timeout_graceful_shutdown=1)
    http = uvicorn.Server(config)
    http.capture_signals = nullcontext  # they come by way of *end*

    async def leave() -> None:
        await end.requested()
        await end.finished(app.calls)
        app.end()
        http.should_exit = True

    leaving = asyncio.create_task(leave())
    try:
        await http.serve(sockets=[listener])
    finally:
        leaving.cancel()


class _Guarded:
    """An ASGI application for those who know the token, until it is ended."""

    expected = b""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._ended = False
        self._streams: set[asyncio.Task[Any]] = set()
        self.calls: set[asyncio.Task[Any]] = set()

    def end(self) -> None:
        """Close what is still open: streams that wait for news, and requests half sent."""
        self._ended = True
        for task in self._streams | self.calls:
            task.cancel()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 401 to a request without the token; pass on all else."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif not self._allowed(scope):
            await _say(send, 401, b"a bearer token is needed", (b"www-authenticate", b"Bearer"))
        elif self._ended:
            await _say(send, 503, b"the server has ended")
        else:
            await self._served(scope, receive, send)

    async def _served(self, scope: Any, receive: Any, send: Any) -> None:
        begun = False

        async def sending(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        task = asyncio.current_task()
        assert task is not None
        among = self._streams if scope["method"] == "GET" else self.calls
        among.add(task)
        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not self._ended:
                raise
            # A stream that just breaks off is logged by uvicorn as a failure.
            if begun:
                await send({"type": "http.response.body", "body": b""})
            else:
                await _say(send, 503, b"the server has ended")
        finally:
            among.discard(task)

    def _allowed(self, scope: Any) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        right = hmac.compare_digest(token.strip(b" "), self.expected)
        return right and scheme.lower() == b"bearer"


async def _say(send: Any, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    kind = (b"content-type", b"text/plain")
    await send({"type": "http.response.start", "status": status, "headers": [*headers, kind]})
    await send({"type": "http.response.body", "body": text})
