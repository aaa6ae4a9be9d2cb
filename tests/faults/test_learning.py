"""Extraction and upkeep by processes that are killed, or that are many: each thing is done once."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from counters import count
from row_digests import renew_digests

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

EXTRACT = """
import json, os, random, re, sys, time, memdb

class Model:
    name = "slow"

    def complete(self, messages, *, schema=None, **_):
        if schema["title"] != "memory_extraction":
            return "[]"
        new = messages[1]["content"].partition("New messages")[2]
        told = re.findall(r"\\[(\\d+), [^]]*\\] Ann: I saw (\\w+)", new)
        time.sleep(random.uniform(0, 0.02))
        word = "".join(chr(97 + int(digit)) for digit in str(os.getpid()))
        return json.dumps([
            {"category": "events", "content": f"{name} {word}.", "message": int(seq)}
            for seq, name in told
        ])

policy = memdb.Settings(extract=True, extract_messages=5)
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process",
                model=Model() if sys.argv[2] == "model" else None, settings=policy) as db:
    db.scope("ann").recall("warm")
    print("ready", flush=True)
    if sys.argv[3] == "wait":
        sys.stdin.readline()
    db.jobs.run(kinds=("extract",))
    print("done", flush=True)
"""

UPKEEP = """
import json, sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
    print("ready", flush=True)
    sys.stdin.readline()
    ran = [step.kind for _ in range(5) for step in db._services.jobs.run_upkeep()]
    print(json.dumps(ran), flush=True)
"""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES = [f"{a}{b}{a}ville".capitalize() for a in LETTERS for b in LETTERS]


def tell(path: str, count: int, sessions: int = 1) -> None:
    """Let Ann say in each session that she saw so many towns, each another one."""
    with memdb.open(path, embedder=None, counter="estimate", durability="process") as db:
        for number in range(sessions):
            names = NAMES[number * count : (number + 1) * count]
            db.scope("ann").session(f"s{number}").extend(
                [
                    {"role": "user", "text": f"I saw {name} yesterday.", "author": "Ann"}
                    for name in names
                ]
            )


def assert_each_once(path: str, count: int, sessions: int = 1) -> None:
    """Fail unless every town is in one entry, and every session is read to its end."""
    with memdb.open(path, embedder=None, counter="estimate", settings={"extract": True}) as db:
        known = [entry.text for entry in db.scope("ann").entries.list(inactive=True)]
        towns = Counter(name for text in known for name in NAMES if name in text)
        waiting = db._services.extractions.pending()
        found = db.file.check(deep=True)
    assert towns == dict.fromkeys(NAMES[: count * sessions], 1)
    assert len(known) == count * sessions
    assert (waiting, found) == (0, [])


def kill_often(path: str, start_child: Callable[..., Any], by: str, seed: int) -> int:
    """Start extracting and kill it after a moment, until one comes to its end; how many kills."""
    moments = random.Random(seed)
    for kills in range(100):
        child = start_child(EXTRACT, path, by, "go")
        assert child.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.05 + kills / 15))
        child.kill()
        count("kills")
        if "done" in child.stdout.read():
            return kills
        child.wait(60)
        _end_leases(path)
    raise AssertionError("it never ended")


def _end_leases(path: str) -> None:
    """Let nobody wait for the dead: their leases would end by themselves in minutes."""
    with memdb.open(path, embedder=None, counter="estimate") as db, db._services.db.write() as tx:
        tx.run("UPDATE jobs SET lease_ms = 0")
        renew_digests(tx, "jobs")


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rules", "model"])
def test_killed_while_extracting_it_reads_each_message_once(
    path: str, start_child: Callable[..., Any], by: str
) -> None:
    """SIGKILL at random moments; the next process goes on where the watermark stands."""
    tell(path, 60)
    kill_often(path, start_child, by, seed=3)

    assert_each_once(path, 60)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rules", "model"])
def test_killed_a_hundred_times_it_reads_each_message_once(
    path: str, start_child: Callable[..., Any], by: str
) -> None:
    """The same over 600 messages of three sessions."""
    tell(path, 200, sessions=3)
    kills = sum(kill_often(path, start_child, by, seed) for seed in range(2))

    assert_each_once(path, 200, sessions=3)
    assert kills > 0


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rules", "model"])
def test_processes_at_once_read_each_message_once(
    path: str, start_child: Callable[..., Any], by: str
) -> None:
    """They share the sessions; whoever comes second leaves it to the first."""
    tell(path, 20, sessions=3)
    children = [start_child(EXTRACT, path, by, "wait") for _ in range(4)]
    [child.stdout.readline() for child in children]
    [(child.stdin.write("go\n"), child.stdin.flush()) for child in children]
    errors = [child.communicate(timeout=300)[1] for child in children]

    assert errors == [""] * 4
    assert_each_once(path, 20, sessions=3)


def test_processes_do_the_upkeep_once(path: str, start_child: Callable[..., Any]) -> None:
    """Each looks five times: together they do each step one time."""
    tell(path, 5)
    children = [start_child(UPKEEP, path) for _ in range(5)]
    [child.stdout.readline() for child in children]
    [(child.stdin.write("go\n"), child.stdin.flush()) for child in children]
    outcomes = [child.communicate(timeout=300) for child in children]
    ran = Counter(kind for out, _ in outcomes for kind in json.loads(out))

    assert [error for _, error in outcomes] == [""] * 5
    assert ran
    assert set(ran.values()) == {1}
