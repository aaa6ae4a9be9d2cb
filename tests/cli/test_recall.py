"""`memdb recall`, and whose memory a command means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cases import each

import memdb

READING = [
    ("recall", "tea"),
    ("chat", "list"),
    ("chat", "show", "s"),
    ("entry", "list"),
    ("entry", "show", "1"),
    ("entry", "edit", "1", "--text", "x"),
    ("entry", "delete", "1", "--yes"),
    ("artifact", "list"),
    ("artifact", "load", "x"),
    ("artifact", "versions", "x"),
    ("artifact", "delete", "x", "--yes"),
    ("export",),
]
WHOLE = [("info",), ("check",), ("rebuild",), ("backup", "copy.db")]
WRITING = [
    ("remember", "x"),
    ("chat", "append", "s", "x"),
    ("artifact", "save", "x", "-"),
]


def _line(words, path):
    """Return the command line with FILE behind the noun and the verb."""
    verbs = 2 if words[0] in ("chat", "entry", "artifact") else 1
    return [*words[:verbs], path, *words[verbs:]]


def test_recall_golden(run_json, trip):
    """--json gives hits with text, score, rank and source."""
    hit = run_json("recall", trip, "when do we fly to Oslo?", "--limit", 1)["hits"][0]

    assert hit.pop("score") > 0
    assert hit == {
        "kind": "message",
        "text": "We fly to Oslo on 3 May.",
        "rank": 1,
        "source": {
            "session": "trip",
            "seq": 1,
            "external_id": None,
            "author": "Ann",
            "created_ms": 1_741_598_040_000,
            "entry_id": None,
            "category": None,
            "artifact": None,
            "version": None,
            "title": None,
            "shared": False,
            "summary_id": None,
            "last_seq": None,
            "metadata": None,
            "namespace": None,
            "key": None,
            "branch": None,
        },
        "explanation": None,
        "hits": [],
        "trust": "trusted",
        "role": "user",
        "writer": "Ann",
        "is_sure": True,
        "also": [],
        "outdated_by": None,
        "why": "Has *fly* and *oslo*.",
    }


def test_an_answer_says_whether_it_is_sure(run, run_json, path):
    """Above the hits, and behind them what was left out and which option shows it."""
    for text in ("Ann drinks green tea.", "The green boat is in Oslo.", "Ann plays the cello."):
        run("remember", path, text, "--user", "ann")
    cases = {
        "What does Ann drink?": ("sure", ""),
        "Where is green bread baked?": ("unsure", "Not sure. Closest:\n"),
        "Where does Zoe live?": ("none", "no text names zoe"),
    }
    for query, (certainty, said) in cases.items():
        done = run("recall", path, query)
        told = run_json("recall", path, query)
        assert told["certainty"] == certainty, query
        assert bool(told["hits"]) is (certainty != "none") is bool(done.stdout), query
        assert said.lower() in done.stderr.lower(), query
    sure = run("recall", path, "Where is green bread baked?", "--only-sure")
    assert "leaving --only-sure out shows them" in sure.stderr
    assert run("recall", path, "Where does Zoe live?", "--min-score", "0").stdout
    assert "--min-score 0" in run("recall", path, "Where does Zoe live?").stderr


def test_recall_piped(run, trip):
    """Without a terminal a hit is one line: rank, score, source, time and text."""
    done = run("recall", trip, "酒店", "--limit", 1)

    assert done.stdout.startswith("1  ")
    assert done.stdout.endswith("  trip#3  2023-11-14 22:13  好的,我们住在奥斯陆的酒店。\n")


def test_recall_on_a_terminal(run, trip, terminal):
    """On a terminal a hit is its source, author, time and score, and its text below."""
    lines = run("recall", trip, "when do we fly to Oslo?", "--limit", 1).stdout.splitlines()

    assert re.fullmatch(r"1   trip#1 Ann   2025-03-10 09:14   [01]\.\d{3}", lines[0])
    assert lines[1:] == ["    We fly to Oslo on 3 May."]


@pytest.mark.parametrize("columns", [40, 60, 80, 132])
def test_texts_up_to_600_characters_are_whole(run, path, terminal, columns):
    """At any width no line is wider than the terminal, and none breaks inside a word."""
    words = ("seat " * 119 + "aisle").strip()
    with memdb.open(path) as db:
        ann = db.scope("ann")
        ann.session("0192f3a4-7c11-7000-8000-000000000000").append("user", words, author="Ann")
        ann.remember(words.replace("seat", "meal"), category="profile")
    assert len(words) == 600
    for words_of in ("recall", path, "aisle"), ("entry", "list", path):
        done = run(*words_of, env={"COLUMNS": str(columns)}).stdout
        lines = done.splitlines()
        assert max(map(len, lines)) <= columns
        assert {word for word in done.split() if word.isalpha()} <= {
            *("seat", "aisle", "meal", "entry", "Ann", "CATEGORY", "IMP", "CHANGED", "profile")
        }
        assert done.count("meal") == 119
        assert "left out" not in done


def test_of_a_longer_text_the_best_passage(run, path, terminal):
    """It holds the words of the question; what is left out is counted, and --full shows it."""
    with memdb.open(path) as db:
        text = "We spoke of the garden. " * 60 + "The dentist is on Friday. " + "Then tea. " * 60
        db.scope("ann").session("long").append("user", text)
    shown = run("recall", path, "when is the dentist?").stdout
    whole = run("recall", path, "when is the dentist?", "--full").stdout

    assert "The dentist is on Friday." in " ".join(shown.split())
    left_out = int(
        re.search(r"\[([\d,]+) characters left out: --full\]", shown)[1].replace(",", "")
    )
    body = " ".join(shown.partition("\n")[2].partition("[")[0].split())
    assert 500 < len(body) <= 600
    assert abs(len(text) - len(body) - left_out) < 10
    assert " ".join(whole.split()).count("garden") == 60
    assert "left out" not in whole


def test_recall_by_kind_and_time(run_json, trip):
    """--kind, --since and --until leave out what they should."""
    entries = run_json("recall", trip, "Oslo", "--kind", "entry")["hits"]
    early = run_json("recall", trip, "Oslo", "--until", "2024-01-01", "--kind", "message")["hits"]
    late = run_json("recall", trip, "Oslo", "--since", "2025-03-10T10:14+01:00")["hits"]

    assert {hit["kind"] for hit in entries} == {"entry"}
    assert 1 not in {hit["source"]["seq"] for hit in early}
    assert [hit["source"]["seq"] for hit in late] == [1]


def test_recall_in_a_session(run_json, trip):
    """--session gives messages and artifacts of that conversation only, and entries."""
    hits = run_json("recall", trip, "Oslo fish", "--session", "trip")["hits"]

    there = {hit["source"]["session"] for hit in hits if hit["kind"] != "entry"}
    assert there == {"trip"}
    assert "entry" in {hit["kind"] for hit in hits}


def test_recall_with_filters(run, run_json, trip):
    """Each leaves out the kinds that it cannot apply to; what cannot be is refused."""
    for option, value, kinds in (
        ("--role", "user", {"message"}),
        ("--category", "profile", {"entry"}),
        ("--category", "never", set()),
        ("--author", "nobody", set()),
        ("--where", "a=1", set()),
        ("--where", 'a="b"', set()),
        ("--where", "a=b", set()),
        ("--partition", "shared", set()),
    ):
        hits = run_json("recall", trip, "Oslo", option, value)["hits"]
        assert {hit["kind"] for hit in hits} == kinds, option
    own = {hit["kind"] for hit in run_json("recall", trip, "Oslo", "--partition", "own")["hits"]}
    assert own == {"message", "entry"}
    assert "KEY=VALUE" in run("recall", trip, "Oslo", "--where", "mail").stderr
    refused = run("recall", trip, "Oslo", "--why", "trip#1", "--role", "user")
    assert "filters" in refused.stderr


def test_recall_artifacts(run, trip):
    """A hit in an artifact names it, its version and its conversation."""
    assert "menu.md@2 in trip" in run("recall", trip, "fish", "--kind", "artifact").stdout


def test_recall_explains(run, run_json, trip):
    """--explain gives a sentence and the terms of each score."""
    said = run("recall", trip, "Oslo", "--explain", "--limit", 1).stdout.splitlines()
    told = run_json("recall", trip, "Oslo", "--explain", "--limit", 1)["hits"]

    assert "  Has *oslo*. " in said[0]
    assert "relevance" in told[0]["explanation"]


def test_recall_by_session(run, run_json, trip):
    """--group session shows conversations, each with its best messages."""
    said = run("recall", trip, "fly to Oslo", "--group", "session").stdout.splitlines()
    told = run_json("recall", trip, "fly to Oslo", "--group", "session")["hits"]

    assert said[0].split()[:3] == ["1", f"{told[0]['score']:.3f}", "trip"]
    assert "trip#1 Ann" in said[1]
    assert [hit["kind"] for hit in told] == ["session"]
    assert told[0]["hits"][0]["source"]["seq"] == 1


def test_recall_without_rerank_has_no_similar_words(run, run_json, trip):
    """--no-rerank leaves words of similar meaning out."""
    run("chat", "append", trip, "trip", "A doctor is on the plane.")
    run("chat", "append", trip, "clinic", "The physician was friendly.")
    asked = ("recall", trip, "doctor", "--explain", "--kind", "message")
    plain, without = run_json(*asked)["hits"], run_json(*asked, "--no-rerank")["hits"]

    assert any("similar" in hit["explanation"] for hit in plain)
    assert not any("similar" in hit["explanation"] for hit in without)


def test_recall_says_why_a_message_is_found(run, run_json, trip):
    """--why gives the place in a sentence, and each term."""
    lines = run("recall", trip, "when do we fly to Oslo?", "--why", "trip#1").stdout.splitlines()
    told = run_json("recall", trip, "when do we fly to Oslo?", "--why", "trip#1")

    assert lines[0] == "It is number 1 of the answer."
    assert lines[1].split()[0] == "words"
    assert (told["rank"], told["reason"]) == (1, lines[0])


def test_recall_says_why_a_message_is_not_found(run, trip):
    """Its terms stand beside those of the last hit."""
    said = run("recall", trip, "when do we fly to Oslo?", "--why", "trip#2", "--limit", 1).stdout

    assert said.startswith("It is number 2: its score is ")
    assert len(said.splitlines()[1].split()) == 3


def test_recall_why_of_no_message(run, trip):
    """A place that is none exits 2, a message that is not there 3."""
    assert run("recall", trip, "x", "--why", "trip").exit_code == 2
    assert run("recall", trip, "x", "--why", "trip#99").exit_code == 3


@pytest.mark.parametrize(
    "options",
    [
        ("--why", "trip#1", "--session", "trip"),
        ("--why", "trip#1", "--group", "session"),
    ],
    ids=" ".join,
)
def test_recall_refuses_choices_that_do_not_go_together(run, trip, options):
    """Nothing is silently ignored."""
    done = run("recall", trip, "x", *options)

    assert done.exit_code == 2
    assert "leave the other options out" in done.stderr


def test_recall_says_when_the_embedder_failed(run, trip, monkeypatch):
    """Words answer, and a note beside the answer says so; a query it cannot help with needs none."""

    def broken(*_):
        raise RuntimeError("the table is damaged")

    quiet = run("recall", trip, "酒店").stderr
    monkeypatch.setattr("memdb.embeddings.static_model.StaticEmbedder.embed", broken)
    done = run("recall", trip, "fly to Oslo", "--kind", "message")

    assert quiet == ""
    assert done.exit_code == 0
    assert "Found by words alone: embedder 'static-en-1'" in done.stderr
    assert "trip#1" in done.stdout


def test_recall_without_a_hit(run, run_json, path):
    """An empty answer is an empty output and no hits, with exit code 0."""
    run("chat", "append", path, "s", "好", "--user", "ann")
    done = run("recall", path, "zeppelin", "--kind", "entry")

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "Nothing found.\n")
    assert run_json("recall", path, "zeppelin", "--kind", "entry")["hits"] == []


@pytest.mark.parametrize(
    "options",
    [("--limit", "x"), ("--kind", "node"), ("--by", "guess")],
    ids=" ".join,
)
def test_recall_usage_errors(run, trip, options):
    """An option out of its range exits 2."""
    assert run("recall", trip, "x", *options).exit_code == 2


@each("words", READING + WHOLE)
def test_a_missing_file_is_named_and_not_made(run, path, words):
    """A command that needs a file exits 6 without one, and makes none."""
    done = run(*_line(words, path), input="")

    assert done.exit_code == 6
    assert f"{path} does not exist" in done.stderr
    assert not Path(path).exists()


@each("words", READING + WHOLE)
def test_an_empty_file_is_left_empty(run, tmp_path, words):
    """A file of no bytes is no memdb file yet, and reading does not make it one."""
    empty = tmp_path / "empty.db"
    empty.touch()
    done = run(*_line(words, empty), input="")

    assert done.exit_code == 6
    assert "is empty" in done.stderr
    assert empty.read_bytes() == b""


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_one_of_several_users_must_be_named(run, crowd, words):
    """Where several users have memory, the error lists them and says --user."""
    done = run(*_line(words, crowd))

    assert done.exit_code == 5
    assert "3 users, say which with --user: ann, bob, ann (app notes)" in done.stderr


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_the_first_write_needs_a_user(run, path, words):
    """Writing to a new file without --user exits 5, and makes no file."""
    done = run(*_line(words, path), input="")

    assert done.exit_code == 5
    assert "say whose it is with --user NAME" in done.stderr
    assert not Path(path).exists()


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_the_only_user_need_not_be_named(run, trip, words):
    """Writing to a file with one user goes to that user."""
    assert run(*_line(words, trip), input="x").exit_code == 0


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_write_does_not_guess_between_users(run, crowd, words):
    """Writing to a file with several users needs --user too."""
    assert run(*_line(words, crowd), input="x").exit_code == 5


def test_an_unknown_user_is_not_found(run, trip):
    """--user with a name that is not in the file exits 3, and the error lists who is."""
    done = run("entry", "list", trip, "--user", "an")

    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == f"Error: no user 'an' of app 'default' in {trip}: it has ann\n"


def test_the_app_tells_users_apart(run_json, crowd):
    """--app alone is enough where one user of it has memory."""
    (only,) = run_json("entry", "list", crowd, "--app", "notes")

    assert only["text"] == "Ann notes something."


def test_user_and_app_by_environment(run, crowd):
    """MEMDB_USER and MEMDB_APP stand in for the options."""
    done = run("entry", "list", crowd, env={"MEMDB_USER": "ann", "MEMDB_APP": "notes"})

    assert done.stdout.endswith("Ann notes something.\n")


def test_the_scopes_are_in_the_json_error(run_json, crowd):
    """With --json the error holds the users as values."""
    error = run_json("recall", crowd, "tea")["error"]

    assert error["code"] == "invalid"
    assert error["scopes"][0] == {"app": "default", "user": "ann"}


def test_memory_is_refused(run):
    """A file that would be gone at the end of the command is refused."""
    assert run("remember", ":memory:", "x", "--user", "ann").exit_code == 6


@pytest.mark.parametrize("since", ["30d", "2 weeks ago", "2020-01-01", "2020-01-01T09:14+01:00"])
def test_times_are_those_of_the_library(run, path, since):
    """A span, English, a date, a time with a zone."""
    run("chat", "append", path, "trip", "We fly to Oslo.", "--user", "ann", "--created", "1h")

    assert "Oslo" in run("recall", path, "Oslo", "--since", since).stdout
    assert run("recall", path, "Oslo", "--since", "soonish").exit_code == 5
