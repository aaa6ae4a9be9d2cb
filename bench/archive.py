"""
What archiving a long conversation gives and costs.

    python bench/archive.py [messages]

One session of 100,000 messages from `corpus` in a new file, seen before and after `archive()` and
`vacuum()`: bytes, reading 50 messages, search by words, recall. Fixed seed; the file is made in a
temporary folder. Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

import corpus

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP = 1000
SHRINK_BAR = 0.5
COLD_BAR_MS = 10.0


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds *work* took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(seconds: list[float]) -> str:
    """Return the median and p99 in ms."""
    return (
        f"p50 {median(seconds) * 1000:7.2f} ms   p99 {quantiles(seconds, n=100)[98] * 1000:7.2f} ms"
    )


def fill(db: memdb.MemDB, texts: list[str]) -> memdb.Session:
    chat = db.scope("ann").session("long")
    for at in range(0, len(texts), 1000):
        chat.extend(
            [
                memdb.NewMessage("user", text, author=("Ann", "Bob")[place % 2])
                for place, text in enumerate(texts[at : at + 1000])
            ]
        )
    return chat


def reads(chat: memdb.Session, starts: list[int]) -> list[float]:
    return [timed(lambda start=start: [*chat.messages(start, 50)]) for start in starts]


def look(db: memdb.MemDB, chat: memdb.Session) -> tuple[str, str, list[list[tuple[object, ...]]]]:
    """Return the times of searches and recalls, and what the searches found."""
    scope, questions = db.scope("ann"), corpus.queries(100)
    found = [chat.recall(question, kinds=("message",), by="words") for question in questions]
    search = [
        timed(lambda question=question: chat.recall(question, kinds=("message",), by="words"))
        for question in questions
    ]
    scope.recall(questions[0])
    recall = [timed(lambda question=question: scope.recall(question)) for question in questions]
    answers = [[(hit.source.seq, hit.text, hit.score) for hit in hits] for hits in found]
    return spread(search), spread(recall), answers


def main() -> int:
    """Measure, print, and say whether the bars are kept."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    source = random.Random(1)
    texts = corpus.texts(count)
    cold = [source.randrange(0, count - KEEP - 50) for _ in range(300)]
    with (
        tempfile.TemporaryDirectory() as folder,
        memdb.open(Path(folder) / "archive.db", durability="process", counter="estimate") as db,
    ):
        path = Path(db.path)
        chat = fill(db, texts)
        db.jobs.run()
        db.file.vacuum()
        before_bytes = path.stat().st_size
        hot_before, cold_before = reads(chat, [count - 50] * 300), reads(chat, cold)
        search_before, recall_before, found_before = look(db, chat)
        steps: list[float] = []
        start = time.perf_counter()
        moved = chat.archive(KEEP, lambda _: steps.append(time.perf_counter()))
        took = time.perf_counter() - start
        vacuum_s = timed(db.file.vacuum)
        after_bytes = path.stat().st_size
        hot_after, cold_after = reads(chat, [count - 50] * 300), reads(chat, cold)
        search_after, recall_after, found_after = look(db, chat)
    ratio = (before_bytes - after_bytes) / moved.bytes_before
    print(f"messages           {count:,}, of which {moved.messages:,} archived")
    print(f"archived text      {moved.bytes_before:,} bytes, as segments {moved.bytes_after:,}")
    print(f"file               {before_bytes:,} bytes before, {after_bytes:,} after")
    print(f"shrunk by          {ratio:.1%} of the archived text (bar {SHRINK_BAR:.0%})")
    step_ms = took / len(steps) * 1000
    print(f"archiving          {took:.1f} s, a step {step_ms:.0f} ms; vacuum {vacuum_s:.1f} s")
    print(f"50 hot, before     {spread(hot_before)}")
    print(f"50 hot, after      {spread(hot_after)}")
    print(f"50 cold, before    {spread(cold_before)}")
    print(f"50 cold, after     {spread(cold_after)}   (bar {COLD_BAR_MS:.0f} ms)")
    print(f"search, before     {search_before}")
    print(f"search, after      {search_after}")
    print(f"recall, before     {recall_before}")
    print(f"recall, after      {recall_after}")
    same = found_before == found_after
    print(f"same answers       {same}")
    return 0 if same and ratio >= SHRINK_BAR and median(cold_after) * 1000 <= COLD_BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main())
