"""
Judge the two models of `memdb/facts` on a folder that nobody trained on.

    python -m bench.facts.judge FOLDER

Files, one JSON object a line: `pairs-L` {older, newer, kind}; `traps` {lang, text, why}: messages
that teach nothing about the user; `chats-L` {messages, facts, must_not}: conversations with the
facts that a user wants remembered, each with the numbers of the messages that tell it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from bench.facts.train import DAY_MS, _cosine
from memdb.embeddings.static_model import StaticEmbedder
from memdb.extraction.evidence import support
from memdb.facts import keeping, pairs

LEAST = 0.5
SURE = 0.8


def rows(path: Path) -> list[dict]:
    """Return the objects of a file."""
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def judge_pairs(path: Path) -> None:
    """Print how the pairs of a language are told."""
    embedder = StaticEmbedder()
    count: Counter[str] = Counter()
    for row in rows(path):
        texts = [row["older"], row["newer"]]
        known = all(map(embedder.covers, texts))
        found = pairs.relate(
            pairs.Statement(row["newer"], 30 * DAY_MS),
            pairs.Statement(row["older"], 0),
            cosine=_cosine(*embedder.embed(texts)) if known else None,
            rarity=lambda _: 1.0,
        )
        kind = row["kind"]
        linked = found.kind != "none" and found.probability >= LEAST
        sure = found.kind != "none" and found.probability >= SURE
        count[f"{kind}"] += 1
        count[f"{kind} right"] += found.kind == kind
        count[f"{kind} linked"] += linked
        count[f"{kind} above .8"] += sure
    print(path.stem, *(f"{name} {number}," for name, number in sorted(count.items())))


def judge_traps(path: Path) -> None:
    """Print from how many traps something is learnt, by what they are."""
    total: Counter[str] = Counter()
    learnt: Counter[str] = Counter()
    for row in rows(path):
        total[row["why"]] += 1
        learnt[row["why"]] += bool(keeping.learn(row["text"], role="user", created_ms=0))
    print("traps", sum(learnt.values()), "of", sum(total.values()), dict(learnt))


def judge_chats(path: Path) -> None:
    """Print how many facts are learnt, and how many sentences come from where a fact is told."""
    facts = found = kept = told = never = 0
    by_role: Counter[str] = Counter()
    for row in rows(path):
        learnt = [
            (number, one.text)
            for number, message in enumerate(row["messages"], 1)
            for one in keeping.learn(message["text"], role=message["role"], created_ms=0)
        ]
        kept += len(learnt)
        by_role.update(row["messages"][number - 1]["role"] for number, _ in learnt)
        for fact in row["facts"]:
            facts += 1
            texts = [text for number, text in learnt if number in fact["seq"]]
            found += bool(texts) and support(fact["fact"], texts) >= 0.34
        seqs = {number for fact in row["facts"] for number in fact["seq"]}
        bad = {number for one in row.get("must_not", []) for number in one["seq"]}
        told += sum(number in seqs for number, _ in learnt)
        never += sum(number in bad - seqs for number, _ in learnt)
    print(
        path.stem,
        f"facts {facts}, learnt {found}; kept {kept}, where a fact is told {told}, where none may be {never}",
        dict(by_role),
    )


def main() -> None:
    """Judge all files of a folder."""
    folder = Path(sys.argv[1])
    for path in sorted(folder.glob("*.jsonl")):
        for name, judge in (("pairs", judge_pairs), ("traps", judge_traps), ("chats", judge_chats)):
            if path.name.startswith(name):
                judge(path)


if __name__ == "__main__":
    main()
