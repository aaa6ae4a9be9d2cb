"""
What maintenance of a large file costs: check, rebuild, vacuum, backup, export, import, forget.

    python bench/keeping.py [--messages N] [--file FILE] [--only NAME ...]

Messages of `corpus` in sessions of 500, for users of 10,000. Prints seconds of CPU of this process
beside those of the clock, and how many times that is what a plain reading takes: apsw reads every
column of every message once, and each row is hashed. It is made before and after each task, and
the mean counts. --file keeps the file that is made, for the next run; each task works on a copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import appends
import apsw
import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 1_000_000

# Multiples of a plain reading.
BARS = {"check": 3.0, "rebuild": 3.0, "export": 5.0, "import": 12.0}


def read_plainly(path: Path) -> float:
    """Return the seconds of CPU that reading and hashing every message take."""
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    start = time.process_time()
    for row in raw.execute("SELECT * FROM messages"):
        blake2b(repr(row).encode(), digest_size=16).digest()
    took = time.process_time() - start
    raw.close()
    return took


def check(path: Path, _folder: Path) -> None:
    """Compare each index with its rows, and each row with its hash."""
    with memdb.open(path, embedder=None) as db:
        found = db.file.check()
    assert not found, found


def rebuild(path: Path, _folder: Path) -> None:
    """Make the indexes anew."""
    with memdb.open(path, embedder=None) as db:
        db.file.rebuild()


def vacuum(path: Path, _folder: Path) -> None:
    """Give back the room of every second user's memory."""
    with memdb.open(path, embedder=None) as db:
        for one in list(db.scopes())[::2]:
            db.scope(one.user).delete(everything=True)
        start = time.process_time()
        freed = db.file.vacuum()
        print(f"  vacuum alone {time.process_time() - start:.2f} s CPU, {freed / 1e6:.0f} MB")


def backup(path: Path, folder: Path) -> None:
    """Copy the file while it is open."""
    with memdb.open(path, embedder=None) as db:
        db.file.backup(folder / "backup.db")


def export(path: Path, folder: Path) -> None:
    """Write everything as JSON lines."""
    with memdb.open(path, embedder=None, mode="read") as db:
        db.export(folder / "all.jsonl")


def import_(_path: Path, folder: Path) -> None:
    """Read these lines into a new file."""
    with memdb.open(folder / "again.db", embedder=None) as db:
        db.import_file(folder / "all.jsonl")


def forget(path: Path, _folder: Path) -> None:
    """Forget a session of 500 with proof."""
    with memdb.open(path, embedder=None) as db:
        user = list(db.scopes())[len(list(db.scopes())) // 2].user
        chats = [one.name for one in db.scope(user).sessions()]
        start, children = time.process_time(), os.times().children_user
        receipt = db.scope(user).forget(session=chats[len(chats) // 2], prove=True)
        took = time.process_time() - start
        print(
            f"  forget alone {1000 * took:.0f} ms CPU, and {os.times().children_user - children:.2f} s"
        )
        assert receipt.proven


TASKS: dict[str, Callable[[Path, Path], None]] = {
    "check": check,
    "rebuild": rebuild,
    "backup": backup,
    "export": export,
    "import": import_,
    "vacuum": vacuum,
    "forget": forget,
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--messages", type=int, default=MILLION)
    parser.add_argument("--file", type=Path, help="kept for the next run")
    parser.add_argument("--only", nargs="*", choices=TASKS, default=[*TASKS])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.file and given.file.parent) as name:
        folder = Path(name)
        base = given.file or folder / "base.db"
        if not base.exists():
            appends.fill(base, given.messages)
        print(f"{given.messages:,} messages, {base.stat().st_size / 1e6:.0f} MB")
        for task in (one for one in TASKS if one in given.only):
            path = folder / "copy.db"
            shutil.copy(base, path)
            if task == "import" and not (folder / "all.jsonl").exists():
                export(path, folder)
            plain = read_plainly(base)
            units.turn(10)
            cpu, wall = time.process_time(), time.perf_counter()
            TASKS[task](path, folder)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            plain = (plain + read_plainly(base)) / 2
            bar = f"  bar {BARS[task]:g}" if task in BARS else ""
            print(
                f"{task:8} {cpu:7.2f} s CPU {wall:7.2f} s  plain reading {plain:.2f} s "
                f"{cpu / plain:.2f} x{bar}"
            )
            sys.stdout.flush()
            for left in folder.glob("copy.db*"):
                left.unlink()
        print(units.line())


if __name__ == "__main__":
    main()
