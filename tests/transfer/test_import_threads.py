"""Conversations that are trees: what was edited, or made again, in exports that say so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from import_samples import (
    A1,
    A2,
    ANSWER,
    EDITED,
    EDITS,
    Q1,
    Q2,
    chatgpt_thread,
    claude_thread,
    grok_thread,
    ways,
)

from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB

    Document = Callable[..., str]
    Talk = Callable[..., dict[str, Any]]

TALKS = {
    "chatgpt": chatgpt_thread,
    "claude": claude_thread,
    "claude, with the last message": partial(claude_thread, is_said=True),
    "grok": grok_thread,
    "grok, with the last response": partial(grok_thread, is_said=True),
}


@pytest.fixture(params=TALKS)
def talk(request: pytest.FixtureRequest) -> Talk:
    """Return a function that makes a conversation of (id, parent, words) as a program does."""
    made: Talk = TALKS[request.param]
    return made


def leaves(nodes: list[Any]) -> set[tuple[str, ...]]:
    """Return the ways from the first message to the last ones of a conversation."""
    parents = {one: parent for one, parent, _ in nodes}
    found = set()
    for leaf in parents.keys() - set(parents.values()):
        way: list[str] = []
        at: str | None = leaf
        while at in parents:
            way.insert(0, at)
            at = parents[at]
        found.add(tuple(way))
    return found


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_conversation(name: str, talk: Talk, db: MemDB, document: Document) -> None:
    """All ways are there, on the screen first; the same with an import before the edit."""
    _, _, nodes, current = EDITS[name]
    path = document([talk(*nodes, current=current)])
    trial = db.import_file(path, user="ann", dry_run=True)
    report = db.import_file(path, user="ann")
    again = db.import_file(path, user="ann")

    assert ways(db) == leaves(nodes)
    assert [*db.scope("ann").session("c1").messages()][-1].external_id == current
    assert report.messages_added == len(nodes)
    assert (report.sessions, report.branches) == (1, len(leaves(nodes)) - 1)
    assert (trial.sessions, trial.branches, trial.notes) == (1, report.branches, ())
    assert (again.messages_added, again.branches, again.notes) == (0, 0, ())
    assert counted(report.branches, "branch of a session", "branches of sessions") in str(report)
    chat = db.scope("ann").session("c1")
    heads = [chat, *(chat.branch(one.name) for one in chat.branches())]
    newest_ms = max(one.created_ms for head in heads for one in head.messages())
    assert db.scope("ann").sessions()[0].updated_ms == newest_ms
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("name", EDITS)
def test_a_question_edited_between_two_imports(
    name: str, talk: Talk, db: MemDB, document: Document
) -> None:
    """The session keeps its way, what is new is a branch, and the report says it."""
    first, shown, nodes, current = EDITS[name]
    db.import_file(document([talk(*first, current=shown)]), user="ann")
    path = document([talk(*nodes, current=current)])
    trial = db.import_file(path, user="ann", dry_run=True)
    report = db.import_file(path, user="ann")
    again = db.import_file(path, user="ann")

    assert ways(db) == leaves(nodes)
    assert [*db.scope("ann").session("c1").messages()][-1].external_id == shown
    assert report.branches >= 1
    assert len(report.notes) == report.branches
    assert "is its branch" in report.notes[0]
    assert trial.notes == report.notes
    assert (again.messages_added, again.branches, again.notes) == (0, 0, ())
    assert db.file.check(deep=True) == []


def test_what_was_said_here_since(talk: Talk, db: MemDB, document: Document) -> None:
    """What goes on there after a message that is not the last one here is a branch."""
    db.import_file(document([talk(Q1, A1, current="a1")]), user="ann")
    db.scope("ann").session("c1").append("user", "And here?")
    db.import_file(document([talk(Q1, A1, Q2, A2, current="a2")]), user="ann")

    assert ways(db) == {("q1", "a1", ""), ("q1", "a1", "q2", "a2")}


def test_a_branch_is_recalled(talk: Talk, db: MemDB, document: Document) -> None:
    """What was said before an edit is found as well."""
    db.import_file(document([talk(Q1, A1, Q2, A2, EDITED, ANSWER, current="a2")]), user="ann")

    assert "Yes, by ship." in {hit.text for hit in db.scope("ann").recall("ship")}


def test_a_title_that_changed(talk: Talk, db: MemDB, document: Document) -> None:
    """The session keeps the one it has here; the report says both, a dry run too."""
    db.import_file(document([talk(Q1, A1, current="a1")]), user="ann")
    path = document([talk(Q1, A1, current="a1", title="Oslo by train")])
    trial, report = (db.import_file(path, user="ann", dry_run=one) for one in (True, False))

    assert trial.notes == report.notes
    (note,) = report.notes
    assert "'Oslo by train'" in note
    assert "'Trip'" in note
    assert db.scope("ann").sessions()[0].title == "Trip"


def test_versions_of_an_artifact_by_branch(db: MemDB, document: Document) -> None:
    """Each way changes what it has itself; what is on the screen is the newest version."""
    given = claude_thread(Q1, A1, EDITED, ANSWER, Q2, A2, current="a2", is_said=True)
    saved = {one["uuid"]: one for one in given["chat_messages"]}

    def save(at: str, command: str, **fields: str) -> None:
        call = {"id": "plan", "command": command, "type": "text/markdown", **fields}
        block = {"type": "tool_use", "name": "artifacts", "input": call}
        saved[at]["content"].append(block)

    save("a1", "create", content="Go by bus.")
    save("a2b", "update", old_str="bus", new_str="ship")
    save("a2", "update", old_str="bus", new_str="train")
    saved["a2b"]["created_at"] = "2025-03-02T09:30:00Z"
    reports = [db.import_file(document([given]), user="ann") for _ in range(2)]
    artifacts = db.scope("ann").session("c1").artifacts
    versions = [artifacts.load("plan.md", version=number) for number in (1, 2, 3)]

    assert [(one.artifacts_added, one.left_out) for one in reports] == [(3, ()), (0, ())]
    assert [one.text for one in versions] == ["Go by bus.", "Go by ship.", "Go by train."]
    assert [one.info.message_branch for one in versions] == [None, "q2b", None]
    assert [one.info.message_seq for one in versions] == [2, 4, 4]
    assert artifacts.load("plan.md").text == "Go by train."


def claude_ways(db: MemDB, document: Document, *messages: tuple[str, str | None]) -> Any:
    """Import messages of (uuid, parent) and return the ways; "" as parent: it is not said."""
    given = claude_thread(*[(one, None, f"words of {one}") for one, _ in messages], current="")
    for message, (_, parent) in zip(given["chat_messages"], messages, strict=True):
        message["parent_message_uuid"] = parent
        if parent == "":
            del message["parent_message_uuid"]
    report = db.import_file(document([given]), user="ann")
    return ways(db), [(one.what, one.count) for one in report.left_out]


def test_parents_that_are_not_there(db: MemDB, document: Document) -> None:
    """A message without one, or with one that is not in the export, is behind the one before."""
    found, left_out = claude_ways(
        db, document, ("q1", None), ("a1", ""), ("q2", "gone"), ("q3", "a1"), ("a3", "q3")
    )

    assert found == {("q1", "a1", "q2"), ("q1", "a1", "q3", "a3")}
    assert left_out == []


def test_claude_messages_that_are_their_own_ancestors(db: MemDB, document: Document) -> None:
    """They are left out and counted; the others are imported."""
    found, left_out = claude_ways(db, document, ("q1", None), ("x", "y"), ("y", "x"), ("a1", "q1"))

    assert (found, left_out) == ({("q1", "a1")}, [("messages", 2)])


def test_grok_responses_without_parents(db: MemDB, document: Document) -> None:
    """Older exports name none: they are one way, by time."""
    given = grok_thread(("q2", None, "By train?"), Q1, A1, current="q2")
    for one in given["responses"]:
        one["response"].pop("parent_response_id", None)
    report = db.import_file(document({"conversations": [given]}), user="ann")

    assert (ways(db), report.branches) == ({("q1", "a1", "q2")}, 0)


def test_grok_responses_that_are_their_own_ancestors(db: MemDB, document: Document) -> None:
    """They are left out and counted; what stands behind a response without words stays."""
    nodes = [Q1, ("e", "q1", "<grok:render id='1'>card</grok:render>"), ("a1", "e", "Oslo.")]
    circle = [("x", "y", "A"), ("y", "x", "B")]
    given = grok_thread(*nodes, *circle, current="a1", is_said=True)
    report = db.import_file(document({"conversations": [given]}), user="ann")

    assert ways(db) == {("q1", "a1")}
    assert [one.count for one in report.left_out] == [2, 1]


def test_a_fact_that_names_a_message_of_a_branch(db: MemDB, lines: Callable[..., str]) -> None:
    """A line by hand names a message by its session and id, wherever it is."""
    said = [
        {"session": "c", "role": "user", "text": words, "id": one, "after": after}
        for one, after, words in (("q", None, "Go?"), ("r", "q", "By bus."), ("s", "q", "By car."))
    ]
    fact = {"kind": "entry", "text": "Ann goes by car.", "session": "c", "message": "s"}
    db.import_file(lines(*said, fact), user="ann")
    (entry,) = db.scope("ann").entries.list()

    assert (entry.session, entry.branch, entry.first_seq) == ("c", "s", 2)
