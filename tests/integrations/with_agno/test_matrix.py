"""What agno stores is read by memdb's own calls, and what they write by agno."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agno.db.base import SessionType
from agno.db.schemas.memory import UserMemory
from agno.models.message import Message
from agno.run.agent import RunInput, RunOutput
from agno.session import AgentSession
from item_copies import COPIES, READS, recall
from with_together.roles import APP, CALL, HOSTILE, NAME, USER, check_shown

import memdb
from memdb.integrations.agno import MemdbDb

if TYPE_CHECKING:
    from pathlib import Path

FACT = "Ann flies to Oslo."
PLACES = {("agno", "agno_memories"), ("agno", "agno_runs", NAME), ("agno", "agno_sessions", NAME)}


def write_by_agno(path: str) -> None:
    messages = [
        Message(role="system", content="Never reveal the vault."),
        Message(role="user", content="Read the page."),
        Message(role="assistant", content="I look at it.", tool_calls=[CALL]),
        Message(role="tool", content=HOSTILE, tool_call_id="c1"),
        Message(role="assistant", content="The page is odd."),
    ]
    who = {"agent_id": "a", "session_id": NAME, "user_id": USER}
    asked = RunInput(input_content="Read the page.")
    ran = RunOutput(run_id="r", input=asked, content="The page is odd.", messages=messages, **who)
    with MemdbDb(path, user=USER, app=APP) as db:
        db.upsert_session(AgentSession(agent_data={"name": "A"}, created_at=5, **who))
        db.upsert_run(ran, NAME, USER, 0)
        db.upsert_user_memory(UserMemory(FACT, memory_id="m", user_id=USER, topics=["travel"]))


def read_by_agno(path: str) -> dict[str, Any]:
    with MemdbDb(path, user=USER, app=APP) as db:
        session = db.get_session(NAME, SessionType.AGENT)
        facts = db.get_user_memories(USER)
    return {"session": session.to_dict(), "facts": [one.to_dict() for one in facts]}


def shown_in(messages: list[dict[str, Any]]) -> dict[str, str]:
    return {json.dumps(one): one["role"] for one in messages}


@pytest.mark.parametrize("reader", READS)
def test_every_reader_has_what_agno_stored(reader: str, tmp_path: Path) -> None:
    """The messages of a run in their roles, with the call and its result; a memory of the user."""
    path = str(tmp_path / "a.db")
    write_by_agno(path)
    found = READS[reader](path)

    assert {namespace for namespace, _ in found} == PLACES
    run = next(value for (place, _), value in found.items() if place[1] == "agno_runs")
    check_shown(reader, shown_in(run["run_data"]["messages"]))
    assert found[("agno", "agno_memories"), '["m"]']["memory"] == FACT


def test_recall_finds_what_agno_stored(tmp_path: Path) -> None:
    """A run by its answer, a memory by its words."""
    path = str(tmp_path / "a.db")
    write_by_agno(path)

    with memdb.open(path) as db:
        assert "The page is odd." in [one.text for one in db.scope(USER, APP).recall("odd page")]
    assert FACT in recall(path, "Oslo")


@pytest.mark.parametrize("writer", COPIES)
def test_agno_reads_what_every_writer_stored(writer: str, tmp_path: Path) -> None:
    """Its session with the run, and the memory, as if it had stored them itself."""
    path, other = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    write_by_agno(path)
    COPIES[writer](path, other)
    found = read_by_agno(other)

    assert found == read_by_agno(path)
    assert [one["memory"] for one in found["facts"]] == [FACT]
    check_shown(writer, shown_in(found["session"]["runs"][0]["messages"]))
    with memdb.open(other) as db:
        assert db.file.check(deep=True) == []


def test_the_messages_of_runs_are_a_session(tmp_path: Path) -> None:
    """Once each, changed with their run and gone with it; instructions once; not if asked."""
    path = str(tmp_path / "a.db")
    write_by_agno(path)
    who = {"agent_id": "a", "session_id": NAME, "user_id": USER}
    asked = [
        Message(role="system", content="Never reveal the vault."),
        Message(role="user", content="When?", id="u"),
    ]
    seen = Message(role="user", content="Read the page.", from_history=True)
    with MemdbDb(path, user=USER, app=APP) as db:
        chat = db._scope.session(NAME)
        assert [one.role for one in chat.messages()] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        for said in ("Soon.", "In May."):
            answer = Message(role="assistant", content=said, id="x")
            db.upsert_run(
                RunOutput(run_id="r2", messages=[*asked, seen, answer], **who), NAME, USER, 1
            )
        assert [one.text for one in chat.messages()][5:] == ["When?", "In May."]
        given = [Message(role="user", content="Look for ferries.")]  # by the leader of a team
        member = RunOutput(run_id="r3", parent_run_id="r2", messages=given, **who)
        db.upsert_run(member, NAME, USER, 2)
        assert len([*chat.messages()]) == 7
        db.delete_run("r2")
        assert [one.text for one in chat.messages()][5:] == []
        db.delete_session(NAME)
        assert chat.head() is None
    with MemdbDb(path, user=USER, app=APP, sessions=False) as db:
        db.upsert_run(RunOutput(run_id="r", messages=asked, **who), NAME, USER, 0)
        assert db._scope.sessions() == []
