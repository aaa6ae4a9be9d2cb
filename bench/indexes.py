"""
The cost of FTS5's `secure-delete`: two files in turn, one with it and one without.

    python bench/indexes.py [--messages 20000] [--rounds 5]

The median of the CPU time of each call by rounds, that of the thread of upkeep included, and the
ratio (ADR-0056).
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING

import units

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

INDEXES = ("messages", "archived", "entries", "summaries", "artifacts", "items", "sessions")
BATCH = 100


class File:
    """One file with messages and entries of words that are drawn, the same in both."""

    def __init__(self, folder: str, messages: int, *, erases: bool) -> None:
        """Fill it; words leave its indexes at once if it *erases*."""
        self.random = random.Random(1)
        self.messages, self.archived = messages, 0
        path = f"{folder}/{erases}.db"
        self.db = memdb.open(path, embedder=None, counter="estimate", durability="process")
        with self.db._db.write() as tx:
            for name in INDEXES:
                tx.run(
                    f"INSERT INTO {name}_fts ({name}_fts, rank) VALUES ('secure-delete', {int(erases)})"
                )
        self.ann = self.db.scope("ann")
        self.chat = self.ann.session("chat")
        for _ in range(messages // 1000):
            self.chat.extend([{"role": "user", "text": self.text()} for _ in range(1000)])
        self.seqs = list(range(1, messages // 1000 * 1000 + 1))
        self.random.shuffle(self.seqs)
        made = [self.ann.remember(self.text(), key=f"k{number}").entry for number in range(500)]
        self.entries = [one.id for one in made if one is not None]

    def text(self) -> str:
        """Return 30 words, most of them common."""
        return " ".join(f"w{int(self.random.paretovariate(0.7)) % 60_000}" for _ in range(30))

    def append(self) -> None:
        """Append a message."""
        self.chat.append("user", self.text())

    def edit(self) -> None:
        """Change the text of a message."""
        self.chat.edit(self.seqs[0], {"role": "user", "text": self.text()})
        self.seqs.append(self.seqs.pop(0))

    def update(self) -> None:
        """Change the text of an entry."""
        self.ann.entries.update(self.random.choice(self.entries), text=self.text())

    def delete(self) -> None:
        """Delete a message."""
        self.chat.delete(self.seqs.pop())

    def delete_many(self) -> None:
        """Delete a hundred messages at once."""
        self.chat.delete([self.seqs.pop() for _ in range(100)])

    def forget(self) -> None:
        """Forget a message."""
        self.chat.forget(self.seqs.pop())

    def archive(self) -> None:
        """Archive a thousand messages, the oldest."""
        self.archived += 1000
        self.chat.archive(keep_last=self.messages - self.archived)


CALLS: dict[str, tuple[Callable[[File], None], int]] = {
    "append": (File.append, BATCH),
    "edit": (File.edit, BATCH),
    "update an entry": (File.update, BATCH),
    "delete": (File.delete, BATCH),
    "delete 100 at once": (File.delete_many, 4),
    "forget": (File.forget, BATCH // 4),
    "archive 1,000": (File.archive, 1),
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        both = {one: File(folder, given.messages, erases=one) for one in (False, True)}
        print(f"{'call':20} {'without':>9} {'with':>9}  ratio")
        for name, (call, count) in CALLS.items():
            took: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(given.rounds):
                units.turn(5)
                for erases, file in both.items():
                    began = time.process_time()
                    for _ in range(count):
                        call(file)
                    took[erases].append((time.process_time() - began) / count * 1000)
            before, now = median(took[False]), median(took[True])
            print(f"{name:20} {before:6.2f} ms {now:6.2f} ms  {now / before:5.2f}", flush=True)
        print(units.line())
        for file in both.values():
            file.db.close()


if __name__ == "__main__":
    main()
