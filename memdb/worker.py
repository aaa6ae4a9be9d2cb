"""
A thread that does due work in the background: embedding and summarising.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memdb.errors import Closed, MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[int, Callable[[int], None], Callable[[str, str], None]], int]

# Longest pause after failures: a model that is down is asked once a minute.
MAX_PAUSE_S = 60.0

# Work per look at the jobs: short, so that stopping never takes long.
BATCH = 64


class _Stopped(Exception):
    """Ends a run between two pieces of work."""


class Worker:
    """
    Runs due work until it is stopped; `MemDB.start_worker` gives it.

    Attributes:
        done: How many texts and summaries it made so far.
        doing: What a model is asked for now, None while it is not.
        error: The last failure, None if the last run went well.
    """

    def __init__(self, run: Run, interval_s: float) -> None:
        """
        Call *run*, again after *interval_s* when it did nothing.

        It gets the most to do at once, what to call after each piece with its
        size, and what to call with status and message before a model is asked.
        """
        self._run = run
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memdb-worker", daemon=True)
        self.done = 0
        self.doing: str | None = None
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
            before = self.done
            try:
                self._run(BATCH, self._made, self._asks)
            except (Closed, _Stopped):
                return
            except MemDBError as error:
                self.doing = None
                self.error = error
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                self._stop.wait(pause_s)
                continue
            self.doing = self.error = None
            pause_s = self._interval_s
            if self.done == before:
                self._stop.wait(pause_s)

    def _made(self, count: int) -> None:
        """Count a piece that is stored; here is where a run can end."""
        self.done += count
        self._asks("active", None)

    def _asks(self, _status: str, doing: str | None) -> None:
        """Note what is being done, unless it is time to stop."""
        if self._stop.is_set():
            raise _Stopped
        self.doing = doing
