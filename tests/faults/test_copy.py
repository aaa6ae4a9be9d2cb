"""`memdb copy`: the target is equal, whole or not there, and what stopped goes on."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from tenants import NOW_MS, OTHERS, SECRETS, open_as

import memdb
from memdb.tables import copies
from memdb.transfer import copy as copying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

# Rows by what they are, not by the numbers that each database gives to blobs, groups and spaces.
COMPARED = {
    **{
        table: f"SELECT * FROM {table}"
        for table in (
            *("scopes", "sessions", "messages", "summaries", "archive_segments", "entries"),
            *("entry_history", "entry_links", "item_namespaces", "items", "artifact_names"),
            *("state", "tombstones", "settings"),
        )
    },
    "spaces": "SELECT model, dim, metric, created_ms, complete_ms, retired_ms FROM embedding_spaces",
    "vectors": """
        SELECT model, kind, bucket << 8 | (vectors.id & 255), vector
        FROM vectors
        JOIN vector_groups ON vector_groups.id = vectors.id - (vectors.id & 255)
        JOIN embedding_spaces USING (space_no)
    """,
    "artifacts": """
        SELECT scope_no, session_no, name, rev_version, uid, hex(sha256), mime, metadata, message_id,
        artifacts.created_ms
        FROM artifacts JOIN blobs USING (blob_no)
    """,
    "chunks": """
        SELECT sha256, chunk_no, codec, blob_chunks.size_bytes, data
        FROM blobs JOIN blob_chunks USING (blob_no)
        WHERE blob_no IN (SELECT blob_no FROM artifacts)
    """,
    "jobs": """
        SELECT kind, subject, ref, model, next_seq, due_ms, attempts, error
        FROM jobs LEFT JOIN embedding_spaces USING (space_no)
        WHERE subject <> 'file'
    """,
}


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every page be told, and no page hold more than three rows."""
    monkeypatch.setattr(copying, "TELL_S", 0)
    monkeypatch.setattr(copying, "VECTOR_LIMIT", 3)
    monkeypatch.setattr(copies, "TABLES", tuple(one.replace(limit=3) for one in copies.TABLES))


@pytest.fixture
def source(tmp_path: Path, two_files: tuple[bytes, bytes]) -> Iterator[MemDB]:
    """Return an open file with everything, of several users."""
    path = tmp_path / "source.db"
    path.write_bytes(two_files[1])
    with open_as(path, 9) as db:
        db.settings.update(entry_quota=700)
        yield db


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return the path of a file that is not there yet."""
    return tmp_path / "target.db"


def rows_of(path: str | Path) -> dict[str, list[str]]:
    """Return what a copy has to keep, by kind."""
    connection = apsw.Connection(str(path))
    found = {name: sorted(map(repr, connection.execute(sql))) for name, sql in COMPARED.items()}
    connection.close()
    return found


def lines_of(db: MemDB, user: str, app: str) -> list[Any]:
    """Return the export of a user, in which no number of a row stands."""
    return [json.loads(line) for line in db.export_lines(user=user, app=app)]


def look_at(path: Path) -> MemDB:
    """Open a file without settings of its own, which would be written into it."""
    return memdb.open(path, embedder=None, counter="estimate", clock=lambda: NOW_MS)


def assert_sound(path: Path) -> None:
    """Check every page, index and hash of a file."""
    with look_at(path) as db:
        assert db.file.check(deep=True) == []


class Stop(Exception):
    """Ends a copy at a moment of a test."""


def stop_after(batches: int) -> Callable[[int, int], None]:
    """Return a progress function that ends the copy after so many calls."""
    left = [batches]

    def progress(_done: int, _total: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Stop

    return progress


def test_the_copy_of_everything_is_equal(source: MemDB, target: Path) -> None:
    """Every row is there with its ids, and what is derived agrees with it."""
    report = source.file.copy(target)

    assert rows_of(target) == rows_of(source.path)
    assert_sound(target)
    assert report.rows["vectors"] > 10
    with open_as(target, 7) as db:
        assert db.file.info().meta.keys() == source.file.info().meta.keys()


def test_every_table_is_copied_or_has_a_reason(source: MemDB) -> None:
    """A new table of the schema is not forgotten."""
    connection = apsw.Connection(source.path)
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\\_fts%' "
            "ESCAPE '\\' AND name NOT LIKE 'sqlite%'"
        )
    }
    connection.close()
    assert tables - {table.name for table in copies.TABLES} == {
        "changes",  # which rows this database changed last, for who watches it
        "meta",  # of the file itself
        "synced",  # a copy is no device until it is synced
        "vector_groups",  # made with the vectors
        "vectors",  # through the engine
    }


def test_every_column_is_copied_or_derived(source: MemDB) -> None:
    """A new column of a copied table is not forgotten."""
    connection = apsw.Connection(source.path)
    for table in copies.TABLES:
        columns = {
            name
            for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", [table.name])
        }
        assert columns - {"digest"} == set(table.columns), table.name
    connection.close()


def test_a_search_finds_the_same(source: MemDB, target: Path) -> None:
    """By words and by vectors, without embedding anything."""
    source.file.copy(target)
    user, app = OTHERS[0]
    with open_as(target, 7) as db:
        found = db.scope(user, app).recall("Oslo red lamp tea", limit=20, count_use=False)
        expected = source.scope(user, app).recall("Oslo red lamp tea", limit=20, count_use=False)
        assert [(hit.text, hit.source) for hit in found] == [
            (hit.text, hit.source) for hit in expected
        ]
        assert "vector" in found.arms


def test_a_copy_that_stopped_leaves_nothing(source: MemDB, target: Path) -> None:
    """Whatever it did last; the next one is equal, also if the source changed meanwhile."""
    steps = random.Random(3)
    user, app = OTHERS[0]
    for _ in range(4):
        with pytest.raises(Stop):
            source.file.copy(target, progress=stop_after(steps.randrange(1, 90)))
        with look_at(target) as db:
            assert (db.scopes(), db.file.check(deep=True)) == ([], [])
    chat = source.scope(user, app).session(SECRETS["session"])
    chat.delete([1])
    chat.append("user", "Something new.")
    source.file.copy(target)

    assert rows_of(target) == rows_of(source.path)
    assert_sound(target)


def test_a_target_that_holds_something_is_refused(source: MemDB, target: Path) -> None:
    """Whatever it is, in a dry run too: two memories are never mixed, and nothing is written."""
    with open_as(target, 6) as db:
        db.scope("zoe").state.put("colour", "blue")
    before = rows_of(target)
    for dry_run in (True, False):
        with pytest.raises(memdb.AlreadyExists, match="rows of s"):
            source.file.copy(target, dry_run=dry_run)
    assert rows_of(target) == before
    with look_at(target) as db:
        db.shared("shop").state.update(size=3)
        assert db.shared("shop").state.all() == {"size": 3}


def test_a_dry_run_writes_nothing(source: MemDB, target: Path) -> None:
    """It counts what the copy then takes."""
    planned = source.file.copy(target, dry_run=True)

    assert not target.exists()
    assert planned.dry_run
    assert source.file.copy(target).rows == planned.rows


@pytest.mark.parametrize("kind", ["itself", "backup", "memory", "folder", "newer", "foreign"])
def test_a_target_that_is_none_is_refused(
    source: MemDB, tmp_path: Path, target: Path, kind: str
) -> None:
    """With an error of memdb, and it stays as it is."""
    place, error = str(target), memdb.FileError
    if kind == "itself":
        place, error = source.path, memdb.InvalidInput
    elif kind == "backup":
        source.file.backup(target)
        error = memdb.InvalidInput
    elif kind == "memory":
        place, error = ":memory:", memdb.InvalidInput
    elif kind == "folder":
        place = str(tmp_path / "no such folder" / "target.db")
    else:
        open_as(target, 6).close()
        connection = apsw.Connection(place)
        number = {"newer": "user_version = 99", "foreign": "application_id = 7"}[kind]
        connection.execute(f"PRAGMA {number}")
        connection.close()
    before = target.read_bytes() if target.exists() else None

    with pytest.raises(error):
        source.file.copy(place)
    assert (target.read_bytes() if target.exists() else None) == before


def test_a_damaged_row_is_not_copied(
    tmp_path: Path, target: Path, two_files: tuple[bytes, bytes]
) -> None:
    """A copy would give it a digest that agrees with it."""
    path = tmp_path / "damaged.db"
    path.write_bytes(two_files[0])
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE messages SET author = 'rot' WHERE id >> 44 = 1")
    connection.close()
    with open_as(path, 9) as db, pytest.raises(memdb.Corrupt):
        db.file.copy(target)
    with open_as(target, 7) as db:
        assert db.scopes() == []


def test_bytes_that_differ_from_their_hash_are_not_copied(source: MemDB, target: Path) -> None:
    """The hash of an artifact is compared while its chunks are copied."""
    connection = apsw.Connection(source.path)
    connection.execute("UPDATE blob_chunks SET data = zeroblob(length(data))")
    connection.close()

    with pytest.raises(memdb.Corrupt, match="artifact"):
        source.file.copy(target)


def test_a_full_disk_leaves_nothing_to_be_seen(source: MemDB, target: Path) -> None:
    """DiskFull; with room again the copy goes on."""
    with look_at(target) as db:
        pages = db._db._writing().raw.execute("PRAGMA page_count").fetchone()[0]
        db._db._writing().raw.execute(f"PRAGMA max_page_count = {pages + 8}").fetchall()
        with pytest.raises(memdb.DiskFull):
            copying.copy(source._db, db._db)
    with look_at(target) as db:
        assert db.scopes() == []
    source.file.copy(target)
    assert rows_of(target) == rows_of(source.path)


def test_a_large_artifact_in_many_chunks(source: MemDB, target: Path) -> None:
    """More chunks than are read at once; two names of the same bytes share them."""
    data = random.Random(4).randbytes(6 << 20)
    for name in ("one.bin", "two.bin"):
        source.scope("ann").artifacts.save(f"user:{name}", data)
    source.file.copy(target)

    with look_at(target) as db:
        for name in ("one.bin", "two.bin"):
            assert db.scope("ann").artifacts.load(f"user:{name}").data == data
    assert rows_of(target)["chunks"] != []
    assert target.stat().st_size < 2 * len(data)


def test_nothing_to_copy(tmp_path: Path, target: Path) -> None:
    """A file without users gives one without users."""
    with look_at(tmp_path / "empty.db") as db:
        for _ in range(2):
            assert sum(db.file.copy(target).rows.values()) == 0
    with look_at(target) as db:
        assert db.scopes() == []
        assert db.file.check(deep=True) == []


def test_inside_a_transaction_is_refused(source: MemDB, target: Path) -> None:
    """The copy would lack what the transaction wrote."""
    with source.transaction(), pytest.raises(memdb.InvalidInput, match="transaction"):
        source.file.copy(target)


# Kills itself before the statement with this number, or says how many statements there were.
COPY = """
import itertools, os, signal, sys
import memdb
from memdb.engine.sqlite.connection import Tx
from memdb.transfer import copy as copying
copying.TELL_S, copying.VECTOR_LIMIT = 0, 3
numbers, last = itertools.count(1), int(sys.argv[3])
def mortal(run):
    def call(*given):
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(*given)
    return call
for name in ("all", "one", "run", "many", "commit"):
    setattr(Tx, name, mortal(getattr(Tx, name)))
with memdb.open(sys.argv[1], mode="read", embedder=None) as db:
    db.file.copy(sys.argv[2])
    print(next(numbers), flush=True)
"""


def copy_by_child(
    start_child: Callable[..., Any], source: str, target: Path, last: int = 0
) -> int | None:
    """Copy in a process that dies before a statement; return how many it ran, None if it died."""
    child = start_child(COPY, source, target, last)
    out, errors = child.communicate(timeout=300)
    assert out or child.returncode == -signal.SIGKILL, errors
    return int(out) if out else None


def kill_until_done(
    start_child: Callable[..., Any], source: str, target: Path, moments: list[int]
) -> int:
    """Kill copies before these statements, then let one end; return how many were killed."""
    killed = sum(copy_by_child(start_child, source, target, last) is None for last in moments)
    assert copy_by_child(start_child, source, target)
    return killed


def test_a_killed_copy_goes_on(
    source: MemDB, target: Path, start_child: Callable[..., Any]
) -> None:
    """SIGKILL at some moments, real processes."""
    assert kill_until_done(start_child, source.path, target, [60, 90, 120]) == 3

    assert rows_of(target) == rows_of(source.path)
    assert_sound(target)


def test_who_watches_the_target_hears_of_a_copy_when_it_is_there(
    source: MemDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a copy is named before its end; then its sessions and kinds are."""
    monkeypatch.setattr(copying, "TELL_S", 0)
    with memdb.open(tmp_path / "watched.db", embedder=None) as there:
        heard = [there.changes()]

        def listen(*_: int) -> None:
            heard.append(there.changes(heard[-1].mark))

        source.file.copy(there.path, progress=listen)
        before, last = heard[1:-1], heard[-1]

        assert before
        assert all(not one.sessions and {*one.kinds} <= {"other"} for one in before)
        assert {"scope", "state", "entry", "message"} <= {*last.kinds}
        assert {(one.app, one.user) for one in last.sessions} <= {
            (one.app, one.user) for one in there.scopes()
        }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_copies_killed_many_times(
    source: MemDB, tmp_path: Path, start_child: Callable[..., Any]
) -> None:
    """Whatever the moment, the copy that ends is equal."""
    total = copy_by_child(start_child, source.path, tmp_path / "whole.db")
    assert total
    moments = random.Random(5)
    for number in range(12):
        target = tmp_path / f"target {number}.db"
        # One that goes on has fewer statements: the first is always killed.
        chosen = [moments.randrange(1, total), *moments.choices(range(1, total // 2), k=7)]
        assert kill_until_done(start_child, source.path, target, chosen) >= 1
        assert rows_of(target) == rows_of(source.path)
        assert_sound(target)
