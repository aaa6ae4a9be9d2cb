"""
Job runner: does the background work that is due in a file.

Work is a kind of job ("embed", "summarize", "extract"). Upkeep is work on the
whole file that comes round again: of all processes the one that takes the
lease of a step does it. A failure of one kind or step keeps no other from
being done. The container gives both as lists of functions.

`read_stats` says what waits, what fails and why, and which texts are refused.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError, PortError, StorageError
from memdb.models.observation import on_failure, warn_failed
from memdb.models.record import Record
from memdb.models.reports import Failure, QueueState, RefusedText, Stats, WorkRequest
from memdb.models.settings import WORK
from memdb.tables import jobs, messages
from memdb.tables.jobs import GIVEN_UP, UPKEEP_LEASE_MS, UPKEEP_RETRY_MS
from memdb.text.validate import DAY_MS, HOUR_MS, MINUTE_MS, int_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memdb.engine.base import Engine, Tx
    from memdb.models.observation import Meter
    from memdb.tables.jobs import FailedJob, Job

    Work = Callable[[WorkRequest], tuple[int, MemDBError | None]]
    Step = Callable[[], int]


MAX_DOUBLINGS = 10

# How often each step of upkeep is due. Source: docs/seeds/koopa.md.
EVERY_MS = {
    "expire": HOUR_MS,
    "retain": HOUR_MS,
    "sessions": HOUR_MS,
    "optimize": DAY_MS,
    "checkpoint": 5 * MINUTE_MS,
}


class StepRun(Record):
    """Result of a step of upkeep: how much it did, or why it failed (None: it did not)."""

    kind: str
    done: int
    error: Exception | None = None


class JobRunner:
    """Does the work and the upkeep of a file."""

    def __init__(
        self,
        db: Engine,
        work: Mapping[str, Work],
        upkeep: Sequence[tuple[str, Step]],
        failures: dict[str, Failure] | None = None,
        meter: Meter | None = None,
    ) -> None:
        """
        Work on *db*.

        Args:
            work: Does each kind of `WORK` that this process can do.
            upkeep: Steps in order, each with its kind of `EVERY_MS`.
            failures: Gets the last failure of each kind, as soon as a port fails and
                until the kind succeeds; None:
                only this object knows them.
            meter: Notes each run of a kind that did something or failed; None:
                nobody does.
        """
        self._db = db
        self._work = work
        self._upkeep = upkeep
        self._failures = {} if failures is None else failures
        self._meter = meter

    def run_pending(
        self, request: WorkRequest, kinds: Sequence[str] = WORK, *, upkeep: bool = False
    ) -> int:
        """
        Do the work that is due and return how many pieces that were.

        Args:
            upkeep: Also the upkeep that is due.

        Raises:
            InvalidInput: an unknown kind, a limit below 0, or called inside a transaction.
            MemDBError: the first failure; all else was done.
        """
        if request.limit is not None:
            int_value(request.limit, "limit", 0, 1 << 62)
        for kind in kinds:
            if kind not in WORK:
                raise InvalidInput(f"kinds contains {kind!r}: use {', '.join(WORK)}")
        self._db.refuse_inside("jobs.run")
        done, failure = self._run_work(request, kinds)
        for step in self.run_upkeep() if upkeep else ():
            if step.error is not None and failure is None:
                failure = StorageError(f"upkeep {step.kind!r} failed: {step.error}")
        if failure is not None:
            raise failure
        return done

    def run_upkeep(self, *, early: bool = False) -> list[StepRun]:
        """
        Do every due step that no other process does, and return the results.

        The error of a step is recorded with it. A failed step is tried again after a
        minute, then after two, four ...

        Args:
            early: Also steps that are not due yet.
        """
        with self._db.read() as tx:
            due_ms = {state.kind: state.due_ms for state in jobs.list_upkeep(tx)}
        runs = []
        for kind, step in self._upkeep:
            if not early and due_ms.get(kind, 0) > self._db.clock():
                continue  # without a write: this is the usual case
            with self._db.write() as tx:
                job = jobs.lease_upkeep(tx, kind, UPKEEP_LEASE_MS, early=early)
            if job is not None:
                runs.append(self._run_step(job, step))
        return runs

    def _run_work(
        self, request: WorkRequest, kinds: Sequence[str]
    ) -> tuple[int, MemDBError | None]:
        """Do work of each kind; return how many pieces, and the first failure."""
        self._db.refuse_read_only()
        total = 0
        failure: MemDBError | None = None
        for kind in WORK:
            if kind in kinds and kind in self._work:
                rest = None if request.limit is None else max(request.limit - total, 0)
                done, problem = self._run_kind(kind, request.replace(limit=rest))
                total += done
                failure = failure or problem
        return total, failure

    def _run_kind(self, kind: str, request: WorkRequest) -> tuple[int, MemDBError | None]:
        """
        Do work of one kind; return how many pieces, and the first failure.

        A port that fails is known at once: its retries may take minutes.
        """
        start_s = perf_counter()
        early: list[PortError] = []

        def note(error: BaseException) -> None:
            if isinstance(error, PortError) and not request.stopped:
                self._failures[kind] = Failure(error, self._db.clock())
                if not early and self._meter is not None:
                    warn_failed(f"jobs.{kind}", start_s, error)
                early.append(error)

        token = on_failure.set(note)
        try:
            done, problem = self._work[kind](request)
        finally:
            on_failure.reset(token)
        is_logged = bool(early) and str(early[0]) == str(problem)
        self._note(kind, start_s, max(done, len(early)), problem, loud=not is_logged)
        return done, problem

    def _note(
        self, kind: str, start_s: float, done: int, error: MemDBError | None, *, loud: bool = True
    ) -> None:
        """Keep the failure of a kind until it does something without one."""
        if error is not None:
            if loud or kind in self._failures:  # else another thread has done the work since
                self._failures[kind] = Failure(error, self._db.clock())
        elif done:
            self._failures.pop(kind, None)
        if self._meter is not None and (done or error is not None):
            self._meter.note(f"jobs.{kind}", start_s, error, loud=loud)

    def _run_step(self, job: Job, step: Step) -> StepRun:
        every_ms = EVERY_MS[job.kind]
        start_s = perf_counter()
        try:
            done = step()
        except Exception as error:  # noqa: BLE001 (no step may stop the next)
            failure = StorageError(f"upkeep {job.kind!r} failed: {error}")
            self._note(job.kind, start_s, 0, failure)
            wait_ms = min(UPKEEP_RETRY_MS << min(job.attempts, MAX_DOUBLINGS), every_ms)
            with self._db.write() as tx:
                jobs.fail(tx, job, str(error), wait_ms)
            return StepRun(job.kind, 0, error)
        with self._db.write() as tx:
            jobs.reschedule(tx, job, every_ms)
        self._note(job.kind, start_s, 1, None)
        return StepRun(job.kind, done)


MAX_REFUSED = 100
TEXTS = ("message", "entry", "item")  # subjects of embedding alone


def read_stats(db: Engine, failures: Mapping[str, Failure], meter: Meter) -> Stats:
    """Return the state of the queue in the file, and the figures of this process."""
    with db.read() as tx:
        failed = jobs.list_failed(tx)
        newest = {(job.kind, job.model): job for job in reversed(failed)}
        queue = tuple(
            _with_reason(QueueState(*counts), newest.get((counts[0], counts[1])))
            for counts in jobs.count_queue(tx, db.clock())
        )
        poison = [one for one in failed if one.attempts >= GIVEN_UP and one.subject in TEXTS]
        refused = tuple(_refused(tx, job) for job in poison[:MAX_REFUSED])
    return Stats(queue, refused, dict(failures), meter.stats())


def _with_reason(state: QueueState, job: FailedJob | None) -> QueueState:
    if job is None:
        return state
    return state.replace(error=job.error, attempts=job.attempts, retry_ms=job.due_ms)


def _refused(tx: Tx, job: FailedJob) -> RefusedText:
    place: tuple[str | None, int | None] = (None, None)
    if job.subject == "message":
        found = messages.get_many(tx, [job.ref]).get(job.ref)
        place = (None, None) if found is None else (found.session, found.seq)
    entry_id = job.ref if job.subject == "entry" else None
    model = job.model or ""
    return RefusedText(job.subject, model, *place, entry_id, job.attempts, job.error, job.due_ms)
