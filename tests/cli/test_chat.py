"""`memdb chat`: adding, showing and searching messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FIRST = {
    "writer": "cli",
    "seq": 1,
    "role": "user",
    "author": "Ann",
    "text": "Tea, please.",
    "parts": None,
    "tokens": 5,
    "counter": "cl100k_base",
    "external_id": "x1",
    "created_ms": 1_741_598_040_000,
    "metadata": None,
    "session": "tea",
}


def test_append_prints_the_stored_message(run_json, path):
    """A first message makes FILE, user and session, and is printed as it is stored."""
    stored = run_json(
        *("chat", "append", path, "tea", "Tea, please.", "--user", "ann", "--author", "Ann"),
        *("--external-id", "x1", "--created", "2025-03-10T09:14"),
    )

    assert {key: stored[key] for key in FIRST} == FIRST
    assert sorted(stored) == sorted([*FIRST, "uid"])


def test_append_says_where_the_message_stands(run, path):
    """Without --json one line names the session, the seq and the tokens."""
    done = run("chat", "append", path, "tea", "Tea, please.", "--user", "ann")

    assert (done.exit_code, done.stdout, done.stderr) == (0, "tea#1 (5 tokens)\n", "")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("one line\n", "one line"),
        ("two\nlines\r\n", "two\nlines"),
        ("no end", "no end"),
        ("\ufeffmarked", "marked"),
        ("你好\n", "你好"),
    ],
)
def test_append_reads_standard_input(run_json, path, typed, text):
    """TEXT "-" is standard input as UTF-8, without its last line end and byte order mark."""
    stored = run_json("chat", "append", path, "tea", "-", "--user", "ann", input=typed)

    assert stored["text"] == text


def test_append_refuses_what_is_not_utf8(run, path):
    """Bytes that are no UTF-8 are refused before a file is made."""
    done = run("chat", "append", path, "tea", "-", "--user", "ann", input=b"caf\xe9")

    assert done.exit_code == 5
    assert "not UTF-8 at byte 3" in done.stderr
    assert not Path(path).exists()


def test_append_with_a_known_id_changes_nothing(run_json, trip):
    """The same --external-id with the same text gives the stored message again."""
    again = run_json(
        *("chat", "append", trip, "trip", "Noted: Oslo, 3 May.", "--external-id", "m2"),
        *("--role", "assistant"),
    )

    assert again["seq"] == 2
    assert len(run_json("chat", "show", trip, "trip")) == 3


def test_append_with_a_taken_id_is_a_conflict(run, trip):
    """The same --external-id with another text exits 4."""
    done = run("chat", "append", trip, "trip", "Something else", "--external-id", "m2")

    assert done.exit_code == 4


def test_append_needs_a_known_role(run, trip):
    """A role that memdb does not know is a usage error."""
    assert run("chat", "append", trip, "trip", "x", "--role", "human").exit_code == 2


def test_show_prints_whole_messages(run, trip):
    """Each message has a head line and its whole text, oldest first."""
    done = run("chat", "show", trip, "trip")

    assert done.stdout == (
        "#1  2025-03-10 09:14  user Ann\nWe fly to Oslo on 3 May.\n\n"
        "#2  2023-11-14 22:13  assistant\nNoted: Oslo, 3 May.\n\n"
        "#3  2023-11-14 22:13  user\n好的,我们住在奥斯陆的酒店。\n\n"
    )


def test_show_last(run_json, trip):
    """--last gives the newest messages, oldest of them first."""
    assert [one["seq"] for one in run_json("chat", "show", trip, "trip", "--last", 2)] == [2, 3]


def test_an_unknown_session_is_not_found(run, trip):
    """A misspelt session exits 3 and is not shown as an empty one."""
    done = run("chat", "show", trip, "tripp")

    assert done.exit_code == 3
    assert done.stderr.startswith("Error: no session 'tripp' in this scope")


def test_show_keeps_control_characters_from_the_terminal(run, path):
    """What is stored can neither colour nor rewrite the terminal."""
    run("chat", "append", path, "s", "red \x1b[31m\rand\tback\x9b\u202e", "--user", "ann")

    assert "red �[31mand    back��\n" in run("chat", "show", path, "s").stdout


def test_list_golden(run_json, trip):
    """--json lists what a listing knows of each session."""
    assert run_json("chat", "list", trip) == [
        {
            "name": "trip",
            "title": None,
            "last_seq": 3,
            "message_count": 3,
            "metadata": None,
            "created_ms": 1_700_000_000_000,
            "updated_ms": 1_700_000_000_000,
            "uid": "00000000-0000-7000-8000-000000000003",
            "tokens": 36,
            "archived_count": 0,
            "opening": "We fly to Oslo on 3 May.",
        }
    ]


@pytest.mark.parametrize("order", ["name", "updated", "created"])
def test_list_in_pages(run, run_json, trip, order):
    """--after takes the last row as --json printed it; what is no row is a usage error."""
    for name in "abc":
        run("chat", "append", trip, name, "x")
    whole = run_json("chat", "list", trip, "--order", order)
    first = run_json("chat", "list", trip, "--order", order, "--limit", 2)
    last = json.dumps(first[-1])

    rest = run_json("chat", "list", trip, "--order", order, "--after", last)

    assert (first + rest, len(whole)) == (whole, 4)
    assert run("chat", "list", trip, "--after", "trip").exit_code == 2
    assert run("chat", "list", trip, "--after", "{}").exit_code == 5


def test_list_piped(run, trip):
    """Without a terminal a session is one line without heading."""
    line = "trip  3  2023-11-14 22:13  2023-11-14 22:13  We fly to Oslo on 3 May.  -\n"

    assert run("chat", "list", trip).stdout == line


def test_list_on_a_terminal(run, trip, terminal):
    """On a terminal what was said first stands below each conversation."""
    assert run("chat", "list", trip).stdout == (
        "SESSION  MESSAGES  CREATED           CHANGED\n"
        "trip            3  2023-11-14 22:13  2023-11-14 22:13\n"
        "    We fly to Oslo on 3 May.\n"
    )


def test_a_title_is_given_and_shown(run, trip):
    """And found."""
    done = run("chat", "update", trip, "trip", "--title", "Three days in Oslo")

    assert (done.exit_code, done.stdout) == (0, "trip is called Three days in Oslo\n")
    assert "Three days in Oslo" in run("chat", "list", trip).stdout
    assert "Three days in Oslo" in run("recall", trip, "three days", "--kind", "session").stdout
    assert run("chat", "update", trip, "none", "--title", "x").exit_code == 3


def test_a_message_is_edited_in_its_place(run, run_json, trip):
    """Author and role stay."""
    before = run_json("chat", "show", trip, "trip")[0]

    done = run("chat", "edit", trip, "trip", "1", "-", input="We fly to Bergen.\n")

    after = run_json("chat", "show", trip, "trip")[0]
    assert (done.exit_code, done.stdout) == (0, f"trip#1 ({after['tokens']} tokens)\n")
    changed = {name for name in after if after[name] != before[name]}
    assert after["text"] == "We fly to Bergen."
    assert changed <= {"text", "tokens", "parts"}
    assert run("chat", "edit", trip, "trip", "99", "x").exit_code == 3
