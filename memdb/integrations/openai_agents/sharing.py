"""
One open file for all adapters of a path in this process, with one worker thread.

Hosts make an object per conversation and call it from any event loop; the file
behind them is opened once, in its thread, at the first call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from memdb import aio
from memdb.aio.batching import Worker, run_in
from memdb.api import database as memory
from memdb.errors import InvalidInput
from memdb.integrations.openai_agents.answers import Answers
from memdb.text.tokens import Counting
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from concurrent.futures import Future
    from typing import Any, Self, TypeVar

    R = TypeVar("R")
    Item = dict[str, Any]
    File = str | os.PathLike[str] | memory.MemDB | aio.MemDB


MEMORY = ":memory:"


class SharedFile:
    """A file that is opened at the first call, and closed by the last of its users."""

    def __init__(self, path: str, options: dict[str, Any], counting: Counting) -> None:
        """
        Serve *path* with the options of `memdb.open`; *counting* counts its tokens.

        The counter is loaded here, the built-in one once per process in 0.15 s:
        a third of that the interpreter does nothing else, in whatever thread,
        and later an event loop would wait for it.
        """
        counting.count_many([""])
        self._worker = Worker(path)
        self._options = options
        self._opening: Future[memory.MemDB] | None = None
        self._lock = threading.Lock()
        self._users = 0
        self._db: aio.MemDB | None = None
        self.answers = Answers()
        self.closed = False

    @classmethod
    def of(cls, db: memory.MemDB | aio.MemDB) -> SharedFile:
        """Return what serves a file that somebody else opened and closes."""
        sync = db if isinstance(db, memory.MemDB) else db._sync
        file = cls(db.path, {}, sync._services.counting)
        file._db = aio.MemDB(db, file._worker) if isinstance(db, memory.MemDB) else db
        return file

    async def db(self) -> aio.MemDB:
        """Return the open file."""
        if self._db is None:
            with self._lock:
                if self._opening is None or (self._opening.done() and self._opening.exception()):
                    path, options = self._worker.path, self._options
                    self._opening = self._worker.call(lambda: memory.open(path, **options))
            # Others may wait for it too, so a cancelled caller leaves it alone.
            sync = await asyncio.shield(asyncio.wrap_future(self._opening))
            self._db = aio.MemDB(sync, self._worker)
        return self._db

    async def read(
        self,
        chat: Hashable,
        most: int | None,
        work: Callable[[memory.MemDB], tuple[list[Item], int]],
    ) -> list[Item]:
        """Return the newest *most* items of *chat*; *work* reads them, if they are not known."""
        db = self._db or await self.db()
        known = self.answers.get(db._sync, chat, most)
        if known is not None:
            return known

        def read(sync: memory.MemDB) -> list[Item]:
            mark = self.answers.mark(sync)  # before reading: a change since then is seen
            found, newest = work(sync)
            self.answers.put(chat, most, mark, newest, found)
            return found

        return await db.run(read)

    async def run(self, work: Callable[[memory.MemDB], R], *, to_end: bool = False) -> R:
        """Do *work* in the thread of the file; *to_end* as in `memdb.aio.batching.over`."""
        db = self._db or await self.db()
        return await run_in(db._worker, partial(work, db._sync), to_end=to_end)

    def hold(self) -> Self:
        """Count one more who uses it."""
        self._users += 1
        return self

    def release(self) -> None:
        """End after the last who uses it; the file is closed if it was opened here."""
        with _guard:
            self._users -= 1
            if self._users:
                return
            self.closed = True
        self._worker.shutdown(wait=True)  # of a file with a worker of its own, this one is idle
        self.answers.clear()
        if self._opening is not None and self._opening.exception() is None:
            self._opening.result().close()


# What is open in this process; what nobody holds any more falls out.
_paths: WeakValueDictionary[tuple[str, int], SharedFile] = WeakValueDictionary()
_opened: WeakValueDictionary[int, SharedFile] = WeakValueDictionary()
_guard = threading.Lock()


def file_of(file: File, options: dict[str, Any]) -> SharedFile:
    """
    Return what serves *file*, held once more; give it back by `release`.

    A path is opened once in a process, unless it has options or is ":memory:".

    Raises:
        InvalidInput: *file* is neither a path nor an open file.
    """
    with _guard:
        if isinstance(file, (memory.MemDB, aio.MemDB)):
            if options:
                raise InvalidInput("options are for a path: this file is open already")
            known = _opened.get(id(file))  # it holds the file, so the id is no other's
            if known is None or known.closed:
                known = _opened[id(file)] = SharedFile.of(file)
            return known.hold()
        if not isinstance(file, (str, os.PathLike)):
            raise InvalidInput(f"file is {type(file).__name__}: give a path or an open file")
        path = name_value(os.fspath(file), "file")
        if path != MEMORY:
            path = str(Path(path).absolute())  # where the process is now, not at the first call
        counting = Counting(options.get("counter"))
        if path == MEMORY or options:
            return SharedFile(path, options, counting).hold()
        key = os.path.realpath(path), os.getpid()
        found = _paths.get(key)
        if found is None or found.closed:
            found = _paths[key] = SharedFile(path, options, counting)
        return found.hold()
