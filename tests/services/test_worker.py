"""The worker: due work in a thread, told piece by piece and ended between two of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from memdb.summary_models import Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.memory import MemDB


class SlowSummarizer:
    """Waits in each call until it is let go."""

    name = "slow"
    quality = "model"

    def __init__(self) -> None:
        """Hold every call."""
        self.asked = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def summarize(self, source: Any, *, depth: int, limit_tokens: int) -> Summary:
        """Return a short text, when it may."""
        self.asked.release()
        assert self.let_go.acquire(timeout=20)
        return Summary(f"Depth {depth}.")


def say(opened: MemDB, count: int) -> None:
    """Let ann have a conversation of so many messages."""
    said = [{"role": "user", "text": f"Message {n} about the ferry to Oslo."} for n in range(count)]
    opened.scope("ann").session("trip").extend(said)


def test_each_transaction_is_told(open_db: Callable[..., MemDB], path: str) -> None:
    """A long conversation is no single step: what is stored is told at once."""
    opened = open_db(path)
    say(opened, 1000)
    told: list[int] = []
    made = opened.run_pending(progress=told.append, kinds=["summarize"])

    assert sum(told) == made == opened.info().counts["nodes"]
    assert len(told) > 2
    assert max(told) <= 64


def test_it_ends_after_the_piece_in_progress(open_db: Callable[..., MemDB], path: str) -> None:
    """Stopping waits for one summary, which is stored; the rest stays due and free to take."""
    summarizer = SlowSummarizer()
    opened = open_db(path, embedder=None, summarizer=summarizer)
    say(opened, 50)
    worker = opened.start_worker(0.01)
    assert summarizer.asked.acquire(timeout=20)
    doing = worker.doing
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    while not worker._stop.is_set():
        pass
    summarizer.let_go.release()
    stopping.join(20)

    assert doing == "Summarising trip 1-10"
    assert (worker.running, worker.done, worker.error) == (False, 1, None)
    assert [node.text for node in opened.scope("ann").session("trip").tree().nodes] == ["Depth 0."]
    summarizer.let_go.release(100)
    assert opened.run_pending() == 4
    assert opened.check(deep=True) == []
