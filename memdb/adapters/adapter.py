"""
Base of the objects that a framework calls: the open file, its threads, and its errors.

A framework makes such an object from a path or from an open file, and calls it from any thread or
event loop. Its coroutines run in threads of the object, so no loop waits for the disk. Writes run
in the order of the calls; reads and calls of a model run beside them.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import memdb
from memdb.api.threads import Kind, Threads, over
from memdb.errors import Closed, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from memdb import MemDB, Scope
    from memdb.aio import MemDB as AsyncMemDB

    Source = str | os.PathLike[str] | MemDB | AsyncMemDB

T = TypeVar("T")
M = TypeVar("M", bound="Callable[..., Any]")

# The user and the app of an object that is given none.
DEFAULT = "default"


class Adapter:
    """
    An object of a framework on a memdb file.

    The object is a context manager, also an asynchronous one. Leaving it closes the file, unless
    the file was open before.
    """

    def __init__(self, source: Source, *, framework: str | None = None, **options: Any) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, made if it is absent; or a `memdb.MemDB` or `memdb.aio.MemDB`, which
                several objects can share and which stays open after them.
            framework: Name of the writer of rows, if the file is opened here. None: by the package.
            options: Options of `memdb.open`; only for a path.

        Raises:
            FileError: the file cannot be used.
            InvalidInput: *source* is neither a path nor an open file, or an option is wrong.
        """
        opened = getattr(source, "blocking", source)
        self._owned = not isinstance(opened, memdb.MemDB)
        unknown = ", ".join(sorted(options.keys() - signature(memdb.open).parameters.keys()))
        if unknown:
            raise InvalidInput(f"{unknown}: no option of {type(self).__name__} or memdb.open")
        if not self._owned and options:
            names = ", ".join(sorted(options))
            raise InvalidInput(
                f"{names} cannot be given with an open file: give these options to memdb.open()"
            )
        if not isinstance(opened, (str, os.PathLike, memdb.MemDB)):
            raise InvalidInput(f"source is {type(source).__name__}: give a path or an open file")
        if isinstance(opened, memdb.MemDB):
            self._db = opened
        else:
            package = type(self).__module__.removeprefix("memdb.integrations.").partition(".")[0]
            self._db = memdb.open(opened, **{"writer": framework or package, **options})
        self._worker = Threads(self._db.path)

    def _translate(self, error: memdb.MemDBError) -> Exception:
        """Return the error that the framework's own classes raise for *error*."""
        return error

    def _call(self, work: Callable[[], T]) -> T:
        """
        Return the result of *work*, called in this thread; errors are the framework's.

        If the file is closed, the error is Closed, even if *work* would not use the file.
        """
        if self._db.closed:
            raise self._translate(self._closed())
        return self._with_errors(work)

    def _refuse_closed(self) -> None:
        if self._db.closed:
            raise self._translate(self._closed())

    def _closed(self) -> Closed:
        return Closed(f"{self._db.path} was closed: make a new {type(self).__name__}")

    def _with_errors(self, work: Callable[[], T]) -> T:
        """Return the result of *work*; a value nested too deep for Python raises InvalidInput."""
        try:
            return work()
        except memdb.MemDBError as error:
            raise_as(error, self._translate(error))
        except RecursionError as error:
            deep = InvalidInput("a value is nested too deep: make it flatter")
            raise self._translate(deep) from error

    async def _run(
        self,
        work: Callable[[], T],
        then: Callable[[T], object] | None = None,
        *,
        kind: Kind = "write",
        to_end: bool = True,
    ) -> T:
        """
        Return the result of *work*, called in a thread; *then* is called with it in this thread.

        A call that is cancelled before it began does nothing. With *to_end*, a call that has begun
        is finished, and *then* is called, before the cancellation continues. So the file and the
        caller agree about what is stored.
        """
        self._refuse_closed()
        try:
            begun = self._worker.call(work, kind)
        except RuntimeError as error:  # the executor takes nothing after its shutdown
            raise self._translate(self._closed()) from error
        except memdb.MemDBError as error:  # the process was forked
            raise_as(error, self._translate(error))
        try:
            await over(begun, to_end=to_end)
        finally:
            held = begun.done() and not begun.cancelled() and begun.exception() is None
            if held and then is not None:
                then(begun.result())
        return self._with_errors(begun.result)

    async def _read(self, work: Callable[[], T], kind: Kind = "read") -> T:
        """Return the result of *work*, which only reads and runs beside other calls."""
        return await self._run(work, kind=kind, to_end=False)

    def _end(self) -> None:
        """End what the object does besides its calls; called before the file is closed."""

    def close(self) -> None:
        """Finish the calls under way and close the file. Calling it again does nothing."""
        self._end()
        self._worker.shutdown(wait=True)
        if self._owned:
            self._db.close()

    async def aclose(self) -> None:
        """Close it as `close` does, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, partial(Adapter.close, self))

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        Adapter.close(self)

    async def __aenter__(self) -> Self:
        """Return the object itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the file."""
        await self.aclose()

    def __repr__(self) -> str:
        """Name the class and its file."""
        return f"<{type(self).__name__} {self._db.path}>"


class ScopedAdapter(Adapter):
    """An object of a framework that works on the memory of one user and app."""

    def __init__(
        self, source: Source, *, user: str | None = None, app: str | None = None, **options: Any
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, made if it is absent; or a file that is open (`memdb.open` or
                `memdb.aio.open`).
            user: The user whose memory it is. None means MEMDB_USER, or "default".
            app: The program it belongs to. None means MEMDB_APP, or "default".
            options: Options of `memdb.open`; only for a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        Adapter.__init__(self, source, **options)
        self._scope = self._db.scope(*place_of(user, app))


def place_of(user: str | None, app: str | None) -> tuple[str, str]:
    """Return the names of user and app; None means MEMDB_USER or MEMDB_APP, or else "default"."""
    if user is None:
        user = os.environ.get("MEMDB_USER") or DEFAULT
    return user, os.environ.get("MEMDB_APP") or DEFAULT if app is None else app


class OpenFile(ScopedAdapter):
    """The file of an object whose class cannot derive from Adapter, because pydantic makes it."""

    @property
    def db(self) -> MemDB:
        """The file itself."""
        return self._db

    @property
    def scope(self) -> Scope:
        """The memory of the object's user and app."""
        return self._scope

    def call(self, work: Callable[[], T]) -> T:
        """Return the result of *work*, called in this thread."""
        return self._call(work)

    async def run(self, work: Callable[[], T]) -> T:
        """
        Return the result of *work*, called in a thread after the earlier writes.

        If the caller is cancelled, a call that has begun is finished first.
        """
        return await self._run(work)

    async def read(self, work: Callable[[], T], kind: Kind = "read") -> T:
        """Return the result of *work*, called in a thread beside other calls."""
        return await self._read(work, kind)


class FileOwner:
    """An object that has its file in `_file` and closes it."""

    _file: OpenFile

    def close(self) -> None:
        """Finish the calls under way and close the file, unless it was open before."""
        self._file.close()

    async def aclose(self) -> None:
        """Close it as `close` does, without blocking the event loop."""
        await self._file.aclose()


def adapted(method: M) -> M:
    """Return a method of an Adapter that does all of its work through `_call`."""

    @wraps(method)
    def call(self: Adapter, *args: Any, **options: Any) -> Any:
        return self._call(partial(method, self, *args, **options))

    return cast("M", call)


def in_thread(method: Callable[..., Any], kind: Kind = "write") -> Any:
    """Return a coroutine method that runs *method* of an Adapter in a thread."""

    @wraps(method)
    async def call(self: Adapter, *args: Any, **options: Any) -> Any:
        to_end = kind == "write"
        return await self._run(partial(method, self, *args, **options), kind=kind, to_end=to_end)

    return call


def twins(method: Callable[..., Any], kind: Kind = "write") -> tuple[Any, Any]:
    """
    Return *method* for the caller's thread, and the same to await.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return self._file.call(partial(method, self, *args, **options))

    @wraps(method)
    async def later(self: Any, *args: Any, **options: Any) -> Any:
        work = partial(method, self, *args, **options)
        return await (self._file.run(work) if kind == "write" else self._file.read(work, kind))

    return call, later


def raise_as(error: Exception, translated: Exception) -> NoReturn:
    """Raise *translated*, from *error* if it is another."""
    if translated is error:
        raise error
    raise translated from error


@contextmanager
def extra(name: str) -> Iterator[None]:
    """
    Import what an extra installs, in a `with` block.

    Raises:
        ImportError: a package cannot be imported; the error says how to install it.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{error.name} cannot be imported ({error}): run `pip install 'memdb-sqlite[{name}]'`"
        ) from error
