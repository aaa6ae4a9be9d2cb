"""
A thread that does due work in the background: embedding and summarising.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memdb.errors import Closed, MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[[int], None]
    Asks = Callable[[str, str], None]
    Work = Callable[[int, Made, Asks, Callable[[], bool]], int]

# Longest pause after failures: a model that is down is asked once a minute.
MAX_PAUSE_S = 60.0

# Work per look at the jobs.
BATCH = 64

# Longest wait of one that gives up: an embedder that hangs is left to itself, in a
# thread that does not keep the interpreter from ending.
STOP_S = 5.0


class _Stopped(Exception):
    """Ends a run between two pieces of work."""


class Worker:
    """
    Runs due work until it is stopped; `MemDB.start_worker` gives it.

    Attributes:
        done: How many texts and summaries it made so far.
        doing: What a model is asked for now, None while none is.
        error: The last failure, None if the last run went well.
    """

    def __init__(self, run: Work, interval_s: float) -> None:
        """
        Call *run* again and again, after *interval_s* when it did nothing.

        Args:
            run: Called with the most to do at once; with what to call after
                each piece with its size; with what to call with status and
                message before a model is asked; and with a function that says
                whether a model is to be given up.
            interval_s: Seconds, over 0.
        """
        self._run = run
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memdb-worker", daemon=True)
        self.done = 0
        self.doing: str | None = None
        self.error: MemDBError | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, *, give_up: bool = False) -> None:
        """
        End after the piece of work in progress, and wait for that.

        Args:
            give_up: Wait 5 seconds at most. A model that is being asked is given
                up at once; what it was asked for stays due.
        """
        self._stop.set()
        if give_up:
            self._cancel.set()
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_S if give_up else None)

    @property
    def running(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def _loop(self) -> None:
        pause_s = self._interval_s
        while not self._stop.is_set():
            before = self.done
            try:
                self._run(BATCH, self._made, self._asks, self._cancel.is_set)
            except (Closed, _Stopped):
                return
            except MemDBError as error:
                self.error = error
                self.doing = None
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                self._stop.wait(pause_s)
                continue
            self.doing = self.error = None
            pause_s = self._interval_s
            if self.done == before:
                self._stop.wait(pause_s)

    def _made(self, count: int) -> None:
        """Count a piece that is stored; between pieces a run can end."""
        self.done += count
        self._go_on(None)

    def _asks(self, _status: str, doing: str) -> None:
        """Note what a model is to be asked for."""
        self._go_on(doing)

    def _go_on(self, doing: str | None) -> None:
        if self._stop.is_set():
            raise _Stopped
        self.doing = doing
