"""
How calls grow with the file: memdb and the raw stack at 10,000, 100,000 and 1,000,000 messages.

    python bench/growth.py [--rows 1000000] [--out FILE] [--plots FOLDER]

The measured user has 10,000 messages at every size; all others belong to other users. At each
size the candidates are measured in turn, in 10 rounds of random order. Times are of CPU.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

import beside
import corpus
import plots
import units

SIZES = (10_000, 100_000, 1_000_000)
SCOPE = 10_000
PART = 10_000
ROUNDS = 10
BYTES_PER_ROW = 4_500  # of disk, in three files
CALLS = {"put": 50, "last": 20, "search": 10, "context": 10}


def make_part(first: int) -> list[dict[str, str]]:
    """Return 10,000 rows of one user, in sessions of 200."""
    return [
        {
            "id": f"m{first + place}",
            "user": f"user{first // SCOPE}",
            "session": f"s{place // beside.SESSION}",
            "text": text,
        }
        for place, text in enumerate(corpus.texts(PART, seed=first + 1))
    ]


def measure_size(
    running: list[beside.Process],
    size: int,
    source: random.Random,
    patience: beside.Patience,
) -> list[dict[str, Any]]:
    """Return a record for each candidate and call at this size."""
    own = make_part(0)
    seconds: dict[tuple[str, str], list[list[float]]] = {}
    for number in range(ROUNDS):
        texts = corpus.texts(CALLS["put"], seed=size + number)
        new = [{**own[0], "session": f"new{size}", "text": text} for text in texts]
        queries = corpus.queries(CALLS["search"], seed=size + number)
        asked = {
            "put": {"rows": new},
            "last": {"asked": source.choices(own, k=CALLS["last"])},
            "search": {"asked": [{"user": "user0", "text": text} for text in queries]},
            "context": {"asked": source.choices(own, k=CALLS["context"])},
        }
        units.turn(5)
        for process in source.sample(running, k=len(running)):
            patience.wait()
            for call, given in asked.items():
                if call in process.candidate.calls:
                    took = process.ask(op=call, **given)["cpu"]
                    seconds.setdefault((process.candidate.name, call), []).append(took)
    return [
        beside.machine_facts()
        | {
            "table": f"{size:,} messages",
            "candidate": name,
            "call": call,
            "rows": size,
            "n": len(took := [second for part in parts for second in part]),
            "p50_ms": median(took) * 1000,
            "p99_ms": quantiles(took, n=100)[98] * 1000,
            "mean_ms": mean(took) * 1000,
            "rounds_p50_ms": [median(part) * 1000 for part in parts],
        }
        for (name, call), parts in seconds.items()
    ]


def run(given: argparse.Namespace) -> None:
    """Fill, measure at each size, and print; nothing is left of a run that was stopped."""
    names = ("memdb", "memdb process", "raw apsw + FTS5")
    chosen = [one for one in beside.candidates() if one.name in names and one.table == "messages"]
    for one in chosen:
        if one.driver == "memdb_file":
            one.calls += ("context",)
    beside.check_disk(given.rows, BYTES_PER_ROW)
    source = random.Random(5)
    patience = beside.Patience(given.wait)
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="growth-") as folder, ExitStack() as stack:
        stack.callback(beside.show, "")
        running = beside.start_all(stack, chosen, Path(folder))
        for first in range(0, given.rows, PART):
            rows = make_part(first)
            for process in running:
                process.ask(op="fill", rows=rows)
                if first == 0:  # the vectors of others wait: nobody asks them
                    process.ask(op="rest")
            beside.show(f"{first + PART:,} of {given.rows:,} rows")
            if first + PART in SIZES:
                records += measure_size(running, first + PART, source, patience)
    for one in sorted(records, key=lambda one: (one["call"], one["candidate"], one["rows"])):
        print(
            f"{one['call']:8}{one['candidate']:18}{one['rows']:>10,}{one['p50_ms']:10.3f}"
            f"{one['p99_ms']:10.3f}{one['mean_ms']:10.3f}"
        )
    print(units.line())
    beside.write_records(given.out, records)
    if given.plots:
        given.plots.mkdir(parents=True, exist_ok=True)
        for call in CALLS:
            lines: dict[str, list[tuple[float, float]]] = {}
            for one in records:
                if one["call"] == call:
                    lines.setdefault(one["candidate"], []).append((one["rows"], one["p50_ms"]))
            drawn = plots.line_chart(f"{call}, p50 of CPU in ms by messages in the file", lines)
            (given.plots / f"growth-{call}.svg").write_text(drawn)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rows", type=int, default=SIZES[-1], choices=SIZES)
    parser.add_argument("--wait", type=float, default=120, help="seconds to wait for quiet in all")
    parser.add_argument("--out", type=Path, default=beside.HERE / "results" / "growth.jsonl")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write SVG charts there")
    given = parser.parse_args()
    beside.until_stopped(lambda: run(given))


if __name__ == "__main__":
    main()
