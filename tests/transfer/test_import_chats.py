"""Conversations of programs that keep them in their own words: a file of each, by hand."""

from __future__ import annotations

import copy
import json
import sqlite3
import zipfile
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

import memdb
from memdb.text.parts import kind_of, without_original

if TYPE_CHECKING:
    from pathlib import Path

    from memdb import MemDB

AT = "2026-05-01T10:00:00Z"
LATER = "2026-05-01T10:01:00Z"
AT_MS = 1_777_629_600_000
ASK, SAY = ("user", "Where is the tent?"), ("assistant", "In the cellar.")
CALL, GAVE = ("assistant", "tool_call"), ("tool", "tool_result")


def _fragments(kind: str, text: str, parent: str | None, name: str) -> dict[str, Any]:
    message: dict[str, Any] = {"files": [], "model": "deepseek-chat", "inserted_at": AT}
    message["fragments"] = [{"type": kind, "content": text}]
    return {"id": name, "parent": parent, "children": [], "message": message}


def _pi(kind: str, id_: str, parent: str | None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": id_, "parentId": parent, "timestamp": AT, **more}


def _block(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


# By format: the file, what it holds, session and title, and each message's role with its
# text, or with the kind of its first part.
CHATS: dict[str, tuple[str, Any, tuple[str, str | None], list[tuple[str, str]]]] = {
    "deepseek": (
        "conversations.json",
        [
            {
                "id": "d1",
                "title": "Tents",
                "inserted_at": AT,
                "updated_at": AT,
                "mapping": {
                    "root": {"id": "root", "parent": None, "children": ["1"], "message": None},
                    "1": _fragments("REQUEST", ASK[1], "root", "1"),
                    "2": _fragments("THINK", "A tent is big.", "1", "2"),
                    "3": _fragments("RESPONSE", SAY[1], "2", "3"),
                },
            }
        ],
        ("d1", "Tents"),
        [ASK, ("assistant", "thinking"), SAY],
    ),
    "pi": (
        "2026-05-01_p1.jsonl",
        [
            {"type": "session", "version": 3, "id": "p1", "timestamp": AT, "cwd": "/home/ann"},
            _pi("message", "a", None, message={"role": "user", "content": _block(ASK[1])}),
            _pi(
                "message",
                "b",
                "a",
                message={
                    "role": "assistant",
                    "model": "m",
                    "content": [
                        {"type": "toolCall", "id": "c1", "name": "find", "arguments": {"q": "tent"}}
                    ],
                },
            ),
            _pi(
                "message",
                "c",
                "b",
                message={
                    "role": "toolResult",
                    "toolCallId": "c1",
                    "isError": False,
                    "content": _block("cellar"),
                },
            ),
            _pi("message", "d", "c", message={"role": "assistant", "content": _block(SAY[1])}),
            _pi("compaction", "e", "d", summary="They spoke of tents.", firstKeptEntryId="d"),
            _pi("session_info", "f", "e", name="Tents"),
        ],
        ("p1", "Tents"),
        [ASK, CALL, GAVE, SAY, ("system", "They spoke of tents.")],
    ),
    "copilot-cli": (
        "events.jsonl",
        [
            _pi("session.start", "1", None, data={"sessionId": "c1", "startTime": AT}),
            _pi("user.message", "2", "1", data={"content": ASK[1], "attachments": []}),
            _pi(
                "assistant.message",
                "3",
                "2",
                data={
                    "messageId": "m",
                    "content": "",
                    "toolRequests": [{"toolCallId": "t1", "name": "view", "arguments": {"p": 1}}],
                },
            ),
            _pi(
                "tool.execution_complete",
                "4",
                "3",
                data={"toolCallId": "t1", "success": True, "result": {"content": "cellar"}},
            ),
            _pi("assistant.message", "5", "4", data={"messageId": "n", "content": SAY[1]}),
        ],
        ("c1", None),
        [ASK, CALL, GAVE, SAY],
    ),
    "vscode-copilot": (
        "chat.json",
        {
            "version": 3,
            "sessionId": "v1",
            "customTitle": "Tents",
            "creationDate": AT_MS,
            "requests": [
                {
                    "requestId": "r1",
                    "timestamp": AT_MS,
                    "message": {"text": ASK[1], "parts": []},
                    "response": [{"value": "In the "}, {"value": "cellar."}, {"kind": "undoStop"}],
                }
            ],
        },
        ("v1", "Tents"),
        [ASK, SAY],
    ),
    "open-webui": (
        "chat-export.json",
        [
            {
                "id": "w1",
                "title": "Tents",
                "created_at": AT_MS // 1000,
                "chat": {
                    "history": {
                        "currentId": "b",
                        "messages": {
                            "a": {
                                "id": "a",
                                "parentId": None,
                                "childrenIds": ["x", "b"],
                                "role": "user",
                                "content": ASK[1],
                                "timestamp": AT_MS // 1000,
                            },
                            "x": {
                                "id": "x",
                                "parentId": "a",
                                "role": "assistant",
                                "content": "In the attic.",
                                "model": "llama",
                            },
                            "b": {
                                "id": "b",
                                "parentId": "a",
                                "role": "assistant",
                                "content": SAY[1],
                                "model": "llama",
                            },
                        },
                    }
                },
            }
        ],
        ("w1", "Tents"),
        [ASK, SAY],
    ),
    "librechat": (
        "Tents.json",
        {
            "conversationId": "l1",
            "title": "Tents",
            "recursive": True,
            "messages": [
                {
                    "messageId": "a",
                    "parentMessageId": "00000000-0000-0000-0000-000000000000",
                    "text": ASK[1],
                    "isCreatedByUser": True,
                    "createdAt": AT,
                    "children": [
                        {
                            "messageId": "b",
                            "parentMessageId": "a",
                            "text": SAY[1],
                            "sender": "GPT-4",
                            "isCreatedByUser": False,
                            "createdAt": LATER,
                            "children": [],
                        }
                    ],
                }
            ],
        },
        ("l1", "Tents"),
        [ASK, SAY],
    ),
    "ai-studio": (
        "Tents.json",
        {
            "runSettings": {"model": "models/gemini-2.5-pro"},
            "systemInstruction": {"text": "Be kind."},
            "chunkedPrompt": {
                "chunks": [
                    {"text": ASK[1], "role": "user", "createTime": AT},
                    {"text": "A tent is big.", "role": "model", "isThought": True},
                    {"text": SAY[1], "role": "model"},
                ],
                "pendingInputs": [],
            },
        },
        ("Tents", None),
        [("system", "Be kind."), ASK, ("assistant", "thinking"), SAY],
    ),
    "slack": (
        "2026-05-01.json",
        [
            {"type": "message", "user": "U1", "text": "Where is <@U2>?", "ts": "1777629600.000200"},
            {
                "type": "message",
                "user": "U2",
                "user_profile": {"real_name": "Ben"},
                "text": "Here &amp; well.",
                "ts": "1777629660.000300",
            },
        ],
        ("2026-05-01", None),
        [("user", "Where is U2?"), ("user", "Here & well.")],
    ),
    "telegram": (
        "result.json",
        {
            "name": "Ben",
            "type": "personal_chat",
            "id": 77,
            "messages": [
                {"id": 1, "type": "service", "date": "2026-05-01T10:00:00", "action": "phone_call"},
                {
                    "id": 2,
                    "type": "message",
                    "date": "2026-05-01T10:00:00",
                    "date_unixtime": str(AT_MS // 1000),
                    "from": "Ann",
                    "text": ["Where is ", {"type": "bold", "text": "the tent"}, "?"],
                },
                {"id": 3, "type": "message", "date": LATER, "from": "Ben", "text": "Here."},
            ],
        },
        ("77", "Ben"),
        [ASK, ("user", "Here.")],
    ),
    "agent-chat": (
        "windsurf.json",
        {
            "app": "windsurf",
            "conversation": {
                "id": "s1",
                "title": "Tents",
                "messages": [
                    {"role": "user", "content": ASK[1], "createdAt": AT},
                    {"sender": "assistant", "parts": _block(SAY[1]), "timestamp": LATER},
                ],
            },
        },
        ("s1", "Tents"),
        [ASK, SAY],
    ),
    "kiro": (
        "kiro.json",
        {
            "conversation_id": "k1",
            "history": [
                {
                    "user": {"content": {"Prompt": {"prompt": ASK[1]}}, "timestamp": AT},
                    "assistant": {
                        "ToolUse": {
                            "message_id": "m1",
                            "content": "",
                            "tool_uses": [{"id": "t1", "name": "fs_read", "args": {"p": 1}}],
                        }
                    },
                },
                {
                    "user": {
                        "content": {
                            "ToolUseResults": {
                                "tool_use_results": [
                                    {"tool_use_id": "t1", "content": [{"Text": "cellar"}]}
                                ]
                            }
                        }
                    },
                    "assistant": {"Response": {"message_id": "m2", "content": SAY[1]}},
                },
            ],
        },
        ("k1", None),
        [ASK, CALL, GAVE, SAY],
    ),
    "whatsapp": (
        "_chat.txt",
        "[01.05.26, 10:00:00] Ben: \u200eMessages and calls are end-to-end encrypted.\n"
        "[01.05.26, 10:00:05] Ann: Where is\nthe tent?\n[01.05.26, 10:01:00] Ben: Here: look.\n",
        ("_chat", None),
        [
            ("user", "Messages and calls are end-to-end encrypted."),
            ("user", "Where is\nthe tent?"),
            ("user", "Here: look."),
        ],
    ),
    "aider": (
        ".aider.chat.history.md",
        "\n# aider chat started at 2026-05-01 10:00:00\n\n> aider --model x  \n> Aider v0.80\n\n"
        "#### Where is the tent?  \n\nIn the cellar.\n",
        ("aider.chat.history 2026-05-01 10:00:00", None),
        [("system", "aider --model x  \nAider v0.80"), ASK, SAY],
    ),
    "hermes": (
        "state.db",
        {
            "sessions": [
                {"id": "h1", "source": "cli", "title": "Tents", "started_at": 1.7776296e9}
            ],
            "messages": [
                {"id": 1, "session_id": "h1", "role": "user", "content": ASK[1]}
                | {"tool_call_id": None, "tool_calls": None, "timestamp": 1.7776296e9},
                {"id": 2, "session_id": "h1", "role": "assistant", "content": ""}
                | {
                    "tool_call_id": None,
                    "tool_calls": '[{"id":"t","function":{"name":"find","arguments":"{}"}}]',
                    "timestamp": 1.7776297e9,
                },
                {"id": 3, "session_id": "h1", "role": "tool", "content": "cellar"}
                | {"tool_call_id": "t", "tool_calls": None, "timestamp": 1.7776297e9},
                {"id": 4, "session_id": "h1", "role": "assistant", "content": SAY[1]}
                | {"tool_call_id": None, "tool_calls": None, "timestamp": 1.7776298e9},
            ],
        },
        ("h1", "Tents"),
        [ASK, CALL, GAVE, SAY],
    ),
    "opencode": (
        "opencode.db",
        {
            "session": [
                {"id": "o1", "title": "Tents", "directory": "/home/ann", "time_created": AT_MS}
            ],
            "message": [
                {"id": "m1", "session_id": "o1", "data": '{"role":"user"}'},
                {"id": "m2", "session_id": "o1", "data": '{"role":"assistant","modelID":"x"}'},
                {"id": "m3", "session_id": "o1", "data": '{"role":"assistant","modelID":"x"}'},
            ],
            "part": [
                {"id": "p1", "message_id": "m1", "data": json.dumps(_block(ASK[1])[0])},
                {
                    "id": "p2",
                    "message_id": "m2",
                    "data": json.dumps(
                        {
                            "type": "tool",
                            "callID": "t",
                            "tool": "find",
                            "state": {"status": "completed", "input": {}, "output": "cellar"},
                        }
                    ),
                },
                {"id": "p3", "message_id": "m3", "data": json.dumps(_block(SAY[1])[0])},
            ],
        },
        ("o1", "Tents"),
        [ASK, CALL, GAVE, SAY],
    ),
}


def write(folder: Path, name: str, held: Any) -> Path:
    """Write what a program holds as it does: a text, JSON, lines, or a database."""
    path = folder / name
    if isinstance(held, str):
        path.write_text(held, encoding="utf-8")
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(one) + "\n" for one in held))
    elif name.endswith(".db"):
        with sqlite3.connect(path) as other:
            for table, rows in held.items():
                other.execute(f"CREATE TABLE {table} ({', '.join(rows[0])})")
                marks = ", ".join("?" for _ in rows[0])
                values = [[*row.values()] for row in rows]
                other.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        other.close()
    else:
        path.write_text(json.dumps(held))
    return path


def told(db: MemDB, session: str, user: str = "ann") -> list[tuple[str, str]]:
    """Return the role of each message, with its text, or the kind of its first part."""
    found: list[tuple[str, str]] = []
    for one in db.scope(user).session(session).messages():
        parts = without_original(one.parts or [])
        found.append((one.role, kind_of(parts[0]) if parts else one.text))
    return found


@each("name", CHATS)
def test_a_chat_of_a_program(name: str, db: MemDB, tmp_path: Path) -> None:
    """It is told by its content, and each message has its words, its role and its time."""
    file, held, (session, title), expected = CHATS[name]
    path = write(tmp_path, file, held)
    report = db.import_file(path, user="ann")

    assert (report.format, report.is_complete, report.sessions) == (name, True, 1)
    assert told(db, session) == expected
    about = db.scope("ann").session(session)
    info = next(one for one in db.scope("ann").sessions() if one.name == session)
    assert info.title == title
    late = [one.created_ms - AT_MS for one in about.messages()]
    assert late == sorted(late)
    assert set(late) <= {*range(0, 300_000, 1000)}
    again = db.import_file(path, user="ann")
    assert (again.messages_added, again.messages_known) == (0, report.messages_added)


def _with(value: Any, bad: str) -> Any:
    """Return what a program holds with a character in the last word of the answer."""
    if isinstance(value, dict):
        return {key: _with(inner, bad) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with(inner, bad) for inner in value]
    if not isinstance(value, str):
        return value
    held = json.dumps(bad)[1:-1] if value.startswith("{") else bad  # a column of JSON
    return value.replace("cellar.", f"cel{held}lar.")


def test_a_character_that_no_file_can_hold(tmp_path: Path) -> None:
    """It is U+FFFD whatever the program, and costs nothing else."""
    found = {}
    for name, (file, held, (session, _), expected) in CHATS.items():
        for number, bad in enumerate(("\0", "\ud83d")):
            if bad != "\0" and (isinstance(held, str) or file.endswith(".db")):
                continue  # such a file is UTF-8
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            path = write(folder, file, _with(held, bad))
            with memdb.open(":memory:", embedder=None) as db:
                report = db.import_file(path, user="ann")
                got = told(db, session)
                if got != [(role, _with(text, "\ufffd")) for role, text in expected]:
                    found[name, bad] = (got, report.left_out)
    assert found == {}


# By format: what older or other versions of it lack.
LACKING = {
    "deepseek": ["0.inserted_at", "0.updated_at"],
    "open-webui": ["0.chat.history.messages.*.id"],
    "telegram": ["id", "messages.0", "messages.*.type", "messages.*.id"],
    "copilot-cli": ["0.data.sessionId", "0.data.startTime"],
    "pi": ["6", "0.version", *(f"{n}.{key}" for n in range(1, 6) for key in ("id", "parentId"))],
    "hermes": ["messages.*.id"],
    "opencode": ["part.*.id"],
}


def _remove(value: Any, path: str) -> None:
    """Remove what a path leads to; "*" stands for each."""
    name, _, rest = path.partition(".")
    keys = [*range(len(value))] if isinstance(value, list) else [*value]
    for key in keys if name == "*" else [int(name) if isinstance(value, list) else name]:
        if rest:
            _remove(value[key], rest)
        else:
            del value[key]


@each("name", CHATS)
def test_a_chat_without_what_some_versions_lack(name: str, db: MemDB, tmp_path: Path) -> None:
    """Ids, times or kinds that are missing change nothing of what was said."""
    file, held, *_ = copy.deepcopy(CHATS[name])
    for path in LACKING.get(name, []):
        _remove(held, path)
    report = db.import_file(write(tmp_path, file, held), user=name)

    (info,) = db.scope(name).sessions()
    assert (report.format, report.is_complete) == (name, True)
    assert told(db, info.name, name) == CHATS[name][3]


FACTS: dict[str, tuple[dict[str, list[dict[str, Any]]], list[str]]] = {
    "cpersona": (
        {
            "memories": [{"agent_id": "a", "content": "Ann likes tea.", "timestamp": AT}],
            "profiles": [{"agent_id": "a", "content": "Ann is a baker.", "updated_at": AT}],
            "episodes": [{"agent_id": "a", "summary": "A trip to Oslo.", "created_at": AT}],
        },
        ["A trip to Oslo.", "Ann is a baker.", "Ann likes tea."],
    ),
    "engrava": (
        {
            "thought": [
                {"thought_id": "1", "thought_type": "FACT", "content": "Ann likes tea."}
                | {"essence": "tea", "created_at": AT, "archived_at": None},
                {"thought_id": "2", "thought_type": "FACT", "content": "Ann lives in Rome."}
                | {"essence": "home", "created_at": AT, "archived_at": AT},
            ]
        },
        ["Ann likes tea."],
    ),
    "memware": (
        {
            "belief": [
                {"subject": "Ann", "relation": "lives_in", "value": value, "key": "ann/lives_in"}
                | {"valid_from": AT, "superseded_by": newer}
                for value, newer in (("Rome", 2), ("Oslo", None))
            ],
            "turn": [
                {"id": 1, "session": "s1", "seq": 1, "ts": AT, "role": "user", "text": ASK[1]}
            ],
        },
        ["Ann lives in Oslo"],
    ),
}


@each("name", FACTS)
def test_memories_of_a_program(name: str, db: MemDB, tmp_path: Path) -> None:
    """Each becomes an entry with its time, and what no longer holds there is left out."""
    held, expected = FACTS[name]
    path = write(tmp_path, f"{name}.db", held)
    report = db.import_file(path, user=name)

    entries = [*db.scope(name).entries.list()]
    assert (report.format, report.is_complete) == (name, True)
    assert sorted(one.text for one in entries) == expected
    assert {one.created_ms for one in entries} == {AT_MS}
    assert report.messages_added == len(held.get("turn", []))
    assert db.import_file(path, user=name).entries_added == 0


def test_an_export_of_slack(db: MemDB, tmp_path: Path) -> None:
    """The days of a channel are one session, and people have the names that the export lists."""
    with zipfile.ZipFile(tmp_path / "slack.zip", "w") as archive:
        archive.writestr("users.json", json.dumps([{"id": "U1", "real_name": "Ann Bo"}]))
        archive.writestr("channels.json", json.dumps([{"id": "C1", "name": "general"}]))
        for day in ("2026-05-01", "2026-05-02"):
            held = {
                "type": "message",
                "user": "U1",
                "text": f"Hi on {day}.",
                "ts": f"17776{day[-1]}",
            }
            archive.writestr(f"general/{day}.json", json.dumps([held]))
    report = db.import_file(tmp_path / "slack.zip", user="ann")

    said = db.scope("ann").session("general").messages()
    assert (report.format, report.sessions) == ("slack", 1)
    assert [(one.author, one.text) for one in said] == [
        ("Ann Bo", "Hi on 2026-05-01."),
        ("Ann Bo", "Hi on 2026-05-02."),
    ]


@each(
    "head,time",
    [
        ("[01.05.26, 22:00:00] ", "2026-05-01T22:00:00"),
        ("5/31/26, 10:00\u202fPM - ", "2026-05-31T22:00:00"),
        ("5/1/26, 12:30 AM - ", "2026-05-01T00:30:00"),
        ("01/05/2026, 22:00 - ", "2026-05-01T22:00:00"),
        ("31/05/2026, 22:00 - ", "2026-05-31T22:00:00"),
        ("[2026-05-01, 22:00:00] ", "2026-05-01T22:00:00"),
    ],
)
def test_times_of_whatsapp(head: str, time: str, db: MemDB, tmp_path: Path) -> None:
    """A date is read by the order of day and month in the file, and lines without one go on."""
    path = write(tmp_path, "chat.txt", f"{head}Ann: One.\nTwo: three.\n{head}Ben left\n")
    scope = db.scope(f"ann {head}")
    db.import_file(path, user=scope.user)

    (said,) = scope.session("chat").messages()
    at_ms = datetime.fromisoformat(f"{time}+00:00").timestamp() * 1000
    assert (said.text, said.author, said.created_ms) == ("One.\nTwo: three.", "Ann", at_ms)


def test_a_branch_and_a_list_of_chats(db: MemDB, tmp_path: Path) -> None:
    """What is not on the screen is a branch; a file with several chats is as many sessions."""
    db.import_file(write(tmp_path, *CHATS["open-webui"][:2]), user="ann")
    (branch,) = db.scope("ann").session("w1").branches()
    other = db.scope("ann").session("w1").branch(branch.name).messages()
    assert [one.text for one in other] == [ASK[1], "In the attic."]

    chat = CHATS["telegram"][1]
    held = {"about": "", "chats": {"list": [chat, {**chat, "id": 78}]}}
    assert db.import_file(write(tmp_path, "result.json", held), user="ann").sessions == 2


def test_a_damaged_conversation(db: MemDB, tmp_path: Path) -> None:
    """It costs itself only and is named; who wants all or nothing gets nothing."""
    good = CHATS["deepseek"][1][0]
    bad = {**good, "id": "d2", "mapping": {"1": {"id": "1", "message": {"fragments": 5}}}}
    path = write(tmp_path, "conversations.json", [good, bad, {**good, "id": "d3"}])
    with pytest.raises(memdb.InvalidInput, match=r"conversation 2: .* Nothing is stored"):
        db.import_file(path, user="ann", all_or_nothing=True)
    assert list(db.scopes()) == []

    report = db.import_file(path, user="ann")
    assert (report.sessions, report.is_complete) == (2, False)
    assert [one.what for one in report.left_out if one.is_place] == ["conversation 2"]
    lines = [json.dumps(one) for one in CHATS["pi"][1]]
    path = write(tmp_path, "p.txt", "\n".join([*lines[:3], "{half", *lines[3:]]))
    report = db.import_file(path, user="ann")
    assert [one.what for one in report.left_out] == ["line 4"]
    assert told(db, "p1") == CHATS["pi"][3]


@each(
    "file,held,guess",
    [
        ("a.json", {"conversationId": 1, "text": ""}, "nearest is librechat: .* lacks messages"),
        ("b.json", [{"requests": [], "x": 1}], "nearest is vscode-copilot: it has requests"),
        ("c.json", {"x": 1}, "not a format that can be imported: give"),
        ("d.db", {"part": [{"id": 1}], "note": [{"id": 1}]}, "nearest is opencode: it has part"),
    ],
)
def test_an_unknown_file(file: str, held: Any, guess: str, db: MemDB, tmp_path: Path) -> None:
    """The error names the format that it is nearest to, and all that are read."""
    with pytest.raises(memdb.InvalidInput, match=guess) as raised:
        db.import_file(write(tmp_path, file, held), user="ann")
    assert {*str(raised.value).replace(".", "").split(", ")} >= {"opencode", "engrava"}


def test_a_log_of_vs_code(db: MemDB, tmp_path: Path) -> None:
    """Its lines are changes: set, cut and added to, deleted; what leads nowhere is passed over."""
    lines: list[Any] = [
        {
            "kind": 0,
            "v": {"version": 3, "sessionId": "v1", "creationDate": AT_MS, "requests": []},
        },
        {
            "kind": 2,
            "k": ["requests"],
            "v": [{"requestId": "r0", "message": {"text": "Gone?"}}],
        },
        {"kind": 2, "k": ["requests"], "i": 0, "v": [{"requestId": "r1", "timestamp": AT_MS}]},
        {"kind": 1, "k": ["requests", 0, "message"], "v": {"text": ASK[1]}},
        {"kind": 1, "k": ["requests", 0, "response"], "v": [{"value": "In the "}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "cel"}, {"value": "?"}]},
        {"kind": 2, "k": ["requests", 0, "response"], "i": 2, "v": [{"value": "lar."}]},
        {"kind": 1, "k": ["requests", 9, "lost"], "v": 1},
        {"kind": 1, "k": ["customTitle"], "v": "Tents"},
        {"kind": 1, "k": ["inputState"], "v": {"text": "draft"}},
        {"kind": 3, "k": ["inputState"]},
        {"kind": 9, "k": ["requests"]},
    ]
    report = db.import_file(write(tmp_path, "v1.jsonl", lines), user="ann")
    chat = db.scope("ann").session("v1")
    assert (report.format, chat.title) == ("vscode-copilot", "Tents")
    assert [(one.role, one.text) for one in chat.messages()] == [ASK, SAY]
