"""
What is due in a file: pieces of work, and upkeep that comes round again.

Each kind is apart from the others: one that fails keeps none from being done.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, PortError, StorageError
from memdb.models.ids import MAX_INT
from memdb.models.record import Record
from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.api._container import Rooms
    from memdb.deletion.retention import SessionPolicy
    from memdb.errors import MemDBError

    Progress = Callable[[int], object]
    Status = Callable[[str, str], object]
    Cancelled = Callable[[], bool]

# Pieces of work, in the order in which they are done.
WORK = ("embed", "summarize", "extract")


class UpkeepPolicy(Record):
    """
    What a worker removes; the default is nothing.

    Attributes:
        inactive_ms: Entries that have been inactive for longer are removed
            with their history; None: none. A year is usual.
        sessions: Which sessions are archived or forgotten; None: none.
    """

    inactive_ms: int | None = None
    sessions: SessionPolicy | None = None


def checked_upkeep(policy: object) -> UpkeepPolicy:
    """
    Return what is a policy.

    Raises:
        InvalidInput: it is something else, or a field is out of its range.
    """
    from memdb.deletion.retention import SessionPolicy

    if not isinstance(policy, UpkeepPolicy):
        raise InvalidInput(f"upkeep is {policy!r}: give an UpkeepPolicy, or None")
    if policy.inactive_ms is not None:
        int_value(policy.inactive_ms, "upkeep.inactive_ms", 0, MAX_INT)
    if policy.sessions is not None and not isinstance(policy.sessions, SessionPolicy):
        raise InvalidInput(f"upkeep.sessions is {policy.sessions!r}: give a SessionPolicy, or None")
    return policy


def steps_of(rooms: Rooms, policy: UpkeepPolicy | None) -> list[tuple[str, Callable[[], int]]]:
    """Return the steps of upkeep, in order: what ends, what is removed, then what is left."""
    from memdb.engine.sqlite.maintenance import checkpoint, merge_indexes
    from memdb.entries.lifecycle import expire, remove_inactive

    steps: list[tuple[str, Callable[[], int]]] = [("expire", lambda: expire(rooms.db))]
    if policy is not None and policy.inactive_ms is not None:
        age_ms = policy.inactive_ms
        steps.append(("retain", lambda: remove_inactive(rooms.db, age_ms)))
    if policy is not None and policy.sessions is not None:
        from memdb.deletion.retention import retain_sessions

        sessions = policy.sessions
        steps.append(("sessions", lambda: len(retain_sessions(rooms, sessions))))
    steps.append(("optimize", lambda: merge_indexes(rooms.db)))
    steps.append(("checkpoint", lambda: checkpoint(rooms.db)))
    return steps


def run_pending(
    rooms: Rooms,
    limit: int | None = None,
    progress: Progress | None = None,
    status: Status | None = None,
    *,
    kinds: Sequence[str] = WORK,
    early: bool = True,
    cancelled: Cancelled | None = None,
) -> int:
    """
    Do the pieces of work that are due; see `MemDB.run_pending`.

    Args:
        early: Also what failed and waits to be tried again, and sessions in
            which something is still being said.
        cancelled: Asked between pieces of work, and while a model answers.
    """
    from memdb.summaries.leases import Run

    if limit is not None:
        int_value(limit, "limit", 0, 1 << 62)
    for kind in kinds:
        if kind not in WORK:
            raise InvalidInput(f"kinds holds {kind!r}: use {', '.join(WORK)}")
    failure: MemDBError | None = None
    done = 0
    if "embed" in kinds:
        try:
            done = rooms.indexer.run_pending(limit, progress, early=early)
        except PortError as error:
            failure = error
    if "summarize" in kinds:
        rest = None if limit is None else max(limit - done, 0)
        run = Run(status, cancelled, progress)
        made, _ = rooms.summaries.run_pending(rest, run, early=early)
        done += made
        failure = failure or run.first
    if "extract" in kinds and rooms.extracts:
        rest = None if limit is None else max(limit - done, 0)
        read, problem = rooms.extractions.run_pending(
            rest, progress, status, early=early, cancelled=cancelled
        )
        done += read
        failure = failure or problem
    if failure is not None:
        raise failure
    return done


def run_due(
    rooms: Rooms,
    limit: int | None = None,
    progress: Progress | None = None,
    status: Status | None = None,
    cancelled: Cancelled | None = None,
) -> int:
    """
    Do the pieces of work and the upkeep that are due now, as a worker does; how many pieces.

    Raises:
        MemDBError: the first of what failed; all else was done.
    """
    failure: MemDBError | None = None
    done = 0
    try:
        done = run_pending(rooms, limit, progress, status, early=False, cancelled=cancelled)
    except PortError as error:
        failure = error
    for step in rooms.scheduler.run_due():
        if step.error is not None and failure is None:
            failure = StorageError(f"upkeep {step.kind!r} failed: {step.error}")
    if failure is not None:
        raise failure
    return done
