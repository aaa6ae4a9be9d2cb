"""FILE left out: `MEMDB_FILE`, the config file and `-f`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

import memdb
from memdb.cli.defaults import read_config

# Every command that has FILE, with arguments of its own.
LINES = """
info
chat list
chat show trip
recall Oslo --json
entry list
entry show home_city
artifact list
artifact versions menu.md --session trip
artifact load menu.md --session trip
item list
export -
stats
settings --changed
check
query 'SELECT 1'
secrets scan
forget --query oslo --dry-run
""".strip().splitlines()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the config file, which is empty."""
    path = tmp_path / "settings" / "config.toml"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setenv("MEMDB_CONFIG", str(path))
    return path


@pytest.mark.parametrize("line", LINES)
def test_file_is_left_out(run, trip, config, line):
    """A variable, -f and the config file name FILE; every argument is the command's own."""
    words = shlex.split(line)
    verbs = 2 if words[0] in ("chat", "entry", "artifact", "item", "secrets") else 1
    expected = run(*words[:verbs], trip, *words[verbs:])
    assert expected.exit_code == 0, expected.output

    by_variable = run(*words, env={"MEMDB_FILE": trip})
    by_option = run(*words, "-f", trip, env={"MEMDB_FILE": "no.db"})
    config.write_text(f"file = '{trip}'\n")
    by_config = run(*words)
    in_front = run("-f", trip, *words, env={"MEMDB_FILE": "no.db"})

    for done in (by_variable, by_option, by_config, in_front):
        assert (done.exit_code, done.stdout) == (0, expected.stdout)


def test_an_address_in_the_config_file_is_no_path(config):
    """It is taken as it is, not looked for beside the config file."""
    address = "postgresql://ann@db.example/memory"
    config.write_text(f"file = '{address}'\n")

    assert read_config()["file"] == address


def test_file_in_front_is_said_to_be_too_much(run, trip):
    """With a default file the old line is a usage error that says what to do."""
    done = run("recall", trip, "tea", env={"MEMDB_FILE": trip})

    assert done.exit_code == 2
    assert f"MEMDB_FILE names FILE ({trip}), so it is left out here; -f PATH" in done.stderr


def test_no_file_at_all_says_how_to_name_one(run):
    """The error names the ways."""
    for words in (("info",), ("recall", "tea")):
        done = run(*words)
        assert done.exit_code == 2
        assert "FILE comes first, unless -f or MEMDB_FILE names it." in done.stderr


def test_the_usage_says_what_is_to_be_typed(run, trip):
    """FILE stands in it only where it has to be given."""
    assert "recall [OPTIONS] FILE QUERY" in run("recall", "-h").stdout
    assert "recall [OPTIONS] QUERY" in run("recall", "-h", env={"MEMDB_FILE": trip}).stdout


def test_a_default_file_is_made_by_the_first_command_that_writes(run, tmp_path):
    """As one that is an argument."""
    path = str(tmp_path / "new.db")
    assert run("remember", "Tea.", "--user", "ann", env={"MEMDB_FILE": path}).exit_code == 0
    with memdb.open(path) as db:
        assert len(list(db.scope("ann").entries.list())) == 1


def test_the_config_names_user_app_and_embedder(run, crowd, config):
    """What the environment or the command line says goes before."""
    config.write_text(f"file = '{crowd}'\nuser = 'ann'\napp = 'notes'\nembedder = 'none'\n")
    assert "Ann notes something." in run("entry", "list").stdout
    assert "Ann likes tea." in run("entry", "list", env={"MEMDB_APP": "default"}).stdout
    both = {"MEMDB_APP": "default"}
    assert "Bob likes coffee." in run("entry", "list", "--user", "bob", env=both).stdout


@pytest.mark.parametrize("name", ["trip.db", "../trip.db", "~/trip.db"])
def test_a_path_in_the_config(run, tmp_path, config, monkeypatch, name):
    """It is seen from the folder of the config file; ~ is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    home = {"trip.db": config.parent}.get(name, tmp_path)
    config.write_text(f"file = '{name}'\n")
    run("remember", "Tea.", "--user", "ann")
    assert (home / "trip.db").is_file()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file = 5", "file is 5: write a text"),
        ("user = ''", "user is '': write a text"),
        ("fil = 'x'", "has an unknown field 'fil': use file, user, app, embedder"),
        ("file", "is not TOML"),
        ("\xff", "is not TOML"),
    ],
)
def test_a_config_that_says_something_else(run, trip, config, text, message):
    """The error names the file and the field, and exits as a usage error."""
    config.write_text(text, encoding="latin-1")
    done = run("info", trip)
    assert done.exit_code == 2
    assert message in done.stderr
    assert str(config) in done.stderr


def test_a_config_that_is_not_there(run, trip, config):
    """It is an error only where a variable names it."""
    config.unlink()
    assert "MEMDB_CONFIG names" in run("info", trip).stderr
    assert run("info", trip, env={"MEMDB_CONFIG": None, "HOME": str(config.parent)}).exit_code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_config_that_cannot_be_read(run, trip, config):
    """It is said, not passed over."""
    config.chmod(0)
    assert "Permission denied" in run("info", trip).stderr
