"""
Every goal of memdb's speed and size, measured in one run: row, bar, number, met or missed.

    python bench/goals.py [--only NAME ...] [--messages 1000000] [--out FILE]

Runs the programs of bench/ one after another, each with its own fixed seed, and reads the numbers
from what they print: 25 minutes at a million messages on two quiet cores. Nothing else should run
meanwhile. Other memories are asked if `make peers` installed them. The exit status is 1 if a goal
is missed or was not measured. The result is a JSON line per goal, written when the run is complete.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import beside

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[list[dict[str, Any]]], float]

ROOT = beside.HERE.parent
LARGE = 1_000_000
BYTES_PER_MESSAGE = 6_000  # of disk for the largest program, which holds three files
NUMBER = r"(?P<value>[\d.]+)"
OF = r"(?P<of>[\d.]+)"
PEERS = ("openai session", "adk session", "langgraph", "mem0")
PLAIN = {"check": 3.0, "rebuild": 3.0, "export": 5.0, "import": 12.0}  # plain readings
KEEPING = (*PLAIN, "forget")
BEFORE = "3cf03e2"  # the commit that a cold start is held to
WRITERS = r"^1 writers +(?P<of>\d+) per s[\s\S]*^8 writers +(?P<value>\d+) per s"
RAW = ("raw apsw + FTS5", "fdatasync alone")


@dataclass(frozen=True)
class Goal:
    """A row: what is held to which bar, and where its number stands."""

    name: str
    bar: float
    number: str | Read  # a pattern of `value`, and perhaps of what it is a part `of`
    at_least: bool = False
    unit: str = ""  # "R" or "P" of bench/units.py, if the bar is a multiple of it

    def read(self, printed: str, records: list[dict[str, Any]]) -> float | None:
        """Return the number; None if it is not there."""
        try:
            if callable(self.number):
                return self.number(records)
            found = re.search(self.number, printed, re.MULTILINE)
            if found is None:
                return None
            parts = {"of": "1", **found.groupdict()}
            return float(parts["value"]) / float(parts["of"]) / self.one(printed)
        except (LookupError, ZeroDivisionError):
            return None

    def one(self, printed: str) -> float:
        """Return what one unit of the bar is in the same output; 1 if the bar has none."""
        found = units_of(printed)
        return found[self.unit] if self.unit else 1.0

    def is_met(self, value: float | None) -> bool:
        """Return whether *value* keeps to the bar."""
        if value is None:
            return False
        return value >= self.bar if self.at_least else value <= self.bar


@dataclass(frozen=True)
class Program:
    """A program of bench/ with its arguments, and the goals that it answers."""

    name: str
    words: tuple[str, ...]
    goals: tuple[Goal, ...]
    before: tuple[str, ...] = ()  # run first; what it prints stands above
    writes_records: bool = False  # to the file after --out
    environment: str | None = None  # of `make peers`

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        if self.environment is None:
            return Path(sys.executable)
        return beside.HERE / "peers" / ".venvs" / self.environment / "bin" / "python"


def units_of(printed: str) -> dict[str, float]:
    """Return R in microseconds and P in milliseconds, as a program printed them."""
    found = re.findall(r"^units: R p50 ([\d.]+).* P p50 ([\d.]+)", printed, re.MULTILINE)
    return {"R": float(found[-1][0]), "P": float(found[-1][1])} if found else {}


def record(records: list[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    """Return the record of one call of one candidate."""
    for one in records:
        if all(one[key] == wanted[key] for key in wanted):
            return one
    raise LookupError(wanted)


def times(other: str, call: str, table: str = "messages", by: str = "p50_ms") -> Read:
    """Return how many times memdb's time a call of *other* takes; ours is one of `messages`."""

    def read(records: list[dict[str, Any]]) -> float:
        theirs = record(records, candidate=other, call=call, table=table)
        ours = record(records, candidate="memdb", call=call, table="messages")
        return float(theirs[by] / ours[by])

    return read


def part(other: str, call: str, table: str = "messages") -> Read:
    """Return the CPU of memdb, its p50, in parts of another's."""
    return lambda records: 1 / times(other, call, table, by="cpu_p50_ms")(records)


def grown(call: str, large: int, by: str = "p50_ms") -> Read:
    """Return what a call takes in a large file, in times what it takes in one of 10,000."""

    def read(records: list[dict[str, Any]]) -> float:
        big, small = (
            record(records, candidate="memdb process", call=call, rows=rows)[by]
            for rows in (large, 10_000)
        )
        return float(big / small)

    return read


def cold(name: str) -> str:
    """Return the pattern of a line of `cold.py`: milliseconds of CPU more than the commit."""
    return rf"^{name} +[\d.]+ +[\d.]+ .* (?P<value>[-\d.]+) ms more"


def recall(size: int, kind: str) -> str:
    """Return the pattern of a line of `reading.py`."""
    return rf"^recall of +{size:,}, {kind} .* p50 +"


def call(name: str) -> str:
    """Return the pattern of a line of `calls.py`, up to its milliseconds."""
    return rf"^{re.escape(name)} +p50 +"


def programs(large: int) -> list[Program]:
    """Return everything that is run, in this order."""
    size = f"{large:,}"
    return [
        Program(
            "cold",
            ("cold.py", "--commit", BEFORE),
            (
                *(
                    Goal(f"first {name}, cold, ms of CPU more than {BEFORE}", 20, cold(name))
                    for name in ("last 50", "append", "context", "recall")
                ),
                Goal("--help, in times importing click", 1.5, rf"^help +[\d.]+ +[\d.]+ +{NUMBER}"),
                Goal("RSS, exact counts, MB", 45, rf"exact counts *: {NUMBER} MB"),
            ),
        ),
        Program(
            "beside",
            ("beside.py", "--rows", "4000", "--only", *RAW, *installed()),
            (
                at_least(
                    "append FULL, in times OpenAI's session", 1.2, "openai session", "messages"
                ),
                at_least("append FULL, of the raw loop", 0.5, RAW[0], "messages"),
                at_least("append FULL, in times LangGraph's store", 3, "langgraph", "memories"),
                at_least("append FULL, in times mem0", 6, "mem0", "memories"),
                at_least("append FULL, in times ADK", 5, "adk session", "messages"),
                Goal(
                    "fdatasync alone, ms (the bars above are of a fast disk)",
                    0.2,
                    lambda records: float(record(records, candidate="fdatasync alone")["p50_ms"]),
                ),
                Goal("last 50, part of OpenAI's get_items", 0.4, part("openai session", "last")),
                Goal("last 50, part of ADK's", 0.035, part("adk session", "last")),
            ),
            writes_records=True,
        ),
        Program(
            "langgraph",
            ("beside.py", "--users", "1", "--only", RAW[0], "langgraph"),
            (
                Goal(
                    "recall in a scope of 10,000, part of LangGraph's search",
                    0.5,
                    part("langgraph", "search", "memories"),
                ),
            ),
            writes_records=True,
        ),
        Program(
            "openai",
            ("openai_agents.py",),
            (
                Goal(
                    "append, async adapter, in times OpenAI's session",
                    0.85,
                    rf"^append one item .* x +{NUMBER}",
                    at_least=True,
                ),
                Goal(
                    "50 sessions append at once, in times OpenAI's",
                    4,
                    rf"^50 sessions append at once .* x +{NUMBER}",
                    at_least=True,
                ),
                Goal("all of 2,000, in times OpenAI's", 1.3, rf"^all of 2,000 takes +{NUMBER} x"),
            ),
            environment="openai_agents",
        ),
        Program(
            "appends",
            ("appends.py", "--messages", str(large)),
            (
                Goal(
                    f"append at {size}, process, p50, CPU in times the raw loop",
                    2,
                    rf"{size} times the raw loop: .* cpu {NUMBER} p50",
                ),
                Goal(f"append at {size}, mean / p50", 1.3, rf"{size} cpu .*mean/p50 {NUMBER}"),
                Goal(
                    f"append at {size}, p99.9 / p50",
                    25,
                    rf"{size} cpu +p50 +{OF}.*p99\.9 +{NUMBER}",
                ),
            ),
        ),
        Program(
            "bulk",
            ("appends.py", "--bulk", "100000"),
            (
                Goal(
                    "bulk import, of the loop by hand",
                    0.92,
                    rf"^bulk of .*: {NUMBER} of it",
                    at_least=True,
                ),
            ),
        ),
        Program(
            "writers",
            ("appends.py", "--writers", "8"),
            (
                Goal("8 writers, process, errors", 0, r"^8 writers .* errors (?P<value>\d+)"),
                Goal("8 writers, process, lost", 0, r"^8 writers .* lost (?P<value>-?\d+)"),
                Goal("8 writers, process, longest wait ms", 50, rf"^8 writers .* longest {NUMBER}"),
                Goal("8 writers, process, in times one", 0.75, WRITERS, at_least=True),
            ),
            before=("appends.py", "--writers", "1"),
        ),
        Program(
            "writers power",
            ("appends.py", "--writers", "8", "--durability", "power"),
            (
                Goal("8 writers, power, lost", 0, r"^8 writers .* lost (?P<value>-?\d+)"),
                Goal("8 writers, power, in times one", 1.2, WRITERS, at_least=True),
            ),
            before=("appends.py", "--writers", "1", "--durability", "power"),
        ),
        Program(
            "readers",
            ("readers.py", "--threads", "200"),
            (
                Goal(
                    "an append beside 200 reading threads, p99 ms",
                    20,
                    rf"^ 200 readers: .* p99 {NUMBER}",
                ),
                Goal(
                    "descriptors with 200 reading threads",
                    40,
                    r"^ 200 readers: .* (?P<value>\d+) descriptors",
                ),
            ),
        ),
        Program(
            "vectors",
            ("vectors.py", "--dim", "384"),
            (
                Goal(
                    "KNN of 100,000 x 384, with numpy, in times numpy",
                    0.35,
                    rf" x 384:[\s\S]*^memdb with numpy .* {NUMBER} x ",
                ),
                Goal(
                    "KNN of 100,000 x 384, without, in times numpy",
                    1.4,
                    rf" x 384:[\s\S]*^memdb without numpy .* {NUMBER} x ",
                ),
                Goal(
                    "recall@10 of 100,000 sentences",
                    0.97,
                    rf"^memdb with numpy .*recall@10 {NUMBER}",
                    at_least=True,
                ),
            ),
            before=("vectors.py",),
        ),
        Program(
            "unsummarised",
            ("context.py", "--unsummarised"),
            (
                Goal(
                    "first context after an import of 100,000, in times a later one",
                    4,
                    rf"^100000 messages without .* first {NUMBER} ms, then p50 {OF}",
                ),
            ),
        ),
        Program(
            "calls",
            ("calls.py", "--messages", "10000", "--entries", "10000"),
            (
                Goal("context, in P", 1.5, call("context") + NUMBER, unit="P"),
                Goal(
                    "context with a question, in times recall",
                    1.5,
                    rf"{call('context, question')}{NUMBER}[\s\S]*{call('recall')}{OF}",
                ),
                Goal(
                    "remember beside 10,000 entries, in times recall of entries",
                    1.5,
                    rf"{call('recall, entries')}{OF}[\s\S]*{call('remember')}{NUMBER}",
                ),
            ),
        ),
        Program(
            "entries",
            ("calls.py", "--entries", "100000", "--calls", "20"),
            (
                Goal(
                    "remember beside 100,000 entries, in times recall of entries",
                    2.5,
                    rf"{call('recall, entries')}{OF}[\s\S]*{call('remember')}{NUMBER}",
                ),
            ),
        ),
        Program(
            "archive",
            ("archive.py",),
            (
                Goal(
                    "search in archived text, in times hot",
                    1.2,
                    rf"^search +archived is {NUMBER} x hot",
                ),
            ),
        ),
        Program(
            "size",
            ("size.py",),
            (
                Goal("file, in times its text", 2.2, rf"^file / text {NUMBER}"),
                Goal(
                    "half deleted and written again",
                    1.15,
                    rf"^half deleted and written again {NUMBER}",
                ),
            ),
        ),
        Program(
            "size static",
            ("size.py", "--embedder", "static"),
            (
                Goal(
                    "file with vectors and summaries, in times its text",
                    4.5,
                    rf"^file / text {NUMBER}",
                ),
            ),
        ),
        Program(
            "keeping",
            ("keeping.py", "--messages", str(large), "--only", *KEEPING),
            (
                *(
                    Goal(f"{task} of {size}, in plain readings", bar, rf"^{task} .* {NUMBER} x")
                    for task, bar in PLAIN.items()
                ),
                Goal(
                    f"forget a session with proof in {size}, in P",
                    1000,
                    rf"^  forget alone {NUMBER} ms CPU",
                    unit="P",
                ),
            ),
        ),
        Program(
            "reading",
            ("reading.py", "--rows", str(large)),
            (
                Goal(
                    "recall of 10,000, in times one of 1,000",
                    1.6,
                    rf"{recall(1_000, 'mixed')}{OF}[\s\S]*{recall(10_000, 'mixed')}{NUMBER}",
                ),
                Goal(
                    "words alone, part of a recall of 10,000",
                    0.25,
                    rf"{recall(10_000, 'mixed')}{OF}[\s\S]*{recall(10_000, 'words only')}{NUMBER}",
                ),
                Goal(f"last 50 in {size}, in times apsw", 1.8, rf"^last 50: .* {NUMBER} x \(bar"),
            ),
        ),
        Program(
            "growth",
            ("growth.py", "--rows", str(large)),
            (
                Goal(f"append, mean, {size} / 10,000", 1.2, grown("put", large, by="mean_ms")),
                Goal(f"last 50, p50, {size} / 10,000", 1.2, grown("last", large)),
                Goal(f"recall, p50, {size} / 10,000", 1.2, grown("search", large)),
                Goal(f"context, p50, {size} / 10,000", 1.2, grown("context", large)),
            ),
            writes_records=True,
        ),
    ]


def at_least(name: str, bar: float, other: str, table: str) -> Goal:
    """Return a goal: how many times as fast as *other* memdb stores."""
    return Goal(name, bar, times(other, "put", table), at_least=True)


def installed() -> list[str]:
    """Return the names of the other memories that `make peers` installed."""
    return [one.name for one in beside.candidates() if one.name in PEERS and one.python.exists()]


def run(given: argparse.Namespace) -> int:
    """Run what was chosen, print the table, write the records; return how many were not met."""
    chosen = [one for one in programs(given.messages) if not given.only or one.name in given.only]
    beside.check_disk(given.messages, BYTES_PER_MESSAGE)
    machine = beside.machine_facts() | {"messages": given.messages}
    print("  ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"{'':62}{'bar':>10}{'number':>11}")
    patience, begun = beside.Patience(given.wait), time.monotonic()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="goals-") as folder:
        for program in chosen:
            is_quiet = patience.wait()
            start = time.monotonic()
            values, why, ones = measure(program, Path(folder))
            took_s = round(time.monotonic() - start)
            words = " ".join(program.words)
            print(f"{words}  ({took_s} s{'' if is_quiet else ', others work too'}){why}{ones}")
            for goal, value in zip(program.goals, values, strict=True):
                print(line_of(goal, value), flush=True)
                found.append(
                    machine
                    | {"program": words, "seconds": took_s, "is_quiet": is_quiet}
                    | {"goal": goal.name, "bar": goal.bar, "at_least": goal.at_least}
                    | {"value": value, "is_met": goal.is_met(value)}
                )
    missed = sum(not one["is_met"] for one in found)
    minutes = (time.monotonic() - begun) / 60
    print(f"{len(found) - missed} met, {missed} missed or not measured, {minutes:.0f} minutes")
    beside.write_records(given.out, found)
    return missed


def line_of(goal: Goal, value: float | None) -> str:
    """Return a goal as a line of the table."""
    bar = f"{'>=' if goal.at_least else '<='} {goal.bar:.4g}"
    if value is None:
        return f"  {goal.name:60}{bar:>10}{'-':>11}  not measured"
    mark = "met" if goal.is_met(value) else "MISSED"
    return f"  {goal.name:60}{bar:>10}{value:11.4g}  {mark}"


def measure(program: Program, folder: Path) -> tuple[list[float | None], str, str]:
    """Return the number of each goal, what kept it from being measured, and the line of units."""
    out = folder / "records.jsonl"
    out.unlink(missing_ok=True)
    nothing: list[float | None] = [None] * len(program.goals)
    if not program.python.exists():
        return nothing, ": not installed, run `make peers`", ""
    words = (*program.words, "--out", str(out)) if program.writes_records else program.words
    texts = [ask(program.python, some, folder) for some in (program.before, words) if some]
    printed, errors = ("\n".join(column) for column in zip(*texts, strict=True))
    records = beside.read_records(out) if out.exists() else []
    values = [goal.read(printed, records) for goal in program.goals]
    last = errors.strip().splitlines()[-1:] if None in values else []
    ones = [f"\n  {one}" for one in printed.splitlines() if one.startswith("units:")]
    return values, "".join(f": {one}" for one in last), "".join(ones[-1:])


def ask(python: Path, words: tuple[str, ...], folder: Path) -> tuple[str, str]:
    """Return what a program printed, and what it said went wrong; its files go below *folder*."""
    with subprocess.Popen(
        [str(python), str(beside.HERE / words[0]), *words[1:]],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            return process.communicate()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)  # so that it ends what it has started
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    names = [one.name for one in programs(LARGE)]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--messages", type=int, default=LARGE, choices=(10_000, 100_000, LARGE))
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait for quiet in all")
    parser.add_argument("--out", type=Path, default=beside.HERE / "results" / "goals.jsonl")
    given = parser.parse_args()
    missed: list[int] = []
    beside.until_stopped(lambda: missed.append(run(given)))
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
