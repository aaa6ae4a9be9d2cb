"""
The same calls as coroutines, for programs with an event loop.

    import memdb.aio

    async with memdb.aio.open("agent.db") as db:
        chat = db.user("ann").session("trip")
        await chat.append("user", "We fly to Oslo on 3 May.")
        hits = await db.user("ann").recall("when do we fly?")

Every open file has threads of its own, so the loop is never blocked. Quick writes run in one of
them, in the order of the calls. Reads run beside it. So do calls that may ask a model or an
embedder (recall, context, remember, extract, compact, jobs) and calls that take long (imports,
backups, `forget`). Such a call sees what was awaited before it, and only its caller waits for it.

A caller that is cancelled continues at once. A call that has not begun does not begin. One that
waits for a model stops waiting and writes nothing more. Any other is finished in its thread. Such
a call writes everything or nothing.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from memdb.aio.parts import (
    Artifacts,
    Entries,
    File,
    Items,
    Jobs,
    Lead,
    Same,
    State,
    StoredSettings,
    Summaries,
    Tools,
    Twin,
    documented,
    later,
    later_leads,
    leads,
    listed,
)
from memdb.api import database
from memdb.api import scope as scopes
from memdb.api import session as sessions
from memdb.api.threads import Kind, Threads, run_in, waited
from memdb.text.validate import flag_value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

    from memdb.models.reports import Changes

P = ParamSpec("P")
R = TypeVar("R")

# The embedder that comes with memdb: it answers at once.
BUILT_IN = "static"


def added(
    method: Callable[Concatenate[sessions.Session, P], R],
) -> Callable[Concatenate[Twin[sessions.Session], P], Coroutine[Any, Any, R]]:
    """
    Return *method* as a coroutine; calls that wait together share one transaction.
    """

    @documented(method)
    async def call(self: Twin[sessions.Session], /, *args: P.args, **kwargs: P.kwargs) -> R:
        session = sessions.Preparing(self._sync)
        prepare: Any = functools.partial(method, session, *args, **kwargs)
        add = functools.partial(self._worker.add, session.transaction, prepare)
        return await waited(self._worker, add)

    return call


def _session(sync: sessions.Session, worker: Threads) -> Session:
    return Session(sync, worker)


class Session(Twin[sessions.Session]):
    """A conversation; see `memdb.Session`."""

    name = Same[str]()
    branch_name = Same[str | None]()
    summaries = Lead(Summaries)
    state = Lead(State)
    artifacts = Lead(Artifacts)

    append = added(sessions.Session.append)
    extend = added(sessions.Session.extend)
    head = later(sessions.Session.head, "read")
    create = later(sessions.Session.create)
    edit = later(sessions.Session.edit)
    pop = later(sessions.Session.pop)
    replace = later(sessions.Session.replace)
    clear = later(sessions.Session.clear)
    update = later(sessions.Session.update)
    messages = later(sessions.Session.messages, "read")
    last = later(sessions.Session.last, "read")
    get = later(sessions.Session.get, "read")
    find = later(sessions.Session.find, "read")
    recall = later(sessions.Session.recall, "search")
    context = later(sessions.Session.context, "search")
    given = later(sessions.Session.given, "read")
    extract = later(sessions.Session.extract, "ask")
    branches = later(sessions.Session.branches, "read")
    branch = later_leads(sessions.Session.branch, _session)
    fork = later_leads(sessions.Session.fork, _session)
    archive = later(sessions.Session.archive, "ask")
    unarchive = later(sessions.Session.unarchive, "ask")
    delete = later(sessions.Session.delete)
    forget = later(sessions.Session.forget, "ask")
    tools = leads(sessions.Session.tools, Tools)

    async def parent(self) -> Session | None:
        """
        Return what this branch leaves, None for a session; see `memdb.Session.parent`.
        """
        found = await run_in(self._worker, lambda: self._sync.parent, "read")
        return None if found is None else Session(found, self._worker)

    async def title(self) -> str | None:
        """Return the title of the session; `update(title=)` changes it."""
        return await run_in(self._worker, lambda: self._sync.title, "read")

    async def metadata(self) -> dict[str, Any]:
        """Return the JSON object that is kept with the session; `update(metadata=)` changes it."""
        return await run_in(self._worker, lambda: self._sync.metadata, "read")

    async def last_seq(self) -> int:
        """Return the highest seq given out so far, 0 before the first message."""
        return await run_in(self._worker, lambda: self._sync.last_seq, "read")


class Scope(Twin[scopes.Scope]):
    """Somebody's memory; see `memdb.Scope`."""

    app = Same[str]()
    user = Same[str]()
    state = Lead(State)
    entries = Lead(Entries)
    items = Lead(Items)
    artifacts = Lead(Artifacts)

    session = leads(scopes.Scope.session, Session)
    sessions = later(scopes.Scope.sessions, "read")
    counts = later(scopes.Scope.counts, "read")
    remember = later(scopes.Scope.remember, "ask")
    recall = later(scopes.Scope.recall, "search")
    profile = later(scopes.Scope.profile, "read")
    why = later(scopes.Scope.why, "read")
    delete = later(scopes.Scope.delete, "ask")
    undo = later(scopes.Scope.undo, "write")
    forget = later(scopes.Scope.forget, "ask")
    find_secrets = listed(scopes.Scope.find_secrets, "ask")


class MemDB(Twin[database.MemDB]):
    """An open file; see `memdb.MemDB`. An asynchronous context manager."""

    path = Same[str]()
    closed = Same[bool]()
    jobs = Lead(Jobs)
    file = Lead(File)
    settings = Lead(StoredSettings)

    user = leads(database.MemDB.user, Scope)
    scope = leads(database.MemDB.scope, Scope)
    shared = leads(database.MemDB.shared, Scope)
    import_file = later(database.MemDB.import_file, "ask")
    export = later(database.MemDB.export, "ask")
    export_lines = listed(database.MemDB.export_lines, "ask")
    query = later(database.MemDB.query, "ask")
    stats = later(database.MemDB.stats, "read")
    sync = later(database.MemDB.sync, "ask")
    sync_status = later(database.MemDB.sync_status, "ask")
    changes = later(database.MemDB.changes, "read")

    @property
    def blocking(self) -> database.MemDB:
        """The synchronous file. Its calls block the event loop."""
        return self._sync

    async def run(
        self, work: Callable[[database.MemDB], R], *, kind: Kind = "write", to_end: bool = False
    ) -> R:
        """
        Return the result of *work*, called with the synchronous file in one of its threads.

        With `with db.transaction():` in *work*, several calls happen whole or
        not at all.

        Args:
            kind: "write": *work* is quick, and runs in the order of such calls.
                The others run beside them: "read"; "search" if it may wait for
                an embedder; "ask" if it may wait for a model, or takes long.
            to_end: If the caller is cancelled while *work* runs, wait for its end before the
                cancellation continues.
        """
        flag_value(to_end, "to_end")
        return await run_in(self._worker, functools.partial(work, self._sync), kind, to_end=to_end)

    async def watch(self, *, interval_s: float = 0.25) -> AsyncIterator[Changes]:
        """Yield what anybody changes from the first step on; see `memdb.MemDB.watch`."""
        mark = (await self.changes()).mark
        while not self.closed:
            await asyncio.sleep(interval_s)
            found = await self.changes(mark)
            mark = found.mark
            if not found.is_empty:
                yield found

    async def scopes(self) -> list[Scope]:
        """Return every scope that was written to, by app and user."""
        found = await run_in(self._worker, self._sync.scopes, "read")
        return [Scope(scope, self._worker) for scope in found]

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


class Opening:
    """A file that is being opened: await it, or use it with `async with`."""

    __slots__ = ("_opened", "_path", "_waits_for_embedder", "_work")

    def __init__(
        self, path: str, work: Callable[[], database.MemDB], *, waits_for_embedder: bool
    ) -> None:
        """Use `memdb.aio.open()` instead."""
        self._path = path
        self._waits_for_embedder = waits_for_embedder
        self._work = work
        self._opened: MemDB | None = None

    def __await__(self) -> Generator[Any, None, MemDB]:
        """Open the file in a thread of it and return it."""
        return self._open().__await__()

    async def _open(self) -> MemDB:
        worker = Threads(self._path, waits_for_embedder=self._waits_for_embedder)
        try:
            return MemDB(await run_in(worker, self._work), worker)
        except BaseException:
            worker.shutdown(wait=False)
            raise

    async def __aenter__(self) -> MemDB:
        """Open the file and return it."""
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        """Close the file."""
        if self._opened is not None:
            await self._opened.close()


def _awaited(opener: Callable[P, database.MemDB]) -> Callable[P, Opening]:
    @functools.wraps(opener)
    def open(*args: P.args, **options: P.kwargs) -> Opening:  # noqa: A001 (as memdb.open)
        path = args[0] if args else options.get("path", "")
        ports = [options.get("embedder", BUILT_IN)]
        ports += [options.get("previous_embedder"), options.get("reranker")]
        waits = any(one is not None and one != BUILT_IN for one in ports)
        work = functools.partial(opener, *args, **options)
        return Opening(str(path), work, waits_for_embedder=waits)

    open.__doc__ = "Open a memdb file: `async with memdb.aio.open(path) as db`; see `memdb.open`."
    return open


open = _awaited(database.open)  # noqa: A001 (as memdb.open)
