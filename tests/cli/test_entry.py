"""`memdb remember` and `memdb entry`: long-term entries."""

from __future__ import annotations

import pytest

HOME = 1


def test_remember_golden(run_json, path):
    """--json gives what was done and the whole entry."""
    assert run_json(
        *("remember", path, "Ann likes tea.", "--user", "ann", "--category", "preferences"),
        *("--keyword", "drink", "--keyword", "leaf", "--importance", 7, "--key", "drink"),
        *("--valid-from", "2025-01-01", "--expires", "2026-01-01T00:00+01:00"),
    ) == {
        "action": "added",
        "entry": {
            "id": HOME,
            "category": "preferences",
            "text": "Ann likes tea.",
            "key": "drink",
            "keywords": ["drink", "leaf"],
            "importance": 7,
            "pinned": False,
            "trust": "trusted",
            "version": 1,
            "active": True,
            "superseded_by": None,
            "session": None,
            "first_seq": None,
            "last_seq": None,
            "session_only": False,
            "writer": "cli",
            "use_count": 0,
            "last_used_ms": None,
            "valid_from_ms": 1_735_689_600_000,
            "valid_to_ms": None,
            "expires_ms": 1_767_222_000_000,
            "metadata": None,
            "created_ms": 1_700_000_000_000,
            "updated_ms": 1_700_000_000_000,
            "stored_ms": 1_700_000_000_000,
            "uid": "00000000-0000-7000-8000-000000000003",
            "branch": None,
            "outdated_by": None,
        },
        "other": None,
        "reason": "no entry says the same",
        "links": [],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Ann lives in Turku.",
            "updated entry 4 (profile)\n  because: another statement of this key\n  before: Ann lives in Oslo.\n",
        ),
        (
            "Ann lives in Oslo.",
            "repeated entry 1 (profile)\n  because: the same words\n",
        ),
    ],
)
def test_remember_says_what_it_did(run, trip, text, said):
    """A fact with a known key replaces it, and the same fact changes nothing."""
    done = run(
        *("remember", trip, text, "--category", "profile", "--key", "home_city"),
        *("--importance", 8),
    )

    assert done.stdout == said


def test_remember_with_its_message(run_json, trip):
    """--session and --seq keep where the fact was told."""
    done = run_json("remember", trip, "Ann flies on 3 May.", "--session", "trip", "--seq", 1)

    assert (done["entry"]["session"], done["entry"]["first_seq"]) == ("trip", 1)


def test_remember_reads_standard_input(run_json, path):
    """TEXT "-" is standard input."""
    done = run_json("remember", path, "-", "--user", "ann", input="安喜欢绿茶。\n")

    assert done["entry"]["text"] == "安喜欢绿茶。"


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [
        (("--importance", "11"), 5),
        (("--expires", "soon"), 5),
        (("--session", "nowhere"), 3),
        (("--seq", "1"), 5),
        (("--category", " "), 5),
    ],
    ids=str,
)
def test_remember_refuses(run, trip, options, exit_code):
    """What cannot be stored is refused with the exit code of its kind."""
    assert run("remember", trip, "x", *options).exit_code == exit_code


def test_list_piped(run, trip):
    """Without a terminal an entry is one whole line."""
    assert run("entry", "list", trip).stdout == (
        "1  profile  8  2023-11-14 22:13  [home_city] Ann lives in Oslo.\n"
    )


def test_list_on_a_terminal(run, trip, terminal):
    """On a terminal a text stands below the number, category and time of its entry."""
    run("remember", trip, "安喜欢在早上喝绿茶,不喜欢咖啡。", "--category", "events")

    assert run("entry", "list", trip).stdout == (
        "#  CATEGORY  IMP  CHANGED\n"
        "1  profile     8  2023-11-14 22:13\n"
        "    [home_city] Ann lives in Oslo.\n"
        "4  events      5  2023-11-14 22:13\n"
        "    安喜欢在早上喝绿茶,不喜欢咖啡。\n"
    )


def test_list_by_category(run_json, trip):
    """--category gives its entries only."""
    assert [one["id"] for one in run_json("entry", "list", trip, "--category", "profile")] == [HOME]
    assert run_json("entry", "list", trip, "--category", "events") == []


def test_list_of_nothing(run, trip):
    """No entry is no error, and a note says so."""
    done = run("entry", "list", trip, "--category", "events")

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No entries.\n")


@pytest.mark.parametrize("ref", [HOME, "home_city"])
def test_show_by_id_and_by_key(run, trip, ref):
    """An entry is shown with its facts, then what it said before."""
    assert run("entry", "show", trip, ref).stdout == (
        "entry 1, version 2\n"
        "Ann lives in Oslo.\n"
        "  category    profile\n"
        "  key         home_city\n"
        "  importance  8\n"
        "  trust       trusted\n"
        "  created     2023-11-14 22:13\n"
        "  updated     2023-11-14 22:13\n"
        "  state       active\n"
        "\n"
        "version 1, until 2023-11-14 22:13 (update, profile, importance 5)\n"
        "Ann lives in Bergen.\n"
    )


def test_show_golden(run_json, trip):
    """--json is the entry with its history."""
    shown = run_json("entry", "show", trip, "home_city")

    assert shown["text"] == "Ann lives in Oslo."
    (old,) = shown["history"]
    assert (old["version"], old["text"], old["reason"]) == (1, "Ann lives in Bergen.", "update")
    assert (old["category"], old["importance"], old["replaced_ms"]) == (
        "profile",
        5,
        1_700_000_000_000,
    )


@pytest.mark.parametrize("verb", ["show", "edit", "delete"])
@pytest.mark.parametrize("ref", ["5", "no_such_key", "99999999999999999"])
def test_an_unknown_entry_is_not_found(run, trip, verb, ref):
    """An id or key that the user has not exits 3."""
    options = {"edit": ["--text", "x"], "delete": ["--yes"]}.get(verb, [])

    assert run("entry", verb, trip, ref, *options).exit_code == 3


def test_the_entry_of_another_user_is_not_found(run, crowd):
    """A number is that of the user's own entry; a key of ann answers NotFound to bob."""
    assert "Ann" not in run("entry", "show", crowd, HOME, "--user", "bob").stdout


def test_edit_golden(run_json, trip):
    """An edit gives the new entry; what was not named stays."""
    done = run_json(
        *("entry", "edit", trip, "home_city", "--text", "Ann lives in Turku."),
        *("--keyword", "Finland", "--expires", "2030-01-01"),
    )

    assert (done["text"], done["keywords"]) == ("Ann lives in Turku.", ["Finland"])
    assert (done["version"], done["importance"], done["category"]) == (3, 8, "profile")
    assert done["expires_ms"] == 1_893_456_000_000


def test_edit_shows_the_entry(run, trip):
    """Without --json the changed entry is printed."""
    done = run("entry", "edit", trip, HOME, "--category", "events", "--importance", 2)

    assert done.stdout.startswith("entry 1, version 3\nAnn lives in Oslo.\n")
    assert "  category    events\n" in done.stdout


def test_edit_reads_standard_input(run_json, trip):
    """--text "-" is standard input."""
    done = run_json("entry", "edit", trip, HOME, "--text", "-", input="Ann lives in Rauma.\n")

    assert done["text"] == "Ann lives in Rauma."


def test_edit_without_a_change_is_a_usage_error(run, trip):
    """An edit that names no change exits 2 and says what to give."""
    done = run("entry", "edit", trip, HOME)

    assert done.exit_code == 2
    assert "Nothing to change: give --text or another option, or set EDITOR." in done.stderr


def test_delete_without_a_terminal_needs_yes(run, run_json, trip):
    """Nobody can be asked: exit 2, the way out, and nothing is deleted."""
    done = run("entry", "delete", trip, "home_city")

    assert done.exit_code == 2
    assert "give --yes to delete" in done.stderr
    assert len(run_json("entry", "list", trip)) == 1


def test_delete_with_yes(run, run_json, trip):
    """--yes deletes the entry with its history."""
    done = run("entry", "delete", trip, "home_city", "--yes")

    assert done.stdout == "Deleted entry 1, 'Ann lives in Oslo.'.\n"
    assert run_json("entry", "list", trip, "--all") == []


def test_delete_dry_run(run_json, trip):
    """--dry-run needs no --yes, says what would go, and keeps it."""
    done = run_json("entry", "delete", trip, "home_city", "--dry-run")

    assert (done["deleted"], done["dry_run"], done["entry"]["id"]) == (False, True, HOME)
    assert len(run_json("entry", "list", trip)) == 1


@pytest.mark.parametrize(
    ("typed", "exit_code", "left"),
    [("y\n", 0, 0), ("n\n", 1, 1), ("\n", 1, 1), ("\x04", 1, 1)],
    ids=["yes", "no", "enter", "ctrl-d"],
)
def test_delete_asks_on_a_terminal(in_terminal, run_json, trip, typed, exit_code, left):
    """On a terminal only "y" deletes; "n", Enter and the end of input do not."""
    code, said = in_terminal("entry", "delete", trip, "home_city", prompt="[y/N]:", typed=typed)

    assert code == exit_code
    assert "Delete entry 1, 'Ann lives in Oslo.'? [y/N]:" in said
    assert len(run_json("entry", "list", trip)) == left


def test_list_of_the_newest(run, run_json, trip):
    """By when they were created, the newest first."""
    run("remember", trip, "Ann likes tea.")
    listed = run_json("entry", "list", trip)
    newest = run_json("entry", "list", trip, "--order", "created", "--limit", "1")

    assert [one["id"] for one in newest] == [listed[-1]["id"]]
