"""The command line as a whole: its list, help texts, errors, speed and completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from cases import each

import memdb
from memdb.cli import COMMANDS, cli
from memdb.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    Corrupt,
    DimensionMismatch,
    FileError,
    InvalidInput,
    NotFound,
    PortError,
    StorageError,
    TooLarge,
)

ROOT = Path(memdb.__file__).parents[1]
LEAVES = [
    ("demo",),
    ("info",),
    ("stats",),
    ("counts",),
    ("changes",),
    ("chat", "append"),
    ("chat", "show"),
    ("chat", "list"),
    ("chat", "context"),
    ("chat", "tree"),
    ("chat", "expand"),
    ("chat", "compact"),
    ("chat", "archive"),
    ("chat", "unarchive"),
    ("chat", "update"),
    ("chat", "edit"),
    ("chat", "branch"),
    ("chat", "branches"),
    ("chat", "delete"),
    ("remember",),
    ("recall",),
    ("extract",),
    ("entry", "list"),
    ("entry", "supersede"),
    ("entry", "unlink"),
    ("entry", "show"),
    ("entry", "revert"),
    ("entry", "edit"),
    ("entry", "delete"),
    ("why-said",),
    ("profile",),
    ("forget",),
    ("undo",),
    ("secrets", "scan"),
    ("artifact", "save"),
    ("artifact", "load"),
    ("artifact", "list"),
    ("artifact", "versions"),
    ("artifact", "diff"),
    ("artifact", "edit"),
    ("artifact", "rename"),
    ("artifact", "delete"),
    ("item", "put"),
    ("item", "get"),
    ("item", "list"),
    ("item", "namespaces"),
    ("item", "delete"),
    ("import",),
    ("export",),
    ("work",),
    ("web",),
    ("serve",),
    *(("token", name) for name in ("add", "list", "remove")),
    *(("users", name) for name in ("list", "move", "delete")),
    ("mcp",),
    *(("agent", name) for name in ("install", "package", "status", "import", "mcp", "hook")),
    ("space", "list"),
    ("space", "delete"),
    ("settings",),
    ("check",),
    ("rebuild",),
    ("backup",),
    ("copy",),
    ("encrypt",),
    ("decrypt",),
    ("rekey",),
    ("sync",),
    ("restore",),
    ("recover",),
    ("vacuum",),
    ("query",),
    *(("pack", name) for name in ("make", "verify", "open")),
    ("bench", "recall"),
    ("bench", "compare"),
    ("bench", "facts"),
]
NAMES = [" ".join(words) for words in LEAVES]
WHOLE = (
    *(
        "demo",
        "info",
        "stats",
        "work",
        "space",
        "settings",
        "check",
        "rebuild",
        "backup",
        "copy",
        "sync",
        "restore",
        "encrypt",
        "decrypt",
        "rekey",
        "recover",
    ),
    *("vacuum", "query", "pack", "bench", "agent", "web", "serve", "token", "users"),
    "changes",
)
SCOPED = [words for words in LEAVES if words[0] not in WHOLE]


def _walk(command, words=()):
    """Return the words of every command below *command* that does something."""
    if not isinstance(command, click.Group):
        return [words]
    context = click.Context(command)
    return [
        found
        for name in command.list_commands(context)
        for found in _walk(command.get_command(context, name), (*words, name))
    ]


def _command(words):
    """Return the command that *words* name."""
    command = cli
    for word in words:
        command = command.get_command(click.Context(command), word)
    return command


def _examples(words):
    """Return the command lines under Example in the help of the command, as lists of words."""
    lines = _command(words).epilog.splitlines()
    ours = [re.split(r" [<>|] ", line.partition("memdb ")[2])[0] for line in lines[2:]]
    return [shlex.split(line)[len(words) :] for line in ours]


def test_the_commands_are_those_that_are_promised():
    """Every command of the tree is in the list above, in its order, and the reverse."""
    assert _walk(cli) == LEAVES


@each("name", COMMANDS)
def test_the_list_says_what_the_command_says(name):
    """The static short help equals the first sentence of the loaded command's help."""
    command = _command((name,))

    assert command.name == name
    assert command.get_short_help_str(1000) == COMMANDS[name].help + "."


@each("words", LEAVES)
def test_each_command_has_an_example_and_json(run, words):
    """Each help text has an Example of the command itself, and --json but for a server."""
    shown = run(*words, "--help")

    assert shown.exit_code == 0
    assert f"Example:\n    memdb {' '.join(words)}" in shown.stdout
    without = [("mcp",), ("web",), ("serve",), ("agent", "mcp"), ("agent", "hook")]
    assert ("--json" in shown.stdout) == (words not in without)


@each("words", SCOPED)
def test_each_scoped_command_knows_user_and_app(run, words):
    """Every command that is about somebody's memory has --user and --app, also by environment."""
    shown = run(*words, "-h").stdout

    assert "--user NAME" in shown
    assert "MEMDB_USER" in shown
    assert "--app NAME" in shown
    assert "MEMDB_APP" in shown


@each("words", LEAVES)
def test_each_example_parses(words):
    """Every example is a command line that the command accepts."""
    # A command keeps the help option of its first context: it must be that of the program.
    program = click.Context(cli, **cli.context_settings)
    parsed = [
        _command(words).make_context("memdb", line, parent=program) for line in _examples(words)
    ]

    assert parsed


@each("words", LEAVES)
def test_each_parameter_is_documented(words):
    """Every option without an obvious value has a help text or a default that is shown."""
    silent = [
        option.name
        for option in _command(words).params
        if isinstance(option, click.Option) and not option.help and not option.show_default
    ]

    assert set(silent) <= {"version", "text", "category", "importance", "key"}


def test_help_loads_no_command_and_no_driver(start):
    """`memdb --help` imports neither a command's module nor the database driver."""
    program = (
        "import sys; from memdb.cli import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = [name for name in sys.modules if name.startswith(('memdb', 'apsw'))]\n"
        "print(sorted(loaded), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stderr == "['memdb', 'memdb.cli']\n"


def test_no_arguments_shows_the_help(run):
    """`memdb` alone prints the list of commands."""
    assert "Commands:" in run().output


def test_version(run):
    """`--version` prints the name and the version."""
    assert run("--version").stdout == f"memdb, version {memdb.__version__}\n"


def test_an_unknown_command_is_a_usage_error(run):
    """A misspelt command exits 2 and suggests the right one."""
    done = run("recal", "x.db", "tea")

    assert done.exit_code == 2
    assert "No such command 'recal'. Did you mean 'recall'?" in done.stderr


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (InvalidInput("bad"), 5, "invalid"),
        (DimensionMismatch(3, 4), 5, "dimension"),
        (TooLarge("text", 1, 2), 5, "too_large"),
        (NotFound("entry", 7), 3, "not_found"),
        (Conflict("late"), 4, "conflict"),
        (AlreadyExists("file", "x"), 4, "exists"),
        (FileError("gone", "x.db"), 6, "file"),
        (StorageError("odd"), 7, "storage"),
        (Busy("locked"), 7, "busy"),
        (Corrupt("torn"), 7, "corrupt"),
        (PortError("embedder", "no"), 8, "port"),
        (OSError(2, "No such file", "x.txt"), 6, "file"),
        (ValueError("oops"), 1, "internal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_end_with_their_exit_code(run, trip, monkeypatch, error, exit_code, code):
    """Each error class gives its exit code, a sentence, and with --json its code and facts."""
    _command(("recall",))  # made of the call itself
    monkeypatch.setattr("memdb.api.scope.Scope.recall", lambda *_, **__: _raise(error))

    said = run("recall", trip, "tea")
    told = run("recall", trip, "tea", "--json")

    assert (said.exit_code, said.stdout) == (exit_code, "")
    assert said.stderr.startswith("Error: ")
    assert (told.exit_code, told.stderr) == (exit_code, "")
    assert json.loads(told.stdout)["error"]["code"] == code


def _raise(error):
    raise error


def test_the_facts_of_an_error_are_in_its_json(run_json, trip):
    """An error's attributes stand beside its code and message."""
    assert run_json("entry", "show", trip, "5") == {
        "error": {
            "code": "not_found",
            "message": "no entry 5 in this scope: list what there is, and check the number",
            "kind": "entry",
            "ref": 5,
        }
    }


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("entry", "show", "FILE", "99"), "`memdb entry list` shows what there is"),
        (("entry", "edit", "FILE", "nokey", "--pinned"), "`memdb entry list` shows what there is"),
        (("chat", "show", "FILE", "nope"), "`memdb chat list` shows what there is"),
        (("artifact", "load", "FILE", "nope"), "`memdb artifact list` shows what there is"),
        (("item", "get", "FILE", "a", "b"), "`memdb item list` shows what there is"),
        (("remember", "FILE", "AKIAIOSFODNN7EXAMPLQ is the key"), "--secrets redact"),
    ],
    ids=" ".join,
)
def test_an_error_names_what_to_type(run, trip, words, advice):
    """The advice is a command or an option, not a call of the library."""
    done = run(*[trip if word == "FILE" else word for word in words])

    assert done.exit_code in (3, 5)
    assert advice in done.stderr


def test_nothing_to_forget_is_not_asked_about(run, trip):
    """Without a terminal there is no need for --yes."""
    done = run("forget", trip, "--query", "nothing of that kind")

    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "Forgot nothing.")


def test_a_traceback_only_for_whoever_asks(run, trip, monkeypatch):
    """MEMDB_DEBUG=1 lets the error itself through, anything else does not."""
    monkeypatch.setattr("memdb.api.scope.Scope.recall", lambda *_, **__: _raise(ValueError("oops")))

    debugged = run("recall", trip, "tea", env={"MEMDB_DEBUG": "1"})
    plain = run("recall", trip, "tea", env={"MEMDB_DEBUG": "0"})

    assert isinstance(debugged.exception, ValueError)
    assert "Traceback" not in plain.output
    assert "ValueError: oops. This is a bug" in plain.stderr


def test_ctrl_c_exits_130(run, trip, monkeypatch):
    """An interrupted command says that it stopped and exits as a shell expects."""
    monkeypatch.setattr(
        "memdb.api.scope.Scope.recall", lambda *_, **__: _raise(KeyboardInterrupt())
    )

    done = run("recall", trip, "tea")

    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def unread() -> int:
    """Return standard output whose reader is gone before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.fixture(scope="module")
def long_path(tmp_path_factory):
    """Return a file with a message and an artifact that no pipe holds."""
    path = tmp_path_factory.mktemp("long") / "agent.db"
    with memdb.open(path, durability="process", counter="estimate", embedder=None) as db:
        db.scope("ann").session("long").append("user", "many words\n" * 30_000)
        db.scope("ann").artifacts.save("long", "many words\n" * 30_000)
    return str(path)


# What is printed as it is made, and what is printed at the end.
@each(
    "words,is_long",
    [
        (("chat", "show", "FILE", "long"), True),
        (("chat", "show", "FILE", "long", "--json"), True),
        (("artifact", "load", "FILE", "long"), True),
        (("export", "FILE"), True),
        (("chat", "list", "FILE"), False),
        (("recall", "--help"), False),
        (("--version",), False),
    ],
)
def test_a_reader_that_stops_is_no_error(start, long_path, words, is_long):
    """Under `| head` nothing is said on standard error, and the exit code is 0."""
    line = [long_path if word == "FILE" else word for word in words]
    stdout = subprocess.PIPE if is_long else unread()
    with start(*line, stdout=stdout) as process:
        if is_long:
            process.stdout.readline()
            process.stdout.close()
        else:
            os.close(stdout)
        said = process.stderr.read()

    assert (process.returncode, said) == (0, b"")


def test_a_reader_that_stops_changes_no_finding(start, path):
    """What a command found is still its exit code, and what it does is done."""
    with memdb.open(path) as db:
        db.scope("ann").session("s").append("user", "sk-ant-api03-" + "a1B2c3D4" * 12)
    with start("secrets", "scan", path, stdout=unread()) as process:
        said = process.stderr.read()
    assert (process.returncode, said) == (7, b"")
    with start("remember", path, "Ann likes tea.", "--user", "ann", stdout=unread()) as process:
        pass
    assert process.returncode == 0
    with memdb.open(path) as db:
        assert [one.text for one in db.scope("ann").entries.list()] == ["Ann likes tea."]


def test_python_m_memdb_is_the_command_line(start):
    """`python -m memdb` runs the same command under the same name."""
    out, err = start("--help").communicate()

    assert out.decode().startswith("Usage: memdb [OPTIONS] COMMAND [ARGS]...")
    assert err == b""


@pytest.fixture
def complete(run):
    """Return a function that gives what bash is answered behind a line that is being typed."""

    def answer(line, **env):
        asked = {"_MEMDB_COMPLETE": "bash_complete", "COMP_WORDS": line}
        done = run(env=asked | {"COMP_CWORD": str(line.count(" "))} | env)
        assert done.stderr == ""
        return done.stdout

    return answer


@each(
    "words, expected",
    [
        ("memdb ", "chat"),
        ("memdb re", "recall"),
        ("memdb chat a", "append"),
        ("memdb recall x.db --ki", "--kind"),
        ("memdb recall x.db --kind e", "entry"),
    ],
)
def test_completion_of_words(complete, words, expected):
    """The shell completes commands, options and their choices."""
    assert f"plain,{expected}" in complete(words).splitlines()


@pytest.mark.parametrize(
    ("words", "closed"),
    [("recall FILE Oslo", ">&-"), ("chat list FILE", "2>&-"), ("info FILE", "<&-")],
)
def test_a_stream_that_is_closed(trip, words, closed):
    """A shell may start a program without one of its streams: that is no bug of it."""
    command = f"{sys.executable} -m memdb {words.replace('FILE', trip)} {closed}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", command], capture_output=True, env=environment, check=False)

    assert done.returncode == 0
    assert b"This is a bug" not in done.stderr


def test_completion_of_files(complete):
    """The shell is asked to complete FILE with the names of files."""
    assert complete("memdb info ag") == "file,ag\n"


def test_an_odd_encoding_loses_no_answer(start, trip):
    """Where the output cannot hold a character, text has "?" for it and JSON its number."""
    env = {"PYTHONIOENCODING": "latin-1"}
    text, _ = start("chat", "show", trip, "trip", "--last", 1, env=env).communicate()
    told, _ = start("chat", "show", trip, "trip", "--last", 1, "--json", env=env).communicate()

    assert b"????????" in text
    assert json.loads(told)[0]["text"] == "好的,我们住在奥斯陆的酒店。"


@pytest.mark.skipif(sys.platform == "win32", reason="the file system is UTF-8 there")
def test_a_locale_of_ascii_takes_every_character(tmp_path):
    """At each door: FILE, names, texts, keys, a file to import, standard input."""
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    db, name, said = str(tmp_path / "Zoë.db"), "Zoë 🚢", "Je préfère l'été 🚢"
    notes = tmp_path / "été.txt"
    notes.write_text(said, encoding="utf-8")

    def run_in_c(*words, stdin=""):
        command = [sys.executable, "-m", "memdb", *words, "--user", name]
        done = subprocess.run(
            command, env=env, input=stdin.encode(), capture_output=True, check=True
        )
        return done.stdout.decode()

    run_in_c("remember", db, said, "--key", name)
    run_in_c("chat", "append", db, name, said, "--author", name)
    run_in_c("chat", "append", db, name, "-", stdin=said)
    run_in_c("import", db, str(notes))

    listed = run_in_c("chat", "show", db, name)
    assert listed.count(said) == 2
    assert said in run_in_c("recall", db, "été", "--kind", "entry")
    with memdb.open(db) as opened:
        (scope,) = opened.scopes()
        assert scope.user == name
        assert {one.key for one in scope.entries.list()} >= {name}
        assert {one.text for one in scope.session(name).messages()} == {said}


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are Unicode there")
def test_an_argument_that_is_no_utf8(tmp_path):
    """A name is refused by its byte, and a text is stored with U+FFFD."""
    db = str(tmp_path / "a.db")
    for words, code, expected in (
        (("remember", db, "x", "--user", b"caf\xe9"), 5, b"byte 0xe9, which is not UTF-8"),
        (("remember", db, b"caf\xe9", "--user", "ann"), 0, b"added entry"),
        (("recall", db, b"caf\xe9", "--user", "ann"), 0, "caf\ufffd".encode()),
    ):
        command = [sys.executable, "-m", "memdb", *words]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, expected in done.stdout + done.stderr) == (code, True), done


def test_every_public_name_loads_at_its_first_use():
    """`memdb` loads nothing by itself, has each public name, and no other."""
    program = (
        "import sys, memdb\n"
        "before = sorted(name for name in sys.modules if name.startswith(('memdb', 'apsw')))\n"
        "names = ' '.join(memdb._HOMES.values()).split()\n"
        "absent = [name for name in names if not hasattr(memdb, name)]\n"
        "listed = {*names, *memdb.__all__, 'aio'} <= set(dir(memdb))\n"
        "print(before, absent, listed, hasattr(memdb, 'nothing'), memdb.open.__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout == "['memdb'] [] True False memdb.api.database\n"


@each("words", LEAVES)
def test_no_help_speaks_of_python(words):
    """An option says what giving it does, not which value of a parameter it stands for."""
    helps = [option.help or "" for option in _command(words).params if hasattr(option, "help")]

    kinds = "|".join(name for name in memdb.__all__ if name[0].isupper())
    python = rf"\b(True|False|None)\b|[{{}}]|\w\(\)|(?<=[ (])({kinds})\b"
    assert [text for text in helps if re.search(python, text)] == []
