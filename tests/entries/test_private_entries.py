"""What only one session recalls belongs to it: no other session, nor the scope, meets it."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB, Scope

OPEN: dict[str, dict[str, Any]] = {
    "the scope": {},
    "session B": {"session": "B"},
    "session B, openly": {"session": "B", "session_only": False},
    "only session B": {"session": "B", "session_only": True},
}
keyed = pytest.mark.parametrize("key", [None, "pet"])


@pytest.fixture
def ann(db: MemDB) -> Scope:
    """Give a scope with two sessions."""
    ann = db.scope("ann")
    for name in ("A", "B"):
        ann.session(name).append("user", "Hello.")
    return ann


def recalled(ann: Scope, session: str | None = None) -> list[str]:
    """Return the entries that a session, or the scope, recalls."""
    return sorted(hit.text for hit in ann.recall("pelican", session=session, kinds=["entry"]))


def found(ann: Scope, session: str | None = None) -> str | None:
    """Return what the fact "pet" is for a session, or the scope."""
    entry = ann.entries.find("pet", session=session)
    return None if entry is None else entry.text


@keyed
@pytest.mark.parametrize("words", ["The pelican is called Zoe.", "The pelican is called Max."])
@pytest.mark.parametrize("told", OPEN)
def test_another_statement_does_not_meet_it(
    ann: Scope, told: str, words: str, key: str | None
) -> None:
    """It is added, in the words of the private one or in others, and outlives it."""
    only_a = ann.remember("The pelican is called Zoe.", session="A", session_only=True, key=key)
    done = ann.remember(words, key=key, **OPEN[told])

    assert (done.action, done.other) == ("added", None)
    assert done.entry.session_only == (told == "only session B")
    assert ann.entries.get(only_a.entry.id).active
    asking = "B" if told == "only session B" else None
    assert recalled(ann, asking) == [words]
    assert recalled(ann, "A")[-1] == "The pelican is called Zoe."
    if key:
        assert found(ann, asking) == words
        assert found(ann, "A") == "The pelican is called Zoe."
    ann.delete(session="A")
    assert recalled(ann, asking) == [words]
    assert [entry.text for entry in ann.entries.list()] == [words]


@keyed
@pytest.mark.parametrize("told", OPEN)
def test_it_does_not_meet_another_statement(ann: Scope, told: str, key: str | None) -> None:
    """A private statement retires nothing outside of its session."""
    first = ann.remember("The pelican is called Zoe.", key=key, **OPEN[told]).entry
    done = ann.remember("The pelican is called Max.", session="A", session_only=True, key=key)

    assert (done.action, done.entry.session) == ("added", "A")
    asking = "B" if told == "only session B" else None
    assert recalled(ann, asking) == ["The pelican is called Zoe."]
    if key:
        assert found(ann, asking) == "The pelican is called Zoe."
        assert found(ann, "A") == "The pelican is called Max."
    ann.delete(session="A")
    assert recalled(ann, asking) == ["The pelican is called Zoe."]
    assert ann.entries.get(first.id).active


@pytest.mark.parametrize("key", ["pet", None])
def test_it_is_compared_within_its_session(ann: Scope, key: str | None) -> None:
    """There the same words are known, and another statement of its key supersedes it."""
    only = {"session": "A", "session_only": True, "key": key}
    ann.remember("The pelican is called Zoe.", **only)

    assert ann.remember("The pelican is called Zoe.", **only).action == "repeated"
    if key:
        assert ann.remember("The pelican is called Max.", **only).action == "updated"
        assert found(ann, "A") == "The pelican is called Max."
        assert found(ann) is found(ann, "B") is None


def test_a_switched_off_one_comes_back_beside_that_of_the_scope(ann: Scope) -> None:
    """Its key is its session's."""
    only = ann.remember("The pelican is called Zoe.", key="pet", session="A", session_only=True)
    ann.entries.update(only.entry.id, active=False)
    ann.remember("The pelican is called Max.", key="pet")

    assert ann.entries.update(only.entry.id, active=True).active
    assert found(ann, "A") == "The pelican is called Zoe."


def test_it_does_not_hide_what_all_users_share(ann: Scope) -> None:
    """Only in its session it stands before an entry of the shared scope with its key."""
    ann.remember("The pelican is called Zoe.", key="pet", shared=True)
    ann.remember("The pelican is called Max.", key="pet", session="A", session_only=True)

    assert recalled(ann) == recalled(ann, "B") == ["The pelican is called Zoe."]
    assert recalled(ann, "A") == ["The pelican is called Max."]


def test_it_comes_back_from_an_export_beside_that_of_the_scope(
    db: MemDB, ann: Scope, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """Exported, and imported twice."""
    ann.remember("The pelican is called Zoe.", key="pet", session="A", session_only=True)
    ann.remember("The pelican is called Max.", key="pet")
    db.export(tmp_path / "ann.jsonl", user="ann")
    with open_db(":memory:") as other:
        bob = other.scope("bob")
        for _ in range(2):
            other.import_file(tmp_path / "ann.jsonl", user="bob")

        assert found(bob) == found(bob, "B") == "The pelican is called Max."
        assert found(bob, "A") == "The pelican is called Zoe."
        assert len([*bob.entries.list(inactive=True)]) == 2
        assert other.file.check(deep=True) == []


def test_hand_written_lines_keep_their_sessions(db: MemDB, ann: Scope, tmp_path: Any) -> None:
    """A private line of a key is neither that of the scope nor an older version of it."""
    path = tmp_path / "lines.jsonl"
    path.write_text(
        '{"kind": "entry", "text": "The pelican is called Zoe.", "key": "pet"}\n'
        '{"kind": "entry", "text": "The pelican is called Max.", "key": "pet", "session": "A",'
        ' "session_only": true}\n'
    )
    for _ in range(2):
        db.import_file(path, user="ann")

    assert found(ann) == "The pelican is called Zoe."
    assert found(ann, "A") == "The pelican is called Max."
    assert len([*ann.entries.list(inactive=True)]) == 2


def test_find_refuses_what_is_no_session(ann: Scope) -> None:
    """An unknown one has nothing of its own."""
    ann.remember("The pelican is called Zoe.", key="pet")

    assert found(ann, "nowhere") == "The pelican is called Zoe."
    with pytest.raises(memdb.InvalidInput):
        ann.entries.find("pet", session="")
