"""
Observation: how often each public call, port and kind of work ran, how long, and what failed.

`observed` wraps the public methods of a class, and checks their flags; `Meter` keeps
the figures of one open file and tells an observer of the host. Failures of background
work go to the log "memdb" as warnings, all else as DEBUG.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import cache, partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from memdb.errors import MemDBError
from memdb.models import types
from memdb.models.record import Record, numbered
from memdb.text.validate import flag_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from logging import Logger

    Class = TypeVar("Class", bound=type)

# Newest durations of each name that the quantiles are taken from.
KEPT = 1_000

# Names that only lead to other objects, or return what reads later.
_SILENT = frozenset(("session", "scope", "shared", "transaction", "close", "find"))


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
        seconds: How long it took.
        error: What it raised; None: nothing.
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
        failed: Those that raised an error.
        p50_ms: Half of the newest thousand took at most so long ...
        p99_ms: ... and 99 of 100 of them so long.
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
        Take times of errors from *clock*.

        *on_event* is called after each call, in its thread; what it raises is logged.
        """
        self._clock = clock
        self._on_event = on_event
        self._figures: dict[str, _Figures] = {}

    def note(
        self, name: str, start_s: float, error: BaseException | None = None, *, loud: bool = False
    ) -> None:
        """
        Note that a call that began at *start_s* (`perf_counter`) has ended.

        *loud*: nobody sees its error, so it is logged as a warning.
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
    """Log that work which began at *start_s* (`perf_counter`) failed, as a warning."""
    warn("%s failed after %.3f s, tried again later: %s", name, perf_counter() - start_s, error)


def logger() -> Logger | None:
    """
    Return the log "memdb"; None while the program has not loaded `logging`, so reads none.

    A program that loads it and sets up nothing is not written to.
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


def observed(owner: Class) -> Class:
    """
    Return the class *owner* with its public methods noted by the meter of their file.

    Flags are checked here for all of them: a keyword whose type is bool takes True and
    False only. A keyword that a method lacks is refused with those it has, also where they stand
    in a TypedDict. What is returned has numbers of the scope in place of packed ids.
    Each object has `_services` with a `meter`. Properties are left alone; what only leads to
    other objects, or yields, has its flags checked and is not noted.
    """
    for name, method in list(vars(owner).items()):
        if type(method) is not _FUNCTION or name.startswith("_"):
            continue
        is_noted = name not in _SILENT and not method.__code__.co_flags & _GENERATOR
        check = _Keywords(method)
        wrap = _noted if is_noted else _checked
        setattr(owner, name, _like(method, wrap(method, check)))
    return handle(owner)


def handle(owner: Class) -> Class:
    """Return the class *owner*, whose objects belong to an open file and keep no other names."""
    if "__repr__" not in vars(owner):
        owner.__repr__ = _name  # type: ignore[method-assign, assignment]  # a method of any class
    owner.__copy__ = _refuse_copy  # type: ignore[attr-defined]  # a method of any class
    owner.__setattr__ = _assign  # type: ignore[method-assign, assignment]  # unseen: names are checked
    return owner


def _refuse_copy(_handle: object) -> Any:
    """Refuse pickling and copying: closing a copy would close the original."""
    raise TypeError("an open memdb file cannot be pickled or copied: give its path and open it")


def _name(self: Any) -> str:
    """Name the class of a handle, and whose memory it is about."""
    owner, session = (getattr(self, name, None) for name in ("_owner", "_session"))
    whose = "" if owner is None else f" of {owner.user!r}"
    return f"<{type(self).__name__}{'' if session is None else f' of {session!r}'}{whose}>"


def _assign(self: Any, name: str, value: object) -> None:
    known: Any = getattr(type(self), name, None)  # a slot, or a property with a setter
    try:
        type(known).__set__(known, self, value)
    except AttributeError as error:
        way = "`update`" if hasattr(self, "update") else "the method that changes it"
        owner = type(self).__name__
        raise AttributeError(f"{owner}.{name} cannot be assigned: call {way}") from error


class _Keywords:
    """
    The keywords of a method: those that are flags, and the names of all of them.

    A flag is one whose type is bool, each with whether it may be None. Methods without
    `**options` have no names here: Python checks theirs.
    """

    __slots__ = ("_flags", "_method", "_names")

    def __init__(self, method: Any) -> None:
        kinds = {"bool": False, "bool | None": True}
        code = method.__code__
        first, count = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames[first : first + count]
        given = {name: method.__annotations__.get(name) for name in names}
        self._method = method
        self._flags = {name: kinds[kind] for name, kind in given.items() if kind in kinds}
        self._names: frozenset[str] | None = None
        if code.co_flags & _KEYWORDS:
            options = method.__annotations__[code.co_varnames[first + count]]
            fields = getattr(types, options[len("Unpack[") : -1]).__annotations__
            self._names = frozenset((*code.co_varnames[1 : first + count], *fields))

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse a keyword that there is not, and a flag that is neither True nor False."""
        if self._names is not None and not self._names.issuperset(given):
            wrong, names = min(given.keys() - self._names), ", ".join(sorted(self._names))
            raise TypeError(f"{self._method.__qualname__} has no argument {wrong!r}: use {names}")
        for name, may_be_none in self._flags.items():
            value = given.get(name, True)
            if value is not True and value is not False and (value is not None or not may_be_none):
                flag_value(value, name)


def _checked(method: Any, keywords: _Keywords) -> Any:
    def call(self: Any, *args: Any, **given: Any) -> Any:
        keywords.check(given)
        return numbered(method(self, *args, **given))

    return call


def _noted(method: Any, keywords: _Keywords) -> Any:
    name = method.__qualname__

    def call(self: Any, *args: Any, **given: Any) -> Any:
        if given:
            keywords.check(given)
        start_s = perf_counter()
        meter = self._services.meter
        try:
            try:
                result = method(self, *args, **given)
            except MemDBError as error:
                if not error._is_undone or any(map(_is_iterator, (*args, *given.values()))):
                    raise
                again = partial(method, self, *args, **given)
                result = self._services.db.run_again(again, start_s, error)
        except BaseException as error:
            meter.note(name, start_s, error)
            raise
        meter.note(name, start_s)
        return numbered(result)

    return call


def _is_iterator(value: Any) -> bool:
    """Return whether a value can be read once only."""
    return hasattr(value, "__next__")


def _like(method: Any, call: Any) -> Any:
    """Return *call* with the name and the documentation of *method*."""
    call.__wrapped__ = method
    for field in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(call, field, getattr(method, field))
    return call


_FUNCTION = type(observed)
_GENERATOR = 0x20  # inspect.CO_GENERATOR: it would be timed up to its first item only
_KEYWORDS = 0x08  # inspect.CO_VARKEYWORDS
