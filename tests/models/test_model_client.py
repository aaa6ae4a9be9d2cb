"""Calling a model: time, retries, budget, checks; fake models through the port only."""

import contextvars
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memdb.errors import Busy, InvalidInput, PortError, Unavailable
from memdb.models import model_client
from memdb.models.model_client import ModelCaller, is_transient, port_error, run_within
from memdb.models.protocols import Model

SAY_HI = [{"role": "user", "content": "hi"}]
SECRET = "sk-verysecret123"


class FakeModel:
    """Answers by `script`, one item per call: an exception, a function or the answer itself."""

    name = "fake"

    def __init__(self, *script: object) -> None:
        """Play *script*; its last item again and again."""
        self.script = script
        self.asked: list[dict[str, Any]] = []

    def complete(self, messages: Any, **options: Any) -> Any:
        """Play the next item."""
        self.asked.append({"messages": messages, **options})
        item = self.script[min(len(self.asked), len(self.script)) - 1]
        if isinstance(item, BaseException):
            raise item
        return item(options) if callable(item) else item


class Time:
    """A clock that moves only by waiting; `waits` are the pauses."""

    def __init__(self) -> None:
        """Start at 100."""
        self.now = 100.0
        self.waits: list[float] = []

    def wait(self, pause_s: float) -> None:
        """Let *pause_s* pass."""
        self.waits.append(pause_s)
        self.now += pause_s


class Status(Exception):
    """As clients of HTTP raise it."""

    def __init__(self, status_code: int) -> None:
        """Hold the status."""
        super().__init__(f"status {status_code} came back")
        self.status_code = status_code


@pytest.fixture
def timer() -> Time:
    """Return a time that stands still."""
    return Time()


@pytest.fixture
def make(timer: Time) -> Callable[..., ModelCaller]:
    """Return a function that guards a model playing a script."""

    def caller(*script: object, **options: Any) -> ModelCaller:
        options = {"wait": timer.wait, "clock": lambda: timer.now, **options}
        return ModelCaller(FakeModel(*script), **options)

    return caller


@pytest.fixture
def hang() -> Iterator[Callable[[object], str]]:
    """Return a script item that blocks until the test ends."""
    release = threading.Event()

    def block(_options: object) -> str:
        release.wait(3600)  # longer than a test may take
        return "too late"

    yield block
    release.set()


def failure(caller: ModelCaller, **options: Any) -> PortError:
    """Return the error that an answer ends in."""
    with pytest.raises(PortError) as caught:
        caller.complete(SAY_HI, **options)
    assert caught.value.name == "fake"
    return caught.value


def test_an_answer_passes_through(make: Callable[..., ModelCaller]) -> None:
    """With all that was asked; the caller is a model itself."""
    caller = make("hello", timeout_s=5)

    assert caller.complete(SAY_HI, schema={"type": "object"}, max_tokens=9) == "hello"
    (asked,) = caller._model.asked
    assert not asked.pop("cancelled")()
    assert asked == {
        "messages": SAY_HI,
        "schema": {"type": "object"},
        "timeout_s": 5,
        "max_tokens": 9,
    }
    assert isinstance(caller, Model)
    assert (caller.name, caller.calls, repr(caller)) == ("fake", 1, "ModelCaller('fake', calls=1)")


def test_failures_that_may_pass_are_tried_again(
    make: Callable[..., ModelCaller], timer: Time
) -> None:
    """After 0.5 and 1 seconds, each time with the time that is left."""
    caller = make(ConnectionError("reset by peer"), Unavailable("fake", "busy"), "at last")

    assert caller.complete(SAY_HI) == "at last"
    assert timer.waits == [0.5, 1.0]
    assert [asked["timeout_s"] for asked in caller._model.asked] == [30, 29.5, 28.5]
    assert caller.calls == 3


def test_pauses_double_up_to_eight_seconds(make: Callable[..., ModelCaller], timer: Time) -> None:
    """And are the same in each run."""
    caller = make(TimeoutError("slow today"), retries=6, timeout_s=600)

    failure(caller)

    assert timer.waits == [0.5, 1, 2, 4, 8, 8]
    assert caller.calls == 7


def test_retries_end_with_the_time(make: Callable[..., ModelCaller], timer: Time) -> None:
    """A pause that reaches the deadline is not begun; the model's own failure is told."""
    error = failure(make(OSError("no route to host"), retries=50, timeout_s=4))

    assert timer.waits == [0.5, 1, 2]
    assert str(error) == "fake failed: no route to host"


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (PortError("fake", "refused"), 1),
        (Unavailable("fake", "busy"), 3),
        (InvalidInput("no such role"), 1),
        (Busy("locked"), 3),
        (TypeError("complete() got an unexpected keyword"), 1),
        (KeyError("choices"), 1),
        (ConnectionError("reset by peer"), 3),
        (RuntimeError("out of memory"), 3),
        (Status(401), 1),
        (Status(429), 3),
        (Status(503), 3),
        (SystemExit("bye"), 1),
    ],
    ids=repr,
)
def test_only_what_may_pass_is_tried_again(
    make: Callable[..., ModelCaller], error: BaseException, calls: int
) -> None:
    """A refusal and a fault of the program would only fail again."""
    caller = make(error)

    failure(caller)

    assert caller.calls == calls


@pytest.mark.parametrize(
    ("answer", "calls", "match"),
    [
        ("a\0b", 3, "NUL"),
        ("a\ud800b", 3, "lone surrogate"),
        (None, 1, "gave NoneType"),
        (b"bytes", 1, "gave bytes"),
    ],
    ids=["NUL", "surrogate", "None", "bytes"],
)
def test_what_cannot_be_stored_is_no_answer(
    make: Callable[..., ModelCaller], answer: object, calls: int, match: str
) -> None:
    """Garbage is asked for again, another type is a broken port."""
    caller = make(answer)

    error = failure(caller)

    assert match in str(error)
    assert caller.calls == calls


def test_an_empty_answer_is_one(make: Callable[..., ModelCaller]) -> None:
    """There may be nothing to say."""
    assert make("").complete(SAY_HI) == ""


def test_a_blocked_model_is_given_up(
    make: Callable[..., ModelCaller], hang: Callable[..., str]
) -> None:
    """It looks at no timeout and is left behind; the time is used up, so nothing is repeated."""
    caller = make(hang, timeout_s=0.05)

    error = failure(caller)

    assert str(error).startswith("fake failed: no answer within 0.05 s")
    assert caller.calls == 1


def test_a_model_that_was_given_up_is_told(make: Callable[..., ModelCaller]) -> None:
    """Its `cancelled` says so, if it asks."""
    told = threading.Event()

    def patient(options: dict[str, Any]) -> str:
        for _ in range(12_000):
            if options["cancelled"]():
                told.set()
                break
            time.sleep(0.005)
        return ""

    failure(make(patient, timeout_s=0.02))

    assert told.wait(60)


def test_an_own_time_for_one_answer(
    make: Callable[..., ModelCaller], hang: Callable[..., str]
) -> None:
    """It takes the place of the object's."""
    assert "within 0.01 s" in str(failure(make(hang, timeout_s=60), timeout_s=0.01))


def test_cancelling_before_the_first_attempt(make: Callable[..., ModelCaller]) -> None:
    """The model is not asked at all, and nothing is spent."""
    caller = make("hello")

    assert str(failure(caller, cancelled=lambda: True)) == "fake failed: cancelled"
    assert caller.calls == 0


def test_cancelling_between_attempts(make: Callable[..., ModelCaller], timer: Time) -> None:
    """What comes after the pause is not done any more."""
    caller = make(ConnectionError("reset by peer"))

    error = failure(caller, cancelled=lambda: bool(timer.waits))

    assert "cancelled" in str(error)
    assert caller.calls == 1


def test_cancelling_in_the_middle(
    make: Callable[..., ModelCaller], hang: Callable[..., str]
) -> None:
    """A model that blocks does not hold the caller."""
    caller = make(hang)

    error = failure(caller, cancelled=lambda: caller.calls == 1)

    assert "cancelled" in str(error)


def test_the_budget_counts_attempts(make: Callable[..., ModelCaller]) -> None:
    """When it is used up the error says how to raise it, and the model is left alone."""
    caller = make("one", "two", "three", max_calls=2)
    answers = [caller.complete(SAY_HI), caller.complete(SAY_HI)]

    error = failure(caller)

    assert answers == ["one", "two"]
    assert "budget of 2 calls is used up: raise it with a larger max_calls" in str(error)
    assert (caller.calls, len(caller._model.asked)) == (2, 2)


def test_retries_are_paid_too(make: Callable[..., ModelCaller]) -> None:
    """The failure before stays known as the cause."""
    error = failure(make(ConnectionError("reset by peer"), max_calls=1))

    assert "budget of 1 calls" in str(error)
    assert str(error.__cause__) == "fake failed: reset by peer"


def test_threads_share_the_budget(make: Callable[..., ModelCaller]) -> None:
    """No two take the same attempt."""
    caller = make("hello", max_calls=20)
    outcomes: list[str] = []

    def ask() -> None:
        for _ in range(10):
            try:
                outcomes.append(caller.complete(SAY_HI))
            except PortError:
                outcomes.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (outcomes.count("hello"), outcomes.count("refused"), caller.calls) == (20, 20, 20)


def with_cause() -> Exception:
    """Return an error that is harmless itself, from one that is not."""
    error = RuntimeError("it went wrong")
    error.__cause__ = ValueError(f"Authorization: Bearer {SECRET}")
    return error


def with_note() -> Exception:
    """Return an error with a secret in its note."""
    error = RuntimeError("it went wrong")
    error.add_note(f"key was {SECRET}")
    return error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(f"bad key {SECRET}"),
        PortError("fake", f"bad key {SECRET}"),
        PortError(f"other {SECRET}", "bad key"),
        Unavailable("fake", f"http://ann:{SECRET}@host/v1"),
        with_cause(),
        with_note(),
    ],
    ids=["any", "port", "its name", "retryable", "in the cause", "in a note"],
)
def test_no_secret_is_in_an_error(make: Callable[..., ModelCaller], error: Exception) -> None:
    """Neither in its text nor in what a traceback or a pickle shows."""
    found = failure(make(error, retries=0))

    assert SECRET not in str(found) + repr(found) + str(pickle.dumps(found))
    assert SECRET not in "".join(traceback.format_exception(found))


def test_a_harmless_cause_is_kept(make: Callable[..., ModelCaller]) -> None:
    """Whoever debugs a model sees where it failed."""
    error = ValueError("unknown option")

    found = failure(make(error))

    assert found.__cause__ is error
    assert str(found) == "fake failed: unknown option"


def test_an_error_of_the_port_stays_itself(make: Callable[..., ModelCaller]) -> None:
    """Class and facts of the model's own error reach the caller."""
    error = Unavailable("fake", "busy")

    assert failure(make(error)) is error


def test_a_long_error_is_cut() -> None:
    """A page of HTML is no sentence."""
    text = str(port_error("fake", RuntimeError("<p>  oops\n" * 1000)))

    assert len(text) < model_client.MAX_ERROR_CHARS + 50
    assert text.startswith("fake failed: <p> oops <p> oops")


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"timeout_s": float("inf")},
        {"timeout_s": "5"},
        {"timeout_s": True},
        {"retries": -1},
        {"retries": 1.5},
        {"max_calls": -1},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(
    make: Callable[..., ModelCaller], options: dict[str, Any]
) -> None:
    """Before any call, by the name of the argument."""
    with pytest.raises(InvalidInput, match=next(iter(options))):
        make("hello", **options)


def test_work_sees_the_context_of_its_caller() -> None:
    """Tracing and the like go on in the thread."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    variable.set("mine")

    assert run_within(lambda _: variable.get(), name="fake", timeout_s=5) == "mine"


def test_a_port_that_always_hangs_is_left_alone(
    hang: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads do not pile up for ever."""
    monkeypatch.setattr(model_client, "MAX_HANGING", 2)
    for _ in range(2):
        with pytest.raises(PortError, match="no answer"):
            run_within(hang, name="hanging", timeout_s=0.01)

    with pytest.raises(PortError, match="2 earlier calls still hang"):
        run_within(hang, name="hanging", timeout_s=0.01)
    assert run_within(lambda _: 1, name="another", timeout_s=5) == 1


def test_an_interrupted_wait_gives_up_the_work(hang: Callable[..., str]) -> None:
    """Ctrl-C while waiting ends the call as a timeout does, and is not swallowed."""
    hung_up: list[int] = []

    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_within(
            hang, name="fake", timeout_s=5, cancelled=interrupt, abandon=lambda: hung_up.append(1)
        )

    assert hung_up == [1]


def test_a_plain_exit_is_no_passing_failure() -> None:
    """Only exceptions may pass."""
    assert not is_transient(KeyboardInterrupt())
