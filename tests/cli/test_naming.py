"""How a person names things: sessions by title, beginning or `last`, entries by number."""

from __future__ import annotations

import pytest

import memdb

UUIDS = ("0192f3a4-7c11-7000-8000-000000000001", "0192f3a5-0000-7000-8000-000000000002")
READING = [
    ("chat", "show"),
    ("chat", "context", "--budget", "500"),
    ("chat", "tree"),
    ("chat", "expand", "1-1"),
    ("chat", "branches"),
    ("extract", "--dry-run"),
    ("chat", "archive"),
    ("chat", "update", "--title", "Other"),
    ("chat", "compact"),
]


@pytest.fixture
def sessions(path: str, frozen: None, clock) -> str:
    """Return the path of a file with sessions of UUIDs and titles; the last one is "tea"."""
    with memdb.open(path) as db:
        ann = db.scope("ann")
        for name, title in (
            (UUIDS[0], "Trip to Oslo"),
            (UUIDS[1], "Trip to Bergen"),
            ("user-10", None),
            ("tea", "Green tea"),
        ):
            ann.session(name).append("user", f"words of {name}")
            if title:
                ann.session(name).update(title=title)
            clock.advance(60_000)
    return path


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (UUIDS[0], UUIDS[0]),
        ("0192f3a4", UUIDS[0]),
        ("0192f3a5-0", UUIDS[1]),
        ("Trip to Oslo", UUIDS[0]),
        ("trip to bergen", UUIDS[1]),
        ("trip to b", UUIDS[1]),
        ("last", "tea"),
        ("user", "user-10"),
        ("green", "tea"),
    ],
)
def test_a_session_is_named_in_many_ways(run, run_json, sessions, given, name):
    """By its name, the beginning of it, its title, or "last"; what was chosen is said."""
    (message,) = run_json("chat", "show", sessions, given)
    said = run("chat", "show", sessions, given).stderr

    assert message["session"] == name
    assert (f"Session {name}" in said) == (given != name)


@pytest.mark.parametrize(
    ("given", "exit_code", "message"),
    [
        (
            "0192f3a",
            5,
            "'0192f3a' can mean 0192f3a5-0000-7000-8000-000000000002 (Trip to Bergen), ",
        ),
        ("Trip", 5, "write more of the name"),
        ("usr", 3, "no session 'usr' in this scope: `memdb chat list` shows what there is"),
        ("Oslo", 3, "no session 'Oslo'"),
        ("", 5, "session"),
    ],
)
def test_what_is_not_clear_is_refused(run, sessions, given, exit_code, message):
    """Several that begin so are listed; the number of a user is no beginning of another's."""
    done = run("chat", "show", sessions, given)

    assert done.exit_code == exit_code
    assert message in done.stderr


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_everywhere_a_session_is_named(run, sessions, words):
    """Each command about a conversation takes what `chat show` takes."""
    verbs = 2 if words[0] == "chat" else 1
    done = run(*words[:verbs], sessions, "0192f3a4", *words[verbs:])

    assert done.exit_code == 0, done.output
    assert "Trip to Oslo" in done.stderr


def test_options_name_sessions_too(run, run_json, sessions):
    """--session of recall, artifact, remember and forget."""
    hits = run_json("recall", sessions, "words", "--session", "trip to oslo", "--kind", "message")[
        "hits"
    ]
    assert {hit["source"]["session"] for hit in hits} == {UUIDS[0]}
    run("artifact", "save", sessions, "a.md", "-", "--session", "last", "--user", "ann", input="x")
    assert run_json("artifact", "versions", sessions, "a.md", "--session", "green")
    told = run_json("remember", sessions, "Tea.", "--session", "last", "--user", "ann")
    assert told["entry"]["session"] == "tea"
    done = run("forget", sessions, "--session", "green", "--dry-run")
    assert "1 message" in done.stdout


def test_a_session_may_be_called_last(run_json, run, sessions):
    """The name itself goes before what it stands for."""
    with memdb.open(sessions) as db:
        db.scope("ann").session("last").append("user", "really")
        db.scope("ann").session("newer").append("user", "newer")
    assert run_json("chat", "show", sessions, "last")[0]["text"] == "really"


def test_what_makes_a_session_takes_its_whole_name(run, run_json, sessions):
    """A new session may begin as another does; "last" is the one that changed last."""
    run("chat", "append", sessions, "te", "new", "--user", "ann")
    run("chat", "append", sessions, "last", "more", "--user", "ann")
    assert [one["text"] for one in run_json("chat", "show", sessions, "te")] == ["new", "more"]


@pytest.mark.parametrize("words", [("chat", "delete"), ("forget", "--session")])
def test_nothing_is_deleted_by_a_beginning_unasked(run, run_json, sessions, words):
    """With --yes nobody sees what was chosen, so a session is named in full or by its title."""
    line = (
        [words[0], *words[1:], sessions] if words[0] == "chat" else ["forget", sessions, words[1]]
    )
    refused = run(*line, "0192f3a4", "--yes")
    assert refused.exit_code == (3 if words[0] == "chat" else 0)
    assert UUIDS[0] in [one["name"] for one in run_json("chat", "list", sessions)]
    assert run(*line, "0192f3a4", "--dry-run").exit_code == 0
    assert run(*line, "trip to oslo", "--yes").exit_code == 0
    assert UUIDS[0] not in [one["name"] for one in run_json("chat", "list", sessions)]


def test_the_list_begins_with_what_changed_last(run, run_json, sessions):
    """--limit takes the newest."""
    names = [one["name"] for one in run_json("chat", "list", sessions)]
    assert names == ["tea", "user-10", UUIDS[1], UUIDS[0]]
    assert len(run_json("chat", "list", sessions, "--limit", 2)) == 2


def test_entries_have_small_numbers(run, run_json, crowd):
    """1, 2, 3 in each scope, in JSON as in tables."""
    run("remember", crowd, "Ann likes fish.", "--user", "ann", "--app", "notes")
    scope = ("--user", "ann", "--app", "notes")
    listed = run("entry", "list", crowd, *scope).stdout.splitlines()
    ids = [one["id"] for one in run_json("entry", "list", crowd, *scope)]

    assert [line.split()[0] for line in listed] == ["1", "2"]
    assert ids == [1, 2]
    for ref in ("2", ids[1]):
        assert run_json("entry", "show", crowd, ref, *scope)["text"] == "Ann likes fish."
    assert "entry 2 " in run("recall", crowd, "fish", *scope).stdout
    assert run("entry", "edit", crowd, "2", "--pinned", *scope).exit_code == 0
    assert run("entry", "supersede", crowd, "1", "2", *scope).exit_code == 0
    assert "superseded by  2" in run("entry", "show", crowd, "1", *scope).stdout
    assert run("forget", crowd, "--entry", "2", "--yes", *scope).exit_code == 0
    assert run("entry", "show", crowd, "2", *scope).exit_code == 3
    assert run("entry", "show", crowd, "7", *scope).exit_code == 3


def test_a_key_of_digits_is_found(run, run_json, crowd):
    """If no entry has the number."""
    scope = ("--user", "bob")
    run("remember", crowd, "Bob is at home.", "--key", "2026", *scope)
    assert run_json("entry", "show", crowd, "2026", *scope)["text"] == "Bob is at home."
