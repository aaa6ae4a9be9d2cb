"""
Serve MCP over standard input and output, without the mcp package (ADR-0069).

Each message is a line of JSON-RPC 2.0; any other line is answered with an error. Threads read and
write the pipes. The threads are not waited for at the end, so a signal can end a server whose
client is silent.

A signal or the client asks the server to end. A killed client cannot ask, and the pipe stays open
if another child of the client has it. So the server also ends when its parent process changes,
unless MEMDB_MCP_STAY is set.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING

from memdb.integrations.mcp.door import Refused
from memdb.integrations.mcp.protocol import reply
from memdb.integrations.mcp.tools import halved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
    from typing import Any, BinaryIO

    from memdb.integrations.mcp.door import Door

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
CANCELLED = "notifications/cancelled"
LISTEN = "subscriptions/listen"

# How long a client may take to get the answers of calls that are finished.
GRACE_S = 1.0
LOOK_S = 0.02
PARENT_S = 2.0  # between two looks at the parent
STAY = "MEMDB_MCP_STAY"


class Ending:
    """Whether a server is to end, and which calls it still has to finish."""

    def __init__(self) -> None:
        """Begin before anybody asked."""
        self._requested = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.idle: Callable[[], Awaitable[object]] = _nothing

    def tell(self) -> None:
        """Ask the server to end; callable from any thread and from a signal handler."""
        self._requested = True
        if self._waiting is not None:
            loop, event = self._waiting
            with suppress(RuntimeError):  # the loop is closed: the server has ended
                loop.call_soon_threadsafe(event.set)

    async def requested(self) -> None:
        """Return when the end was requested."""
        event = asyncio.Event()
        self._waiting = asyncio.get_running_loop(), event
        if not self._requested:
            await event.wait()

    async def finished(self, asked: Collection[object]) -> None:
        """Return when the running calls are done, and *asked* is empty or a second has passed."""
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


async def over_stdio(door: Door, end: Ending) -> None:
    """Answer the client over standard input and output until it disconnects, or *end* is set."""
    # Whatever reads standard input finds it empty, and whatever prints does so as an error.
    with _taken(0, None) as reading, _taken(1, 2) as writing:
        client = _Client(door, end, reading, writing)
        others = [asyncio.create_task(client.leave())]
        if not os.environ.get(STAY):
            others.append(asyncio.create_task(end_with_parent(end)))
        try:
            await client.serve()
        finally:
            for task in others:
                task.cancel()


@contextmanager
def _taken(number: int, instead: int | None) -> Iterator[int]:
    """Reserve a standard stream for the protocol; other code that uses it gets *instead*."""
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


class _Request:
    """One request of the client."""

    def __init__(self, client: _Client, number: int | str) -> None:
        self.connection = client
        self.request = number

    @property
    def client(self) -> str | None:
        return self.connection.client

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.connection.send({"method": method, "params": params})


class _Client:
    """The two pipes to the client, each with a thread that waits for it."""

    def __init__(self, door: Door, end: Ending, reading: int, writing: int) -> None:
        self._door = door
        self._end = end
        self.client: str | None = None
        self._loop = asyncio.get_running_loop()
        self._calls: dict[asyncio.Task[None], int | str] = {}  # with the id that is to be answered
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._writing: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._listening = self._loop.create_task(self._listen())
        # The interpreter does not wait for such threads when it ends.
        Thread(target=self._read, args=(reading,), daemon=True).start()
        Thread(target=self._write, args=(writing,), daemon=True).start()

    async def serve(self) -> None:
        """Answer the client's requests; when they end, finish those under way."""
        await asyncio.wait([self._listening])
        self._cancel(task for task in self._calls if task.get_name() == LISTEN)
        await self._end.finished(self._calls)
        self._cancel(self._calls)
        if not self._listening.cancelled():
            self._listening.result()

    def _cancel(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in [*tasks]:
            self._calls.pop(task, None)
            task.cancel()

    async def leave(self) -> None:
        """Stop listening when the server is to end."""
        await self._end.requested()
        self._listening.cancel()

    async def _listen(self) -> None:
        while line := await self._lines.get():
            if line.strip():
                await self._take(line)

    async def _take(self, line: bytes) -> None:
        """Begin to answer a message."""
        try:
            found = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            said = "the line is not JSON"
            if line == TOO_LONG:
                said = f"the line has more than {MAX_REQUEST_BYTES >> 20} MB: send less"
            await self._refuse(None, PARSE_ERROR, said)
            return
        number, method, params = _parts_of(found)
        if method is None:
            await self._refuse(number, INVALID_REQUEST, "this is not a message of JSON-RPC 2.0")
        elif number is not None:
            task = self._loop.create_task(self._answer(number, method, params), name=method)
            self._calls[task] = number
            task.add_done_callback(self._forget)
        elif method == CANCELLED and _is_id(named := params.get("requestId")):
            self._cancel(task for task, number in self._calls.items() if number == named)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._calls.pop(task, None)

    async def _answer(self, number: int | str, method: str, params: dict[str, Any]) -> None:
        try:
            result = await reply(self._door, _Request(self, number), method, params)
            await self.send({"id": number, "result": result})
        except Refused as error:
            await self._refuse(number, error.code, str(error), error.data)
        except Exception as error:  # noqa: BLE001 (the server outlives any request)
            await self._refuse(number, INTERNAL_ERROR, f"{type(error).__name__}: {error}")

    async def _refuse(
        self, number: int | str | None, code: int, said: str, data: Any = None
    ) -> None:
        error = {"code": code, "message": said} | ({} if data is None else {"data": data})
        await self.send({"id": number, "error": error})

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; return when the client has it."""
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        written = self._loop.create_future()
        self._writing.put((line.encode(errors="replace") + b"\n", written))
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
    """Return the next line, b"" at the end; `TOO_LONG` for a line that was skipped."""
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


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool) and not halved(value)


def _parts_of(message: Any) -> tuple[Any, str | None, dict[str, Any]]:
    """
    Return id, method and parameters of a message.

    The id is None for a notification, the method None for an invalid message.
    """
    if not isinstance(message, dict):
        return None, None, {}
    number, method, params = (message.get(name) for name in ("id", "method", "params"))
    if "method" not in message and {"result", "error"} & message.keys():
        return None, "an answer", {}  # this server sends no requests
    named = _is_id(number)
    whole = isinstance(method, str) and isinstance(params, dict | None)
    right = whole and message.get("jsonrpc") == "2.0" and (named or "id" not in message)
    return (number if named else None), (method if right else None), params or {}
