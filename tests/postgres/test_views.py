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

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

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


# Ways to write a call of a function; the last two are read as one by PostgreSQL alone.
CALLS = (
    "SELECT {name}({of})",
    "SELECT '\"', \"{name}\" (\n{of}), '\"'",
    "SELECT 1 LIMIT CAST(CAST({upper}({of}) IS NULL AS INTEGER) AS BIGINT)",
    "WITH a AS (SELECT pg_catalog.{name}({of})) SELECT * FROM a",
    "SELECT {name}/* /* */ */({of})",
    "SELECT {name} -- (\n({of})",
    'SELECT U&"\\{code}{rest}"({of})',
)


@pytest.mark.parametrize("form", CALLS)
def test_a_query_calls_no_volatile_function(postgres_databases: Any, form: str) -> None:
    """None that reads a file, ends a connection, changes a setting, waits or runs a text as SQL."""
    calls = {
        "pg_read_file": "'/etc/hostname'",
        "pg_ls_dir": "'.'",
        "pg_terminate_backend": "1",
        "pg_advisory_lock": "1",
        "set_config": "'role', 'memdb', true",
        "pg_sleep": "0",
        "query_to_xml": "'SELECT 1', true, true, ''",
        "lo_get": "1",
    }
    with memdb.open(postgres_databases.address_of("/views"), embedder=None) as db:
        for name, of in calls.items():
            code, rest = f"{ord(name[0]):04x}", name[1:]
            sql = form.format(name=name, upper=name.upper(), of=of, code=code, rest=rest)
            with pytest.raises(memdb.InvalidInput, match=f"calls {name}|escapes"):
                db.query(sql)
        allowed = db.query("SELECT lower('A') || to_char(0, '0') AS random").rows

    assert [*allowed] == [("a 0",)]
    postgres_databases.empty_all()


def test_a_query_runs_as_the_role_that_reads(postgres_databases: Any) -> None:
    """What that role may not read, no query reads, though the user of the address may."""
    address = postgres_databases.address_of("/views")
    with (
        memdb.open(address, embedder=None, counter="estimate") as db,
        psycopg.connect(address, autocommit=True) as admin,
    ):
        chat = db.scope("ann").session("trip")
        chat.append("user", "hello")
        before = db.query("SELECT rolname FROM pg_authid").rows
        admin.execute("CREATE ROLE memdb_reader")
        try:
            with pytest.raises(memdb.MemDBError, match="denied"):
                db.query("SELECT text FROM messages_view")
            admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO memdb_reader")
            found = db.query("SELECT text FROM messages_view").rows
            with pytest.raises(memdb.MemDBError, match="denied"):
                db.query("SELECT rolname FROM pg_authid")
            chat.append("user", "again")
        finally:
            admin.execute("DROP OWNED BY memdb_reader")
            admin.execute("DROP ROLE memdb_reader")

    assert before
    assert [*found] == [("hello",)]
    postgres_databases.empty_all()
