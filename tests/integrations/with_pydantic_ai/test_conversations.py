"""
The contract of Pydantic AI's conversation stores, of its own in-memory store and of memdb's.

The cases are those that its documentation promises: what holds for one has to hold for both.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

import memdb
from memdb.integrations.pydantic_ai import MemdbConversationStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio

MESSAGES = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Weather in Oslo?")]),
    ModelResponse(
        [
            ThinkingPart("I should look."),
            ToolCallPart("weather", {"city": "Oslo", "day": None}, tool_call_id="c1"),
            ToolCallPart("weather", '{"city": "Bergen"}', tool_call_id="c2"),
        ],
        usage=RequestUsage(input_tokens=3, output_tokens=1),
        model_name="m",
        provider_details={"a": None, "b": [None]},
    ),
    ModelRequest(
        [
            ToolReturnPart("weather", {"rain": True, "none": None}, tool_call_id="c1"),
            ToolReturnPart("weather", "no such city", tool_call_id="c2"),
            UserPromptPart(["And in", BinaryContent(b"%PDF", media_type="application/pdf")]),
        ]
    ),
    ModelResponse([TextPart("It rains.\0 Lone \ud800.")]),
    ModelResponse([]),
    ModelRequest([UserPromptPart("Thanks.")], metadata={"k": None}),
]


def user(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def model(text: str) -> ModelResponse:
    return ModelResponse([TextPart(text)])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "agent.db", durability="process") as opened:
        yield opened


@pytest.fixture(params=["reference", "memdb"])
def store(request: Any, db: memdb.MemDB) -> ConversationStore:
    if request.param == "reference":
        return InMemoryConversationStore()
    return MemdbConversationStore(db)


async def saved(store: ConversationStore, name: str, texts: list[str], **more: Any) -> Conversation:
    """Save a conversation of texts, of the user and the model in turns."""
    messages = [model(text) if at % 2 else user(text) for at, text in enumerate(texts)]
    conversation = Conversation(conversation_id=name, messages=[*messages])
    await store.save(conversation, **more)
    return conversation


def words(conversation: Conversation | None) -> list[str]:
    assert conversation is not None
    return [str(getattr(one.parts[0], "content", "")) for one in conversation.messages]


async def test_a_conversation_comes_back_equal(store: ConversationStore) -> None:
    """Messages, usage and revision; each entry points at the one before."""
    conversation = Conversation(
        conversation_id="c", messages=[*MESSAGES], usage=RunUsage(requests=3, tool_calls=2)
    )
    entries = await store.save(conversation, scope="ann")
    loaded = await store.load("c")
    assert loaded == conversation
    assert loaded.revision is not None
    again = await store.load_entries("c")
    assert again == entries
    assert [one.parent_id for one in entries] == [None, *(one.id for one in entries)][:-1]
    for entry in entries:
        assert await store.read_entry(entry.id) == entry
    assert await store.load("c", scope="bob") is None
    assert await store.load("other") is None
    with pytest.raises(UserError):
        await store.load("c", limit=-1)


async def test_a_save_stores_what_is_new(store: ConversationStore) -> None:
    """Loaded, continued, saved: only the new messages; the revision moves each time."""
    first = await saved(store, "c", ["q1", "a1"])
    loaded = await store.load("c")
    assert loaded is not None
    loaded.messages += [user("q2"), model("a2")]
    before = loaded.revision
    assert [one.message for one in await store.save(loaded)] == loaded.messages[2:]
    assert loaded.revision != before
    assert await store.save(loaded) == []
    assert words(await store.load("c")) == ["q1", "a1", "q2", "a2"]
    assert words(await store.load("c", limit=3)) == ["a1", "q2", "a2"]
    assert words(await store.load("c", limit=0)) == []
    with pytest.raises(ConversationConflict):
        await store.save(first)


async def test_a_window_is_continued(store: ConversationStore) -> None:
    """A save of the last messages appends to the whole."""
    await saved(store, "c", ["q1", "a1", "q2", "a2"])
    window = await store.load("c", limit=1)
    assert window is not None
    window.messages.append(user("q3"))
    await store.save(window)
    assert words(await store.load("c")) == ["q1", "a1", "q2", "a2", "q3"]


async def test_a_rewritten_history_branches_off(store: ConversationStore) -> None:
    """The old line stays, and can be gone back to; and from there to the new one."""
    await saved(store, "c", ["q1", "a1", "q2", "a2"])
    loaded = await store.load("c")
    assert loaded is not None
    old_tip = (await store.load_entries("c") or [])[-1]
    rewritten = replace(loaded, messages=[*loaded.messages[:2], user("other"), model("b2")])
    rewritten.new_message_index = None
    added = await store.save(rewritten)
    assert len(added) == 2
    assert words(await store.load("c")) == ["q1", "a1", "other", "b2"]
    record = await store.read_record("c")
    assert record is not None
    assert record.branches == [old_tip.id]
    assert (await store.read_entry(old_tip.id)).message == old_tip.message

    back = await store.branch("c", from_entry=old_tip.id, expected_revision=record.revision)
    assert words(back) == words(await store.load("c")) == ["q1", "a1", "q2", "a2"]
    back.messages.append(user("q3"))
    await store.save(back)
    assert words(await store.load("c")) == ["q1", "a1", "q2", "a2", "q3"]
    again = await store.branch("c", from_entry=added[-1].id, expected_revision=back.revision or "")
    assert words(again) == words(await store.load("c")) == ["q1", "a1", "other", "b2"]


async def test_a_branch_at_keeps_the_first_messages(store: ConversationStore) -> None:
    """And refuses a stale revision, an entry of elsewhere, and both or none of at and from."""
    conversation = await saved(store, "c", ["q1", "a1", "q2"])
    other = await saved(store, "other", ["x"])
    revision = conversation.revision or ""
    for wrong in ({"at": 4}, {"at": -1}, {"at": 1, "from_entry": "e"}, {}, {"from_entry": "e"}):
        with pytest.raises(UserError):
            await store.branch("c", expected_revision=revision, **wrong)
    with pytest.raises(UserError):
        await store.branch("none", at=0, expected_revision=revision)
    with pytest.raises(ConversationConflict):
        await store.branch("c", at=1, expected_revision=other.revision or "")
    branched = await store.branch("c", at=1, expected_revision=revision)
    branched.messages.append(model("b1"))
    await store.save(branched)
    assert words(await store.load("c")) == ["q1", "b1"]
    nothing = await store.branch("c", at=0, expected_revision=branched.revision or "")
    assert words(nothing) == words(await store.load("c")) == []


async def test_a_fork_shares_entries_and_lives_on(store: ConversationStore) -> None:
    """Deleting the one it came from frees what the fork does not use, and only that."""
    await saved(store, "c", ["q1", "a1", "q2"], scope="ann")
    entries = await store.load_entries("c") or []
    fork = await store.fork("c", at=2, new_conversation_id="f")
    assert [one.id for one in await store.load_entries("f") or []] == [e.id for e in entries[:2]]
    fork.messages.append(user("other"))
    (added,) = await store.save(fork)
    assert added.parent_id == entries[1].id
    assert words(await store.load("c")) == ["q1", "a1", "q2"]
    record = await store.read_record("f")
    assert record is not None
    assert (record.forked_from, record.forked_at, record.scope) == ("c", entries[1].id, "ann")
    with pytest.raises(ConversationConflict):
        await store.fork("c", new_conversation_id="f")

    await store.delete("c", scope="bob")
    assert await store.load("c") is not None
    await store.delete("c")
    await store.delete("c")
    assert await store.load("c") is None
    assert words(await store.load("f")) == ["q1", "a1", "other"]
    assert (await store.read_entry(entries[0].id)).message == entries[0].message
    with pytest.raises(LookupError):
        await store.read_entry(entries[2].id)
    await store.delete("f")
    for entry in (*entries, added):
        with pytest.raises(LookupError):
            await store.read_entry(entry.id)


async def test_left_branches_keep_their_entries(store: ConversationStore) -> None:
    """A branch that was left is reachable, until its conversation goes."""
    conversation = await saved(store, "c", ["q1", "a1", "q2"])
    tip = (await store.load_entries("c") or [])[-1]
    await store.branch("c", at=1, expected_revision=conversation.revision or "")
    await saved(store, "other", ["x"])
    await store.delete("other")
    assert (await store.read_entry(tip.id)).message == tip.message
    fork = await store.fork("c", from_entry=tip.id, new_conversation_id="f")
    assert words(fork) == ["q1", "a1", "q2"]
    await store.delete("c")
    assert words(await store.load("f")) == ["q1", "a1", "q2"]


async def test_compare_and_swap_of_the_primitives(store: ConversationStore) -> None:
    """A head that is gone, a record that exists, moved or was made anew: nothing is written."""
    entry = ConversationEntry(parent_id=None, message=user("q"))
    beside = ConversationEntry(parent_id=entry.id, message=model("beside"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.raises(ConversationConflict):
        await store.write_record(record, expected_revision=None)
    with pytest.raises(ConversationConflict):
        await store.write_record(record, new_entries=[entry], expected_revision="other")
    with pytest.raises(LookupError):
        await store.read_entry(entry.id)
    await store.write_record(record, new_entries=[entry, beside], expected_revision=None)
    assert (await store.read_entry(beside.id)).message == beside.message
    with pytest.raises(ConversationConflict):
        await store.write_record(record, expected_revision=None)
    with pytest.raises(ConversationConflict):
        await store.delete_record("c", expected_revision="other")
    moved = replace(record, revision="r2", head_id=beside.id)
    await store.write_record(moved, expected_revision=record.revision)
    assert len(await store.load_entries("c") or []) == 2
    await store.delete_record("c", expected_revision="r2")
    with pytest.raises(ConversationConflict):
        await store.delete_record("c", expected_revision="r2")
    with pytest.raises(ConversationConflict):
        await store.write_record(record, expected_revision=None)  # its head went with it


async def test_listing_is_newest_first_by_scope(store: ConversationStore) -> None:
    """By `updated_at`, at most *limit*; a store keeps its own copy."""
    now = datetime.now(UTC)
    for number, scope in enumerate(("ann", "bob", "ann", None)):
        record = ConversationRecord(
            conversation_id=f"c{number}", head_id=None, scope=scope,
            updated_at=now + timedelta(seconds=(number * 7) % 4),
        )  # fmt: skip
        await store.write_record(record, expected_revision=None)
        record.scope = "changed"
    listed = [one.conversation_id for one in await store.list_conversations()]
    assert listed == ["c1", "c2", "c3", "c0"]
    ann = await store.list_conversations(scope="ann", limit=1)
    assert [one.conversation_id for one in ann] == ["c2"]
    assert await store.list_conversations(scope="zoe") == []
    with pytest.raises(UserError):
        await store.list_conversations(limit=-1)


async def test_a_save_in_another_scope_conflicts(store: ConversationStore) -> None:
    conversation = await saved(store, "c", ["q"], scope="ann")
    conversation.messages.append(model("a"))
    with pytest.raises(ConversationConflict):
        await store.save(conversation, scope="bob")
    await store.save(conversation)
    assert (await store.list_conversations(scope="ann"))[0].conversation_id == "c"


async def test_an_agent_continues_a_conversation(store: ConversationStore) -> None:
    """A run's result is saved, loaded and continued; usage adds up."""
    agent = Agent(TestModel(custom_output_text="Noted."))
    conversation = Conversation(conversation_id="trip")
    for number in (1, 2):
        result = await agent.run(f"question {number}", conversation=conversation)
        await store.save(result)
        conversation = await store.load("trip") or conversation
        assert len(conversation.messages) == 2 * number
        assert conversation.usage.requests == number
    assert words(conversation) == ["question 1", "Noted.", "question 2", "Noted."]
