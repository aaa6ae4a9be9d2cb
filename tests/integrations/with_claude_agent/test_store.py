"""The Claude Agent SDK's own contract, and what its contract leaves open."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING

import claude_agent_sdk
import pytest
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once
from claude_agent_sdk import testing

import memdb
from memdb.errors import Closed, InvalidInput, SecretFound
from memdb.integrations.claude_agent import MemdbSessionStore

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.asyncio

PROJECT = "-home-ann-trip"
ID = "6a1f4e0a-9d0b-4d3a-8f43-0d1a5f1b7a01"
KEY = {"project_key": PROJECT, "session_id": ID}
SUB = {**KEY, "subpath": "subagents/agent-1"}


def line(
    role: str, content: object, uuid: str | None = None, **fields: object
) -> dict[str, object]:
    """Return a line as Claude Code writes it."""
    kept = {"uuid": uuid} if uuid else {}
    return {
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": ID,
        "cwd": "/home/ann/trip",
        "timestamp": "2026-08-10T12:00:05.123Z",
        "type": role,
        "message": {"role": role, "content": content},
        **kept,
        **fields,
    }


TALK = [
    line("user", "When does the ferry to Oslo leave?", "u1"),
    line("assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {"p": "a"}}], "u2"),
    line("user", [{"type": "tool_result", "tool_use_id": "t", "content": "Ferry at noon."}], "u3"),
    {"type": "custom-title", "customTitle": "A boat", "sessionId": ID},
]


async def test_the_contract_of_the_sdk(tmp_path: Path) -> None:
    """All 14 contracts, with the four optional methods."""
    number = itertools.count()
    await testing.run_session_store_conformance(
        lambda: MemdbSessionStore(tmp_path / f"{next(number)}.db")
    )


async def test_the_contract_on_one_open_file(tmp_path: Path) -> None:
    """The same, on files that are open, sync and async."""
    number = itertools.count()
    opened = []

    def make() -> MemdbSessionStore:
        opened.append(memdb.open(tmp_path / f"{next(number)}.db"))
        return MemdbSessionStore(opened[-1])

    await testing.run_session_store_conformance(make)
    for db in opened:
        assert db.file.check() == []
        db.close()


async def test_recall_finds_what_was_said_in_its_role() -> None:
    """A tool's result is the tool's, and the title is that of the transcript."""
    with memdb.open(":memory:") as db:
        async with MemdbSessionStore(db, user="ann") as store:
            await store.append(KEY, TALK)
            await store.append(SUB, [line("user", "Read the ferry's page.", isSidechain=True)])
        scope = db.scope("ann", PROJECT)
        roles = {
            message.text: message.role
            for one in scope.sessions()
            for message in scope.session(one.name).messages()
        }
        assert roles["Ferry at noon."] == "tool"
        assert roles["Read the ferry's page."] == "assistant"
        assert [text for text, role in roles.items() if role == "user"] == [
            TALK[0]["message"]["content"]
        ]
        assert "Ferry at noon." in [hit.text for hit in scope.recall("when is the ferry?")]
        assert scope.recall("boat", kinds=["session"])[0].source.session == ID
        assert [one.name for one in scope.sessions()] == [ID, f"{ID}/subagents/agent-1"]


async def test_lines_come_back_byte_for_byte(tmp_path: Path) -> None:
    """In order, also what no file can hold, in another process's object."""
    odd = [
        *TALK,
        line("user", "NUL \0 \ud800"),
        {"type": "x", "n": 1.0, "m": 10**30, "a": {"$": 1}},
    ]
    async with MemdbSessionStore(tmp_path / "a.db") as store:
        await store.append(KEY, odd)
    async with MemdbSessionStore(tmp_path / "a.db") as store:
        assert list(map(json.dumps, await store.load(KEY) or ())) == list(map(json.dumps, odd))


async def test_a_batch_that_is_tried_again_adds_nothing() -> None:
    """Lines with an id are added once, the first to come wins; the others each time."""
    async with MemdbSessionStore(":memory:") as store:
        await store.append(KEY, TALK[:2])
        before = await store.list_session_summaries(PROJECT)
        await store.append(KEY, [{**TALK[0], "late": True}, TALK[1], TALK[1]])
        assert await store.load(KEY) == TALK[:2]
        assert await store.list_session_summaries(PROJECT) == before
        await store.append(KEY, [TALK[3], TALK[3]])
        assert await store.load(KEY) == [*TALK[:2], TALK[3], TALK[3]]


async def test_the_helpers_of_the_sdk() -> None:
    """Its functions over a store list, rename, fork, read and delete."""
    async with MemdbSessionStore(":memory:") as store:
        reply = line(
            "assistant",
            [{"type": "text", "text": "At noon."}],
            "5f3f0d6e-2f0e-4c25-9a9e-7d1f6c1d3c11",
        )
        first = line("user", "When does the ferry leave?", "0e8f3f9e-3b1b-44a5-9d76-64a5f3a1c011")
        await store.append(
            {**KEY, "project_key": claude_agent_sdk.project_key_for_directory("/x")}, [first, reply]
        )
        (info,) = await claude_agent_sdk.list_sessions_from_store(store, directory="/x")
        assert (info.session_id, info.first_prompt) == (ID, "When does the ferry leave?")
        await claude_agent_sdk.rename_session_via_store(store, ID, "Boats", directory="/x")
        (info,) = await claude_agent_sdk.list_sessions_from_store(store, directory="/x")
        assert info.custom_title == "Boats"
        found = await claude_agent_sdk.get_session_messages_from_store(store, ID, directory="/x")
        assert [one.type for one in found]
        fork = await claude_agent_sdk.fork_session_via_store(store, ID, directory="/x")
        assert len(await claude_agent_sdk.list_sessions_from_store(store, directory="/x")) == 2
        await claude_agent_sdk.delete_session_via_store(store, ID, directory="/x")
        (info,) = await claude_agent_sdk.list_sessions_from_store(store, directory="/x")
        assert info.session_id == fork.session_id


async def test_delete_leaves_nothing(tmp_path: Path) -> None:
    """The transcript and its sub-agents go; one with a longer id stays."""
    other = {**KEY, "session_id": f"{ID}0"}
    with memdb.open(tmp_path / "a.db") as db:
        store = MemdbSessionStore(db)
        for key in (KEY, SUB, {**KEY, "subpath": "subagents/w/agent-2"}, other):
            await store.append(key, TALK)
        await store.delete(KEY)
        assert [one.name for one in db.scope("default", PROJECT).sessions()] == [f"{ID}0"]
        assert await store.load(other) == TALK
        await store.append(KEY, TALK)
        assert await store.load(KEY) == TALK
        await store.aclose()


async def test_what_another_client_said_can_be_gone_on_from() -> None:
    """A session that was begun elsewhere is read as lines."""
    with memdb.open(":memory:") as db:
        db.scope("ann", PROJECT).session(ID).append("user", "When is the ferry?")
        async with MemdbSessionStore(db, user="ann") as store:
            (only,) = await store.load(KEY) or ()
            assert (only["type"], only["message"]["role"]) == ("user", "user")
            assert await store.list_session_summaries(PROJECT) == [
                {**(await store.list_sessions(PROJECT))[0], "data": {}}
            ]


HOSTILE = ["../a", "a/b", "a%2Fb", "%", "_", "*", "[", "a" * 1024, " a ", "a\u2442b", "é", "😀"]
IMPOSSIBLE = ["", " ", "a\0b", "\ud800", "a" * 10_000, None, 5, ["a"]]


@pytest.mark.parametrize("name", HOSTILE)
async def test_every_character_of_a_key_is_literal(name: str) -> None:
    """A name is never a path, a pattern or another key."""
    async with MemdbSessionStore(":memory:") as store:
        await store.append(KEY, TALK[:1])
        for key in (
            {"project_key": name, "session_id": "s"},
            {"project_key": PROJECT, "session_id": name},
            {"project_key": PROJECT, "session_id": "s", "subpath": name[:1000]},
        ):
            assert await store.load(key) is None
            await store.append(key, TALK[1:2])
            assert await store.load(key) == TALK[1:2]
            ids = [one["session_id"] for one in await store.list_sessions(key["project_key"])]
            assert ("subpath" in key) or key["session_id"] in ids
        assert await store.list_subkeys({"project_key": PROJECT, "session_id": "s"}) == [
            name[:1000]
        ]
        assert await store.load(KEY) == TALK[:1]


@pytest.mark.parametrize("name", IMPOSSIBLE)
async def test_a_name_that_no_key_can_have(name: object) -> None:
    """Appending is refused with a ValueError; it is found, listed and deleted as absent."""
    async with MemdbSessionStore(":memory:") as store:
        for field in ("project_key", "session_id", "subpath"):
            if (field, name) == ("subpath", None):
                continue
            key = {**KEY, field: name}
            with pytest.raises(ValueError, match=field):
                await store.append(key, TALK)
            assert await store.load(key) is None
            assert await store.list_subkeys(key) == []
            await store.delete(key)
        assert await store.list_sessions(name) == []
        assert await store.list_sessions(PROJECT) == []


@pytest.mark.parametrize("bad", [None, "x", 5, {"a": {1}}, {"a": object()}])
async def test_a_bad_line_leaves_nothing_of_its_batch(bad: object) -> None:
    """Nothing is written."""
    async with MemdbSessionStore(":memory:") as store:
        with pytest.raises(InvalidInput, match=r"entries\[1\]"):
            await store.append(KEY, [TALK[0], bad])
        assert await store.load(KEY) is None
        assert await store.list_sessions(PROJECT) == []


async def test_a_file_that_refuses_secrets() -> None:
    """Nothing of the batch is written, and its error names no secret."""
    with memdb.open(":memory:", settings={"secrets_in_messages": "refuse"}) as db:
        async with MemdbSessionStore(db) as store:
            with pytest.raises(SecretFound):
                await store.append(KEY, [*TALK, line("user", "key AKIAIOSFODNN7EXAMPLQ")])
            assert await store.load(KEY) is None


async def test_a_closed_store_and_another_loop(tmp_path: Path) -> None:
    """A closed store says so; a new loop goes on."""
    store = MemdbSessionStore(tmp_path / "a.db")
    await asyncio.to_thread(asyncio.run, store.append(KEY, TALK[:1]))
    assert await store.load(KEY) == TALK[:1]
    await store.aclose()
    with pytest.raises(Closed):
        await store.append(KEY, TALK)


async def test_cancelling_at_any_await(tmp_path: Path) -> None:
    """Whole or not at all, and the next call works."""
    async with MemdbSessionStore(tmp_path / "a.db") as store:
        number = itertools.count()

        async def call() -> None:
            await store.append(KEY, [line("user", "x", f"{at}-{next(number)}") for at in range(3)])

        async def check() -> None:
            assert len(await store.load(KEY) or ()) % 3 == 0
            await store.append(KEY, [line("user", "y") for _ in range(3)])

        assert await cancel_at_each_await(call, check) > 0


async def test_the_caller_may_change_a_line_at_once() -> None:
    """What is stored is the line as it was handed over."""
    async with MemdbSessionStore(":memory:") as store:
        mine = json.loads(json.dumps(TALK[0]))
        task = asyncio.ensure_future(store.append(KEY, [mine]))
        await asyncio.sleep(0)
        mine["message"]["content"] = "changed"
        await task
        assert await store.load(KEY) == TALK[:1]


SCRIPT = """
import asyncio, sys
from memdb.integrations.claude_agent import MemdbSessionStore
path, number, writes = sys.argv[1], sys.argv[2], int(sys.argv[3])
async def main():
    print("ready", flush=True); sys.stdin.readline()
    async with MemdbSessionStore(path) as store:
        key = {"project_key": "p", "session_id": "s"}
        for at in range(writes):
            word = f"w{number}x{at}"
            await store.append(key, [{"type": "user", "uuid": word, "message": {"role": "user", "content": word}},
                                     {"type": "tag", "tag": word}])
asyncio.run(main())
"""


@pytest.mark.slow
async def test_processes_that_append_at_once(tmp_path: Path) -> None:
    """Nothing is lost, each one's order stays, and the summary is that of all."""
    path = tmp_path / "a.db"
    run_at_once(SCRIPT, path)
    async with MemdbSessionStore(path) as store:
        lines = await store.load({"project_key": "p", "session_id": "s"}) or []
        words = [one["uuid"] for one in lines if one["type"] == "user"]
        assert len(lines) == 2 * PROCESSES * WRITES
        for number in range(PROCESSES):
            own = [one for one in words if one.startswith(f"w{number}x")]
            assert own == [f"w{number}x{at}" for at in range(WRITES)]
        (summary,) = await store.list_session_summaries("p")
        assert summary["data"]["tag"] == lines[-1]["tag"]


@pytest.mark.slow
async def test_fresh_openers(tmp_path: Path) -> None:
    """A dozen processes open a file that is not there yet, and each writes."""
    run_at_once(SCRIPT, tmp_path / "a.db", processes=OPENERS, writes=1)


async def test_a_long_transcript(tmp_path: Path) -> None:
    """Ten thousand lines, in the SDK's batches."""
    lines = [line("user", f"step {at} of the plan", f"u{at}") for at in range(10_000)]
    async with MemdbSessionStore(tmp_path / "a.db") as store:
        for at in range(0, len(lines), 500):
            await store.append(KEY, lines[at : at + 500])
        assert await store.load(KEY) == lines
