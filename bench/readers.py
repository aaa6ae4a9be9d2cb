"""
What an append costs while many threads read the same file.

    python bench/readers.py [--threads N ...] [--seconds S]

Each thread reads the last 50 messages of one of 50 sessions without a pause; one more thread
appends a hundred times a second. Prints the appends' p50, p99 and mean, how evenly the reads are
shared, and the most descriptors that the process had.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import tempfile
import threading
import time
from pathlib import Path
from statistics import mean

import corpus
import units

import memdb

SEED = 20261122
SESSIONS = 50
DESCRIPTORS = Path("/proc/self/fd")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--threads", type=int, nargs="*", default=[0, 4, 50, 200])
    parser.add_argument("--seconds", type=float, default=8)
    given = parser.parse_args()
    print(
        f"memdb {memdb.__version__}  python {platform.python_version()}  cores {os.cpu_count()}  "
        f"load {os.getloadavg()[0]:.2f}  seed {SEED}  bars at 200: p99 20 ms, 40 descriptors"
    )
    random.Random(SEED).shuffle(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        with memdb.open(path, durability="process", embedder=None) as db:
            for number in range(SESSIONS):
                texts = corpus.texts(60)
                rows = [{"role": "user", "text": text} for text in texts]
                db.scope("ann").session(f"s{number}").extend(rows)
        for threads in given.threads:
            with memdb.open(path, durability="process", embedder=None) as db:
                print(run(db, threads, given.seconds))
            units.turn(20)
        print(units.line())


def run(db: memdb.MemDB, threads: int, seconds: float) -> str:
    """Return what the appends and the reads of *threads* threads took."""
    reads = [0] * threads
    is_over = threading.Event()

    def read(number: int) -> None:
        session = db.scope("ann").session(f"s{number % SESSIONS}")
        while not is_over.is_set():
            session.last(50)
            reads[number] += 1

    workers = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    session = db.scope("bob").session("s")
    session.append("user", "the first loads what it needs")
    time.sleep(1)
    times, most, before, begun = [], 0, sum(reads), time.perf_counter()
    while time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        session.append("user", "a message of moderate length, about tea in Oslo")
        times.append(1e3 * (time.perf_counter() - start))
        most = max(most, len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.exists() else 0)
        time.sleep(0.01)
    rate = (sum(reads) - before) / (time.perf_counter() - begun)
    is_over.set()
    for worker in workers:
        worker.join()
    times.sort()
    share = f"{min(reads)}..{max(reads)}" if reads else "-"
    return (
        f"{threads:4} readers: append p50 {times[len(times) // 2]:.1f} "
        f"p99 {times[int(0.99 * (len(times) - 1))]:.1f} mean {mean(times):.1f} ms, "
        f"{rate:.0f} reads/s, {share} per thread, {most} descriptors"
    )


if __name__ == "__main__":
    main()
