"""
What one append per call costs in files of 10,000 to 1,000,000 messages.

    python bench/appends.py [--messages N ...] [--appends N] [--durability MODE] [--profile]
    python bench/appends.py --writers 8 [--seconds S] [--raw]
    python bench/appends.py --bulk 100000

Prints p50, mean, p99, p99.9 and max in µs, of the clock and of the thread's own CPU time, the
sizes in random order. Beside it, 500 appends of each in turn, the raw loop: apsw writing the same
row and its words, all computed before, into a new file with the same tables. With --profile also where the time
goes, by statement. With --writers, so many processes append to one file: messages per second,
errors, lost ones, longest wait; with --raw it is the raw loop that appends. With --bulk, 1,000 messages per call beside a hand-written loop
that also counts tokens, makes ids, hashes, digests and days, and writes the same rows and index.
`chrt -f 50 python bench/appends.py` keeps other programs of a busy machine out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import apsw
import corpus
import units

import memdb
from memdb.models.ids import uuid7
from memdb.text.derived import date_spans
from memdb.text.tokens import _encoding

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SEED = 20261122
SESSION = 500
TEXTS = 20_000
TURN = 500


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--messages", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--appends", type=int, default=20_000)
    parser.add_argument("--durability", default="process", choices=["process", "power"])
    parser.add_argument("--pause-ms", type=float, default=0, help="between two appends")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--writers", type=int, default=0)
    parser.add_argument("--raw", action="store_true", help="with --writers: apsw alone")
    parser.add_argument("--bulk", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--folder", type=Path, help="keeps the files for the next run")
    given = parser.parse_args()
    print(
        f"memdb {memdb.__version__}  python {platform.python_version()}  sqlite "
        f"{apsw.sqlite_lib_version()}  cores {os.cpu_count()}  load {os.getloadavg()[0]:.2f}  "
        f"seed {SEED}  durability {given.durability}"
    )
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.bulk:
            load(Path(folder), given)
            return
        if given.writers:
            write_together(Path(folder) / "w.db", given)
            return
        random.Random(SEED + os.getpid()).shuffle(given.messages)
        for size in given.messages:
            base = (given.folder or Path(folder)) / f"base{size}.db"
            if not base.exists():
                fill(base, size)
            path = Path(folder) / "agent.db"
            for end in ("", "-wal", "-shm", "-wal.kept"):
                path.with_name(path.name + end).unlink(missing_ok=True)
            shutil.copy(base, path)
            measure(path, size, given)


def fill(path: Path, size: int) -> None:
    """Store *size* messages in sessions of 500, in scopes of 10,000."""
    texts = corpus.texts(TEXTS)
    with memdb.open(path, durability="process") as db:
        for at in range(0, size, SESSION):
            scope = db.scope(f"user{at // 10_000}")
            rows = [texts[(at + k) % TEXTS] for k in range(min(SESSION, size - at))]
            scope.session(f"s{at}").extend([{"role": "user", "text": text} for text in rows])
        upkeep = getattr(db._db, "upkeep", None)
        while upkeep is not None and upkeep.is_running:
            time.sleep(0.05)


def measure(path: Path, size: int, given: argparse.Namespace) -> None:
    """Append to 20 sessions in turn and print what it took."""
    texts = corpus.texts(given.appends, seed=5)
    counts: Counter[str] = Counter()
    raw = units.RawLoop(path.with_name(f"raw{size}.db"), given.durability)
    with memdb.open(path, durability=given.durability) as db:
        chats = [db.scope("ann").session(f"chat{k}") for k in range(20)]
        for chat in chats:
            chat.extend([{"role": "user", "text": text} for text in corpus.texts(100, seed=6)])
        db.file.count_tokens(corpus.texts(5000, seed=7))  # as in a process that runs for long
        if given.profile:
            profile(db, counts)
        times: dict[str, list[float]] = {
            name: [] for name in ("wall", "cpu", "raw wall", "raw cpu")
        }
        wal = 0
        for at in range(0, len(texts), TURN):
            for k, text in enumerate(texts[at : at + TURN]):
                chat = chats[k // 10 % 20]
                cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
                chat.append("user", text)
                times["wall"].append((time.perf_counter_ns() - wall) / 1000)
                times["cpu"].append((time.thread_time_ns() - cpu) / 1000)
                if given.pause_ms:
                    time.sleep(given.pause_ms / 1000)
            units.turn()
            wal = max(wal, os.stat(f"{path}-wal").st_size)
            for text in texts[at : at + TURN]:
                cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
                raw.append(text)
                times["raw wall"].append((time.perf_counter_ns() - wall) / 1000)
                times["raw cpu"].append((time.thread_time_ns() - cpu) / 1000)
    for name, some in times.items():
        print(f"{size:10,} {name:9}{spread(some)}", flush=True)
    raws = "  ".join(
        f"{name} {median(times[name]) / median(times[f'raw {name}']):.2f} p50 "
        f"{mean(times[name]) / mean(times[f'raw {name}']):.2f} mean"
        for name in ("wall", "cpu")
    )
    print(f"{size:10,} times the raw loop: {raws}  largest WAL {wal / 1e6:.1f} MB", flush=True)
    print(units.line())
    for name, ns in counts.most_common(25):
        print(f"    {ns / 1000 / given.appends:8.2f} µs per append  {name}")


def load_by_hand(raw: units.RawLoop, texts: list[str], count: Callable[[str], list[int]]) -> None:
    """Append *texts* in one commit, with the ids, counts, hashes and days that memdb computes."""
    rows, now = [], time.time_ns() // 1_000_000
    for text in texts:
        uid = uuid7(now)
        said = f"\1{uid}\0\1user\0\0\1{text}\0\0\0\0\1{now}\0"
        rows.append(
            raw.row(
                text,
                uid_bytes=bytes.fromhex(uid.replace("-", "")),
                tokens=len(count(text)),
                content_hash=blake2b(said.encode(), digest_size=16).digest()[:8],
                created_ms=now,
                spans=date_spans(text, now),
            )
        )
    raw.write(rows)


def spread(times: list[float]) -> str:
    """Return p50, mean and the tail of *times*, in µs."""
    ordered = sorted(times)
    at = lambda part: ordered[min(len(ordered) - 1, int(len(ordered) * part))]  # noqa: E731 (a name for three uses)
    slow = sum(ordered[int(len(ordered) * 0.99) :]) / sum(ordered)
    return (
        f"p50 {at(0.5):7.1f}  mean {mean(ordered):7.1f}  p99 {at(0.99):7.0f}  p99.9 {at(0.999):7.0f}"
        f"  max {ordered[-1]:8.0f}  mean/p50 {mean(ordered) / at(0.5):.2f}  slowest 1 % {slow:.0%}"
    )


def profile(db: memdb.MemDB, counts: Counter[str]) -> None:
    """Add up the nanoseconds of each statement of the writing connection, by its name."""
    pool = db._db.pool
    writer = pool.take_writer()

    def note(event: dict[str, object]) -> None:
        sql = str(event["sql"])
        counts[sql[3 : sql.find("*/")] if sql.startswith("/*") else sql[:40]] += int(
            str(event["nanoseconds"])
        )

    writer.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    pool.give_back_writer(writer)


def load(folder: Path, given: argparse.Namespace) -> None:
    """Store messages a thousand at a time, in turn with a hand-written loop."""
    texts = corpus.texts(given.bulk, seed=5)
    raw = units.RawLoop(folder / "raw.db", given.durability)
    count = _encoding("cl100k_base").encode_ordinary
    load_by_hand(raw, corpus.texts(2000, seed=6), count)
    with memdb.open(folder / "bulk.db", durability=given.durability) as db:
        chat = db.scope("ann").session("chat")
        chat.extend([{"role": "user", "text": text} for text in corpus.texts(2000, seed=6)])
        ours, theirs = [], []
        for at in range(0, len(texts), 1000):
            some = texts[at : at + 1000]
            units.turn()
            start = time.thread_time()
            chat.extend([memdb.NewMessage("user", text) for text in some])
            ours.append(time.thread_time() - start)
            start = time.thread_time()
            load_by_hand(raw, some, count)
            theirs.append(time.thread_time() - start)
    print(
        f"bulk of {len(texts):,}: {1000 / median(ours):8.0f} per s of CPU, by hand "
        f"{1000 / median(theirs):8.0f}: {median(theirs) / median(ours):.2f} of it; by the sums "
        f"{sum(theirs) / sum(ours):.2f}"
    )
    print(units.line())


def write_together(path: Path, given: argparse.Namespace) -> None:
    """Let processes append to one file until the time is over, and look for what they wrote."""
    if given.raw:
        units.RawLoop(path, given.durability, place=given.writers)
    else:
        with memdb.open(path, durability=given.durability) as db:
            db.scope("ann").session("first").append("user", "the first makes the file")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    start = context.Barrier(given.writers)
    tasks = [
        context.Process(
            target=_write_raw if given.raw else _write,
            args=(str(path), number, start, given, queue),
        )
        for number in range(given.writers)
    ]
    for task in tasks:
        task.start()
    answers = [queue.get(timeout=given.seconds + 120) for _ in tasks]
    for task in tasks:
        task.join()
    waits = spread([wait for answer in answers for wait in answer[4]])
    if given.raw:
        print(f"raw {together(given, answers)}\n  of all {waits}")
        return
    lost = 0
    with memdb.open(path) as db:
        for number, written, _, _, _ in answers:
            lost += written - len(db.scope("ann").session(f"w{number}").last(1_000_000))
        findings = db.file.check()
    print(
        f"{together(given, answers)}  errors {sum(answer[3] for answer in answers)}  lost {lost}  "
        f"findings {len(findings)}\n  of all {waits}"
    )


def together(given: argparse.Namespace, answers: list[Any]) -> str:
    """Return how much the writers wrote and how long one waited."""
    written = [answer[1] for answer in answers]
    return (
        f"{given.writers} writers  {sum(written) / given.seconds:8.0f} per s  longest "
        f"{max(answer[2] for answer in answers) / 1000:.1f} ms  fairness "
        f"{min(written) / max(written):.2f}"
    )


def _write(path: str, number: int, start: Any, given: argparse.Namespace, queue: Any) -> None:
    texts = corpus.texts(2000, seed=number)
    written = errors = 0
    waits = []
    with memdb.open(path, durability=given.durability) as db:
        chat = db.scope("ann").session(f"w{number}")
        chat.append("user", texts[0])
        db.file.count_tokens(corpus.texts(5000, seed=7))  # as in a process that runs for long
        start.wait()
        end = time.monotonic() + given.seconds
        while time.monotonic() < end:
            begin = time.perf_counter_ns()
            try:
                chat.append("user", texts[written % 2000])
                written += 1
            except memdb.MemDBError as error:
                print(error, file=sys.stderr)
                errors += 1
            waits.append((time.perf_counter_ns() - begin) / 1000)
    queue.put((number, written + 1, max(waits), errors, waits))


def _write_raw(path: str, number: int, start: Any, given: argparse.Namespace, queue: Any) -> None:
    raw = units.RawLoop(Path(path), given.durability, place=number)
    texts = corpus.texts(2000, seed=number)
    waits: list[float] = []
    start.wait()
    end = time.monotonic() + given.seconds
    while time.monotonic() < end:
        begin = time.perf_counter_ns()
        raw.append(texts[len(waits) % 2000])
        waits.append((time.perf_counter_ns() - begin) / 1000)
    queue.put((number, len(waits), max(waits), 0, waits))


if __name__ == "__main__":
    main()
