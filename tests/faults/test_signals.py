"""
An exception from a signal handler at any bytecode: Ctrl-C in a notebook, SIGALRM.

Whatever call it interrupts, the handle works afterwards: no lock is held, no transaction is
open, nothing is read from an old snapshot, and every acknowledged message is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from counters import count

if TYPE_CHECKING:
    from collections.abc import Callable

# Signals come from a thread of SQLite's own kind of rhythm: a timer of random length.
STORM = """
import random, signal, sys, threading, time
import apsw, memdb

class Stop(BaseException): pass

armed = False
def ring(*_):
    if armed:
        raise Stop
signal.signal(signal.SIGALRM, ring)
path, seed, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
db = memdb.open(path, durability="process", embedder=None, counter="estimate")
ann = db.scope("ann")
chat, other = ann.session("s"), ann.session("t")
chat.append("user", "one")
CALLS = [
    lambda: chat.append("user", "hello"), lambda: chat.append("user", "hello"),
    lambda: chat.last(3), lambda: list(chat.messages(limit=5)),
    lambda: ann.remember("a fact", key="k"), lambda: ann.recall("hello", limit=2),
    lambda: other.extend([{"role": "user", "text": "x"}] * 3),
    lambda: other.archive(keep_last=2), lambda: other.delete(), lambda: chat.context(300),
    lambda: ann.artifacts.save("user:a", b"bytes"), lambda: next(iter(db.export_lines())),
]
wrong, interrupted, acknowledged = [], 0, 1
for call in CALLS:  # Python makes a RuntimeError of what interrupts a class being made
    try:
        call()
    except memdb.NotFound:
        pass

def is_free():
    # What another thread and another program see: no lock is held.
    free = []
    def write():
        try:
            db.scope("probe").session("p").append("user", "x")
            free.append(True)
        except memdb.MemDBError as error:
            free.append(repr(error))
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(60)
    return free == [True] or f"another thread cannot write: {free}"

outside = apsw.Connection(path)
outside.set_busy_timeout(60_000)  # longer than a thread of memdb merges; a lock that is left stays
for number in range(times):
    call = CALLS[chance.randrange(len(CALLS))]
    done = False
    try:
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, 10 ** chance.uniform(-5, -2.7))
            call()
            done = True
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        interrupted += 1
    except memdb.MemDBError as error:
        if not isinstance(error, (memdb.NotFound, memdb.Interrupted)):
            wrong.append(f"{number}: {error!r}")
    if number % 10 == 0 or number == times - 1:
        free = is_free()
        if free is not True:
            wrong.append(f"{number}: {free}")
            break
        try:
            outside.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            wrong.append(f"{number}: another program cannot write")
            break
        try:
            seq = chat.append("user", "seen").seq
            if (chat.last_seq, chat.last(1)[0].seq) != (seq, seq):
                wrong.append(f"{number}: an old snapshot")
        except memdb.MemDBError as error:
            wrong.append(f"{number}: the next call fails: {error!r}")
seqs = [one.seq for one in chat.messages()]
if seqs != list(range(1, len(seqs) + 1)):
    wrong.append("a gap")
wrong += map(str, db.file.check(deep=True))
print(interrupted)
print(wrong)
"""


def storm(run_child: Callable[..., str], path: str, seed: int, times: int) -> tuple[int, str]:
    """Interrupt so many calls in a process of its own; return how many were, and what is wrong."""
    interrupted, wrong = run_child(STORM, path, seed, times).splitlines()
    count("signals", int(interrupted))
    return int(interrupted), wrong


def test_some_hundred_signals_leave_a_handle_that_works(
    run_child: Callable[..., str], path: str
) -> None:
    """How many calls are interrupted depends on the machine; some are."""
    interrupted, wrong = storm(run_child, path, 1, 600)

    assert interrupted > 10
    assert wrong == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_forty_thousand_signals_leave_a_handle_that_works(
    run_child: Callable[..., str], path: str, seed: int
) -> None:
    """In ten processes, until four thousand calls were interrupted in each."""
    interrupted: Any = 0
    for part in range(20):
        hit, wrong = storm(run_child, f"{path}.{part}", seed * 100 + part, 4_000)
        interrupted += hit
        assert wrong == "[]"
        if interrupted >= 4_000:
            break
    assert interrupted >= 4_000
