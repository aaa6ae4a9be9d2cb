"""Odd values in agno's rows, bulk calls that fail, and closed files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agno.db.base import SessionType
from agno.db.schemas.memory import UserMemory
from agno.session.agent import AgentSession
from odd_values import VALUES, Alien, assert_kept_or_refused

import memdb
from memdb.integrations.agno import MemdbAsyncDb, MemdbDb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# What agno's own JsonDb raises for a row that JSON cannot say, and memdb for one too deep.
REFUSED = (TypeError, ValueError)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MemdbDb]:
    """Return empty tables."""
    with MemdbDb(tmp_path / "a.db", durability="process") as opened:
        yield opened


def session(name: str, value: Any = None) -> AgentSession:
    """Return a session with a value in its data."""
    return AgentSession(session_id=name, agent_id="a", session_data={"v": value})


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_comes_back_or_is_refused(db: MemdbDb, name: str) -> None:
    """In a session and in a memory; other rows can be read after it."""
    db.upsert_session(session("good"))
    assert_kept_or_refused(
        name,
        lambda value: db.upsert_session(session("odd", value)),
        lambda: {one.session_id: one.session_data for one in db.get_sessions(SessionType.AGENT)},
        REFUSED,
        restored=lambda found: found["odd"]["v"],
    )
    assert_kept_or_refused(
        name,
        lambda value: db.upsert_user_memory(UserMemory(memory=value, memory_id="odd")),
        lambda: [one.memory for one in db.get_user_memories()],
        REFUSED,
        restored=lambda found: found[0],
    )


BULK: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "sessions": lambda value: ("upsert_sessions", [session("b1"), session("b2", value)]),
    "memories": lambda value: (
        "upsert_memories",
        [UserMemory(memory="x", memory_id="b1"), UserMemory(memory=value, memory_id="b2")],
    ),
}


@pytest.mark.parametrize("kind", BULK)
def test_a_bulk_call_is_whole_or_nothing(db: MemdbDb, tmp_path: Path, kind: str) -> None:
    """The error of one row is raised, with and without await; agno's JsonDb logs it."""

    def count() -> int:
        return len(db.get_sessions(SessionType.AGENT)) + len(db.get_user_memories())

    name, bad = BULK[kind](Alien())
    with pytest.raises(TypeError):
        getattr(db, name)(bad)
    assert count() == 0

    async def act() -> None:
        async with MemdbAsyncDb(tmp_path / "a.db") as same:
            with pytest.raises(TypeError):
                await getattr(same, name)(bad)
            assert len(await getattr(same, name)(BULK[kind]("y")[1])) == 2

    asyncio.run(act())
    assert count() == 2
    assert len(getattr(db, name)(BULK[kind]("z")[1])) == 2


@pytest.mark.parametrize("value", [b"1", "text", 5, None, [1]])
def test_what_others_put_there_is_no_row(db: MemdbDb, value: Any) -> None:
    """The rows beside it are read, and can be changed."""
    db.upsert_user_memory(UserMemory(memory="x", memory_id="m"))
    items = memdb.open(db.db_path).scope("default").items
    items.put(("agno", db.memory_table_name), "odd", value)
    assert [one.memory_id for one in db.get_user_memories()] == ["m"]
    db.upsert_user_memory(UserMemory(memory="y", memory_id="m"))
    db.clear_memories()
    assert db.get_user_memories() == []


def test_a_closed_file_answers_closed(tmp_path: Path) -> None:
    """Also calls whose errors agno's JsonDb hides: of traces and spans."""
    db = MemdbDb(tmp_path / "a.db")
    db.close()
    calls: list[Callable[[], object]] = [
        lambda: db.get_sessions(SessionType.AGENT),
        lambda: db.get_session("s", SessionType.AGENT),
        lambda: db.upsert_sessions([]),
        lambda: db.upsert_memories([]),
        lambda: db.get_user_memory("m"),
        lambda: db.get_trace("t"),
        lambda: db.get_traces(),
        lambda: db.get_span("s"),
        lambda: db.get_spans("t"),
        lambda: db.create_spans([]),
        lambda: db.get_knowledge_content("k"),
        lambda: db.get_metrics(),
        lambda: db.get_eval_run("e"),
    ]
    for call in calls:
        with pytest.raises(memdb.Closed):
            call()
