"""Commands over a server: how FILE names it, what differs from a file, and no password anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from cases import each
from click.testing import CliRunner

import memdb
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("psycopg", reason="psycopg is not installed")

SECRET = "s3same"
WORKSHOP = Path(memdb.__file__).parents[1] / "examples" / "workshop.jsonl"
LINES = [
    ["info"],
    ["stats"],
    ["check"],
    ["check", "--json"],
    ["rebuild"],
    ["vacuum"],
    ["info", "--json"],
    ["counts"],
    ["changes"],
    ["settings"],
    ["space", "list"],
    ["chat", "list"],
    ["chat", "show", "trip"],
    ["entry", "list"],
    ["entry", "list", "--json"],
    ["recall", "Oslo"],
    ["export", "-"],
    ["secrets", "scan"],
    ["query", "SELECT count(*) FROM messages"],
    ["query", "SELECT nothing"],
    ["query", "DELETE FROM messages"],
    ["remember", "Ann lives in Oslo."],
    ["forget", "--query", "soup", "--prove", "--yes"],
    ["entry", "show", "nothing"],
    ["work"],
    ["backup", "copy.db"],
    ["recover", "new.db"],
]


@pytest.fixture
def databases_there(postgres_databases: Any) -> Iterator[Any]:
    """Return what makes a new database for each name; all are emptied at the end."""
    yield postgres_databases
    postgres_databases.empty_all()


@pytest.fixture
def address(databases_there: Any) -> str:
    """Return the address of a database with a conversation, an entry and an artifact of ann."""
    address: str = databases_there.address_of("/team")
    with memdb.open(address) as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "We fly to Oslo on 3 May.")
        db.scope("ann").remember("Ann likes soup.")
        chat.artifacts.save("menu.md", "soup")
    return address


@pytest.fixture
def secret(address: str) -> str:
    """Return that address with a password, which this server does not ask for."""
    return address.replace("memdb@", f"memdb:{SECRET}@") + "?application_name=s3same"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: object, **environment: str) -> Any:
        arguments = [str(one) for one in args]
        return CliRunner(env=environment).invoke(cli, arguments, prog_name="memdb")

    return run


def test_whatever_names_file_may_name_a_server(
    command: Callable[..., Any], address: str, tmp_path: Path
) -> None:
    """The argument, -f, both variables and the config file; the same answer."""
    config = tmp_path / "config.toml"
    config.write_text(f"file = '{address}'\n")
    expected = command("chat", "show", address, "trip").output
    assert "We fly to Oslo" in expected

    for done in (
        command("chat", "show", "trip", "-f", address),
        command("chat", "show", "trip", MEMDB_URL=address),
        command("chat", "show", "trip", MEMDB_FILE=address),
        command("chat", "show", "trip", MEMDB_CONFIG=str(config)),
    ):
        assert (done.exit_code, done.output) == (0, expected)


@each("line", LINES)
def test_no_command_shows_a_password(
    command: Callable[..., Any], secret: str, line: list[str]
) -> None:
    """Neither what it prints nor its errors, nor an option of the address."""
    nouns = ("chat", "entry", "secrets", "space", "settings")
    verbs = 2 if line[0] in nouns and len(line) > 1 else 1
    as_argument = command(*line[:verbs], secret, *line[verbs:])
    by_variable = command(*line, MEMDB_URL=secret)
    missing = command(*line, MEMDB_URL=secret.replace("/t", "/no_t"))

    assert missing.exit_code == (5 if line[0] == "recover" else 6), missing.output
    for done in (as_argument, by_variable, missing):
        assert SECRET not in done.output
        assert "This is a bug" not in done.output


@pytest.mark.parametrize(
    "given",
    [
        f"postgresql://ann:1/{SECRET}@127.0.0.1/memory",
        f"Postgresql://ann:{SECRET}@127.0.0.1/memory",
        f"postgresql+psycopg://ann:{SECRET}@127.0.0.1/memory",
        f"host=127.0.0.1 password={SECRET}",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(
    command: Callable[..., Any], given: str, tmp_path: Path
) -> None:
    """Wherever it stands; the error says what to write, and no file is made."""
    config = tmp_path / "config.toml"
    config.write_text(f'file = "{given}"\n')
    for done in (
        command("info", given),
        command("remember", given, "Ann sails.", "--user", "ann"),
        command("copy", given, "new.db"),
        command("restore", given, "new.db"),
        command("restore", "config.toml", given),
        command("info", MEMDB_URL=given),
        command("info", "too", "many", MEMDB_URL=given),
        command("info", MEMDB_CONFIG=str(config)),
    ):
        assert done.exit_code in (2, 5), done.output
        assert SECRET not in done.output
    assert "postgresql://USER@HOST:PORT/DATABASE" in command("info", given).output or "%2F" in (
        command("info", given).output
    )
    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"]


def test_reprs_show_no_password(secret: str) -> None:
    """They name the place."""
    with memdb.open(secret, embedder=None) as db:
        ann = db.scope("ann")
        shown = " ".join(map(repr, (db, ann, ann.session("trip"), db.file, db.file.info())))

    assert shown.startswith("<MemDB t")
    assert "'postgresql://memdb@127.0.0.1:" in shown
    assert SECRET not in shown


def test_sizes_are_those_of_the_server(command: Callable[..., Any], address: str) -> None:
    """A server has no file whose bytes could be counted, and no WAL of one database."""
    told = json.loads(command("vacuum", address, "--json").stdout)
    shown = command("info", address).stdout

    assert min(told["before_bytes"], told["after_bytes"]) > 100_000
    assert " MB" in shown.partition("size")[2].partition("\n")[0]
    assert "WAL" not in shown


def test_a_dry_run_of_an_import_stores_nothing(command: Callable[..., Any], address: str) -> None:
    """It says what SOURCE holds, as over a file; the second import adds nothing."""
    before = command("counts", address, "--json").stdout
    wanted = ("import", address, WORKSHOP, "--user", "ann", "--no-embed", "--json")

    dry = json.loads(command(*wanted, "--dry-run").stdout)
    assert (dry["messages_added"], command("counts", address, "--json").stdout) == (196, before)
    assert json.loads(command(*wanted).stdout)["messages_added"] == 196
    assert json.loads(command(*wanted).stdout)["messages_added"] == 0


def test_a_copy_names_its_target_and_what_is_there(
    command: Callable[..., Any], address: str, databases_there: Any
) -> None:
    """In a dry run too, which changes nothing; a target that holds something is refused."""
    other = databases_there.address_of("/other")
    with memdb.open(other) as db:
        db.scope("bob").remember("Bob likes coffee.")

    dry = command("copy", other, "new.db", "--dry-run")
    assert "to new.db" in dry.output
    command("remember", "theirs.db", "Bob likes tea.", "--user", "bob")
    refused = command("copy", "theirs.db", address, "--dry-run")
    assert refused.exit_code == 4
    assert "rows of scopes' already exists in postgresql://" in refused.output


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_stopped_copy_goes_on(
    command: Callable[..., Any],
    databases_there: Any,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: int,
) -> None:
    """It says how; nothing of it is seen until then, and a file that comes back is equal."""
    address = databases_there.address_of("/empty")
    command("import", "a.db", WORKSHOP, "--user", "mara", "--no-embed")
    with monkeypatch.context() as patch:
        patch.setattr("memdb.cli.output.Line.to", lambda *_: signal.raise_signal(number))
        stopped = command("copy", "a.db", address)
    assert (stopped.exit_code, "Nothing is in" in stopped.output) == (code, True)
    assert json.loads(command("info", address, "--json").stdout)["scopes"] == []

    done = command("copy", "a.db", address)
    assert "read them again there: equal" in done.output
    assert command("copy", address, "back.db").exit_code == 0


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (["backup", "{}", "copy.db"], "memdb copy"),
        (["recover", "{}", "new.db"], "path of a file"),
        (["restore", "{}", "new.db"], "path of a file"),
        (["restore", "a.db", "{}"], "path of a file"),
    ],
)
def test_what_is_for_files_says_so(
    command: Callable[..., Any], address: str, line: list[str], advice: str, tmp_path: Path
) -> None:
    """And makes no file or folder."""
    command("remember", "a.db", "Ann sails.", "--user", "ann")
    done = command(*[address if one == "{}" else one for one in line])

    assert done.exit_code in (5, 7)
    assert advice in done.output
    assert [one.name for one in tmp_path.iterdir()] == ["a.db"]


def test_workers_share_what_is_due(address: str) -> None:
    """Processes of `memdb work` embed each text once, and leave nothing."""
    with memdb.open(address, counter="estimate", settings={"extract": False}) as db:
        chat = db.scope("ann").session("trip")
        chat.extend([{"role": "user", "text": f"Day {n} in Oslo."} for n in range(300)])
        assert db.jobs.pending() > 0
    environment = {**os.environ, "MEMDB_URL": address}
    line = [sys.executable, "-m", "memdb", "work", "--json"]
    children = [
        subprocess.Popen(line, stdout=subprocess.PIPE, env=environment, text=True) for _ in range(4)
    ]
    said = [child.communicate(timeout=120)[0] for child in children]

    assert [child.returncode for child in children] == [0] * 4
    assert all(SECRET not in one for one in said)
    with memdb.open(address) as db:
        assert db.jobs.pending() == 0
        assert db.file.check(deep=True) == []
        assert len(db.scope("ann").recall("Which day in Oslo?", 5)) == 5


def test_info_says_when_there_is_room_for_few_users(
    command: Callable[..., Any], address: str
) -> None:
    """Each number of a scope is given once: less than a fifth of them is worth a line."""
    assert "more scopes" not in command("info", address).stdout
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT setval('scope_numbers', 500000)")

    assert "for 24,286 more scopes" in command("info", address).stdout
