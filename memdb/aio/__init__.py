"""
The same calls as coroutines, for programs with an event loop.

    import memdb.aio

    async with memdb.aio.open("agent.db") as db:
        chat = db.scope("ann").session("trip")
        await chat.append("user", "We fly to Oslo on 3 May.")
        hits = await db.scope("ann").recall("when do we fly?")

Every open file has threads of its own, so the loop is never blocked. What is
quick to write runs in one of them, in the order of the calls. Reads run beside
it, and so does what may ask a model or an embedder (recall, context, remember,
extract, compact, jobs) or takes long (imports, backups, `forget`): such a call
sees what was awaited before it, and nobody waits for it but its caller.

A caller that is cancelled goes on at once. Its call does not begin, or gives up the
model that it waits for and writes nothing more, or runs to its end in its thread: what
it writes is written whole or not at all.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from memdb.aio.batching import Kind, Worker, run_in, waited
from memdb.aio.parts import (
    Artifacts,
    Entries,
    File,
    Host,
    Items,
    Jobs,
    State,
    StoredSettings,
    Summaries,
    Tools,
    later,
)
from memdb.api import database
from memdb.api import scope as scopes
from memdb.api import session as sessions
from memdb.models.messages import NewMessage
from memdb.text.validate import flag_value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping

    from memdb.models.messages import BranchInfo, Message
    from memdb.models.overviews import Changes
    from memdb.models.reports import SecretPlace
    from memdb.models.types import Role, SecretAction, When

P = ParamSpec("P")
R = TypeVar("R")

PAGE = 500

# The embedder that comes with memdb: it answers at once.
BUILT_IN = "static"


class Session:
    """A conversation; see `memdb.Session`."""

    def __init__(self, sync: sessions.Session, worker: Worker) -> None:
        """Use `scope.session(name)` instead."""
        self._sync = sync
        self._worker = worker
        self.name = sync.name

    last = later(sessions.Session.last, "read")
    get = later(sessions.Session.get, "read")
    find = later(sessions.Session.find, "read")
    recall = later(sessions.Session.recall, "search")
    context = later(sessions.Session.context, "search")
    extract = later(sessions.Session.extract, "ask")
    profile = later(sessions.Session.profile, "read")
    archive = later(sessions.Session.archive, "ask")
    unarchive = later(sessions.Session.unarchive, "ask")
    delete = later(sessions.Session.delete)
    forget = later(sessions.Session.forget, "ask")
    preview_forget = later(sessions.Session.preview_forget, "read")

    @property
    def summaries(self) -> Summaries:
        """The summaries that condense this session."""
        return Summaries(self._sync.summaries, self._worker)

    @property
    def host(self) -> Host:
        """What a framework with sessions of its own needs."""
        return Host(self._sync.host, self._worker)

    @property
    def state(self) -> State:
        """Values under keys that go with the session."""
        return State(self._sync.state, self._worker)

    async def append(
        self,
        role: Role,
        text: str = "",
        *,
        author: str | None = None,
        parts: list[Any] | None = None,
        external_id: str | None = None,
        created: When | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_seq: int | None = None,
        secrets: SecretAction | None = None,
    ) -> Message:
        """Add a message; see `memdb.Session.append`."""
        new = NewMessage(role, text, author, parts, external_id, None, metadata)
        host = self._sync.host
        prepare = functools.partial(
            host.prepare, [new], created=created, expected_seq=expected_seq, secrets=secrets
        )
        add = functools.partial(self._worker.add, host.transaction, prepare)
        (stored,) = await waited(self._worker, add)
        return stored

    async def append_from(
        self,
        message: Any,
        *,
        expected_seq: int | None = None,
        secrets: SecretAction | None = None,
    ) -> list[Message]:
        """Add a provider's message; see `memdb.Session.append_from`."""
        from memdb.formats.provider_messages import read_messages

        return await self.extend(read_messages(message), expected_seq=expected_seq, secrets=secrets)

    async def extend(
        self,
        messages: Iterable[NewMessage | dict[str, Any] | Any],
        *,
        expected_seq: int | None = None,
        secrets: SecretAction | None = None,
        keep: bool = False,
    ) -> list[Message]:
        """Add messages; see `memdb.Session.extend`. Calls made at once wait for the disk once."""
        host = self._sync.host
        prepare = functools.partial(
            host.prepare, messages, expected_seq=expected_seq, secrets=secrets, keep=keep
        )
        return await waited(self._worker, lambda: self._worker.add(host.transaction, prepare))

    async def branch(
        self, name: str, after_seq: int | None = None, *, create: bool | None = None
    ) -> Session:
        """Return the branch called *name*, made if it is new; see `memdb.Session.branch`."""
        work = functools.partial(self._sync.branch, name, after_seq, create=create)
        return Session(await run_in(self._worker, work), self._worker)

    async def branches(self) -> list[BranchInfo]:
        """Return every branch of the session, oldest first; see `memdb.Session.branches`."""
        return await run_in(self._worker, self._sync.branches, "read")

    @property
    def branch_name(self) -> str | None:
        """The name of this branch; None for a session itself."""
        return self._sync.branch_name

    async def parent(self) -> Session | None:
        """Return what this branch leaves, None for a session; see `memdb.Session.parent`."""
        found = await run_in(self._worker, lambda: self._sync.parent, "read")
        return None if found is None else Session(found, self._worker)

    async def fork(self, name: str, *, before_seq: int | None = None) -> Session:
        """Copy this session to a new one; see `memdb.Session.fork`."""
        work = functools.partial(self._sync.fork, name, before_seq=before_seq)
        return Session(await run_in(self._worker, work), self._worker)

    async def last_seq(self) -> int:
        """Return the highest seq given out so far, 0 before the first message."""
        return await run_in(self._worker, lambda: self._sync.last_seq, "read")

    async def messages(
        self, after_seq: int = 0, limit: int | None = None
    ) -> AsyncIterator[Message]:
        """Iterate over the messages after *after_seq*, oldest first, *limit* at most."""
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await run_in(
                self._worker, functools.partial(_page, self._sync.messages, after_seq, size), "read"
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


class Scope:
    """Somebody's memory; see `memdb.Scope`."""

    def __init__(self, sync: scopes.Scope, worker: Worker) -> None:
        """Use `db.scope(user)` instead."""
        self._sync = sync
        self._worker = worker
        self.app = sync.app
        self.user = sync.user

    sessions = later(scopes.Scope.sessions, "read")
    counts = later(scopes.Scope.counts, "read")
    remember = later(scopes.Scope.remember, "ask")
    recall = later(scopes.Scope.recall, "search")
    profile = later(scopes.Scope.profile, "read")
    why = later(scopes.Scope.why, "read")
    export = later(scopes.Scope.export, "ask")
    delete = later(scopes.Scope.delete, "ask")
    forget = later(scopes.Scope.forget, "ask")
    preview_forget = later(scopes.Scope.preview_forget, "read")

    async def find_secrets(self, *, entropy: bool = False) -> list[SecretPlace]:
        """Return the keys, tokens and passwords in the scope; see `memdb.Scope.find_secrets`."""
        find = self._sync.find_secrets
        return await run_in(self._worker, lambda: [*find(entropy=entropy)], "ask")

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
    def items(self) -> Items:
        """Values under namespaces and keys."""
        return Items(self._sync.items, self._worker)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of all sessions, and the `user:` ones they share."""
        return Artifacts(self._sync.artifacts, self._worker)

    def __repr__(self) -> str:
        """Name the app and the user."""
        return _repr(self._sync)


class MemDB:
    """An open file; see `memdb.MemDB`. An asynchronous context manager."""

    def __init__(self, sync: database.MemDB, worker: Worker) -> None:
        """Use `memdb.aio.open()` instead."""
        self._sync = sync
        self._worker = worker
        self.path = sync.path

    import_file = later(database.MemDB.import_file, "ask")
    export = later(database.MemDB.export, "ask")
    query = later(database.MemDB.query, "ask")
    stats = later(database.MemDB.stats, "read")

    @property
    def closed(self) -> bool:
        """Whether the file was closed; every other call then raises Closed."""
        return self.sync.closed

    @property
    def jobs(self) -> Jobs:
        """Background work: do what is due now, or in a thread."""
        return Jobs(self._sync.jobs, self._worker)

    @property
    def file(self) -> File:
        """The file as a whole: check, rebuild, vacuum, backup, info, embedding spaces."""
        return File(self._sync.file, self._worker)

    def scope(self, user: str, app: str = "default") -> Scope:
        """Return somebody's memory; it is made at its first write."""
        return Scope(self._sync.scope(user, app), self._worker)

    def shared(self, app: str = "default") -> Scope:
        """Return what all users of *app* share; see `memdb.MemDB.shared`."""
        return Scope(self._sync.shared(app), self._worker)

    @property
    def settings(self) -> StoredSettings:
        """What the file does by itself, and kinds of entries: read it, change it."""
        return StoredSettings(self._sync.settings, self._worker)

    def state(self, app: str = "default") -> State:
        """Return the values under keys that belong to a program, whoever its user."""
        return State(self._sync.state(app), self._worker)

    @property
    def sync(self) -> database.MemDB:
        """The synchronous file. Its calls block the event loop, except `file.stamp()`."""
        return self._sync

    async def run(
        self,
        work: Callable[[database.MemDB], R],
        *,
        kind: Kind = "write",
        to_end: bool = False,
    ) -> R:
        """
        Return what *work* returns, called with the synchronous file in a thread of it.

        With `with db.transaction():` in *work*, several calls happen whole or
        not at all.

        Args:
            kind: "write": *work* is quick, and runs in the order of such calls.
                The others run beside them: "read"; "search" if it may wait for
                an embedder; "ask" if it may wait for a model, or takes long.
            to_end: If the caller is cancelled while *work* runs, wait for its
                end before the cancellation goes on.
        """
        flag_value(to_end, "to_end")
        return await run_in(self._worker, functools.partial(work, self._sync), kind, to_end=to_end)

    async def changes(self, since: str | None = None) -> Changes:
        """Return what anybody changed in the file since a mark; see `memdb.MemDB.changes`."""
        return await run_in(self._worker, lambda: self._sync.changes(since), "read")

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

    async def export_lines(
        self, *, user: str | None = None, app: str = "default", embeddings: bool = True
    ) -> list[str]:
        """Return what `export` writes, line by line, without line ends; all in memory."""
        lines = self._sync.export_lines
        return await run_in(
            self._worker, lambda: [*lines(user=user, app=app, embeddings=embeddings)], "ask"
        )

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


class Opening:
    """A file that is being opened: await it, or use it with `async with`."""

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
        worker = Worker(self._path, waits_for_embedder=self._waits_for_embedder)
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
        embedders = options.get("embedder", BUILT_IN), options.get("previous_embedder")
        waits = any(one is not None and one != BUILT_IN for one in embedders)
        work = functools.partial(opener, *args, **options)
        return Opening(str(path), work, waits_for_embedder=waits)

    open.__doc__ = "Open a memdb file: `async with memdb.aio.open(path) as db`; see `memdb.open`."
    return open


open = _awaited(database.open)  # noqa: A001 (as memdb.open)


def _repr(sync: object) -> str:
    """Return the repr of a synchronous object, as that of its wrapper."""
    return f"<aio.{repr(sync)[1:]}"


def _page(read: Callable[[int, int], Any], after_seq: int, size: int) -> list[Message]:
    return [*read(after_seq, size)]
