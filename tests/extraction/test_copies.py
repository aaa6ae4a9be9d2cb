"""Nothing is extracted twice: a copy knows what facts were looked for in."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB

FACTS = (
    "Remember that I'm allergic to peanuts.",
    "Remember that I live in Bergen.",
    "Remember that I love hiking in the mountains.",
)
LATER = "Remember that my sister is called Zoe."


def fill(db: MemDB) -> memdb.Session:
    """Store messages, extract from them, delete the entries, and say one thing more."""
    ann = db.scope("ann")
    chat = ann.session("chat")
    for fact in FACTS:
        chat.append("user", fact)
        chat.append("assistant", "I see.")
    chat.delete([2])
    assert chat.extract().messages == 5
    for entry in ann.entries.list(inactive=True):
        ann.entries.delete(entry.id)
    chat.append("user", LATER)
    return chat


def learnt(chat: memdb.Session, db: MemDB) -> list[str]:
    """Return what extracting from a session adds."""
    chat.extract()
    return [entry.text for entry in db.scope("ann").entries.list()]


def assert_later_alone(texts: list[str]) -> None:
    """Fail unless what was said later is all that was learnt."""
    assert len(texts) == 1
    assert "Zoe" in texts[0]


def test_a_fork_learns_what_is_new(db: MemDB) -> None:
    """What the user deleted stays deleted."""
    assert_later_alone(learnt(fill(db).fork("copy"), db))


@pytest.mark.parametrize("before", [1, 3, 7])
def test_a_fork_of_what_was_read_learns_nothing(db: MemDB, before: int) -> None:
    """Until something is said in it."""
    copy = fill(db).fork("copy", before_seq=before)
    assert learnt(copy, db) == []
    copy.append("user", LATER)
    assert_later_alone(learnt(copy, db))


def test_an_import_learns_what_is_new(
    db: MemDB, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """An export says how far facts were looked for."""
    fill(db)
    db.export(tmp_path / "a.jsonl")
    with open_db(":memory:") as other:
        other.import_file(tmp_path / "a.jsonl")
        assert list(other.export_lines()) == list(db.export_lines())

        assert_later_alone(learnt(other.scope("ann").session("chat"), other))


def test_a_second_import_learns_nothing_again(
    db: MemDB, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """The watermark of the file is taken where it is further on, and never goes back."""
    chat = fill(db)
    db.export(tmp_path / "a.jsonl")
    with open_db(":memory:") as other:
        other.import_file(tmp_path / "a.jsonl")
        chat.extract()
        for entry in db.scope("ann").entries.list(inactive=True):
            db.scope("ann").entries.delete(entry.id)
        db.export(tmp_path / "b.jsonl")
        other.import_file(tmp_path / "b.jsonl")
        other.import_file(tmp_path / "a.jsonl")

        assert learnt(other.scope("ann").session("chat"), other) == []


def test_a_session_of_that_name_keeps_its_own(
    db: MemDB, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """The watermark belongs to the session that was exported."""
    fill(db)
    db.export(tmp_path / "a.jsonl")
    with open_db(":memory:") as other:
        other.scope("ann").session("chat").append("user", "Remember that my sister is called Ida.")
        other.import_file(tmp_path / "a.jsonl")

        other.scope("ann").session("chat").extract()
        texts = [entry.text for entry in other.scope("ann").entries.list(inactive=True)]
        assert any("Ida" in text for text in texts)


def test_a_hand_written_line_says_no_watermark(db: MemDB, tmp_path: Any) -> None:
    """It is for exports."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"kind": "session", "name": "chat", "extracted_seq": 3}\n')
    with pytest.raises(memdb.InvalidInput, match="extracted_seq"):
        db.import_file(path, user="ann")
