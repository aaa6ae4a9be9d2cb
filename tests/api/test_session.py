"""What a chat program asks of a session: its title, its metadata, and messages of any shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memdb
from memdb import InvalidInput, NotFound

if TYPE_CHECKING:
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
        trip.title = 5  # type: ignore[assignment]
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
        chat.append("usr", "Hello")  # type: ignore[arg-type]
    assert chat.last_seq == 7
