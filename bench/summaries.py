"""
What survives in offline summaries of LoCoMo conversations, beside simple baselines.

    python bench/summaries.py [--folder DIR] [--messages 10] [--share 3]

Each session is cut into leaves of 10 messages, each summarised in a third of
its tokens (cl100k_base), and up to 4 summaries into a node, in a third again.
Counted over the evidence turns of all questions, each turn once per question:

    answer    words of the gold answer that the turn says
    asked     words of the question that the turn says: what a search would use
    names     numbers, and capitalised words inside sentences, of the turn

each as the share that the summary still says; stop words and the names of the
two speakers apart. The first three conversations were used for tuning, the
others only to confirm. The data set is no part of memdb: evaluation only
(CC BY-NC 4.0).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import locomo_data
import units

from memdb.facts.extractive import ExtractiveSummarizer
from memdb.facts.sentences import sentences
from memdb.models.settings import DEFAULTS
from memdb.models.summaries import SourceItem
from memdb.text.terms import STOP_WORDS, query_words
from memdb.text.tokens import Counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Leaf = list[SourceItem]
    Way = Callable[[Leaf, int], str]

TUNING = 3
KINDS = ("answer", "asked", "names")
CHILDREN = 4
_NAME = re.compile(r"(?<=[\w,;:)] )[A-Z][\w'-]+|\w*\d[\w:.,/%-]*")
counting = Counting("cl100k_base", DEFAULTS)


def tokens(text: str) -> int:
    return counting.count_many([text])[0]


def lines_of(leaf: Leaf) -> list[str]:
    """Return each sentence of a leaf with its speaker, or of a node as it is."""
    return [
        line if item.role is None else f"{item.who}: {line}"
        for item in leaf
        for line in (item.text.split("\n") if item.role is None else sentences(item.text))
    ]


def fill(lines: Sequence[str], order: Sequence[int], limit: int) -> str:
    """Take *lines* in *order* while they fit; return them in their own order."""
    taken: list[int] = []
    for place in order:
        if tokens("\n".join(lines[one] for one in sorted([*taken, place]))) <= limit:
            taken.append(place)
    return "\n".join(lines[one] for one in sorted(taken))


def first_sentences(leaf: Leaf, limit: int) -> str:
    lines = lines_of(leaf)
    return fill(lines, range(len(lines)), limit)


def one_of_each(leaf: Leaf, limit: int) -> str:
    """The first sentence of each message, then the second of each, and so on."""
    lines = lines_of(leaf)
    places, start = [], 0
    for item in leaf:
        count = len(lines_of([item]))
        places += [(depth, start + depth) for depth in range(count)]
        start += count
    return fill(lines, [place for _, place in sorted(places)], limit)


def random_sentences(leaf: Leaf, limit: int) -> str:
    lines = lines_of(leaf)
    order = list(range(len(lines)))
    random.Random(len(lines) + limit).shuffle(order)
    return fill(lines, order, limit)


def head_and_tail(leaf: Leaf, limit: int) -> str:
    """The first and the last words, half of the tokens each."""
    words = "\n".join(f"{item.who}: {item.text}" for item in leaf).split(" ")
    low, high = 0, len(words) // 2
    while low < high:
        middle = (low + high + 1) // 2
        text = " ".join([*words[:middle], "...", *words[-middle:]])
        low, high = (middle, high) if tokens(text) <= limit else (low, middle - 1)
    return " ".join([*words[:low], "...", *words[len(words) - low :]])


def extractive(leaf: Leaf, limit: int) -> str:
    depth = int(leaf[0].role is None)
    return (
        ExtractiveSummarizer(counting.count_many)
        .summarize(leaf, depth=depth, limit_tokens=limit)
        .text
    )


WAYS: dict[str, Way] = {
    "extractive-2": extractive,
    "first sentences": first_sentences,
    "first of each": one_of_each,
    "random": random_sentences,
    "head and tail": head_and_tail,
}


def leaves(path: Path, size: int) -> Iterator[tuple[list[str], Leaf]]:
    """Yield the turn ids and items of each leaf of a conversation."""
    content = json.loads(path.read_text())
    talk = content.get("conversation", content)
    number = 1
    while f"session_{number}_date_time" in talk:
        turns = talk.get(f"session_{number}") or []
        for start in range(0, len(turns), size):
            some = turns[start : start + size]
            items = [
                SourceItem(
                    start + place,
                    start + place,
                    turn["speaker"],
                    "user" if turn["speaker"] == talk["speaker_a"] else "assistant",
                    locomo_data._said(turn),
                )
                for place, turn in enumerate(some, start=1)
            ]
            yield [turn["dia_id"] for turn in some], items
        number += 1


def asked_for(path: Path, said: dict[str, SourceItem]) -> list[tuple[str, str, set[str]]]:
    """Return (turn, kind, words) of each question and evidence turn, words never empty."""
    skip = STOP_WORDS | {name.lower() for item in said.values() for name in item.who.split()}
    found = []
    for qa in json.loads(path.read_text())["qa"]:
        for text in qa.get("evidence") or []:
            for day, turn in locomo_data._EVIDENCE.findall(text):
                if (item := said.get(f"D{day}:{turn}")) is None:
                    continue
                words = set(query_words(item.text)) - skip
                names = {word for name in _NAME.findall(item.text) for word in query_words(name)}
                parts = (
                    words & set(query_words(str(qa.get("answer", "")))),
                    words & set(query_words(qa["question"])),
                    words & names,
                )
                found += [(f"D{day}:{turn}", *pair) for pair in zip(KINDS, parts, strict=True)]
    return [one for one in found if one[2]]


def survivors(path: Path, way: Way, size: int, share: int) -> Counter[tuple[str, str]]:
    """Return how many words of each kind were asked for, and survive in leaf and node."""
    text_of: dict[str, tuple[set[str], set[str]]] = {}
    said: dict[str, SourceItem] = {}
    cut = list(leaves(path, size))
    for start in range(0, len(cut), CHILDREN):
        group = cut[start : start + CHILDREN]
        children = []
        for _, items in group:
            limit = max(24, sum(counting.count_many([item.text for item in items])) // share)
            text = way(items, limit)
            assert tokens(text) <= limit, (tokens(text), limit)
            children.append(SourceItem(1, 1, "summary", None, text))
        limit = max(24, sum(tokens(child.text) for child in children) // share)
        summary = set(query_words(way(children, limit)))
        for (ids, items), child in zip(group, children, strict=True):
            leaf = set(query_words(child.text))
            text_of |= dict.fromkeys(ids, (leaf, summary))
            said |= dict(zip(ids, items, strict=True))
    counts: Counter[tuple[str, str]] = Counter()
    for turn, kind, words in asked_for(path, said):
        leaf, summary = text_of[turn]
        counts[kind, "all"] += len(words)
        counts[kind, "leaf"] += len(words & leaf)
        counts[kind, "node"] += len(words & summary)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--share", type=int, default=3)
    options = parser.parse_args()
    files = locomo_data.files(options.folder)
    if not files:
        sys.exit(f"no LoCoMo conversations in {options.folder}: nothing to measure")
    columns = [f"{kind} {level}" for level in ("leaf", "node") for kind in KINDS]
    for name, paths in (("tuning", files[:TUNING]), ("confirming", files[TUNING:])):
        print(f"{name}: {' '.join(path.stem for path in paths)}")
        print(f"  {'':16}" + "".join(f"{column:>13}" for column in columns))
        for way_name, way in WAYS.items():
            total: Counter[tuple[str, str]] = Counter()
            for path in paths:
                total += survivors(path, way, options.messages, options.share)
            row = [
                total[kind, level] / max(1, total[kind, "all"])
                for level in ("leaf", "node")
                for kind in KINDS
            ]
            print(f"  {way_name:16}" + "".join(f"{value:13.3f}" for value in row))
    print(f"extractive-2: {took_ms(files[0]):.2f} ms per leaf (median)")
    print(units.line())


def took_ms(path: Path) -> float:
    times = []
    for number, (_, items) in enumerate(leaves(path, 10)):
        if number % 10 == 0:
            units.turn()
        start = time.perf_counter()
        extractive(items, 100)
        times.append((time.perf_counter() - start) * 1000)
    return median(times)


if __name__ == "__main__":
    main()
