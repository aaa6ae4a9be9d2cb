"""
Rows per second of `memdb copy`, file to file or to a server, in CPU seconds of the process.

    python bench/copies.py [--messages 20000] [--server]

Four users, messages of 30 words with vectors, entries, summaries; fixed seed. Rows are those of
all tables and the vectors; each is written, indexed and read again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import units

import memdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


@contextmanager
def targets(folder: str, *, is_server: bool) -> Iterator[Callable[[int], str]]:
    """Yield what names the target of each copy: a new file, or a new schema of one server."""
    if not is_server:
        yield lambda number: str(Path(folder) / f"target {number}.db")
        return
    import psycopg

    from tests.postgres_server import server

    def schema(number: int) -> str:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(f"CREATE SCHEMA target{number}")
        return f"{address}?options=-csearch_path%3Dtarget{number},public"

    with server() as address:
        yield schema


def main() -> None:
    """Print the rate of three copies of one file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--server", action="store_true", help="one from PyPI, on loopback")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        targets(folder, is_server=given.server) as target,
    ):
        source = Path(folder) / "source.db"
        fill(source, given.messages)
        for number in range(3):
            units.turn(10)
            with memdb.open(source, mode="read", embedder=None) as db:
                begun_s, wall_s = time.process_time(), time.perf_counter()
                report = db.file.copy(target(number))
                cpu_s = time.process_time() - begun_s
                wall_s = time.perf_counter() - wall_s
            rows = sum(report.rows.values())
            print(
                f"{rows:,} rows: {rows / cpu_s:,.0f}/s of CPU, {rows / wall_s:,.0f}/s by the clock"
            )
        print(units.line())


if __name__ == "__main__":
    main()
