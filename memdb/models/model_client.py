"""
Calls of external models: timeouts, retries, a budget, and classified failures.

A model of the host may hang, ignore its timeout, raise anything, or return something that a file
cannot store. `run_within` limits the time of a call, `port_error` turns any exception into a
`PortError` without secrets, and `is_transient` decides whether a retry may help. `ModelCaller` puts
them together for language models.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar, copy_context
from functools import partial
from math import isfinite
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from memdb.errors import InvalidInput, MemDBError, PortError, Unavailable, Unreadable
from memdb.models.ids import MAX_INT
from memdb.models.vectors import to_vector
from memdb.text.redaction import redact
from memdb.text.validate import int_value, text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from threading import Event

    from memdb.models.observation import Meter
    from memdb.models.protocols import Arbiter, Embedder, Model, Reranker, TokenCounter

    T = TypeVar("T")

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 8.0

# How often `cancelled` is polled while a call runs.
POLL_S = 0.02

# A port with so many hanging calls is not called again: each call keeps a thread.
MAX_HANGING = 16

MAX_ERROR_CHARS = 500

# Source: docs/seeds/koopa.md (15 s to embed a text, 30 s to decide).
EMBED_TIMEOUT_S = 15.0
EMBED_TEXT_S = 0.5
DECIDE_TIMEOUT_S = 30.0
RERANK_TIMEOUT_S = 2.0
COUNT_TIMEOUT_S = 10.0

# After a time-out an embedder is left alone for so long: each question would wait for it.
REST_S = 60.0

# 11 days; Windows waits for 49 at most.
MAX_TIMEOUT_S = 1e6

# Errors in a program, which a retry repeats.
_PERMANENT = (
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
_TRANSIENT_STATUS = {408, 409, 425, 429}
_SERVER_ERROR = 500


def timeout_value(value: object, field: str) -> float:
    """
    Return *value* as a timeout in seconds: over 0, at most `MAX_TIMEOUT_S`.

    Raises:
        InvalidInput: *value* is something else.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MAX_TIMEOUT_S:  # type: ignore[operator]  # a number
        raise InvalidInput(f"{field} is {value!r}: give a number of seconds above 0")
    return float(value)  # type: ignore[arg-type]  # a number


class CallCancelled(BaseException):
    """
    Nobody waits any more for the call that used a port, so the port's call ends as at Ctrl-C.

    The exception is not an `Exception`, so no fallback replaces the answer, and nothing is stored.
    """


# Whether the task that waits for a call in this thread was cancelled; None: no task waits.
CANCELLED: ContextVar[Callable[[], bool] | None] = ContextVar("memdb cancelled", default=None)


def run_within(
    work: Callable[[Callable[[], bool]], T],
    *,
    name: str,
    timeout_s: float,
    cancelled: Callable[[], bool] | None = None,
    abandon: Callable[[], object] | None = None,
) -> T:
    """
    Return the result of *work*, or abandon it after *timeout_s* seconds.

    *work* runs in a daemon thread with the caller's context variables. A thread
    that never ends delays neither the caller nor the end of the interpreter.
    Errors of *work* are raised here.

    Args:
        work: Called with a function that returns True after the call was abandoned; *work* should
            then end, because its result is dropped.
        name: Name of the port, for the error.
        timeout_s: Over 0.
        cancelled: Polled every `POLL_S` seconds, in the caller's thread.
        abandon: Called once if *work* is abandoned, to free its resources.

    Raises:
        PortError: the timeout passed, *cancelled* returned True, or
            `MAX_HANGING` abandoned calls of *name* still hang.
        CallCancelled: the task that waits for the whole call was cancelled (`CANCELLED`).

    Cost: a thread per call, about 0.1 ms.
    """
    abandoned_name = f"memdb gave up {name}"
    if sum(thread.name == abandoned_name for thread in threading.enumerate()) >= MAX_HANGING:
        raise PortError(name, f"{MAX_HANGING} earlier calls still hang: restart the program")
    answers: list[T] = []
    failures: list[BaseException] = []
    done, abandoned = threading.Event(), threading.Event()

    def run() -> None:
        try:
            answers.append(work(abandoned.is_set))
        except Exception as error:  # noqa: BLE001 (raised again where the caller waits)
            failures.append(error)
        except BaseException as error:  # noqa: BLE001 (no SystemExit of a port ends its host)
            failures.append(PortError(name, f"it ended with {type(error).__name__}"))
        done.set()

    context = copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=f"memdb {name}", daemon=True)
    try:
        thread.start()
        _await(done, time.monotonic() + timeout_s, cancelled, name, timeout_s)
    finally:
        if not done.is_set():
            thread.name = abandoned_name
            abandoned.set()
            if abandon is not None:
                abandon()
    if failures:
        raise failures.pop()
    return answers[0]


def _await(
    done: Event, deadline: float, cancelled: Callable[[], bool] | None, name: str, timeout_s: float
) -> None:
    """
    Wait for *done*; raise PortError after *deadline* or if *cancelled* returns True.

    CallCancelled if the task that waits for the whole call was cancelled.
    """
    is_given_up = CANCELLED.get()
    is_polled = not (cancelled is is_given_up is None)
    while True:
        if is_given_up is not None and is_given_up():
            raise CallCancelled
        if cancelled is not None and cancelled():
            raise PortError(name, "cancelled")
        left_s = deadline - time.monotonic()
        if done.wait(max(0.0, min(left_s, POLL_S) if is_polled else left_s)):
            return
        if deadline <= time.monotonic():
            raise PortError(
                name, f"no answer within {timeout_s:.3g} s: give it more time or a shorter text"
            )


def is_transient(error: BaseException) -> bool:
    """
    Return whether a retry may succeed after *error*.

    An error of memdb has `retryable`; one with an HTTP status is transient for
    408, 409, 425, 429 and 500 or more; an error in a program (`TypeError`,
    `KeyError` ...) is permanent; any other exception may be transient.

    >>> is_transient(ConnectionError()), is_transient(TypeError())
    (True, False)
    """
    if isinstance(error, MemDBError):
        return error.retryable
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS or status >= _SERVER_ERROR
    return isinstance(error, Exception) and not isinstance(error, _PERMANENT)


def port_error(name: str, error: BaseException, secrets: Iterable[str | None] = ()) -> PortError:
    """
    Return *error* as a `PortError` of the port *name*, with secrets redacted.

    A `PortError` of that name without a secret is returned unchanged. The cause is kept only if the
    texts of its whole chain contain no secret, because a traceback would show them.
    """
    hidden = list(secrets)
    text = " ".join(redact(_message(error), hidden).split())
    is_clean = all(redact(part, hidden) == part for part in _chain_texts(error))
    if is_clean and isinstance(error, PortError) and error.name == name:
        return error
    if len(text) > MAX_ERROR_CHARS:
        text = f"{text[:MAX_ERROR_CHARS]} ..."
    failure = (Unavailable if is_transient(error) else PortError)(name, text)
    failure.__cause__ = error if is_clean else None
    return failure


def _message(error: BaseException) -> str:
    """Return the text of *error*, without "NAME failed" of a PortError."""
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
        link = todo.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        texts += [str(link), repr(link), *getattr(link, "__notes__", ())]
        todo += [link.__cause__, link.__context__]
    return texts


class LimitedPort:
    """
    A host's object whose calls take limited time and raise only `PortError`.

    Resting is a circuit breaker: after a time-out each call fails at once for `REST_S` seconds. The
    next call fails too and is repeated in a separate thread; if that gets an answer, the port is
    used again.

    All other attributes, such as its name, are those of the object. Cost: 0.1 ms per call.
    """

    __slots__ = ("_checks", "_failed_s", "_label", "_limits", "_meter", "_port", "_rests")

    def __init__(
        self,
        port: object,
        label: str,
        limits: Mapping[str, Callable[..., float]],
        meter: Meter | None,
        *,
        checks: Mapping[str, Callable[..., Any]] | None = None,
        rests: bool = False,
    ) -> None:
        """
        Store *port*.

        Args:
            label: Its name in errors.
            limits: By method, a function of the arguments that returns the seconds that a call may
                take.
            meter: Records each call; None records nothing.
            checks: By method, a function of answer and arguments that returns the answer to use.
                An error of a check counts as a failure of the port.
            rests: Whether it rests after a time-out.
        """
        self._port = port
        self._checks = checks or {}
        self._rests = rests
        self._failed_s: float | None = None
        self._meter = meter
        self._label = label
        self._limits = limits

    def __repr__(self) -> str:
        """Return the port's own."""
        return repr(self._port)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the port; a method with a limit is wrapped."""
        value = getattr(self._port, name)
        limit = self._limits.get(name)
        if limit is None:
            return value
        check: Callable[..., Any] = self._checks.get(name, _as_it_is)
        return lambda *given: self._call(lambda: check(value(*given), *given), limit(*given))

    def _call(self, work: Callable[[], Any], timeout_s: float) -> Any:
        failed_s = self._failed_s
        if failed_s is None:
            return self._ask(work, timeout_s)
        start_s = time.perf_counter()
        if time.monotonic() >= failed_s + REST_S:
            self._failed_s = time.monotonic()  # one call is repeated, not all that come meanwhile
            threading.Thread(
                target=self._ask_again,
                args=(work, timeout_s),
                name=f"memdb asks {self._label} again",
                daemon=True,
            ).start()
        failure = Unavailable(
            self._label, f"it did not answer in time, and is left alone for {REST_S:g} s"
        )
        if self._meter is not None:
            self._meter.note(self._label, start_s, failure)
        raise failure

    def _ask(self, work: Callable[[], Any], timeout_s: float) -> Any:
        return call_within(
            lambda _stopped: work(),
            name=self._label,
            timeout_s=timeout_s,
            meter=self._meter,
            abandon=self._rest if self._rests else None,
        )

    def _ask_again(self, work: Callable[[], Any], timeout_s: float) -> None:
        try:
            self._ask(work, timeout_s)
        except PortError:
            return  # noted by the meter
        self._failed_s = None

    def _rest(self) -> None:
        """Start to rest after an abandoned call, unless the caller was cancelled."""
        is_given_up = CANCELLED.get()
        if is_given_up is None or not is_given_up():
            self._failed_s = time.monotonic()


def _as_it_is(answer: Any, *_given: Any) -> Any:
    return answer


def call_within(
    work: Callable[[Callable[[], bool]], T],
    *,
    name: str,
    timeout_s: float,
    meter: Meter | None = None,
    label: str = "",
    cancelled: Callable[[], bool] | None = None,
    abandon: Callable[[], object] | None = None,
) -> T:
    """
    Return the result of *work*, a call of a port as for `run_within`, recorded by *meter*.

    Args:
        label: Its name for *meter*. Default: *name*.

    Raises:
        PortError: the call raised an error, or took longer than *timeout_s*. The error contains no
            secret.
    """
    start_s = time.perf_counter()
    failure: PortError | None = None
    try:
        answer = run_within(
            work, name=name, timeout_s=timeout_s, cancelled=cancelled, abandon=abandon
        )
    except Exception as error:  # noqa: BLE001 (a port may raise anything)
        failure = port_error(name, error)
    if meter is not None:
        meter.note(label or name, start_s, failure)
    if failure is None:
        return answer
    raise failure  # outside of `except`: not chained to what may hold a secret


def limited_embedder(embedder: Embedder, meter: Meter | None = None) -> Embedder:
    """Return *embedder* limited to 15 seconds per call, and half a second more for each text."""

    def limit(texts: Sequence[str]) -> float:
        return EMBED_TIMEOUT_S + EMBED_TEXT_S * len(texts)

    label = f"embedder {embedder.name!r}"

    def vectors(answer: Iterable[Any], texts: Sequence[str]) -> list[bytes | None]:
        found = _of_texts(label, "vectors", answer, texts)
        return [None if one is None else to_vector(one, embedder.dim) for one in found]

    limits: dict[str, Callable[..., float]] = {
        "embed": limit,
        "embed_query": lambda _: EMBED_TIMEOUT_S,
    }

    def vector(answer: Any, text: str) -> bytes | None:
        return vectors([answer], [text])[0]

    checks = {"embed": vectors, "embed_query": vector}
    return LimitedPort(embedder, label, limits, meter, checks=checks, rests=True)


def limited_reranker(reranker: Reranker, meter: Meter | None = None) -> Reranker:
    """Return *reranker* limited to 2 seconds per question."""
    name = getattr(reranker, "name", None) or getattr(reranker, "__name__", "of the host")
    label = f"reranker {name!r}"

    def scores(answer: Iterable[Any], _query: str, texts: Sequence[str]) -> list[float]:
        found = [float(one) for one in _of_texts(label, "scores", answer, texts)]
        if not all(map(isfinite, found)):
            raise Unreadable(label, "gave a score that is not a number")
        return found

    port = SimpleNamespace(rank=reranker)
    limits = {"rank": lambda *_: RERANK_TIMEOUT_S}
    limited = LimitedPort(port, label, limits, meter, checks={"rank": scores}, rests=True)
    rank: Reranker = limited.rank
    return rank


def _of_texts(label: str, what: str, answer: Iterable[T], texts: Sequence[str]) -> list[T]:
    """Return an answer if it has as many parts as there are texts."""
    found = list(answer)
    if len(found) != len(texts):
        raise PortError(label, f"gave {len(found)} {what} for {len(texts)} texts")
    return found


def limited_arbiter(arbiter: Arbiter, meter: Meter | None = None) -> Arbiter:
    """Return *arbiter* limited to 30 seconds per decision."""
    limits = {"decide": lambda *_: DECIDE_TIMEOUT_S}
    return LimitedPort(arbiter, f"arbiter {arbiter.name!r}", limits, meter)


def limited_counter(counter: TokenCounter, meter: Meter | None = None) -> TokenCounter:
    """Return *counter* limited to 10 seconds per call."""
    limits = {"count": lambda *_: COUNT_TIMEOUT_S, "count_many": lambda *_: COUNT_TIMEOUT_S}
    return LimitedPort(counter, f"counter {counter.name!r}", limits, meter)


class ModelCaller:
    """
    Calls *model* with a timeout, retries and a budget; it is a `Model` itself.

    Thread-safe. `calls` is the number of attempts so far, for reports.
    """

    __slots__ = (
        "_clock",
        "_lock",
        "_max_calls",
        "_meter",
        "_model",
        "_retries",
        "_timeout_s",
        "_wait",
        "calls",
        "name",
    )

    def __init__(
        self,
        model: Model,
        *,
        timeout_s: float = 30.0,
        retries: int = 2,
        max_calls: int | None = None,
        meter: Meter | None = None,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Wrap *model*.

        Args:
            model: The model to call.
            timeout_s: Time for an answer, with all attempts and the pauses.
            retries: The largest number of further attempts after a transient failure.
            max_calls: The largest number of attempts of this object; None means no limit.
            meter: Records each attempt, also one that fails; None records nothing.
            wait: Sleeps for a number of seconds.
            clock: Returns monotonic seconds.

        Raises:
            InvalidInput: a number is out of range.
        """
        self._timeout_s = timeout_value(timeout_s, "timeout_s")
        self._retries = int_value(retries, "retries", 0, 100)
        self._max_calls = (
            None if max_calls is None else int_value(max_calls, "max_calls", 0, MAX_INT)
        )
        self._model = model
        self._meter = meter
        self._wait = wait
        self._clock = clock
        self._lock = Lock()
        self.name = model.name
        self.calls = 0

    def __repr__(self) -> str:
        """Return the model's name and the number of calls, without addresses or keys."""
        return f"ModelCaller({self.name!r}, calls={self.calls})"

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        max_tokens: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """
        Return the model's answer: a str without NUL and lone surrogates.

        A transient failure (`is_transient`) and an answer that cannot be stored
        are retried after 0.5, 1, 2 ... at most 8 seconds, within the timeout.

        Args:
            messages: As of `memdb.models.protocols.Model`.
            schema: As of `memdb.models.protocols.Model`.
            timeout_s: For this answer; None means the object's.
            max_tokens: As of `memdb.models.protocols.Model`.
            cancelled: Polled between attempts and during each.

        Raises:
            PortError: no answer came, the timeout passed, the call was
                cancelled, or the budget is used up. The error contains no secret.
            InvalidInput: *timeout_s* is not a timeout.
        """
        whole_s = self._timeout_s if timeout_s is None else timeout_value(timeout_s, "timeout_s")
        deadline = self._clock() + whole_s
        failure: PortError | None = None
        for attempt in range(self._retries + 1):
            if failure is not None and not self._pause(attempt, deadline):
                break
            if cancelled is not None and cancelled():
                raise PortError(self.name, "cancelled") from failure
            self._spend(failure)
            left_s = whole_s if failure is None else deadline - self._clock()
            try:
                return call_within(
                    partial(self._ask, messages, schema, left_s, max_tokens),
                    name=self.name,
                    timeout_s=left_s,
                    meter=self._meter,
                    label=f"model {self.name!r}",
                    cancelled=cancelled,
                )
            except PortError as error:
                failure = error
            if not failure.retryable:
                break
        assert failure is not None
        raise failure

    def _pause(self, attempt: int, deadline: float) -> bool:
        """Wait before *attempt*, from 1; return False if no time is left for it."""
        pause_s = min(FIRST_WAIT_S * 2.0 ** (attempt - 1), MAX_WAIT_S)
        if self._clock() + pause_s >= deadline:
            return False
        self._wait(pause_s)
        return self._clock() < deadline

    def _spend(self, failure: PortError | None) -> None:
        """Take one attempt from the budget."""
        with self._lock:
            if self._max_calls is None or self.calls < self._max_calls:
                self.calls += 1
                return
        raise PortError(
            self.name,
            f"the budget of {self._max_calls} calls is used up: raise it with a larger max_calls, "
            "or None for no limit",
        ) from failure

    def _ask(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any] | None,
        timeout_s: float,
        max_tokens: int | None,
        stopped: Callable[[], bool],
    ) -> str:
        """Return the answer of one attempt, as a text that can be stored."""
        answer: object = self._model.complete(
            messages, schema=schema, timeout_s=timeout_s, max_tokens=max_tokens, cancelled=stopped
        )
        if not isinstance(answer, str):
            raise Unreadable(self.name, f"it gave {type(answer).__name__} for an answer, not str")
        try:
            return text_value(answer, "its answer")
        except InvalidInput as error:
            raise Unavailable(self.name, str(error)) from error
