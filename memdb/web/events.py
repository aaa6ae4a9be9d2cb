"""
The stream of events: `change` when anybody has written, `replaced`, `closing`.

One task looks at the file for all tabs, four times a second and only while one listens:
a number that differs after any commit (5 µs), and whether the path still leads to the
file. A tab that was away asks for what is in sight when it comes back; nothing is kept for it.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from memdb.errors import MemDBError
from memdb.web.errors import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from memdb.api.database import MemDB

LOOK_S = 0.25
AFTER_CHANGE_S = 0.5  # at most two changes a second
STILL_HERE_S = 15.0
RETRY_MS = 2000
MAX_LISTENERS = 32


class Events:
    """Tells every open stream what happens to a file."""

    def __init__(self, db: MemDB) -> None:
        """Look at the file of *db*, once somebody listens."""
        self._db = db
        self._place = _place_of(db.path)
        self._stamp: int | None = None
        self._changes = 0
        self._end: str | None = None
        self._listeners = 0
        self._news: asyncio.Event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def stream(self, request: Request) -> Response:  # noqa: ARG002 (a route)
        """
        Answer with a stream of events.

        Raises:
            Refused: too many are open.
        """
        if self._listeners >= MAX_LISTENERS:
            raise Refused("streams", f"{self._listeners} streams are open")
        self._listeners += 1
        if self._task is None or self._task.done():
            # Before the stream is open: what is written from then on is a change.
            await self._begin()
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._watch())
        return StreamingResponse(self._lines(), media_type="text/event-stream")

    def close(self) -> None:
        """Tell every stream that the server ends, and end them."""
        self._finish("closing")

    def _finish(self, kind: str) -> None:
        self._end = self._end or kind
        self._ring()

    def _ring(self) -> None:
        """Wake every stream."""
        self._news.set()
        self._news = asyncio.Event()

    async def _lines(self) -> AsyncIterator[bytes]:
        told = self._changes
        try:
            yield f"retry: {RETRY_MS}\n: open\n\n".encode()
            while self._end is None:
                if told != self._changes:
                    told = self._changes
                    yield _event("change", {"number": told})
                    continue
                try:
                    await asyncio.wait_for(self._news.wait(), STILL_HERE_S)
                except TimeoutError:
                    yield b": still here\n\n"  # fails if the tab is gone
            yield _event(self._end, {})
        finally:
            self._listeners -= 1

    async def _begin(self) -> None:
        """Take the moment that later ones are compared with."""
        try:
            await asyncio.to_thread(self._db.file.mark)
            self._stamp = self._db.file.stamp()
        except MemDBError:
            self._finish("closing" if _place_of(self._db.path) == self._place else "replaced")

    async def _watch(self) -> None:
        """Look at the file while somebody listens."""
        try:
            while self._listeners and self._end is None:
                if _place_of(self._db.path) != self._place:
                    self._finish("replaced")
                    return
                await asyncio.sleep(LOOK_S)
                stamp = self._db.file.stamp()
                if stamp is None:  # nobody watches any more, as after a fork: watch again
                    await asyncio.to_thread(self._db.file.mark)
                    stamp = self._db.file.stamp()
                if stamp is not None and stamp != self._stamp:
                    self._stamp = stamp
                    self._changes += 1
                    self._ring()
                    await asyncio.sleep(AFTER_CHANGE_S - LOOK_S)
        except MemDBError:
            self._finish("closing" if _place_of(self._db.path) == self._place else "replaced")


def _place_of(path: str) -> tuple[int, int] | None:
    """Return which file a path leads to; None if to none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
