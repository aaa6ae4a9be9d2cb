"""Tombstones and state, as moving between files needs them."""

from memdb.engine.sqlite.engine import SqliteEngine
from memdb.tables import scopes, sessions, state, tombstones
from memdb.tables.state import StateRow
from memdb.tables.tombstones import Tombstone


def test_a_tombstone_is_added_once(database: SqliteEngine) -> None:
    """The first one stays as it is."""
    with database.write() as tx:
        tombstones.add(tx, 1, *(Tombstone("u1", "entry", ref, 5) for ref in ("1", "2")))

        assert tombstones.list_page(tx, 1) == [Tombstone("u1", "entry", "1", 5)]
        assert (tombstones.find(tx, 1, "u1"), tombstones.find(tx, 1, "u2")) == (True, False)


def test_each_scope_has_tombstones_of_its_own(database: SqliteEngine) -> None:
    """Also of one uid: what was imported into both is the same thing twice."""
    with database.write() as tx:
        for scope in (1, 2):
            tombstones.add(tx, scope, Tombstone("u", "entry", "1", 5))
        tombstones.drop(tx, 1, ["u"])

        assert [tombstones.find(tx, scope, "u") for scope in (1, 2)] == [False, True]


def test_tombstones_are_listed_by_uid_of_one_scope(database: SqliteEngine) -> None:
    """Page by page."""
    with database.write() as tx:
        [
            tombstones.add(tx, scope, Tombstone(uid, "session", "x", 5))
            for scope, uid in ((1, "b"), (2, "c"), (1, "a"), (1, "d"))
        ]

        assert [one.uid for one in tombstones.list_page(tx, 1)] == ["a", "b", "d"]
        assert [one.uid for one in tombstones.list_page(tx, 1, after="a", limit=1)] == ["b"]


def test_rows_that_are_back_lose_their_tombstone(database: SqliteEngine) -> None:
    """`live` finds them in their scope; `drop` removes what it is told."""
    with database.write() as tx:
        sessions.add(tx, scopes.ensure(tx, "app", "ann", "u"), "trip", "alive")
        [tombstones.add(tx, 1, Tombstone(uid, "session", "x", 5)) for uid in ("alive", "dead")]
        live = tombstones.live(tx, 1, ["alive", "dead"])
        tombstones.drop(tx, 1, ["alive"])

        assert live == {"alive"}
        assert tombstones.live(tx, 2, ["alive"]) == set()
        assert [one.uid for one in tombstones.list_page(tx, 1)] == ["dead"]


def test_state_is_added_once_and_listed_by_key(database: SqliteEngine) -> None:
    """Of one user of one app."""
    rows = [
        StateRow("app", "ann", session, key, "1", 1, 5)
        for session, key in (("", "b"), ("s", "a"), ("", "a"))
    ]
    with database.write() as tx:
        added = [
            state.add(tx, row)
            for row in [*rows, rows[0].replace(value="2"), rows[0].replace(user="bob")]
        ]
        listed = state.list_page(tx, "app", "ann")

        assert added == [True, True, True, False, True]
        assert listed == [rows[2], rows[0], rows[1]]
        assert state.list_page(tx, "app", "ann", after=rows[2], limit=1) == [rows[0]]
