"""
What archiving a long conversation gives and costs.

    python bench/archive.py [messages]

One session of 100,000 messages from `corpus` in a new file and in a copy, which `archive()` and
`vacuum()` made smaller: bytes, and the CPU time of reading 50 messages and of a search by words, both
files in turn. Fixed seed; the files are made in a temporary folder. Exit status 1: a bar is missed.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

import corpus
import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP = 1000
SHRINK_BAR = 0.5
SEARCH_BAR = 1.2  # times a search of the same text, not archived


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds of CPU *work* took."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


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


def reads(chats: dict[str, memdb.Session], starts: list[int]) -> dict[str, list[float]]:
    """Return what reading 50 messages from each of *starts* takes, hot and archived in turn."""
    return in_turn(
        [{name: partial(_page, chat, start) for name, chat in chats.items()} for start in starts]
    )


def _page(chat: memdb.Session, start: int) -> list[memdb.Message]:
    return [*chat.messages(start, 50)]


def in_turn(calls: list[dict[str, Callable[[], object]]]) -> dict[str, list[float]]:
    """Return the seconds of each call by name, those of one place in random order."""
    chance = random.Random(2)
    took: dict[str, list[float]] = {name: [] for name in calls[0]}
    for ways in calls:
        units.turn()
        for name in chance.sample(sorted(ways), len(ways)):
            took[name].append(timed(ways[name]))
    return took


def searches(chats: dict[str, memdb.Session]) -> dict[str, list[float]]:
    """Return what a search by words takes in each."""
    questions = corpus.queries(100)
    return in_turn(
        [
            {
                name: partial(chat.recall, question, kinds=("message",), by="words")
                for name, chat in chats.items()
            }
            for question in questions
        ]
    )


def answers(chat: memdb.Session) -> list[list[tuple[object, ...]]]:
    """Return what searches find."""
    found = [chat.recall(one, kinds=("message",), by="words") for one in corpus.queries(100)]
    return [[(hit.source.seq, hit.text, hit.score) for hit in hits] for hits in found]


def main() -> int:
    """Measure, print, and say whether the bars are kept."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    source = random.Random(1)
    texts = corpus.texts(count)
    cold = [source.randrange(0, count - KEEP - 50) for _ in range(300)]
    with tempfile.TemporaryDirectory() as folder:
        path, hot = Path(folder) / "archive.db", Path(folder) / "hot.db"
        with memdb.open(path, durability="process", counter="estimate") as db:
            fill(db, texts)
            db.jobs.run()
            db.file.vacuum()
        shutil.copy(path, hot)
        with (
            memdb.open(path, durability="process", counter="estimate") as db,
            memdb.open(hot, durability="process", counter="estimate") as other,
        ):
            chats = {
                "hot": other.scope("ann").session("long"),
                "archived": db.scope("ann").session("long"),
            }
            before = path.stat().st_size
            steps: list[int] = []
            start = time.thread_time()
            moved = chats["archived"].archive(KEEP, steps.append)
            took_s = time.thread_time() - start
            vacuum_s = timed(db.file.vacuum)
            after = path.stat().st_size
            newest, old = reads(chats, [count - 50] * 300), reads(chats, cold)
            found = {name: answers(chat) for name, chat in chats.items()}
            search = searches(chats)
    ratio = (before - after) / moved.bytes_before
    print(f"messages           {count:,}, of which {moved.messages:,} archived")
    print(f"archived text      {moved.bytes_before:,} bytes, as segments {moved.bytes_after:,}")
    print(f"file               {before:,} bytes before, {after:,} after")
    print(f"shrunk by          {ratio:.1%} of the archived text (bar {SHRINK_BAR:.0%})")
    step_ms = took_s / len(steps) * 1000
    print(f"archiving          {took_s:.1f} s, a step {step_ms:.0f} ms; vacuum {vacuum_s:.1f} s")
    for name, took in (("50 newest", newest), ("50 old", old), ("search", search)):
        times = median(took["archived"]) / median(took["hot"])
        print(f"{name:18} hot {spread(took['hot'])}   archived {spread(took['archived'])}")
        print(f"{name:18} archived is {times:.2f} x hot")
    same = found["hot"] == found["archived"]
    print(f"same answers       {same}")
    print(units.line())
    times = median(search["archived"]) / median(search["hot"])
    return 0 if same and ratio >= SHRINK_BAR and times <= SEARCH_BAR else 1


if __name__ == "__main__":
    sys.exit(main())
