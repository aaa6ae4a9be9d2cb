"""`memdb chat branch`, `branches`, and --branch of the other commands."""

from __future__ import annotations

import pytest

import memdb
from memdb import MemDB


@pytest.fixture
def branched(trip: str) -> str:
    """Return the path of a file whose conversation has a branch, and that one another."""
    with memdb.open(trip) as db:
        other = db.scope("ann").session("trip").branch("other", 2)
        other.append("user", "We fly to Rome.")
        other.branch("third").append("user", "By night.")
    return trip


def texts(path: str, branch: str | None = None) -> list[str]:
    """Return what a head of the conversation says."""
    with memdb.open(path) as db:
        return _texts(db, branch)


def _texts(db: MemDB, branch: str | None) -> list[str]:
    chat = db.scope("ann").session("trip")
    head = chat if branch is None else chat.branch(branch, create=False)
    return [one.text for one in head.messages()]


def test_a_branch_leaves_after_a_message(run, run_json, trip):
    """It is made once, and says where it leaves; with --json as the record of a listing."""
    made = run("chat", "branch", trip, "trip", "other", "--after", "2")
    again = run("chat", "branch", trip, "trip", "other")
    late = run("chat", "branch", trip, "trip", "late", "--after", "9")
    (listed,) = run_json("chat", "branches", trip, "trip")

    assert made.stdout == "trip (other), after message 2\n"
    assert again.exit_code != 0
    assert "other" in again.stderr
    assert late.exit_code != 0
    assert "the last seq so far is 3" in late.stderr
    assert (listed["name"], listed["parent"], listed["leaves_at"]) == ("other", None, 2)
    assert listed["message_count"] == 2
    assert len(texts(trip, "other")) == 2


def test_a_branch_of_a_branch_names_what_it_leaves(run_json, trip):
    """Also if that one has no message of its own yet."""
    run_json("chat", "branch", trip, "trip", "other")
    made = run_json("chat", "branch", trip, "trip", "third", "--branch", "other")

    assert (made["name"], made["parent"], made["leaves_at"]) == ("third", "other", 3)


def test_other_commands_take_a_branch(run, run_json, branched):
    """Appending, showing and recalling; no listing of conversations has it."""
    stored = run_json("chat", "append", branched, "trip", "Or by train.", "--branch", "other")
    shown = run("chat", "show", branched, "trip", "--branch", "other")
    hits = run_json("recall", branched, "Rome", "--kind", "message")["hits"]
    listed = run_json("chat", "list", branched)

    assert stored["seq"] == 4
    assert "We fly to Rome." in shown.stdout
    assert "By night." not in shown.stdout
    (hit,) = [one for one in hits if "Rome" in one["text"]]
    assert hit["source"]["branch"] == "other"
    assert [one["name"] for one in listed] == ["trip"]
    assert run("chat", "show", branched, "trip", "--branch", "absent").exit_code != 0


def test_deleting_a_branch_names_it(run, branched):
    """What goes is asked for and told by the name of the branch; the conversation stays."""
    would = run("chat", "delete", branched, "trip", "--branch", "third", "--dry-run")
    done = run("chat", "delete", branched, "trip", "--branch", "third", "--yes")

    assert would.stdout == "Would delete trip (third), 1 message, 1 branch.\n"
    assert done.stdout == "Deleted trip (third), 1 message, 1 branch.\n"
    assert len(texts(branched)) == len(texts(branched, "other")) == 3


def test_a_branch_that_others_leave_needs_force(run, run_json, branched):
    """Without it nothing goes, and the message says what to give; with it both go."""
    refused = run("chat", "delete", branched, "trip", "--branch", "other", "--yes")
    assert refused.exit_code != 0
    assert "'third'" in refused.stderr
    assert "force" in refused.stderr
    assert texts(branched, "third")

    done = run("chat", "delete", branched, "trip", "--branch", "other", "--force", "--yes")

    assert done.stdout == "Deleted trip (other), 2 messages, 2 branches.\n"
    assert run_json("chat", "branches", branched, "trip") == []
    assert len(texts(branched)) == 3


def test_deleting_the_conversation_takes_its_branches(run, branched):
    """They are counted."""
    done = run("chat", "delete", branched, "trip", "--yes")

    assert done.stdout == "Deleted trip, 5 messages, 2 branches, 1 artifact.\n"
