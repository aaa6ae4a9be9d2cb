"""
How a coroutine is made of a method of the synchronous API; no signature is written twice.

A twin has the names of a synchronous class. Each is a line: `later` runs the method in a
thread of the file, `listed` takes what it yields too, `added` lets messages that are added at
once share a transaction, `leads` gives the twin of what the method returns, `later_leads`
the same in a thread, `direct` calls it at once, and `Lead` and `Same` stand for properties.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from memdb.aio.batching import Kind, Worker, run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Self

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class Twin(Generic[S]):
    """Does in the threads of a file what a synchronous object does."""

    __slots__ = ("_sync", "_worker")

    def __init__(self, sync: S, worker: Worker) -> None:
        """Use the calls of `memdb.aio.open()` instead."""
        self._sync = sync
        self._worker = worker

    def __repr__(self) -> str:
        """Return the repr of the synchronous object, as that of its twin."""
        return f"<aio.{repr(self._sync)[1:]}"


class Lead(Generic[T]):
    """A property that gives the twin of what the synchronous property of that name gives."""

    def __init__(self, make: Callable[[Any, Worker], T]) -> None:
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


def later(
    method: Callable[Concatenate[S, P], R], kind: Kind = "write"
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, R]]:
    """Return *method* as a coroutine that runs it in a thread of the file; see `Worker.call`."""

    @functools.wraps(method)
    async def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return await run_in(self._worker, work, kind)

    return call


def listed(
    method: Callable[Concatenate[S, P], Iterable[T]], kind: Kind
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, list[T]]]:
    """Return *method* as a coroutine that returns the list of what it yields."""

    @functools.wraps(method)
    async def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        return await run_in(self._worker, lambda: [*method(self._sync, *args, **kwargs)], kind)

    return call


def later_leads(
    method: Callable[Concatenate[S, P], R], twin: Callable[[R, Worker], T]
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, T]]:
    """Return *method* as a coroutine that returns the twin of what it returns."""

    @functools.wraps(method)
    async def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return twin(await run_in(self._worker, work), self._worker)

    return call


def leads(
    method: Callable[Concatenate[S, P], R], twin: Callable[[R, Worker], T]
) -> Callable[Concatenate[Twin[S], P], T]:
    """Return *method*, which waits for nothing, so that it gives the twin of what it returns."""

    @functools.wraps(method)
    def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return twin(method(self._sync, *args, **kwargs), self._worker)

    return call


def direct(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Twin[S], P], R]:
    """Return *method* as it is: it waits for nothing."""

    @functools.wraps(method)
    def call(self: Twin[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._sync, *args, **kwargs)

    return call
