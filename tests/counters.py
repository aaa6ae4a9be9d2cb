"""
Counts of what the tests of faults tried, and the table that they end in.

    MEMDB_COUNTS=FOLDER python -m pytest -m slow; python tests/counters.py FOLDER

prints the table and writes it into docs/reliability.md.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

# The environment variable that names where each process of a run leaves its counts.
FOLDER = "MEMDB_COUNTS"

DOCUMENT = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- counts: written by make slow -->", "<!-- end of counts -->"

# In the order of the table. A count is added only after its checks held, or the test failed.
ROWS = {
    "power": 'Power cuts at durability="power": images opened',
    "process": 'Power cuts at durability="process": images opened',
    "off": "Control without syncs: images found lost or damaged",
    "statements": "Statements that failed in a public write",
    "inside": "Calls of the system that failed inside SQLite",
    "memory": "Allocations that failed inside SQLite",
    "signals": "Exceptions by a signal inside a call",
    "kills": "Processes killed with SIGKILL",
    "servers": "PostgreSQL servers killed with SIGKILL under writers",
    "failovers": "Leaders of a Patroni cluster killed under writers",
    "partitions": "Leaders cut off from their cluster under writers",
    "stops": "Processes stopped with SIGSTOP",
    "acknowledged": "Writes that the killed processes had acknowledged, all of them found",
    "forks": "Forks beside other writers",
    "libraries": "Reads by a second SQLite library",
    "truncations": "Files truncated or copied over under a reader",
    "disks": "Writes that met a full disk",
    "busy": "Writes while another process writes",
    "interrupts": "Writes that were interrupted inside SQLite",
    "clocks": "Calls while the clock jumps",
    "rot": "Damages of a stored file: found, or without effect",
    "isolation": "Calls of one user with another's names, words and ids",
    "hostile": "Hostile files, each refused or harmless in every call",
    "mutants": "Mutants of memdb that a test caught",
}

# How many a whole run has to try at least. Rows without a bar are in the table if they are not 0.
BARS = {"power": 20_000, "inside": 5_000, "signals": 40_000, "kills": 1_000, "rot": 2_000}

COUNTS: Counter[str] = Counter()


def count(name: str, number: int = 1) -> None:
    """Add to a row of the table."""
    assert name in ROWS
    COUNTS[name] += number


def merge(folder: Path) -> Counter[str]:
    """Return the sum of the counts that the processes of a run left in *folder*."""
    total: Counter[str] = Counter()
    for path in folder.glob("*.json"):
        total.update(json.loads(path.read_text(encoding="utf-8")))
    return total


def table(counts: Counter[str]) -> str:
    """Return the counts as a table in Markdown; a row below its bar says so."""
    today = dt.datetime.now(tz=dt.UTC).date()
    system = f"{sys.platform}, Python {sys.version_info[0]}.{sys.version_info[1]}"
    lines = [
        f"{today}, {system}, apsw {version('apsw')}.",
        "",
        "| tried | times | bar |",
        "| --- | ---: | ---: |",
    ]
    for name, text in ROWS.items():
        number, bar = counts[name], BARS.get(name, 0)
        if number or bar:
            bound = f"{bar:,}" if bar else ""
            below = f" **not reached: {bar - number:,} less**" if number < bar else ""
            lines.append(f"| {text} | {number:,} | {bound}{below} |")
    return "\n".join(lines)


def main(folder: str) -> None:
    """Print the table of a run, and put it into the document."""
    made = table(merge(Path(folder)))
    sys.stdout.write(made + "\n")
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
