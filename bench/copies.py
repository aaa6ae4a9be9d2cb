"""
Rows per second of `memdb copy`, file to file, in CPU seconds of the process.

    python bench/copies.py [MESSAGES]

Four users, messages of 30 words with vectors, entries, summaries; fixed seed. Rows are those of
all tables and the vectors; each is written, indexed and read again.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import memdb

USERS = 4
WORDS = 20_000


def fill(path: Path, messages: int) -> None:
    """Make a file of some messages."""
    noise = random.Random(1)
    letters = "abcdefghijklmnop"
    words = ["".join(noise.choices(letters, k=noise.randint(2, 9))) for _ in range(WORDS)]
    with memdb.open(path) as db:
        for user in range(USERS):
            scope = db.scope(f"user {user}")
            for session in range(5):
                texts = [" ".join(noise.choices(words, k=30)) for _ in range(messages // 20)]
                scope.session(f"s{session}").extend(
                    [{"role": "user", "text": text} for text in texts]
                )
            for _ in range(messages // 100):
                scope.remember(" ".join(noise.choices(words, k=8)))
        db.jobs.run()


def main() -> None:
    """Print the rate of three copies of one file."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.db"
        fill(source, messages)
        for number in range(3):
            with memdb.open(source, mode="read", embedder=None) as db:
                begun_s, wall_s = time.process_time(), time.perf_counter()
                report = db.file.copy(Path(folder) / f"target {number}.db")
                cpu_s = time.process_time() - begun_s
                wall_s = time.perf_counter() - wall_s
            rows = sum(report.rows.values())
            print(
                f"{rows:,} rows: {rows / cpu_s:,.0f}/s of CPU, {rows / wall_s:,.0f}/s by the clock"
            )


if __name__ == "__main__":
    main()
