"""Selectors: what a removal names, checked before anything is read."""

from typing import Any

import pytest

import memdb
from memdb import MemDB


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"entry": 1, "session": "s"},
        {"session": "s", "query": "tea"},
        {"query": "tea", "everything": True},
        {"entry": 1, "everything": True},
        {"seqs": 3},
        {"seqs": [1], "query": "tea"},
        {"entry": 1, "seqs": [1]},
    ],
    ids=str,
)
def test_selectors_that_contradict_remove_nothing(db: MemDB, given: dict[str, Any]) -> None:
    """Nor does one that names nothing."""
    chat = db.scope("ann").session("s")
    chat.append("user", "tea")
    db.scope("ann").remember("Ann likes tea.")

    for remove in (db.scope("ann").delete, db.scope("ann").forget):
        with pytest.raises(memdb.InvalidInput):
            remove(**given)

    assert chat.last(1)[0].text == "tea"
    assert len(list(db.scope("ann").entries.list())) == 1


@pytest.fixture
def filled(db: MemDB) -> MemDB:
    """Return a file with messages, an entry told by one, an artifact and state."""
    ann = db.scope("ann")
    chat = ann.session("s")
    chat.extend([{"role": "user", "text": f"tea {n}"} for n in range(12)])
    chat.artifacts.save("n.txt", "tea")
    chat.state["k"] = "tea"
    ann.remember("Ann likes green tea.", session="s", seq=3)
    ann.remember("Ann has a dog.", session="s", seq=3)
    db.jobs.run()
    return db


@pytest.mark.parametrize(
    ("given", "removed"),
    [
        ({"session": "s"}, {"messages": 12, "sessions": 1, "artifacts": 1, "state": 1}),
        ({"session": "s", "seqs": [3, 4]}, {"messages": 2}),
        ({"session": "gone"}, {}),
        ({"query": "tea"}, {"messages": 12, "entries": 1}),
        ({"query": "tea", "artifacts": True}, {"messages": 12, "entries": 1, "artifacts": 1}),
        ({"everything": True}, {"messages": 12, "sessions": 1, "entries": 2, "state": 1}),
    ],
    ids=str,
)
def test_delete_takes_what_forget_takes_but_for_what_was_told(
    filled: MemDB, given: dict[str, Any], removed: dict[str, int]
) -> None:
    """A dry run says the same, and removes nothing."""
    ann = filled.scope("ann")
    planned = ann.delete(**given, dry_run=True)
    done = ann.delete(**given)
    again = ann.delete(**given)

    assert planned.removed == done.removed
    assert {key: done.removed[key] for key in removed} == removed
    assert not any(again.removed[key] for key in ("messages", "sessions", "entries", "state"))
    assert filled.file.check(deep=True) == []


def test_a_deleted_entry_is_gone(filled: MemDB) -> None:
    """Once; one that never was is an error."""
    ann = filled.scope("ann")
    entry = next(iter(ann.entries.list()))

    assert ann.delete(entry=entry.id).removed["entries"] == 1
    assert ann.delete(entry=entry.id).removed["entries"] == 0
    with pytest.raises(memdb.NotFound):
        ann.delete(entry=7)


def test_messages_are_forgotten_by_their_seqs(filled: MemDB) -> None:
    """The same selector as that of delete; what they told goes with them."""
    receipt = filled.scope("ann").forget(session="s", seqs=[3, 4])

    assert receipt.what == "messages"
    assert (receipt.removed["messages"], receipt.removed["entries"]) == (2, 2)
