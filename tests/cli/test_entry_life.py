"""`memdb entry`: history, supersede, pin and what was known at another time."""

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
    told = run_json("entry", "history", moved, "home_city")
    done = run("entry", "history", moved, "home_city")
    shown = done.stdout

    assert told["entry"]["text"] == "Ann lives in Bergen."
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


def test_pin_and_unpin(run, run_json, moved):
    """Pinned entries are listed by themselves."""
    run("entry", "pin", moved, "home_city")
    pinned = run_json("entry", "list", moved, "--pinned")

    run("entry", "unpin", moved, "home_city")

    assert texts(pinned) == ["Ann lives in Bergen."]
    assert run_json("entry", "list", moved, "--pinned") == []


@pytest.mark.parametrize("verb", ["history", "pin", "unpin"])
def test_an_unknown_entry_is_not_found_here_either(run, moved, verb):
    """Exit code 3, as everywhere."""
    assert run("entry", verb, moved, "no_such_key").exit_code == 3


def test_an_entry_is_switched_off_and_on(run, path):
    """By its key or number."""
    run("remember", path, "Ann lives in Oslo.", "--key", "home", "--user", "ann")

    off = run("entry", "off", path, "home")
    number = off.stdout.split()[1]
    gone = run("recall", path, "Oslo", "--by", "words")
    on = run("entry", "on", path, number)

    assert (off.stdout, gone.stderr) == (f"entry {number} is off\n", "Nothing found.\n")
    assert on.stdout == f"entry {number} is on\n"
    assert "Oslo" in run("recall", path, "Oslo", "--by", "words").stdout


def test_revert_and_on(run, run_json, trip):
    """Back to the first version, and back after another took its place; at a version only."""
    made = run_json("remember", trip, "The tent is red.", "--user", "ann")["entry"]
    other = run_json("remember", trip, "Ann sails a boat.", "--user", "ann")["entry"]
    run("entry", "edit", trip, made["id"], "--text", "The tent is blue.")

    assert run("entry", "revert", trip, made["id"], 1, "--expected", 1).exit_code == 4
    assert run_json("entry", "revert", trip, made["id"], 1)["text"] == "The tent is red."
    run("entry", "supersede", trip, made["id"], other["id"])
    assert run_json("entry", "on", trip, made["id"])["active"] is True
