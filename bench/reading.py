"""
Reading from a file of a million messages: recall in scopes of three sizes, and the last 50.

    python bench/reading.py [--rows 1000000] [--calls 60] [--folder FOLDER] [--profile WAY]

The scopes have 1,000, 10,000 and 100,000 embedded messages in sessions of 500; other users have
the rest. CPU time of the thread; ten rounds with the scopes in random order, and the questions of
each. Embedding the question is part of a recall. The last 50 are compared with the same columns read with apsw.
"""

from __future__ import annotations

import argparse
import cProfile
import platform
import pstats
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import apsw
import corpus
import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

    Ways = dict[tuple[int, str], list[Callable[[], object]]]

SIZES = (1_000, 10_000, 100_000)
OTHERS = 10_000
SESSION = 500
SEED = 20261122
ROUNDS = 10
BARS_MS = {
    (1_000, "mixed"): 2,
    (1_000, "ten common"): 2,
    (10_000, "mixed"): 4,
    (10_000, "ten common"): 4.5,
    (100_000, "mixed"): 8,
    (100_000, "ten common"): 10,
    (100_000, "grouped"): 15,
}

LAST = """
SELECT
  id & 16777215, role, author, text, parts, tokens, counter, external_id, created_ms, metadata,
  ?, id, uid
FROM messages WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 50
"""

SESSION_OF = """
SELECT sessions.id FROM sessions JOIN scopes ON scopes.scope_no = sessions.id >> 44
WHERE scopes.user_name = ? AND sessions.name = 's1'
"""


def fill(path: Path, rows: int) -> None:
    """Make the file: the measured users first, their vectors made, then the others."""
    with memdb.open(path, durability="process") as db:
        left = rows
        for size in SIZES:
            if size <= left:
                add_user(db, f"u{size}", size)
                left -= size
        db.jobs.run(kinds=("embed",))
        for number in range(left // OTHERS):
            add_user(db, f"other{number}", OTHERS)


def add_user(db: memdb.MemDB, user: str, size: int) -> None:
    """Store *size* messages of two people in sessions of 500."""
    texts = corpus.texts(size, seed=sum(user.encode()))
    for at in range(0, size, SESSION):
        db.scope(user).session(f"s{at // SESSION}").extend(
            [
                memdb.NewMessage("user", text, author=("Ann", "Bob")[place % 2])
                for place, text in enumerate(texts[at : at + SESSION])
            ]
        )


def ways_of(db: memdb.MemDB, sizes: list[int], calls: int) -> Ways:
    """Return what is measured, by size and kind of question: one call for each question."""
    mixed, common = corpus.queries(calls), corpus.common_queries(calls)
    found: Ways = {}
    for size in sizes:
        recall = db.scope(f"u{size}").recall
        found[size, "mixed"] = [partial(recall, text, 10) for text in mixed]
        found[size, "ten common"] = [partial(recall, text, 10) for text in common]
        found[size, "grouped"] = [partial(recall, text, 10, group="session") for text in mixed]
        found[size, "words only"] = [partial(recall, text, 10, by="words") for text in mixed]
    return found


def measure(ways: Ways) -> dict[tuple[int, str], list[float]]:
    """Return the CPU time in ms of every call, rising; each scope has a part of each round."""
    chance = random.Random(SEED)
    took: dict[tuple[int, str], list[float]] = {name: [] for name in ways}
    plans = {}
    for size in {size for size, _ in ways}:
        calls = [(name, call) for name, some in ways.items() if name[0] == size for call in some]
        plans[size] = chance.sample(calls, len(calls))
    for part in range(ROUNDS):
        for size in chance.sample(sorted(plans), len(plans)):
            plans[size][0][1]()  # of a scope that is asked for the first time in a while
            for name, call in plans[size][part::ROUNDS]:
                start = time.thread_time()
                call()
                took[name].append((time.thread_time() - start) * 1000)
                units.turn()
    return {name: sorted(some) for name, some in took.items()}


def measure_last(db: memdb.MemDB, path: Path, user: str, times: int = 2_000) -> None:
    """Print what the last 50 messages cost, and what the same columns cost by hand."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    raw = apsw.Connection(f"file:{path}?mode=ro", flags=flags)
    raw.execute("PRAGMA mmap_size = 268435456").fetchall()
    ((first,),) = raw.execute(SESSION_OF, (user,)).fetchall()
    assert isinstance(first, int)
    chat, span = db.scope(user).session("s1"), ("s1", first, first + (1 << 24))
    texts = [row[3] for row in reversed(raw.execute(LAST, span).fetchall())]
    assert texts == [one.text for one in chat.last(50)]
    ways: dict[str, Callable[[], object]] = {
        "memdb": lambda: chat.last(50),
        "apsw": lambda: raw.execute(LAST, span).fetchall(),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    chance = random.Random(SEED)
    for _ in range(times):
        for name in chance.sample(sorted(ways), 2):
            start = time.perf_counter()
            ways[name]()
            took[name].append((time.perf_counter() - start) * 1e6)
    own, other = (median(took[name]) for name in ways)
    print(f"last 50: {own:.0f} us, apsw {other:.0f} us, {own / other:.2f} x (bar 1.8)")
    raw.close()


def profile(calls: list[Callable[[], object]]) -> None:
    """Print where the time of all *calls* goes."""
    calls[0]()
    profiler = cProfile.Profile()
    profiler.enable()
    for call in calls:
        call()
    profiler.disable()
    pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(40)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="keeps the file for the next run")
    parser.add_argument("--profile", metavar="WAY", help="such as '100000 mixed'")
    given = parser.parse_args()
    print(f"memdb {memdb.__version__}  python {platform.python_version()}  seed {SEED}")
    with tempfile.TemporaryDirectory() as scratch:
        path = (given.folder or Path(scratch)) / f"reading-{given.rows}.db"
        if not path.exists():
            fill(path, given.rows)
        with memdb.open(path, durability="process") as db:
            ways = ways_of(db, [size for size in SIZES if size <= given.rows], given.calls)
            if given.profile:
                size, _, kind = given.profile.partition(" ")
                profile(ways[int(size), kind])
                return
            for (of, kind), took in measure(ways).items():
                bar = BARS_MS.get((of, kind), "-")
                print(
                    f"recall of {of:>7,}, {kind:10} least {took[0]:6.2f}  "
                    f"p50 {median(took):6.2f}  p90 {took[len(took) * 9 // 10]:6.2f} ms  bar {bar}"
                )
            measure_last(db, path, f"u{min(SIZES)}")
            print(units.line())


if __name__ == "__main__":
    main()
