"""
Users apart through `memdb.aio` and the command line; other clients: `tests/integrations`.

As `test_isolation.py`: each call in a file where ann is alone, and in one with other users.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from isolated import (
    OTHER_FILES,
    READ_CALLS,
    THEIR_NAMES,
    WHOLE_FILE,
    ann,
    long,
    names_of_others,
    trip,
)
from tenants import OTHERS, SECRETS, Files, assert_apart, open_as, outcome
from writes import WRITES, entry

import memdb
import memdb.aio
from memdb.adapters.async_host import AsyncHost
from memdb.aio import parts
from memdb.api.threads import Threads
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

S = SECRETS


@pytest.fixture
def files(tmp_path: Path, two_databases: tuple[Any, Any]) -> Iterator[Files]:
    """Return both files, open."""
    made = Files(tmp_path, two_databases)
    yield made
    made.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return an event loop that is closed at the end."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


class Through:
    """Something of `memdb.aio`, called like its synchronous twin."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop, called: set[str]) -> None:
        """Run the coroutines of *target* in *loop*; add the names of what was called."""
        self._target, self._loop, self._called = target, loop, called

    def __getattr__(self, name: str) -> Any:
        """Return what the twin has under that name."""
        found = getattr(self._target, name)
        self._called.add(f"{type(self._target).__name__}.{name}")
        if name == "last_seq":
            return self._done(found())
        if not callable(found):
            return self._done(found)
        return lambda *args, **options: self._done(found(*args, **options))

    def __repr__(self) -> str:
        """Show the object itself."""
        return repr(self._target)

    def __delitem__(self, key: str) -> None:
        """Remove a key of a state."""
        self.delete(key)

    def __setitem__(self, key: str, value: object) -> None:
        """Set a key of a state."""
        self.update({key: value})

    def _done(self, value: Any) -> Any:
        if hasattr(value, "__anext__"):
            return self._loop.run_until_complete(_taken(value))
        if inspect.isawaitable(value):
            value = self._loop.run_until_complete(_waited(value))
        is_aio = type(value).__module__.startswith("memdb.aio")
        return Through(value, self._loop, self._called) if is_aio else value


async def _taken(items: Any) -> list[Any]:
    return [item async for item in items]


async def _waited(value: Any) -> Any:
    return await value


AIO_CALLS: dict[str, Callable[[Any], object]] = {
    "Host.add": lambda db: AsyncHost(trip(db)).add([{"role": "user", "text": "added"}]),
    "MemDB.jobs": lambda db: repr(type(db.jobs)),
    "Tools.call": lambda db: long(db).tools().call("memory_compact", {"archive": False}),
    "MemDB.run": lambda db: db.run(lambda sync: sync.scope("ann").sessions()),
    "Session.branch": lambda db: repr(db.scope("ann").session("trip").branch("mine", 1)),
    "Session.branches": lambda db: db.scope("ann").session("trip").branches(),
    "Session.branch_name": lambda db: repr(db.scope("ann").session("trip").branch_name),
    "Session.parent": lambda db: repr(db.scope("ann").session("trip").parent()),
    "Session.fork": lambda db: repr(db.scope("ann").session("trip").fork("fork")),
    "Artifacts.versions": lambda db: ann(db).session("trip").artifacts.versions("menu.md"),
    "State.get": lambda db: ann(db).state.get("colour"),
    "State.delete": lambda db: (ann(db).state.delete("size"), ann(db).state.delete("nothing")),
}

# What is about the whole file, what is no call, and what only `sync` of the file has.
NOT_OF_A_USER = {
    *("File.check", "File.info", "File.mark", "File.stamp", "File.rebuild"),
    "File.copy",
    *("Worker.doing", "Worker.done", "Worker.error", "Worker.running", "Worker.stop"),
    *("File.vacuum", "File.backup", "File.delete_space", "Jobs.run", "Jobs.start"),
    *(
        "Jobs.pending",
        "MemDB.close",
        "MemDB.query",
        "MemDB.scopes",
        "MemDB.sync",
        "MemDB.sync_status",
    ),
    *(
        "MemDB.path",
        "MemDB.blocking",
        "MemDB.changes",
        "MemDB.closed",
        "MemDB.stats",
        "MemDB.watch",
    ),
    *(
        "StoredSettings.update",
        "StoredSettings.override",
        "Scope.app",
        "Scope.user",
        "Session.name",
    ),
}


@pytest.mark.slow
def test_every_call_of_aio_keeps_users_apart(files: Files, loop: asyncio.AbstractEventLoop) -> None:
    """The calls of the synchronous API, those that aio has, and its own."""
    called = set[str]()
    workers = [Threads(db.path) for db in files.opened]
    opened = [
        Through(memdb.aio.MemDB(db, worker), loop, called)
        for db, worker in zip(files.opened, workers, strict=True)
    ]
    theirs = names_of_others(files.beside)
    files.opened = opened
    calls: dict[str, Callable[[Any], object]] = {
        **READ_CALLS,
        **{
            f"theirs: {name}": lambda db, call=call: call(db, theirs)
            for name, call in THEIR_NAMES.items()
        },
        **{f"aio: {name}": call for name, call in AIO_CALLS.items()},
        **{
            f"write: {name}": WRITES[name].act
            for name in WRITES.keys() - WHOLE_FILE.keys() - OTHER_FILES - {"forget everything"}
        },
    }
    for name, call in sorted(calls.items()):
        shown = files.compare(call)
        if "AttributeError" not in shown[0]:
            assert_apart(files, name, shown)

    kinds = {
        kind
        for module in (memdb.aio, parts)
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__
    } - {memdb.aio.Opening}
    public = {f"{one.__name__}.{name}" for one in kinds for name in dir(one) if name[0] != "_"}
    assert public - called - NOT_OF_A_USER == set()
    for worker in workers:
        worker.shutdown(wait=True)


def test_calls_that_share_a_transaction_share_no_failure(files: Files) -> None:
    """Appends made at once are stored together; one of others that fails is theirs alone."""

    async def talk(db: MemDB, *, with_others: bool) -> list[object]:
        worker = Threads(db.path)
        opened = memdb.aio.MemDB(db, worker)
        chat = opened.scope("ann").session("trip")
        mine = [chat.append("user", f"at once {n}") for n in range(3)]
        failing = [
            opened.scope(user, app)
            .session(S["session"])
            .append("user", S["text"], external_id=f"{S['external_id']}-0")
            for user, app in OTHERS * with_others
        ]
        found = await asyncio.gather(mine[0], *failing, *mine[1:], return_exceptions=True)
        worker.shutdown(wait=True)
        refused = [one for one in found if isinstance(one, Exception)]
        assert len(refused) == len(failing)
        return [(one.seq, one.text) for one in found if one not in refused]

    alone, beside = (
        outcome(lambda db=db: asyncio.run(talk(db, with_others=db is files.beside)))
        for db in files.opened
    )

    assert_apart(files, "append", (alone, beside))


# Command -> argument lists behind FILE: as ann would call it, and with the names of others.
# {entry}, {theirs}, {summary} and {folder} are filled in. {file} stands for a FILE elsewhere.
COMMANDS: dict[str, list[list[str]]] = {
    "chat append": [["trip", "one more"], [S["session"], "mine"]],
    "chat show": [["trip"], ["long", "--last", "3"], [S["summarised_session"]]],
    "chat list": [[]],
    "chat context": [["long", "--budget", "300", "--query", "tea"], [S["archived_session"]]],
    "chat tree": [["long"], [S["summarised_session"]]],
    "chat expand": [["long", "1-5"], ["long", "{summary}"], [S["archived_session"], "{summary}"]],
    "chat compact": [["due", "--keep-last", "3"], [S["summarised_session"]]],
    "chat archive": [["due", "--keep-last", "2"], [S["archived_session"]]],
    "chat unarchive": [["due"], [S["archived_session"]]],
    "chat update": [["trip", "--title", "mine"], [S["summarised_session"], "--title", "mine"]],
    "chat edit": [["trip", "1", "mine"], [S["summarised_session"], "1", "mine"]],
    "chat branch": [["trip", "mine", "--after", "2"], [S["summarised_session"], "mine"]],
    "chat branches": [["trip"], [S["summarised_session"]]],
    "chat delete": [["due", "--dry-run"], [S["summarised_session"], "--yes"]],
    "remember": [
        ["Ann likes tea.", "--key", "drink"],
        ["Mine.", "--session", S["archived_session"]],
    ],
    "recall": [
        ["lamp", "--explain"],
        ["tea", "--why", "long#3"],
        ["Oslo", "--kind", "entry"],
        [S["text"], "--session", S["archived_session"]],
        [S["text"], "--why", f"{S['archived_session']}#1"],
    ],
    "extract": [["due"], [S["archived_session"]]],
    "entry list": [[], ["--all", "--category", "profile"]],
    "profile": [[]],
    "entry show": [["{entry}"], ["home"], ["{theirs}"], [S["entry_key"]]],
    "entry supersede": [["home", "{theirs}"], ["{theirs}", "home"]],
    "entry unlink": [["home", "{theirs}"], ["{theirs}", "home"]],
    "entry edit": [["home", "--importance", "7"], ["{theirs}", "--text", "mine"]],
    "entry revert": [["home", "1"], ["{theirs}", "1"]],
    "counts": [[]],
    "entry delete": [["home", "--dry-run"], ["{theirs}", "--yes"], [S["entry_key"], "--yes"]],
    "forget": [
        ["--query", "message", "--dry-run"],
        ["--entry", "{theirs}", "--yes"],
        ["--session", S["archived_session"], "--yes"],
        ["--query", S["text"], "--yes", "--prove"],
        ["--session", "cold", "--yes", "--prove"],
    ],
    "undo": [
        ["--writer", "mail", "--dry-run"],
        ["--writer", "mail", "--since", "2020-01-01", "--yes"],
        ["--writer", S["entry_source"], "--dry-run", "--json"],
        ["--writer", S["entry_source"], "--yes"],
    ],
    "why-said": [["trip", "99"], ["cold", "99", "--json"], [S["archived_session"], "99"]],
    "secrets scan": [[], ["--entropy"]],
    "item put": [
        ["notes", "k", "mine"],
        [S["item_label"], S["item_key"], "1", "--expected", "0"],
    ],
    "item get": [["notes/trip", "tent"], [S["item_label"], S["item_key"]]],
    "item list": [[], ["notes", "--where", "stars>=3"], [S["item_label"]]],
    "item namespaces": [[], [S["item_label"], "--depth", "1"]],
    "item delete": [["notes", "raw", "--yes"], [S["item_label"], S["item_key"], "--yes"]],
    "artifact save": [["new.md", "{folder}/data.txt", "--session", "trip"]],
    "artifact load": [["menu.md", "--session", "trip"], [S["artifact"], "--session", S["session"]]],
    "artifact list": [[], ["--session", "trip"], ["--session", S["session"]]],
    "artifact versions": [["menu.md", "--session", "trip"], [f"user:{S['artifact_user']}"]],
    "artifact diff": [["menu.md", "--session", "trip"], [S["artifact"], "--session", S["session"]]],
    "artifact edit": [["menu.md", "--session", "trip"], [S["artifact"], "--session", S["session"]]],
    "artifact rename": [
        ["menu.md", "card.md", "--session", "trip"],
        [S["artifact"], "mine.md", "--session", S["session"]],
    ],
    "artifact delete": [["menu.md", "--session", "trip", "--yes"], [S["artifact"], "--yes"]],
    "agent import": [
        ["claude-code", "{folder}/trip.jsonl", "--file", "{file}"],
        ["claude-code", "{folder}/theirs.jsonl", "--file", "{file}"],
        ["claude-code", "{folder}/theirs.jsonl", "--file", "{file}", "--again"],
        ["claude-code", "{folder}", "--file", "{file}", "--app", "/home/ann"],
    ],
    "import": [["{folder}/lines.jsonl", "--session", "new", "--no-embed"]],
    "export": [["-"], ["{folder}/out.jsonl"], ["{folder}/out.db", "--format", "sqlite"]],
}

# Commands without --user are about the file, or about none.
SERVERS = {
    "mcp": "serves tools, see tests/integrations/with_mcp/test_isolation.py",
    "token add": "reads no memory: it names a user in a file of tokens",
    "web": "names whose file of a folder is shown",
}


def transcript(session: str, uid: str) -> str:
    """Return a transcript of Claude Code: one message of a session."""
    line = {
        "type": "user",
        "sessionId": session,
        "uuid": uid,
        "cwd": "/home/ann/trip",
        "timestamp": "2026-08-10T12:00:03.000Z",
        "message": {"role": "user", "content": "When does the ferry to Oslo leave?"},
    }
    return json.dumps(line) + "\n"


def commands(
    group: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield each command by its name."""
    if not isinstance(group, click.Group):
        yield " ".join(path), group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


def test_every_command_of_a_user_is_tried() -> None:
    """A new command with --user has to be in the table."""
    scoped = {
        name for name, command in commands(cli) if "user" in {one.name for one in command.params}
    }
    assert scoped == COMMANDS.keys() | SERVERS.keys()


@pytest.mark.slow
def test_every_command_keeps_users_apart(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output, exit code and error are those of a file without the others."""
    names, home = names_of_others(files.beside), entry(files.alone)
    files.close()
    monkeypatch.setattr(memdb, "open", lambda path, **_: open_as(Path(path), 0))
    runner = CliRunner(env={"MEMDB_USER": "ann", "MEMDB_APP": "default", "VISUAL": "true"})
    for folder in files.folders:
        (folder / "data.txt").write_text("data", encoding="utf-8")
        (folder / "lines.jsonl").write_text('{"role": "user", "content": "x"}\n', encoding="utf-8")
        said = transcript("trip", "m9")
        (folder / "trip.jsonl").write_text(said, encoding="utf-8")
        said = transcript(S["session"], f"{S['external_id']}-0")
        (folder / "theirs.jsonl").write_text(said, encoding="utf-8")
    filled = {"entry": home, "theirs": names.entry, "summary": names.summary}

    def run(path: Path, command: str, given: list[str]) -> object:
        words = [one.format(**filled, folder=path.parent, file=path) for one in given]
        line = [*command.split(), *[str(path)] * ("{file}" not in given), *words]
        done = runner.invoke(cli, line, prog_name="memdb")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    for command, lines in COMMANDS.items():
        for given in lines:
            shown = files.compare_paths(lambda path, g=given, c=command: run(path, c, g))
            assert_apart(files, [command, *given], shown)
