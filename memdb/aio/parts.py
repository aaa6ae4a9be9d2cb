"""
Collections of a scope, a session or a file as coroutines; no signature is written twice.

A twin has the names of a synchronous class. Each is a line: `later` runs the method in a thread of
the file, and `listed` also collects what it yields. `added` lets messages that are added at once
share a transaction. `leads` returns the twin of what the method returns, and `later_leads` does so
in a thread. `direct` calls the method at once, and `Lead` and `Same` replace properties.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from memdb.api import collections, database, file, items, tools
from memdb.api import worker as workers
from memdb.api.calls import handle
from memdb.api.threads import Kind, Threads, run_in
from memdb.errors import MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Self


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@handle
class Twin(Generic[S]):
    """Does in the threads of a file what a synchronous object does."""

    __slots__ = ("_sync", "_worker")

    def __init__(self, sync: S, worker: Threads) -> None:
        """Use the calls of `memdb.aio.open()` instead."""
        self._sync = sync
        self._worker = worker

    def __repr__(self) -> str:
        """Return the repr of the synchronous object, as that of its twin."""
        return f"<aio.{repr(self._sync)[1:]}"


class Lead(Generic[T]):
    """A property that gives the twin of what the synchronous property of that name gives."""

    def __init__(self, make: Callable[[Any, Threads], T]) -> None:
        """Return *make* of the value."""
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        """Read the synchronous property of the same name."""
        make = self._make

        def read(self: Twin[Any]) -> T:
            return make(getattr(self._sync, name), self._worker)

        self._read = read

    @overload
    def __get__(self, twin: None, owner: type) -> Self: ...

    @overload
    def __get__(self, twin: Twin[Any], owner: type) -> T: ...

    def __get__(self, twin: Twin[Any] | None, owner: type) -> Self | T:
        """Return the twin of the value."""
        return self if twin is None else self._read(twin)


class Same(Lead[T]):
    """A property that gives what the synchronous one gives, without waiting."""

    def __init__(self) -> None:
        """Return the value itself."""
        super().__init__(lambda value, _: value)


def documented(method: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for the twin of *method*; its help names the page with the whole text."""
    about = (method.__doc__ or "").strip().partition("\n\n")[0]

    def document(call: Callable[P, R]) -> Callable[P, R]:
        functools.update_wrapper(call, method)
        call.__doc__ = f"{about}\n\nSee `memdb.{method.__qualname__}`."
        return call

    return document


def later(
    method: Callable[Concatenate[S, P], R], kind: Kind = "write"
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, R]]:
    """Return *method* as a coroutine that runs it in a thread of the file; see `Threads.call`."""

    @documented(method)
    async def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return await run_in(self._worker, work, kind)

    return call


def listed(
    method: Callable[Concatenate[S, P], Iterable[T]], kind: Kind
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, list[T]]]:
    """Return *method* as a coroutine that returns the list of what it yields."""

    @documented(method)
    async def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        return await run_in(self._worker, lambda: [*method(self._sync, *args, **kwargs)], kind)

    return call


def later_leads(
    method: Callable[Concatenate[S, P], R], twin: Callable[[R, Threads], T]
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, T]]:
    """Return *method* as a coroutine that returns the twin of what it returns."""

    @documented(method)
    async def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return twin(await run_in(self._worker, work), self._worker)

    return call


def leads(
    method: Callable[Concatenate[S, P], R], twin: Callable[[R, Threads], T]
) -> Callable[Concatenate[Twin[S], P], T]:
    """Return *method*, which waits for nothing, so that it gives the twin of what it returns."""

    @documented(method)
    def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return twin(method(self._sync, *args, **kwargs), self._worker)

    return call


def direct(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Twin[S], P], R]:
    """Return *method* as it is: it waits for nothing."""

    @documented(method)
    def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._sync, *args, **kwargs)

    return call


class Tools(Twin[tools.Tools]):
    """Tools by which a model uses the memory of one session; see `memdb.Tools`."""

    schemas = staticmethod(tools.Tools.schemas)
    call = later(tools.Tools.call, "ask")


class Entries(Twin[collections.Entries]):
    """Long-term entries; see `memdb.api.collections.Entries`."""

    get = later(collections.Entries.get, "read")
    find = later(collections.Entries.find, "read")
    supersede = later(collections.Entries.supersede)
    revert = later(collections.Entries.revert)
    history = later(collections.Entries.history, "read")
    replaced = later(collections.Entries.replaced, "read")
    links = later(collections.Entries.links, "read")
    unlink = later(collections.Entries.unlink)
    delete = later(collections.Entries.delete)

    update = later(collections.Entries.update, "ask")

    list = later(collections.Entries.list, "read")


class Items(Twin[items.Items]):
    """Values under namespaces and keys; see `memdb.Items`."""

    put = later(items.Items.put)
    get = later(items.Items.get)
    find = later(items.Items.find)
    delete = later(items.Items.delete)
    list = later(items.Items.list)
    clear = later(items.Items.clear)
    namespaces = later(items.Items.namespaces, "read")
    keys = later(items.Items.keys, "read")
    recall = later(items.Items.recall, "search")
    batch = later(items.Items.batch)


class Artifacts(Twin[collections.Artifacts]):
    """Named bytes in versions; see `memdb.api.collections.Artifacts`."""

    save = later(collections.Artifacts.save)
    rename = later(collections.Artifacts.rename)
    load = later(collections.Artifacts.load, "read")
    export = later(collections.Artifacts.export, "ask")
    list = later(collections.Artifacts.list, "read")
    versions = later(collections.Artifacts.versions, "read")
    diff = later(collections.Artifacts.diff, "ask")
    delete = later(collections.Artifacts.delete)
    # A stream, opened in a thread. Reading it blocks: `await asyncio.to_thread(stream.read)`.
    open = later(collections.Artifacts.open, "read")


class State(Twin[collections.State]):
    """Values under keys; see `memdb.api.collections.State`."""

    all = later(collections.State.all, "read")
    find = later(collections.State.find, "read")
    put = later(collections.State.put)
    delete = later(collections.State.delete)
    update = later(collections.State.update)
    clear = later(collections.State.clear)
    setdefault = later(collections.State.setdefault)
    pop = later(collections.State.pop)
    get = later(collections.State.get, "read")


class Worker(Twin[workers.Worker]):
    """Does due work until it is stopped; see `memdb.Worker`."""

    done = Same[int]()
    doing = Same[str | None]()
    running = Same[bool]()
    error = Same[MemDBError | None]()

    stop = later(workers.Worker.stop, "ask")


class Jobs(Twin[database.Jobs]):
    """Background work; see `memdb.Jobs`."""

    run = later(database.Jobs.run, "ask")
    start = later_leads(database.Jobs.start, Worker)
    pending = later(database.Jobs.pending, "read")


class File(Twin[file.File]):
    """The file as a whole; see `memdb.File`."""

    info = later(file.File.info, "read")
    check = later(file.File.check, "ask")
    rebuild = later(file.File.rebuild, "ask")
    vacuum = later(file.File.vacuum, "ask")
    backup = later(file.File.backup, "ask")
    copy = later(file.File.copy, "ask")
    delete_space = later(file.File.delete_space, "ask")
    count_tokens = later(file.File.count_tokens, "ask")


class StoredSettings(Twin[database.StoredSettings]):
    """The settings that the file keeps; see `memdb.StoredSettings`."""

    get = direct(database.StoredSettings.get)
    categories = direct(database.StoredSettings.categories)
    prompts = direct(database.StoredSettings.prompts)
    update = later(database.StoredSettings.update)


class Summaries(Twin[collections.Summaries]):
    """The summaries of a session; see `memdb.Summaries`."""

    tree = later(collections.Summaries.tree, "read")
    expand = later(collections.Summaries.expand, "read")
    compact = later(collections.Summaries.compact, "ask")
    upgrade = later(collections.Summaries.upgrade, "ask")
    list = later(collections.Summaries.list, "read")
    rewrite = later(collections.Summaries.rewrite, "ask")
    delete = later(collections.Summaries.delete)
