"""A uid is text in every call, 16 bytes in a row, and the same when it comes back."""

import copy
import sqlite3
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.models.ids import uuid7
from memdb.models.messages import UID_BYTES, uid_from_bytes, uid_to_bytes

ODD = [
    "x",
    "sixteen letters!",
    "0" * 36,
    "018BCFE5-6800-7000-8000-000000000001",  # capitals
    "018bcfe5-68007000-8000-0000-000000000001",  # dashes elsewhere
    "018bcfe5 6800 7000 8000 000000000001",
    "018bcfe56800700080000000000000-01---",
    "{018bcfe5-6800-7000-8000-00000000001",
    "猫" * 12,
    "é" * 8,
]


@given(st.uuids())
def test_a_uuid_is_16_bytes(value: uuid.UUID) -> None:
    """Its own ones, in the order of its text."""
    assert uid_to_bytes(str(value)) == value.bytes
    assert uid_from_bytes(value.bytes) == str(value)


def test_new_uids_sort_as_their_bytes() -> None:
    """A later one is larger in both forms."""
    made = [uuid7(1_700_000_000_000 + step) for step in range(50)]

    assert [*map(uid_from_bytes, sorted(map(uid_to_bytes, made)))] == made


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_text_comes_back(text: str) -> None:
    """Imports give ids of other programs."""
    assert uid_from_bytes(uid_to_bytes(text)) == text


@pytest.mark.parametrize("text", ODD)
def test_what_nearly_is_a_uuid_comes_back(text: str) -> None:
    """Only the canonical form is one, so no two texts have the same bytes."""
    assert len(uid_to_bytes(text)) != UID_BYTES
    assert uid_from_bytes(uid_to_bytes(text)) == text


def test_a_message_shows_text_wherever_it_is_read(
    path: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """Fields, copies, dicts and comparisons of a record that was made of bytes."""
    db = open_db(path)
    made = db.scope("ann").session("s").append("user", "hi")

    (read,) = db.scope("ann").session("s").last(1)

    assert str(uuid.UUID(read.uid)) == read.uid == made.uid
    assert read == made
    assert hash(read) == hash(made)
    assert read.to_dict()["uid"] == made.uid
    assert copy.copy(read) == read.replace(text="hi") == made
    assert made.uid in repr(read)


def test_the_file_is_readable_without_memdb(path: str, open_db: Callable[..., memdb.MemDB]) -> None:
    """`role` and `counter` are names in the table, and the view shows the uid as text too."""
    db = open_db(path, counter="estimate")
    chat = db.scope("ann").session("s")
    roles = ["user", "assistant", "system", "tool"]
    stored = chat.extend([{"role": role, "text": role} for role in roles])
    db.close()

    with sqlite3.connect(path) as plain:
        rows = plain.execute("SELECT role, counter FROM messages ORDER BY id").fetchall()
        shown = plain.execute("SELECT role, uid FROM messages_view ORDER BY seq").fetchall()
    plain.close()

    assert rows == [(role, "estimate") for role in roles]
    assert shown == [(message.role, message.uid) for message in stored]


def test_the_view_shows_an_id_of_another_program(
    path: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """Also one of just 16 bytes."""
    db = open_db(path)
    chat = db.scope("ann").session("s")
    for uid in ("sixteen letters!", "m1"):
        chat.extend([memdb.NewMessage("user", "hi", uid=uid)])
    db.close()

    with sqlite3.connect(path) as plain:
        shown = plain.execute("SELECT uid FROM messages_view ORDER BY seq").fetchall()
    plain.close()

    assert shown == [("sixteen letters!",), ("m1",)]
