"""
Upkeep that comes round again: what is due is done once, by whoever comes first.

Each step has a row in the file with the time it is due and a lease. Of any
number of processes the one that takes the lease does the step; the others see
that it is not due. A process that dies gives its step back with the lease.
"""

from __future__ import annotations

from memdb.models.record import Record
from memdb.tables import upkeep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.engine.sqlite.database import Database
    from memdb.models.file import Upkeep

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# A step that takes longer may be done twice, which costs time and nothing else.
LEASE_MS = 10 * MINUTE_MS

# Wait before a failed step is tried again: doubled per failure, up to its own interval.
RETRY_MS = MINUTE_MS
MAX_DOUBLINGS = 10

# How often each is due.
# Source: docs/seeds/koopa.md (expiry and retention each hour).
EVERY_MS = {
    "expire": HOUR_MS,
    "retain": HOUR_MS,
    "sessions": HOUR_MS,
    "optimize": DAY_MS,
    "checkpoint": 5 * MINUTE_MS,
}


class StepRun(Record):
    """What a step did: how much, or why it failed (None: it did not)."""

    kind: str
    done: int
    error: Exception | None = None


class Scheduler:
    """Does the upkeep of a file."""

    def __init__(self, db: Database, steps: Sequence[tuple[str, Callable[[], int]]]) -> None:
        """
        Keep *db* by *steps*, in this order: each a kind of `EVERY_MS` and what does it.

        A step returns how much it did. It opens its own transactions.
        """
        self._db = db
        self._steps = steps

    def run_due(self, *, early: bool = False) -> list[StepRun]:
        """
        Do every step that is due and that nobody else is at; return what they did.

        A step that fails keeps no other from being done: its error is recorded
        with it, and it is tried again after a minute, then two, four ...

        Args:
            early: Also those that are not due yet.
        """
        known = self._known()
        ran = []
        for kind, step in self._steps:
            state = known.get(kind)
            if state is not None and not early and state.due_ms > self._db.clock():
                continue  # asked without a write: this is the usual case
            with self._db.write() as tx:
                held_ms = upkeep.take(tx, kind, LEASE_MS, early=early)
            if held_ms is not None:
                failures = 0 if state is None else state.attempts
                ran.append(self._run(kind, step, held_ms, failures))
        return ran

    def _run(self, kind: str, step: Callable[[], int], held_ms: int, failures: int) -> StepRun:
        every_ms = EVERY_MS[kind]
        try:
            done = step()
        except Exception as error:  # noqa: BLE001 (no step may stop the next)
            wait_ms = min(RETRY_MS << min(failures, MAX_DOUBLINGS), every_ms)
            with self._db.write() as tx:
                upkeep.done(tx, kind, held_ms, tx.now_ms + wait_ms, str(error))
            return StepRun(kind, 0, error)
        with self._db.write() as tx:
            upkeep.done(tx, kind, held_ms, tx.now_ms + every_ms)
        return StepRun(kind, done)

    def _known(self) -> dict[str, Upkeep]:
        with self._db.read() as tx:
            return {one.kind: one for one in upkeep.list_all(tx)}
