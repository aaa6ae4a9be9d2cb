"""Importing ChatGPT's export."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from import_samples import A1, A2, ANSWER, EDITED, Q1, Q2, chatgpt_thread, ways

import memdb
from memdb.adapters.host import HostFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB

    Document = Callable[..., str]
    Told = Callable[..., list[tuple[Any, ...]]]


def node(
    node_id: str, parent: str | None, role: str | None, content: Any = None, at: float | None = None
) -> dict[str, Any]:
    """Return a node of a mapping; no role: the empty root."""
    message = {
        "id": node_id,
        "author": {"role": role, "name": "python" if role == "tool" else None, "metadata": {}},
        "create_time": at,
        "content": content,
    }
    return {"id": node_id, "message": message if role else None, "parent": parent, "children": []}


def plain(*parts: Any) -> dict[str, Any]:
    """Return the content of a plain message."""
    return {"content_type": "text", "parts": list(parts)}


@pytest.fixture
def conversation() -> dict[str, Any]:
    """Return a conversation in which one question was asked in two ways."""
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1"}
    nodes = [
        node("root", None, None),
        node("sys", "root", "system", plain("")),
        node("q1", "sys", "user", plain("What is the capital?"), 1700000000.25),
        node("a1", "q1", "assistant", plain("Of which country?"), 1700000001),
        node(
            "q2",
            "sys",
            "user",
            {"content_type": "multimodal_text", "parts": [picture, "Of Norway?"]},
            1700000010,
        ),
        node(
            "code",
            "q2",
            "assistant",
            {"content_type": "code", "language": "python", "text": "print(1)"},
            1700000011,
        ),
        node("ran", "code", "tool", {"content_type": "execution_output", "text": "1"}),
        node("a2", "ran", "assistant", plain("Oslo.", "A city."), 1700000012),
    ]
    nodes[5]["message"]["recipient"] = "python"
    return {
        "id": "c1",
        "title": "Capitals",
        "create_time": 1699999999.5,
        "update_time": 1700000012,
        "mapping": {one["id"]: one for one in nodes},
        "current_node": "a2",
    }


def test_the_branch_on_the_screen(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """The current branch is the session, with roles, times and ids, without empty messages."""
    report = db.import_file(document([conversation]), user="ann")
    (info,) = db.scope("ann").sessions()

    assert (report.format, report.sessions, report.messages_added) == ("chatgpt", 1, 6)
    assert (info.name, info.title, info.created_ms) == ("c1", "Capitals", 1699999999500)
    assert told(db, "c1", "role", "text", "author", "external_id", "created_ms") == [
        ("user", "[image]\nOf Norway?", None, "q2", 1700000010000),
        ("assistant", 'python({"input": "print(1)"})', None, "code", 1700000011000),
        ("tool", "1", "python", "ran", 1700000011000),
        ("assistant", "Oslo.\nA city.", None, "a2", 1700000012000),
    ]


def test_what_is_not_plain_text_is_kept(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Images, calls of tools and their results stand in the parts."""
    db.import_file(document([conversation]), user="ann")

    assert told(db, "c1", "parts") == [
        (
            [
                {"type": "image", "file_id": "file-service://f1"},
                {"type": "text", "text": "Of Norway?"},
            ],
        ),
        (
            [
                {
                    "type": "tool_call",
                    "id": "code",
                    "name": "python",
                    "arguments": {"input": "print(1)"},
                }
            ],
        ),
        (
            [
                {
                    "type": "tool_result",
                    "tool_call_id": "code",
                    "name": "python",
                    "content": [{"type": "text", "text": "1"}],
                }
            ],
        ),
        (None,),
    ]


def test_a_newer_export_adds_what_is_new(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Messages that are here are known by their id."""
    db.import_file(document([conversation]), user="ann")
    conversation["mapping"]["q3"] = node("q3", "a2", "user", plain("Thanks!"), 1700000013)
    conversation["current_node"] = "q3"
    report = db.import_file(document([conversation]), user="ann")

    assert (report.sessions, report.messages_added, report.messages_known) == (0, 1, 6)
    assert told(db, "c1", "text")[-1] == ("Thanks!",)


def test_inside_the_archive(conversation: dict[str, Any], db: MemDB, document: Document) -> None:
    """The zip that is sent by mail can be given as it is."""
    path = document([conversation], member="conversations.json")
    seen: list[tuple[int, int]] = []
    report = db.import_file(path, user="ann", progress=lambda *step: seen.append(step))

    assert (report.format, report.messages_added) == ("chatgpt", 6)
    assert seen[-1][0] == seen[-1][1]


def test_without_current_node(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """The branch of the last leaf is taken."""
    del conversation["current_node"]
    conversation["mapping"]["a1"]["children"] = ["other"]
    for parent, child in (
        ("sys", "q2"),
        ("q1", "a1"),
        ("q2", "code"),
        ("code", "ran"),
        ("ran", "a2"),
    ):
        conversation["mapping"][parent]["children"].append(child)
    db.import_file(document([conversation]), user="ann")

    assert told(db, "c1", "external_id") == [("q2",), ("code",), ("ran",), ("a2",)]


def test_many_conversations_longer_than_a_block(
    conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """Each conversation is read for itself, however long."""
    long = "word " * 40_000
    texts = [long, "é" * 70_000, "short"]
    given = [
        {
            **conversation,
            "id": f"c{number}",
            "mapping": {"m": node("m", None, "user", plain(text), 1)},
            "current_node": "m",
        }
        for number, text in enumerate(texts)
    ]
    db.import_file(document(given), user="ann")

    assert [db.scope("ann").session(f"c{n}").get(1).text for n in range(3)] == texts


def test_an_empty_conversation_makes_no_session(db: MemDB, document: Document) -> None:
    """A session is made at its first message."""
    empty = {"id": "c1", "mapping": {"root": node("root", None, None)}, "current_node": "root"}
    report = db.import_file(document([empty]), user="ann")

    assert report.sessions == 0
    assert db.scope("ann").sessions() == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"mapping": [1]}, 'it has no "mapping"', id="mapping"),
        pytest.param({"id": None}, "has no id", id="id"),
        pytest.param({"create_time": "now"}, "write it like", id="time"),
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
    bad, after = {**conversation, **changes}, {**conversation, "id": "c3"}
    report = db.import_file(document([conversation, bad, after]), user="ann")

    (left,) = [one for one in report.left_out if one.what == "conversation 2"]
    assert error in left.why
    assert [db.scope("ann").session(name).last_seq for name in ("c1", "c3")] == [4, 4]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"parent": "a2"}, "node 'a2' is its own", id="circle"),
        pytest.param({"message": {"author": None}}, "has no author", id="author"),
    ],
)
def test_a_bad_node(
    changes: dict[str, Any], error: str, conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """The report says what is wrong with the tree."""
    conversation["mapping"]["q2"] |= changes

    with pytest.raises(memdb.InvalidInput, match=f"^conversation 1: .*{error}.*Nothing is stored"):
        db.import_file(document([conversation]), user="ann")
    assert db.scope("ann").sessions() == []


def test_a_role_nobody_knows(conversation: dict[str, Any], db: MemDB, document: Document) -> None:
    """The report names conversation and role."""
    bad = json.loads(json.dumps({**conversation, "id": "c2"}))
    bad["mapping"]["a2"]["message"]["author"]["role"] = "bird"

    report = db.import_file(document([bad, conversation]), user="ann")

    assert (report.left_out[0].what, report.messages_added) == ("conversation 1", 6)
    assert "role is 'bird'" in report.left_out[0].why


def test_sessions_are_named_by_the_file(
    conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """A session cannot be given beside them."""
    with pytest.raises(memdb.InvalidInput, match=r"session is given, .*its own session names"):
        db.import_file(document([conversation]), user="ann", session="chat")


SHARDS = ["conversations-000.json", "conversations-001.json"]


@pytest.mark.parametrize("form", ["zip", "zip with a folder", "folder"])
def test_shards(form: str, conversation: dict[str, Any], db: MemDB, tmp_path: Path) -> None:
    """A large export comes in several files; all are read, and what else is there is named."""
    given = {
        SHARDS[0]: json.dumps([conversation]),
        SHARDS[1]: json.dumps([{**conversation, "id": "c2"}]),
        "chat.html": "<html>",
        "file-1.png": "x",
    }
    path = tmp_path / "export"
    if form == "folder":
        path.mkdir()
        for name, text in given.items():
            (path / name).write_text(text)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in given.items():
                archive.writestr(f"export/{name}" if form != "zip" else name, text)
    reports = [db.import_file(path, user="ann") for _ in range(2)]

    assert [(one.sessions, one.messages_added) for one in reports] == [(2, 12), (0, 0)]
    assert sorted(info.name for info in db.scope("ann").sessions()) == ["c1", "c2"]
    (rest,) = reports[0].left_out
    assert (rest.what, rest.count) == ("files", 2)
    assert "chat.html" in rest.why


def test_an_empty_shard(db: MemDB, tmp_path: Path) -> None:
    """An account without conversations is no error."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(SHARDS[0], "[]")

    assert db.import_file(tmp_path / "a.zip", user="ann").messages_added == 0


def test_what_the_page_hides(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Profiles and thoughts are no messages; the report counts them."""
    mapping = conversation["mapping"]
    hidden = [
        ("profile", {"content_type": "user_editable_context", "user_profile": "I am Ann."}),
        ("thoughts", {"content_type": "thoughts", "thoughts": [{"content": "Hm."}]}),
        ("recap", {"content_type": "reasoning_recap", "content": "Thought for 7 seconds"}),
        ("flag", plain("Hidden.")),
    ]
    parent = "a2"
    for name, content in hidden:
        mapping[name] = node(name, parent, "assistant", content, 1700000013)
        parent = name
    mapping["flag"]["message"]["metadata"] = {"is_visually_hidden_from_conversation": True}
    conversation["current_node"] = parent
    report = db.import_file(document([conversation]), user="ann")

    assert {(one.what, one.count) for one in report.left_out} == {
        ("profiles and instructions of the user", 1),
        ("thoughts of the model", 2),
        ("hidden messages", 1),
    }
    assert "Left out: thoughts of the model (2): ChatGPT does not show them" in str(report)
    assert len(told(db, "c1", "text")) == 4


def test_a_project(conversation: dict[str, Any], db: MemDB, document: Document) -> None:
    """The project of a conversation is in the session's metadata."""
    conversation["gizmo_id"] = "g-p-12"
    db.import_file(document([conversation]), user="ann")

    assert db.scope("ann").sessions()[0].metadata == {"project": "g-p-12"}


def test_a_branch_whose_root_is_missing(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """What hangs together up to the current node is imported."""
    del conversation["mapping"]["sys"]
    db.import_file(document([conversation]), user="ann")

    assert len(told(db, "c1", "text")) == 4


def test_a_dry_run_stores_nothing(
    conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """It counts, shows the first messages, and leaves the file as it is."""
    before = HostFile(db).mark()
    report = db.import_file(document([conversation]), user="ann", dry_run=True)

    assert (report.dry_run, report.sessions, report.messages_added) == (True, 1, 6)
    assert report.samples[0] == "assistant: Oslo. A city."
    assert "Would import 6 messages in 1 new session, 1 branch of a session" in str(report)
    assert (db.scope("ann").sessions(), HostFile(db).mark()) == ([], before)


def test_branches_through_hidden_messages(db: MemDB, document: Document) -> None:
    """A branch begins behind the last message that is imported."""
    given = chatgpt_thread(Q1, A1, Q2, A2, EDITED, ANSWER, current="a2")
    for parent, child in (("a1", "q2"), ("a1", "q2b")):
        thought = node(f"t-{child}", parent, "assistant", {"content_type": "thoughts"})
        given["mapping"][thought["id"]] = thought
        given["mapping"][child]["parent"] = thought["id"]
    db.import_file(document([given]), user="ann")

    assert ways(db) == {("q1", "a1", "q2", "a2"), ("q1", "a1", "q2b", "a2b")}


def test_all_that_is_left_out_is_counted(
    conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """Conversations without messages, attached files, nodes that are their own ancestors."""
    empty = {"id": "c2", "mapping": {"root": node("root", None, None)}, "current_node": "root"}
    circle = {one: node(one, other, "user", plain("x")) for one, other in (("x", "y"), ("y", "x"))}
    conversation["mapping"] |= circle
    conversation["mapping"]["q2"]["message"]["metadata"] = {
        "attachments": [
            {"id": "f1", "name": "cat.png"},
            {"id": "f2", "name": "plan.pdf", "mime_type": "application/pdf"},
        ]
    }
    report = db.import_file(document([conversation, empty]), user="ann")
    counts = {one.what: one.count for one in report.left_out}

    assert counts["conversations"] == 1
    assert counts["attached files"] == 1
    assert counts["messages"] == 2
    texts = [message.text for message in db.scope("ann").session("c1").messages()]
    assert "[image: cat.png]\nOf Norway?\n[file: plan.pdf]" in texts


def test_marks_of_sources(db: MemDB, document: Document) -> None:
    """What the page shows in their place stands in the text, or nothing."""
    shown, other = "\ue200cite\ue202turn0search1\ue201", "\ue200cite\ue202turn0search2\ue202a\ue201"
    given = chatgpt_thread(
        Q1, ("a1", "q1", f"Oslo {shown} is a city{other}. \ue200navlist"), current="a1"
    )
    given["mapping"]["a1"]["message"]["metadata"] = {
        "content_references": [
            {"matched_text": shown, "alt": "([x.org](https://x.org))"},
            {"matched_text": " ", "alt": "", "type": "sources_footnote"},
        ]
    }
    db.import_file(document([given]), user="ann")

    text = db.scope("ann").session("c1").get(2).text
    assert text == "Oslo ([x.org](https://x.org)) is a city. "


@each(
    "mark,words",
    [
        ('\ue200entity\ue202["company","Van Dyck & Zoon",1]\ue201', "Van Dyck & Zoon"),
        ('\ue200entity\ue202["city","Oslo","capital of Norway"]\ue201', "Oslo"),
        ("\ue200url\ue202the page of x\ue202turn0search0\ue201", "the page of x"),
        ("\ue200cite\ue202turn0search1\ue202turn0news12\ue201", ""),
        ("\ue200filecite\ue202turn0file3\ue202L1-L5\ue201", ""),
        ('\ue200image_group\ue202{"query":["a boat"]}\ue201', ""),
        ("\ue200navlist\ue202More on boats\ue202turn0search1,turn0search2\ue201", "More on boats"),
        ("\ue203a boat\ue204\ue206", "a boat"),
    ],
)
def test_a_mark_ends_at_its_end(mark: str, words: str, db: MemDB, document: Document) -> None:
    """The reader sees the name of an entity or the words of a link, and no rest of a mark."""
    scope = db.scope(f"ann{words}{len(mark)}")
    given = chatgpt_thread(Q1, ("a1", "q1", f"Made by {mark} in 1921."), current="a1")
    db.import_file(document([given]), user=scope.user)

    assert scope.session("c1").get(2).text == f"Made by {words} in 1921."


def test_canvases_and_names_of_images(db: MemDB, document: Document) -> None:
    """A canvas is an artifact with a version for each change on the screen."""
    calls = {
        "a1": ("create_textdoc", {"name": "plan", "type": "document", "content": "Row. (Sail.)"}),
        "a2": ("update_textdoc", {"updates": [{"pattern": r"\(Sail\.\)", "replacement": "Swim."}]}),
        "a3": ("update_textdoc", {"updates": [{"pattern": ".*", "replacement": "Stay."}]}),
        "a4": ("update_textdoc", {"updates": [{"pattern": "(a+)+b", "replacement": ""}]}),
    }
    nodes = [(one, before, "x") for one, before in pairwise(("a4", "a3", "a2", "a1", "q1"))]
    given = chatgpt_thread(Q1, *nodes[::-1], current="a4")
    for one, (tool, arguments) in calls.items():
        message = given["mapping"][one]["message"]
        message["recipient"] = f"canmore.{tool}"
        message["content"]["parts"] = [json.dumps(arguments)]
    image = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_7"}
    asked = given["mapping"]["q1"]["message"]
    asked["content"] = {"content_type": "multimodal_text", "parts": [image, "Look."]}
    asked["metadata"] = {"attachments": [{"id": "file_7", "name": "boat.png"}]}
    report = db.import_file(document([given]), user="ann")

    session = db.scope("ann").session("c1")
    texts = [session.artifacts.load("plan.md", version=number).text for number in (1, 2, 3)]
    assert texts == ["Row. (Sail.)", "Row. Swim.", "Stay."]
    assert [one.what for one in report.left_out] == ["changes of canvases"]
    assert session.get(1).text == "[image: boat.png]\nLook."


@pytest.mark.parametrize(
    "content", [None, {"content_type": "text", "parts": None}, plain(), plain("")], ids=str
)
def test_a_message_without_content(
    conversation: dict[str, Any], db: MemDB, document: Document, content: Any
) -> None:
    """An answer that failed says nothing; what is around it is imported."""
    conversation["mapping"]["a2"]["message"]["content"] = content
    report = db.import_file(document([conversation]), user="ann")

    assert report.messages_added == 5
    assert report.left_out == ()
