"""Queries name the same views over a server as over a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.postgres.maintenance import read_views, with_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memdb import MemDB

VIEWS = sorted(read_views())


def fill(db: MemDB) -> None:
    """Store something for every view to show."""
    ann = db.scope("ann")
    chat = ann.session("trip")
    chat.create(title="Oslo")
    chat.extend([{"role": "user", "text": f"We fly {n}.", "author": "Ann"} for n in range(40)])
    chat.branch("b", 5).append("user", "aside")
    chat.artifacts.save("menu.md", "soup", message_seq=3)
    chat.artifacts.save("menu.md", b"\x00\xff")
    home = ann.remember("Ann lives in Bergen.", key="home", session="trip", seq=1).entry
    ann.entries.update(home.id, text="Ann lives in Oslo.", importance=8)
    ann.remember("Ann has moved to Rome.", key="home")
    ann.items.put(("notes", "b"), "k", {"text": "Pack."}, ttl="30d")
    db.jobs.run()


@pytest.fixture
def both(
    postgres_databases: Any, tmp_path: Path, open_db: Callable[..., MemDB]
) -> Iterator[tuple[MemDB, MemDB]]:
    """Return a file and a server that hold the same."""
    target = postgres_databases.address_of("/views")
    path = str(tmp_path / "agent.db")
    with memdb.open(path, embedder=None, counter="estimate") as db:
        fill(db)
        db.file.copy(target)
    with memdb.open(path, embedder=None) as one, memdb.open(target, embedder=None) as other:
        yield one, other
    postgres_databases.empty_all()


def test_every_view_shows_the_same(both: tuple[MemDB, MemDB]) -> None:
    """Names, rows and values, times and uids in words."""
    for view in VIEWS:
        shown = [db.query(f"SELECT * FROM {view}") for db in both]
        rows = [sorted(one.rows, key=repr) for one in shown]
        assert shown[0].columns == shown[1].columns, view
        assert rows[0], view
        assert rows[0] == rows[1], view


QUERIES = {
    "SELECT category, count(*), sum(pinned) FROM entries_view GROUP BY category": (),
    "WITH own AS (SELECT text FROM messages_view WHERE author = ?) SELECT count(*) FROM own": (
        "Ann",
    ),
    """
    SELECT session FROM sessions_view
    WHERE branch IS NULL AND session IN (
      SELECT session FROM messages_view WHERE text = :text
      UNION SELECT session FROM sessions_view WHERE messages > 1000
    )
    """: {"text": "We fly 3."},
}


@pytest.mark.parametrize("sql", QUERIES)
def test_views_in_queries_of_every_form(both: tuple[MemDB, MemDB], sql: str) -> None:
    """Twice, in a WITH of the query's own, with values, and summed up."""
    file, server = (db.query(sql, QUERIES[sql]).rows for db in both)

    assert file
    assert file == server


def test_a_query_without_a_view_stays_as_it_is() -> None:
    """Also if it has a name that looks like one."""
    assert with_views("SELECT 1 FROM my_view") == "SELECT 1 FROM my_view"
