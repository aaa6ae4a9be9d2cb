"""Opening: what becomes a memdb file, what is refused, and that a refused file is untouched."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import apsw
import pytest
from fixtures.freeze import CHANGE

import memdb
from memdb.engine.sqlite import foreign_wal, pool, schema
from memdb.postgres import schema as postgres_schema

AS_NOBODY = """
import os, sys, memdb
with memdb.open(":memory:", embedder=None, counter="estimate") as warm:  # nobody may read Python
    warm.scope("ann").session("trip").append("user", "x")
    warm.scope("ann").session("trip").last(1)
os.setgid(65534); os.setuid(65534)
try:
    with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("trip")
        print("read", len(chat.last(9)))
        try:
            chat.append("user", "more")
            print("wrote")
        except memdb.MemDBError as error:
            print(type(error).__name__, error.code, error.exit_code)
except memdb.MemDBError as error:
    print(type(error).__name__, error.code, error.exit_code)
"""

OPEN_AT_ONCE = """
import sys, memdb
print("ready", flush=True)
sys.stdin.readline()
with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
    print(db.scope("ann").session("trip").append("user", "hi").seq)
"""


def only_root() -> Any:
    """Return the mark of tests that give up root."""
    return pytest.mark.skipif(
        os.name != "posix" or os.geteuid() != 0, reason="needs root to give up"
    )


@pytest.fixture
def filled(path: str) -> str:
    """Return the path of a closed file with one message."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("trip").append("user", "hi")
    return path


def test_a_new_file_is_made_and_marked(path: str, raw: Any) -> None:
    """It says what it is, in which format, since when, and has a uid."""
    memdb.open(path, embedder=None, clock=lambda: 5, ids=lambda _ms: "uid-1").close()

    look = raw(path)
    assert look.execute("PRAGMA application_id").fetchall() == [(0x6D656D64,)]
    assert look.execute("PRAGMA user_version").fetchall() == [(schema.FORMAT,)]
    *rows, (key, mark) = look.execute("SELECT key, value FROM meta ORDER BY key").fetchall()
    assert (key, mark[:2], len(mark.split())) == ("in_use", "0 ", 5)
    assert rows == [
        ("created_by", "memdb"),
        ("created_ms", "5"),
        ("file_uid", "uid-1"),
        ("fingerprint", schema.FINGERPRINT),
    ]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = 'other' WHERE key = 'fingerprint'",
        "DELETE FROM meta WHERE key = 'fingerprint'",
        "DROP TABLE meta",
    ],
    ids=["another", "none", "no meta"],
)
def test_a_file_of_a_development_version_is_refused(filled: str, raw: Any, change: str) -> None:
    """Its number is the same, its schema is not; no byte of it changes."""
    look = raw(filled)
    look.execute(change)
    look.close()
    before = Path(filled).read_bytes()

    with pytest.raises(
        memdb.NotAMemDB, match=r"made by a development version .* unchanged\. Export"
    ) as caught:
        memdb.open(filled, embedder=None)

    assert caught.value.path == filled
    assert [one.name for one in Path(filled).parent.iterdir()] == ["agent.db"]
    assert Path(filled).read_bytes() == before


@pytest.mark.parametrize("has_marks", [True, False])
@pytest.mark.parametrize("mode", ["write", "read"])
@pytest.mark.parametrize("column", ["key", "value"])
def test_a_damaged_fingerprint_is_damage(
    filled: str, column: str, mode: Any, has_marks: bool
) -> None:
    """The program that made the file is not to blame: recovering it is what helps."""
    look = apsw.Connection(filled)
    if not has_marks:
        look.execute("PRAGMA application_id = 0; PRAGMA user_version = 0").fetchall()
    look.execute(f"UPDATE meta SET {column} = {column} || 'x' WHERE key = 'fingerprint'")
    look.close()
    before = Path(filled).read_bytes()

    with pytest.raises(memdb.Corrupt, match=r"of meta is damaged.*memdb recover"):
        memdb.open(filled, mode=mode, embedder=None)

    assert Path(filled).read_bytes() == before


# Of each released format: the fingerprint of schema.sql, and of what a server has besides.
FROZEN = {
    1: (
        "6bcf444974deefc1b1378c06863cf5b988474c25bdf831025201945136483238",
        "d3d6f9fcd7f6eddcc566ce38128e74fa",
    ),
}


def test_a_released_format_never_changes() -> None:
    """Another schema.sql needs the next number, a migration, a fixture and a line here."""
    script = schema.read_schema()

    assert schema.fingerprint_of(script) == schema.FINGERPRINT, CHANGE
    assert schema.fingerprint_of(f"-- a comment\n{script}  \n") == schema.FINGERPRINT
    assert schema.fingerprint_of(script.replace("last_n", "last_m")) != schema.FINGERPRINT
    now = schema.FINGERPRINT, postgres_schema.OWN_FINGERPRINT
    assert FROZEN[schema.FORMAT] == now, (
        f"schema.sql is not that of format {schema.FORMAT}: {CHANGE}"
    )


def test_an_existing_file_keeps_what_it_holds(filled: str) -> None:
    """Opening again reads the message and makes nothing new."""
    with memdb.open(filled, embedder=None) as db:
        assert [message.text for message in db.scope("ann").session("trip").messages()] == ["hi"]
        assert db.file.info().counts["scopes"] == 1


def test_a_path_object_is_a_path(tmp_path: Path) -> None:
    """`pathlib` works as everywhere."""
    with memdb.open(tmp_path / "agent.db", embedder=None) as db:
        assert db.path == str(tmp_path / "agent.db")
        assert repr(db) == "<MemDB agent.db>"


def test_an_empty_file_becomes_a_memdb_file(path: str) -> None:
    """As `tempfile` makes them."""
    Path(path).touch()

    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.scope("ann").session("trip").append("user", "hi").seq == 1


def test_an_empty_database_becomes_a_memdb_file(path: str, raw: Any) -> None:
    """As SQLite tools make them: a header and no tables."""
    look = raw(path)
    look.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (x); DROP TABLE t; VACUUM").fetchall()
    look.close()

    with memdb.open(path, embedder=None) as db:
        assert db.file.check() == []


@pytest.mark.parametrize(
    "name", ["file:x.db", "file:x.db?mode=memory", "a b.db", "ü.db", "%20.db", "x.db?y"]
)
def test_a_path_is_a_path_and_no_address(tmp_path: Path, name: str) -> None:
    """Nothing in a name means anything to SQLite."""
    memdb.open(tmp_path / name, embedder=None).close()

    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_memory_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`:memory:` leaves the folder empty, and two of them are two."""
    monkeypatch.chdir(tmp_path)

    with memdb.open(":memory:", counter="estimate") as one, memdb.open(":memory:") as two:
        one.scope("ann").session("s").append("user", "x")

        assert two.scopes() == []
    assert list(tmp_path.iterdir()) == []


def test_closing_leaves_one_file(filled: str) -> None:
    """The WAL has gone into it."""
    assert os.listdir(os.path.dirname(filled)) == ["agent.db"]


FOREIGN = {
    "another program's database": "CREATE TABLE t (x); INSERT INTO t VALUES (1)",
    "an application id": "PRAGMA application_id = 7",
    "a user_version": "PRAGMA user_version = 1",
    "a database in WAL mode": "PRAGMA journal_mode = WAL; CREATE TABLE t (x)",
    "tables named like ours": "CREATE TABLE messages (id INTEGER PRIMARY KEY); PRAGMA user_version = 1",
}


@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN)
def test_another_programs_database_is_refused(path: str, raw: Any, script: str) -> None:
    """NotAMemDB, and not a byte of it has changed."""
    made = raw(path)
    made.execute(script).fetchall()
    made.close()
    before = Path(path).read_bytes()

    with pytest.raises(memdb.NotAMemDB) as caught:
        memdb.open(path)

    assert (caught.value.path, caught.value.exit_code) == (path, 6)
    assert Path(path).read_bytes() == before
    assert os.listdir(os.path.dirname(path)) == ["agent.db"]


@pytest.mark.parametrize(
    "content",
    [b"hi", b"hello world " * 1_000, b"\0" * 5_000, b"SQLite format 2\0" + bytes(4_080)],
    ids=["two letters", "text", "zeros", "older SQLite"],
)
def test_a_file_that_is_no_database_is_refused(path: str, content: bytes) -> None:
    """NotAMemDB, and not a byte of it has changed."""
    Path(path).write_bytes(content)

    with pytest.raises(memdb.NotAMemDB, match="not a SQLite file"):
        memdb.open(path)

    assert Path(path).read_bytes() == content
    assert os.listdir(os.path.dirname(path)) == ["agent.db"]


@pytest.mark.parametrize("keep", [50, 1_000, 4_096, 6_000, 40_960], ids=str)
def test_a_truncated_file_is_corrupt(filled: str, keep: int) -> None:
    """It says what to do, and leaves the rest as it is."""
    rest = Path(filled).read_bytes()[:keep]
    Path(filled).write_bytes(rest)

    with pytest.raises((memdb.Corrupt, memdb.NotAMemDB)):
        memdb.open(filled)

    assert Path(filled).read_bytes() == rest


def test_a_newer_file_is_refused(filled: str, raw: Any) -> None:
    """SchemaTooNew tells both versions; no byte changes."""
    made = raw(filled)
    made.execute(f"PRAGMA user_version = {schema.FORMAT + 1}")
    made.close()
    before = Path(filled).read_bytes()

    with pytest.raises(memdb.SchemaTooNew, match="upgrade") as caught:
        memdb.open(filled)

    assert caught.value.file_version == schema.FORMAT + 1
    assert caught.value.code_version == schema.FORMAT
    assert caught.value.path == filled
    assert Path(filled).read_bytes() == before


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """The error says so."""
    with pytest.raises(memdb.FileError, match="is a folder"):
        memdb.open(tmp_path)


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(memdb.FileError, match="missing does not exist"):
        memdb.open(tmp_path / "missing" / "agent.db")

    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_should_be_is_named(filled: str) -> None:
    """The path goes through a file."""
    with pytest.raises(memdb.FileError):
        memdb.open(f"{filled}/agent.db")


@only_root()
def test_a_file_in_a_readonly_folder_is_read_only(
    filled: str, open_folder: Path, run_child: Any
) -> None:
    """A WAL file needs its folder; the error says what to do."""
    shared = shutil.copy(filled, open_folder / "agent.db")
    os.chmod(shared, 0o644)

    assert run_child(AS_NOBODY, shared) == "ReadOnly read_only 6\n"


@only_root()
def test_a_folder_that_cannot_be_reached_is_not_absent(
    filled: str, open_folder: Path, run_child: Any
) -> None:
    """A folder above it lets nobody through: the error does not ask to create the folder."""
    below = open_folder / "closed" / "below"
    below.mkdir(parents=True)
    moved = below / "agent.db"
    shutil.copy(filled, moved)
    (open_folder / "closed").chmod(0o700)

    assert run_child(AS_NOBODY, moved) == "ReadOnly read_only 6\n"


@only_root()
def test_a_new_file_in_a_readonly_folder_is_refused(open_folder: Path, run_child: Any) -> None:
    """Nothing is left behind."""
    assert run_child(AS_NOBODY, open_folder / "new.db") == "ReadOnly read_only 6\n"
    assert list(open_folder.iterdir()) == []


@only_root()
def test_a_readonly_file_in_a_writable_folder_is_read_and_not_written(
    filled: str, open_folder: Path, run_child: Any
) -> None:
    """Reading works; the write is refused as what it is."""
    shared = shutil.copy(filled, open_folder / "agent.db")
    os.chmod(shared, 0o444)
    os.chmod(open_folder, 0o777)

    assert run_child(AS_NOBODY, shared) == "read 1\nReadOnly read_only 6\n"


@only_root()
def test_a_file_that_may_not_be_read_is_refused(
    filled: str, open_folder: Path, run_child: Any
) -> None:
    """As a file error, not as damage."""
    shared = shutil.copy(filled, open_folder / "agent.db")
    os.chmod(shared, 0o000)
    os.chmod(open_folder, 0o777)

    assert run_child(AS_NOBODY, shared) == "ReadOnly read_only 6\n"


@pytest.mark.parametrize(
    "round_", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))]
)
def test_eight_processes_can_make_a_file_at_once(
    path: str, start_child: Callable[..., Any], round_: int
) -> None:
    """One makes it, all can use it, no number is given twice."""
    children = [start_child(OPEN_AT_ONCE, path) for _ in range(8)]
    [child.stdout.readline() for child in children]
    [(child.stdin.write("go\n"), child.stdin.flush()) for child in children]

    outputs = [child.communicate(timeout=60) for child in children]

    assert [err for _, err in outputs] == [""] * 8
    assert sorted(int(out) for out, _ in outputs) == list(range(1, 9))
    with memdb.open(path, embedder=None) as db:
        assert db.file.check() == []


def test_a_failed_open_lets_go_of_the_file(path: str, raw: Any) -> None:
    """The refused file can be deleted, changed and opened by its own program at once."""
    made = raw(path)
    made.execute("CREATE TABLE t (x)")
    with pytest.raises(memdb.NotAMemDB) as caught:
        memdb.open(path)

    made.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    made.execute("INSERT INTO t VALUES (1)")

    assert caught.value.path == path


def test_opening_twice_in_one_process_is_two_handles(filled: str) -> None:
    """Both write; both see everything."""
    with memdb.open(filled, embedder=None, counter="estimate") as one:
        with memdb.open(filled, embedder=None, counter="estimate") as two:
            one.scope("ann").session("trip").append("user", "from one")
            two.scope("ann").session("trip").append("user", "from two")

            assert one.scope("ann").session("trip").last_seq == 3
        assert one.scope("ann").session("trip").append("user", "still").seq == 4


def test_a_bad_option_leaves_no_file(path: str) -> None:
    """Options are looked at before anything is made."""
    with pytest.raises(memdb.InvalidInput):
        memdb.open(path, durability="maybe")

    assert not os.path.exists(path)


def test_sqlite_is_new_enough_for_writers() -> None:
    """The WAL reset bug was there up to 3.51.2."""
    assert apsw.SQLITE_VERSION_NUMBER > 3_051_002


def test_one_connection_serves_an_append_to_a_closed_file(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that reads the schema then writes, moves the mark and the WAL, and is closed."""
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "We fly to Oslo.")
    opened: list[str] = []
    for module in (pool, foreign_wal):

        def connect(file: str, real: Any = module.connect, **options: Any) -> Any:
            opened.append(file)
            return real(file, **options)

        monkeypatch.setattr(module, "connect", connect)
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "We sail to Bergen.")
        engine = db._db
        while engine.upkeep._passive_at:
            sleep(0.01)

    assert opened == [path]
    with memdb.open(path) as db:
        assert [one.seq for one in db.scope("ann").session("trip").last(5)] == [1, 2]
        assert db.file.check(deep=True) == []
