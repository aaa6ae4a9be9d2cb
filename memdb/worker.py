"""
A thread that does due work in the background: embedding and summarising.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memdb.errors import Closed, MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable

# Longest pause after failures: a model that is down is asked once a minute.
MAX_PAUSE_S = 60.0

# Work per look at the jobs: short, so that stopping never takes long.
BATCH = 64


class Worker:
    """
    Runs due work until it is stopped; `MemDB.start_worker` gives it.

    Attributes:
        done: How many texts and summaries it made so far.
        error: The last failure, None if the last run went well.
    """

    def __init__(self, run: Callable[[int], int], interval_s: float) -> None:
        """Call *run* with the most to do at once, again after *interval_s* when it did nothing."""
        self._run = run
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memdb-worker", daemon=True)
        self.done = 0
        self.error: MemDBError | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the piece of work in progress, and wait for that."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def running(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def _loop(self) -> None:
        pause_s = self._interval_s
        while not self._stop.is_set():
            try:
                done = self._run(BATCH)
            except Closed:
                return
            except MemDBError as error:
                self.error = error
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                self._stop.wait(pause_s)
                continue
            self.error = None
            pause_s = self._interval_s
            self.done += done
            if not done:
                self._stop.wait(pause_s)
