"""
The same calls as coroutines, for programs with an event loop.

    import memdb.aio

    async with await memdb.aio.open("agent.db") as db:
        chat = db.scope("ann").session("trip")
        await chat.append("user", "We fly to Oslo on 3 May.")
        hits = await db.scope("ann").recall("when do we fly?")

Every open file has one worker thread, so the loop is never blocked and calls
run in the order they were made. A call that has begun runs to its end even if
its caller is cancelled: what it writes is written whole or not at all.
"""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from memdb import holdings, memory, tools
from memdb import scope as scopes
from memdb import session as sessions
from memdb import state as states
from memdb.errors import Closed

if TYPE_CHECKING:
    import io
    from collections.abc import AsyncIterator, Awaitable, Callable

    from memdb.models import Entry, Message

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

PAGE = 500


class _Worker(ThreadPoolExecutor):
    """The one thread of an open file."""

    def __init__(self, path: str) -> None:
        super().__init__(1, thread_name_prefix="memdb")
        self.path = path


class _Wrapper(Protocol[S]):
    """Something that does in its worker what a synchronous object does."""

    _sync: S
    _worker: _Worker


def _later(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_Wrapper[S], P], Awaitable[R]]:
    """Return *method* as a coroutine that runs it in the file's worker thread."""

    @functools.wraps(method)
    async def call(self: _Wrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await _run(self._worker, functools.partial(method, self._sync, *args, **kwargs))

    return call


class Session:
    """A conversation; see `memdb.Session`."""

    def __init__(self, sync: sessions.Session, worker: _Worker) -> None:
        """Use `scope.session(name)` instead."""
        self._sync = sync
        self._worker = worker
        self.name = sync.name

    append = _later(sessions.Session.append)
    extend = _later(sessions.Session.extend)
    last = _later(sessions.Session.last)
    get = _later(sessions.Session.get)
    find = _later(sessions.Session.find)
    search = _later(sessions.Session.search)
    window = _later(sessions.Session.window)
    context = _later(sessions.Session.context)
    tree = _later(sessions.Session.tree)
    expand = _later(sessions.Session.expand)
    search_summaries = _later(sessions.Session.search_summaries)
    summary_index = _later(sessions.Session.summary_index)
    compact = _later(sessions.Session.compact)
    upgrade = _later(sessions.Session.upgrade)
    archive = _later(sessions.Session.archive)
    unarchive = _later(sessions.Session.unarchive)
    delete = _later(sessions.Session.delete)
    head = _later(sessions.Session.head)
    create = _later(sessions.Session.create)
    commit = _later(sessions.Session.commit)
    snapshot = _later(sessions.Session.snapshot)
    erase = _later(sessions.Session.erase)

    @property
    def state(self) -> State:
        """Values under keys that go with the session."""
        return State(self._sync.state, self._worker)

    async def last_seq(self) -> int:
        """Return the highest seq given out so far, 0 before the first message."""
        return await _run(self._worker, lambda: self._sync.last_seq)

    async def messages(
        self, after_seq: int = 0, limit: int | None = None
    ) -> AsyncIterator[Message]:
        """Iterate over the messages after *after_seq*, oldest first, *limit* at most."""
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await _run(
                self._worker, functools.partial(_page, self._sync.messages, after_seq, size)
            )
            for message in page:
                yield message
            if len(page) < size:
                return
            after_seq = page[-1].seq
            left = None if left is None else left - len(page)

    def tools(self) -> Tools:
        """Return `memory_expand`, `memory_search` and `memory_compact` for this session."""
        return Tools(self._sync.tools(), self._worker)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of this session, and the `user:` ones of its scope."""
        return Artifacts(self._sync.artifacts, self._worker)

    def __repr__(self) -> str:
        """Name the session and whose it is."""
        return _repr(self._sync)


class Tools:
    """What a model may do with the memory of one session; see `memdb.Tools`."""

    def __init__(self, sync: tools.Tools, worker: _Worker) -> None:
        """Use `session.tools()` instead."""
        self._sync = sync
        self._worker = worker

    schemas = staticmethod(tools.Tools.schemas)
    call = _later(tools.Tools.call)
    memory_expand = _later(tools.Tools.memory_expand)
    memory_search = _later(tools.Tools.memory_search)
    memory_compact = _later(tools.Tools.memory_compact)


class Entries:
    """Long-term entries; see `memdb.holdings.Entries`."""

    def __init__(self, sync: holdings.Entries, worker: _Worker) -> None:
        """Use `scope.entries` instead."""
        self._sync = sync
        self._worker = worker

    get = _later(holdings.Entries.get)
    find = _later(holdings.Entries.find)
    history = _later(holdings.Entries.history)
    delete = _later(holdings.Entries.delete)

    async def update(self, entry_id: int, **changes: Any) -> Entry:
        """Change an entry; see `memdb.holdings.Entries.update`."""
        return await _run(self._worker, lambda: self._sync.update(entry_id, **changes))

    async def list(self, **options: Any) -> list[Entry]:
        """Return the entries by id; options as in `memdb.holdings.Entries.list`."""
        return await _run(self._worker, lambda: [*self._sync.list(**options)])


class Artifacts:
    """Named bytes in versions; see `memdb.holdings.Artifacts`."""

    def __init__(self, sync: holdings.Artifacts, worker: _Worker) -> None:
        """Use `scope.artifacts` or `session.artifacts` instead."""
        self._sync = sync
        self._worker = worker

    save = _later(holdings.Artifacts.save)
    load = _later(holdings.Artifacts.load)
    list = _later(holdings.Artifacts.list)
    versions = _later(holdings.Artifacts.versions)
    delete = _later(holdings.Artifacts.delete)

    async def open(
        self, name: str, version: int | None = None, *, session: str | None = None
    ) -> io.BufferedReader:
        """
        Return a version as a binary stream that can seek, opened in the worker.

        Its reads happen in the thread of the caller and block it: read a long
        one with `await asyncio.to_thread(stream.read)`.
        """
        opener = functools.partial(self._sync.open, name, version, session=session)
        return await _run(self._worker, opener)


class State:
    """Values under keys; see `memdb.state.State`."""

    def __init__(self, sync: states.State, worker: _Worker) -> None:
        """Use `session.state`, `scope.state` or `db.state()` instead."""
        self._sync = sync
        self._worker = worker

    all = _later(states.State.all)
    update = _later(states.State.update)
    clear = _later(states.State.clear)

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value under *key*, *default* without one."""
        return await _run(self._worker, lambda: self._sync.get(key, default))

    async def delete(self, key: str) -> bool:
        """Remove a key; False if there was none."""
        missing = object()
        return await _run(self._worker, lambda: self._sync.pop(key, missing) is not missing)


class Scope:
    """Somebody's memory; see `memdb.Scope`."""

    def __init__(self, sync: scopes.Scope, worker: _Worker) -> None:
        """Use `db.scope(user)` instead."""
        self._sync = sync
        self._worker = worker
        self.app = sync.app
        self.user = sync.user

    sessions = _later(scopes.Scope.sessions)
    remember = _later(scopes.Scope.remember)
    recall = _later(scopes.Scope.recall)
    search = _later(scopes.Scope.search)
    why = _later(scopes.Scope.why)
    export = _later(scopes.Scope.export)

    def session(self, name: str) -> Session:
        """Return a conversation; it is made at its first message."""
        return Session(self._sync.session(name), self._worker)

    @property
    def state(self) -> State:
        """Values under keys that belong to the user, whatever the session."""
        return State(self._sync.state, self._worker)

    @property
    def entries(self) -> Entries:
        """The long-term entries."""
        return Entries(self._sync.entries, self._worker)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of all sessions, and the `user:` ones they share."""
        return Artifacts(self._sync.artifacts, self._worker)

    def __repr__(self) -> str:
        """Name the app and the user."""
        return _repr(self._sync)


class MemDB:
    """An open file; see `memdb.MemDB`. An asynchronous context manager."""

    def __init__(self, sync: memory.MemDB, worker: _Worker) -> None:
        """Use `memdb.aio.open()` instead."""
        self._sync = sync
        self._worker = worker
        self.path = sync.path

    run_pending = _later(memory.MemDB.run_pending)
    start_worker = _later(memory.MemDB.start_worker)
    pending = _later(memory.MemDB.pending)
    warm = _later(memory.MemDB.warm)
    spaces = _later(memory.MemDB.spaces)
    drop_space = _later(memory.MemDB.drop_space)
    check = _later(memory.MemDB.check)
    rebuild = _later(memory.MemDB.rebuild)
    vacuum = _later(memory.MemDB.vacuum)
    backup = _later(memory.MemDB.backup)
    import_file = _later(memory.MemDB.import_file)
    export = _later(memory.MemDB.export)
    info = _later(memory.MemDB.info)

    def scope(self, user: str, app: str = "default") -> Scope:
        """Return somebody's memory; it is made at its first write."""
        return Scope(self._sync.scope(user, app), self._worker)

    def state(self, app: str = "default") -> State:
        """Return the values under keys that belong to a program, whoever its user."""
        return State(self._sync.state(app), self._worker)

    async def scopes(self) -> list[Scope]:
        """Return every scope that was written to, by app and user."""
        found = await _run(self._worker, self._sync.scopes)
        return [Scope(scope, self._worker) for scope in found]

    async def export_lines(
        self, *, user: str | None = None, app: str = "default", embeddings: bool = True
    ) -> list[str]:
        """Return what `export` writes, line by line, without line ends; all in memory."""
        lines = self._sync.export_lines
        return await _run(self._worker, lambda: [*lines(user=user, app=app, embeddings=embeddings)])

    async def close(self) -> None:
        """Finish the calls under way and close the file; again does nothing."""
        await asyncio.get_running_loop().run_in_executor(None, self._finish)

    def _finish(self) -> None:
        self._worker.shutdown(wait=True)
        self._sync.close()

    async def __aenter__(self) -> Self:
        """Return the open file itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the file."""
        await self.close()

    def __repr__(self) -> str:
        """Name the file."""
        return _repr(self._sync)


async def open(path: str, **options: Any) -> MemDB:  # noqa: A001 (as memdb.open)
    """Open a memdb file; arguments and errors as in `memdb.open`."""
    worker = _Worker(str(path))
    try:
        sync = await _run(worker, lambda: memory.open(path, **options))
    except BaseException:
        worker.shutdown(wait=False)
        raise
    return MemDB(sync, worker)


async def _run(worker: _Worker, work: Callable[[], R]) -> R:
    try:
        done = asyncio.get_running_loop().run_in_executor(worker, work)
    except RuntimeError as error:  # the executor takes nothing after its shutdown
        raise Closed(f"{worker.path} was closed: open it again with memdb.aio.open()") from error
    return await done


def _repr(sync: object) -> str:
    """Return the repr of a synchronous object, as that of its wrapper."""
    return f"<aio.{repr(sync)[1:]}"


def _page(read: Callable[[int, int], Any], after_seq: int, size: int) -> list[Message]:
    return [*read(after_seq, size)]
