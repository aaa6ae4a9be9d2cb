"""A home folder of its own for each test, and the samples of transcripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memdb
from memdb.agents import hooks
from memdb.agents.places import memory_file

DATA = Path(__file__).parent / "data"
CLAUDE = DATA / "claude-code.jsonl"
CODEX = DATA / "rollout-2026-08-11T08-00-00-01a0a6c3-150f-7531-90e8-361bef6359df.jsonl"
GEMINI = DATA / "session-2026-08-12T08-00-6a1f4e0a.jsonl"
CURSOR = DATA / "cursor.jsonl"
PROJECT = "/home/ann/trip"
IDS = {
    CLAUDE: "0e8f3f9e-3b1b-44a5-9d76-64a5f3a1c011",
    CODEX: "01a0a6c3-150f-7531-90e8-361bef6359df",
    GEMINI: "6a1f4e0a-9d0b-4d3a-8f43-0d1a5f1b7a01",
    CURSOR: "cursor",
}
MOVED = ("XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "MEMDB_AGENT_FILE", "MEMDB_AGENT_HOOK")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty home folder, which is also the working directory."""
    folder = tmp_path / "home ann"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("LOCALAPPDATA", str(folder / "data"))
    monkeypatch.setenv("MEMDB_USER", "ann")
    for name in MOVED:
        monkeypatch.delenv(name, raising=False)
    # A busy machine takes longer; that a hook ends in time is tried with processes.
    monkeypatch.setattr(hooks, "WORK_S", 50.0)
    monkeypatch.setattr(hooks, "END_S", 60.0)
    monkeypatch.setattr(hooks, "process_age_s", lambda: 0.0)
    project = folder / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    yield folder
    while hooks._left_behind:  # no process of a test outlives it
        hooks._left_behind.pop().wait(100)


@pytest.fixture
def db(home: Path):
    """Return the memory file of the home folder, open."""
    memory_file().parent.mkdir(parents=True)
    with memdb.open(memory_file()) as opened:
        yield opened
        assert opened.file.check() == []


def texts(db: memdb.MemDB, session: str, app: str = PROJECT) -> list[tuple[str, str]]:
    """Return role and text of each message of a session."""
    return [(one.role, one.text) for one in db.scope("ann", app).session(session).messages()]
