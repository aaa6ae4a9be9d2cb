"""
What a new process pays: its start, its first call of each kind, and its memory.

    python bench/cold.py [--rounds N] [--commit COMMIT] [--only NAME ...]

Each line is one whole process: Python starts, imports memdb, opens a file of 2,000
messages and makes one call. All kinds run in random order within a round, so that they
see the same machine. CPU time and memory are the kernel's account of the process.
`--commit` runs the same calls with the memdb of another commit, in the same rounds, on a
file that it made itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import TYPE_CHECKING

import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 20261122
HERE = str(Path(memdb.__file__).parent.parent)

OPEN = """import sys, memdb
with memdb.open(sys.argv[1]) as db:
    scope = db.scope("ann"); session = scope.session("s1")
    """

FILL = """import sys, memdb
sys.path.insert(0, sys.argv[2])
import corpus
with memdb.open(sys.argv[1], durability="process") as db:
    texts = corpus.texts(2000)
    for start in range(0, len(texts), 500):
        session = db.scope("ann").session(f"s{start // 500}")
        session.extend([{"role": "user", "text": text} for text in texts[start : start + 500]])
    db.jobs.run()
"""

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

BAR_MS = 20  # of CPU more than the other commit
PYTHON = (sys.executable, "-P")  # the folder that this runs in is no place for imports


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--commit", help="that the calls are compared with")
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
    homes = {"": HERE}
    if given.commit:
        homes["before"] = str(folder / "before")
        take_out(given.commit, folder / "before")
    for home, place in homes.items():
        fill = [*PYTHON, "-c", FILL, str(folder / f"{home}.db"), str(Path(__file__).parent)]
        process(fill, place, folder)
    commands: dict[tuple[str, str], list[str]] = {}
    for home in homes:
        for name, program in PROGRAMS.items():
            if name != "long life" and (not given.only or name in {*given.only, "bare"}):
                commands[name, home] = [*PYTHON, "-c", program]
        if not given.only or "help" in given.only:
            commands["help", home] = [*PYTHON, "-m", "memdb", "--help"]
    times = measure(folder, commands, homes, given.rounds)
    report(times, homes)
    print(units.line())
    if not given.only or "memory" in given.only:
        memory(folder)


def take_out(commit: str, place: Path) -> None:
    """Put the package as it was at *commit* into the folder *place*."""
    git = ["git", "-C", HERE, "archive", "--format=tar", commit, "memdb", "schema.sql"]
    place.mkdir()
    with subprocess.Popen(git, stdout=subprocess.PIPE) as packed:
        subprocess.run(["tar", "-x", "-C", str(place)], stdin=packed.stdout, check=True)


def measure(
    folder: Path,
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
        units.turn()
        for key in keys:
            path = folder / "agent.db"
            shutil.copyfile(folder / f"{key[1]}.db", path)
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
    print(f"{'process':22}{'wall ms':>9}{'CPU ms':>9}{'CPU/bare':>10}")
    least = {
        key: [quartile(column) for column in zip(*rows, strict=True)] for key, rows in times.items()
    }
    for (name, home), (wall, cpu) in least.items():
        base = (
            ("import click", "")
            if ("import click", "") in least and name == "help"
            else ("bare", "")
        )
        line = f"{f'{name} {home}'.strip():22}{wall:9.1f}{cpu:9.1f}{cpu / least[base][1]:10.2f}"
        if not home and "before" in homes:
            more = cpu - least[name, "before"][1]
            line += f"  before {least[name, 'before'][1]:.1f}: {more:.1f} ms more (bar {BAR_MS})"
        print(line)


def quartile(values: Iterable[float]) -> float:
    """Return the lower quartile: other processes disturb some of the runs."""
    return quantiles(values, n=4)[0]


def memory(folder: Path) -> None:
    """Print the peak memory of 1,000 appends and 1,000 recalls."""
    options = {"exact counts": ("{}", 45), "estimate": ("{'counter': 'estimate'}", 30)}
    for label, (words, bar) in options.items():
        path = folder / "agent.db"
        shutil.copyfile(folder / ".db", path)
        process([*PYTHON, "-c", PROGRAMS["long life"], str(path), words], HERE, folder)
        peak = int((folder / "output").read_text()) / 1024
        print(f"1,000 appends and recalls, {label}: {peak:.1f} MB  <= {bar}")
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
