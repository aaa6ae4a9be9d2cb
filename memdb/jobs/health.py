"""
Health of background work: what waits, what fails and why, which texts are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.reports import QueueState, RefusedText, Stats
from memdb.tables import jobs, messages
from memdb.tables.jobs import GIVEN_UP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memdb.engine.base import Engine, Tx
    from memdb.models.observation import Meter
    from memdb.models.reports import Failure
    from memdb.tables.jobs import FailedJob

MAX_REFUSED = 100


def read_stats(db: Engine, failures: Mapping[str, Failure], meter: Meter) -> Stats:
    """Return the state of the queue in the file, and the figures of this process."""
    with db.read() as tx:
        failed = jobs.list_failed(tx)
        newest = {(job.kind, job.model): job for job in reversed(failed)}
        queue = tuple(
            _with_reason(QueueState(*counts), newest.get((counts[0], counts[1])))
            for counts in jobs.count_queue(tx, db.clock())
        )
        poison = [job for job in failed if job.attempts >= GIVEN_UP and _is_text(job)]
        refused = tuple(_refused(tx, job) for job in poison[:MAX_REFUSED])
    return Stats(queue, refused, dict(failures), meter.stats())


def _with_reason(state: QueueState, job: FailedJob | None) -> QueueState:
    if job is None:
        return state
    return state.replace(error=job.error, attempts=job.attempts, retry_ms=job.due_ms)


def _is_text(job: FailedJob) -> bool:
    return job.kind == "embed" and job.subject in ("message", "entry", "item")


def _refused(tx: Tx, job: FailedJob) -> RefusedText:
    place: tuple[str | None, int | None] = (None, None)
    if job.subject == "message":
        found = messages.get_many(tx, [job.ref]).get(job.ref)
        place = (None, None) if found is None else (found.session, found.seq)
    entry_id = job.ref if job.subject == "entry" else None
    model = job.model or ""
    return RefusedText(job.subject, model, *place, entry_id, job.attempts, job.error, job.due_ms)
