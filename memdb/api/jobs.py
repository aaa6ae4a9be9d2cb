"""
Background work of an open file, as `db.jobs` gives it. Delegates; no rules here.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.jobs import WORK, WorkRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.api._container import Services
    from memdb.jobs.worker import Worker


class Jobs:
    """Embeddings, summaries, extraction and upkeep that are due in a file."""

    def __init__(self, services: Services) -> None:
        """Use `db.jobs` instead."""
        self._services = services
        self._worker: Worker | None = None

    def run(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        status: Callable[[str, str], object] | None = None,
        *,
        kinds: Sequence[str] = WORK,
    ) -> int:
        """
        Do the work that is due, now: embed, summarise and extract what is not yet.

        Recall and context do a part of it by themselves. Only here, in `compact`
        and in a worker is a model asked for summaries.

        Args:
            limit: Stop after about this many; None: do it all.
            progress: Called after each batch with how many it was.
            status: Called with ("active", what is done) before a model is asked.
            kinds: Which work: "embed", "summarize", "extract" (opened with it).

        Returns:
            How many texts were embedded, summaries made and messages read.

        Raises:
            PortError: the embedder or the model failed on some of it. All else
                was done, extracts stand in for the summaries, and what failed
                is due again later.
        """
        return self._services.jobs.run_pending(WorkRequest(limit, progress, status), kinds)

    def run_due(self) -> int:
        """
        Do the work and the upkeep whose time has come, as a worker does; how much work.

        Raises:
            MemDBError: the first of what failed; it is tried again later.
        """
        return self._services.jobs.run_due(WorkRequest())

    def start(self, interval_s: float = 1.0) -> Worker:
        """
        Do due work in a thread of this process until it is stopped or the file closed.

        Upkeep too, which `run` leaves alone; of any number of processes
        with workers one does it, and `db.file.info().upkeep` tells when.

        Args:
            interval_s: Pause between two looks when nothing is due; after a
                failure it grows up to a minute.

        Returns:
            The worker, the same one if it runs already; `stop()` ends it.

        Raises:
            InvalidInput: *interval_s* is not a number above 0.
        """
        if not isinstance(interval_s, (int, float)) or not 0 < interval_s < float("inf"):
            raise InvalidInput(f"interval_s is {interval_s!r}: give seconds above 0")
        if self._worker is None or not self._worker.running:
            from memdb.jobs.worker import Worker

            self._worker = Worker(self._services.jobs.run_due, interval_s)
            self._worker.start()
        return self._worker

    def pending(self) -> int:
        """Return how many jobs `run` has to do, those for other embedders left out."""
        return self._services.pending()

    def _close(self) -> None:
        """Stop the worker; a model that is being asked is given up."""
        if self._worker is not None:
            self._worker.stop(give_up=True)
