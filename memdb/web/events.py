"""
The stream of events: changes, and how it ends (`replaced`, `migrated`, `closing`).

One task calls `db.changes` for all tabs, four times a second, and only while a tab listens. An
event contains its mark, so that an interrupted stream continues where it ended.
"""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from memdb.errors import Closed, FileError, MemDBError, SchemaTooNew, StorageError
from memdb.web.errors import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from memdb.api.database import MemDB
    from memdb.models.reports import Changes

INTERVAL_S = 0.25
AFTER_CHANGE_S = 0.5  # at most two changes a second
REST = 9  # to compare very many sessions takes up to a tenth of the time
STILL_HERE_S = 15.0
RECONNECT_MS = 2000
MAX_LISTENERS = 32


# What a request is refused with once the stream has ended so.
REFUSALS = {"replaced": "replaced", "migrated": "schema_new"}

# How a stream ends, by its error; any other is the end of the server.
ENDS: dict[type[MemDBError], str] = {SchemaTooNew: "migrated", FileError: "replaced"}


class Events:
    """Sends the changes of a file to every open stream."""

    def __init__(self, db: MemDB) -> None:
        """Look at the file of *db* from the first listener on."""
        self._db = db
        self._mark: str | None = None
        self._newest: tuple[str | None, Changes] | None = None  # from which mark on
        self.end: str | None = None
        self.listeners = 0
        self._news: asyncio.Event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def stream(self, request: Request) -> Response:
        """
        Answer with a stream of events, from `Last-Event-ID` or ?since= on if given.

        Raises:
            Refused: too many streams are open.
        """
        if self.listeners >= MAX_LISTENERS:
            raise Refused("streams", f"{self.listeners} streams are open")
        self.listeners += 1
        # Before the stream is open: what is written from then on is a change.
        found = await self._changes(None)
        mark = None if found is None else found.mark
        if self._task is None or self._task.done():
            self._mark = mark
            self._task = asyncio.create_task(self._watch())
        # A browser sends the header by itself; a page that takes over a stream cannot.
        since = request.headers.get("last-event-id") or request.query_params.get("since")
        mark = since or mark
        return StreamingResponse(self._lines(mark), media_type="text/event-stream")

    def refuse_ended(self) -> None:
        """
        Refuse a request about a file that was removed or replaced since it was opened.

        Raises:
            Refused: the file was replaced, or a newer memdb migrated it.
        """
        if self.end in REFUSALS:
            raise Refused(REFUSALS[self.end], f"the file was {self.end} while it was open")

    def close(self) -> None:
        """End every stream, with an event that the server ends."""
        self._finish("closing")

    def _finish(self, kind: str) -> None:
        self.end = self.end or kind
        self._ring()

    def _ring(self) -> None:
        """Wake every stream."""
        self._news.set()
        self._news = asyncio.Event()

    async def _lines(self, mark: str | None) -> AsyncIterator[bytes]:
        try:
            yield f"retry: {RECONNECT_MS}\n: open\n\n".encode()
            while self.end is None:
                news = self._news
                newest = self._newest
                is_in_step = newest is not None and newest[0] == mark
                found = newest[1] if newest and is_in_step else await self._changes(mark)
                if found is not None and found.mark != mark:
                    mark = found.mark
                    yield _event("change", found.to_dict(), mark)
                # Also after a change: who writes all the time is asked for by `_watch` alone.
                try:
                    await asyncio.wait_for(news.wait(), STILL_HERE_S)
                except TimeoutError:
                    yield b": still here\n\n"  # fails if the tab is gone
            if self.end is not None:
                yield _event(self.end, {})
        finally:
            self.listeners -= 1

    async def _changes(self, mark: str | None) -> Changes | None:
        """Return the changes since *mark*; None if they cannot be known now, or ever."""
        try:
            return await asyncio.to_thread(self._db.changes, mark)
        except StorageError as error:
            if isinstance(error, Closed):
                self._finish("closing")
            return None  # busy, or the disk failed: the next time
        except MemDBError as error:
            self._finish(
                next((end for of, end in ENDS.items() if isinstance(error, of)), "closing")
            )
            return None

    async def _watch(self) -> None:
        """Compare the file while somebody listens, and wake the streams when it changed."""
        pause_s = INTERVAL_S
        while self.listeners and self.end is None:
            await asyncio.sleep(pause_s)
            start_s = perf_counter()
            found = await self._changes(self._mark)
            pause_s = max(INTERVAL_S, REST * (perf_counter() - start_s))
            if found is not None and found.mark != self._mark:
                self._newest, self._mark = (self._mark, found), found.mark
                self._ring()
                pause_s = max(pause_s, AFTER_CHANGE_S)


def _event(kind: str, data: dict[str, Any], mark: str | None = None) -> bytes:
    name = "" if mark is None else f"id: {mark}\n"
    return f"{name}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
