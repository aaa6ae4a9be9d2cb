"""Retention of sessions: its actions are the verbs of the API, and leave as little."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB


@pytest.fixture
def upkeep_db(open_db: Callable[..., MemDB], path: str) -> Callable[[str], MemDB]:
    """Return a function that opens a file whose idle sessions get an action."""

    def make(action: str) -> MemDB:
        return open_db(
            path, settings=memdb.Settings(session_max_idle_ms=1000, session_retention=action)
        )

    return make


def fill(db: MemDB) -> memdb.Session:
    """Return a session with a message, an artifact, state and an entry told in it."""
    ann = db.scope("ann")
    trip = ann.session("trip")
    trip.append("user", "The secret plan is to fly.")
    trip.artifacts.save("plan.md", "the secret plan")
    trip.state["mood"] = "sad"
    ann.remember("Ann has a secret plan.", session="trip", seq=1)
    return trip


@pytest.mark.parametrize("action", ["delete", "forget"])
def test_a_session_that_retention_removes_takes_artifacts_and_state_with_it(
    upkeep_db: Callable[[str], MemDB], clock: Any, run_sql: Any, action: str
) -> None:
    """Neither is found any more, and a session of the same name inherits nothing (issue 11, H1)."""
    db = upkeep_db(action)
    trip = fill(db)
    clock.advance(18_000_000)
    db.jobs.run(due=True)

    assert db.scope("ann").sessions() == []
    assert [hit for hit in db.scope("ann").recall("secret plan") if hit.kind != "entry"] == []
    for table in ("messages", "artifact_names", "artifacts", "blobs", "state"):
        assert run_sql(db.path, f"SELECT count(*) FROM {table}") == [(0,)], table
    trip.append("user", "new trip")
    assert dict(trip.state) == {}
    assert trip.artifacts.list() == []


def test_forgotten_by_retention_as_on_request(
    upkeep_db: Callable[[str], MemDB], clock: Any, run_sql: Any
) -> None:
    """The entries told in the session go too, and its tombstone does not say its name."""
    db = upkeep_db("forget")
    fill(db)
    clock.advance(18_000_000)
    db.jobs.run(due=True)

    assert list(db.scope("ann").entries.list()) == []
    refs = run_sql(db.path, "SELECT ref FROM tombstones WHERE kind = 'session'")
    assert sorted(ref[:7] for (ref,) in refs) == ["sha256:", "source"]


def test_deleted_by_retention_keeps_what_was_told(
    upkeep_db: Callable[[str], MemDB], clock: Any
) -> None:
    """As `Session.delete` does."""
    db = upkeep_db("delete")
    fill(db)
    clock.advance(18_000_000)
    db.jobs.run(due=True)

    (entry,) = db.scope("ann").entries.list()
    assert entry.session is None
