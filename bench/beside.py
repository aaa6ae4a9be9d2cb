"""
memdb beside the raw stack and other memories: the same texts and vectors, in one run.

    python bench/beside.py [--rows 10000] [--only NAME ...] [--out FILE] [--plots FOLDER]
    python bench/beside.py compare BEFORE AFTER

Two tables: `messages` (append one, the last 50 of a session, search) and `memories` (store one
with its vector, the nearest ten of one user). Each candidate is a process of its own with the
interpreter of its environment (`make peers`), and each call is timed there. The rows are given
in rounds; in each round the candidates come in another random order, after a quiet moment of
the machine where there is one. Compare the ratios of a run, never times of two machines. With
TMPDIR=/dev/shm and `--sync-ms 0.15` it runs as on a disk whose syncs take 0.15 ms.

The result is one JSON line per candidate and call, written when the run is complete. A candidate
that will not have loaded its rows within 20 minutes is left out, and named.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING, Any

import apsw
import corpus
import numpy as np
import plots
import slow_sync
import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
DRIVERS = HERE / "peers" / "speed"
DIM = 384
USERS = 10
SESSION = 200  # messages of a session
ROUNDS = 20
BYTES_PER_ROW = 40_000  # of disk while all candidates hold it
MAX_FILL_S = 20 * 60
ASKED = {"last": 10, "search": 5}  # calls per round
QUIET = 0.25  # share of the cores that others may use


@dataclass
class Candidate:
    """What is measured: a driver, the environment that it needs, and the calls it answers."""

    name: str
    table: str
    driver: str
    calls: tuple[str, ...]
    environment: str | None = None  # None is the one that runs this
    options: tuple[str, ...] = ()
    seconds: dict[str, list[list[float]]] = field(default_factory=dict)
    cpu: dict[str, list[list[float]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    filled_s: float = 0.0
    is_too_slow: bool = False  # to load its rows within `MAX_FILL_S`

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        if self.environment is None:
            return Path(sys.executable)
        return HERE / "peers" / ".venvs" / self.environment / "bin" / "python"


def candidates() -> list[Candidate]:
    """Return everything that can be measured; the first of a table is what others are held to."""
    messages, memories = ("put", "last", "search"), ("put", "search")
    listed = [
        Candidate("memdb", "messages", "memdb_file", messages, None, ("power", "messages")),
        Candidate(
            "memdb process", "messages", "memdb_file", messages, None, ("process", "messages")
        ),
        Candidate("raw apsw + FTS5", "messages", "raw_sqlite", messages, None, ("rows",)),
        Candidate("fdatasync alone", "messages", "raw_sqlite", ("put",), None, ("fdatasync",)),
        Candidate("openai session", "messages", "openai_session", ("put", "last"), "openai_agents"),
        Candidate("adk session", "messages", "adk_session", ("put", "last"), "adk"),
        Candidate("memdb", "memories", "memdb_file", memories, None, ("power", "memories")),
        Candidate("raw numpy scan", "memories", "raw_sqlite", memories, None, ("numpy",)),
    ]
    others = {
        "langgraph": "langgraph_items",
        "mem0": "mem0_memories",
        "engrava": "engrava_thoughts",
        "plugmem": "plugmem_facts",
        "cpersona": "cpersona_memories",
        "chroma": "chroma_documents",
        "lancedb": "lancedb_table",
        "llm": "llm_collection",
    }
    listed += [
        Candidate(name, "memories", driver, memories, name) for name, driver in others.items()
    ]
    return listed


class Process:
    """A candidate that runs, in a folder of its own."""

    def __init__(self, candidate: Candidate, folder: Path) -> None:
        """Start it; its files go below *folder*."""
        self.candidate = candidate
        place = folder / f"{candidate.table} {candidate.name}".replace(" ", "_")
        place.mkdir()
        script = DRIVERS / f"{candidate.driver}.py"
        self.log = folder / f"{place.name}.log"
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [candidate.python, script, place, *candidate.options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,  # a Ctrl-C of a terminal is for the one that asks
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"},
            )

    def ask(self, **line: object) -> dict[str, Any]:
        """Return the answer to a line; ends the run with what the candidate says went wrong."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            last = self.log.read_text().strip().splitlines()[-1:] or ["it says nothing"]
            sys.exit(f"{self.candidate.name} ended: {last[0]}")
        if "error" in answer:
            sys.exit(f"{self.candidate.name}: {answer['error']}")
        return answer

    def stop(self) -> None:
        """End it, at once if it does not."""
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def make_rows(count: int, seed: int = 7, users: int = USERS) -> list[dict[str, str]]:
    """Return texts with vectors around 50 centres, spread over users and sessions."""
    source = np.random.default_rng(seed)
    centres = source.normal(size=(50, DIM))
    rows = []
    for number, text in enumerate(corpus.texts(count, seed)):
        vector = centres[number % 50] + 0.7 * source.normal(size=DIM)
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        place = number // users
        rows.append(
            {
                "id": f"m{number}",
                "user": f"user{number % users}",
                "session": f"s{place // SESSION}",
                "text": text,
                "vector": base64.b64encode(unit.tobytes()).decode(),
            }
        )
    return rows


class Patience:
    """Waits for moments in which others leave the cores alone, *total_s* in a whole run."""

    def __init__(self, total_s: float) -> None:
        """Begin with all of it."""
        self.left_s = total_s

    def wait(self) -> bool:
        """Wait for a quiet moment, 5 s at most; False if there was none."""
        end = time.monotonic() + min(5.0, self.left_s)
        while True:
            before = _busy_s()
            time.sleep(0.1)
            if before is None or (_busy_s() - before) / 0.1 / (os.cpu_count() or 1) < QUIET:
                return True
            self.left_s -= 0.1
            if time.monotonic() > end:
                return False


def _busy_s() -> float | None:
    """Return the seconds that all cores have worked so far; None where the system does not say."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    ticks = [int(field) for field in fields]
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def measure(
    chosen: list[Candidate], rows: list[dict[str, str]], folder: Path, patience: Patience
) -> float:
    """Fill in the seconds of each call of each candidate; return the share of quiet rounds."""
    source = random.Random(11)
    size = max(1, len(rows) // ROUNDS)
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    quiet = asked_in_all = 0
    with ExitStack() as stack:
        stack.callback(show, "")
        running = start_all(stack, chosen, folder)
        for number, part in enumerate(parts, start=1):
            timed = part[: max(1, 2000 // ROUNDS)]  # the rest of a large round is given in bulk
            asked = {name: source.choices(part, k=count) for name, count in ASKED.items()}
            for process in source.sample(running, k=len(running)):
                candidate = process.candidate
                if candidate.is_too_slow:
                    continue
                quiet += patience.wait()
                asked_in_all += 1
                _ask_round(process, timed, part[len(timed) :], asked)
                candidate.is_too_slow = candidate.filled_s / number * len(parts) > MAX_FILL_S
            units.turn(5)
            show(f"round {number} of {len(parts)}")
        for process in running:
            process.candidate.facts = process.ask(op="facts")
    return quiet / asked_in_all


def start_all(stack: ExitStack, chosen: list[Candidate], folder: Path) -> list[Process]:
    """Return the candidates as processes that end with *stack*, even if not all could start."""
    running: list[Process] = []
    for candidate in chosen:
        running.append(Process(candidate, folder))
        stack.callback(running[-1].stop)
    return running


def _ask_round(
    process: Process,
    timed: list[dict[str, str]],
    rest: list[dict[str, str]],
    asked: dict[str, list[dict[str, str]]],
) -> None:
    candidate = process.candidate
    given: dict[str, Any] = {"put": {"rows": timed}} | {
        name: {"asked": some} for name, some in asked.items()
    }
    for name in candidate.calls:
        answer = process.ask(op=name, **given[name])
        candidate.seconds.setdefault(name, []).append(answer["seconds"])
        candidate.cpu.setdefault(name, []).append(answer["cpu"])
        if name == "put":
            (took,) = process.ask(op="fill", rows=rest)["seconds"]
            candidate.filled_s += took + sum(answer["seconds"])
            process.ask(op="rest")


def describe(candidate: Candidate, name: str, reference: Candidate, rows: int) -> dict[str, Any]:
    """Return what one call of a candidate took, in ms, and its ratio to memdb's."""
    rounds = candidate.seconds[name]
    each = sorted(1000 * second for part in rounds for second in part)
    cuts = quantiles(each, n=100) if len(each) > 1 else each * 99
    other = [1000 * second for part in reference.seconds[name] for second in part]
    cpu, other_cpu = (
        median(1000 * second for part in one.cpu[name] for second in part)
        for one in (candidate, reference)
    )
    return {
        "table": candidate.table,
        "candidate": candidate.name,
        "call": name,
        "rows": rows,
        "n": len(each),
        "p50_ms": median(each),
        "p90_ms": cuts[89],
        "p99_ms": cuts[98],
        "mean_ms": mean(each),
        "ratio_p50": median(each) / median(other),
        "ratio_mean": mean(each) / mean(other),
        "cpu_p50_ms": cpu,
        "ratio_cpu": cpu / other_cpu if other_cpu else None,
        "rounds_p50_ms": [median(part) * 1000 for part in rounds],
        **candidate.facts,
    }


def results(chosen: list[Candidate], rows: int) -> list[dict[str, Any]]:
    """Return a record for each call of each candidate, the first of a table first."""
    records = []
    for table in ("messages", "memories"):
        listed = [one for one in chosen if one.table == table and not one.is_too_slow]
        for name in ("put", "last", "search"):
            those = [one for one in listed if name in one.seconds]
            records += [describe(one, name, those[0], rows) for one in those]
    return records


def print_records(records: list[dict[str, Any]]) -> None:
    """Print a table; `x` are the medians as multiples of the first candidate's."""
    head = f"{'':10}{'call':8}{'candidate':18}{'p50 ms':>10}{'p99':>10}{'mean':>10}{'x':>8}"
    print(f"{head}{'CPU ms':>10}{'x':>8}{'MB':>8}{'RSS':>7}{'import s':>10}")
    for one in records:
        print(
            f"{one['table']:10}{one['call']:8}{one['candidate']:18}{one['p50_ms']:10.3f}"
            f"{one['p99_ms']:10.3f}{one['mean_ms']:10.3f}{one['ratio_p50']:8.2f}"
            f"{one['cpu_p50_ms']:10.3f}{one['ratio_cpu'] or 0:8.2f}"
            f"{one['bytes'] / 1e6:8.1f}{one['rss_mb']:7.0f}{one['import_s']:10.2f}"
        )


def compare(before: Path, after: Path) -> int:
    """Print the change of each call between two runs, and how far chance reaches; 1 if worse."""
    old, new = ({_key(one): one for one in read_records(path)} for path in (before, after))
    worse = 0
    for key in [key for key in old if key in new]:
        change, low, high = ratio_interval(old[key]["rounds_p50_ms"], new[key]["rounds_p50_ms"])
        verdict = "slower" if low > 1.05 else "faster" if high < 0.95 else "equal"
        worse += verdict == "slower" and key[1].startswith("memdb")
        print(
            f"{key[0]:10}{key[2]:8}{key[1]:18}{change:6.2f} x  ({low:.2f} to {high:.2f})  {verdict}"
        )
    if not old.keys() & new.keys():
        print("the runs have no call in common")
    return 1 if worse else 0


def ratio_interval(before: list[float], after: list[float]) -> tuple[float, float, float]:
    """Return after / before by median of rounds, with the 95 % interval of 2,000 resamplings."""
    source = random.Random(3)
    ratios = sorted(
        median(source.choices(after, k=len(after))) / median(source.choices(before, k=len(before)))
        for _ in range(2000)
    )
    return median(after) / median(before), ratios[50], ratios[1949]


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a run."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")


def _key(record: dict[str, Any]) -> tuple[str, str, str]:
    return record["table"], record["candidate"], record["call"]


def show(text: str) -> None:
    """Show progress on a terminal, in one line."""
    if sys.stderr.isatty():
        print(f"\r{text:40}\r", end="", file=sys.stderr, flush=True)


def choose(names: list[str] | None) -> list[Candidate]:
    """Return the candidates of these names that are installed; say which are not."""
    listed = candidates()
    known = {one.name for one in listed}
    if unknown := sorted({*(names or ())} - known):
        sys.exit(
            f"no candidate is called {', '.join(unknown)}: there are {', '.join(sorted(known))}"
        )
    tables = {one.table for one in listed if not names or one.name in names}
    wanted = [
        one
        for one in listed
        if not names or one.name in names or (one.name == "memdb" and one.table in tables)
    ]
    absent = sorted({one.name for one in wanted if not one.python.exists()})
    if absent:
        print(f"not installed: {', '.join(absent)}; run `make peers`", file=sys.stderr)
        if names:
            sys.exit(1)
    return [one for one in wanted if one.python.exists()]


def run(given: argparse.Namespace) -> None:
    """Measure, print, and write the records; nothing is left of a run that was stopped."""
    chosen = choose(given.only)
    check_disk(given.rows, BYTES_PER_ROW)
    with tempfile.TemporaryDirectory(prefix="beside-") as folder:
        rows = make_rows(given.rows, users=given.users)
        quiet = measure(chosen, rows, Path(folder), Patience(given.wait))
    machine = machine_facts() | {"users": given.users, "quiet_rounds": round(quiet, 2)}
    records = [machine | one for one in results(chosen, given.rows)]
    print("  ".join(f"{key} {value}" for key, value in machine.items()))
    print_records(records)
    print(units.line())
    for one in chosen:
        if one.is_too_slow:
            print(
                f"{one.name}: would not load {given.rows:,} rows within {MAX_FILL_S // 60} minutes"
            )
    write_records(given.out, records)
    if given.plots:
        given.plots.mkdir(parents=True, exist_ok=True)
        for table in ("messages", "memories"):
            for name in ("put", "last", "search"):
                bars = {
                    one["candidate"]: one["p50_ms"]
                    for one in records
                    if (one["table"], one["call"]) == (table, name)
                }
                if len(bars) > 1:
                    title = f"{table}: {name}, p50 in ms, {given.rows:,} rows (logarithmic scale)"
                    drawn = plots.bar_chart(title, bars)
                    (given.plots / f"{table}-{name}-{given.rows}.svg").write_text(drawn)


def check_disk(rows: int, bytes_per_row: int) -> None:
    """End with a sentence if the folder of temporary files cannot hold so many rows."""
    needed, free = rows * bytes_per_row, shutil.disk_usage(tempfile.gettempdir()).free
    if needed > free:
        sys.exit(f"{rows:,} rows need {needed / 1e9:.0f} GB, {free / 1e9:.0f} are free")


def machine_facts() -> dict[str, Any]:
    """Return the day, the machine and the versions of a run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "memdb": memdb.__version__,
    }


def write_records(out: Path, records: list[dict[str, Any]]) -> None:
    """Write JSON lines, all or none."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    try:
        part.write_text("".join(json.dumps(one) + "\n" for one in records))
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def until_stopped(work: Callable[[], object]) -> None:
    """Do *work*; Ctrl-C and SIGTERM end it with a sentence, and with all that it cleans up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        work()
    except KeyboardInterrupt:
        sys.exit("stopped; nothing was kept")


def main() -> None:
    """Run from the command line."""
    if sys.argv[1:2] == ["compare"]:
        parser = argparse.ArgumentParser(prog="beside.py compare")
        parser.add_argument("before", type=Path)
        parser.add_argument("after", type=Path)
        given = parser.parse_args(sys.argv[2:])
        sys.exit(compare(given.before, given.after))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rows", type=int, default=10_000, help="20 to 1,000,000")
    parser.add_argument("--users", type=int, default=USERS, help="whose rows they are, in turn")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these, beside memdb")
    parser.add_argument("--wait", type=float, default=120, help="seconds to wait for quiet in all")
    parser.add_argument("--sync-ms", type=float, help="make each sync so much slower (needs cc)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "beside.jsonl")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write SVG charts there")
    given = parser.parse_args()
    if given.sync_ms and "LD_PRELOAD" not in os.environ:
        slow_sync.run_again(given.sync_ms)
    if not ROUNDS <= given.rows <= 1_000_000:
        parser.error(f"--rows is {given.rows}: give {ROUNDS} to 1,000,000")
    if not 1 <= given.users <= given.rows:
        parser.error(f"--users is {given.users}: give 1 to {given.rows}, the rows")
    until_stopped(lambda: run(given))


if __name__ == "__main__":
    main()
