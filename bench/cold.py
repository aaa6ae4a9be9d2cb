"""
What a new process pays: its start, its first call of each kind, and its memory.

    python bench/cold.py [--rounds N] [--against FOLDER] [--only NAME ...]

Each line is one whole process: Python starts, imports memdb, opens a file of 2,000
messages and makes one call. All kinds run in random order within a round, so that they
see the same machine. CPU time and memory are the kernel's account of the process.
`--against` runs the same calls with the memdb of another folder, in the same rounds.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import TYPE_CHECKING

import corpus

import memdb

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 20261122
HERE = str(Path(memdb.__file__).parent.parent)

OPEN = """import sys, memdb
with memdb.open(sys.argv[1]) as db:
    scope = db.scope("ann"); session = scope.session("s1")
    """

# name -> (program, goal in ms of a process whose bare Python takes 8 ms, what that goal is)
PROGRAMS = {
    "bare": "pass",
    "import click": "import click",
    "import memdb": "import memdb",
    "open": OPEN + "pass",
    "last 50": OPEN + "session.last(50)",
    "append": OPEN + 'session.append("user", "Dear diary, today we flew to Oslo and had tea.")',
    "context": OPEN + "session.context(4000)",
    "context?": OPEN + 'session.context(4000, query="Where did we have tea?")',
    "recall": OPEN + 'scope.recall("Where did we have tea?", 10)',
    "remember": OPEN + 'scope.remember("Ann drinks green tea.", key="drink")',
    "extract": OPEN + 'session.append("user", "I live in Oslo."); db.jobs.run()',
    "long life": """import sys, memdb
with memdb.open(sys.argv[1], **eval(sys.argv[2])) as db:
    scope = db.scope("new"); session = scope.session("s")
    for k in range(1000):
        session.append("user", f"message {k} about tea, trains and the sea near Oslo")
        scope.recall(f"which message was about trains {k}?", 10)
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
""",
}

# Milliseconds on the machine of the goals, where bare Python takes 8; times bare here.
BARS = {"append": 40 / 8, "context": 45 / 8, "recall": 45 / 8, "last 50": 1.6}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--against", type=Path, help="folder that holds another memdb/")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    print(
        f"memdb {memdb.__version__}  python {platform.python_version()}  cores {os.cpu_count()}  "
        f"load {os.getloadavg()[0]:.2f}  rounds {given.rounds}  seed {SEED}"
    )
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), given)


def run(folder: Path, given: argparse.Namespace) -> None:
    """Time every program and print the medians."""
    original = folder / "original.db"
    with memdb.open(original, durability="process") as db:
        texts = corpus.texts(2000)
        for start in range(0, len(texts), 500):
            session = db.scope("ann").session(f"s{start // 500}")
            session.extend([{"role": "user", "text": text} for text in texts[start : start + 500]])
        db.jobs.run()
    commands: dict[tuple[str, str], list[str]] = {}
    homes = {"": HERE} | ({"against": str(given.against)} if given.against else {})
    for home in homes:
        for name, program in PROGRAMS.items():
            if name != "long life" and (not given.only or name in {*given.only, "bare"}):
                commands[name, home] = [sys.executable, "-c", program]
        if not given.only or "help" in given.only:
            commands["help", home] = [sys.executable, "-m", "memdb", "--help"]
    times = measure(folder, original, commands, homes, given.rounds)
    report(times, homes)
    if not given.only or "memory" in given.only:
        memory(folder, original, homes)


def measure(
    folder: Path,
    original: Path,
    commands: dict[tuple[str, str], list[str]],
    homes: dict[str, str],
    rounds: int,
) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return wall and CPU ms of each run of each command."""
    order = random.Random(SEED)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in commands}
    for number in range(rounds + 1):
        keys = list(commands)
        order.shuffle(keys)
        for key in keys:
            path = folder / "agent.db"
            shutil.copyfile(original, path)
            row = process([*commands[key], str(path)], homes[key[1]], folder)
            if number:  # the first writes bytecode
                found[key].append(row)
            for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                name.unlink(missing_ok=True)
    return found


def process(command: list[str], home: str, folder: Path) -> tuple[float, float]:
    """Return wall and CPU ms of one process, whose output stands in the file `output`."""
    # As after `pip install`: bytecode is there.
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    plain["PYTHONPATH"] = home
    output = folder / "output"
    handle = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        start = perf_counter()
        pid = os.posix_spawn(
            command[0],
            command,
            plain,
            file_actions=[(os.POSIX_SPAWN_DUP2, handle, n) for n in (1, 2)],
        )
        _, status, used = os.wait4(pid, 0)
        wall = perf_counter() - start
    finally:
        os.close(handle)
    if status:
        raise SystemExit(f"{command} failed: {output.read_text()}")
    return wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def report(times: dict[tuple[str, str], list[tuple[float, float]]], homes: dict[str, str]) -> None:
    """Print one line per program, with its ratio to bare Python: lower quartiles."""
    print(f"{'process':22}{'wall ms':>9}{'CPU ms':>9}{'CPU/bare':>10}{'bar':>7}")
    for name, home in times:
        if home:
            continue
        for other in homes:
            wall, cpu = (quartile(column) for column in zip(*times[name, other], strict=True))
            bare = quartile(row[1] for row in times["bare", ""])
            base, bar = bare, BARS.get(name)
            if name == "help" and ("import click", "") in times:
                base, bar = quartile(row[1] for row in times["import click", ""]), 1.5
            limit = "" if bar is None else f"{bar:.2f}"
            mark = "" if bar is None else "ok" if cpu / base <= bar else "MISSED"
            label = f"{name} {other}".strip()
            print(f"{label:22}{wall:9.1f}{cpu:9.1f}{cpu / base:10.2f}{limit:>7} {mark}")


def quartile(values: Iterable[float]) -> float:
    """Return the lower quartile: other processes disturb some of the runs."""
    return quantiles(values, n=4)[0]


def memory(folder: Path, original: Path, homes: dict[str, str]) -> None:
    """Print the peak memory of 1,000 appends and 1,000 recalls."""
    options = {"exact counts": ("{}", 45), "estimate": ("{'counter': 'estimate'}", 30)}
    for other, home in homes.items():
        for label, (words, bar) in options.items():
            path = folder / "agent.db"
            shutil.copyfile(original, path)
            command = [sys.executable, "-c", PROGRAMS["long life"], str(path), words]
            process(command, home, folder)
            peak = int((folder / "output").read_text()) / 1024
            mark = "ok" if peak <= bar else "MISSED"
            print(f"1,000 appends and recalls, {label} {other}: {peak:.1f} MB  <= {bar} {mark}")
            for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                name.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
