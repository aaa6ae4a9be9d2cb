"""What Strands' sessions write is read by memdb's own calls, and theirs by Strands."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from with_together import roles
from with_together.roles import APP, HOSTILE, READERS, USER, WRITERS, check_readers, load_rows

import memdb
from memdb.integrations.strands import MemdbSessionRepository

if TYPE_CHECKING:
    from pathlib import Path

load_rows()
TALK, AGENT = "talk", "default"  # the session "talk/default" of every other client


def prepare(path: str) -> MemdbSessionRepository:
    """Return Strands' sessions of a file, with an agent that has said nothing."""
    repository = MemdbSessionRepository(path, user=USER, app=APP)
    if repository.read_session(TALK) is None:
        repository.create_session(Session(TALK, SessionType.AGENT))
        repository.create_agent(TALK, SessionAgent(AGENT, {}, {}))
    return repository


def write_by_strands(path: str) -> None:
    call = {"toolUseId": "c1", "name": "fetch", "input": {"n": 1}}
    result = {"toolUseId": "c1", "status": "success", "content": [{"text": HOSTILE}]}
    messages = [
        {"role": "user", "content": [{"text": "Read the page."}]},
        {"role": "assistant", "content": [{"text": "I look at it."}, {"toolUse": call}]},
        {"role": "user", "content": [{"toolResult": result}]},
        {"role": "assistant", "content": [{"text": "The page is odd."}]},
    ]
    with prepare(path) as repository:
        for number, message in enumerate(messages):
            told = SessionMessage.from_message(message, number)
            repository.create_message(TALK, AGENT, told)


def read_by_strands(path: str) -> dict[str, str]:
    with prepare(path) as repository:
        found = [one.message for one in repository.list_messages(TALK, AGENT)]
    return {
        json.dumps(block): "tool" if "toolResult" in block else one["role"]
        for one in found
        for block in one["content"]
    }


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add Strands, which has no role "system", and give its session's name to the others."""
    monkeypatch.setitem(WRITERS, "strands", roles.Writer(write_by_strands, {}, {"system"}))
    monkeypatch.setitem(READERS, "strands", roles.Reader(read_by_strands, {"system"}))
    for name, module in [*sys.modules.items()]:
        if name.startswith("with_together.rows_"):
            monkeypatch.setattr(module, "NAME", f"{TALK}/{AGENT}")


@pytest.mark.parametrize("writer", [*WRITERS, "strands"])
def test_every_reader_has_what_every_writer_stored(writer: str, tmp_path: Path) -> None:
    """Texts in their roles, the call and the result of its tool."""
    path = str(tmp_path / "talk.db")
    WRITERS[writer].write(path)

    check_readers(writer, path)
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []
