"""Who writes without a pause lets waiting writers go first, for a moment; nobody waits for long."""

from collections.abc import Callable
from itertools import count
from typing import Any

import apsw
import pytest

from memdb import MemDB
from memdb.engine.sqlite import connection, writer
from memdb.engine.sqlite.writer import LEAST_MS, MOST_S, TIMES, Turns
from memdb.errors import Busy


class Clock:
    """The time that this module sees; sleeping takes exactly what was asked for."""

    def __init__(self) -> None:
        """Begin at some time, without a sleep."""
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the time that turns and busy handlers see."""
    clock = Clock()
    monkeypatch.setattr(connection, "time", clock)
    monkeypatch.setattr(writer, "monotonic", clock.monotonic)
    monkeypatch.setattr(writer, "sleep", clock.sleep)
    return clock


class Lock:
    """The lock of writers, which another process has *times* times when it is asked for."""

    def __init__(self, turn: Turns, times: int = 0) -> None:
        """Let *turn* wait for it."""
        self.turn = turn
        self.times = times
        self.asked = 0

    def begin(self) -> None:
        """Take it, or ask the busy handler as SQLite does."""
        for tries in count():
            self.asked += 1
            if not self.times:
                return
            self.times -= 1
            if not self.turn(tries):
                raise Busy("the lock is taken")


def write_for(turn: Turns, timer: Clock, seconds: float) -> None:
    """Write without a pause, a commit each 0.1 ms."""
    end = timer.now + seconds
    while timer.now < end:
        turn.begin(Lock(turn).begin, int)
        timer.now += 0.0001
        turn.end()


@pytest.mark.parametrize("seconds", [0.0005, 0.001, 0.003, 1.0])
def test_others_go_first_for_as_long_as_the_own_turn_says(timer: Clock, seconds: float) -> None:
    """Eight times as long, and never longer than the most."""
    turn = Turns(10_000)
    write_for(turn, timer, seconds)
    lock = Lock(turn, times=1)
    others = count()
    assert timer.slept == []

    turn.begin(lock.begin, lambda: next(others))

    assert sum(timer.slept) == pytest.approx(min(MOST_S, seconds * TIMES), abs=0.001)
    assert lock.asked == 2


def test_nobody_goes_first_for_longer_than_somebody_writes(timer: Clock) -> None:
    """A commit now and then costs a busy writer one look, not its share of the time."""
    turn = Turns(10_000)
    write_for(turn, timer, 1)

    turn.begin(Lock(turn, times=1).begin, lambda: 7)

    assert timer.slept == [writer.PAUSES_S[0]]


def test_who_writes_now_and_then_does_not_let_others_go_first(timer: Clock) -> None:
    """It asks again at once, until it has the lock."""
    turn = Turns(10_000)
    write_for(turn, timer, 1)
    timer.now += 0.1
    lock = Lock(turn, times=3)

    turn.begin(lock.begin, pytest.fail)

    assert lock.asked == 4
    assert max(timer.slept) <= connection.BUSY_SLEEP_S


def test_the_next_turn_begins_when_the_lock_was_got(timer: Clock) -> None:
    """The time in which others went first is no part of it."""
    turn = Turns(10_000)
    write_for(turn, timer, 1)
    others = count()
    turn.begin(Lock(turn, times=5).begin, lambda: next(others))
    turn.end()
    timer.slept.clear()

    turn.begin(Lock(turn, times=1).begin, lambda: next(others))

    assert sum(timer.slept) < 0.001


@pytest.mark.parametrize("timeout_ms", [0, LEAST_MS - 1, LEAST_MS, 1000])
def test_the_timeout_holds_in_a_turn(timer: Clock, timeout_ms: int) -> None:
    """Busy after it; a short one is not made longer by letting others go first."""
    turn = Turns(timeout_ms)
    write_for(turn, timer, 1)
    others = count()
    start = timer.now

    with pytest.raises(Busy):
        turn.begin(Lock(turn, times=1 << 30).begin, lambda: next(others))

    most = timeout_ms / 1000 + connection.BUSY_SLEEP_S + (MOST_S if timeout_ms >= LEAST_MS else 0)
    assert timeout_ms / 1000 <= timer.now - start <= most


def test_an_error_of_the_look_is_left_to_the_write(timer: Clock) -> None:
    """The lock is asked for, and what is wrong is said there."""
    turn = Turns(10_000)
    write_for(turn, timer, 1)
    lock = Lock(turn, times=1)

    def fail() -> int:
        raise Busy("recovery")

    turn.begin(lock.begin, fail)

    assert lock.asked == 2
    assert timer.slept == []


def test_an_exception_in_a_turn_leaves_the_handler_patient(timer: Clock) -> None:
    """Ctrl-C in the first try does not make a later statement give up at once."""
    turn = Turns(10_000)
    write_for(turn, timer, 1)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn.begin(interrupt, int)

    assert turn(0)


def test_writers_of_two_connections_both_get_on(path: str, open_db: Callable[..., MemDB]) -> None:
    """Neither has to stop for the other to write, and nothing is lost."""
    one, two = (open_db(path).scope("ann").session(name) for name in ("one", "two"))
    for n in range(200):
        one.append("user", f"tea {n}")
        two.append("user", f"tea {n}")

    assert one.last(1000)[-1].seq == two.last(1000)[-1].seq == 200


def test_a_held_lock_is_busy_also_in_a_turn(
    path: str, open_db: Callable[..., MemDB], raw: Any
) -> None:
    """After the timeout, with nothing written; then the same call works."""
    chat = open_db(path, timeout_ms=LEAST_MS).scope("ann").session("s")
    other: apsw.Connection = raw(path)
    for n in range(20):
        chat.append("user", f"tea {n}")
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(Busy):
        chat.append("user", "coffee")

    other.execute("ROLLBACK")
    assert chat.append("user", "coffee").seq == 21
