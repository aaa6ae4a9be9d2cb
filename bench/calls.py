"""
What the calls of every day cost, in units and in counts, and which got slower than chance.

    python bench/calls.py [--messages 2000] [--entries 1000] [--calls N] [--against FILE] [--keep]

One user has the messages, in sessions of 500 with vectors, another one the entries. The calls
of each round come in another random order, with a turn of the units between rounds. A line has the
median of CPU time in ms and as a multiple of P (bench/units.py) with the range of the middle 80 %,
and for one call of a second pass the opcodes of SQLite and the functions of Python, which no
machine changes. `--against` compares with the runs in a file of JSON lines, `--keep` adds this
run to it, and leaves out all but the newest ten. Exit status 1: something got slower.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import apsw
import beside
import corpus
import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Calls = dict[str, Callable[[int], object]]

SEED = 20261128
SESSION = 500
KEPT = 10
THINGS = "tulip boat harbour cousin doctor violin garden winter train ticket recipe museum".split()


def statement(source: random.Random) -> str:
    """Return a statement whose words many others have too."""
    first, second, third = source.choices(THINGS, k=3)
    return f"The {first} number {source.randint(1, 10**6)} of {second} {third} costs a lot."


def fill(path: Path, messages: int, entries: int) -> None:
    """Store the messages in sessions and the entries, and run the jobs."""
    source, texts = random.Random(SEED), corpus.texts(messages, seed=7)
    quota = {"entry_quota": 2 * entries + 10_000}
    with memdb.open(path, durability="process", settings=quota) as db:
        ann = db.scope("ann")
        for at in range(0, messages, SESSION):
            rows = [{"role": "user", "text": text} for text in texts[at : at + SESSION]]
            ann.session(f"s{at // SESSION}").extend(rows)
        bob = db.scope("bob")
        bob.session("s").extend([{"role": "user", "text": text} for text in texts[:SESSION]])
        with db.transaction():
            for _ in range(entries):
                bob._services.entries.add(bob._owner, memdb.NewEntry(text=statement(source)))
        db.jobs.run()


def calls_of(db: memdb.MemDB, messages: int, rounds: int) -> Calls:
    """Return each call by its name; it takes the number of the round."""
    ann, bob, source = db.scope("ann"), db.scope("bob"), random.Random(SEED + 1)
    texts, asked = corpus.texts(rounds + 1, seed=5), corpus.queries(rounds + 1)
    told = [statement(source) for _ in range(2 * rounds + 2)]
    chat, new = ann.session(f"s{max(0, messages // SESSION - 1)}"), ann.session("new")
    return {
        "append": lambda n: new.append("user", texts[n]),
        "last 50": lambda _: chat.last(50),
        "context": lambda _: chat.context(4_000),
        "context, question": lambda n: chat.context(4_000, asked[n]),
        "recall": lambda n: ann.recall(asked[n]),
        "recall, words": lambda n: ann.recall(asked[n], by="words"),
        "context, entries": lambda _: bob.session("s").context(4_000),
        "recall, entries": lambda n: bob.recall(told[2 * n], kinds=("entry",)),
        "remember": lambda n: bob.remember(told[2 * n + 1]),
    }


def measure(path: Path, given: argparse.Namespace) -> dict[str, list[float]]:
    """Return the milliseconds of CPU of every call."""
    source = random.Random(SEED)
    quota = {"entry_quota": 2 * given.entries + 10_000}
    with memdb.open(path, durability="process", settings=quota) as db:
        calls = calls_of(db, given.messages, given.calls)
        took: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(given.calls + 1):
            for name in source.sample(sorted(calls), len(calls)):
                start = time.thread_time_ns()
                calls[name](number)
                if number:  # the first loads what a process needs
                    took[name].append((time.thread_time_ns() - start) / 1e6)
            units.turn()
    return took


def count(path: Path, given: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Return the opcodes and the functions of one call of each, the least of five."""
    seen: Counter[str] = Counter()
    with counting(seen), memdb.open(path, durability="process") as db:
        calls = calls_of(db, given.messages, 5)
        least: dict[str, dict[str, int]] = {}
        for number in range(6):
            for name, call in calls.items():
                seen.clear()
                sys.setprofile(lambda _, event, __: seen.update((event,)))
                call(number)
                sys.setprofile(None)
                found = {"opcodes": seen["opcodes"], "functions": seen["call"]}
                if number:
                    before = least.get(name, found)
                    least[name] = {key: min(before[key], found[key]) for key in found}
    return least


@contextmanager
def counting(seen: Counter[str]) -> Iterator[None]:
    """Add the opcodes of memdb's statements of this thread to *seen*."""
    me = threading.get_ident()

    def note(event: dict[str, Any]) -> None:
        if threading.get_ident() == me and event["sql"].startswith("/*"):  # FTS5's own add up
            seen["opcodes"] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)


def slower(record: dict[str, Any], before: list[dict[str, Any]]) -> list[str]:
    """
    Return a sentence for each number of *record* above what chance made of it before.

    Counts differ by less than 2 % without a cause. A time is slower if it is more than three
    standard deviations, and more than 10 %, above the mean of the runs before: at least three.
    """
    found = []
    for name, now in record["calls"].items():
        for key, room in (("opcodes", 0.02), ("functions", 0.02), ("loops", 0.1)):
            old = [one["calls"][name][key] for one in before if name in one["calls"]]
            if not old or (key == "loops" and len(old) < 3):
                continue
            limit = mean(old) * (1 + room)
            if key == "loops":
                limit = max(limit, mean(old) + 3 * stdev(old))
            if now[key] > limit:
                found.append(f"{name}: {now[key]:.4g} {key}, {mean(old):.4g} before")
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--entries", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--against", type=Path, help="JSON lines of the runs before")
    parser.add_argument("--keep", action="store_true", help="add this run to these")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.db"
        fill(path, given.messages, given.entries)
        took, counts = measure(path, given), count(path, given)
    print(f"{given.messages:,} messages, {given.entries:,} entries")
    calls = {}
    for name, some in took.items():
        p50 = median(some)
        calls[name] = {"ms": round(p50, 4), "loops": round(units.in_loop(p50), 4), **counts[name]}
        print(
            f"{name:20} p50 {p50:8.3f} ms  {units.in_loop(p50):7.3f} P  "
            f"({units.spread([units.in_loop(ms) for ms in some])})  "
            f"{counts[name]['opcodes']:8,} opcodes  {counts[name]['functions']:6,} functions"
        )
    print(units.line())
    record = beside.machine_facts() | {
        "messages": given.messages,
        "entries": given.entries,
        "calls": calls,
    }
    if given.against:
        before = beside.read_records(given.against) if given.against.exists() else []
        worse = slower(record, before)
        for sentence in worse:
            print(f"slower than chance: {sentence}")
        if given.keep:
            beside.write_records(given.against, [*before, record][-KEPT:])
        sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
