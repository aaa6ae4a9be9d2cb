"""
What calls of `memdb.aio` wait for beside slow models and embedders.

    python bench/overlap.py

Ten recalls with an embedder of 0.3 s (bar 0.6 s), appends of one user while a model of
2 s is asked for another (bar 10 ms, of the worst of 50), and how late an event loop is
beside recalls that overlap. Beside other programs an append waits for a core too: what the
kernel tells of that is printed with the worst (Linux only).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from heart import Heart

import memdb.aio

RECALLS = 10
APPENDS = 50
RECALLS_BAR_S = 0.6
APPEND_BAR_MS = 10.0


class SlowModel:
    """Answers nothing after two seconds."""

    name = "slow"

    def __init__(self) -> None:
        self.asked = threading.Event()

    def complete(self, *_: object, **__: object) -> str:
        self.asked.set()
        time.sleep(2)
        return '{"memories": []}'


class SlowEmbedder:
    """Takes 0.3 s, whatever it embeds, once it is slow."""

    name = "slow"
    dim = 4
    slow = False

    def embed(self, texts: list[str]) -> list[list[float]]:
        if self.slow:
            time.sleep(0.3)
        return [[1.0, len(text) % 7, len(text) % 5, 1.0] for text in texts]


async def recalls(path: Path) -> int:
    """Print how long ten recalls at once take; return 1 if that is too long."""
    embedder = SlowEmbedder()
    async with memdb.aio.open(path, embedder=embedder) as db:
        ann = db.scope("ann")
        await ann.session("trip").append("user", "We fly to Oslo on 3 May.")
        await db.jobs.run()
        await ann.recall("when do we fly?")
        embedder.slow = True
        begun = time.perf_counter()
        await asyncio.gather(*(ann.recall(f"flight {n}") for n in range(RECALLS)))
        took = time.perf_counter() - begun
    print(f"{RECALLS} recalls, embedder of 0.3 s: {took:.3f} s (bar {RECALLS_BAR_S})")
    return took >= RECALLS_BAR_S


def waited_ms() -> float:
    """Return how long the threads of this process have waited for a core."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            total += int(task.read_text().split()[1])
    return total / 1e6


async def appends(path: Path) -> int:
    """Print how long appends take while a model is asked; return 1 if that is too long."""
    model = SlowModel()
    async with memdb.aio.open(path, model=model) as db:
        ann, bob = db.scope("ann").session("x"), db.scope("bob").session("y")
        await ann.append("user", "I live in Oslo.")
        await bob.append("user", "hi")
        asking = asyncio.create_task(ann.extract())
        # The first extraction of a process loads what it needs: not what is measured.
        await asyncio.get_running_loop().run_in_executor(None, model.asked.wait)
        took = []
        for number in range(APPENDS):
            waited, begun = waited_ms(), time.perf_counter()
            await bob.append("user", f"message {number}")
            took.append((1000 * (time.perf_counter() - begun), waited_ms() - waited))
        beside = not asking.done()
        await asking
    (worst, waited), p50 = max(took), median(one for one, _ in took)
    print(
        f"append while a model is asked: p50 {p50:.2f} ms, worst {worst:.2f} ms "
        f"(bar {APPEND_BAR_MS:.0f}), in which threads waited {waited:.2f} ms for a core"
    )
    return not beside or worst >= APPEND_BAR_MS


async def late(path: Path) -> None:
    """Print how late the loop is beside recalls, one at a time and ten."""
    async with memdb.aio.open(path) as db:
        ann = db.scope("ann")
        said = [{"role": "user", "text": f"We fly to Oslo, leg {n}."} for n in range(2000)]
        await ann.session("trip").extend(said)
        await db.jobs.run()
        await ann.recall("when do we fly?")
        for together in (1, 4, 10):
            heart = Heart()
            begun = time.perf_counter()
            for _ in range(100 // together):
                await asyncio.gather(*(ann.recall(f"leg {n} to Oslo") for n in range(together)))
            took = time.perf_counter() - begun
            beats = heart.stop()
            print(
                f"{together:3} recalls at once: 100 in {took:.2f} s, loop late "
                f"max {beats[0]:.2f} ms, p99 {beats[len(beats) // 100]:.2f} ms"
            )


async def main(folder: Path) -> int:
    """Run all three; return how many bars were missed."""
    missed = await recalls(folder / "a.db") + await appends(folder / "b.db")
    await late(folder / "c.db")
    return missed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(1 if asyncio.run(main(Path(place))) else 0)
