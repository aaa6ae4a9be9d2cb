"""Transcripts are read once, in pieces, and say who said what."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_samples import CLAUDE, CODEX, CURSOR, GEMINI, IDS, PROJECT, texts
from click.testing import CliRunner

import memdb
from memdb.agents.capture import POSITIONS_APP, capture, subagents_of
from memdb.agents.discovery import find_transcripts, import_transcripts
from memdb.agents.places import memory_file
from memdb.cli import cli
from memdb.errors import FileError, InvalidInput
from memdb.formats.projects import app_of

KEY = "AKIAIOSFODNN7EXAMPLQ"


def copied(home: Path, sample: Path) -> Path:
    """Return a copy of a sample that a test may change."""
    return Path(shutil.copy(sample, home / sample.name))


@pytest.mark.parametrize("sample", [CLAUDE, CODEX, GEMINI])
def test_it_lands_in_the_project_that_it_names(db: memdb.MemDB, sample: Path) -> None:
    """Under the id of its session, and all programs in one app; Gemini's names no folder."""
    app = None if sample != GEMINI else PROJECT
    done = capture(db, sample, user="ann", app=app)
    assert (done.app, done.session, done.is_done) == (PROJECT, IDS[sample], True)
    assert done.added == len(texts(db, IDS[sample])) > 0
    again = capture(db, sample, user="ann")
    assert (again.added, again.left_out) == (0, {})


def test_the_roles_of_claude_code(db: memdb.MemDB) -> None:
    """What the user typed is the user's, and nothing else is; keys are redacted."""
    capture(db, CLAUDE, user="ann")
    said = texts(db, IDS[CLAUDE])
    user = [text for role, text in said if role == "user"]
    assert user[1:] == [
        "Write down when the ferry to Oslo leaves. My key is [REDACTED aws_access_key]."
    ]
    assert user[0].startswith("<command-name>")
    assert ("tool", "     1→The ferry leaves at noon from quay 7.") in said
    assert ("assistant", "It leaves at noon, from quay 7.") in said
    (info,) = db.scope("ann", PROJECT).sessions()
    assert info.title == "Ferry to Oslo"
    assert KEY.encode() not in memory_file().read_bytes()


def test_the_roles_of_codex(db: memdb.MemDB) -> None:
    """What the model got and gave, once; AGENTS.md and the environment are the system's."""
    capture(db, CODEX, user="ann")
    said = texts(db, IDS[CODEX])
    assert [text for role, text in said if role == "user"] == ["How long does the ferry take?"]
    assert [text for role, text in said if role == "tool"] == [
        "noon, 3 hours\n",
        "Success. Updated the following files:\nA note.md\n",
    ]
    assert [text for _, text in said].count("Three hours.") == 1
    assert any(role == "system" and "AGENTS.md" in text for role, text in said)
    assert any("apply_patch" in text for role, text in said if role == "assistant")


def test_the_roles_of_gemini_and_cursor(db: memdb.MemDB) -> None:
    """A message that is written again adds what is new in it."""
    capture(db, GEMINI, user="ann", app=PROJECT)
    assert texts(db, IDS[GEMINI]) == [
        ("user", "Where is quay 7?"),
        ("assistant", "[thinking] Map: It has quays."),
        ("assistant", "I look at the map."),
        ("assistant", 'read_file({"path": "map.txt"})'),
        ("tool", "Quay 7 is west."),
        ("assistant", "It is in the west."),
    ]
    capture(db, CURSOR, user="ann", app=PROJECT, session="c")
    roles = [role for role, _ in texts(db, "c")]
    assert roles == ["system", "user", "assistant", "assistant"]
    assert ("user", "Add the quay to trip.md") in texts(db, "c")


def test_an_older_chat_of_gemini_is_one_document(db: memdb.MemDB, home: Path) -> None:
    """It is read whole each time, and adds what is new."""
    header, *rest = [json.loads(line) for line in GEMINI.read_text().splitlines()]
    path = home / "session-1.json"
    path.write_text(json.dumps({**header, "messages": rest[:1]}))
    assert capture(db, path, user="ann", app=PROJECT).added == 1
    path.write_text(json.dumps({**header, "lastUpdated": "x", "messages": rest}, indent=2))
    assert capture(db, path, user="ann", app=PROJECT).added == 5
    assert len(texts(db, IDS[GEMINI])) == 6


@pytest.mark.parametrize("sample", [CLAUDE, CODEX, GEMINI, CURSOR])
def test_line_by_line_is_as_all_at_once(db: memdb.MemDB, home: Path, sample: Path) -> None:
    """A transcript that grows, also in the middle of a line, gives the same messages."""
    whole = home / "whole.jsonl"
    shutil.copy(sample, whole)
    capture(db, whole, user="ann", app="whole", session="s")
    path = home / "grows.jsonl"
    data = sample.read_bytes()
    added = 0
    for end in range(0, len(data) + 150, 150):
        path.write_bytes(data[:end])
        added += capture(db, path, user="ann", app="grows", session="s").added
    assert texts(db, "s", "grows") == texts(db, "s", "whole")
    assert added == len(texts(db, "s", "whole"))


def test_what_is_left_out_is_counted_with_the_reason(db: memdb.MemDB, home: Path) -> None:
    """By the program's own words for it."""
    path = copied(home, CLAUDE)
    path.write_bytes(path.read_bytes() + b"no json\n[1]\n\n" + b'{"type":"user"}\n{"unfinished')
    assert capture(db, path, user="ann").left_out == {
        "without words: file-history-snapshot": 1,
        "without words: system": 1,
        "without words: ai-title": 1,
        "without words: queue-operation": 1,
        "without words: user": 1,
        "not a JSON object": 2,
    }


@pytest.mark.parametrize("text", ["", "\n\n", "no json\n", '{"a": 1}\n', "[]\n", '{"type":"user"'])
def test_what_is_no_transcript(db: memdb.MemDB, home: Path, text: str) -> None:
    """Nothing is stored, and it is read again when there is more."""
    path = home / "x.jsonl"
    path.write_text(text)
    assert capture(db, path, user="ann").left_out == {"no session in it": 1}
    assert db.scopes() == [] or not db.scope("ann", POSITIONS_APP).items.list()
    path.write_text(CLAUDE.read_text())
    assert capture(db, path, user="ann").added > 0


def test_a_file_that_cannot_be_read(db: memdb.MemDB, home: Path) -> None:
    """The error names it."""
    with pytest.raises(FileError, match="absent"):
        capture(db, home / "absent.jsonl", user="ann")
    (home / "bad.json").write_text("[1]")
    with pytest.raises(InvalidInput, match="Gemini"):
        capture(db, home / "bad.json", user="ann")


def test_another_file_in_its_place_is_read_from_its_start(db: memdb.MemDB, home: Path) -> None:
    """Shorter or longer: its first line tells."""
    path = copied(home, CLAUDE)
    capture(db, path, user="ann")
    path.write_bytes(CODEX.read_bytes())
    assert capture(db, path, user="ann").session == IDS[CODEX]


def test_what_was_forgotten_does_not_come_back(db: memdb.MemDB, home: Path) -> None:
    """The lines of a forgotten session are not read again."""
    path = copied(home, CLAUDE)
    capture(db, path, user="ann")
    db.scope("ann", PROJECT).forget(session=IDS[CLAUDE])
    assert capture(db, path, user="ann").added == 0
    line = json.dumps(
        {"type": "user", "uuid": "n", "sessionId": "x", "message": {"content": "On."}}
    )
    path.write_text(path.read_text() + line + "\n")
    assert capture(db, path, user="ann").added == 1


def test_subagents_are_sessions_under_their_parent(db: memdb.MemDB, home: Path) -> None:
    """Of Claude Code by their folder, of Codex by what the first line tells."""
    path = copied(home, CLAUDE)
    folder = path.with_suffix("") / "subagents" / "w"
    folder.mkdir(parents=True)
    lines = [json.loads(line) for line in CLAUDE.read_text().splitlines()]
    side = "".join(json.dumps({**one, "isSidechain": True}) + "\n" for one in lines)
    (folder / "agent-1.jsonl").write_text(side)
    (folder / "journal.jsonl").write_text('{"type":"started","sessionId":"x"}\n')
    (child,) = subagents_of(path)
    done = capture(db, child, user="ann", app=PROJECT)
    assert done.session == f"{path.stem}/subagents/w/agent-1"
    assert "user" not in {role for role, _ in texts(db, done.session)}
    rollout = home / "rollout-x.jsonl"
    header, *rest = CODEX.read_text().splitlines()
    meta = json.loads(header)
    meta["payload"]["source"] = {
        "subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}
    }
    rollout.write_text("\n".join([json.dumps(meta), *rest, ""]))
    assert capture(db, rollout, user="ann").session == f"p/subagents/{IDS[CODEX]}"


def test_a_deadline_leaves_the_rest_for_the_next_time(db: memdb.MemDB, home: Path) -> None:
    """Batches that were stored stay."""
    path = home / "long.jsonl"
    line = json.loads(CLAUDE.read_text().splitlines()[4])
    with path.open("w") as file:
        for number in range(1200):
            file.write(json.dumps({**line, "uuid": f"u{number}"}) + "\n")
    assert not capture(db, path, user="ann", deadline=time.monotonic() - 1).is_done
    done = capture(db, path, user="ann")
    assert (done.added, done.is_done) == (1200, True)


def test_import_of_all_transcripts_of_a_program(home: Path) -> None:
    """From where the program keeps them, once, with a report; more files add more."""
    folder = home / ".claude" / "projects" / "-home-ann-trip"
    folder.mkdir(parents=True)
    shutil.copy(CLAUDE, folder / f"{IDS[CLAUDE]}.jsonl")
    (folder / "bad.jsonl").write_text("{}\n")
    (folder / "sessions-index.json").write_text("{}")
    dated = home / ".codex" / "sessions" / "2026" / "08" / "11"
    dated.mkdir(parents=True)
    shutil.copy(CODEX, dated / CODEX.name)
    (dated / "other.jsonl").write_text("{}")

    def run(*args: str) -> dict[str, object]:
        ran = CliRunner().invoke(cli, ["agent", "import", *args, "--json"])
        assert ran.exit_code == 0, ran.output
        return json.loads(ran.stdout)

    first = run("claude-code")
    assert (first["files"], first["sessions"], first["messages"]) == (2, 1, 8)
    assert first["apps"] == {PROJECT: 8}
    assert first["left_out"]["no session in it"] == 1
    assert run("claude-code")["messages"] == 0
    assert run("codex")["messages"] == 10
    assert run("codex", "--again")["messages"] == 0
    assert run("codex", str(dated), "--app", "other", "--again")["apps"] == {"other": 10}
    with memdb.open(memory_file()) as db:
        hits = db.scope("ann", PROJECT).recall("how long does the ferry take?")
        assert "Three hours." in [hit.text for hit in hits]


def test_imports_that_cannot_be(home: Path) -> None:
    """Each error says what is wrong."""
    for args, code, word in (
        (["cursor"], 5, "PATH"),
        (["codex", str(home / "absent")], 6, "absent"),
        (["vim"], 2, "vim"),
    ):
        ran = CliRunner().invoke(cli, ["agent", "import", *args])
        assert (ran.exit_code, word in ran.output) == (code, True), ran.output
    assert not memory_file().exists()


def test_a_file_that_fails_does_not_stop_the_others(db: memdb.MemDB, home: Path) -> None:
    """It is named in the report."""
    done = import_transcripts(db, [home / "absent.jsonl", CLAUDE], user="ann")
    assert (done.messages, list(done.failed)) == (8, [str(home / "absent.jsonl")])
    assert "absent.jsonl" in str(done)
    assert find_transcripts("codex", CODEX) == [CODEX]


def test_the_app_of_a_folder(home: Path) -> None:
    """The repository around it, the main one for a worktree, or the folder itself."""
    repo = home / "repo"
    (repo / ".git" / "worktrees" / "w").mkdir(parents=True)
    (repo / "src" / "deep").mkdir(parents=True)
    (home / "w").mkdir()
    (home / "w" / ".git").write_text(f"gitdir: {repo}/.git/worktrees/w\n")
    (home / "sub").mkdir()
    (home / "sub" / ".git").write_text("gitdir: ../repo/.git/modules/sub\n")
    assert app_of(repo / "src" / "deep") == app_of(home / "w") == str(repo)
    assert app_of(home / "sub") == str(home / "sub")
    assert app_of("/gone/away") == "/gone/away"
    assert app_of(None) == str(Path.cwd())
    assert len(app_of("/" + "a" * 2000)) <= 1024


SCRIPT = """
import sys, memdb
from memdb.agents.capture import capture
db = memdb.open(sys.argv[1])
print("ready", flush=True); sys.stdin.readline()
capture(db, sys.argv[2], user="ann", app="a", session="s")
"""


def test_captures_at_once_store_each_line_once(db: memdb.MemDB, home: Path) -> None:
    """Four processes on one transcript whose lines have no ids."""
    path = home / "rollout-long.jsonl"
    header, *rest = CODEX.read_text().splitlines()
    path.write_text("\n".join([header, *(rest * 60), ""]))
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(memory_file()), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in begun:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in begun:
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert len(texts(db, "s", "a")) == 600
