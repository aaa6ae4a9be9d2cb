"""Importing Claude's export."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from memdb.formats.imports.claude import MIMES, PLAIN
from memdb.formats.originals import original_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB

    Document = Callable[..., str]
    Told = Callable[..., list[tuple[Any, ...]]]

TOOL_USE = {"type": "tool_use", "name": "search", "input": {"q": "buns"}}


@pytest.fixture
def conversation() -> dict[str, Any]:
    """Return a conversation with an attachment and a tool call."""
    return {
        "uuid": "c1",
        "name": "Baking",
        "created_at": "2024-03-01T09:30:00.250000Z",
        "updated_at": "2024-03-01T09:31:00Z",
        "account": {"uuid": "me"},
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "How long do buns take?",
                "content": [{"type": "text", "text": "How long do buns take?", "citations": []}],
                "created_at": "2024-03-01T09:30:01Z",
                "attachments": [{"file_name": "list.txt", "extracted_content": "flour"}],
                "files": [],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "This block is not supported.",
                "content": [TOOL_USE, {"type": "text", "text": "Twelve minutes."}],
                "created_at": "2024-03-01T10:30:02+01:00",
                "attachments": [],
                "files": [],
            },
            {
                "uuid": "m3",
                "sender": "human",
                "text": "Thanks",
                "created_at": "2024-03-01T09:30:03Z",
            },
        ],
    }


def test_messages_with_roles_times_and_ids(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Each message comes with what it says in words, its time and its id."""
    report = db.import_file(document([conversation]), user="ann")
    (info,) = db.scope("ann").sessions()

    assert (report.format, report.sessions, report.messages_added) == ("claude", 1, 3)
    assert (info.name, info.title, info.created_ms) == ("c1", "Baking", 1709285400250)
    assert told(db, "c1", "role", "text", "external_id", "created_ms") == [
        ("user", "How long do buns take?\n[file: list.txt] flour", "m1", 1709285401000),
        ("assistant", "Twelve minutes.", "m2", 1709285402000),
        ("user", "Thanks", "m3", 1709285403000),
    ]


def test_what_is_not_text_is_kept(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Tool calls and attachments stand in the parts."""
    db.import_file(document([conversation]), user="ann")

    (asked,), (answered,), (last,) = told(db, "c1", "parts")
    assert asked[1] == {"type": "file", "name": "list.txt", "text": "flour"}
    assert answered[0]["type"] == "tool_call"
    assert original_of(answered, "anthropic")["content"][0] == TOOL_USE
    assert last is None


def test_what_says_nothing_is_no_text(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """A block that tells how many tokens are left stands in neither text nor parts."""
    said = {"type": "text", "text": "Goodbye."}
    conversation["chat_messages"][-1]["content"] = [{"type": "token_budget", "remaining": 1}, said]
    db.import_file(document([conversation]), user="ann")

    text, parts = told(db, "c1", "text", "parts")[-1]
    assert (text, parts) == ("Goodbye.", None)


def test_importing_twice_adds_nothing(
    conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """Messages are known by their uuid, from the archive too."""
    db.import_file(document([conversation]), user="ann")
    archive = document([conversation], member="data-2024/conversations.json")
    report = db.import_file(archive, user="ann")

    assert (report.format, report.messages_added, report.messages_known) == ("claude", 0, 3)


def test_an_empty_conversation_makes_no_session(db: MemDB, document: Document) -> None:
    """A session is made at its first message."""
    db.import_file(document([{"uuid": "c1", "name": "", "chat_messages": []}]), user="ann")

    assert db.scope("ann").sessions() == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"chat_messages": None}, "it has no chat_messages", id="messages"),
        pytest.param({"uuid": None}, "has no uuid", id="uuid"),
        pytest.param({"created_at": "yesterday"}, "write it like", id="time"),
        pytest.param({"chat_messages": [{"sender": "human"}]}, "message 1 has no uuid", id="m"),
    ],
)
def test_a_bad_conversation(
    changes: dict[str, Any],
    error: str,
    conversation: dict[str, Any],
    db: MemDB,
    document: Document,
) -> None:
    """It is left out with the reason; those before and after it are stored."""
    bad, after = {**conversation, **changes}, {**conversation, "uuid": "c3"}
    report = db.import_file(document([conversation, bad, after]), user="ann")

    assert [one.what for one in report.left_out] == ["conversation 2"]
    assert error in report.left_out[0].why
    assert [db.scope("ann").session(name).last_seq for name in ("c1", "c3")] == [3, 3]


def call(command: str, at: int, **fields: Any) -> dict[str, Any]:
    """Return a message of the assistant that writes an artifact."""
    block = {"type": "tool_use", "name": "artifacts", "input": {"command": command, **fields}}
    result = {
        "type": "tool_result",
        "name": "artifacts",
        "content": [{"type": "text", "text": "OK"}],
    }
    return {
        "uuid": f"a{at}",
        "sender": "assistant",
        "content": [block, result, {"type": "text", "text": "Done."}],
        "created_at": f"2024-03-01T10:00:0{at}Z",
    }


def test_artifacts_become_versions(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Each call is a version, a change is applied; what a tool gave is a message of its own."""
    about = {"type": "text/markdown", "title": "The plan"}
    conversation["chat_messages"] += [
        call("create", 1, id="plan", content="Bake buns.\n", **about),
        call("update", 2, id="plan", old_str="buns", new_str="bread"),
        call("update", 3, id="plan", old_str="cake", new_str="pie"),
        call("rewrite", 4, id="plan", content="Buy bread.\n"),
    ]
    reports = [db.import_file(document([conversation]), user="ann") for _ in range(2)]
    artifacts = db.scope("ann").session("c1").artifacts

    assert [one.artifacts_added for one in reports] == [3, 0]
    assert [artifacts.load("plan.md", version=n).text for n in (1, 2, 3)] == [
        "Bake buns.\n", "Bake bread.\n", "Buy bread.\n"
    ]  # fmt: skip
    assert artifacts.load("plan.md").info.metadata == {"title": "The plan"}
    assert reports[0].left_out[0].what == "changes of artifacts"
    assert [role for (role,) in told(db, "c1", "role")][-3:] == ["assistant", "tool", "assistant"]


@pytest.mark.parametrize("kind", [*MIMES, "application/x.unknown"])
def test_a_change_is_a_version_of_what_it_changes(
    kind: str, conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """A call that changes an artifact names only its id: type, title and language stay."""
    about = {"type": kind, "title": "The plan", "language": "python"}
    conversation["chat_messages"] += [
        call("create", 1, id="plan", content="Bake buns.", **about),
        call("update", 2, id="plan", old_str="buns", new_str="bread"),
        call("rewrite", 3, id="plan", content="Buy bread.", title="Another plan"),
    ]
    db.import_file(document([conversation]), user="ann")
    artifacts = db.scope("ann").session("c1").artifacts
    (newest,) = artifacts.list()
    (mime, suffix) = MIMES.get(kind, PLAIN)

    assert (newest.name, newest.version, newest.mime) == (f"plan{suffix}", 3, mime)
    titles = [artifacts.load(newest.name, version=n).info.metadata for n in (1, 2, 3)]
    assert [about["title"] for about in titles] == ["The plan", "The plan", "Another plan"]
    assert {about["language"] for about in titles} == {"python"}


def test_projects_and_memories(conversation: dict[str, Any], db: MemDB, tmp_path: Path) -> None:
    """A project's documents are artifacts of the user, each memory is an entry."""
    made = "2024-03-01T09:30:00Z"
    files = {
        "conversations.json": [conversation],
        "projects.json": [
            {
                "uuid": "p1", "name": "Bakery", "description": "", "created_at": made,
                "prompt_template": "Speak of bread.",
                "docs": [{"uuid": "d1", "filename": "menu.txt", "content": "Rye.", "created_at": made}],
            }
        ],
        "memories.json": [
            {
                "conversations_memory": "**Work**\n\nAnn runs a bakery.\n- Ann opens at six.",
                "project_memories": {"p1": "Rye sells best."},
            }
        ],
        "users.json": [{"uuid": "me", "full_name": "Ann"}],
    }  # fmt: skip
    path = tmp_path / "claude.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in files.items():
            archive.writestr(name, json.dumps(value))
    reports = [db.import_file(path, user="ann") for _ in range(2)]
    ann = db.scope("ann")

    assert [(one.entries_added, one.artifacts_added) for one in reports] == [(3, 2), (0, 0)]
    assert ann.artifacts.load("projects/Bakery/menu.txt").text == "Rye."
    assert ann.artifacts.load("projects/Bakery/prompt_template.md").text == "Speak of bread."
    assert {(one.text, str(one.metadata)) for one in ann.entries.list()} == {
        ("Ann runs a bakery.", "None"),
        ("Ann opens at six.", "None"),
        ("Rye sells best.", "{'project': 'p1'}"),
    }
    assert "users.json" in reports[0].left_out[0].why


def test_names_that_several_have(db: MemDB, tmp_path: Path) -> None:
    """Projects of one name, and documents of one name in a project, stay apart."""
    projects = [
        {
            "uuid": f"p{n}",
            "name": "Trip" if n < 3 else "Home",
            "docs": [
                {"uuid": f"d{n}{m}", "filename": "d.md", "content": f"words {n}{m}"}
                for m in range(1 if n < 3 else 2)
            ],
        }
        for n in (1, 2, 3)
    ]
    (tmp_path / "projects.json").write_text(json.dumps(projects))
    (tmp_path / "conversations.json").write_text("[]")
    reports = [db.import_file(tmp_path, user="ann") for _ in range(2)]
    found = {one.name: one.version for one in db.scope("ann").artifacts.list()}

    assert [one.artifacts_added for one in reports] == [4, 0]
    assert found == {
        "user:projects/Trip (p1)/d.md": 1,
        "user:projects/Trip (p2)/d.md": 1,
        "user:projects/Home/d.md (d30)": 1,
        "user:projects/Home/d.md (d31)": 1,
    }


def test_a_project_without_documents(db: MemDB, document: Document) -> None:
    """Its instructions come in, and what is missing is said."""
    given = {"uuid": "p1", "name": "Trip", "prompt_template": "Be brief.", "docs": None}
    report = db.import_file(document([given]), user="ann")

    assert report.artifacts_added == 1
    assert "no list of documents" in report.left_out[0].why
