"""
Observation: how often each public call, port and kind of work ran, how long, and what failed.

`Meter` collects the figures of one open file and notifies an observer of the host. Failures of
background work are logged to "memdb" as warnings, everything else as DEBUG.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import cache
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

# Newest durations of each name that the quantiles are taken from.
KEPT = 1_000

# Gets each failure of a port in the work that runs now, before it is tried again. Calls
# of ports run in threads of their own, which take it along.
on_failure: ContextVar[Callable[[BaseException], object] | None] = ContextVar(
    "memdb_on_failure", default=None
)


class Event(Record):
    """
    A call that has ended, as an observer gets it.

    Attributes:
        name: Such as "Scope.recall", "jobs.embed" or "embedder 'static-en-1'".
        seconds: Its duration.
        error: The error that it raised; None means none.
    """

    name: str
    seconds: float
    error: BaseException | None = None


class CallStats(Record):
    """
    How often a call ran in this process since the file was opened.

    Attributes:
        name: As of `Event`.
        count: Calls that ended.
        failed: Number of calls that raised an error.
        p50_ms: Median duration of the newest thousand calls.
        p99_ms: Duration that 99 % of them did not exceed.
        error: The last error that it raised; None means that it raised none.
        error_ms: Time of that error, UTC milliseconds.
    """

    name: str
    count: int
    failed: int
    p50_ms: float
    p99_ms: float
    error: str | None = None
    error_ms: int | None = None


class _Figures:
    """The figures of one name; `next` is atomic, so threads need no lock."""

    __slots__ = ("count", "durations", "error", "error_ms", "failed", "next")

    def __init__(self) -> None:
        self.next = count(1).__next__
        self.count = self.failed = 0
        self.durations = [-1.0] * KEPT  # below 0: not yet
        self.error: str | None = None
        self.error_ms: int | None = None


class Meter:
    """Keeps the figures of an open file. Thread-safe. Cost: 0.5 µs per call."""

    def __init__(
        self, clock: Callable[[], int], on_event: Callable[[Event], object] | None = None
    ) -> None:
        """
        Take the times of errors from *clock*.

        *on_event* is called after each call, in its thread; its errors are logged.
        """
        self._clock = clock
        self._on_event = on_event
        self._figures: dict[str, _Figures] = {}

    def note(
        self, name: str, start_s: float, error: BaseException | None = None, *, loud: bool = False
    ) -> None:
        """
        Note that a call that began at *start_s* (`perf_counter`) has ended.

        *loud*: nobody else sees its error, so it is logged as a warning.
        """
        seconds = perf_counter() - start_s
        figures = self._figures.get(name)
        if figures is None:
            figures = self._figures.setdefault(name, _Figures())
        number = figures.next()
        figures.count = number
        figures.durations[number % KEPT] = seconds
        if error is not None:
            figures.failed += 1
            figures.error, figures.error_ms = _reason(error), self._clock()
            if loud:
                warn_failed(name, start_s, error)
            else:
                report_failure(error)
        if (log := logger()) is not None:
            # The words of an error may repeat what the caller gave: names, texts, a secret.
            kind = None if error is None else type(error).__name__
            log.debug("%s took %.2f ms, error: %s", name, 1e3 * seconds, kind)
        if self._on_event is not None:
            try:
                self._on_event(Event(name, seconds, error))
            except Exception as problem:  # noqa: BLE001 (an observer stops no call)
                warn("on_event failed: %s", _reason(problem))

    def stats(self) -> tuple[CallStats, ...]:
        """Return the figures of each name that was called, by name."""
        known = {
            name: (one, sorted(seconds for seconds in one.durations if seconds >= 0))
            for name, one in self._figures.copy().items()
        }
        return tuple(
            CallStats(
                name,
                one.count,
                one.failed,
                round(1e3 * durations[len(durations) // 2], 3),
                round(1e3 * durations[len(durations) * 99 // 100], 3),
                one.error,
                one.error_ms,
            )
            for name, (one, durations) in sorted(known.items())
            if durations
        )


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def report_failure(error: BaseException) -> None:
    """Report to the running work that a port failed; do nothing if none runs."""
    watcher = on_failure.get()
    if watcher is not None:
        watcher(error)


def warn_failed(name: str, start_s: float, error: BaseException) -> None:
    """Log as a warning that work which began at *start_s* (`perf_counter`) failed."""
    warn("%s failed after %.3f s, tried again later: %s", name, perf_counter() - start_s, error)


def logger() -> Logger | None:
    """
    Return the log "memdb"; None if the program has not imported `logging`, and so reads no log.

    In a program that imports it without configuring it, nothing is written.
    """
    logging = sys.modules.get("logging")
    return None if logging is None else _log(logging)


@cache
def _log(logging: Any) -> Logger:
    # Once: `getLogger` takes a lock of all logs, and an interrupt between its lines keeps it.
    log: Logger = logging.getLogger("memdb")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return log


def warn(text: str, *values: object) -> None:
    """Write a warning to the log, if there is one."""
    if (log := logger()) is not None:
        log.warning(text, *values)
