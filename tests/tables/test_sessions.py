"""Statements of sessions."""

import pytest

import memdb
from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.models.ids import MAX_SEQ, MAX_SESSION_NO, session_id
from memdb.tables import scopes, sessions


def new(tx: Tx, name: str = "trip", user: str = "ann") -> int:
    """Add a session to a user's scope."""
    scope = scopes.ensure(tx, "app", user, "u")
    return sessions.add(tx, scope, name, f"uid of {user} {name}")


def page(**given) -> sessions.SessionPage:
    """Return a page by name, from the beginning unless *given* says so."""
    whole = {"prefix": "", "order": "name", "after": None, "limit": 10}
    return sessions.SessionPage(**{**whole, **given})


def test_add_numbers_sessions_in_their_scope(database: SqliteEngine) -> None:
    """From 1, apart from other scopes."""
    with database.write() as tx:
        assert [new(tx, "a"), new(tx, "b"), new(tx, "a", "bob")] == [
            session_id(1, 1),
            session_id(1, 2),
            session_id(2, 1),
        ]


def test_add_takes_what_is_given(database: SqliteEngine) -> None:
    """Title, metadata and times of an import."""
    with database.write() as tx:
        scope = scopes.ensure(tx, "app", "ann", "u")
        sessions.add(
            tx, scope, "trip", "uid", title="T", metadata='{"a":1}', created_ms=1, updated_ms=2
        )
        ((_, info),) = sessions.list_page(tx, scope, page())

    assert (info.title, info.metadata, info.created_ms, info.updated_ms) == ("T", {"a": 1}, 1, 2)


def test_find_is_by_scope_and_name(database: SqliteEngine) -> None:
    """None for another's or an unknown one."""
    with database.write() as tx:
        mine = new(tx)

        assert [
            sessions.find(tx, scope, name)
            for scope, name in ((1, "trip"), (1, "Trip"), (2, "trip"))
        ] == [mine, None, None]


def test_advance_gives_out_numbers_in_blocks(database: SqliteEngine) -> None:
    """The last of each block; the time moves with it."""
    with database.write() as tx:
        session = new(tx)
        given = [sessions.advance(tx, session, count) for count in (1, 10, 1)]

        assert given == [1, 11, 12]
        assert sessions.last_seq(tx, session) == 12


def test_advance_stops_at_the_limit(database: SqliteEngine) -> None:
    """None, and no number is used up."""
    with database.write() as tx:
        session = new(tx)
        sessions.raise_seq(tx, session, MAX_SEQ - 1, 0)

        assert sessions.advance(tx, session, 2) is None
        assert sessions.last_seq(tx, session) == MAX_SEQ - 1
        assert sessions.advance(tx, session, 1) == MAX_SEQ


def test_a_full_session_refuses_more(db: memdb.MemDB, database: SqliteEngine) -> None:
    """TooLarge tells the limit; nothing is stored."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "first")
    with database.write() as tx:
        sessions.raise_seq(tx, session_id(1, 1), MAX_SEQ, 0)

    with pytest.raises(memdb.TooLarge) as caught:
        chat.append("user", "one more")

    assert caught.value.limit == MAX_SEQ
    assert len(chat.last(5)) == 1


def test_raise_seq_never_lowers(database: SqliteEngine) -> None:
    """An import of fewer messages leaves the counter."""
    with database.write() as tx:
        session = new(tx)
        sessions.raise_seq(tx, session, 9, 0)
        sessions.raise_seq(tx, session, 3, 0)

        assert sessions.last_seq(tx, session) == 9


def test_list_page_goes_by_name(database: SqliteEngine) -> None:
    """Behind the name given, so many, of one scope."""
    with database.write() as tx:
        [new(tx, name) for name in "cab"]
        new(tx, "d", "bob")

        assert [info.name for _, info in sessions.list_page(tx, 1, page())] == ["a", "b", "c"]
        behind = page(after=(0, "a"), limit=1)
        assert [info.name for _, info in sessions.list_page(tx, 1, behind)] == ["b"]


def test_names_and_total_are_of_the_ids_asked(database: SqliteEngine) -> None:
    """Names by id; the total of one scope."""
    with database.write() as tx:
        one, two = new(tx, "a"), new(tx, "b", "bob")
        sessions.advance(tx, one, 4)
        sessions.advance(tx, two, 7)

        assert sessions.names(tx, [one, two, 99]) == {one: "a", two: "b"}
        assert (sessions.total(tx, 1), sessions.total(tx, 2), sessions.total(tx, 3)) == (4, 7, 0)


def test_delete_leaves_a_tombstone_and_no_number(database: SqliteEngine) -> None:
    """Again changes nothing; a new one of the name gets the next number."""
    with database.write() as tx:
        session = new(tx)
        for _ in range(2):
            sessions.delete(tx, [session])

        assert sessions.find(tx, 1, "trip") is None
        assert tx.all("SELECT uid, kind, scope_no, ref FROM tombstones") == [
            ("uid of ann trip", "session", 1, "trip")
        ]
        assert new(tx) == session_id(1, 2)


def test_the_number_of_sessions_has_a_limit(database: SqliteEngine) -> None:
    """The error tells it."""
    with database.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        tx.run("UPDATE scopes SET last_session_no = :n", {"n": MAX_SESSION_NO})
        with pytest.raises(memdb.MemDBError):
            new(tx)
