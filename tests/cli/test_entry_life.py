"""`memdb entry`: versions, supersede, pins and what was known at another time."""

import pytest

import memdb

MONDAY_MS, FRIDAY_MS = 1_704_067_200_000, 1_704_412_800_000  # 1 and 5 January 2024


@pytest.fixture
def moved(path):
    """Return a file in which ann moved, by key, between two days."""
    now_ms = [MONDAY_MS]
    with memdb.open(path, clock=lambda: now_ms[0], counter="estimate") as db:
        ann = db.scope("ann")
        ann.remember("Ann lives in Oslo.", key="home_city")
        ann.remember("Ann plays the lute.")
        now_ms[0] = FRIDAY_MS
        ann.remember("Ann lives in Bergen.", key="home_city")
    return path


def texts(told):
    """Return what the entries of a listing say."""
    return [entry["text"] for entry in told]


def test_history_shows_what_was_replaced_and_why(run, run_json, moved):
    """For a person and as JSON."""
    told = run_json("entry", "show", moved, "home_city")
    done = run("entry", "show", moved, "home_city")
    shown = done.stdout

    assert told["text"] == "Ann lives in Bergen."
    assert texts(told["replaced"]) == ["Ann lives in Oslo."]
    assert [(one["kind"], one["decided"]) for one in told["links"]] == [("updates", "confirmed")]
    assert told["links"][0]["older_id"] == told["replaced"][0]["id"]
    assert "Ann lives in Bergen." in shown
    assert "Ann lives in Oslo." in shown
    assert "updates entry 1 (confirmed)" in shown
    assert done.exit_code == 0


def test_list_as_of_answers_as_then(run_json, moved):
    """The day between the two statements, and now."""
    then = run_json("entry", "list", moved, "--as-of", "2024-01-03")
    now = run_json("entry", "list", moved)
    whole = run_json("entry", "list", moved, "--all")

    assert texts(then) == ["Ann lives in Oslo.", "Ann plays the lute."]
    assert sorted(texts(now)) == ["Ann lives in Bergen.", "Ann plays the lute."]
    assert len(whole) == 3


def test_supersede_takes_one_out_of_the_way(run, run_json, moved):
    """The old one becomes history; a circle is refused."""
    (lute,) = [one for one in run_json("entry", "list", moved) if "lute" in one["text"]]

    done = run("entry", "supersede", moved, str(lute["id"]), "home_city")
    circle = run("entry", "supersede", moved, "home_city", str(lute["id"]))

    assert (done.exit_code, texts(run_json("entry", "list", moved))) == (
        0,
        ["Ann lives in Bergen."],
    )
    assert circle.exit_code != 0
    assert "Error" in circle.stderr


def test_an_entry_is_pinned_and_switched_off(run, run_json, trip):
    """`entry edit` does both, and takes them back."""
    run("entry", "edit", trip, "home_city", "--pinned")
    assert texts(run_json("entry", "list", trip, "--pinned")) == ["Ann lives in Oslo."]
    run("entry", "edit", trip, "home_city", "--no-pinned", "--no-active")
    assert run_json("entry", "list", trip, "--pinned") == []
    found = ("recall", trip, "Oslo", "--kind", "entry", "--by", "words")
    assert run(*found).stderr == "Nothing found.\n"
    run("entry", "edit", trip, "1", "--active")
    assert "Oslo" in run(*found).stdout


def test_revert_and_active(run, run_json, trip):
    """Back to the first version, and back after another took its place; at a version only."""
    made = run_json("remember", trip, "The tent is red.", "--user", "ann")["entry"]
    other = run_json("remember", trip, "Ann sails a boat.", "--user", "ann")["entry"]
    run("entry", "edit", trip, made["id"], "--text", "The tent is blue.")

    assert run("entry", "revert", trip, made["id"], 1, "--expected", 1).exit_code == 4
    assert run_json("entry", "revert", trip, made["id"], 1)["text"] == "The tent is red."
    run("entry", "supersede", trip, made["id"], other["id"])
    assert run_json("entry", "edit", trip, made["id"], "--active")["active"] is True
