"""
Several processes write all kinds of things at once, and are killed or stopped at any moment.

Each says what was acknowledged. Afterwards all of it is there, nothing that was forgotten
is back, messages are gapless, and the file is sound.
"""

from __future__ import annotations

import json
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from counters import count

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

WRITER = """
import json, random, sys, memdb
path, who, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(seed)
policy = {"summary_messages": 4, "summary_condense_at": 4, "summary_group": 3}
def tell(**what):
    print(json.dumps(what), flush=True)
with memdb.open(path, embedder=None, counter="estimate", settings=policy,
                durability=chance.choice(["power", "process"])) as db:
    ann = db.scope("ann")
    chat, own = ann.session("shared"), ann.session(who)
    tell(kind="ready")
    n = 0
    while True:
        n += 1
        text = f"{who} {n} " + "x" * (n * 37 % 900)
        kind = chance.choice(["message"] * 5 + ["entry", "artifact", "forget", "tree", "state"])
        if kind == "message":
            tell(kind=kind, seq=chat.append("user", text).seq, text=text)
        elif kind == "entry":
            tell(kind=kind, id=ann.remember(f"Fact {who} {n}.", key=f"{who} {n}").entry.id,
                 text=f"Fact {who} {n}.")
        elif kind == "artifact":
            data = text * (n % 60)
            version = own.artifacts.save("file", data).version
            tell(kind=kind, session=who, version=version, size=len(data))
        elif kind == "state":
            own.state["n"] = n
            tell(kind=kind, session=who, value=n)
        elif kind == "forget":
            stored = [one.seq for one in own.extend([{"role": "user", "text": "y"}] * 3)]
            own.forget(stored[0])
            tell(kind=kind, session=who, seq=stored[0])
        else:
            chance.choice([lambda: db.jobs.run(), lambda: own.archive(keep_last=3),
                           lambda: own.summaries.compact(), lambda: own.unarchive()])()
"""

# Each step of the engine may wait, as on a busy machine, so that any other process acts in between.
HESITANT = """
import os, random, time, types
from memdb.engine.sqlite import connection, pool, wal_guard, wal_sync
pause = random.Random(os.getpid())
def hesitate(method):
    def call(*given, **named):
        if pause.random() < 0.05:
            time.sleep(0.06 * pause.random() ** 3)
        return method(*given, **named)
    return call
for kind in (connection.Tx, pool.ConnectionPool, wal_guard.WalGuard, wal_sync.SharedSync):
    for name, method in [*vars(kind).items()]:
        if isinstance(method, types.FunctionType) and not name.startswith("__"):
            setattr(kind, name, hesitate(method))
"""


def lines_of(child: Any) -> list[dict[str, Any]]:
    """Return what a process that has ended had acknowledged."""
    return [json.loads(line) for line in child.stdout.read().split("\n")[:-1]]


def shake(
    path: str,
    start_child: Callable[..., Any],
    chance: random.Random,
    number: int,
    writers: int,
    program: str = WRITER,
) -> list[dict[str, Any]]:
    """Let writers work, stop and go on some of them, kill all; return what they acknowledged."""
    children = [
        start_child(program, path, f"r{number}w{one}", chance.randrange(10**6))
        for one in range(writers)
    ]
    for child in children:
        assert json.loads(child.stdout.readline()) == {"kind": "ready"}, child.stderr.read()
    heard = [child.stdout.readline() for child in children for _ in range(chance.randrange(9))]
    done = [json.loads(line) for line in heard]
    stopped = chance.choice(children)
    time.sleep(chance.uniform(0, 0.05))
    stopped.send_signal(signal.SIGSTOP)
    count("stops")
    time.sleep(chance.uniform(0, 0.05))
    if chance.random() < 0.5:
        stopped.send_signal(signal.SIGCONT)
    for child in children:
        time.sleep(chance.uniform(0, 0.03))
        assert child.poll() is None, child.stderr.read()
        child.send_signal(signal.SIGKILL)
        count("kills")
    for child in children:
        done += lines_of(child)
        child.wait(60)
    count("acknowledged", len(done))
    return done


def what_is_missing(path: str, done: list[dict[str, Any]]) -> list[str]:
    """Return what was acknowledged and is not in the file, and what `check` finds."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        ann = db.scope("ann")
        seqs = [one.seq for one in ann.session("shared").messages()]
        wrong = ["a gap"] * (seqs != list(range(1, len(seqs) + 1)))
        wrong += [f"lost: {one}" for one in done if not is_kept(ann, one)]
        return wrong + list(map(str, db.file.check(deep=True)))


def is_kept(ann: memdb.Scope, one: dict[str, Any]) -> bool:
    """Return whether one acknowledged write is in the file."""
    chat = ann.session(one.get("session", "shared"))
    if one["kind"] == "message":
        return chat.get(one["seq"]).text == one["text"]
    if one["kind"] == "entry":
        return ann.entries.get(one["id"]).text == one["text"]
    if one["kind"] == "artifact":
        return len(chat.artifacts.load("file", one["version"]).data) == one["size"]
    if one["kind"] == "state":
        return bool(chat.state.get("n", 0) >= one["value"])
    return one["seq"] not in {message.seq for message in chat.messages()}


def shake_often(
    path: str,
    start_child: Callable[..., Any],
    rounds: int,
    seed: int,
    writers: int,
    program: str = WRITER,
) -> int:
    """Kill all writers in each of so many rounds; return how much was acknowledged."""
    chance = random.Random(seed)
    total = 0
    for number in range(rounds):
        done = shake(path, start_child, chance, number, writers, program)
        assert what_is_missing(path, done) == []
        total += len(done)
    return total


def test_killed_and_stopped_writers_lose_nothing(
    path: str, start_child: Callable[..., Any]
) -> None:
    """Three writers at once."""
    assert shake_often(path, start_child, 1, seed=1, writers=3) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_killed_writers_lose_nothing(
    path: str, start_child: Callable[..., Any], seed: int
) -> None:
    """Four at once, in 25 rounds on one growing file."""
    assert shake_often(path, start_child, 25, seed, writers=4) > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_hesitant_writers_that_are_killed_lose_nothing(
    path: str, start_child: Callable[..., Any], seed: int
) -> None:
    """What a machine full of other programs shows once in a thousand rounds."""
    assert shake_often(path, start_child, 12, seed, 4, HESITANT + WRITER) > 50
