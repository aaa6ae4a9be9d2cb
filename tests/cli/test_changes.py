"""`memdb changes`: what anybody changed in a file."""

from __future__ import annotations

import json
import signal

import pytest

import memdb


def test_a_mark_and_what_changed_since(run, run_json, trip):
    """Each answer has the mark for the next; the kinds are told by words."""
    first = run_json("changes", trip)
    same = run("changes", trip, "--since", first["mark"])
    run("remember", trip, "Ann likes tea.", "--user", "ann")
    second = run("changes", trip, "--since", first["mark"])
    run("chat", "append", trip, "trip", "Pack the tent.", "--user", "ann")
    third = run_json("changes", trip, "--since", first["mark"])

    assert (first["sessions"], first["kinds"], first["is_complete"]) == ([], [], True)
    assert same.stdout.splitlines()[0] == "Nothing changed."
    assert "changed         entries\n" in second.stdout
    assert "new messages" not in second.stdout
    assert (third["kinds"], third["is_complete"]) == (["entry"], False)


def test_an_unknown_mark(run, trip):
    """It says where to look, and gives a mark that is known."""
    shown = run("changes", trip, "--since", "yesterday")
    lines = shown.stdout.splitlines()

    assert shown.exit_code == 0
    assert "`memdb chat list`" in lines[0]
    assert lines[1].startswith("Mark: ")


def test_the_first_mark_says_what_it_is_for(run, trip):
    """On standard error, beside the mark."""
    shown = run("changes", trip)

    assert shown.stdout.startswith("Mark: ")
    assert "--since MARK" in shown.stderr


@pytest.mark.parametrize(
    ("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_follow_ends_cleanly(start, run_json, trip, end, code):
    """It begins with what the mark does not know, goes on, and ends as a program that was told to."""
    mark = run_json("changes", trip)["mark"]
    with memdb.open(trip) as db:
        db.scope("ann").remember("Ann likes tea.")
        with start("changes", trip, "--follow", "--json", "--since", mark) as child:
            first = json.loads(child.stdout.readline())
            chat = db.scope("ann").session("new")
            chat.append("user", "Hello.")
            second = json.loads(child.stdout.readline())
            child.send_signal(end)
            found = child.wait(120)

    assert first["kinds"] == ["entry"]
    assert [one["session"] for one in second["sessions"]] == ["new"]
    assert found == code


def test_follow_in_a_terminal(in_terminal, run_json, trip):
    """Ctrl-C prints the mark to go on from."""
    mark = run_json("changes", trip)["mark"]
    with memdb.open(trip) as db:
        db.scope("ann").session("trip").append("user", "Pack the tent.")
    code, said = in_terminal(
        "changes", trip, "--follow", "--since", mark, prompt="new messages", typed="\x03"
    )

    assert code == 130
    assert "Mark: " in said
    assert "Stopped." in said


def test_a_file_that_is_removed(start, trip, tmp_path):
    """Whoever follows it is told, and it ends."""
    with start("changes", trip, "--follow", "--since", "x") as child:
        child.stdout.readline()
        (tmp_path / "elsewhere").mkdir()
        for path in tmp_path.glob("*.db*"):
            path.rename(tmp_path / "elsewhere" / path.name)
        code = child.wait(120)
        said = child.stderr.read().decode()

    assert code == 6
    assert "removed" in said or "replaced" in said
