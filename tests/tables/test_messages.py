"""Statements of messages."""

from typing import Any

import pytest

import memdb
from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.models.ids import message_id
from memdb.tables import messages, scopes, sessions

NAME = "trip"


def row(session: int, seq: int, text: str = "hi", **given: Any) -> dict[str, Any]:
    """Return every column of a message."""
    made = {
        "id": message_id(session, seq),
        "uid": f"uid-{seq}",
        "role": "user",
        "author": None,
        "writer": None,
        "text": text,
        "parts": None,
        "external_id": None,
        "tokens": 1,
        "counter": "c",
        "metadata": None,
        "created_ms": seq * 10,
        "bigrams": None,
        "spans": None,
        **given,
    }
    return {**made, "content_hash": messages.hash_of(made)}


@pytest.fixture
def session(database: SqliteEngine) -> int:
    """Return the id of an empty session, between two others that hold a message each."""
    with database.write() as tx:
        scope = scopes.ensure(tx, "app", "ann", "u")
        before, mine, after = [sessions.add(tx, scope, name, name) for name in ("a", NAME, "z")]
        messages.add(tx, [row(before, 99), row(after, 1)])
    return mine


@pytest.fixture
def tx(database: SqliteEngine, session: int) -> Any:
    """Return a write with seven messages in the session."""
    with database.write() as tx:
        messages.add(tx, [row(session, seq, f"text {seq}") for seq in range(1, 8)])
        yield tx


def seqs(found: Any) -> list[int]:
    """Return the seqs of messages."""
    return [message.seq for message in found]


def test_add_keeps_every_column(database: SqliteEngine, session: int) -> None:
    """One alone, with JSON read back as values."""
    given = row(session, 1, author="Ann", parts='[{"a":1}]', external_id="e", metadata='{"b":2}')
    with database.write() as tx:
        messages.add(tx, [given])
        stored = messages.find(tx, session, NAME, 1)

    assert stored == memdb.Message(
        1, "user", "Ann", "hi", [{"a": 1}], 1, "c", "e", 10, {"b": 2}, NAME, given["id"], "uid-1"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"tokens": -1},
        {"external_id": ""},
        {"content_hash": b"short"},
        {"text": None, "parts": "[]"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_add_is_held_to_the_schema(
    database: SqliteEngine, session: int, given: dict[str, Any]
) -> None:
    """What validation let through by mistake is stopped by a CHECK."""
    with pytest.raises(memdb.StorageError), database.write() as tx:
        messages.add(tx, [{**row(session, 1), **given}])


def test_add_of_a_taken_place_or_external_id_fails(
    database: SqliteEngine, tx: Tx, session: int
) -> None:
    """Rows are never replaced."""
    with pytest.raises(memdb.StorageError), database.write() as inner:
        messages.add(inner, [row(session, 7)])
        inner.one("SELECT 1")  # a server answers all at once
    messages.add(tx, [row(session, 8, external_id="e")])
    with pytest.raises(memdb.StorageError), database.write() as inner:
        messages.add(inner, [row(session, 9, external_id="e")])
        inner.one("SELECT 1")  # a server answers all at once


def test_find_without_the_message_is_none(tx: Tx, session: int) -> None:
    """Behind the end, or in another session."""
    assert messages.find(tx, session, NAME, 8) is None
    assert messages.find(tx, session + (1 << 24), NAME, 7) is None


def test_find_external_is_by_session(tx: Tx, session: int) -> None:
    """The same id in another session is not seen."""
    messages.add(tx, [row(session, 8, external_id="e")])

    assert messages.find_external(tx, session, NAME, "e").seq == 8
    assert messages.find_external(tx, session, NAME, "f") is None
    assert messages.find_external(tx, session + (1 << 24), NAME, "e") is None


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [(0, 3, [1, 2, 3]), (5, 9, [6, 7]), (7, 9, []), (2, 0, [])],
    ids=str,
)
def test_list_after_is_a_page(
    tx: Tx, session: int, after: int, limit: int, expected: list[int]
) -> None:
    """Oldest first, within the session."""
    assert seqs(messages.list_after(tx, session, NAME, after, limit)) == expected


@pytest.mark.parametrize(
    ("count", "before", "expected"),
    [(2, None, [6, 7]), (2, 4, [2, 3]), (9, 3, [1, 2]), (9, 1, [])],
    ids=str,
)
def test_last_is_the_end_before_a_seq(
    tx: Tx, session: int, count: int, before: int | None, expected: list[int]
) -> None:
    """Oldest of them first, within the session."""
    assert seqs(messages.last(tx, session, NAME, count, before)) == expected


def test_get_many_features_and_texts_are_of_the_ids_asked(tx: Tx, session: int) -> None:
    """With the session's name where a whole message is given."""
    ids = [session | 2, session | 5, session | 99]

    assert {
        key & 255: (one.text, one.session) for key, one in messages.get_many(tx, ids).items()
    } == {
        2: ("text 2", NAME),
        5: ("text 5", NAME),
    }
    assert sorted(messages.features(tx, ids)) == [
        (session | 2, "text 2", None, 20, "user", None),
        (session | 5, "text 5", None, 50, "user", None),
    ]
    assert messages.texts(tx, session | 3, session | 9, 2) == [
        (session | 3, "text 3"),
        (session | 4, "text 4"),
    ]


def test_ids_between_is_half_open(tx: Tx, session: int) -> None:
    """Since inclusive, until exclusive."""
    assert messages.ids_between(tx, session, session | 99, 20, 40) == {session | 2, session | 3}


def test_count_and_authors_are_of_a_range(tx: Tx, session: int) -> None:
    """Each author once, by name; the unnamed not."""
    messages.add(
        tx,
        [
            row(session, 8, author="Bob"),
            row(session, 9, author="Ann"),
            row(session, 10, author="Bob"),
        ],
    )

    assert messages.count(tx, session | 2, session | 8) == 7
    assert messages.authors(tx, session, session | 99) == ["Ann", "Bob"]
    assert messages.authors(tx, session, session | 8) == ["Bob"]


def test_delete_range_has_both_ends(tx: Tx, session: int) -> None:
    """Both ends inclusive."""
    messages.delete_range(tx, session | 2, session | 4)
    assert seqs(messages.last(tx, session, NAME, 9)) == [1, 5, 6, 7]


@pytest.mark.parametrize(
    "field", ["uid", "role", "author", "text", "parts", "external_id", "metadata", "created_ms"]
)
def test_the_hash_covers(field: str) -> None:
    """Every column that was said; absent and empty differ."""
    base = row(1 << 44, 1)

    hashes = {messages.hash_of({**base, field: value}) for value in ("x", "", None, "y")}

    assert len(hashes) == 4


def test_the_hash_does_not_mix_fields() -> None:
    """A text that moves from one column into the next is another row."""
    base = row(1 << 44, 1)

    assert messages.hash_of({**base, "author": "ab", "text": "c"}) != messages.hash_of(
        {**base, "author": "a", "text": "bc"}
    )
    assert messages.hash_of({**base, "author": None, "text": "\1"}) != messages.hash_of(
        {**base, "author": "", "text": ""}
    )


def test_damaged_names_the_rows(tx: Tx, session: int) -> None:
    """Across pages, and only those."""
    messages.add(tx, [row(session, seq) for seq in range(8, 2_100)])
    tx.run("UPDATE messages SET text = 'other' WHERE id & 16777215 IN (3, 2000)")

    assert list(messages.damaged(tx)) == [session | 3, session | 2_000]
