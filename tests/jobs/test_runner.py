"""Upkeep in the background: each step once for all processes, none in another's way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.errors import PortError
from memdb.jobs.runner import EVERY_MS, JobRunner
from memdb.models.observation import report_failure
from memdb.models.reports import WorkRequest
from memdb.tables import jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB
    from memdb.engine.sqlite.engine import SqliteEngine
    from tests.conftest import Clock

HOUR_MS = 3_600_000


class Steps:
    """Counts how often each step ran; `fail` holds what a step raises."""

    def __init__(self) -> None:
        """Start with nothing done."""
        self.ran: list[str] = []
        self.fail: dict[str, Exception] = {}

    def make(self, *kinds: str) -> list[tuple[str, Callable[[], int]]]:
        """Return steps of these kinds."""
        return [(kind, lambda kind=kind: self._run(kind)) for kind in kinds]

    def _run(self, kind: str) -> int:
        self.ran.append(kind)
        if kind in self.fail:
            raise self.fail[kind]
        return 1


@pytest.fixture
def steps() -> Steps:
    """Return steps that only count."""
    return Steps()


def test_each_step_is_done_when_it_is_due(
    database: SqliteEngine, clock: Clock, steps: Steps
) -> None:
    """At once, then again after its interval, in order."""
    runner = JobRunner(database, {}, steps.make("expire", "checkpoint"))
    runner.run_upkeep()
    runner.run_upkeep()
    clock.advance(EVERY_MS["checkpoint"])
    runner.run_upkeep()
    clock.advance(EVERY_MS["expire"])
    ran = runner.run_upkeep()

    assert steps.ran == ["expire", "checkpoint", "checkpoint", "expire", "checkpoint"]
    assert [(one.kind, one.done, one.error) for one in ran] == [
        ("expire", 1, None),
        ("checkpoint", 1, None),
    ]


def test_early_does_what_is_not_due(database: SqliteEngine, steps: Steps) -> None:
    """As a command asks for that is run by hand."""
    runner = JobRunner(database, {}, steps.make("expire"))
    runner.run_upkeep()
    runner.run_upkeep(early=True)

    assert steps.ran == ["expire", "expire"]


def test_an_error_in_one_step_does_not_stop_the_next(
    database: SqliteEngine, clock: Clock, steps: Steps
) -> None:
    """It is recorded, and tried again after a minute, then two; success clears it."""
    steps.fail["expire"] = memdb.StorageError("no luck")
    runner = JobRunner(database, {}, steps.make("expire", "retain"))
    first = runner.run_upkeep()
    clock.advance(jobs.UPKEEP_RETRY_MS)
    runner.run_upkeep()
    clock.advance(jobs.UPKEEP_RETRY_MS)
    runner.run_upkeep()
    with database.read() as tx:
        (failed, _) = jobs.list_upkeep(tx)
    clock.advance(jobs.UPKEEP_RETRY_MS)
    steps.fail.clear()
    runner.run_upkeep()
    with database.read() as tx:
        (well, _) = jobs.list_upkeep(tx)

    assert [str(one.error) for one in first] == ["no luck", "None"]
    assert steps.ran == ["expire", "retain", "expire", "expire"]
    assert (failed.kind, failed.attempts, failed.error, failed.done_ms) == (
        "expire", 2, "no luck", None,
    )  # fmt: skip
    assert (well.attempts, well.error, well.done_ms) == (0, None, clock.now_ms)


def test_a_run_with_upkeep_raises_its_first_failure(
    database: SqliteEngine, clock: Clock, steps: Steps
) -> None:
    """After all steps were tried; a run without a failure raises nothing."""
    runner = JobRunner(database, {}, steps.make("expire", "checkpoint"))
    assert runner.run_pending(WorkRequest(), upkeep=True) == 0
    steps.fail = {"expire": ValueError("first"), "checkpoint": ValueError("second")}
    clock.advance(EVERY_MS["expire"])

    with pytest.raises(memdb.StorageError, match=r"upkeep 'expire' failed: .*first"):
        runner.run_pending(WorkRequest(), upkeep=True)

    assert steps.ran == ["expire", "checkpoint"] * 2


def test_a_bug_in_a_step_is_recorded_too(database: SqliteEngine, steps: Steps) -> None:
    """Not only errors of memdb."""
    steps.fail["expire"] = ZeroDivisionError("division by zero")
    ran = JobRunner(database, {}, steps.make("expire", "retain")).run_upkeep()

    assert [type(one.error) for one in ran] == [ZeroDivisionError, type(None)]


def test_what_another_process_is_at_is_left_to_it(
    database: SqliteEngine, clock: Clock, steps: Steps
) -> None:
    """Until its lease ends: then it is taken over."""
    runner = JobRunner(database, {}, steps.make("expire"))
    with database.write() as tx:
        jobs.lease_upkeep(tx, "expire", jobs.UPKEEP_LEASE_MS)
    runner.run_upkeep()
    before = list(steps.ran)
    clock.advance(jobs.UPKEEP_LEASE_MS)
    runner.run_upkeep()

    assert (before, steps.ran) == ([], ["expire"])


def test_who_lost_its_lease_changes_nothing(database: SqliteEngine, clock: Clock) -> None:
    """A process that slept through its lease does not undo what the next one noted."""
    with database.write() as tx:
        slow = jobs.lease_upkeep(tx, "expire", jobs.UPKEEP_LEASE_MS)
    clock.advance(jobs.UPKEEP_LEASE_MS)
    with database.write() as tx:
        quick = jobs.lease_upkeep(tx, "expire", jobs.UPKEEP_LEASE_MS)
    assert slow is not None
    assert quick is not None
    with database.write() as tx:
        late = jobs.fail(tx, slow, "late", 0)
        fine = jobs.reschedule(tx, quick, HOUR_MS)

    assert (late, fine) == (False, True)


def test_nothing_due_needs_no_lock(
    path: str, make_database: Callable[..., SqliteEngine], steps: Steps, raw: Any
) -> None:
    """Looking costs a read: ten workers that poll neither wait for writers nor delay them."""
    runner = JobRunner(make_database(path, timeout_ms=1), {}, steps.make("expire"))
    runner.run_upkeep()
    raw(path).execute("BEGIN IMMEDIATE")

    assert runner.run_upkeep() == []


DAY_MS = 86_400_000


class TestUpkeepPolicy:
    """What a worker removes: nothing, unless it was asked for."""

    def test_nothing_is_removed_by_default(
        self, open_db: Callable[..., MemDB], clock: Clock
    ) -> None:
        """An expired entry is set aside, and kept."""
        db = open_db(":memory:")
        ann = db.scope("ann")
        ann.remember("Ann has a cold.", expires="1d")
        ann.session("old").append("user", "Hello.")
        clock.advance(4000 * DAY_MS)
        db.jobs.run(due=True)
        (entry,) = ann.entries.list(inactive=True)

        assert entry.active is False
        assert [one.name for one in ann.sessions()] == ["old"]

    def test_inactive_entries_go_after_their_time(
        self, open_db: Callable[..., MemDB], clock: Clock
    ) -> None:
        """Not before; active ones stay however old they are."""
        db = open_db(":memory:", settings=memdb.Settings(entry_inactive_ms=30 * DAY_MS))
        ann = db.scope("ann")
        ann.remember("Ann has a cold.", expires="1d")
        ann.remember("Ann is a nurse.", category="identity")
        clock.advance(2 * DAY_MS)
        db.jobs.run(due=True)
        before = len(list(ann.entries.list(inactive=True)))
        clock.advance(31 * DAY_MS)
        db.jobs.run(due=True)

        assert before == 2
        assert [one.text for one in ann.entries.list(inactive=True)] == ["Ann is a nurse."]

    def test_sessions_go_by_their_policy(self, open_db: Callable[..., MemDB], clock: Clock) -> None:
        """The least recently used one first."""
        policy = memdb.Settings(session_max_count=1, session_retention="forget")
        db = open_db(":memory:", settings=policy)
        ann = db.scope("ann")
        ann.session("first").append("user", "One.")
        clock.advance(1)
        ann.session("second").append("user", "Two.")
        db.jobs.run(due=True)

        assert [one.name for one in ann.sessions()] == ["second"]

    def test_a_worker_does_the_upkeep(self, open_db: Callable[..., MemDB]) -> None:
        """Beside the pieces of work; `info` tells when, and what failed."""
        db = open_db(":memory:")
        worker = db.jobs.start(0.01)
        while len(db.file.info().upkeep) < 3 or any(one.lease_ms for one in db.file.info().upkeep):
            assert worker.running
        worker.stop()

        assert [one.kind for one in db.file.info().upkeep] == ["checkpoint", "expire", "optimize"]
        assert all(one.done_ms and one.error is None for one in db.file.info().upkeep)


def test_a_failure_that_is_over_is_not_kept(database: SqliteEngine) -> None:
    """Another thread did the work between the failure and the end of the run that saw it."""
    error, failures = PortError("m", "no answer"), {}
    runner = JobRunner(database, {"embed": lambda _: (1, None)}, [], failures)
    seen = []

    def fail(_request: WorkRequest) -> tuple[int, PortError]:
        report_failure(error)
        seen.append(failures["embed"].error)
        runner.run_pending(WorkRequest())
        return 0, error

    with pytest.raises(PortError):
        JobRunner(database, {"embed": fail}, [], failures).run_pending(WorkRequest())

    assert (seen, failures) == ([error], {})
