"""
Train the ranker of messages, and judge it on what it has not seen.

    python bench/ranker/train.py [--chats FILE] [--judge FILE] [--embedder SPEC] [--write]

Trained on `conversations.jsonl` beside this file, written for memdb, and on BEAM's chats with an
assistant (CC BY-SA 4.0, `--chats`). LoCoMo (CC BY-NC 4.0) and other `--judge` data are only
measured. `--embedder fastembed:DIR` also trains the table for sentence models. Needs numpy.

The features are those that recall itself computes. Weights begin as `RECIPE`, whose proportions
are those of ADR-0012, and are moved by a listwise softmax loss: the evidence should be ahead of
the 200 candidates. Between people only the features of `FREE` move; all others would learn how
our own conversations were written (docs/adr/0021). The change for chats with an assistant is
learned on those, and is judged with one chat left out at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import memdb
from memdb.evaluation import convert, dataset, measuring
from memdb.evaluation.measuring import measure
from memdb.search.features import read_features
from memdb.search.request import search_request
from memdb.search.retrieve import find_messages
from memdb.search.weights import BY_TABLE

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
OUT = HERE.parents[1] / "memdb" / "search" / "ranker.json"

# What the ranking of 2026-11 before this one counted, as weights of features.
RECIPE = {
    "base": 1.0,
    "question_near": 0.3,
    "before_near": 0.15,
    "after_near": 0.1,
    "author": 0.17,
    "role": 0.17,
    "asks": -0.08,
    "date": 1.0,
    "session": 0.3,
}
FREE = (
    *("when", "how_many", "who", "time", "number", "capitals"),
    *("before_run", "before_near_run", "after_run", "after_near_run"),
)
PEOPLE_L2, CHANGE_L2 = 0.03, 0.1
STEPS, RATE = 150, 0.05
LEAST_SPREAD = 0.1
# Dates mean the same in every chat; in BEAM all messages of a session are of one day.
UNCHANGED = ("date",)
# The tenth of an answer scores so much of the first, as an entry's does (median).
TENTH = 0.55
MEASURES = ("R@5", "R@10", "nDCG@10", "MRR")


class Asked(NamedTuple):
    """A question: features by candidate, which of them are evidence, how many there are."""

    chat: str
    ids: list[str]
    columns: dict[str, list[float]]
    matrix: np.ndarray
    is_evidence: np.ndarray
    evidence: frozenset[str]
    assistance: float


def read(data: dataset.Dataset, embedder: str | None, table: str) -> list[Asked]:
    """Return the questions of *data* as recall sees them."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        clock = measuring.Clock()
        options = {"durability": "process", "embedder": embedder, "clock": clock}
        with memdb.open(f"{folder}/train.db", **options) as db:
            ready = measuring.filled(data, db, clock)
            service = db._services.recaller
            names = {}
            for question in data.questions:
                if not question.evidence:
                    continue
                scope = db.scope(question.scope, app=measuring.APP)
                if question.scope not in names:
                    names[question.scope] = {
                        one.id: one.external_id
                        for each in scope.sessions()
                        for one in scope.session(each.name).messages()
                    }
                clock.now_ms = question.asked_ms or ready.ends[question.scope]
                request = search_request(question.text, 20, kinds=("message",))
                retrieved = service.first_read(scope._owner, request)
                ((_, corpus),) = retrieved.corpora
                vector = service.embed(retrieved).vector
                weights = BY_TABLE[table]
                with db._db.read() as tx:
                    candidates = find_messages(tx, retrieved.question, corpus, vector, weights)
                features = read_features(
                    retrieved.question.query, candidates, weights, with_similar=vector is not None
                )
                ids = [names[question.scope][key] for key in features.ids]
                evidence = frozenset(question.evidence)
                found.append(
                    Asked(
                        question.scope,
                        ids,
                        features.columns,
                        np.array(list(features.columns.values()), np.float64).T,
                        np.array([key in evidence for key in ids]),
                        evidence,
                        features.assistance,
                    )
                )
    print(f"{table}: {len(found)} questions read", file=sys.stderr)
    return found


def descend(parts: list[tuple], l2: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the weights of least listwise loss, pulled to *start*; *parts*: (rows, evidence)."""
    parts = [(rows, marked) for rows, marked in parts if marked.any()]
    rows = np.concatenate([each for each, _ in parts])
    starts = np.cumsum([0, *(len(each) for each, _ in parts)])
    segment = np.repeat(np.arange(len(parts)), np.diff(starts))
    target = np.concatenate([marked / marked.sum() for _, marked in parts])
    weights, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, STEPS + 1):  # Adam, Kingma and Ba 2015, on all rows at once
        sums = rows @ weights
        sums -= np.maximum.reduceat(sums, starts[:-1])[segment]
        share = np.exp(sums)
        share /= np.add.reduceat(share, starts[:-1])[segment]
        slope = rows.T @ (share - target) / len(parts) + l2 * (weights - start)
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope * slope
        pace = RATE * (1 - 0.9 * step / STEPS)
        moved = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        weights = weights - pace * moved
    return weights


def spread_of(asked: list[Asked]) -> np.ndarray:
    """
    Return the standard deviation of each feature, `LEAST_SPREAD` or more.

    A feature that hardly differs here would get a weight that is too large elsewhere.
    """
    found = np.concatenate([each.matrix for each in asked]).std(0)
    return np.maximum(found, LEAST_SPREAD)


def scaled_recipe(asked: list[Asked], names: list[str]) -> np.ndarray:
    """Return `RECIPE` times the scale at which its softmax explains the evidence best."""
    recipe = np.array([RECIPE.get(name, 0.0) for name in names])

    def likelihood(scale: float) -> float:
        total = 0.0
        for each in asked:
            if each.is_evidence.any():
                sums = scale * (each.matrix @ recipe)
                sums -= sums.max()
                total += sums[each.is_evidence].mean() - math.log(np.exp(sums).sum())
        return total

    return recipe * max((2, 3, 4, 5, 6, 8, 10, 12, 16), key=likelihood)


def train_people(asked: list[Asked], names: list[str]) -> np.ndarray:
    """Return the weights between people: the recipe, and what is learned of `FREE`."""
    recipe = scaled_recipe(asked, names)
    free = [names.index(name) for name in FREE]
    spread = spread_of(asked)[free]
    parts = [
        (np.column_stack([each.matrix[:, free] / spread, each.matrix @ recipe]), each.is_evidence)
        for each in asked
    ]
    start = np.zeros(len(free) + 1)
    start[-1] = 1.0
    learned = descend(parts, np.full(len(start), PEOPLE_L2), start)
    weights = recipe * learned[-1]
    weights[free] += learned[:-1] / spread
    return weights


def train_change(asked: list[Asked], people: np.ndarray) -> np.ndarray:
    """Return what is added to the weights *people* in a chat with an assistant."""
    spread = spread_of(asked)
    free = np.array([name not in UNCHANGED for name in asked[0].columns])
    parts = [
        (
            np.column_stack([each.assistance * free * each.matrix / spread, each.matrix @ people]),
            each.is_evidence,
        )
        for each in asked
    ]
    start = np.zeros(len(spread) + 1)
    start[-1] = 1.0
    l2 = np.full(len(start), CHANGE_L2)
    l2[-1] = 100.0
    return descend(parts, l2, start)[:-1] / spread


def scores(asked: list[Asked], people: np.ndarray, change: np.ndarray) -> list[dict[str, float]]:
    """Return the measures of each question."""
    found = []
    for each in asked:
        sums = each.matrix @ (people + each.assistance * change)
        order = np.argsort(-sums, kind="stable")[:20]
        found.append(measure([each.ids[place] for place in order], each.evidence))
    return found


def show(name: str, found: list[dict[str, float]]) -> None:
    """Print the means of *found*."""
    means = (f"{one} {np.mean([each[one] for each in found]):.3f}" for one in MEASURES)
    print(f"{name:44}{len(found):6}  {'  '.join(means)}")


def train(table: str, embedder: str | None, given: argparse.Namespace) -> dict[str, list[float]]:
    """Train and judge one table; return its weights by feature."""
    own = read(dataset.read(given.conversations), embedder, table)
    chats = read(dataset.read(given.chats), embedder, table)
    names = list(own[0].columns)
    people = train_people(own, names)
    helped = [each for each in own if each.assistance > 0.3]
    for_chats = []
    for chat in sorted({each.chat for each in chats}):
        rest = [each for each in chats if each.chat != chat]
        left = [each for each in chats if each.chat == chat]
        for_chats += scores(left, people, train_change(rest + helped, people))
    show(f"{table}: chats, one left out at a time", for_chats)
    change = train_change(chats + helped, people)
    show(f"{table}: conversations trained on", scores(own, people, change))
    for path in given.judge:
        asked = read(judged(path), embedder, table)
        show(f"{table}: {path.stem}, never trained on", scores(asked, people, change))
        if given.limit:
            show(f"{table}: {path.stem}, one left out at a time", upper_limit(asked, names))
    falls = []
    for each in own + chats:
        sums = np.sort(each.matrix @ (people + each.assistance * change))[::-1]
        if len(sums) > 9:
            falls.append(sums[0] - sums[9])
    scale = -math.log(TENTH) / float(np.median(falls))
    pairs = zip(names, people * scale, change * scale, strict=True)
    return {name: [round(float(a), 4), round(float(b), 4)] for name, a, b in pairs}


def upper_limit(asked: list[Asked], names: list[str]) -> list[dict[str, float]]:
    """Return the measures if all weights are trained on the other conversations of *asked*."""
    found = []
    recipe = scaled_recipe(asked, names)
    for chat in sorted({each.chat for each in asked}):
        rest = [each for each in asked if each.chat != chat]
        spread = spread_of(rest)
        parts = [(each.matrix / spread, each.is_evidence) for each in rest]
        learned = descend(parts, np.full(len(spread), 0.03), recipe * spread) / spread
        left = [each for each in asked if each.chat == chat]
        found += scores(left, learned, np.zeros_like(learned))
    return found


def judged(path: Path) -> dataset.Dataset:
    """Return a data set in memdb's format, or LoCoMo's folder."""
    if path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "judged.jsonl"
            dataset.write(convert.convert("locomo", path), made)
            return dataset.read(made)
    return dataset.read(path)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--conversations", type=Path, default=HERE / "conversations.jsonl")
    parser.add_argument("--chats", type=Path, default=DATA / "beam" / "dev.jsonl")
    parser.add_argument("--judge", type=Path, nargs="*", default=[DATA / "locomo"])
    parser.add_argument("--embedder", help="of the table for sentence models")
    parser.add_argument("--limit", action="store_true", help="also trained on what is judged")
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()
    if not given.chats.exists():
        sys.exit(f"no chats at {given.chats.name}: give --chats")
    made = json.loads(OUT.read_text()) if OUT.exists() else {"tables": {}}
    embedders = {"words": None, "static": "static", "sentence": given.embedder}
    for table, embedder in embedders.items():
        if table != "sentence" or embedder is not None:
            made["tables"][table] = train(table, embedder, given)
    made["made_by"] = "bench/ranker/train.py"
    made["licence"] = "CC BY-SA 4.0, see NOTICE"
    made["trained_on"] = {
        path.parent.name + "/" + path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (given.conversations, given.chats)
    }
    if given.write:
        OUT.write_text(text_of(made))


def text_of(made: dict) -> str:
    """Return JSON with one feature per line."""
    lines = ["{"]
    lines += [f"  {json.dumps(key)}: {json.dumps(made[key])}," for key in ("made_by", "licence")]
    lines += [f'  "trained_on": {json.dumps(made["trained_on"], indent=4)},', '  "tables": {']
    for table, weights in made["tables"].items():
        lines.append(f"    {json.dumps(table)}: {{")
        lines += [f"      {json.dumps(name)}: {pair}," for name, pair in weights.items()]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("    },")
    lines[-1] = "    }"
    return "\n".join([*lines, "  }", "}", ""])


if __name__ == "__main__":
    main()
