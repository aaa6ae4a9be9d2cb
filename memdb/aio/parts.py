"""
What belongs to a scope or a session, as coroutines: tools, entries, artifacts, state.

And `later`, which makes a coroutine of a synchronous method.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from memdb.aio.batching import Kind, Worker, run_in, waited
from memdb.api import collections, database, file, items, tools
from memdb.api import session as host

if TYPE_CHECKING:
    import io
    from collections.abc import Awaitable, Callable, Iterable

    from memdb.models.entries import Entry
    from memdb.models.messages import Message, NewMessage
    from memdb.models.types import EntryOrder, When

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Wrapper(Protocol[S]):
    """Something that does in its worker what a synchronous object does."""

    _sync: S
    _worker: Worker


def later(
    method: Callable[Concatenate[S, P], R], kind: Kind = "write"
) -> Callable[Concatenate[Wrapper[S], P], Awaitable[R]]:
    """Return *method* as a coroutine that runs it in a thread of the file; see `Worker.call`."""

    @functools.wraps(method)
    async def call(self: Wrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return await run_in(self._worker, work, kind)

    return call


class Tools:
    """What a model may do with the memory of one session; see `memdb.Tools`."""

    def __init__(self, sync: tools.Tools, worker: Worker) -> None:
        """Use `session.tools()` instead."""
        self._sync = sync
        self._worker = worker

    schemas = staticmethod(tools.Tools.schemas)
    call = later(tools.Tools.call, "ask")
    memory_expand = later(tools.Tools.memory_expand, "read")
    memory_search = later(tools.Tools.memory_search, "search")
    memory_compact = later(tools.Tools.memory_compact, "ask")


class Entries:
    """Long-term entries; see `memdb.api.collections.Entries`."""

    def __init__(self, sync: collections.Entries, worker: Worker) -> None:
        """Use `scope.entries` instead."""
        self._sync = sync
        self._worker = worker

    get = later(collections.Entries.get, "read")
    find = later(collections.Entries.find, "read")
    pin = later(collections.Entries.pin)
    unpin = later(collections.Entries.unpin)
    set_trust = later(collections.Entries.set_trust)
    set_active = later(collections.Entries.set_active)
    note_use = later(collections.Entries.note_use)
    clear = later(collections.Entries.clear)
    supersede = later(collections.Entries.supersede)
    revert = later(collections.Entries.revert)
    revive = later(collections.Entries.revive)
    page = later(collections.Entries.page, "read")
    history = later(collections.Entries.history, "read")
    replaced = later(collections.Entries.replaced, "read")
    decisions = later(collections.Entries.decisions, "read")
    delete = later(collections.Entries.delete)

    update = later(collections.Entries.update, "ask")

    async def list(
        self,
        *,
        category: str | None = None,
        pinned: bool | None = None,
        inactive: bool = False,
        as_of: When | None = None,
        after: Entry | dict[str, Any] | None = None,
        limit: int | None = None,
        order: EntryOrder = "id",
    ) -> list[Entry]:
        """Return the entries; see `memdb.Entries.list`."""
        read = functools.partial(
            self._sync.list,
            category=category,
            pinned=pinned,
            inactive=inactive,
            as_of=as_of,
            after=after,
            limit=limit,
            order=order,
        )
        return await run_in(self._worker, lambda: [*read()], "read")


class Items:
    """Values under namespaces and keys; see `memdb.Items`."""

    def __init__(self, sync: items.Items, worker: Worker) -> None:
        """Use `scope.items` instead."""
        self._sync = sync
        self._worker = worker

    put = later(items.Items.put)
    get = later(items.Items.get)
    find = later(items.Items.find)
    delete = later(items.Items.delete)
    list = later(items.Items.list)
    clear = later(items.Items.clear)
    remove_expired = later(items.Items.remove_expired)
    namespaces = later(items.Items.namespaces, "read")
    keys = later(items.Items.keys, "read")
    recall = later(items.Items.recall, "search")
    batch = later(items.Items.batch)


class Artifacts:
    """Named bytes in versions; see `memdb.api.collections.Artifacts`."""

    def __init__(self, sync: collections.Artifacts, worker: Worker) -> None:
        """Use `scope.artifacts` or `session.artifacts` instead."""
        self._sync = sync
        self._worker = worker

    save = later(collections.Artifacts.save)
    rename = later(collections.Artifacts.rename)
    load = later(collections.Artifacts.load, "read")
    export = later(collections.Artifacts.export, "ask")
    list = later(collections.Artifacts.list, "read")
    versions = later(collections.Artifacts.versions, "read")
    diff = later(collections.Artifacts.diff, "ask")
    delete = later(collections.Artifacts.delete)

    async def open(
        self, name: str, version: int | None = None, *, session: str | None = None
    ) -> io.BufferedReader:
        """
        Return a version as a binary stream that can seek, opened in the worker.

        Its reads happen in the thread of the caller and block it: read a long
        one with `await asyncio.to_thread(stream.read)`.
        """
        opener = functools.partial(self._sync.open, name, version, session=session)
        return await run_in(self._worker, opener, "read")


class State:
    """Values under keys; see `memdb.api.collections.State`."""

    def __init__(self, sync: collections.State, worker: Worker) -> None:
        """Use `session.state`, `scope.state` or `db.state()` instead."""
        self._sync = sync
        self._worker = worker

    all = later(collections.State.all, "read")
    find = later(collections.State.find, "read")
    put = later(collections.State.put)
    delete = later(collections.State.delete)
    update = later(collections.State.update)
    clear = later(collections.State.clear)
    setdefault = later(collections.State.setdefault)
    pop = later(collections.State.pop)

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value under *key*, *default* without one."""
        return await run_in(self._worker, lambda: self._sync.get(key, default), "read")


class Jobs:
    """Background work; see `memdb.Jobs`."""

    def __init__(self, sync: database.Jobs, worker: Worker) -> None:
        """Use `db.jobs` instead."""
        self._sync = sync
        self._worker = worker

    run = later(database.Jobs.run, "ask")
    run_due = later(database.Jobs.run_due, "ask")
    start = later(database.Jobs.start)
    pending = later(database.Jobs.pending, "read")


class File:
    """The file as a whole; see `memdb.File`."""

    def __init__(self, sync: file.File, worker: Worker) -> None:
        """Use `db.file` instead."""
        self._sync = sync
        self._worker = worker

    info = later(file.File.info, "read")
    check = later(file.File.check, "ask")
    rebuild = later(file.File.rebuild, "ask")
    vacuum = later(file.File.vacuum, "ask")
    backup = later(file.File.backup, "ask")
    copy = later(file.File.copy, "ask")
    spaces = later(file.File.spaces, "read")
    drop_space = later(file.File.drop_space, "ask")
    warm = later(file.File.warm, "ask")
    count_tokens = later(file.File.count_tokens, "ask")
    now_ms = later(file.File.now_ms, "read")
    stamp = later(file.File.stamp, "read")
    mark = later(file.File.mark, "read")


class StoredSettings:
    """The settings that the file keeps; see `memdb.StoredSettings`."""

    def __init__(self, sync: database.StoredSettings, worker: Worker) -> None:
        """Use `db.settings` instead."""
        self._sync = sync
        self._worker = worker
        self.get = sync.get
        self.categories = sync.categories
        self.prompts = sync.prompts

    update = later(database.StoredSettings.update)
    override = later(database.StoredSettings.override)


class Host:
    """Bookkeeping of a session for a framework; see `memdb.Host`."""

    def __init__(self, sync: host.Host, worker: Worker) -> None:
        """Use `session.host` instead."""
        self._sync = sync
        self._worker = worker

    head = later(host.Host.head, "read")
    create = later(host.Host.create)
    commit = later(host.Host.commit)
    snapshot = later(host.Host.snapshot, "read")
    pop = later(host.Host.pop)
    replace = later(host.Host.replace)
    clear = later(host.Host.clear)
    erase = later(host.Host.erase)
    edit = later(host.Host.edit)
    update = later(host.Host.update)
    segments = later(host.Host.segments, "read")
    window = later(host.Host.window, "ask")

    async def add(
        self,
        messages: Iterable[NewMessage | dict[str, Any]],
        *,
        after: Callable[[list[Message]], object] | None = None,
    ) -> list[Message]:
        """
        Add messages as `Session.extend` does, to the end also if the caller is cancelled.

        Args:
            after: Called with the stored messages in the thread that writes,
                before any later write begins.
        """
        prepare = functools.partial(self._sync.prepare, messages)
        add = functools.partial(self._worker.add, self._sync.transaction, prepare, after)
        return await waited(self._worker, add, to_end=True)


class Summaries:
    """The summaries of a session; see `memdb.Summaries`."""

    def __init__(self, sync: collections.Summaries, worker: Worker) -> None:
        """Use `session.summaries` instead."""
        self._sync = sync
        self._worker = worker

    tree = later(collections.Summaries.tree, "read")
    expand = later(collections.Summaries.expand, "read")
    index = later(collections.Summaries.index, "read")
    compact = later(collections.Summaries.compact, "ask")
    upgrade = later(collections.Summaries.upgrade, "ask")
    list = later(collections.Summaries.list, "read")
    rewrite = later(collections.Summaries.rewrite, "ask")
    drop = later(collections.Summaries.drop)
