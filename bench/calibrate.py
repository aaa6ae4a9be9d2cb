"""
Calibrate the scale of relevance and its floor for the ranking as it is.

    python bench/calibrate.py [--table static|words] [--search] [--folder DIR] [--beam FILE]

Asks every question with evidence of LoCoMo, BEAM and our own conversations, and questions that
nothing answers (`unrelated.CHOOSE` and `unrelated_more.txt`) in each of their scopes and in a
scope of ten facts. What relevance sees of each answer is kept, so that any `Scale` can be judged
in seconds. Prints what the scale of `memdb.search.weights` gives; `--search` changes one number
at a time as long as fewer unrelated questions get a hit, or less is lost than `MOST_LOSS`.
`unrelated.REPORT` is never asked here: `bench/unrelated.py --half report` judges the result.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import locomo_data
import unrelated

import memdb
from memdb.evaluation import convert, dataset, measuring
from memdb.search import rank, relevance, weights

HERE = Path(__file__).resolve().parent
MORE = (HERE / "unrelated_more.txt").read_text(encoding="utf-8").splitlines()
MOST_LOSS = 0.0045
STEPS = {
    "known": (0.3, 0.4, 0.5, 0.6, 0.8),
    "share": (0.0, 0.25, 0.5, 0.75),
    "all": (0.3, 0.5, 0.7, 0.9, 1.1),
    "cosine": (0.0, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5),
    "missing": (0.2, 0.4, 0.6, 0.8, 1.0),
    "unknown": (0.0, 0.2, 0.4, 0.6),
    "names": (-0.4, -0.2, 0.0, 0.2, 0.3, 0.4),
    "user": (0.0, 0.2, 0.35, 0.4, 0.5),
    "crowd": (0.0, 0.1, 0.2, 0.3),
}


class Asked(NamedTuple):
    """
    What relevance sees of one answer.

    Attributes:
        group: Corpus and scope.
        seen: Query and evidence of each ranking.
        gain: R@10 without a floor. None: nothing answers the question.
        half: "choose", "more" or "".
    """

    group: tuple[str, str]
    seen: list[tuple[object, object]]
    gain: float | None
    half: str


class Recorder:
    """Keeps what relevance is asked while questions are answered."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, object]] = []
        rank.relevance = self

    def __call__(self, query: object, evidence: object) -> relevance.Relevance:
        self.seen.append((query, evidence))
        return relevance.relevance(query, evidence)

    def ask(self, scope: memdb.Scope, text: str, kind: str) -> tuple[list, list]:
        """Return hits without a floor, and what relevance saw."""
        self.seen = []
        hits = scope.recall(text, 10, kinds=(kind,), min_score=0.0)
        return hits, self.seen


def read(corpus: str, data: dataset.Dataset, embedder: str | None, record: Recorder) -> list[Asked]:
    """Return the questions of a data set, and the unrelated ones in each of its scopes."""
    found = []
    clock = measuring.Clock()
    with (
        tempfile.TemporaryDirectory() as folder,
        memdb.open(f"{folder}/c.db", durability="process", clock=clock, embedder=embedder) as db,
    ):
        ready = measuring.filled(data, db, clock)
        for question in data.questions:
            if question.evidence:
                clock.now_ms = question.asked_ms or ready.ends[question.scope]
                scope = db.scope(question.scope, measuring.APP)
                hits, seen = record.ask(scope, question.text, "message")
                ids = {hit.source.external_id for hit in hits}
                gain = len(ids & set(question.evidence)) / len(question.evidence)
                found.append(Asked((corpus, question.scope), seen, gain, ""))
        for name, talks in data.sessions.items():
            clock.now_ms = ready.ends[name]
            person = unrelated.name_of(talks)
            for half, questions in (("choose", unrelated.CHOOSE), ("more", MORE)):
                for text in questions:
                    scope = db.scope(name, measuring.APP)
                    _, seen = record.ask(scope, text.format(name=person), "message")
                    found.append(Asked((corpus, name), seen, None, half))
    return found


def read_facts(embedder: str | None, record: Recorder) -> list[Asked]:
    """Return the questions about ten facts, and the unrelated ones."""
    found = []
    with memdb.open(":memory:", embedder=embedder) as db:
        ann = db.scope("ann")
        for fact in unrelated.FACTS:
            ann.remember(fact)
        for text, place in zip(unrelated.RELATED_FACTS, unrelated.FACTS_ASKED, strict=True):
            hits, seen = record.ask(ann, text, "entry")
            gain = float(unrelated.FACTS[place] in [hit.text for hit in hits])
            found.append(Asked(("facts", "ann"), seen, gain, ""))
        for half, questions in (("choose", unrelated.CHOOSE), ("more", MORE)):
            for text in questions:
                _, seen = record.ask(ann, text.format(name="Ann"), "entry")
                found.append(Asked(("facts", "ann"), seen, None, half))
    return found


class Result(NamedTuple):
    """R@10 lost by corpus, and unrelated questions with a hit by scope and half."""

    lost: dict[str, float]
    hits: dict[tuple[tuple[str, str], str], int]

    def cost(self) -> float:
        """Return what `--search` makes small: hits, and much more for each bar missed."""
        over = [max(lost - MOST_LOSS, 0.0) for name, lost in self.lost.items() if name != "own"]
        own = 200 * self.lost.get("own", 0.0)
        choose = [n for (_, half), n in self.hits.items() if half == "choose"]
        return (
            sum(self.hits.values())
            + 20 * sum(max(n - 1, 0) for n in choose)
            + 1e5 * sum(over)
            + own
        )


def sums(asked: list[Asked], scale: weights.Scale) -> list[float]:
    """Return for each question the best sum of relevance, which `Scale.middle` is compared with."""
    relevance.scale_of = lambda _model: scale
    found = []
    for each in asked:
        best = [relevance.relevance(*seen).terms for seen in each.seen]
        found.append(max([sum(terms.values()) for terms in best if terms], default=-math.inf))
    return found


def judge(asked: list[Asked], best: list[float], middle: float) -> Result:
    """Return what is lost and found if an answer needs a sum of *middle*."""
    lost: dict[str, list[float]] = {}
    hits: dict[tuple[tuple[str, str], str], int] = {}
    for each, most in zip(asked, best, strict=True):
        is_known = most >= middle
        if each.gain is None:
            key = each.group, each.half
            hits[key] = hits.get(key, 0) + is_known
        else:
            lost.setdefault(each.group[0], []).append(0.0 if is_known else each.gain)
    return Result({name: sum(each) / len(each) for name, each in lost.items()}, hits)


def show(name: str, result: Result) -> None:
    """Print a result in one line."""
    parts = [f"{corpus} -{lost:.4f}" for corpus, lost in result.lost.items()]
    for half in ("choose", "more"):
        by_corpus: dict[str, list[int]] = {}
        for (group, one), n in result.hits.items():
            if one == half:
                by_corpus.setdefault(group[0], []).append(n)
        parts.append(f"{half} {by_corpus}")
    print(f"{name:24} cost {result.cost():8.1f}  {'  '.join(parts)}", flush=True)


def search(asked: list[Asked], scale: weights.Scale) -> weights.Scale:
    """Return the scale after one number at a time was changed, each with the best `middle`."""
    lowest = judge(asked, sums(asked, scale), scale.middle).cost()
    is_better = True
    while is_better:
        is_better = False
        for name, values in STEPS.items():
            for value in values:
                new = scale.replace(**{name: value})
                best = sums(asked, new)
                for middle in [round(scale.middle + 0.02 * step, 3) for step in range(-30, 31)]:
                    result = judge(asked, best, middle)
                    if result.cost() < lowest - 1e-9:
                        lowest, scale, is_better = result.cost(), new.replace(middle=middle), True
                        show(f"{name} {value} {middle}", result)
    return scale


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--table", choices=("static", "words"), default="static")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    parser.add_argument("--beam", type=Path, default=unrelated.BEAM)
    given = parser.parse_args()
    embedder = "static" if given.table == "static" else None
    record = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "locomo.jsonl"
        dataset.write(convert.convert("locomo", given.folder), path)
        corpora = {
            "locomo": dataset.read(path),
            "beam": dataset.read(given.beam),
            "own": dataset.read(HERE / "ranker" / "conversations.jsonl"),
        }
    asked = read_facts(embedder, record)
    for name, data in corpora.items():
        asked += read(name, data, embedder, record)
        print(f"{name}: asked", file=sys.stderr)
    scale = weights.scale_of(weights.STATIC_MODEL if embedder else None)
    show("now", judge(asked, sums(asked, scale), scale.middle))
    if given.search:
        print(search(asked, scale))


if __name__ == "__main__":
    main()
