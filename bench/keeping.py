"""
What maintenance of a large file costs: check, rebuild, vacuum, backup, export, import, forget.

    python bench/keeping.py [--messages N] [--file FILE] [--only NAME ...]

Messages of `corpus` in sessions of 500, for users of 10,000. Prints seconds of CPU of this process
beside those of the clock, and the bar that a million messages have; the bars of other sizes are in
proportion. --file keeps the file that is made, for the next run; each task works on a copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import appends

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 1_000_000

# Seconds of CPU at a million messages.
BARS = {"check": 5.0, "rebuild": 6.0, "export": 10.0, "import": 30.0, "forget": 1.0}


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


def import_(path: Path, folder: Path) -> None:
    """Read these lines into a new file."""
    lines = folder / "all.jsonl"
    if not lines.exists():
        export(path, folder)
    start = time.process_time()
    with memdb.open(folder / "again.db", embedder=None) as db:
        db.import_file(lines)
    print(f"  import alone {time.process_time() - start:.2f} s CPU")


def forget(path: Path, _folder: Path) -> None:
    """Forget a session of 500 with proof."""
    with memdb.open(path, embedder=None) as db:
        user = list(db.scopes())[len(list(db.scopes())) // 2].user
        chats = [one.name for one in db.scope(user).sessions()]
        start, children = time.process_time(), os.times().children_user
        receipt = db.scope(user).forget(session=chats[len(chats) // 2], prove=True)
        took = time.process_time() - start
        print(f"  forget alone {took:.2f} s CPU, and {os.times().children_user - children:.2f}")
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
        for task in given.only:
            path = folder / "copy.db"
            shutil.copy(base, path)
            cpu, wall = time.process_time(), time.perf_counter()
            TASKS[task](path, folder)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            bar = BARS.get(task, 0) * given.messages / MILLION
            print(f"{task:8} {cpu:7.2f} s CPU {wall:7.2f} s" + f"  bar {bar:g}" * bool(bar))
            sys.stdout.flush()
            for left in folder.glob("copy.db*"):
                left.unlink()


if __name__ == "__main__":
    main()
