"""
The one place that calls a language model: time, retries, budget, checks.

A model is a port: it may hang, raise anything, or answer what no file can
hold. Behind a `Caller` it either gives a storable text in time or a
`PortError` without secrets.
"""

from __future__ import annotations

import time

from memdb.errors import InvalidInput, PortError
from memdb.models.deadline import Unavailable, port_error, run_within, seconds
from memdb.models.ids import MAX_INT
from memdb.text.validate import int_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from memdb.models.protocols import Model

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 8.0


class Caller:
    """
    Calls *model* with a deadline, retries and a budget; is a `Model` itself.

    Thread-safe. `calls` is the number of attempts so far, for reports.
    """

    __slots__ = (
        "_clock",
        "_lock",
        "_max_calls",
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
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Guard *model*.

        Args:
            model: What is called.
            timeout_s: For an answer, all its attempts and the waits together.
            retries: Most further attempts after a failure that may pass.
            max_calls: Most attempts in this object's life; None: no limit.
            wait: Sleeps for a number of seconds.
            clock: Gives seconds that never go back.

        Raises:
            InvalidInput: a number is out of range.
        """
        from threading import Lock

        self._timeout_s = seconds(timeout_s, "timeout_s")
        self._retries = int_value(retries, "retries", 0, 100)
        self._max_calls = (
            None if max_calls is None else int_value(max_calls, "max_calls", 0, MAX_INT)
        )
        self._model = model
        self._wait = wait
        self._clock = clock
        self._lock = Lock()
        self.name = model.name
        self.calls = 0

    def __repr__(self) -> str:
        """Name the model; nothing of how it is reached."""
        return f"Caller({self.name!r}, calls={self.calls})"

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

        A failure that may pass (`memdb.models.deadline.may_pass`) and an answer that
        cannot be stored are tried again after 0.5, 1, 2 ... at most 8 seconds,
        as long as the deadline allows.

        Args:
            messages: As of `memdb.models.protocols.Model`.
            schema: Same.
            timeout_s: For this answer; None: the object's.
            max_tokens: As of `memdb.models.protocols.Model`.
            cancelled: Asked between attempts and while one runs.

        Raises:
            PortError: no answer came, it was too late, cancelled, or the
                budget is used up. It names the model and no secret.
            InvalidInput: *timeout_s* is no time.
        """
        whole_s = self._timeout_s if timeout_s is None else seconds(timeout_s, "timeout_s")
        deadline = self._clock() + whole_s
        failure: PortError | None = None
        for attempt in range(self._retries + 1):
            if failure is not None and not self._pause(attempt, deadline):
                break
            if cancelled is not None and cancelled():
                raise PortError(self.name, "cancelled") from failure
            self._spend(failure)
            left_s = whole_s if failure is None else deadline - self._clock()
            answer = self._once(messages, schema, left_s, max_tokens, cancelled)
            if isinstance(answer, str):
                return answer
            failure = answer
            if not failure.retryable:
                break
        assert failure is not None
        raise failure

    def _pause(self, attempt: int, deadline: float) -> bool:
        """Wait before *attempt*, from 1; False: there is no time left for it."""
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

    def _once(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any] | None,
        timeout_s: float,
        max_tokens: int | None,
        cancelled: Callable[[], bool] | None,
    ) -> str | PortError:
        """
        Return the answer of one attempt, or why there is none.

        The failure is returned, not raised: raising it here would chain it to
        the model's own error, whose text may hold a secret.
        """

        def ask(stopped: Callable[[], bool]) -> object:
            return self._model.complete(
                messages,
                schema=schema,
                timeout_s=timeout_s,
                max_tokens=max_tokens,
                cancelled=stopped,
            )

        try:
            answer = run_within(ask, name=self.name, timeout_s=timeout_s, cancelled=cancelled)
        except Exception as error:  # noqa: BLE001 (a port may raise anything)
            return port_error(self.name, error)
        if not isinstance(answer, str):
            return PortError(self.name, f"it gave {type(answer).__name__} for an answer, not str")
        try:
            return text_value(answer, "its answer")
        except InvalidInput as error:
            return Unavailable(self.name, str(error))
