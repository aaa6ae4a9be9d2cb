"""What a chat program asks of a session: its title, its metadata, and messages of any shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import InvalidInput, NotFound, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB


def test_a_title_and_metadata_are_read_and_assigned(db: MemDB) -> None:
    """Before the first message too; a branch has the title of its session, which alone gives it."""
    trip = db.user("ann").session("trip")
    assert (trip.title, trip.metadata) == (None, {})

    trip.title = "Oslo in May"
    trip.metadata = {"colour": "red"}
    trip.append("user", "We fly to Oslo.")
    again = db.scope("ann").session("trip")

    assert (again.title, again.metadata) == ("Oslo in May", {"colour": "red"})
    assert [info.title for info in db.user("ann").sessions()] == ["Oslo in May"]
    assert trip.update(title="Bergen").title == "Bergen"
    assert trip.metadata == {"colour": "red"}
    with pytest.raises(InvalidInput, match="title"):
        trip.title = 5
    branch = trip.branch("rail")
    with pytest.raises(InvalidInput, match="branch"):
        branch.title = "Rail"
    with pytest.raises(NotFound):
        memdb.api.session.Session(
            trip._services, trip._owner, memdb.models.ids.BranchName("trip", "none")
        ).update(metadata={})


def test_append_takes_a_role_and_text_or_a_message_of_a_provider(db: MemDB) -> None:
    """And returns the last message that was stored; `extend` takes a list and returns all."""
    chat = db.user("ann").session("chat")
    result = {"type": "tool_result", "tool_use_id": "t", "content": "done"}

    assert chat.append("user", "Hello").seq == 1
    assert chat.append({"role": "assistant", "content": "Hi."}).text == "Hi."
    assert chat.append(memdb.NewMessage("user", "Tea?")).seq == 3
    both = {"role": "user", "content": [result, {"type": "text", "text": "Now?"}]}
    assert (chat.append(both).text, chat.last_seq) == ("Now?", 5)
    assert [one.role for one in chat.extend([both])] == ["tool", "user"]
    with pytest.raises(InvalidInput, match="leave out"):
        chat.append(both, "beside it")
    with pytest.raises(InvalidInput, match="give a list"):
        chat.extend(both)
    with pytest.raises(InvalidInput, match="role"):
        chat.append("usr", "Hello")
    assert chat.last_seq == 7


HANDLES: dict[str, Callable[[MemDB], object]] = {
    "db": lambda db: db,
    "file": lambda db: db.file,
    "jobs": lambda db: db.jobs,
    "settings": lambda db: db.settings,
    "scope": lambda db: db.user("ann"),
    "entries": lambda db: db.user("ann").entries,
    "items": lambda db: db.user("ann").items,
    "state": lambda db: db.user("ann").state,
    "session": lambda db: db.user("ann").session("s"),
    "summaries": lambda db: db.user("ann").session("s").summaries,
    "artifacts": lambda db: db.user("ann").session("s").artifacts,
    "tools": lambda db: db.user("ann").session("s").tools(),
    "worker": lambda db: Worker(lambda _: 0, 1.0),
}


def test_an_assignment_that_would_do_nothing_is_refused(db: MemDB) -> None:
    """On every public object, and on its twin in `memdb.aio`; the error names what changes it."""
    wrong = []
    twins = {type(twin).__name__: twin for twin in made_twins(db)}
    for name, owner in {**{name: make(db) for name, make in HANDLES.items()}, **twins}.items():
        for unknown in ("entry_quota", "recall"):
            try:
                setattr(owner, unknown, 3)
                wrong.append((name, unknown))
            except AttributeError as error:
                wrong += [] if "cannot be assigned: call " in str(error) else [(name, error)]

    assert wrong == []
    with pytest.raises(AttributeError, match=r"Session.title cannot be assigned: call `update`"):
        twins["Session"].title = "Oslo"


def test_a_handle_says_what_it_is(db: MemDB) -> None:
    """In a line, without an address in memory; its twin too."""
    shown = {name: repr(make(db)) for name, make in HANDLES.items()}
    shown |= {f"aio {name}": repr(twin) for name, twin in enumerate(made_twins(db))}

    assert [one for one in shown.values() if " at 0x" in one or len(one) > 80] == []
    assert shown["entries"] == "<Entries of 'ann'>"
    assert shown["summaries"] == "<Summaries of 's' of 'ann'>"


def made_twins(db: MemDB) -> list[Any]:
    """Return a twin of each handle that has one."""
    owners: list[Any] = [make(db) for make in HANDLES.values()]
    named = [(owner, type(owner).__name__) for owner in owners]
    return [
        (getattr(memdb.aio, name, None) or getattr(memdb.aio.parts, name))(owner, None)
        for owner, name in named
    ]


def test_no_public_object_keeps_an_unknown_attribute() -> None:
    """No class has a `__dict__`, but for errors, and for protocols and shapes, which hosts make."""
    names = [name for names in memdb._HOMES.values() for name in names.split()]
    classes = [
        one
        for one in [getattr(memdb, name) for name in names]
        if isinstance(one, type)
        and one.__module__.startswith("memdb.")
        and not issubclass(one, (BaseException, dict))
        and not getattr(one, "_is_protocol", False)
    ]

    assert {memdb.Session, memdb.Worker, memdb.Folder, memdb.Entry} <= {*classes}
    assert [one.__name__ for one in classes if one.__dictoffset__] == []


def test_an_artifact_is_saved_from_a_path(db: MemDB, tmp_path: Path) -> None:
    """As from a file that is open; a str stays a text."""
    (tmp_path / "menu.md").write_bytes(b"soup")
    files = db.user("ann").session("s").artifacts

    assert files.save("menu.md", tmp_path / "menu.md").version == 1
    assert files.load("menu.md").data == b"soup"
    assert files.load(files.save("x.txt", str(tmp_path)).name).text == str(tmp_path)


def test_recall_takes_the_options_that_are_listed_and_no_others(db: MemDB) -> None:
    """By name, checked as its arguments are."""
    ann = db.user("ann")
    ann.remember("Ann likes tea.", category="preferences")

    assert ann.recall("tea", categories=["preferences"], explain=True)[0].explanation
    assert not ann.recall("tea", categories=["profile"])
    with pytest.raises(TypeError, match="'categoreis'"):
        ann.recall("tea", categoreis=["profile"])
    with pytest.raises(InvalidInput, match="rerank"):
        ann.session("s").recall("tea", rerank=1)


def test_a_session_is_placed_by_its_newest_message(db):
    """Neither an old date nor forgetting puts a conversation before newer ones."""
    ann = db.scope("ann")
    ann.session("now").append("user", "Today.")
    old = ann.session("old")
    old.extend([{"role": "user", "text": text, "created": "2020-01-02"} for text in ("a", "b")])
    names = [one.name for one in ann.sessions(order="updated")]
    old.forget([1])
    old.delete([2])

    assert names == [one.name for one in ann.sessions(order="updated")] == ["now", "old"]
    assert ann.sessions("old")[0].updated_ms == 1_577_923_200_000


def test_hits_and_windows_show_their_first_text(db: MemDB) -> None:
    """A program that prints an answer sees what was found, in a line."""
    chat = db.scope("ann").session("s")
    chat.append("user", "The tent is in the cellar.")
    chat.append("user", "tent " * 100)

    shown = [repr(db.scope("ann").recall("tent cellar")), repr(chat.context(1_000))]

    assert "<2 Hits: 'The tent is in the cellar.'>" in shown[0]
    assert "<2 Messages: 'The tent is in the cellar.'>" in shown[1]
