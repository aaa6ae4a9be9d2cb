"""
A run of summarising: what it was told, how the model fares, which job it holds.
"""

from __future__ import annotations

from memdb.tables import jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Tx
    from memdb.errors import PortError
    from memdb.tables.jobs import Job

# Failures in a row after which the model counts as gone for this run.
MAX_FAILURES = 3

# Longer than the attempts of one summary take; renewed with each summary.
LEASE_MS = 150_000


class Run:
    """
    One call that summarises, and how it went.

    Attributes:
        cancelled: Asked between summaries and while one is made; None: never.
        progress: Told how many summaries a transaction stored; None: nobody.
        status: Told before a model is asked; None: nobody.
        count: How many summaries a model failed to make.
        first: Why it failed first, None if it did not.
    """

    __slots__ = ("_in_a_row", "cancelled", "count", "first", "progress", "status")

    def __init__(
        self,
        status: Callable[[str, str], object] | None = None,
        cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        """Start without failures."""
        self.status = status
        self.progress = progress
        self.cancelled = cancelled
        self.count = 0
        self.first: PortError | None = None
        self._in_a_row = 0

    @property
    def stopped(self) -> bool:
        """Whether nothing more is wanted."""
        return self.cancelled is not None and self.cancelled()

    @property
    def gone(self) -> bool:
        """Whether the model failed so often in a row that asking again is of no use now."""
        return self._in_a_row >= MAX_FAILURES

    def note(self, failure: PortError | None) -> None:
        """Count the outcome of one summary; None: it went well."""
        if failure is None:
            self._in_a_row = 0
            return
        self.count += 1
        self._in_a_row += 1
        self.first = self.first or failure

    def stored(self, made: int) -> None:
        """Say how many summaries are in the file now that were not before."""
        if made and self.progress is not None:
            self.progress(made)

    def tell(self, message: str) -> None:
        """Say what is done now."""
        if self.status is not None:
            self.status("active", message)


class Lease:
    """A job that this process works on, until somebody else may take it."""

    __slots__ = ("job", "lost", "until_ms")

    def __init__(self, job: Job, until_ms: int) -> None:
        """Hold *job* until then."""
        self.job = job
        self.lost = False
        self.until_ms = until_ms

    @classmethod
    def take(cls, tx: Tx, job: Job) -> Lease | None:
        """Take *job*; None when somebody else was faster."""
        return cls(job, tx.now_ms + LEASE_MS) if jobs.lease(tx, job, LEASE_MS) else None

    def renew(self, tx: Tx) -> bool:
        """Hold the job for longer; False when another process has it by now."""
        until_ms = tx.now_ms + LEASE_MS
        if self.lost or not jobs.renew(tx, self.job, self.until_ms, until_ms):
            self.lost = True
            return False
        self.until_ms = until_ms
        return True

    def give_back(self, tx: Tx) -> bool:
        """Let somebody else have the job; False when another process has it already."""
        return not self.lost and jobs.renew(tx, self.job, self.until_ms, 0)

    def finish(self, tx: Tx) -> None:
        """Remove the job: it is done."""
        if self.renew(tx):
            jobs.done(tx, self.job)
        self.lost = True

    def fail(self, tx: Tx, failure: PortError) -> None:
        """Leave the job for later; it is no longer held."""
        jobs.fail(tx, self.job, str(failure))
        self.lost = True
