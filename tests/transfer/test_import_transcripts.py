"""Transcripts of coding agents by `memdb import`: what hooks capture, found by content."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from agent_samples import CLAUDE, CODEX, CURSOR, GEMINI, IDS

import memdb
from memdb.agents.capture import capture
from memdb.agents.discovery import import_transcripts
from memdb.formats.detect import load_format
from memdb.formats.imports.base import Request
from memdb.formats.source import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from memdb import MemDB

SAMPLES = {"claude-code": CLAUDE, "codex": CODEX, "cursor": CURSOR, "gemini-cli": GEMINI}


def said(db: MemDB, app: str, session: str, *, times: bool = True) -> list[tuple[object, ...]]:
    """Return what hooks and imports have to agree on."""
    return [
        (one.role, one.text, one.parts, one.external_id, one.created_ms if times else None)
        for one in db.scope("ann", app).session(session).messages()
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_what_hooks_capture_is_imported_alike(name: str, tmp_path: Path) -> None:
    """Same project, session, messages, ids and title; each then adds nothing to the other."""
    path = SAMPLES[name]
    with (
        memdb.open(tmp_path / "a.db", embedder=None) as ours,
        memdb.open(tmp_path / "b.db", embedder=None) as theirs,
    ):
        captured = capture(theirs, path, user="ann")
        report = ours.import_file(path, user="ann", app=captured.app)
        here = ours.scope("ann", captured.app).sessions()

        assert report.format == name
        assert report.messages_added == captured.added > 0
        session, has_times = captured.session, name != "cursor"
        assert said(ours, captured.app, session, times=has_times) == said(
            theirs, captured.app, session, times=has_times
        )
        assert [one.title for one in here] == [
            one.title for one in theirs.scope("ann", captured.app).sessions()
        ]
        assert ours.import_file(path, user="ann", app=captured.app).messages_added == 0
        assert import_transcripts(ours, [path], user="ann").messages == 0
        assert theirs.import_file(path, user="ann", app=captured.app).messages_added == 0
        assert ours.file.check() == theirs.file.check() == []


def test_the_app_of_an_import(db: MemDB) -> None:
    """It is the one in which a scope of the same user looks; keys are redacted all the same."""
    db.import_file(CLAUDE, user="ann")
    texts = [one[1] for one in said(db, "default", IDS[CLAUDE])]

    assert db.scope("ann").recall("ferry")
    assert [scope.app for scope in db.scopes()] == ["default"]
    assert any("ferry" in str(text) for text in texts)
    assert not any("AKIA" in str(text) for text in texts)


def test_a_folder_of_projects(db: MemDB, tmp_path: Path) -> None:
    """That of a sub-agent has its parent's name."""
    folder = tmp_path / "projects" / "-home-ann-trip"
    (folder / "s1" / "subagents").mkdir(parents=True)
    shutil.copy(CLAUDE, folder / f"{IDS[CLAUDE]}.jsonl")
    line = {"type": "user", "uuid": "x", "sessionId": "s1", "isSidechain": True}
    line |= {"cwd": "/home/ann/other", "message": {"role": "user", "content": "Find the quay."}}
    (folder / "s1" / "subagents" / "agent-1.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "history.jsonl").write_text(json.dumps(line) + "\n")
    trial = db.import_file(tmp_path / "projects", user="ann", dry_run=True)
    report = db.import_file(tmp_path / "projects", user="ann")

    assert trial.messages_added == report.messages_added
    assert {one.name for one in db.scope("ann").sessions()} == {
        "s1/subagents/agent-1",
        IDS[CLAUDE],
    }
    assert report.left_out[-1].why.endswith("history.jsonl")


def test_a_line_that_is_broken(db: MemDB, tmp_path: Path) -> None:
    """It is left out with its number, also one without its end; the others come in."""
    lines = CLAUDE.read_text(encoding="utf-8").splitlines()
    lines[5:5] = ["{broken"]
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.writestr("p/a.jsonl", "\n".join([*lines, lines[-1][:20]]))
    report = db.import_file(tmp_path / "old.zip", user="ann")
    places = [one.what for one in report.left_out if one.is_place]

    assert report.format == "claude-code"
    assert places == ["line 6", f"line {len(lines) + 1}"]
    assert report.messages_added == db.import_file(CLAUDE, user="ann").messages_known


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ({"role": "user", "content": "hi"}, "jsonl"),
        ({"messages": [{"role": "user", "content": "hi"}], "instructions": "x"}, "openai"),
        ({"type": "user", "content": "hi", "role": "user"}, "jsonl"),
    ],
)
def test_other_lines_are_no_transcripts(
    line: dict[str, object], name: str, db: MemDB, tmp_path: Path
) -> None:
    """A word that transcripts have too is not enough."""
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")

    assert db.import_file(tmp_path / "a.jsonl", user="ann", session="s").format == name


def test_the_scan_of_a_long_transcript_is_linear(tmp_path: Path) -> None:
    """Twice the lines cost about twice the steps: a scan that looks back costs four times."""

    def steps_of(count: int) -> int:
        lines = [
            {"type": "user", "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None}
            | {"sessionId": "s", "cwd": "/x", "message": {"role": "user", "content": f"Go {n}"}}
            for n in range(count)
        ]
        path = tmp_path / f"{count}.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        calls = 0

        def note(*_: object) -> None:
            nonlocal calls
            calls += 1

        with Tree(path) as tree:
            request = Request(tree, [*tree.names], None, None, set(), "ann")
            found = load_format("claude-code").read(request)
            sys.setprofile(note)
            try:
                next(found)  # all of it is scanned before the first item
            finally:
                sys.setprofile(None)
        return calls

    assert steps_of(600) < 2.5 * steps_of(300)
