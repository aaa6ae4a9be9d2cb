"""
What `bench/run.py` measures: each scenario returns its rows.

A row has a name, the measured value with its unit, the bar it is held to and
the reference of the same run where there is one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

import apsw
import corpus

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Result:
    """One measured number; *good* says whether it keeps to *bar*."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def good(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds *work* took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(name: str, seconds: list[float], bar_ms: float | None) -> Result:
    """Return the median in ms, with p99 as a fact."""
    p99 = quantiles(seconds, n=100)[98] * 1000
    return Result(
        name, median(seconds) * 1000, "ms", bar_ms, facts={"p99_ms": p99, "n": len(seconds)}
    )


def raw_fdatasync(folder: Path, count: int = 200) -> float:
    """Return how many 4 KiB writes with fdatasync this disk does in a second."""
    path = folder / "sync.bin"
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    block = b"x" * 4096

    def write() -> None:
        for place in range(count):
            os.pwrite(handle, block, 4096 * (place % 64))
            os.fdatasync(handle)

    took = timed(write)
    os.close(handle)
    return count / took


def appends(folder: Path) -> Iterator[Result]:
    """One message per call: to the page cache, and to the disk."""
    texts = corpus.texts(4000)
    with memdb.open(folder / "append.db", durability="process") as db:
        chat = db.scope("ann").session("chat")
        chat.append("user", "the first loads the counter")
        took = timed(lambda: [chat.append("user", text) for text in texts])
    yield Result("append, process, 1 per call", len(texts) / took, "per s", 4000, at_least=True)
    with memdb.open(folder / "durable.db") as db:
        chat = db.scope("ann").session("chat")
        chat.append("user", "the first loads the counter")
        before = raw_fdatasync(folder)
        took = timed(lambda: [chat.append("user", text) for text in texts[:500]])
        raw = (before + raw_fdatasync(folder)) / 2
    yield Result("append, power", 500 / took, "per s", facts={"raw_fdatasync_per_s": raw})


def bulk(folder: Path) -> Iterator[Result]:
    """Many messages per transaction, against a loop that only writes the rows."""
    texts = corpus.texts(40_000)
    with memdb.open(folder / "bulk.db", durability="process") as db:
        chat = db.scope("ann").session("chat")
        chat.append("user", "the first loads the counter")
        took = timed(
            lambda: [
                chat.extend([memdb.NewMessage("user", text) for text in texts[at : at + 1000]])
                for at in range(0, len(texts), 1000)
            ]
        )
    plain = _plain_loop(folder / "plain.db", texts)
    yield Result(
        "bulk import with index and exact tokens",
        len(texts) / took,
        "per s",
        20_000,
        at_least=True,
        facts={"hand_written_loop_per_s": len(texts) / plain},
    )


def _plain_loop(path: Path, texts: list[str]) -> float:
    """Return the seconds a hand-written loop takes for the texts and an index alone."""
    raw = apsw.Connection(str(path))
    raw.execute("PRAGMA journal_mode = WAL").fetchall()
    raw.execute("PRAGMA synchronous = NORMAL")
    raw.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, text TEXT)")
    raw.execute("CREATE VIRTUAL TABLE f USING fts5 (text, content='m', tokenize='porter')")

    def write() -> None:
        for at in range(0, len(texts), 1000):
            rows = [(at + n, text) for n, text in enumerate(texts[at : at + 1000], start=1)]
            with raw:
                raw.executemany("INSERT INTO m VALUES (?, ?)", rows)
                raw.executemany("INSERT INTO f (rowid, text) VALUES (?, ?)", rows)

    return timed(write)


def fill(db: memdb.MemDB, user: str, texts: list[str], session_size: int = 500) -> None:
    """Store *texts* as a scope with sessions of *session_size* messages."""
    scope = db.scope(user)
    for at in range(0, len(texts), session_size):
        scope.session(f"s{at // session_size}").extend(
            [
                memdb.NewMessage("user", text, author=("Ann", "Bob")[place % 2])
                for place, text in enumerate(texts[at : at + session_size])
            ]
        )


def large_file(folder: Path) -> Iterator[Result]:
    """Reading from a file of 200,000 messages: one scope of 10,000, one of 1,000, others."""
    texts = corpus.texts(200_000)
    with memdb.open(folder / "large.db", durability="process") as db:
        fill(db, "ten", texts[:10_000])
        fill(db, "one", texts[10_000:11_000])
        db.jobs.run(kinds=("embed",))  # the others below wait: nobody asks them
        for number in range(21):
            fill(db, f"other{number}", texts[11_000 + number * 9000 : 20_000 + number * 9000])
        chat = db.scope("ten").session("s19")
        yield spread(
            "last 50 of a session", [timed(lambda: chat.last(50)) for _ in range(500)], 0.15
        )
        # The embedding of the query is part of a recall.
        for user, size, bars in (("ten", "10,000", (8.0, 25.0)), ("one", "1,000", (3.0, None))):
            for rerank, bar in zip((False, True), bars, strict=True):
                for kind, asked in (
                    ("", corpus.queries(100)),
                    (", ten common words", corpus.common_queries(100)),
                ):
                    name = f"recall of {size}{', rerank' if rerank else ''}{kind}"
                    yield spread(name, _recalls(db.scope(user), asked, rerank=rerank), bar)
        yield Result("file", os.path.getsize(folder / "large.db") / 1e6, "MB")


def _recalls(scope: memdb.Scope, asked: list[str], *, rerank: bool) -> list[float]:
    """Return the seconds of each recall."""
    scope.recall("warm up", 1)
    return [timed(lambda: scope.recall(query, 10, rerank=rerank)) for query in asked]  # noqa: B023 (runs at once)


def cold(folder: Path) -> Iterator[Result]:
    """Starting: bare Python, importing click, `memdb --help`, open and last 50."""
    path = folder / "cold.db"
    with memdb.open(path, durability="process") as db:
        fill(db, "ann", corpus.texts(2000))
    last = (
        "import memdb\n"
        f"with memdb.open({str(path)!r}) as db: db.scope('ann').session('s1').last(50)"
    )
    tool = str(Path(sys.executable).with_name("memdb"))
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "click": [sys.executable, "-c", "import click"],
        "help": [tool, "--help"],
        "last": [sys.executable, "-c", last],
    }
    # As after `pip install`: bytecode is there.
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def start(command: list[str]) -> None:
        subprocess.run(command, check=True, capture_output=True, env=plain)

    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        start(command)
    for _ in range(40):  # interleaved, so that all see the same machine
        for name, command in commands.items():
            seconds[name].append(timed(lambda: start(command)))  # noqa: B023 (runs at once)
    bare, click, shown, read = (median(seconds[name]) for name in commands)
    yield Result("memdb --help / import click", shown / click, "x", 1.5, facts={"ms": shown * 1e3})
    yield Result(
        "open + last 50 / bare Python",
        read / bare,
        "x",
        1.8,
        facts={"ms": read * 1e3, "bare_ms": bare * 1e3},
    )


def nearest(folder: Path) -> Iterator[Result]:
    """Vectors: sketches against measuring every one, 10,000 texts of 128 dimensions."""

    with memdb.open(folder / "knn.db", durability="process") as db:
        fill(db, "ann", corpus.texts(10_000))
        db.jobs.run()
        filler = db._services.indexer.answering()
        asked = [vector for vector in filler.embed(corpus.queries(60)) if vector]
        with db._db.read() as tx:
            span = db.scope("ann")._owner.span(tx)
            space = filler.space(tx).space_no

            def find(vector: bytes, *, exact: bool) -> list[int]:
                found = tx.vectors.nearest(space, "message", vector, span, limit=10, exact=exact)
                return [ref for ref, _ in found]

            find(asked[0], exact=False)
            quick = [timed(lambda: find(one, exact=False)) for one in asked]  # noqa: B023 (runs at once)
            slow = [timed(lambda: find(one, exact=True)) for one in asked]  # noqa: B023 (runs at once)
            shares = [
                len({*find(one, exact=False)} & {*find(one, exact=True)}) / 10 for one in asked
            ]
    exact_ms = median(slow) * 1000
    row = spread("KNN of 10,000 by sketch", quick, None)
    row.facts |= {"exact_ms": exact_ms, "recall@10": sum(shares) / len(shares)}
    yield row


SCENARIOS = (cold, appends, bulk, large_file, nearest)


def run_all(only: str | None = None) -> Iterator[Result]:
    """Yield every result; *only* names one scenario."""
    for scenario in SCENARIOS:
        if only in (None, scenario.__name__):
            with tempfile.TemporaryDirectory() as folder:
                yield from scenario(Path(folder))
