"""Statements of jobs: leases, retries, and proofs that nothing moved."""

from typing import Any

import pytest

from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.models.ids import session_id
from memdb.tables import jobs, scopes, sessions, spaces
from memdb.tables import jobs as space_jobs

SESSION = session_id(1, 1)
ALL = (0, 1 << 62)


@pytest.fixture
def tx(database: SqliteEngine) -> Any:
    """Return a write with two spaces and a session."""
    with database.write() as tx:
        sessions.add(tx, scopes.ensure(tx, "app", "ann", "u"), "trip", "s")
        [spaces.add_space(tx, model, 8) for model in ("one", "two")]
        yield tx


def due(tx: Tx, space: int = 1, now_ms: int | None = None) -> list[jobs.Job]:
    """Return what is due in a space."""
    return jobs.due(tx, space, *ALL, tx.now_ms if now_ms is None else now_ms, 9)


def test_a_job_is_added_for_each_space(tx: Tx) -> None:
    """Once, however often it is noted; the first message to do stays the first."""
    [jobs.add_session(tx, SESSION, first) for first in (3, 7)]

    assert [
        (job.subject, job.ref, job.space_no, job.next_seq)
        for space in (1, 2)
        for job in due(tx, space)
    ] == [
        ("session", SESSION, 1, 3),
        ("session", SESSION, 2, 3),
    ]


def test_without_a_space_nothing_is_due(database: SqliteEngine) -> None:
    """A file that nobody embeds collects no work."""
    with database.write() as tx:
        jobs.add_session(tx, SESSION, 1)

        assert space_jobs.count_jobs(tx, 1) == 0


def test_an_entrys_job_follows_its_version(tx: Tx) -> None:
    """A newer version is due at once, though an older one failed or is in work."""
    jobs.add_entry(tx, 5, 1)
    (job,) = due(tx)
    jobs.lease(tx, job)
    jobs.add_entry(tx, 5, 2)

    assert [one.next_seq for one in due(tx)] == [2]
    assert jobs.done(tx, job) is False


def test_an_embedded_entry_is_due_in_the_other_spaces_only(tx: Tx) -> None:
    """The space that has its vector gets no job."""
    jobs.add_entry(tx, 5, 1, embedded_in=1)

    assert (due(tx, 1), [job.ref for job in due(tx, 2)]) == ([], [5])


def test_a_lease_keeps_others_away_until_it_ends(tx: Tx) -> None:
    """One of two gets it; after its time it is due again."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)

    held = jobs.lease(tx, job)

    assert (held, jobs.lease(tx, job)) == (job.replace(lease_ms=tx.now_ms + jobs.LEASE_MS), None)
    assert (due(tx), due(tx, now_ms=tx.now_ms + jobs.LEASE_MS)) == ([], [held])


@pytest.mark.parametrize("end", ["done", "advance", "fail", "renew", "release", "reschedule"])
def test_a_lost_lease_changes_nothing(tx: Tx, end: str) -> None:
    """A process that slept through its lease does not undo what the next one does."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)
    slow = jobs.lease(tx, job)
    assert slow is not None
    tx.now_ms += jobs.LEASE_MS
    quick = jobs.lease(tx, job)
    ends = {
        "done": lambda: jobs.done(tx, slow),
        "advance": lambda: jobs.advance(tx, slow, 9),
        "fail": lambda: jobs.fail(tx, slow, "late"),
        "renew": lambda: jobs.renew(tx, slow),
        "release": lambda: jobs.release(tx, slow),
        "reschedule": lambda: jobs.reschedule(tx, slow, 9),
    }

    assert not ends[end]()
    assert due(tx, now_ms=tx.now_ms + jobs.LEASE_MS) == [quick]


def test_a_renewed_lease_lasts_longer_and_a_released_one_ends(tx: Tx) -> None:
    """Each returns the job as its row is now."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)
    held = jobs.lease(tx, job, 10)
    assert held is not None
    tx.now_ms += 5
    renewed = jobs.renew(tx, held, 10)
    assert renewed is not None
    tx.now_ms += 5

    assert due(tx) == []
    assert jobs.release(tx, held) is None
    assert jobs.release(tx, renewed) == job
    assert due(tx) == [job]


@pytest.mark.parametrize("finish", ["done", "advance"])
def test_finishing_proves_that_nothing_moved(tx: Tx, finish: str) -> None:
    """Who comes second is told so."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)
    outcomes = [
        jobs.advance(tx, job, 4),
        jobs.done(tx, job) if finish == "done" else jobs.advance(tx, job, 9),
    ]

    assert outcomes == [True, False]
    assert [one.next_seq for one in due(tx)] == [4]


def test_done_removes_the_job_of_its_space_only(tx: Tx) -> None:
    """The other model has its own."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)

    assert jobs.done(tx, job) is True
    assert (due(tx), len(due(tx, 2))) == ([], 1)


def test_a_failed_job_rests_and_says_why(tx: Tx) -> None:
    """The error is cut to what a listing can show."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)
    held = jobs.lease(tx, job)
    assert held is not None
    jobs.fail(tx, held, "e" * 900)

    assert tx.all(
        "SELECT attempts, length(error), lease_ms, due_ms - :now FROM jobs WHERE space_no = 1",
        {"now": tx.now_ms},
    ) == [(1, 500, 0, jobs.RETRY_MS)]
    assert (due(tx), due(tx, now_ms=tx.now_ms + jobs.RETRY_MS)[0].attempts) == ([], 1)


def test_success_forgets_failures(tx: Tx) -> None:
    """The next failure begins with the shortest rest."""
    jobs.add_session(tx, SESSION, 1)
    (job,) = due(tx)
    jobs.fail(tx, job, "e")
    (job,) = due(tx, now_ms=tx.now_ms + jobs.RETRY_MS)
    jobs.advance(tx, job, 2)

    assert tx.all("SELECT attempts, error FROM jobs WHERE space_no = 1") == [(0, None)]


def test_due_keeps_to_its_range(tx: Tx) -> None:
    """Of refs, and so of scopes."""
    [jobs.add_entry(tx, ref, 1) for ref in (5, 6, 7)]

    assert [job.ref for job in jobs.due(tx, 1, 6, 6, tx.now_ms, 9)] == [6]
    assert [job.ref for job in jobs.due(tx, 1, *ALL, tx.now_ms, 2)] == [5, 6]


def test_drop_removes_every_job_of_a_subject(tx: Tx) -> None:
    """In every space, and of no other."""
    jobs.add_entry(tx, 5, 1)
    jobs.add_entry(tx, 6, 1)
    jobs.drop(tx, "entry", 5)

    assert [job.ref for space in (1, 2) for job in due(tx, space)] == [6, 6]
    assert (space_jobs.count_jobs(tx, 1), space_jobs.count_jobs(tx, 2)) == (1, 1)
