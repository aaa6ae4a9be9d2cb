"""Statements of scopes, and the owner that remembers a number."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.models.ids import MAX_SCOPE_NO, scope_range
from memdb.records.scopes import ScopeRef
from memdb.tables import scopes


def test_ensure_adds_a_scope_once(database: SqliteEngine) -> None:
    """The second time it gives the same number and leaves uid and time alone."""
    with database.write() as tx:
        first = scopes.ensure(tx, "app", "ann", "uid-1", 7)
        again = scopes.ensure(tx, "app", "ann", "uid-2", 8)

        assert (first, again) == (1, 1)
        assert scopes.identity(tx, first) == ("uid-1", 7)


def test_a_scope_is_made_now_unless_told(database: SqliteEngine) -> None:
    """The time is the transaction's."""
    with database.write() as tx:
        assert scopes.identity(tx, scopes.ensure(tx, "app", "ann", "u")) == ("u", tx.now_ms)


def test_find_without_the_scope_is_none(database: SqliteEngine) -> None:
    """Names are compared byte by byte, app and user together."""
    with database.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")

        assert [
            scopes.find(tx, *names) for names in (("app", "Ann"), ("ann", "app"), ("app", "ann "))
        ] == [None] * 3
        assert scopes.find(tx, "app", "ann") == 1


def test_list_all_is_sorted_by_app_and_user(database: SqliteEngine) -> None:
    """Whatever the order they were made in."""
    with database.write() as tx:
        [scopes.ensure(tx, app, user, "u") for app, user in (("b", "x"), ("a", "y"), ("a", "x"))]

        assert scopes.list_all(tx) == [(3, "a", "x"), (2, "a", "y"), (1, "b", "x")]


def test_next_id_counts_up_in_each_scope(database: SqliteEngine) -> None:
    """Packed ids inside the scope's range."""
    with database.write() as tx:
        ann, bob = (scopes.ensure(tx, "app", user, "u") for user in ("ann", "bob"))
        given = [scopes.next_id(tx, number) for number in (ann, ann, bob)]

    assert given == [ann << 44 | 1, ann << 44 | 2, bob << 44 | 1]
    assert scope_range(ann)[0] < given[0] < scope_range(ann)[1]


def test_the_number_of_scopes_has_a_limit(database: SqliteEngine) -> None:
    """The error tells it, and no scope is made."""
    with database.write() as tx:
        tx.run(
            "INSERT INTO scopes (scope_no, uid, app, user_name, created_ms) VALUES (:n, 'u', 'a', 'last', 0)",
            {"n": MAX_SCOPE_NO},
        )
        with pytest.raises(memdb.TooLarge) as caught:
            scopes.ensure(tx, "a", "one more", "u")

    assert caught.value.limit == MAX_SCOPE_NO


def test_an_owner_does_not_remember_what_was_undone(database: SqliteEngine) -> None:
    """A number that a failed write gave belongs to whoever comes next."""
    ann, bob = ScopeRef(database, "app", "ann"), ScopeRef(database, "app", "bob")
    with pytest.raises(KeyError), database.write() as tx:
        ann.ensure(tx)
        ann.find(tx)
        raise KeyError
    with database.write() as tx:
        taken = bob.ensure(tx)

    with database.read() as tx:
        assert (taken, ann.find(tx), ann.span(tx)) == (1, None, None)


def test_two_handles_agree_on_a_scope(path: str, make_database: Callable[..., Any]) -> None:
    """One makes it, the other finds it, though it asked before."""
    one, two = make_database(path), make_database(path)
    owners = [ScopeRef(database, "app", "ann") for database in (one, two)]
    with two.read() as tx:
        before = owners[1].find(tx)
    with one.write() as tx:
        owners[0].ensure(tx)

    with two.read() as tx:
        assert (before, owners[1].find(tx)) == (None, 1)
