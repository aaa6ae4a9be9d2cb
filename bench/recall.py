"""
Recall against the bars and against other memories, on one data set, in one run.

    python bench/recall.py [DATA] [--peers] [--records PATH] [--json PATH]

DATA is in the format of docs/evaluation.md; without it LoCoMo's development conversations are
converted, and held to the bars below. `--peers` also asks the memories that `make peers`
installed. The data set is not part of memdb: evaluation only (CC BY-NC 4.0).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import locomo_data
import units

from memdb.evaluation import convert, dataset, measuring
from memdb.evaluation import measuring as report
from memdb.evaluation.measuring import ARMS, DEPTH, measure

PEERS = Path(__file__).parent / "peers"

# Name -> environment, driver, its arguments; {folder} is a new folder.
DRIVERS = {
    "engrava": ("engrava", "engrava_core.py"),
    "LangGraph SqliteStore": ("langgraph", "langgraph_store.py"),
    "mem0, no inference": ("mem0", "mem0_memory.py"),
    "ADK keyword": ("adk", "adk_memory.py", "keyword", "{folder}"),
    "ADK SQLite": ("adk", "adk_memory.py", "sqlite", "{folder}"),
}

# What LoCoMo's development split is held to, by level.
BARS = {
    "turn": {"R@10": 0.82, "nDCG@10": 0.63, "MRR": 0.60},
    "session": {"any@5": 0.93, "all@5": 0.80},
}


class Driver:
    """A peer in a process of its own."""

    def __init__(self, name: str, folder: str) -> None:
        environment, program, *options = DRIVERS[name]
        python = PEERS / ".venvs" / environment / "bin" / "python"
        self.name = name
        self.installed = python.exists()
        self.command = [str(python), str(PEERS / program)]
        self.command += [option.format(folder=folder) for option in options]

    def start(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, **line: object) -> dict:
        try:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
            said = json.loads(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            sys.exit(f"{self.name} ended: run {' '.join(self.command)} to see why")
        if "error" in said:
            sys.exit(f"{self.name}: {said['error']}")
        return said

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)


def items(data: dataset.Dataset) -> dict[str, list[dict]]:
    """Return by scope what a peer is given: the same texts as memdb."""
    given: dict[str, list[dict]] = defaultdict(list)
    for scope, talks in data.sessions.items():
        for session, talk in talks.items():
            given[scope] += [
                {**one.to_dict(), "session": session, "created_ms": one.created_ms or 0}
                for one in talk
            ]
    for scope, documents in data.documents.items():
        given[scope] += [
            {**one.to_dict(), "session": one.id, "author": None, "role": "user", "created_ms": 0}
            for one in documents
        ]
    return given


def ask_peers(data: dataset.Dataset) -> list[measuring.Answer]:
    """Return the answers of every peer that is installed, turn level."""
    answers = []
    for name in DRIVERS:
        with tempfile.TemporaryDirectory(prefix="peer-") as folder:
            driver = Driver(name, folder)
            if not driver.installed:
                print(f"{name}: not installed, run `make peers`", file=sys.stderr)
                continue
            driver.start()
            for scope, given in items(data).items():
                driver.ask(op="add", scope=scope, items=given)
            for asked in data.questions:
                if asked.evidence:
                    answers.append(_answer(driver, asked))
                    units.turn()
            driver.stop()
            print(f"{name}: asked", file=sys.stderr)
    return answers


def _answer(driver: Driver, asked: dataset.Asked) -> measuring.Answer:
    said = driver.ask(op="search", scope=asked.scope, query=asked.text, limit=DEPTH)
    return measuring.Answer(
        driver.name,
        "turn",
        asked.id,
        asked.category,
        asked.scope,
        tuple(sorted(asked.evidence)),
        tuple(said["ids"]),
        measure(said["ids"], asked.evidence),
        said["ms"],
    )


def judge(told: dict) -> int:
    """Print each bar with what was measured; return how many were missed."""
    missed = 0
    found = {
        row["level"]: row
        for row in told["results"]
        if row["arm"] == "fused" and row["category"] == report.ALL
    }
    for level, bars in BARS.items():
        for name, bar in bars.items():
            good = found[level][name] >= bar
            missed += not good
            mark = "ok" if good else "MISSED"
            print(f"bar {level:8}{name:8} {found[level][name]:.3f} >= {bar:.2f}  {mark}")
    for row in told["fused_against_arms"]:
        missed += not row["good"]
    print(f"bar fused >= best arm - {report.TOLERATED} in each category: {missed} bars missed")
    return missed


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--peers", action="store_true", help="also what `make peers` installed")
    parser.add_argument("--records", type=Path, help="write every answer here, JSON lines")
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.data
        if path is None:
            if not locomo_data.files(given.folder):
                sys.exit(f"no conversations in {given.folder.name}: give DATA or --folder")
            path = Path(folder) / "locomo.jsonl"
            dataset.write(convert.convert("locomo", given.folder), path)
        data = dataset.read(path)
    arms = ARMS
    answers = list(measuring.run(data, arms))
    if given.peers:
        answers += ask_peers(data)
    if given.records:
        lines = (json.dumps(one.to_dict(), ensure_ascii=False) + "\n" for one in answers)
        given.records.write_text("".join(lines))
    told = report.report(data, arms, answers, "static")
    if given.json:
        given.json.write_text(json.dumps(told, indent=2))
    print("\n".join(report.text(told)))
    print(units.line())
    if given.data is None:
        sys.exit(1 if judge(told) else 0)


if __name__ == "__main__":
    main()
