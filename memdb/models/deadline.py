"""
Calls of the outside world: given up in time, and their failures told apart.

A plugged-in model may hang, block without looking at its timeout, or raise
anything. `run_within` bounds the time, `port_error` makes one kind of error of
all that can go wrong, and `may_pass` says whether asking again may help.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, MemDBError, PortError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from threading import Event
    from typing import TypeVar

    T = TypeVar("T")

# How often `cancelled` is asked while an answer is awaited.
POLL_S = 0.02

# So many calls of one port may hang before it is not called any more: each
# keeps a thread, and whatever it holds.
MAX_HANGING = 16

MAX_ERROR_CHARS = 500

# 11 days; Windows waits for 49 at most.
MAX_S = 1e6

# Faults of a program, not of the moment.
_LASTING = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)
_PASSING_STATUS = {408, 409, 425, 429}
_SERVER_ERROR = 500


class Unavailable(PortError):
    """No answer came, and asking again may help: overloaded, unreachable, cut off."""

    retryable = True


def seconds(value: object, field: str) -> float:
    """
    Return *value* if it is a time to wait: over 0, at most `MAX_S`.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= MAX_S:
        raise InvalidInput(f"{field} is {value!r}: give a number of seconds over 0")
    return float(value)


def run_within(
    work: Callable[[Callable[[], bool]], T],
    *,
    name: str,
    timeout_s: float,
    cancelled: Callable[[], bool] | None = None,
    hang_up: Callable[[], object] | None = None,
) -> T:
    """
    Return what *work* returns, or give it up after *timeout_s* seconds.

    *work* runs in a daemon thread: one that never ends keeps neither the
    caller nor the end of the interpreter waiting. It has the caller's context
    variables. What it raises is raised here.

    Args:
        work: Called with a function that says whether it was given up; then
            nobody takes its result any more and it should end.
        name: Of the port, for the error.
        timeout_s: Over 0.
        cancelled: Asked every `POLL_S` seconds, in the caller's thread.
        hang_up: Called once *work* was given up; frees what it waits for.

    Raises:
        PortError: too late, cancelled, or `MAX_HANGING` earlier calls of *name*
            were given up and still hang.

    Cost: a thread per call, about 0.1 ms.
    """
    import contextvars
    import threading
    import time

    given_up_name = f"memdb gave up {name}"
    if sum(one.name == given_up_name for one in threading.enumerate()) >= MAX_HANGING:
        raise PortError(name, f"{MAX_HANGING} earlier calls still hang: restart the program")
    answers: list[T] = []
    failures: list[BaseException] = []
    done, given_up = threading.Event(), threading.Event()

    def run() -> None:
        try:
            answers.append(work(given_up.is_set))
        except Exception as error:  # noqa: BLE001 (raised again where the caller waits)
            failures.append(error)
        except BaseException as error:  # noqa: BLE001 (no SystemExit of a port ends its host)
            failures.append(PortError(name, f"it ended with {type(error).__name__}"))
        done.set()

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=f"memdb {name}", daemon=True)
    deadline = time.monotonic() + timeout_s
    try:
        thread.start()
        _await(done, deadline, cancelled, name, timeout_s)
    finally:
        if not done.is_set():
            thread.name = given_up_name
            given_up.set()
            if hang_up is not None:
                hang_up()
    if failures:
        raise failures.pop()
    return answers[0]


def _await(
    done: Event,
    deadline: float,
    cancelled: Callable[[], bool] | None,
    name: str,
    timeout_s: float,
) -> None:
    """Return when *done* is set; raise when it is too late or *cancelled* says so."""
    import time

    while True:
        if cancelled is not None and cancelled():
            raise PortError(name, "cancelled")
        left = deadline - time.monotonic()
        if done.wait(max(0.0, left if cancelled is None else min(left, POLL_S))):
            return
        if deadline <= time.monotonic():
            raise PortError(
                name, f"no answer within {timeout_s:.3g} s: give it more time or a shorter text"
            )


def may_pass(error: BaseException) -> bool:
    """
    Tell whether what raised *error* may succeed when it is asked again.

    An error of memdb knows (`retryable`); one with an HTTP status is passing
    for 408, 409, 425, 429 and 500 or more; a fault of a program (`TypeError`,
    `KeyError` ...) is not; anything else may be.

    >>> may_pass(ConnectionError()), may_pass(TypeError())
    (True, False)
    """
    if isinstance(error, MemDBError):
        return error.retryable
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _PASSING_STATUS or status >= _SERVER_ERROR
    return isinstance(error, Exception) and not isinstance(error, _LASTING)


def port_error(name: str, error: BaseException, secrets: Iterable[str | None] = ()) -> PortError:
    """
    Return *error* as the failure of the port *name*, without secrets.

    A `PortError` of that name in which nothing has to be hidden is returned
    itself. The cause is kept only where the texts of the whole chain hold no
    secret: a traceback would show them.
    """
    from memdb.text.redact import redact  # loads re, which a plain read does not need

    hidden = list(secrets)
    said = _own_words(error)
    text = " ".join(redact(said, hidden).split())
    clean = all(redact(one, hidden) == one for one in _chain_texts(error))
    if clean and isinstance(error, PortError) and error.name == name:
        return error
    if len(text) > MAX_ERROR_CHARS:
        text = f"{text[:MAX_ERROR_CHARS]} ..."
    failure = (Unavailable if may_pass(error) else PortError)(name, text)
    failure.__cause__ = error if clean else None
    return failure


def _own_words(error: BaseException) -> str:
    """Return what *error* says, without "NAME failed" where it is said again."""
    text = str(error) or type(error).__name__
    if isinstance(error, PortError):
        return text.removeprefix(f"{error.name} failed: ")
    return text if " " in text else f"{type(error).__name__}: {text}"


def _chain_texts(error: BaseException) -> list[str]:
    """Return the texts of *error*, its causes, contexts and notes."""
    texts: list[str] = []
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), repr(one), *getattr(one, "__notes__", ())]
        todo += [one.__cause__, one.__context__]
    return texts
