"""
The two units that programs of bench/ measure in the same run as everything else.

R is an append by hand: apsw writes the row of a message, its FTS5 entry and its session's counters
in one commit, into the tables of memdb, all values computed before. P is a fixed loop of plain
Python, about 1 ms on a machine of 2.5 GHz. Both are CPU time of the thread. A program calls `turn()`
between what it measures and prints `line()` at its end, so that its bars are multiples of R and P.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

import apsw
import corpus

from memdb.engine import compose
from memdb.engine.sqlite.connection import parameters_of
from memdb.engine.sqlite.digests import register_functions
from memdb.engine.sqlite.schema import read_schema
from memdb.tables.messages import INSERT_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

APPENDS = 20  # of a turn
LOOPS = 5_000

# The scope and the session that R writes to.
SCOPE = """
INSERT OR IGNORE INTO scopes (scope_no, uid, app, user_name, created_ms)
VALUES (1, 'u', 'default', 'ann', 0)
"""
SESSION = """
INSERT INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
VALUES (:session, 1, :name, :name, 0, 0)
"""
WORDS = "INSERT INTO messages_fts (rowid, text, author, bigrams) VALUES (:id, :text, NULL, NULL)"
COUNTERS = compose.update(
    "bench.advance",
    "sessions",
    "id = :session",
    last_seq="last_seq + :count",
    message_count="message_count + :count",
    tokens="tokens + :tokens",
    updated_ms=":ms",
)


EMPTY: dict[str, object] = {
    **dict.fromkeys(parameters_of(INSERT_MESSAGE)),
    "role": "user",
    "tokens": 30,
    "created_ms": 1_790_000_000_000,
    "content_hash": b"01234567",
}


class RawLoop:
    """Append rows through apsw alone, one commit each call."""

    def __init__(self, path: Path, durability: str = "process", place: int = 0) -> None:
        """Open or make the file at *path*; *place* is the number of the session."""
        self.raw = apsw.Connection(str(path))
        self.raw.set_busy_timeout(60_000)
        register_functions(self.raw)
        self.raw.execute("PRAGMA journal_mode = WAL").fetchall()
        self.raw.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        self.raw.wal_autocheckpoint(4000)
        if not self.raw.table_exists("main", "messages"):
            self.raw.execute(read_schema()).fetchall()
        self.session = (1 << 44) | ((place + 1) << 24)
        with self.raw:
            self.raw.execute(SCOPE)
            self.raw.execute(SESSION, {"session": self.session, "name": f"s{place}"})
        self.number = 0

    def append(self, text: str) -> None:
        """Write a row, its words and the counters of its session, and commit."""
        self.write([self.row(text)])

    def row(self, text: str, **values: object) -> dict[str, object]:
        """Return the next row with its words to come; *values* take the place of fixed ones."""
        self.number += 1
        number = self.session + self.number
        return (
            EMPTY | {"id": number, "uid_bytes": number.to_bytes(16, "big"), "text": text} | values
        )

    def write(self, rows: list[dict[str, object]]) -> None:
        """Write *rows* of named values in one commit."""
        run, newest = self.raw.execute, rows[-1]
        tokens = sum(int(str(row["tokens"])) for row in rows)
        counted = {"count": len(rows), "tokens": tokens, "ms": newest["created_ms"]}
        run("BEGIN IMMEDIATE")
        run(COUNTERS, counted | {"session": self.session})
        self.raw.executemany(INSERT_MESSAGE, rows)
        self.raw.executemany(WORDS, rows)
        run("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.raw.close()


class Units:
    """Both units, measured a turn at a time."""

    def __init__(self) -> None:
        """Make the file of R in a folder that goes with this object."""
        self._folder = tempfile.TemporaryDirectory(prefix="units-")
        self._raw = RawLoop(Path(self._folder.name) / "raw.db")
        self._texts = corpus.texts(1000, seed=9)
        self.append_us: list[float] = []
        self.loop_ms: list[float] = []
        self.turn()  # the first finds nothing in caches
        self.append_us.clear()
        self.loop_ms.clear()

    def turn(self) -> None:
        """Measure 20 appends by hand and one loop: about 2 ms."""
        for _ in range(APPENDS):
            text = self._texts[self._raw.number % len(self._texts)]
            start = time.thread_time_ns()
            self._raw.append(text)
            self.append_us.append((time.thread_time_ns() - start) / 1000)
        start = time.thread_time_ns()
        python_loop()
        self.loop_ms.append((time.thread_time_ns() - start) / 1e6)

    def line(self) -> str:
        """Return the medians of R and P with the range of the middle 80 %."""
        return (
            f"units: R p50 {spread(self.append_us)} us  P p50 {spread(self.loop_ms)} ms  "
            f"n {len(self.loop_ms)}"
        )


def python_loop() -> int:
    """Count words of numbers in a dict: the fixed work of P."""
    counts: dict[str, int] = {}
    for number in range(LOOPS):
        word = str(number * 7919 % 997)
        counts[word] = counts.get(word, 0) + len(word)
    return len(counts)


def spread(values: Sequence[float]) -> str:
    """Return the median of *values*, and their tenth and ninetieth percentiles."""
    cuts = quantiles(values, n=10) if len(values) > 1 else [*values] * 9
    return f"{median(values):.3g} ({cuts[0]:.3g} to {cuts[8]:.3g})"


@functools.cache
def _units() -> Units:
    return Units()


def turn(times: int = 1) -> None:
    """Measure both units, in the middle of whatever a program measures."""
    for _ in range(times):
        _units().turn()


def line() -> str:
    """Return what the units of this process took; measures them 20 times if nobody did."""
    if not _units().loop_ms:
        turn(20)
    return _units().line()


def in_append(us: float) -> float:
    """Return microseconds of CPU as a multiple of R."""
    return us / median(_units().append_us)


def in_loop(ms: float) -> float:
    """Return milliseconds of CPU as a multiple of P."""
    return ms / median(_units().loop_ms)
