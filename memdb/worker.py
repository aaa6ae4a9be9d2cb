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

# Work per look at the jobs.
BATCH = 64

# Longest wait for the end of the piece of work in progress. A model is given up
# at once; an embedder that hangs is left to itself, in a thread that does not
# keep the interpreter from ending.
STOP_S = 5.0


class Worker:
    """
    Runs due work until it is stopped; `MemDB.start_worker` gives it.

    Attributes:
        done: How many texts and summaries it made so far.
        error: The last failure, None if the last run went well.
    """

    def __init__(self, run: Callable[[int, Callable[[], bool]], int], interval_s: float) -> None:
        """
        Call *run* again and again, after *interval_s* when it did nothing.

        Args:
            run: Called with the most to do at once, and with a function that
                says whether to stop; returns how much it did.
            interval_s: Seconds, over 0.
        """
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
        """
        End, and wait for that up to 5 seconds.

        A model that is being asked is given up; its summary stays due.
        """
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    @property
    def running(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def _loop(self) -> None:
        pause_s = self._interval_s
        while not self._stop.is_set():
            try:
                done = self._run(BATCH, self._stop.is_set)
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
