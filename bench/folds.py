"""
Would other weights do better? Each conversation judged by weights chosen on the others.

    python bench/folds.py [--folder DIR] [--embedder SPEC]

For every variant below of the weights that `memdb.search.weights` has for the embedder,
R@10, nDCG@10 and MRR on each LoCoMo conversation. The last lines leave one conversation out
at a time: the variant that is best on the other four, and what it finds on the fifth, beside
the defaults. A weight is worth its place only if that mean is higher too. The data set is not
part of memdb: evaluation only (CC BY-NC 4.0).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import locomo_data

import memdb
from memdb.english.calendar import read_spans
from memdb.evaluation.measuring import measure
from memdb.search.parse import search_request
from memdb.search.rank import Candidates, Lexical, Row, best, fuse_candidates, rank_messages
from memdb.search.retrieve import find_messages
from memdb.search.weights import SECOND_STAGE, Weights, for_messages
from memdb.tables import messages

VARIANTS: dict[str, dict[str, object]] = {
    "default": {},
    "lexical_share 0.4": {"lexical_share": 0.4},
    "lexical_share 0.5": {"lexical_share": 0.5},
    "lexical_share 0.55": {"lexical_share": 0.55},
    "lexical_share 0.6": {"lexical_share": 0.6},
    "lexical_share 0.7": {"lexical_share": 0.7},
    "lexical_share 0.8": {"lexical_share": 0.8},
    "similar_floor 0.2": {"similar_floor": 0.2},
    "similar_floor 0.4": {"similar_floor": 0.4},
    "no similar words": {"similar_floor": 1.0},
    "no context words": {"context": ()},
    "context half": {"context": ((1, 0.25), (-1, 0.15), (2, 0.15), (-2, 0.1))},
    "previous, next 0": {"previous": 0.0, "next": 0.0},
    "previous, next x2": {"previous": 0.3, "next": 0.2},
    "author 0": {"author": 0.0},
    "author 0.2": {"author": 0.2},
    "author 0.4": {"author": 0.4},
    "question 0": {"question": 0.0},
    "question 0.1": {"question": 0.1},
    "question 0.2": {"question": 0.2},
    "length 0": {"length": 0.0},
    "length 0.3": {"length": 0.3},
    "no dates": {"month": 0.0, "day": 0.0},
    "session 0": {"session": 0.0},
    "session 0.2": {"session": 0.2},
    "session 0.4": {"session": 0.4},
}
MEASURES = ("R@10", "nDCG@10", "MRR")


class Asked:
    """One question with everything that its ranking needs, read once."""

    def __init__(self, db: memdb.MemDB, scope: memdb.Scope, question: str, evidence: set[str]):
        service = db._services.recaller
        self.evidence = evidence
        request = search_request(question, 20, kinds=("message",))
        retrieved = service.first_read(scope._owner, request)
        self.question = retrieved.question
        ((_, self.corpus),) = retrieved.corpora
        vector = service.embed(retrieved).vector
        with db._db.read() as tx:
            wide = Weights(arm=400)
            self.cosine = find_messages(tx, self.question, self.corpus, vector, wide).cosine

    def ranked(self, rows: dict[int, Row], weights: Weights) -> list[int]:
        """Return the ids of the first 20, as `SearchService` finds them with *weights*."""
        lexical = Lexical(self.corpus.postings, self.corpus.total, weights)
        candidates = Candidates(self.corpus, lexical, lexical.scores, self.cosine)
        fused = fuse_candidates(candidates, weights)
        shown = {key: rows[key] for key in best(fused, SECOND_STAGE) if key in rows}
        texts = {key: row.text for key, row in shown.items()}
        question = self.question
        if weights.similar_floor >= 1:
            question = question.replace(request=question.request.replace(rerank=False))
        ranking = rank_messages(
            question, candidates.replace(fused=fused, rows=shown, texts=texts), weights
        )
        return [row.id for row in ranking.ranked]


def run(folder: Path, embedder: object) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return the scores of every question, by variant and conversation."""
    scores: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in VARIANTS}
    with (
        tempfile.TemporaryDirectory() as place,
        memdb.open(f"{place}/folds.db", durability="process", embedder=embedder) as db,
    ):
        ours = db._services.indexer.embedder
        defaults = for_messages(None if ours is None else ours.name)
        for path in locomo_data.files(folder):
            scope = db.scope(path.stem, app="locomo")
            locomo_data.load(scope, path)
            db.jobs.run()
            said = [one for each in scope.sessions() for one in scope.session(each.name).messages()]
            names = {one.id: one.external_id for one in said}
            with db._db.read() as tx:
                found = messages.features(tx, names)
            rows = {key: Row(*rest, read_spans(spans)) for key, *rest, spans in found}
            asked = [
                Asked(db, scope, question, evidence)
                for question, _, evidence in locomo_data.questions(path, set(names.values()))
            ]
            for name, changes in VARIANTS.items():
                weights = defaults.replace(**changes)
                scores[name][path.stem] = [
                    measure([names[key] for key in one.ranked(rows, weights)], one.evidence)
                    for one in asked
                ]
            print(f"{path.stem}: {len(asked)} questions", file=sys.stderr)
    return scores


def mean(scores: dict[str, list[dict[str, float]]], kind: str, talks: list[str]) -> float:
    """Return the mean over all questions of *talks*."""
    values = [one[kind] for talk in talks for one in scores[talk]]
    return sum(values) / len(values)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    parser.add_argument("--embedder", default="static", help="or none, fastembed:DIR ...")
    given = parser.parse_args()
    if not locomo_data.files(given.folder):
        sys.exit(f"no conversations in {given.folder.name}: give --folder")
    scores = run(given.folder, None if given.embedder == "none" else given.embedder)
    talks = list(scores["default"])
    print("| variant | " + " | ".join((*MEASURES, *(f"R@10 {talk}" for talk in talks))) + " |")
    print("|---" * (len(MEASURES) + len(talks) + 1) + "|")
    for name, found in scores.items():
        cells = [mean(found, kind, talks) for kind in MEASURES]
        cells += [mean(found, "R@10", [talk]) for talk in talks]
        print(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    print("\n| left out | best on the others | R@10 with it | R@10 by default |\n|---|---|---|---|")
    chosen_sum = default_sum = count = 0.0
    for talk in talks:
        rest = [one for one in talks if one != talk]
        best = max(VARIANTS, key=lambda name: mean(scores[name], "R@10", rest))
        chosen = mean(scores[best], "R@10", [talk])
        default = mean(scores["default"], "R@10", [talk])
        size = len(scores["default"][talk])
        chosen_sum, default_sum, count = (
            chosen_sum + size * chosen,
            default_sum + size * default,
            count + size,
        )
        print(f"| {talk} | {best} | {chosen:.3f} | {default:.3f} |")
    print(f"| mean over questions | | {chosen_sum / count:.4f} | {default_sum / count:.4f} |")


if __name__ == "__main__":
    main()
