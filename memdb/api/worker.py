"""The worker thread of an open file: runs what is due until it is stopped. No rules here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memdb.api.calls import handle
from memdb.errors import Closed, MemDBError
from memdb.models.reports import WorkRequest
from memdb.text.validate import flag_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memdb.models.reports import Failure

# Longest pause after failures: a model that is down is asked once a minute.
MAX_PAUSE_S = 60.0

# Pieces of work per run.
BATCH = 64

# Longest wait of `stop(give_up=True)`. An embedder that hangs keeps its thread,
# which does not keep the interpreter from ending.
STOP_S = 5.0


class _Stopped(Exception):
    """Ends a run between two pieces of work."""


@handle
class Worker:
    """
    Runs due work until it is stopped; `db.jobs.start` gives it.

    Attributes:
        done: Number of texts embedded, summaries made and messages read so far.
        doing: What a model is asked for now; None means that no model is asked.
    """

    __slots__ = (
        *("_cancel", "_failures", "_interval_s", "_refuse_inside", "_run", "_stop", "_stopped_by"),
        *("_thread", "doing", "done"),
    )

    def __init__(
        self,
        run: Callable[[WorkRequest], int],
        interval_s: float,
        failures: Mapping[str, Failure] | None = None,
        refuse_inside: Callable[[str], object] | None = None,
    ) -> None:
        """
        Call *run* again and again in a thread, after *interval_s* if it did nothing.

        Args:
            run: Does the work that is due; returns how many pieces.
            interval_s: Seconds, over 0.
            failures: The last failure of each kind of work, until it succeeds;
                None means that nobody notes them.
            refuse_inside: Raises InvalidInput inside a transaction of this thread; None: there
                are no transactions.
        """
        self._run = run
        self._refuse_inside = refuse_inside
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memdb-worker", daemon=True)
        self.done = 0
        self.doing: str | None = None
        self._failures = {} if failures is None else failures
        self._stopped_by: MemDBError | None = None
        self._thread.start()

    def stop(self, *, give_up: bool = False) -> None:
        """
        Stop after the piece of work in progress, and wait for that.

        Args:
            give_up: Wait 5 seconds at most. A request to a model is cancelled at
                once; its job stays due.

        Raises:
            InvalidInput: called inside a transaction, for whose end the work may wait.
        """
        flag_value(give_up, "give_up")
        if self._refuse_inside is not None and not give_up:
            self._refuse_inside("stop")
        self._stop.set()
        if give_up:
            self._cancel.set()
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_S if give_up else None)

    @property
    def running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def error(self) -> MemDBError | None:
        """The last failure of a kind of work that has not succeeded since; None: none."""
        failed = sorted(self._failures.values(), key=lambda one: one.failed_ms)
        return failed[-1].error if failed else self._stopped_by

    def _loop(self) -> None:
        pause_s = self._interval_s
        request = WorkRequest(
            BATCH, self._count, self._note, early=False, cancelled=self._cancel.is_set
        )
        while not self._stop.is_set():
            before = self.done
            try:
                self._run(request)
            except (Closed, _Stopped):
                return
            except MemDBError as error:
                self._stopped_by = error
                self.doing = None
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                self._stop.wait(pause_s)
                continue
            self.doing = self._stopped_by = None
            pause_s = self._interval_s
            if self.done == before:
                self._stop.wait(pause_s)

    def _count(self, pieces: int) -> None:
        """Count pieces that are stored; between pieces a run can end."""
        self.done += pieces
        self._continue(None)

    def _note(self, _status: str, doing: str) -> None:
        """Note the request to a model."""
        self._continue(doing)

    def _continue(self, doing: str | None) -> None:
        """Set what is done now, unless the worker is to stop."""
        if self._stop.is_set():
            raise _Stopped
        self.doing = doing
