"""
Recall of questions that name a month or a date, with and without the days that texts speak of.

    python bench/dated.py [--folder DIR] [--beam FILE]

Thirty questions over LoCoMo's and BEAM's development conversations as they are
(bench/dated_questions.jsonl). The message that holds the answer was written in
another month than the one that is asked for, and says "last month" or "on 3
May". "off" is the same code that ignores the column `spans`. The data sets are not
part of memdb: LoCoMo is for evaluation only (CC BY-NC 4.0), BEAM is CC BY-SA 4.0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import locomo_data

from memdb.evaluation import convert, dataset, measuring
from memdb.evaluation.measuring import FUSED
from memdb.search.weights import MESSAGES

QUESTIONS = Path(__file__).parent / "dated_questions.jsonl"
BEAM = locomo_data.FOLDER.parent / "beam" / "dev.jsonl"

ON = FUSED.replace(name="on")
OFF = FUSED.replace(name="off", messages=MESSAGES.replace(about=0.0, own=1.0))
CUTS = ("R@5", "R@10", "R@20", "nDCG@10", "MRR")

# R@10 of "on", and by how much it is above "off".
LEAST, GAIN = 0.7, 0.15


def read_corpus(name: str, source: Path) -> dataset.Dataset:
    """Return a corpus with the dated questions about it in place of its own."""
    if name == "beam":
        found = dataset.read(source)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.jsonl"
            dataset.write(convert.convert(name, source), path)
            found = dataset.read(path)
    asked = []
    for number, line in enumerate(QUESTIONS.read_text().splitlines(), start=1):
        row = json.loads(line)
        if row["corpus"] != name:
            continue
        talks = found.sessions[row["conversation"]]
        homes = {one.id: session for session, talk in talks.items() for one in talk}
        lost = [one for one in row["evidence"] if one not in homes]
        if lost:
            sys.exit(f"{QUESTIONS.name}:{number}: there is no message {lost[0]}")
        asked.append(
            dataset.Question(
                f"{name}-{number}",
                row["conversation"],
                row["question"],
                name,
                frozenset(row["evidence"]),
                frozenset(homes[one] for one in row["evidence"]),
                None,
            )
        )
    scopes = {one.scope for one in asked}
    kept = {scope: talks for scope, talks in found.sessions.items() if scope in scopes}
    return found.replace(questions=asked, sessions=kept)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    parser.add_argument("--beam", type=Path, default=BEAM)
    parser.add_argument("--records", type=Path, help="write every answer here, JSON lines")
    given = parser.parse_args()
    if not locomo_data.files(given.folder) or not given.beam.exists():
        sys.exit("the conversations are not here: give --folder and --beam")
    answers = [
        answer
        for name, source in (("locomo", given.folder), ("beam", given.beam))
        for answer in measuring.run(read_corpus(name, source), [ON, OFF])
        if answer.level == "turn"
    ]
    if given.records:
        lines = (json.dumps(one.to_dict(), ensure_ascii=False) + "\n" for one in answers)
        given.records.write_text("".join(lines))
    rows: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for answer in answers:
        for category in (answer.category, "all"):
            rows[category, answer.arm].append(answer.scores)
    found = {}
    for (category, arm), scores in sorted(rows.items()):
        means = {cut: measuring.mean([one[cut] for one in scores]) for cut in CUTS}
        found[category, arm] = means["R@10"]
        shown = "  ".join(f"{cut} {value:.3f}" for cut, value in means.items())
        print(f"{category:7} {arm:4} {len(scores):3}  {shown}")
    on, off = found["all", "on"], found["all", "off"]
    good = on >= LEAST and on - off >= GAIN
    print(
        f"bar R@10 {on:.3f} >= {LEAST}, gain {on - off:+.3f} >= {GAIN}: {'ok' if good else 'MISSED'}"
    )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
