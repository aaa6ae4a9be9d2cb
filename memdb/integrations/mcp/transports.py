"""
Serve MCP over standard input and output, or over HTTP on loopback.

SIGINT and SIGTERM end a server as a client that disconnects does. Running calls
are finished and answered, then the signal goes to its earlier handler.

Over HTTP a token is required. The socket is bound before anything is served,
so a port in use is an error of memdb.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from memdb.api.threads import Threads, run_in
from memdb.errors import InvalidInput
from memdb.integrations.mcp.door import Door
from memdb.integrations.mcp.server import server_of
from memdb.integrations.mcp.stdio import MAX_REQUEST_BYTES, Ending, catch_signals, over_stdio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mcp.server import Server

    from memdb.api.database import MemDB
    from memdb.api.threads import Kind

MIN_TOKEN_CHARS = 16


def serve(
    db: MemDB, *, user: str, app: str = "default", port: int | None = None, token: str | None = None
) -> None:
    """
    Serve an open file until the client goes: over stdio, or over HTTP on 127.0.0.1.

    In the main thread SIGINT and SIGTERM end it too. Calls under way are
    finished, then the signal is raised again: Ctrl-C gives a KeyboardInterrupt.
    A second one ends the process at once.

    Args:
        db: Stays open, and is closed by the caller.
        port: Serve streamable HTTP there, at `/mcp`, to who sends *token* as
            bearer token; None means stdio.
        token: 16 characters or more; not used over stdio.

    Raises:
        InvalidInput: a name is unusable, *token* is too short, *port* is in use,
            or is given without the mcp package.
    """
    if port is not None and len(token or "") < MIN_TOKEN_CHARS:
        raise InvalidInput(
            f"token has {len(token or '')} characters: give one with at least {MIN_TOKEN_CHARS}"
        )
    end = Ending()
    with catch_signals(end), Threads(db.path) as worker:
        end.idle = worker.idle

        async def run(work: Callable[[MemDB], Any], *, kind: Kind) -> Any:
            return await run_in(worker, partial(work, db), kind)

        door = Door(db, run, user, app)
        if port is None:
            asyncio.run(over_stdio(door, end))
            return
        server = server_of(door)
        db.file.count_tokens([""])  # loading it later would hold up the event loop
        with listening(port) as socket:
            asyncio.run(over_http(server, end, socket, token or ""))


HOST = "127.0.0.1"


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """
    Listen on *port* of this machine for a `with` block.

    Raises:
        InvalidInput: *port* is in use, or not to be had.
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
                "the program that uses it, or choose another port with --http or port="
            ) from error
        yield made


async def over_http(server: Server[Any], end: Ending, listener: socket.socket, token: str) -> None:
    """Serve until *end* is set."""
    from memdb.web import limits  # it loads uvicorn

    served = server.streamable_http_app(host=HOST, max_request_body_size=MAX_REQUEST_BYTES)
    app = _Guarded(served, token.encode(), limits.admit)
    http = limits.Server(app, shutdown_s=1, lifespan="on")
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

    def __init__(self, app: Any, token: bytes, admit: Callable[[Any], None]) -> None:
        self._app = app
        self._token = token
        self._admit = admit
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
            self._admit(scope)
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
            await self._app(scope, await _read_first(receive), sending)
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
        right = hmac.compare_digest(token.strip(b" "), self._token)
        return right and scheme.lower() == b"bearer"


async def _read_first(receive: Any) -> Any:
    """
    Return *receive* with the body read: the mcp package logs a failure if a client goes meanwhile.

    Raises:
        ClientDisconnect: the client went.
    """
    messages: list[dict[str, Any]] = []
    size = 0
    while size <= MAX_REQUEST_BYTES:  # a longer one the mcp package refuses
        message = await receive()
        if message["type"] == "http.disconnect":
            from starlette.requests import ClientDisconnect

            raise ClientDisconnect
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break

    async def again() -> Any:
        return messages.pop(0) if messages else await receive()

    return again


async def _say(send: Any, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    kind = (b"content-type", b"text/plain")
    await send({"type": "http.response.start", "status": status, "headers": [*headers, kind]})
    await send({"type": "http.response.body", "body": text})
