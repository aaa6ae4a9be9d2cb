"""
Every speed bar of memdb, measured on this machine.

    python bench/run.py [SCENARIO]

Prints a table and appends one line per result to bench/results/<date>.jsonl,
with machine and versions. Numbers of shared machines drift: compare within one
run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import apsw
import scenarios

import memdb


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    names = [scenario.__name__ for scenario in scenarios.SCENARIOS]
    parser.add_argument("scenario", nargs="?", choices=names)
    given = parser.parse_args()
    machine = {
        "memdb": memdb.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    print("  ".join(f"{key} {value}" for key, value in machine.items()))
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    missed = 0
    with (folder / f"{datetime.now(UTC):%Y-%m-%d}.jsonl").open("a") as out:
        for row in scenarios.run_all(given.scenario):
            bar = "" if row.bar is None else f"{'>=' if row.at_least else '<='} {row.bar:g}"
            mark = {True: "ok", False: "MISSED", None: ""}[row.good]
            facts = "  ".join(f"{key} {value:.4g}" for key, value in row.facts.items())
            print(f"{row.name:42}{row.value:12.4g} {row.unit:6}{bar:>10} {mark:7}{facts}")
            sys.stdout.flush()
            missed += row.good is False
            line = {**machine, "name": row.name, "value": row.value, "unit": row.unit, **row.facts}
            out.write(json.dumps(line) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
