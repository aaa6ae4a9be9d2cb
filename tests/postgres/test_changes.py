"""`db.changes` on a server: no commit is missed, whatever is lost, and counting makes nobody wait."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import HostFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

ROOT = Path(memdb.__file__).parents[1]
LONG_S = 120.0  # for conditions that hold within moments

REMEMBER = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
    sys.stdin.readline()
    db.scope("bob").remember("Bob plays the oboe.")
    print("done", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def address(postgres_databases: Any) -> Iterator[str]:
    """Return the address of an empty database of this test's."""
    yield postgres_databases.address_of("/changes")
    postgres_databases.empty_all()


@pytest.fixture
def open_db(address: str) -> Iterator[Callable[..., memdb.MemDB]]:
    """Return a function that opens the database; all are closed at the end."""
    opened: list[memdb.MemDB] = []

    def make(**options: Any) -> memdb.MemDB:
        options = {"embedder": None, "counter": "estimate", **options}
        opened.append(memdb.open(address, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def execute(address: str, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement beside memdb."""
    with psycopg.connect(address, autocommit=True) as connection:
        found = connection.execute(sql)
        return list(found.fetchall()) if found.description else []


def test_another_process_is_heard_within_moments(
    address: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """A watch yields what it did while its connection stays open."""
    db = open_db()
    db.scope("bob").session("s").append("user", "Hi.")
    watch = db.watch(interval_s=0.05)
    with subprocess.Popen(
        [sys.executable, "-c", REMEMBER, address],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        assert next(watch).kinds == ("entry",)
        child.stdin.write("end\n")
        child.stdin.close()
        assert child.wait(LONG_S) == 0


def test_a_coroutine_hears_of_others_too(address: str, open_db: Callable[..., memdb.MemDB]) -> None:
    """`memdb.aio` gives the same."""
    import memdb.aio

    other = open_db()

    async def watch() -> memdb.Changes:
        async with memdb.aio.open(address, embedder=None, counter="estimate") as db:
            start = (await db.changes()).mark
            await asyncio.to_thread(other.scope("ann").session("s").append, "user", "Hi.")
            return await db.changes(start)

    found = asyncio.run(watch())
    assert [place.session for place in found.sessions] == ["s"]


def test_a_lost_connection_is_made_again(address: str, open_db: Callable[..., memdb.MemDB]) -> None:
    """All connections are ended at once, as by a fail-over; nothing is missed or named twice."""
    db, other = open_db(), open_db()
    mark = db.changes().mark
    for number in range(3):
        other.scope("ann").remember(f"Ann has {number + 2} cats.")
        execute(
            address,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        found = db.changes(mark)
        assert found.kinds == ("entry",)
        mark = found.mark
    again = db.changes(mark)
    assert again.is_empty


def test_a_reader_that_may_not_write_sees_changes(open_db: Callable[..., memdb.MemDB]) -> None:
    """It asks how often others have committed, as a writer does."""
    db, reader = open_db(), open_db(mode="read")
    mark, told = reader.changes().mark, HostFile(reader).mark()

    db.scope("ann").items.put(("notes",), "k", {"text": "Pack."})

    assert reader.changes(mark).kinds == ("item",)
    assert HostFile(reader).stamp() is None  # it never waits
    assert told is not None
    assert HostFile(reader).mark() != told


def test_what_ended_connections_counted_stays(
    address: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """Closing a database is no change, and neither is the upkeep of a killed process's rows."""
    db, other = open_db(), open_db()
    for number in range(2):
        other.scope("ann").remember(f"Ann has {number + 2} dogs.")
    mark, told = db.changes().mark, HostFile(db).mark()
    before = execute(address, "SELECT sum(number) FROM change_counts WHERE kind = 'entry'")

    other.close()

    after = execute(address, "SELECT number FROM changes WHERE kind = 'entry'")
    assert [(int(one),) for (one,) in before] == after == [(2,)]
    assert db.changes(mark).is_empty
    assert told is not None
    assert HostFile(db).mark() == told
    execute(address, "UPDATE commits SET made_ms = 0")
    db._db.maintenance.merge()
    assert execute(address, "SELECT count(*) FROM commits WHERE made_ms = 0") == [(0,)]
    assert db.changes(mark).kinds in ((), ("other",))
    db.scope("ann").remember("Ann lives in Oslo.")  # its connection gets another row
    assert "entry" in db.changes(mark).kinds


def test_counting_makes_no_writer_wait(address: str, open_db: Callable[..., memdb.MemDB]) -> None:
    """No row that writers of other scopes need: one holds its own, and all that is common."""
    first, second = open_db(), open_db(busy_timeout_s=2.0)
    first.scope("ann").remember("Ann plays the tuba.")
    with psycopg.connect(address) as holder:
        holder.execute("SELECT * FROM change_counts FOR UPDATE")
        holder.execute("LOCK TABLE changes IN EXCLUSIVE MODE")

        second.scope("bob").remember("Bob plays the oboe.")
        assert second.scope("bob").session("s").append("user", "Hi.").seq == 1


def test_what_changes_nothing_is_not_counted(
    address: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """An append has no count of its own, and a block that fails none at all."""
    db = open_db()
    db.scope("ann").session("s").append("user", "Hi.")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.scope("ann").remember("Ann plays the tuba.")
        raise ZeroDivisionError
    assert execute(address, "SELECT * FROM change_counts") == []
