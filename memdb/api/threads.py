"""
The threads that an open file has for callers with an event loop.

One thread writes, in the order of the calls. Messages that several callers add
while it is busy are stored in one transaction, so they wait for the disk
together. Calls that only read, and calls that may ask a model or an embedder, have threads of their
own. So they delay neither the writes nor each other.

A thread that waits for the interpreter gets it after 5 ms. A program whose event
loop must not wait so long sets `sys.setswitchinterval(0.001)`.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from memdb.errors import Closed, WrongProcess
from memdb.models.model_client import CANCELLED

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from memdb import Transaction

    # (future to resolve, context of the caller, callable that returns the callable that stores)
    _Adding = tuple[Future[Any], Context, Callable[[], Callable[[], Any]]]
    # (future to resolve, callable that stores)
    _Ready = tuple[Future[Any], Callable[[], Any]]

R = TypeVar("R")

# What a call does: "write" runs in the order of the calls, "read" and "ask" beside the others.
# "ask" may wait for a model or an embedder, or takes long; it may write too. "search" asks an
# embedder at most.
Kind = Literal["write", "read", "search", "ask"]

# Threads for each kind; one is started when all others of its kind are busy.
READERS = 4
ASKERS = 16

# Threads that search where no embedder is waited for: they compute. The event loop waits for the
# interpreter behind all who do: ten made it 55 ms late, two 18 ms, one 15 ms.
SEARCHERS = 2

# Calls whose messages share a transaction: other writers wait 20 ms for it.
MOST_AT_ONCE = 128


class Threads(ThreadPoolExecutor):
    """
    The threads of an open file: one that writes, and some for calls beside it.

    Messages that are added while the one is busy are added in one transaction,
    so that many callers wait for the disk once. Each of them still is whole or
    not at all, and fails alone.

    A call sees the context variables of its caller.
    """

    def __init__(self, path: str, *, waits_for_embedder: bool = True) -> None:
        """Serve the file at *path*; a search of it may wait for an embedder, or only computes."""
        super().__init__(1, thread_name_prefix="memdb-write")
        self.path = path
        self._pid: int | None = None  # where the threads are, once there are some
        self._adding: list[_Adding] = []
        self._lock = Lock()
        askers = ThreadPoolExecutor(ASKERS, thread_name_prefix="memdb-ask")
        searchers = ThreadPoolExecutor(SEARCHERS, thread_name_prefix="memdb-search")
        self._beside = {
            "read": ThreadPoolExecutor(READERS, thread_name_prefix="memdb-read"),
            "search": askers if waits_for_embedder else searchers,
            "ask": askers,
        }
        self._running: set[Future[Any]] = set()  # calls beside the thread that writes

    def call(self, work: Callable[[], R], kind: Kind = "write") -> Future[R]:
        """Do *work*: a "write" after the writes that were called before, others beside them."""
        self._guard()
        work = partial(copy_context().run, work)
        if kind == "write":
            with self._lock:
                self._adding = []  # what is added from now on comes after it
                return self.submit(work)
        done = self._beside[kind].submit(work)
        self._running.add(done)
        done.add_done_callback(self._running.discard)
        return done

    def add(
        self,
        transaction: Callable[..., Transaction],
        prepare: Callable[[], Callable[[], R]],
        after: Callable[[R], object] | None = None,
    ) -> Future[R]:
        """
        Call *prepare*, then what it returns in a transaction with other such calls.

        What it returns may be called again: if one fails, all are called once
        more, each in a savepoint that undoes it alone. Most do not fail, and
        cost half without savepoints.

        Args:
            transaction: Makes one of the file; its argument is `savepoints`.
            prepare: Checks what is to be stored, and returns what stores it.
            after: Gets the answer in the thread, before the caller does.
        """
        self._guard()
        done: Future[R] = Future()
        if after is not None:
            done.add_done_callback(partial(_tell_after, after))
        with self._lock:
            if not 0 < len(self._adding) < MOST_AT_ONCE:
                adding: list[_Adding] = []
                self.submit(partial(self._add, transaction, adding))
                self._adding = adding
            self._adding.append((done, copy_context(), prepare))
        return done

    async def idle(self) -> None:
        """Return when the calls made so far are over."""
        for done in (*self._running, self.call(lambda: None)):
            await over(done, to_end=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 (as of the executor)
        """Take no more calls; *wait* for those that were made."""
        ends = [*(one.shutdown for one in self._beside.values()), super().shutdown]
        for end in ends:
            end(wait=False, cancel_futures=cancel_futures)
        if wait:
            for end in ends:
                end()

    def _guard(self) -> None:
        """Refuse calls where the threads are not: nobody would ever do them."""
        if self._pid is None:
            self._pid = os.getpid()
        elif self._pid != os.getpid():
            raise WrongProcess

    def _add(self, transaction: Callable[..., Transaction], adding: list[_Adding]) -> None:
        with self._lock:
            if self._adding is adding:
                self._adding = []
        due: list[_Ready] = []
        for done, context, prepare in adding:
            if done.set_running_or_notify_cancel():
                store = _outcome(done, partial(context.run, prepare))
                if store is not None:
                    due.append((done, partial(context.run, store)))
        for done, found in self._stored(transaction, due):
            done.set_result(found)

    @staticmethod
    def _stored(
        transaction: Callable[..., Transaction], due: list[_Ready]
    ) -> list[tuple[Future[Any], Any]]:
        """Do calls, together where there are several; the answers of those that succeeded."""
        if len(due) < 2:  # noqa: PLR2004 (one needs no other's transaction)
            return _outcomes(due)
        try:
            with transaction(savepoints=False):
                return [(done, store()) for done, store in due]
        except BaseException:  # noqa: BLE001 (whose fault it was shows by savepoints)
            return _apart(transaction, due)


def _apart(
    transaction: Callable[..., Transaction], due: list[_Ready]
) -> list[tuple[Future[Any], Any]]:
    """Do calls in one transaction where each can fail alone."""
    try:
        with transaction():
            return _outcomes(due)
    except BaseException as error:  # noqa: BLE001 (each caller gets it)
        for done, _ in due:
            if not done.done():
                done.set_exception(error)
        return []


def _outcomes(due: list[_Ready]) -> list[tuple[Future[Any], Any]]:
    tried = [(done, _outcome(done, store)) for done, store in due]
    return [(done, found) for done, found in tried if not done.done()]


def _tell_after(after: Callable[[R], object], done: Future[R]) -> None:
    if not done.cancelled() and done.exception() is None:
        after(done.result())


def _outcome(done: Future[Any], work: Callable[[], R]) -> R | None:
    """Return what *work* returns; None where it raised, and *done* has the error."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 (the caller gets it)
        done.set_exception(error)
        return None


async def run_in(
    worker: Threads, work: Callable[[], R], kind: Kind = "write", *, to_end: bool = False
) -> R:
    """
    Do *work* in a thread of them; see `Threads.call` and `waited`.

    If the caller is cancelled, a model or another port that *work* waits for is given up.
    """
    given_up: list[bool] = []

    def call() -> R:
        token = CANCELLED.set(lambda: bool(given_up))
        try:
            return work()
        finally:
            CANCELLED.reset(token)

    try:
        return await waited(worker, lambda: worker.call(call, kind), to_end=to_end)
    except asyncio.CancelledError:
        given_up.append(True)
        raise


async def waited(worker: Threads, call: Callable[[], Future[R]], *, to_end: bool = False) -> R:
    """
    Wait for what *call* asks the threads for; see `over`.

    Raises:
        Closed: the threads have ended.
        WrongProcess: its threads are in the process that was forked.
    """
    try:
        done = call()
    except RuntimeError as error:  # the executor takes nothing after its shutdown
        raise Closed(f"{worker.path} was closed: open it again with memdb.aio.open()") from error
    await over(done, to_end=to_end)
    return done.result()


async def over(done: Future[Any], *, to_end: bool) -> None:
    """
    Wait until a call in a thread is over, whatever became of it.

    If the caller is cancelled, a call that has not begun is cancelled too, and one that has begun
    continues. With *to_end* the cancellation is raised after the call has ended, so its writes are
    known then.

    Cost: 70 µs to the thread and back, which is what waking two threads takes;
    `asyncio.wrap_future` takes 25 more.
    """
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        waiter = loop.create_future()
        done.add_done_callback(partial(_wake, loop, waiter))
        try:
            await waiter
        except asyncio.CancelledError as error:
            if done.cancel() or not to_end:
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _: Future[Any]) -> None:
    """Wake *waiter* in its loop, from any thread."""
    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        loop.call_soon_threadsafe(_tell, waiter)


def _tell(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
