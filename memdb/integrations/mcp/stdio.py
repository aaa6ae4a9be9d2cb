"""
Serve MCP over standard input and output.

Each message is a line. The mcp package's own transport reads in a thread that only the client
can end, so a signal would not end the server. Here that thread is left behind, and a line that
is no message is answered.

A signal or the client asks a server to end. A client that is killed asks nothing, and the pipe
stays open if another of its children has it. So the server ends when its parent is another
process than at first, unless MEMDB_MCP_STAY is set.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from math import inf
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING

from memdb.integrations.mcp.tools import halved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator
    from typing import Any, BinaryIO

    import mcp_types as types
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server import Server
    from mcp.shared.message import SessionMessage


# How long a client may take to get the answers of calls that are finished.
GRACE_S = 1.0
LOOK_S = 0.02
PARENT_S = 2.0  # between two looks at the parent
STAY = "MEMDB_MCP_STAY"


class Ending:
    """Whether a server is to end, and what it still has to do."""

    def __init__(self) -> None:
        """Begin before anybody asked."""
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


async def end_with_parent(end: Ending) -> None:
    """Ask the server to end when the process that started it is gone."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(PARENT_S)
    end.tell()


async def _nothing() -> None:
    return


@contextmanager
def catch_signals(end: Ending) -> Iterator[None]:
    """End the server at SIGINT and SIGTERM, and raise them again when it has ended."""
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


async def over_stdio(server: Server[Any], end: Ending) -> None:
    """Serve until the client closes one of the pipes, or *end* is set."""
    import anyio

    stray = None if sys.stderr is None else 2
    with _taken(0, None) as reading, _taken(1, stray) as writing:
        # No bound: what was read is given over at once, so that an end loses none of it.
        to_server, requests = anyio.create_memory_object_stream["SessionMessage | Exception"](inf)
        answers, from_server = anyio.create_memory_object_stream["SessionMessage"](0)
        client = _Client(end, reading, writing)
        async with anyio.create_task_group() as group:
            group.start_soon(client.ask, to_server)
            group.start_soon(client.answer, from_server)
            group.start_soon(client.leave)
            if not os.environ.get(STAY):
                group.start_soon(end_with_parent, end)
            await server.run(requests, answers, server.create_initialization_options())
            group.cancel_scope.cancel()


@contextmanager
def _taken(number: int, instead: int | None) -> Iterator[int]:
    """Keep a standard stream for the protocol; what else reads or prints gets *instead*."""
    null = os.open(os.devnull, os.O_RDWR)
    own = os.dup(number)
    os.dup2(null if instead is None else instead, number)
    os.close(null)
    try:
        yield own
    finally:
        os.dup2(own, number)  # a thread may still wait for `own`: it stays open


# The longest text that a file takes, 64 MB, also as base64. The package's own limit of 4 MB
# is for servers that strangers reach; here nothing is read before the token is known.
MAX_REQUEST_BYTES = 96 << 20
READ_BYTES = 1 << 20
TOO_LONG = b"too long"  # replaces a line of more than MAX_REQUEST_BYTES


class _Client:
    """The two pipes to the client, each with a thread that waits for it."""

    def __init__(self, end: Ending, reading: int, writing: int) -> None:
        import anyio

        self._end = end
        self._loop = asyncio.get_running_loop()
        self._listening = anyio.CancelScope()
        self._asked: set[int | str] = set()  # requests that are not answered yet
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._writing: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        # The interpreter does not wait for such threads when it ends.
        Thread(target=self._read, args=(reading,), daemon=True).start()
        Thread(target=self._write, args=(writing,), daemon=True).start()

    async def ask(self, server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass the client's messages to the server; when they end, wait for the answers."""
        async with server:
            with self._listening:
                while line := await self._lines.get():
                    if line.strip():
                        await self._pass(line, server)
            await self._end.finished(self._asked)

    async def _pass(
        self, line: bytes, server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        adapter, text = types.jsonrpc_message_adapter, line.decode(errors="replace")
        try:
            # The adapter's own reader refuses half a character, which comes as an escape alone.
            found = json.loads(text) if r"\ud" in text.lower() else None
            if halved(found):
                message = adapter.validate_python(found, by_name=False)
            else:
                message = adapter.validate_json(text, by_name=False)
        except (ValueError, RecursionError):
            await self._send(_refused(line))
            return
        is_named = isinstance(message, types.JSONRPCNotification) and _has_id(line)
        if is_named or halved(getattr(message, "id", None)):
            await self._send(_refused(line))  # its id is no text and no whole number
            return
        match message:
            case types.JSONRPCRequest(id=number):
                self._asked.add(number)
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as number}
            ):
                self._asked.discard(number)  # it is not answered any more
        server.send_nowait(SessionMessage(message))

    async def answer(self, server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write the server's messages to the client."""
        async with server:
            async for one in server:
                number = getattr(one.message, "id", None)
                await self._send(one.message)
                if number is not None:  # None: a notification, or an answer to no request
                    self._asked.discard(number)

    async def leave(self) -> None:
        """Listen no more when the server is to end."""
        await self._end.requested()
        self._listening.cancel()

    async def _send(self, message: types.JSONRPCMessage) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        written = self._loop.create_future()
        self._writing.put((line + b"\n", written))
        await written

    def _read(self, number: int) -> None:
        with open(number, "rb", closefd=False) as pipe:
            while True:
                try:
                    line = _read_line(pipe)
                except OSError:
                    line = b""
                put = self._lines.put(line)
                try:
                    asyncio.run_coroutine_threadsafe(put, self._loop).result()
                except (CancelledError, RuntimeError):  # the server has ended
                    put.close()
                    return
                if not line:
                    return

    def _write(self, number: int) -> None:
        while True:
            line, written = self._writing.get()
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(number, left) :]
            except OSError:  # nobody reads any more, so nobody is to be listened to
                self._tell(self._listening.cancel)
            self._tell(_done, written)

    def _tell(self, what: Callable[..., object], *about: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *about)
        except RuntimeError:  # the server has ended
            return


def _read_line(pipe: BinaryIO) -> bytes:
    """Return the next line, b"" at the end; `TOO_LONG` for one that is thrown away."""
    parts: list[bytes] = []
    size = 0
    while part := pipe.readline(READ_BYTES):
        size += len(part)
        if size > MAX_REQUEST_BYTES:
            parts = [TOO_LONG]
        else:
            parts.append(part)
        if part.endswith(b"\n"):
            break
    return b"".join(parts)


def _done(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


def _has_id(line: bytes) -> bool:
    return b'"id"' in line and "id" in json.loads(line.decode(errors="replace"))


def _refused(line: bytes) -> types.JSONRPCError:
    """Return the answer to a line that is no message, to its id where it has one."""
    import mcp_types as types

    code, said = types.INVALID_REQUEST, "this is no message of JSON-RPC 2.0"
    number: Any = None
    try:
        found = json.loads(line)
        number = found.get("id") if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        code, said = types.PARSE_ERROR, "the line is no JSON"
        if line == TOO_LONG:
            said = f"the line has more than {MAX_REQUEST_BYTES >> 20} MB: send less"
    if isinstance(number, bool) or not isinstance(number, int | str) or halved(number):
        number = None
    return types.JSONRPCError(
        jsonrpc="2.0", id=number, error=types.ErrorData(code=code, message=said)
    )
