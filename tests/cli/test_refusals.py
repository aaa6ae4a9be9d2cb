"""What the command line refuses, and what it says about the way out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cases import each

import memdb
from memdb.errors import DiskFull, InvalidInput

WORKSHOP = Path(memdb.__file__).parents[1] / "examples" / "workshop.jsonl"

READING = [
    ("recall", "tea"),
    ("chat", "show", "trip"),
    ("chat", "list"),
    ("chat", "delete", "trip", "--yes"),
    ("chat", "context", "trip", "--budget", "99"),
    ("chat", "tree", "trip"),
    ("chat", "expand", "trip", "1"),
    ("chat", "compact", "trip"),
    ("chat", "archive", "trip"),
    ("chat", "unarchive", "trip"),
    ("entry", "list"),
    ("entry", "show", "home_city"),
    ("entry", "edit", "home_city", "--text", "x"),
    ("entry", "delete", "home_city", "--yes"),
    ("artifact", "list"),
    ("artifact", "load", "menu.md"),
    ("artifact", "versions", "menu.md"),
    ("artifact", "delete", "menu.md", "--yes"),
    ("export",),
]


def _line(words, path):
    split = 2 if words[0] in ("chat", "entry", "artifact") else 1
    return (*words[:split], path, *words[split:])


@each("words", READING)
def test_an_unknown_user_is_not_found(run, trip, words):
    """A user that the file does not have exits 3, and the error lists who it has."""
    done = run(*_line(words, trip), "--user", "an")

    assert (done.exit_code, done.stdout) == (3, "")
    assert "no user 'an' of app 'default'" in done.stderr
    assert "ann" in done.stderr.split("it has", 1)[1]


def test_the_app_may_be_the_reason(run, run_json, crowd):
    """A user of another app is told so."""
    with memdb.open(crowd) as db:
        db.scope("eve", "notes").remember("Eve is here.")
    done = run("recall", crowd, "tea", "--user", "eve")
    error = run_json("recall", crowd, "tea", "--user", "eve")["error"]

    assert done.exit_code == 3
    assert "eve is a user of app 'notes': give --app notes" in done.stderr
    assert (error["code"], error["kind"], error["ref"]) == ("not_found", "user", "eve")


def test_export_over_the_open_file(run, trip):
    """FILE is never written over by its own export."""
    done = run("export", trip, trip, "--replace")

    assert done.exit_code == 6
    assert "is a file that this program has open: choose another place" in done.stderr


@pytest.mark.parametrize("beside", ["", "-wal"])
def test_load_over_the_open_file(run, run_json, trip, beside):
    """FILE is never written over by one of its artifacts."""
    name = f"{trip}{beside}"
    with memdb.open(trip) as db:  # so that there is a WAL
        db.scope("ann").remember("More.")
        done = run("artifact", "load", trip, "photo.bin", "--output", name, "--replace")
        done = run("artifact", "load", trip, "user:photo.bin", "--output", name, "--replace")

    assert done.exit_code == 6
    assert "is a file that this program has open: choose another place" in done.stderr
    assert run_json("info", trip)["counts"]["messages"] == 3


def test_load_over_another_database(run, trip, tmp_path):
    """Another SQLite file stays too."""
    with memdb.open(tmp_path / "other.db") as db:
        db.scope("bob").remember("Bob is here.")
    done = run(
        "artifact", "load", trip, "user:photo.bin", "--output", tmp_path / "other.db", "--replace"
    )

    assert done.exit_code == 6
    assert "is a SQLite database: choose another place" in done.stderr


def test_an_import_that_fails_says_that_the_file_is_sound(run, path, monkeypatch):
    """A full disk in the middle is told like Ctrl-C: run it again."""

    def full(*_):
        raise DiskFull("the disk is full", 13)

    monkeypatch.setattr("memdb.cli.output.Line.to", full)
    done = run("import", path, WORKSHOP, "--user", "mara")

    assert done.exit_code == 7
    assert "is sound and keeps what was imported so far" in done.stderr
    assert "Run the same command again" in done.stderr
    assert "Error: the disk is full" in done.stderr


def test_an_invalid_line_is_told_by_the_error_alone(run, path, tmp_path):
    """Running it again would not help, so nothing says so."""
    source = tmp_path / "a.jsonl"
    head = '{"kind": "memdb", "export": 1}\n'
    source.write_text(head + '{"role": "user", "text": "hi", "session": "s"}\n{"role": 1}\n')
    done = run("import", path, source, "--user", "ann")

    assert done.exit_code == 5
    assert "line 3" in done.stderr
    assert "The records before it are stored" in done.stderr
    assert "same command" not in done.stderr


def test_a_memdb_export_is_not_embedded(run, run_json, path, tmp_path, crowd):
    """So the copy gives the same export, byte for byte."""
    run("export", crowd, tmp_path / "all.jsonl", "--all-users")
    told = run_json("import", tmp_path / "copy.db", tmp_path / "all.jsonl")
    again = run("export", tmp_path / "copy.db", "--all-users").stdout

    assert told["embedded"] == 0
    assert again == (tmp_path / "all.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [(), ("--format", "jsonl")], ids=["found", "given"])
def test_a_database_is_not_a_source(run, trip, tmp_path, options):
    """A memdb file given as SOURCE is told what to do."""
    done = run("import", tmp_path / "new.db", trip, "--user", "ann", *options)

    assert done.exit_code == 5
    assert "export it first with `memdb export`" in done.stderr
    assert not (tmp_path / "new.db").exists()


def test_help_promises_no_gzip(run):
    """The examples of help work as they stand."""
    assert "gzip" not in run("export", "--help").stdout


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("chat", "append", "FILE", "s", "- [ ] buy milk"), True),
        (("remember", "FILE", "--- a rule"), True),
        (("recall", "FILE", "-5 degrees"), False),
    ],
    ids=["append", "remember", "recall"],
)
def test_a_text_that_begins_with_a_dash(run, trip, words, stdin):
    """It is taken for an option; the usage error says how to give it."""
    words = [trip if word == "FILE" else word for word in words]
    done = run(*words)

    assert done.exit_code == 2
    assert "put -- before a text that begins with a dash" in done.stderr
    assert ("standard input" in done.stderr) is stdin
    assert run(*words[:-1], "--", words[-1]).exit_code == 0


def test_a_wrong_option_elsewhere_has_no_hint(run, trip):
    """Commands without a text keep their usage error."""
    assert "dash" not in run("chat", "list", trip, "--bogus").stderr


class Embedder:
    """An embedder of a host program."""

    name = "host-model"
    dim = 4

    def embed(self, texts):
        """Return one vector for every text."""
        return [[1.0, 0.0, 0.0, 0.0] for _ in texts]


@pytest.mark.parametrize("words", [("recall", "swim"), ("info",), ("chat", "append", "s", "hi")])
def test_a_file_of_another_embedder_stays_its_own(run, path, frozen, words):
    """The command line makes no second space, embeds nothing, and says what is missing."""
    with memdb.open(path, embedder=Embedder()) as db:
        db.scope("ann").remember("Ann swims.")
        db.scope("ann").remember("Ann can swim well.")
    done = run(*_line(words, path))

    assert done.exit_code == 0
    assert done.stderr.count("host-model") == 1
    assert "words alone" in done.stderr
    with memdb.open(path, embedder=Embedder()) as db:
        assert [(space.model, space.vectors) for space in db.file.info().spaces] == [
            ("host-model", 2)
        ]


@pytest.mark.parametrize(
    ("kinds", "advice"),
    [
        ((True, True), ["memdb rebuild FILE"]),
        ((False, False), ["memdb restore BACKUP FILE", "memdb recover FILE NEW"]),
        (
            (True, False),
            ["memdb restore BACKUP FILE", "memdb recover FILE NEW", "memdb rebuild FILE"],
        ),
    ],
    ids=["rebuild", "backup", "both"],
)
def test_check_advises_what_helps(run, trip, monkeypatch, kinds, advice):
    """With the names of the commands and of the file; for truth first."""
    mixed = [memdb.Finding("a", "x", rebuildable) for rebuildable in kinds]
    monkeypatch.setattr("memdb.api.file.File.check", lambda *_, **__: mixed)
    done = run("check", trip)
    monkeypatch.undo()

    assert done.stderr.startswith("2 problems found.\n")
    assert re.findall("`(.*?)`", done.stderr) == [one.replace("FILE", str(trip)) for one in advice]


def test_delete_a_conversation(run, run_json, trip):
    """--yes deletes messages and artifacts; entries and shared artifacts stay."""
    done = run("chat", "delete", trip, "trip", "--yes")

    assert (done.exit_code, done.stdout) == (0, "Deleted trip, 3 messages, 1 artifact.\n")
    assert run_json("chat", "list", trip) == []
    assert len(run_json("entry", "list", trip)) == 1
    assert len(run_json("artifact", "list", trip)) == 1


def test_delete_a_conversation_dry_run(run, run_json, trip):
    """--dry-run says what would go, and keeps it; --json tells it as values."""
    dry = run_json("chat", "delete", trip, "trip", "--dry-run")
    said = run("chat", "delete", trip, "trip", "--dry-run")

    assert (dry["deleted"], dry["dry_run"], dry["removed"]["artifacts"]) == (False, True, 1)
    assert (dry["session"], dry["removed"]["messages"]) == ("trip", 3)
    assert said.stdout == "Would delete trip, 3 messages, 1 artifact.\n"
    assert len(run_json("chat", "list", trip)) == 1


def test_delete_a_conversation_needs_an_answer(run, in_terminal, run_json, trip):
    """Without a terminal --yes is needed; on one, "n" keeps it."""
    assert run("chat", "delete", trip, "trip").exit_code == 2
    code, said = in_terminal("chat", "delete", trip, "trip", prompt="[y/N]:", typed="n\n")

    assert (code, len(run_json("chat", "list", trip))) == (1, 1)
    assert "Delete trip, 3 messages, 1 artifact? [y/N]:" in said


def test_delete_an_absent_conversation(run, trip):
    """A name that is not there exits 3."""
    assert run("chat", "delete", trip, "tripp", "--yes").exit_code == 3


def test_imports_are_listed_when_they_were_said(run_json, path, tmp_path):
    """`chat list` shows when people talked, not when it was imported."""
    source = tmp_path / "a.jsonl"
    said = {"role": "user", "text": "hi", "session": "s", "created_ms": 1_600_000_000_000}
    source.write_text(json.dumps(said) + "\n")
    run_json("import", path, source, "--user", "ann")
    (listed,) = run_json("chat", "list", path)

    assert (listed["created_ms"], listed["updated_ms"]) == (1_600_000_000_000,) * 2


def test_not_found_and_invalid_are_different():
    """An unknown user is no invalid value."""
    from memdb.cli.base import UnknownUser

    assert not issubclass(UnknownUser, InvalidInput)


def test_shared_entries_are_no_second_user(run, run_json, path):
    """A file with one user and entries of the whole app needs no --user."""
    run("remember", path, "Lunch is at noon.", "--user", "ann", "--shared")
    run("remember", path, "Ann likes tea.", "--user", "ann")

    assert [entry["text"] for entry in run_json("entry", "list", path)] == ["Ann likes tea."]
    assert run("recall", path, "lunch").stdout.count("Lunch is at noon.") == 1
    missing = run_json("entry", "list", path, "--user", "bob")["error"]
    assert missing["scopes"] == [{"app": "default", "user": "ann"}]
    assert "shared (app default), ann (app default)" in run("info", path).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("info", "--nosuch"),
        ("nosuch",),
        ("recall",),
        ("recall", "a.db", "tea", "--limit", "x"),
        ("chat", "nosuch"),
        ("export", "a.db"),
        ("import", "a.db", "x.csv", "--table", "t"),
    ],
)
def test_an_error_of_usage_is_json_too(run, words):
    """With --json, wherever it stands; the exit code stays 2."""
    for line in ((*words, "--json"), (words[0], "--json", *words[1:])):
        done = run(*line)
        error = json.loads(done.stdout)["error"]
        assert (done.exit_code, done.stderr, error["code"]) == (2, "", "usage")
        assert error["message"]


def test_a_text_after_two_dashes_is_no_option(run):
    """It asks for no JSON."""
    done = run("recall", "a.db", "--", "--json", "b", "c")

    assert (done.exit_code, done.stdout) == (2, "")
