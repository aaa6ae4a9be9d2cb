"""
Users apart through every client: `memdb.aio`, the command line, MCP, ADK, the Agents SDK.

As `test_isolation.py`: each call in a file where ann is alone, and in one with other users.
"""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from counters import count
from isolated import (
    OTHER_FILES,
    QUERIES,
    READ_CALLS,
    THEIR_NAMES,
    WHOLE_FILE,
    ann,
    long,
    names_of_others,
    trip,
)
from tenants import NOW_MS, OTHERS, SECRETS, Files, open_as, outcome
from writes import WRITES, entry

import memdb
import memdb.aio
from memdb.aio import parts
from memdb.aio.batching import Worker
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

S = SECRETS


@pytest.fixture
def files(tmp_path: Path, two_files: tuple[bytes, bytes]) -> Iterator[Files]:
    """Return both files, open."""
    made = Files(tmp_path, two_files)
    yield made
    made.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return an event loop that is closed at the end."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def assert_apart(files: Files, name: object, shown: tuple[str, str]) -> None:
    """Fail if a call differs beside others, or changed a row of theirs."""
    alone, beside = shown
    assert alone == beside, name
    assert files.changed() == [], name
    count("isolation")


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
    "Host.add": lambda db: trip(db).host.add([{"role": "user", "text": "added"}]),
    "MemDB.jobs": lambda db: repr(type(db.jobs)),
    "Tools.memory_compact": lambda db: long(db).tools().memory_compact(archive=False),
    "MemDB.run": lambda db: db.run(lambda sync: sync.scope("ann").sessions()),
    "Session.fork": lambda db: repr(db.scope("ann").session("trip").fork("fork")),
    "Artifacts.versions": lambda db: ann(db).artifacts.versions("menu.md", session="trip"),
    "State.get": lambda db: ann(db).state.get("colour"),
    "State.delete": lambda db: (ann(db).state.delete("size"), ann(db).state.delete("nothing")),
}

# What is about the whole file, what is no call, and what only `sync` of the file has.
NOT_OF_A_USER = {
    *("File.check", "File.info", "File.mark", "File.spaces", "File.stamp", "File.rebuild"),
    *("File.vacuum", "File.backup", "File.drop_space", "Jobs.run", "Jobs.run_due", "Jobs.start"),
    *("Jobs.pending", "MemDB.close", "MemDB.query", "MemDB.scopes", "MemDB.sync", "MemDB.path"),
    "MemDB.stats",
    *(
        "StoredSettings.update",
        "StoredSettings.override",
        "Scope.app",
        "Scope.user",
        "Session.name",
    ),
}


def test_every_call_of_aio_keeps_users_apart(files: Files, loop: asyncio.AbstractEventLoop) -> None:
    """The calls of the synchronous API, those that aio has, and its own."""
    called = set[str]()
    workers = [Worker(db.path) for db in files.opened]
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
    } - {memdb.aio.Opening, parts.Wrapper}
    public = {f"{one.__name__}.{name}" for one in kinds for name in dir(one) if name[0] != "_"}
    assert public - called - NOT_OF_A_USER == set()
    for worker in workers:
        worker.shutdown(wait=True)


def test_calls_that_share_a_transaction_share_no_failure(files: Files) -> None:
    """Appends made at once are stored together; one of others that fails is theirs alone."""

    async def talk(db: MemDB, *, with_others: bool) -> list[object]:
        worker = Worker(db.path)
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
# {entry}, {theirs}, {summary} and {folder} are filled in.
COMMANDS: dict[str, list[list[str]]] = {
    "chat append": [["trip", "one more"], [S["session"], "mine"]],
    "chat show": [["trip"], ["long", "--budget", "100"], [S["summarised_session"]]],
    "chat list": [[]],
    "chat search": [["trip", "message"], ["long", S["text"]], [S["session"], S["text"]]],
    "chat context": [["long", "--budget", "300", "--query", "tea"], [S["archived_session"]]],
    "chat window": [["long", "--strategy", "token_window"], [S["archived_session"]]],
    "chat tree": [["long"], [S["summarised_session"]]],
    "chat expand": [["long", "1-5"], ["long", "{summary}"], [S["archived_session"], "{summary}"]],
    "chat compact": [["due", "--keep-last", "3"], [S["summarised_session"]]],
    "chat archive": [["due", "--keep-last", "2"], [S["archived_session"]]],
    "chat unarchive": [["due"], [S["archived_session"]]],
    "chat title": [["trip", "mine"], [S["summarised_session"], "mine"]],
    "chat edit": [["trip", "1", "mine"], [S["summarised_session"], "1", "mine"]],
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
    "entry show": [["{entry}"], ["home"], ["{theirs}"], [S["entry_key"]]],
    "entry history": [["home"], ["{theirs}"], [S["entry_key"]]],
    "entry supersede": [["home", "{theirs}"], ["{theirs}", "home"]],
    "entry pin": [["home"], ["{theirs}"]],
    "entry unpin": [["home"], ["{theirs}"]],
    "entry off": [["home"], ["{theirs}"]],
    "entry on": [["home"], ["{theirs}"]],
    "entry edit": [["home", "--importance", "7"], ["{theirs}", "--text", "mine"]],
    "entry delete": [["home", "--dry-run"], ["{theirs}", "--yes"], [S["entry_key"], "--yes"]],
    "forget": [
        ["--query", "message", "--dry-run"],
        ["--entry", "{theirs}", "--yes"],
        ["--session", S["archived_session"], "--yes"],
        ["--query", S["text"], "--yes", "--prove"],
        ["--session", "cold", "--yes", "--prove"],
    ],
    "secrets scan": [[], ["--entropy"]],
    "item put": [
        ["notes", "k", "mine"],
        [S["item_label"], S["item_key"], "1", "--if-revision", "0"],
    ],
    "item get": [["notes/trip", "tent"], [S["item_label"], S["item_key"]]],
    "item list": [[], ["notes", "--where", "stars>=3"], [S["item_label"]]],
    "item namespaces": [[], [S["item_label"], "--depth", "1"]],
    "item delete": [["notes", "raw", "--yes"], [S["item_label"], S["item_key"], "--yes"]],
    "artifact save": [["new.md", "{folder}/data.txt", "--session", "trip"]],
    "artifact load": [["menu.md", "--session", "trip"], [S["artifact"], "--session", S["session"]]],
    "artifact list": [[], ["--session", "trip"], ["--session", S["session"]]],
    "artifact versions": [["menu.md", "--session", "trip"], [f"user:{S['artifact_user']}"]],
    "artifact rename": [
        ["menu.md", "card.md", "--session", "trip"],
        [S["artifact"], "mine.md", "--session", S["session"]],
    ],
    "artifact delete": [["menu.md", "--session", "trip", "--yes"], [S["artifact"], "--yes"]],
    "import": [["{folder}/lines.jsonl", "--session", "new", "--no-embed"]],
    "export": [["-"], ["{folder}/out.jsonl"], ["{folder}/out.db", "--sqlite"]],
}

# Commands without --user are about the file, or about none.
SERVERS = {"mcp": "serves the tools that are tried below"}


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


def test_every_command_keeps_users_apart(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output, exit code and error are those of a file without the others."""
    names, home = names_of_others(files.beside), entry(files.alone)
    files.close()
    monkeypatch.setattr(memdb, "open", lambda path, **_: open_as(Path(path), 0))
    runner = CliRunner(env={"MEMDB_USER": "ann", "MEMDB_APP": "default"})
    for folder in files.folders:
        (folder / "data.txt").write_text("data", encoding="utf-8")
        (folder / "lines.jsonl").write_text('{"role": "user", "content": "x"}\n', encoding="utf-8")
    filled = {"entry": home, "theirs": names.entry, "summary": names.summary}

    def run(path: Path, command: str, given: list[str]) -> object:
        words = [one.format(**filled, folder=path.parent) for one in given]
        line = [*command.split(), str(path), *words]
        done = runner.invoke(cli, line, prog_name="memdb")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    for command, lines in COMMANDS.items():
        for given in lines:
            shown = files.compare_paths(lambda path, g=given, c=command: run(path, c, g))
            assert_apart(files, [command, *given], shown)


WHO = {"app_name": "default", "user_id": "ann"}
HERS = {**WHO, "session_id": "trip"}
THEIRS = {**WHO, "session_id": S["session"]}
ONE = {"filename": "menu.md"}
OTHER = {"filename": S["artifact"]}


def call_tools(files: Files, tools: dict[str, list[dict[str, Any]]]) -> None:
    """Call each tool of an MCP server with each of its arguments, and read its resources."""
    from mcp import Client

    from memdb.integrations.mcp import make_server

    uris = [
        *("memory://knowledge-graph", "memdb://sessions/trip", f"memdb://sessions/{S['session']}"),
        *("memdb://sessions/trip/artifacts/menu.md", f"memdb://artifacts/{S['artifact']}"),
        f"memdb://sessions/{S['session']}/artifacts/{S['artifact']}",
        f"memdb://artifacts/user%3A{S['artifact_user']}",
    ]

    async def talk(db: MemDB) -> list[tuple[str, str]]:
        worker = Worker(db.path)
        server = make_server(memdb.aio.MemDB(db, worker), user="ann", compat=True)
        found = []
        async with Client(server) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == tools.keys()
            for name, calls in tools.items():
                for given in calls:
                    answer = await client.call_tool(name, given)
                    found.append((f"{name} {given}", repr(answer)))
            for uri in uris:
                try:
                    found.append((uri, repr(await client.read_resource(uri))))
                except Exception as error:  # noqa: BLE001
                    found.append((uri, repr(error)))
            found.append(("templates", repr(await client.list_resource_templates())))
            found.append(("resources", repr(await client.list_resources())))
        worker.shutdown(wait=True)
        return found

    both = [asyncio.run(talk(db)) for db in files.opened]
    for (given, alone), (_, beside) in zip(*both, strict=True):
        assert_apart(files, given, (alone, beside))


def test_every_tool_of_mcp_keeps_users_apart(files: Files) -> None:
    """Those of memdb and of the official memory server, and the resources."""
    pytest.importorskip("mcp")
    names = names_of_others(files.beside)
    entity = {"name": "tea", "entityType": "drink", "observations": ["hot"]}
    relation = {"from": "tea", "to": S["graph"], "relationType": "is"}
    call_tools(
        files,
        {
            "remember": [{"text": "Ann likes tea."}, {"text": "Mine.", "key": S["entry_key"]}],
            "recall": [{"query": query} for query in (*QUERIES, S["artifact_text"])],
            "context": [{"session": "long", "query": "tea"}, {"session": S["archived_session"]}],
            "expand": [
                {"session": "long", "id": "1-5"},
                {"session": "long", "id": names.summary},
                {"session": S["summarised_session"], "id": names.summary},
            ],
            "forget": [
                {"query": "message", "dry_run": True},
                {"entry": names.entry},
                {"session": S["archived_session"]},
                {"query": S["text"]},
            ],
            "artifact_save": [
                {"name": "user:a.md", "text": "mine"},
                {"name": S["artifact"], "text": f"{S['artifact_text']} soup", "session": "trip"},
            ],
            "artifact_load": [
                {"name": "menu.md", "session": "trip"},
                {"name": f"user:{S['artifact_user']}"},
                {"name": S["artifact_deleted"], "session": S["session"]},
            ],
            "artifact_list": [{}, {"session": S["session"]}],
            "chat_append": [
                {"session": "trip", "role": "user", "text": "x"},
                {
                    "session": S["session"],
                    "role": "user",
                    "text": "mine",
                    "external_id": f"{S['external_id']}-0",
                },
            ],
            "create_entities": [{"entities": [entity]}],
            "create_relations": [{"relations": [relation]}],
            "add_observations": [
                {"observations": [{"entityName": "tea", "contents": ["green"]}]},
                {"observations": [{"entityName": S["graph"], "contents": ["mine"]}]},
            ],
            "delete_entities": [{"entityNames": [S["graph"]]}],
            "delete_observations": [
                {"deletions": [{"entityName": S["graph"], "observations": ["x"]}]}
            ],
            "delete_relations": [{"relations": [relation]}],
            "read_graph": [{}],
            "search_nodes": [{"query": "e"}, {"query": S["graph"]}],
            "open_nodes": [{"names": ["tea", S["graph"]]}],
        },
    )


def compare_services(
    files: Files, loop: asyncio.AbstractEventLoop, make: Any, calls: list[tuple[str, Any]]
) -> set[str]:
    """Do the calls of a service or session on both files, in turn; return their names."""
    served = {id(db): make(db) for db in files.opened}
    for _, call in calls:

        def run(db: MemDB, call: Any = call) -> object:
            return loop.run_until_complete(_waited(call(served[id(db)])))

        assert_apart(files, inspect.getsource(call), files.compare(run))
    for service in served.values():
        closing = service.close()
        if closing is not None:
            loop.run_until_complete(closing)
    return {name for name, _ in calls}


def coroutines(kind: type) -> set[str]:
    """Return the names of the public coroutine functions of a class."""
    return {
        name
        for name in dir(kind)
        if name[0] != "_" and inspect.iscoroutinefunction(getattr(kind, name))
    }


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ADK's clock stand still."""
    platform_time = pytest.importorskip("google.adk.platform.time")
    monkeypatch.setattr(platform_time, "get_time", lambda: NOW_MS / 1000)


def event(text: str, event_id: str) -> Any:
    """Return an event with state for every place."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    return Event(
        id=event_id,
        author="user",
        timestamp=NOW_MS / 1000,
        invocation_id="i",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta={"a": 1, "user:b": 2, "app:c": 3}),
    )


def test_every_call_of_the_adk_session_service_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop, frozen: None
) -> None:
    """Sessions, events and state."""
    from google.adk.sessions import Session

    from memdb.integrations.adk import MemdbSessionService

    async def append(service: Any, name: str, event_id: str) -> object:
        session = await service.get_session(**WHO, session_id=name) or Session(id=name, **WHO)
        return await service.append_event(session, event("more tea", event_id))

    tried = compare_services(
        files,
        loop,
        MemdbSessionService,
        [
            ("get_session", lambda service: service.get_session(**HERS)),
            ("get_session", lambda service: service.get_session(**THEIRS)),
            ("list_sessions", lambda service: service.list_sessions(**WHO)),
            ("get_user_state", lambda service: service.get_user_state(**WHO)),
            ("create_session", lambda service: service.create_session(**THEIRS, state={"x": 1})),
            (
                "create_session",
                lambda service: service.create_session(**WHO, session_id=S["archived_session"]),
            ),
            ("append_event", lambda service: append(service, "trip", "new")),
            ("append_event", lambda service: append(service, "trip", f"{S['external_id']}-0")),
            ("append_event", lambda service: append(service, S["forked_session"], "e")),
            (
                "delete_session",
                lambda service: service.delete_session(**WHO, session_id=S["summarised_session"]),
            ),
            ("delete_session", lambda service: service.delete_session(**HERS)),
        ],
    )
    assert coroutines(MemdbSessionService) - tried == {"close", "flush"}


def test_every_call_of_the_adk_memory_service_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop, frozen: None
) -> None:
    """Memories, and the events in the app that only this service reads."""
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types

    from memdb.integrations.adk import MemdbMemoryService

    number = names_of_others(files.beside).entry

    def memory(text: str, memory_id: str) -> Any:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        return MemoryEntry(id=memory_id, content=content)

    tried = compare_services(
        files,
        loop,
        lambda db: MemdbMemoryService(db, by_meaning=True),
        [
            ("search_memory", lambda service: service.search_memory(**WHO, query="Oslo lamp tea")),
            ("search_memory", lambda service: service.search_memory(**WHO, query=S["text"])),
            (
                "add_session_to_memory",
                lambda service: service.add_session_to_memory(
                    Session(id="trip", **WHO, events=[event("red tea", "1")])
                ),
            ),
            (
                "add_events_to_memory",
                lambda service: service.add_events_to_memory(
                    **THEIRS, events=[event("tea", f"{S['external_id']}-0")]
                ),
            ),
            (
                "add_memory",
                lambda service: service.add_memory(
                    **WHO, memories=[memory("a lamp", "m"), memory("a cup", f"entry:{number}")]
                ),
            ),
            ("search_memory", lambda service: service.search_memory(**WHO, query="red lamp tea")),
            (
                "delete_memory",
                lambda service: service.delete_memory(**WHO, memory_id=f"entry:{number}"),
            ),
            (
                "delete_memory",
                lambda service: service.delete_memory(**WHO, memory_id=f"{S['external_id']}-1"),
            ),
            ("search_memory", lambda service: service.search_memory(**WHO, query="cup tea")),
        ],
    )
    assert coroutines(MemdbMemoryService) - tried == {"close"}


def test_every_call_of_the_adk_artifact_service_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop, frozen: None
) -> None:
    """Names, bytes and versions."""
    from google.genai import types

    from memdb.integrations.adk import MemdbArtifactService

    part = types.Part(text="soup")
    tried = compare_services(
        files,
        loop,
        MemdbArtifactService,
        [
            ("list_artifact_keys", lambda service: service.list_artifact_keys(**HERS)),
            ("list_artifact_keys", lambda service: service.list_artifact_keys(**THEIRS)),
            ("list_artifact_keys", lambda service: service.list_artifact_keys(**WHO)),
            ("load_artifact", lambda service: service.load_artifact(**HERS, **ONE)),
            ("load_artifact", lambda service: service.load_artifact(**THEIRS, **OTHER)),
            ("list_versions", lambda service: service.list_versions(**HERS, **ONE)),
            ("list_versions", lambda service: service.list_versions(**THEIRS, **OTHER)),
            (
                "list_artifact_versions",
                lambda service: service.list_artifact_versions(**HERS, **ONE),
            ),
            (
                "list_artifact_versions",
                lambda service: service.list_artifact_versions(**THEIRS, **OTHER),
            ),
            ("get_artifact_version", lambda service: service.get_artifact_version(**HERS, **ONE)),
            (
                "get_artifact_version",
                lambda service: service.get_artifact_version(**THEIRS, **OTHER),
            ),
            ("save_artifact", lambda service: service.save_artifact(**HERS, **ONE, artifact=part)),
            (
                "save_artifact",
                lambda service: service.save_artifact(**HERS, **OTHER, artifact=part),
            ),
            ("delete_artifact", lambda service: service.delete_artifact(**THEIRS, **OTHER)),
            ("delete_artifact", lambda service: service.delete_artifact(**HERS, **ONE)),
        ],
    )
    assert coroutines(MemdbArtifactService) - tried == {"close"}


def test_every_call_of_an_agents_session_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop
) -> None:
    """Items and branches; others have sessions of the same name, and read theirs before."""
    pytest.importorskip("agents")
    from memdb.integrations.openai_agents import MemDBSession

    item = {"role": "user", "content": "more tea"}

    def make(db: MemDB) -> Any:
        for user, app in OTHERS if db is files.beside else ():
            for name in ("trip", "due", S["session"]):
                others = MemDBSession(name, db, user=user, app=app)
                asyncio.run(others.get_items())
                others.close()
        return MemDBSession("due", db, user="ann")

    async def fit(session: Any) -> object:
        return await session.within(100)([item] * 40, [item])

    async def compact(session: Any) -> object:
        snapshot = await session._get_compaction_snapshot(5)
        return snapshot.candidate_items, await session._atomic_replace_items([item])

    async def read_theirs(session: Any) -> object:
        other = MemDBSession(S["session"], session._opened()._db.sync, user="ann")
        found = await other.get_items(), await other.pop_item(), await other.list_branches()
        await other.clear_session()
        other.close()
        return found

    tried = compare_services(
        files,
        loop,
        make,
        [
            ("get_items", lambda session: session.get_items()),
            ("get_items", lambda session: session.get_items(2, S["session"])),
            ("add_items", lambda session: session.add_items([item])),
            ("search", lambda session: session.search("tea")),
            ("search", lambda session: session.search(S["text"])),
            ("recall", lambda session: session.recall("Oslo lamp")),
            ("context_items", lambda session: session.context_items(200, "lamp")),
            ("within", fit),
            ("find_turns_by_content", lambda session: session.find_turns_by_content("tea 3")),
            ("get_conversation_turns", lambda session: session.get_conversation_turns()),
            ("create_branch_from_turn", lambda session: session.create_branch_from_turn(3, "alt")),
            ("list_branches", lambda session: session.list_branches()),
            ("switch_to_branch", lambda session: session.switch_to_branch(S["session"])),
            ("switch_to_branch", lambda session: session.switch_to_branch("main")),
            ("delete_branch", lambda session: session.delete_branch("alt")),
            ("delete_branch", lambda session: session.delete_branch(S["forked_session"])),
            (
                "create_branch_from_content",
                lambda session: session.create_branch_from_content("tea 5", "more"),
            ),
            ("pop_item", lambda session: session.pop_item()),
            ("compaction", compact),
            ("another session", read_theirs),
            ("clear_session", lambda session: session.clear_session()),
            ("get_items", lambda session: session.get_items()),
        ],
    )
    assert coroutines(MemDBSession) - tried == {"aclose"}
