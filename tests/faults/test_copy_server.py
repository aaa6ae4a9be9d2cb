"""`memdb copy` to a server, from it, and from one to another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tenants import NOW_MS, OTHERS, open_as
from test_copy import Stop, lines_of, look_at, rows_of, stop_after

import memdb
from memdb.transfer import copy as copying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every page be told."""
    monkeypatch.setattr(copying, "TELL_S", 0)
    monkeypatch.setattr(copying, "VECTOR_LIMIT", 20)


@pytest.fixture
def server(postgres_databases: Any) -> Iterator[Any]:
    """Return what makes a new database for each name."""
    yield postgres_databases
    postgres_databases.empty_all()


@pytest.fixture
def source(tmp_path: Path, two_files: tuple[bytes, bytes]) -> Iterator[MemDB]:
    """Return an open file with everything, of several users."""
    path = tmp_path / "source.db"
    path.write_bytes(two_files[1])
    with open_as(path, 9) as db:
        yield db


def open_server(address: str) -> MemDB:
    """Open a database of a server."""
    return memdb.open(address, embedder=None, counter="estimate", clock=lambda: NOW_MS)


def own_database(server: Any, name: str) -> str:
    """Return the address of a new database; those of the tests are copies with one identity."""
    address: str = server.address_of(f"/{name}")
    with open_server(address) as db, db._db.write() as tx:
        tx.run("/* test.uid */ UPDATE meta SET value = :uid WHERE key = 'file_uid'", {"uid": name})
    return address


def test_to_a_server_and_back(source: MemDB, server: Any, tmp_path: Path) -> None:
    """The file that comes back has every row of the one that went."""
    address, back = own_database(server, "team"), tmp_path / "back.db"
    there = source.file.copy(address)
    assert "password" not in there.target
    with open_server(address) as db:
        for user, app in OTHERS:
            assert lines_of(db, user, app) == lines_of(source, user, app)
        assert [one for one in db.file.check() if one.code != "schema"] == []
        again = db.file.copy(back)
    assert (again.rows, again.sha256) == (there.rows, there.sha256)
    assert rows_of(back) == rows_of(source.path)
    with look_at(back) as db:
        assert db.file.check(deep=True) == []


def test_from_one_server_to_another(source: MemDB, server: Any) -> None:
    """One that stopped begins anew; what is added later gets numbers that nothing has."""
    first, second = own_database(server, "first"), own_database(server, "second")
    source.file.copy(first)
    with open_server(first) as db:
        with pytest.raises(Stop):
            db.file.copy(second, progress=stop_after(20))
        db.file.copy(second)
    with open_server(second) as db:
        for user, app in OTHERS:
            assert lines_of(db, user, app) == lines_of(source, user, app)
        users = len(db.scopes())
        for number in range(12):  # more than there are partitions
            db.scope(f"new {number}").artifacts.save("user:a.txt", f"{number}".encode())
        assert len(db.scopes()) == users + 12
        assert [one for one in db.file.check() if one.code != "schema"] == []
        with pytest.raises(memdb.AlreadyExists):
            source.file.copy(second)


def test_a_search_on_the_server_finds_the_same(source: MemDB, server: Any) -> None:
    """By words, in the same order."""
    address = own_database(server, "search")
    source.file.copy(address)
    user, app = OTHERS[0]
    with open_server(address) as db, look_at(Path(source.path)) as file:
        for query in ("red lamp", "Oslo soup tea"):
            found = db.scope(user, app).recall(query, limit=20, count_use=False)
            expected = file.scope(user, app).recall(query, limit=20, count_use=False)
            assert [hit.text for hit in found] == [hit.text for hit in expected]
            assert len(found) > 3


def test_the_same_server_is_refused(server: Any) -> None:
    """By the uid of the database, however its address is written."""
    address = own_database(server, "same")
    with open_server(address) as db:
        db.scope("ann").remember("Ann was here.")
        with pytest.raises(memdb.InvalidInput, match="itself"):
            db.file.copy(address.replace("127.0.0.1", "localhost"))


def test_a_dry_run_makes_no_tables(source: MemDB, postgres_databases: Any) -> None:
    """A database without them is an empty target."""
    with postgres_databases.bare() as address:
        planned = source.file.copy(address, dry_run=True)
        assert planned.rows["messages"] > 0
        with pytest.raises(memdb.FileError):
            memdb.open(address, mode="read", embedder=None)


COPY = """
import sys
import memdb
from memdb.transfer import copy as copying
copying.TELL_S = 0
with memdb.open(sys.argv[1], mode="read", embedder=None) as db:
    print("ready", flush=True)
    db.file.copy(sys.argv[2])
    print("done", flush=True)
"""


def test_a_killed_copy_to_a_server_goes_on(
    source: MemDB, server: Any, tmp_path: Path, start_child: Callable[..., Any]
) -> None:
    """SIGKILL of the copying process; what it wrote is undone."""
    address = own_database(server, "killed")
    for pause_s in (0.1, 0.4, None):
        child = start_child(COPY, source.path, address)
        assert child.stdout.readline() == "ready\n"
        if pause_s is None:
            assert child.stdout.readline() == "done\n", child.stderr.read()
        else:
            time.sleep(pause_s)
            child.kill()
        child.wait()
        with open_server(address) as db:
            if db.scopes():  # whole; on a fast machine also before the kill
                break
    with open_server(address) as db:
        db.file.copy(tmp_path / "back.db")
    # What a stopped copy left is removed, and no number of a scope is given twice.
    with look_at(tmp_path / "back.db") as back:
        for one in filter(lambda one: one.user, source.scopes()):
            assert lines_of(back, one.user, one.app) == lines_of(source, one.user, one.app)
