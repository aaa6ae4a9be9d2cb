"""`memdb extract`."""

from __future__ import annotations

import pytest

import memdb

HOBBY = "Note: I love to hike in the mountains."
HOME = "Remember that I live in Oslo."


@pytest.fixture
def told(path, frozen):
    """Return the path of a file in which ann said what to remember."""
    with memdb.open(path) as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "Hello there!", author="Ann")
        chat.append("assistant", "Noted.")
        chat.append("user", f"{HOBBY} {HOME}", author="Ann")
    return path


def known(path):
    """Return what is known of ann."""
    with memdb.open(path) as db:
        return sorted(entry.text for entry in db.scope("ann").entries.list())


def test_extract_golden(run_json, told):
    """--json has each outcome with its candidate, and how far it got."""
    done = run_json("extract", told, "trip")

    assert sorted(done) == [
        "batches", "calls", "dry_run", "messages", "next_seq", "outcomes",
    ]  # fmt: skip
    assert (done["messages"], done["next_seq"], done["calls"]) == (3, 4, 0)
    assert [one["candidate"]["text"] for one in done["outcomes"]] == [
        HOBBY,
        HOME,
    ]
    assert {one["action"] for one in done["outcomes"]} == {"added"}
    assert known(told) == [HOBBY, HOME]


def test_extract_for_a_person(run, told):
    """A line per fact, and a sentence."""
    lines = run("extract", told, "trip", "--user", "ann").stdout.splitlines()

    action, _, seq, text = lines[0].split(maxsplit=3)

    assert (action, seq, text) == ("added", "3", HOBBY)
    assert lines[-1] == "trip: 3 messages read."


def test_a_dry_run_stores_nothing(run, told):
    """And says the same as the run after it."""
    dry = run("extract", told, "trip", "--dry-run").stdout
    before = known(told)
    real = run("extract", told, "trip").stdout

    assert before == []
    assert dry == real.replace("read.\n", "read; nothing was stored.\n")


def test_a_second_run_has_nothing_to_read(run, told):
    """What was read stays read."""
    run("extract", told, "trip", "--limit", "1")

    assert run("extract", told, "trip").stdout == "trip: 0 messages read.\n"


def test_refusals(run, told):
    """No such session: 3; a limit below 0, or a model that is none: value."""
    assert run("extract", told, "none").exit_code == 3
    assert run("extract", told, "trip", "--limit", "-1").exit_code == 5
    assert run("extract", told, "trip", "--model", "nothing:x").exit_code == 5
    assert run("extract", told + ".none", "trip").exit_code == 6


def test_facts_are_shown_without_terminal_sequences(run, path, frozen):
    """What a message says cannot write over the table."""
    with memdb.open(path) as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "Remember that I love \x1b[31mhiking\x07 trips.", author="Ann")

    shown = run("extract", path, "trip").stdout

    assert "hiking" in shown
    assert "\x1b" not in shown
