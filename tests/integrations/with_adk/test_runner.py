"""ADK's own Runner on memdb, and on ADK's own services: the same conversation."""

import asyncio
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import InMemorySessionService
from with_adk.services import FAST, IS_LATEST
from with_adk.talk import TURNS, talk

import memdb
from memdb.integrations.adk import MemdbArtifactService, MemdbMemoryService, MemdbSessionService

# The packages of an older release warn of each other.
WARNINGS = "error" if IS_LATEST else "default"
ROOT = Path(memdb.__file__).resolve().parent.parent


def test_a_conversation_is_the_same_as_on_adks_own_services(tmp_path):
    """Transcript, streamed events, state, memory, artifacts and a rewind, over 24 turns."""
    if not IS_LATEST:
        pytest.skip("in this release ADK's own services behave otherwise")
    path = tmp_path / "agent.db"

    async def on_memdb():
        async with (
            MemdbSessionService(path, **FAST) as sessions,
            MemdbMemoryService(path, **FAST) as memory,
            MemdbArtifactService(path, **FAST) as artifacts,
        ):
            return await talk(sessions, memory, artifacts)

    expected = asyncio.run(
        talk(InMemorySessionService(), InMemoryMemoryService(), InMemoryArtifactService())
    )
    found = asyncio.run(on_memdb())

    assert len(expected["events"]) > 3 * TURNS
    for seen, value in expected.items():
        assert found[seen] == value, seen
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []
        assert db.scope("ann", "travel").session("trip").last_seq == len(expected["events"])


def test_the_example_runs_and_remembers(tmp_path, monkeypatch, capsys):
    """The second run finds what the first one said, without a network."""
    command = [str(ROOT / "examples" / "adk_agent.py"), str(tmp_path / "agent.db")]
    first = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": WARNINGS},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(command[0], run_name="__main__")
    second = capsys.readouterr().out

    assert first.splitlines()[:2] == [
        "Plan saved, trip 1. Memories of peanuts: 0.",
        "Trip 1: Oslo",
    ]
    assert second.splitlines()[0].startswith("Plan saved, trip 2. Memories of peanuts: 2.")
