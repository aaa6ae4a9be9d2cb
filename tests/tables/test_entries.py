"""Statements of entries."""

import itertools
from typing import Any

import pytest

import memdb
from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.tables import entries, entry_history, scopes
from memdb.tables import entries as active_entries
from memdb.text.derived import said_hash


def row(number: int, **given: Any) -> dict[str, Any]:
    """Return every column of an entry of scope 1."""
    made = {
        "id": 1 << 44 | number,
        "uid": f"uid-{number}",
        "scope_no": 1,
        "category": "events",
        "key": None,
        "text": f"fact {number}",
        "keywords": "",
        "importance": 5,
        "pinned": 0,
        "trust": "trusted",
        "version": 1,
        "active": 1,
        "superseded_by": None,
        "session_id": None,
        "first_seq": None,
        "last_seq": None,
        "session_only": 0,
        "writer": None,
        "use_count": 0,
        "last_used_ms": None,
        "valid_from_ms": None,
        "valid_to_ms": None,
        "expires_ms": None,
        "metadata": None,
        "created_ms": number * 10,
        "updated_ms": number * 10,
        "stored_ms": number * 10,
        "bigrams": None,
        "spans": None,
        **given,
    }
    return {
        **made,
        "content_hash": entries.hash_of(made),
        "said_hash": said_hash(made["text"]),
    }


@pytest.fixture
def tx(database: SqliteEngine) -> Any:
    """Return a write with a scope and five entries, the fourth inactive."""
    with database.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        [
            entries.add(tx, row(number, active=int(number != 4), category="ab"[number % 2]))
            for number in range(1, 6)
        ]
        yield tx


ID = 1 << 44


def test_add_keeps_every_column(tx: Tx) -> None:
    """Keywords as a tuple, metadata as a dict."""
    entries.add(
        tx, row(9, key="k", keywords="one\ntwo", metadata='{"a":1}', expires_ms=7, valid_from_ms=6)
    )
    entry = entries.find(tx, ID | 9)

    assert entry is not None
    assert (entry.key, entry.keywords, entry.metadata, entry.expires_ms) == (
        "k",
        ("one", "two"),
        {"a": 1},
        7,
    )
    assert (entry.text, entry.version, entry.active, entry.valid_from_ms) == ("fact 9", 1, True, 6)


def test_one_active_entry_has_a_key(database: SqliteEngine, tx: Tx) -> None:
    """An inactive one, and one that ends, may have it too."""
    entries.add(tx, row(6, key="k", active=0))
    entries.add(tx, row(7, key="k", valid_to_ms=500))
    entries.add(tx, row(8, key="k", valid_from_ms=500))
    with pytest.raises(memdb.StorageError), database.write() as inner:
        entries.add(inner, row(9, key="k"))
        inner.one("SELECT 1")  # a server answers all at once

    assert entries.open_key(tx, 1, "k", 0) == ID | 8
    assert [entries.find_key(tx, 1, "k", now) for now in (499, 500)] == [ID | 7, ID | 8]
    assert (entries.open_key(tx, 2, "k", 0), entries.find_key(tx, 2, "k", 500)) == (None, None)


@pytest.mark.parametrize(
    "given",
    [
        {"importance": 0},
        {"importance": 11},
        {"text": ""},
        {"category": ""},
        {"key": ""},
        {"scope_no": 2},
        {"first_seq": 3},
        {"version": 0},
    ],
    ids=str,
)
def test_add_is_held_to_the_schema(database: SqliteEngine, tx: Tx, given: dict[str, Any]) -> None:
    """What validation let through by mistake is stopped by a CHECK or a key."""
    with pytest.raises(memdb.StorageError), database.write() as inner:
        entries.add(inner, row(9, **given))
        inner.one("SELECT 1")  # a server answers all at once


def test_find_without_the_entry_is_none(tx: Tx) -> None:
    """An id that was never given."""
    assert entries.find(tx, ID | 99) is None
    assert entries.text(tx, ID | 99) is None
    assert entries.find_uids(tx, ID, ID | 99, ["uid-99"]) == {}


def test_find_uids_is_by_range(tx: Tx) -> None:
    """The same uid in another scope is not seen."""
    assert entries.find_uids(tx, ID, ID | 99, ["uid-3"]) == {"uid-3": ID | 3}
    assert entries.find_uids(tx, 0, ID - 1, ["uid-3"]) == {}


@pytest.mark.parametrize(
    ("category", "inactive", "limit", "expected"),
    [
        (None, False, 9, [1, 2, 3, 5]),
        (None, True, 9, [1, 2, 3, 4, 5]),
        ("a", False, 9, [2]),
        ("a", True, 9, [2, 4]),
        (None, True, 2, [1, 2]),
        ("c", True, 9, []),
    ],
    ids=str,
)
def test_list_page_filters(
    tx: Tx, category: str | None, inactive: bool, limit: int, expected: list[int]
) -> None:
    """By category and activity, by id."""
    wanted = entries.EntryFilter(0, category=category, inactive=inactive)
    page = entries.list_page(tx, ID, ID | 99, limit=limit, wanted=wanted)

    assert [entry.id & 255 for entry in page] == expected


def test_live_ids_are_active_unexpired_and_of_the_time(tx: Tx) -> None:
    """Expired at its very time; since inclusive, until exclusive."""
    entries.add(tx, row(7, expires_ms=1_000))
    entries.add(tx, row(8, expires_ms=1_001))

    live, count = active_entries.list_active_ids(
        tx, ID, ID | 99, now_ms=1_000, since_ms=20, until_ms=81
    )

    assert ({one & 255 for one in live or ()}, count) == ({2, 3, 5, 8}, 4)


def test_live_ids_say_if_they_are_the_whole_range(tx: Tx) -> None:
    """Only if no entry of the range is left out."""
    times = {"now_ms": 1_000, "since_ms": 0, "until_ms": 1_000}

    assert active_entries.list_active_ids(tx, ID | 2, ID | 3, **times) == (None, 2)
    assert active_entries.list_active_ids(tx, ID | 50, ID | 60, **times) == (None, 0)
    assert active_entries.list_active_ids(tx, ID | 1, ID | 99, **times)[0] is not None


def test_update_moves_the_old_text_into_history(tx: Tx) -> None:
    """With its version, why, and when."""
    versions = []
    for text in ("new", "newer"):
        entry_history.keep(tx, ID | 3, "update")
        versions.append(entries.update(tx, ID | 3, row(3, text=text)))

    assert versions == [2, 3]
    assert [
        (old.version, old.text, old.reason, old.replaced_ms)
        for old in entry_history.list_all(tx, ID | 3)
    ] == [
        (1, "fact 3", "update", tx.now_ms),
        (2, "new", "update", tx.now_ms),
    ]
    assert entries.text(tx, ID | 3) == ("newer", 3)


def test_link_names_the_successor(tx: Tx) -> None:
    """And deleting that one takes the name away."""
    entries.link(tx, ID | 1, ID | 2)
    before = entries.find(tx, ID | 1)
    entries.delete(tx, [ID | 2])
    after = entries.find(tx, ID | 1)

    assert before is not None
    assert after is not None
    assert (before.superseded_by, after.superseded_by) == (ID | 2, None)


def test_delete_takes_the_history_and_leaves_a_tombstone(tx: Tx) -> None:
    """Again changes nothing."""
    entry_history.keep(tx, ID | 3, "update")
    for _ in range(2):
        entries.delete(tx, [ID | 3])

    assert entries.find(tx, ID | 3) is None
    assert tx.all("SELECT entry_id FROM entry_history") == []
    assert tx.all("SELECT uid, kind, scope_no, ref FROM tombstones") == [
        ("uid-3", "entry", 1, str(ID | 3))
    ]


@pytest.mark.parametrize("field", ["uid", "category", "key", "text", "keywords", "metadata"])
def test_the_hash_covers(field: str) -> None:
    """Every column that says something; absent and empty differ."""
    assert len({entries.hash_of({**row(1), field: value}) for value in ("x", "", None, "y")}) == 4


def test_the_hash_does_not_cover_use() -> None:
    """Being recalled is no damage."""
    assert entries.hash_of(row(1)) == entries.hash_of(row(1, use_count=5, last_used_ms=3))


def test_damaged_names_the_rows(tx: Tx) -> None:
    """Only those whose content changed."""
    tx.run("UPDATE entries SET importance = 6 WHERE id & 255 IN (2, 5)")

    assert list(active_entries.damaged(tx)) == [ID | 2, ID | 5]


def test_the_schema_and_the_model_agree_on_what_holds(database: SqliteEngine) -> None:
    """`HOLDS` says what `Entry.holds` says, for every combination."""
    now = 1_700_000_000_000
    times = (None, now - 1, now, now + 1)
    names = ("active", "valid_from_ms", "valid_to_ms", "expires_ms")
    cases = list(itertools.product((0, 1), times, times, times))
    with database.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        for number, values in enumerate(cases, 1):
            entries.add(tx, row(number, **dict(zip(names, values, strict=True))))

    for at_ms in (now - 1, now, now + 1):
        with database.read() as tx:
            span = (1 << 44, (2 << 44) - 1)
            wanted = entries.EntryFilter(at_ms)
            every = entries.list_page(tx, *span, limit=1000, wanted=wanted.replace(inactive=True))
            held = entries.list_page(tx, *span, limit=1000, wanted=wanted)

        assert len(every) == len(cases)
        assert [entry.id for entry in held] == [entry.id for entry in every if entry.holds(at_ms)]
