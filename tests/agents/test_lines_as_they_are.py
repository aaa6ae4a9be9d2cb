"""Whose words a line of a transcript holds and whose session it is, through both doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memdb
from memdb.agents.capture import capture
from memdb.agents.discovery import find_transcripts, import_transcripts

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = "/home/ann/trip"
IDS = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(4)]


def line(uuid: str, text: object, session: str = "f0", kind: str = "user", **more: Any) -> dict:
    """Return a line of Claude Code."""
    message = {"role": kind, "content": text}
    about = {"type": kind, "uuid": uuid, "sessionId": session, "cwd": PROJECT}
    return {**about, "timestamp": "2026-08-10T12:00:05.123Z", "message": message, **more}


def queued(prompt: object, **more: Any) -> dict:
    """Return a line about what was typed while Claude Code worked."""
    attachment = {"type": "queued_command", "commandMode": "prompt", "prompt": prompt, **more}
    return {"type": "attachment", "sessionId": "f0", "cwd": PROJECT, "attachment": attachment}


def operation(name: str, content: str) -> dict:
    """Return a line about the queue of Claude Code."""
    return {"type": "queue-operation", "operation": name, "content": content, "sessionId": "f0"}


def event(kind: str, message: str, **more: Any) -> dict:
    """Return an event of Codex."""
    return {"type": "event_msg", "payload": {"type": kind, "message": message, **more}}


def item(role: str, text: str) -> dict:
    """Return a response item of Codex."""
    content = [{"type": "input_text", "text": text}]
    payload = {"type": "message", "role": role, "content": content}
    return {"type": "response_item", "payload": payload}


SHARED = [line("s1", "plan the trip"), line("s2", "here is a plan", kind="assistant")]
META = {"type": "session_meta", "payload": {"id": "c", "cwd": PROJECT}}
LETTER = '<teammate-message teammate_id="bo">I am Bo</teammate-message>'
PEER = f"Another Claude session sent a message:\n<cross-session-message>{LETTER}</cross-session-message>\n"
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
}
SAID = [("user", "plan the trip"), ("assistant", "here is a plan")]

# Files of a folder, and what each session says then.
CASES: dict[str, tuple[dict[str, list[dict]], dict[str, list[tuple[str, str]]]]] = {
    "forks keep the lines that they left in the session that they left": (
        {
            f"f{n}.jsonl": [
                *SHARED,
                line(f"a{n}", f"way {n}", f"f{n}"),
                line(f"b{n}", "go", f"f{n}"),
            ]
            for n in range(3)
        },
        {
            "f0": [*SAID, ("user", "way 0"), ("user", "go")],
            "f1": [("user", "way 1"), ("user", "go")],
            "f2": [("user", "way 2"), ("user", "go")],
        },
    ),
    "a background copy adds what is new in it": (
        {
            f"{IDS[0]}.jsonl": [{**one, "sessionId": IDS[0]} for one in SHARED],
            f"{IDS[1]}.jsonl": [
                *({**one, "sessionId": IDS[1], "sessionKind": "bg"} for one in SHARED),
                line("n1", "go on", IDS[1], sessionKind="bg"),
            ],
        },
        {IDS[0]: SAID, IDS[1]: [("user", "go on")]},
    ),
    "a branch names the session that it is from": (
        {
            f"{IDS[1]}.jsonl": [
                *(
                    {**one, "sessionId": IDS[1], "forkedFrom": {"sessionId": "f0"}}
                    for one in SHARED
                ),
                line("n1", "go on", IDS[1]),
            ],
            "f0.jsonl": SHARED,
        },
        {"f0": SAID, IDS[1]: [("user", "go on")]},
    ),
    "what the user types meanwhile is the user's, once": (
        {
            "f0.jsonl": [
                *SHARED,
                operation("enqueue", "Keep the old endpoint!"),
                operation("remove", "Keep the old endpoint!"),
                queued("Keep the old endpoint!", origin={"kind": "human"}),
                operation("enqueue", "never mind"),
                queued([{"type": "text", "text": "Like this."}, IMAGE]),
                operation("remove", "Use port 8080."),
                queued(
                    "<task-notification>done</task-notification>", commandMode="task-notification"
                ),
                line("s3", "ok", kind="assistant"),
            ]
        },
        {
            "f0": [
                *SAID,
                ("user", "Keep the old endpoint!"),
                ("user", "Like this.\n[image]"),
                ("user", "Use port 8080."),
                ("tool", "<task-notification>done</task-notification>"),
                ("assistant", "ok"),
            ]
        },
    ),
    "another agent and the program are not the user": (
        {
            "f0.jsonl": [
                line("u1", LETTER),
                line("u2", PEER),
                line("u3", "I am Bo", origin={"kind": "peer"}),
                line("u4", "wake up", origin={"kind": "cron"}),
                line("u5", "<fleet_notice>sleep</fleet_notice>"),
                line("u6", "<notice>sleep</notice>"),
                line("u7", "API Error: 529", kind="assistant", isApiErrorMessage=True),
                line("u8", "<b>This</b> is too small:\n<my-box>x</my-box>"),
                line("u9", "<command-name>/cost</command-name>"),
            ]
        },
        {
            "f0": [
                ("assistant", LETTER),
                ("assistant", PEER.strip()),
                ("assistant", "I am Bo"),
                ("system", "wake up"),
                ("system", "<fleet_notice>sleep</fleet_notice>"),
                ("system", "<notice>sleep</notice>"),
                ("system", "API Error: 529"),
                ("user", "<b>This</b> is too small:\n<my-box>x</my-box>"),
                ("user", "<command-name>/cost</command-name>"),
            ]
        },
    ),
    "an event of Codex counts where no item says the same": (
        {
            "rollout-c.jsonl": [
                META,
                item("user", "how long?"),
                event("user_message", "how long?"),
                event("agent_message", "three hours"),
                item("assistant", "three hours"),
                event("thread_name_updated", "", thread_name="The ferry"),
                event("user_message", "and back?"),
                event("agent_message", "four"),
            ]
        },
        {
            "c": [
                ("user", "how long?"),
                ("assistant", "three hours"),
                ("user", "and back?"),
                ("assistant", "four"),
            ]
        },
    ),
}


def test_each_line_has_its_session_and_its_speaker(tmp_path: Path) -> None:
    """Capture and import give the same, whichever is first, and nothing twice."""
    wrong = []
    for number, (title, (files, expected)) in enumerate(CASES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, lines in files.items():
            (folder / name).write_text("".join(json.dumps(one) + "\n" for one in lines))
        program = "codex" if "rollout-c.jsonl" in files else "claude-code"
        for order in ("capture import", "import capture"):
            with memdb.open(":memory:", embedder=None) as db:
                scope = db.scope("ann", PROJECT)
                for door in order.split():
                    if door == "import":
                        db.import_file(folder, user="ann", app=PROJECT)
                    else:
                        found = find_transcripts(program, folder)
                        found += find_transcripts(program, folder)
                        import_transcripts(db, found, user="ann", app=PROJECT)
                    got = {
                        one.name: [
                            (m.role, m.text.strip()) for m in scope.session(one.name).messages()
                        ]
                        for one in scope.sessions()
                    }
                    if got != expected:
                        wrong.append((title, order, door, got))
                titles = [one.title for one in scope.sessions()]
                if program == "codex" and titles != ["The ferry"]:
                    wrong.append((title, order, "title", titles))
                assert db.file.check() == []
    assert wrong == []


def test_a_turn_that_was_typed_anew_is_a_branch(tmp_path: Path) -> None:
    """Through every door, and again: the session holds the newest way, its time is theirs."""
    told = [
        line("u1", "plan", parentUuid=None),
        line("a1", "a plan", kind="assistant", parentUuid="u1"),
        {"type": "system", "subtype": "turn_duration", "uuid": "s1", "parentUuid": "a1"},
        line("u2", "by car", parentUuid="s1"),
        line("a2", "car then", kind="assistant", parentUuid="u2"),
        line("u3", "by train", parentUuid="s1"),
        line("a3", "train then", kind="assistant", parentUuid="u3"),
        line("u4", "when", parentUuid="a3"),
        line("u5", "where", parentUuid="a3"),
        line("a5", "platform two", kind="assistant", parentUuid="u5"),
    ]
    path = tmp_path / "f0.jsonl"
    lines = [json.dumps(one) + "\n" for one in told]

    def by_hook(db: memdb.MemDB) -> None:
        path.write_text("")
        for one in lines:
            with path.open("a") as file:
                file.write(one)
            capture(db, path, user="ann")

    doors: dict[str, Callable[[memdb.MemDB], object]] = {
        "import": lambda db: db.import_file(path, user="ann", app=PROJECT),
        "agent import": lambda db: import_transcripts(db, [path], user="ann"),
        "hook": by_hook,
    }
    again = [doors["import"], lambda db: import_transcripts(db, [path], user="ann", again=True)]
    way = ["plan", "a plan", "by train", "train then"]
    for door in doors.values():
        path.write_text("".join(lines))
        with memdb.open(":memory:", embedder=None) as db:
            for call in (door, *again):
                call(db)
                chat = db.scope("ann", PROJECT).session("f0")
                assert [one.text for one in chat.messages()] == [*way, "where", "platform two"]
                branches = {one.name: chat.branch(one.name) for one in chat.branches()}
                assert {name: [one.text for one in branch.messages()]
                        for name, branch in branches.items()} == {
                    "u2": ["plan", "a plan", "by car", "car then"],
                    "u4": [*way, "when"],
                }  # fmt: skip
            (info,) = db.scope("ann", PROJECT).sessions()
            assert {info.created_ms, info.updated_ms} == {chat.last(1)[0].created_ms}
            assert db.file.check(deep=True) == []
