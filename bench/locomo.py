"""
Recall on LoCoMo: how often the turns that hold the evidence are found.

    python bench/locomo.py [--embedder SPEC] [--folder DIR]

Each conversation is a scope of its own, each turn a message; a question counts
with the share of its evidence turns among the first k. The data set is not part
of memdb: evaluation only (CC BY-NC 4.0).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from math import log2
from pathlib import Path
from statistics import median

import locomo_data

import memdb

CUTS = (5, 10, 20)
MEASURES = ("R@5", "R@10", "R@20", "nDCG@10", "MRR")


def measure(ranked: list[str], evidence: set[str]) -> dict[str, float]:
    """Return every measure of one answer."""
    found = [place for place, name in enumerate(ranked, start=1) if name in evidence]
    ideal = sum(1 / log2(place + 1) for place in range(1, min(len(evidence), 10) + 1))
    gain = sum(1 / log2(place + 1) for place in found if place <= 10)
    scores = {f"R@{cut}": sum(p <= cut for p in found) / len(evidence) for cut in CUTS}
    return scores | {"nDCG@10": gain / ideal, "MRR": 1 / found[0] if found else 0.0}


def run(folder: Path, embedder: object) -> tuple[list[tuple[str, str, dict]], list[float]]:
    """Ask every question of every conversation; return (file, category, scores) and ms."""
    rows, took_ms = [], []
    with (
        tempfile.TemporaryDirectory() as place,
        memdb.open(f"{place}/locomo.db", durability="process", embedder=embedder) as db,
    ):
        for path in locomo_data.files(folder):
            scope = db.scope(path.stem, app="locomo")
            locomo_data.load(scope, path)
            db.run_pending()
            known = {
                message.external_id
                for session in scope.sessions()
                for message in scope.session(session.name).messages()
            }
            for question, category, evidence in locomo_data.questions(path, known):
                start = time.perf_counter()
                hits = scope.recall(question, 20, kinds=("message",))
                took_ms.append((time.perf_counter() - start) * 1000)
                ranked = [hit.source.external_id for hit in hits]
                rows.append((path.stem, category, measure(ranked, evidence)))
    return rows, took_ms


def report(rows: list[tuple[str, str, dict]]) -> None:
    """Print the means: of all, by category, by conversation."""
    groups = {"all": rows}
    for place, label in ((1, "category"), (0, "conversation")):
        for name in sorted({row[place] for row in rows}):
            groups[f"{label} {name}"] = [row for row in rows if row[place] == name]
    print(f"{'':26}{'n':>6}" + "".join(f"{name:>9}" for name in MEASURES))
    for name, part in groups.items():
        means = [sum(row[2][key] for row in part) / len(part) for key in MEASURES]
        print(f"{name:26}{len(part):>6}" + "".join(f"{value:9.3f}" for value in means))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--embedder", default="static", help="or none, fastembed:DIR ...")
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    given = parser.parse_args()
    if not locomo_data.files(given.folder):
        sys.exit(f"no conversations in {given.folder.name}: give --folder")
    embedder = None if given.embedder == "none" else given.embedder
    rows, took_ms = run(given.folder, embedder)
    print(f"memdb {memdb.__version__}, embedder {embedder}")
    report(rows)
    print(f"query p50 {median(took_ms):.2f} ms, embedding of the query included")


if __name__ == "__main__":
    main()
