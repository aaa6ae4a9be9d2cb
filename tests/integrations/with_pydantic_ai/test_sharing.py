"""Conversations beside other clients, callers and processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import memdb
import memdb.aio
from memdb.adapters.host import Host
from memdb.integrations.pydantic_ai import MemdbConversationStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TALK = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Weather in Oslo?")]),
    ModelResponse([ToolCallPart("weather", {"city": "Oslo"}, tool_call_id="c1")]),
    ModelRequest([ToolReturnPart("weather", "Rain.", tool_call_id="c1")]),
    ModelResponse([TextPart("It rains.")]),
]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "agent.db", durability="process") as opened:
        yield opened


@pytest.fixture
def store(db: memdb.MemDB) -> MemdbConversationStore:
    return MemdbConversationStore(db, user="ann")


def request(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def talk(name: str, *texts: str) -> Conversation:
    return Conversation(conversation_id=name, messages=[request(text) for text in texts])


def texts(db: memdb.MemDB, name: str) -> list[str]:
    return [one.text for one in db.scope("ann").session(name).messages()]


@pytest.mark.asyncio
async def test_other_clients_read_roles_calls_and_results(
    store: MemdbConversationStore, db: memdb.MemDB
) -> None:
    """The session of a conversation is the path of its head; recall finds each text once."""
    await store.save(Conversation(conversation_id="trip", messages=[*TALK]))
    chat = db.scope("ann").session("trip")
    roles = [one.role for one in chat.messages()]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    openai = Host(chat).window().to("openai")["messages"]
    assert openai[2]["tool_calls"][0]["function"]["name"] == "weather"
    assert openai[3] == {"role": "tool", "tool_call_id": "c1", "content": "Rain."}
    hits = db.scope("ann").recall("weather in Oslo", 3, kinds=["message"])
    assert {hit.source.session for hit in hits} == {"trip"}
    assert [hit.text for hit in hits].count("Weather in Oslo?") == 1
    assert db.scope("ann").recall("weather", kinds=["item"]).hits == ()


@pytest.mark.asyncio
async def test_a_session_shows_the_path_of_the_head(
    store: MemdbConversationStore, db: memdb.MemDB
) -> None:
    """After a branch, and after going back; what was left is found too, once."""
    conversation = talk("trip", "one", "two", "three")
    await store.save(conversation)
    tip = (await store.load_entries("trip") or [])[-1].id
    branched = await store.branch("trip", at=1, expected_revision=conversation.revision or "")
    assert texts(db, "trip") == ["one"]
    branched.messages.append(request("lighthouse"))
    await store.save(branched)
    assert texts(db, "trip") == ["one", "lighthouse"]
    await store.branch("trip", from_entry=tip, expected_revision=branched.revision or "")
    assert texts(db, "trip") == ["one", "two", "three"]
    hits = db.scope("ann").recall("lighthouse", 5, kinds=["message"])
    assert [hit.text for hit in hits] == ["lighthouse"]
    assert db.file.check() == []


OTHERS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
    {"role": "assistant", "content": "It rains."},
]


@pytest.mark.asyncio
async def test_what_other_clients_wrote_is_loaded_and_continued(
    store: MemdbConversationStore, db: memdb.MemDB
) -> None:
    """A tool's words are a tool's; what they add meanwhile is a conflict, and then loaded."""
    chat = db.scope("ann").session("s")
    chat.append(OTHERS)
    loaded = await store.load("s")
    assert loaded is not None
    kinds = [(one.kind, one.parts[0].part_kind) for one in loaded.messages]
    assert kinds == [
        ("request", "system-prompt"),
        ("request", "user-prompt"),
        ("response", "tool-call"),
        ("request", "tool-return"),
        ("response", "text"),
    ]
    entries = await store.load_entries("s") or []
    assert [one.parent_id for one in entries] == [None, *(one.id for one in entries)][:-1]
    assert await store.read_entry(entries[1].id) == entries[1]
    assert isinstance(result := loaded.messages[3].parts[0], ToolReturnPart)
    assert (result.tool_name, result.content, result.tool_call_id) == ("weather", "Rain.", "c1")

    loaded.messages.append(request("Thanks."))
    await store.save(loaded)
    chat.append("assistant", "From elsewhere.")
    loaded.messages.append(request("stale"))
    with pytest.raises(ConversationConflict):
        await store.save(loaded)
    again = await store.load("s")
    assert again is not None
    assert [one.parts[0].content for one in again.messages[-2:]] == ["Thanks.", "From elsewhere."]
    again.messages.append(request("More."))
    await store.save(again)
    assert texts(db, "s")[-3:] == ["Thanks.", "From elsewhere.", "More."]

    fork = await store.fork("s", at=3, new_conversation_id="f")
    branched = await store.branch("s", at=2, expected_revision=again.revision or "")
    await store.delete("s")
    assert branched.messages == fork.messages[:2]
    assert (await store.load("f") or fork).messages == fork.messages
    assert texts(db, "s") == []
    assert db.file.check() == []


@pytest.mark.asyncio
async def test_what_is_forgotten_is_gone_from_every_line(
    store: MemdbConversationStore, db: memdb.MemDB
) -> None:
    """The rest of the conversation still loads and goes on."""
    conversation = talk("trip", "one", "the code is 5521", "three")
    await store.save(conversation)
    db.scope("ann").forget(session="trip", seqs=[2])
    loaded = await store.load("trip")
    assert loaded is not None
    assert loaded.messages == [conversation.messages[0], conversation.messages[2]]
    loaded.messages.append(request("four"))
    await store.save(loaded)
    assert texts(db, "trip") == ["one", "three", "four"]
    branched = await store.branch("trip", at=1, expected_revision=loaded.revision or "")
    assert texts(db, "trip") == ["one"]
    assert len(branched.messages) == 1
    db.scope("ann").delete(session="trip")
    assert (await store.load("trip") or loaded).messages == []


@pytest.mark.asyncio
async def test_bad_input_is_refused_whole(store: MemdbConversationStore, db: memdb.MemDB) -> None:
    """Hostile names are literal, or a UserError; nothing is written."""
    for name in ("../x", "a%", "_", "*", "[a]", "a#1", "A", "á"):
        await store.save(talk(name, name))
    for name in ("../x", "a%", "_", "*", "[a]", "a#1", "A", "á"):
        assert texts(db, name) == [name]
    for name in ("", " ", "a\0b", "a\ud800", "x" * 10_000):
        assert await store.load(name) is None
        await store.delete(name)
        with pytest.raises((UserError, ConversationConflict)):
            await store.save(talk(name, "x"))
    unserialisable = ModelResponse([ToolCallPart("f", {"o": object()})])
    with pytest.raises(UserError, match="JSON form"):
        await store.save(
            Conversation(conversation_id="c", messages=[request("first"), unserialisable])
        )
    assert await store.load("c") is None
    for entry_id in ("", "a\0b", "none", "none#1", "a#x", "a#1#99999999999999999999"):
        with pytest.raises(LookupError):
            await store.read_entry(entry_id)


@pytest.mark.asyncio
async def test_a_stale_writer_writes_nothing(tmp_path: Path, db: memdb.MemDB) -> None:
    """Two stores, two files' handles: one wins."""
    async with MemdbConversationStore(db.path) as other:
        mine = MemdbConversationStore(db)
        await mine.save(talk("c", "one"))
        first, second = await mine.load("c"), await other.load("c")
        assert first is not None
        assert second is not None
        first.messages.append(request("mine"))
        second.messages.append(request("other"))
        results = await asyncio.gather(mine.save(first), other.save(second), return_exceptions=True)
        assert [type(one) for one in results].count(ConversationConflict) == 1
        loaded = await mine.load("c")
        assert loaded is not None
        assert len(loaded.messages) == 2
    with pytest.raises(memdb.Closed):
        await other.load("c")


@pytest.mark.asyncio
async def test_a_cancelled_save_is_whole_or_absent(store: MemdbConversationStore) -> None:
    """At each await: record, entries and session agree, and the next call works."""

    async def begin() -> None:
        loaded = await store.load("c") or Conversation(conversation_id="c")
        loaded.messages += [request("question"), ModelResponse([TextPart("answer")])]
        await store.save(loaded)

    async def check() -> None:
        loaded = await store.load("c")
        entries = await store.load_entries("c")
        if loaded is None:
            assert entries is None
        else:
            assert len(loaded.messages) % 2 == 0
            assert [one.message for one in entries or []] == loaded.messages

    assert await cancel_at_each_await(begin, check) > 0


@pytest.mark.asyncio
async def test_a_file_of_memdb_aio_is_shared(tmp_path: Path) -> None:
    async with memdb.aio.open(tmp_path / "agent.db") as db:
        store = MemdbConversationStore(db)
        await store.save(talk("c", "one"))
        assert [one.text for one in await db.scope("default").session("c").messages()] == ["one"]


WRITE = """
import asyncio, sys
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart
from memdb.integrations.pydantic_ai import MemdbConversationStore
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
async def main():
    async with MemdbConversationStore(path) as store:
        await store.load("own")
        for n in range(writes):
            shared = n % 10 == 0
            name = "shared" if shared else f"own {number}"
            while True:
                talk = await store.load(name, limit=2) or Conversation(conversation_id=name)
                talk.messages.append(ModelRequest([UserPromptPart(f"{number}-{n}")]))
                try:
                    await store.save(talk)
                    break
                except ConversationConflict:
                    pass
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_processes_save(tmp_path: Path) -> None:
    """150 each, every tenth into one conversation: a conflict is told, and nothing is lost."""
    path = tmp_path / "agent.db"
    run_at_once(WRITE, path)
    with memdb.open(path) as db:
        names = ["shared", *(f"own {number}" for number in range(PROCESSES))]
        found = [one.text for name in names for one in db.scope("default").session(name).messages()]
        assert sorted(found) == sorted(f"{p}-{n}" for p in range(PROCESSES) for n in range(WRITES))
        assert db.file.check() == []
        store = MemdbConversationStore(db)
        assert len((asyncio.run(store.load("shared")) or talk("x")).messages) == PROCESSES * 15


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_twelve_open_at_once(tmp_path: Path) -> None:
    """A fresh file."""
    run_at_once(WRITE, tmp_path / "agent.db", processes=OPENERS, writes=0)
