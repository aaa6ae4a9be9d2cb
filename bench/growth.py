"""
How calls grow with the file: memdb and the raw stack at 10,000, 100,000 and 1,000,000 messages.

    python bench/growth.py [--rows 1000000] [--only NAME ...] [--out FILE] [--plots FOLDER]

The measured user has 10,000 messages at every size; all others belong to other users. Each
candidate fills a file of each size. Then all files are asked the same in turn, in 10 rounds of
random order, so that what else a machine does is in every size. Times are of CPU.
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
BYTES_PER_ROW = 1_700  # of disk, in a file
NAMES = ("memdb", "memdb process", "raw apsw + FTS5")
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


def fill(process: beside.Process, size: int) -> None:
    """Store the rows of a file; the vectors of other users wait, because nobody asks for them."""
    for first in range(0, size, PART):
        process.ask(op="fill", rows=make_part(first))
        if first == 0:
            process.ask(op="rest")
        beside.show(f"{process.candidate.name}: {first + PART:,} of {size:,} rows")


def measure(
    running: list[tuple[int, beside.Process]], patience: beside.Patience
) -> list[dict[str, Any]]:
    """Return a record for each size, candidate and call."""
    own, source = make_part(0), random.Random(5)
    seconds: dict[tuple[int, str, str], list[list[float]]] = {}
    for number in range(ROUNDS):
        texts = corpus.texts(CALLS["put"], seed=number)
        queries = corpus.queries(CALLS["search"], seed=number)
        asked = {
            "put": {"rows": [{**own[0], "session": "new", "text": text} for text in texts]},
            "last": {"asked": source.choices(own, k=CALLS["last"])},
            "search": {"asked": [{"user": "user0", "text": text} for text in queries]},
            "context": {"asked": source.choices(own, k=CALLS["context"])},
        }
        units.turn(5)
        for size, process in source.sample(running, k=len(running)):
            patience.wait()
            for call, given in asked.items():
                if call in process.candidate.calls:
                    took = process.ask(op=call, **given)["cpu"]
                    name = process.candidate.name
                    seconds.setdefault((size, name, call), []).append(took)
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
        for (size, name, call), parts in seconds.items()
    ]


def run(given: argparse.Namespace) -> None:
    """Fill, measure, and print; nothing is left of a run that was stopped."""
    names = given.only or NAMES
    chosen = [one for one in beside.candidates() if one.name in names and one.table == "messages"]
    for one in chosen:
        if one.driver == "memdb_file":
            one.calls += ("context",)
    sizes = [size for size in SIZES if size <= given.rows]
    beside.check_disk(sum(sizes) * len(chosen), BYTES_PER_ROW)
    running: list[tuple[int, beside.Process]] = []
    with tempfile.TemporaryDirectory(prefix="growth-") as name, ExitStack() as stack:
        stack.callback(beside.show, "")
        for size in sizes:
            folder = Path(name) / str(size)
            folder.mkdir()
            running += [(size, one) for one in beside.start_all(stack, chosen, folder)]
        for size, process in running:
            fill(process, size)
        records = measure(running, beside.Patience(given.wait))
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
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--wait", type=float, default=120, help="seconds to wait for quiet in all")
    parser.add_argument("--out", type=Path, default=beside.HERE / "results" / "growth.jsonl")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write SVG charts there")
    given = parser.parse_args()
    beside.until_stopped(lambda: run(given))


if __name__ == "__main__":
    main()
