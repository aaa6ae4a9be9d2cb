"""What the Agents SDK's compaction does with a session of memdb."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import agents.memory.session
import pytest
from agents import Agent, RunConfig, Runner
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import memdb
from memdb.errors import InvalidItem
from memdb.integrations.openai_agents import MemDBSession

# Earlier releases compact a whole session, and nothing less.
cuts_at_the_end = pytest.mark.skipif(
    not hasattr(agents.memory.session, "_CompactionSnapshot"),
    reason="in this release the SDK does not compact the end of a session",
)
SUMMARY = {"type": "compaction", "id": "cmp", "encrypted_content": "in short"}


def said(*texts: str) -> list[Any]:
    """Return items of the user."""
    return [{"role": "user", "content": text} for text in texts]


def answer(text: str) -> ResponseOutputMessage:
    """Return what a model says."""
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[part]
    )


@pytest.fixture
def session(path):
    """A session of a new file."""
    made = MemDBSession("trip", path, user="ann")
    yield made
    made.close()


def compacting(session: MemDBSession, during: Any = None) -> OpenAIResponsesCompactionSession:
    """Return a session that compacts after each run; *during* happens meanwhile."""

    async def compact(**_: Any) -> Any:
        if during is not None:
            await during()
        return SimpleNamespace(output=[SUMMARY])

    client = MagicMock()
    client.responses.compact = AsyncMock(side_effect=compact)
    return OpenAIResponsesCompactionSession(
        "trip",
        session,
        client=client,
        compaction_mode="input",
        should_trigger_compaction=lambda _: True,
    )


async def run(session: Any, limit: int | None) -> None:
    """Let an agent answer once, with *limit* items of history."""
    agent = Agent(name="guide", model=ScriptedModel(steps=[[answer("done")]]))
    settings = {"session_settings": {"limit": limit}} if limit else {}
    await Runner.run(agent, "go on", session=session, run_config=RunConfig(**settings))


@cuts_at_the_end
def test_a_limited_history_is_compacted_at_its_end(session):
    """What the model saw is replaced, what it did not see stays."""

    async def talk():
        await session.add_items(said("a", "b", "c"))
        await run(compacting(session), limit=1)
        return await session.get_items()

    assert asyncio.run(talk()) == [*said("a", "b"), SUMMARY]


@cuts_at_the_end
def test_what_was_said_meanwhile_is_not_lost(session):
    """The compaction is given up then."""

    async def talk():
        await session.add_items(said("a", "b"))
        await run(compacting(session, lambda: session.add_items(said("late"))), limit=1)
        return await session.get_items()

    found = asyncio.run(talk())
    assert found[:3] == said("a", "b", "go on")
    assert found[-1:] == said("late")
    assert SUMMARY not in found


def test_replacing_all_is_one_step(session, path):
    """Branches stay, and an item that cannot be stored leaves everything as it was."""

    async def talk():
        await session.add_items(said("a", "b"))
        await session.create_branch_from_turn(2, "other")
        await session.switch_to_branch("main")
        with pytest.raises(InvalidItem):
            await session._atomic_replace_items([*said("x"), {"role": object()}])
        before = await session.get_items()
        assert await session._atomic_replace_items([SUMMARY])
        return before, await session.get_items(), await session.get_items(branch_id="other")

    assert asyncio.run(talk()) == (said("a", "b"), [SUMMARY], said("a"))
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []


@cuts_at_the_end
def test_a_message_of_another_client_is_not_cut_in_two(session, path):
    """One message may be several items; they go together or not at all."""
    parts = [
        {"type": "text", "text": "looking"},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": "{}"},
    ]

    async def talk():
        await session.add_items(said("a"))
        with memdb.open(path) as db:
            db.scope("ann").session("trip").append("assistant", parts=parts)
        snapshot = await session._get_compaction_snapshot(10)
        items = await session.get_items()
        assert (snapshot.items, snapshot.complete, len(items)) == (items, True, 3)
        assert not await snapshot.replace_suffix(2, [SUMMARY])
        assert not await snapshot.replace_suffix(3, [SUMMARY])
        assert await session.get_items() == items
        assert await snapshot.replace_suffix(1, [SUMMARY])
        return await session.get_items()

    assert asyncio.run(talk()) == [*said("a"), SUMMARY]


@cuts_at_the_end
def test_the_oldest_go_too_as_far_as_they_have_expired(session):
    """Up to the first that has not, and never beyond what was replaced."""

    async def talk(expired):
        await session.clear_session()
        await session.add_items(said("a", "b", "c", "d"))
        snapshot = await session._get_compaction_snapshot(
            2, prune_prefix=lambda item: item["content"] in expired
        )
        assert [item["content"] for item in snapshot.items] == ["c", "d"]
        assert not snapshot.complete
        assert await snapshot.replace_suffix(1, [])
        return [item["content"] for item in await session.get_items()]

    assert asyncio.run(talk("a")) == ["b", "c"]
    assert asyncio.run(talk("b")) == ["a", "b", "c"]
    assert asyncio.run(talk("abc")) == []


def test_a_subclass_with_items_of_its_own_is_left_to_its_calls(path):
    """What it stores is not what it gives."""

    class Shouting(MemDBSession):
        async def add_items(self, items):
            await super().add_items([{**one, "content": one["content"].upper()} for one in items])

    async def talk():
        session = Shouting("trip", path, user="ann")
        await session.add_items(said("a"))
        found = (
            await session._get_compaction_snapshot(5),
            await session._atomic_replace_items([SUMMARY]),
            await session.get_items(),
        )
        await session.aclose()
        return found

    assert asyncio.run(talk()) == (None, False, said("A"))
