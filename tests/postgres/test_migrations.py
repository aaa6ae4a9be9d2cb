"""Tables of an older format on a server become current ones, or stay exactly what they were."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.engine.sqlite.schema import fingerprint_of
from memdb.engine.steps import Step
from memdb.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Query = Callable[[str], list[tuple[Any, ...]]]

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

ROOT = Path(memdb.__file__).parents[1]
LONG_S = 300.0  # for conditions that hold within moments

# The format of today, and the next, which does not exist: what its step would say.
NOW, NEXT = schema.FORMAT, schema.FORMAT + 1
STEP = """
    ALTER TABLE messages ADD COLUMN lang TEXT;
    UPDATE messages SET lang = 'en';
    CREATE TABLE extra (count BIGINT NOT NULL);
    INSERT INTO extra (count) SELECT count(*) FROM messages;
"""

# Opens the database as a memdb of the next format would. `memdb_wait` is a lock of the test's.
MIGRATE = """
import sys, memdb
from memdb.postgres import schema
from memdb.engine.steps import Step
schema.FORMAT += 1
schema.STEPS[schema.FORMAT] = Step(sys.argv[2], counts=("extra",))
print("ready", flush=True)
sys.stdin.readline()
with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
    print("open", flush=True)
"""
GATE = 4711
WAIT = f"SELECT pg_advisory_xact_lock({GATE});"

# Appends until memdb refuses it, and prints each seq that was acknowledged.
WRITE = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", busy_timeout_s=300) as db:
    chat = db.scope(sys.argv[2]).session("s")
    print("ready", flush=True)
    while True:
        try:
            print(chat.append("user", "hello").seq, flush=True)
        except memdb.SchemaTooNew:
            print("too new", flush=True)
            break
"""


@pytest.fixture
def address(postgres_databases: Any) -> Iterator[str]:
    """Return the address of a database of its own, with tables of today and a message."""
    with postgres_databases.bare(with_tables=True) as bare:
        with memdb.open(bare, embedder=None, counter="estimate") as db:
            db.scope("ann").session("trip").append("user", "hi")
        yield bare


@pytest.fixture
def query(address: str) -> Query:
    """Return a function that runs a statement beside memdb."""

    def run(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(address, autocommit=True) as connection:
            found = connection.execute(sql)
            return list(found.fetchall()) if found.description else []

    return run


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[int, Step]:
    """Let this memdb believe that its format is the next one; the step can be changed."""
    found = {NEXT: Step(STEP, counts=("extra",))}
    monkeypatch.setattr(schema, "FORMAT", NEXT)
    monkeypatch.setattr(schema, "STEPS", found)
    return found


@contextmanager
def child(program: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that writes a line when it is ready; kill it at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> None:
    """Let a program go on."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a program prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def shape(query: Query) -> list[tuple[Any, ...]]:
    """Return every table with its columns, the format and the fingerprint."""
    return [
        *query(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        ),
        *query("SELECT format FROM memdb_format"),
        *query("SELECT value FROM meta WHERE key = 'fingerprint'"),
        *query("SELECT count(*) FROM messages"),
    ]


def test_the_fingerprint_is_that_of_the_tables() -> None:
    """A change of what only a server has changes it too."""
    script = schema.own_script()

    assert fingerprint_of(script)[:32] == schema.OWN_FINGERPRINT
    assert fingerprint_of(script.replace("fillfactor = 50", "x"))[:32] != schema.OWN_FINGERPRINT
    assert fingerprint_of(script.replace("STRICT", "x"))[:32] != schema.OWN_FINGERPRINT


def test_an_older_format_is_migrated(address: str, query: Query, steps: dict[int, Step]) -> None:
    """With its rows; once, and the next opening finds it current."""
    for _ in range(2):
        with memdb.open(address, embedder=None, counter="estimate") as db:
            assert db.scope("ann").session("trip").last(1)[0].text == "hi"
            assert db.scope("bob").session("new").append("user", "hello").seq
        assert query("SELECT count FROM extra") == [(1,)]
        assert query("SELECT format FROM memdb_format") == [(NEXT,)]
    assert query("SELECT DISTINCT lang FROM messages ORDER BY 1") == [("en",), (None,)]


def test_a_reader_does_not_migrate(address: str, query: Query, steps: dict[int, Step]) -> None:
    """It is told to open the database for writing."""
    before = shape(query)
    with pytest.raises(memdb.ReadOnly, match="mode"):
        memdb.open(address, embedder=None, mode="read")
    assert shape(query) == before


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (Step(STEP.replace("UPDATE messages", "UPDATE nowhere"), counts=("extra",)), "nowhere"),
        (Step("this is no SQL"), "syntax"),
        (Step("INSERT INTO meta (key, value) VALUES ('created_by', 'twice');"), "meta_pkey"),
        (Step(STEP), "extra has 1 rows instead of 0"),
        (Step("DELETE FROM messages"), "messages has 0 rows instead of 1"),
        (Step("DROP TABLE tombstones", drops=("tombstones",)), "table tombstones is missing"),
        (
            Step(after=lambda tx: tx.run_script("UPDATE messages SET author = 'Eve'")),
            "message_hash",
        ),
        (Step(after=lambda tx: tx.nothing), "nothing"),
    ],
    ids=lambda value: "" if isinstance(value, Step) else value,
)
def test_a_step_that_fails_changes_nothing(
    address: str, query: Query, steps: dict[int, Step], step: Step, told: str
) -> None:
    """MigrationFailed says from where to where, and why."""
    before = shape(query)
    steps[NEXT] = step

    with pytest.raises(memdb.MigrationFailed, match="unchanged") as caught:
        memdb.open(address, embedder=None)

    assert told in str(caught.value)
    assert (caught.value.from_version, caught.value.to_version) == (NOW, NEXT)
    assert shape(query) == before


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE meta SET value = 'other' WHERE key = 'fingerprint'",
        "DELETE FROM meta WHERE key = 'fingerprint'",
    ],
)
def test_tables_of_a_development_version_are_left_alone(
    address: str, query: Query, sql: str
) -> None:
    """The same number with other tables: the error says how to take the memory along."""
    query(sql)
    before = shape(query)
    for mode in ("write", "read"):
        with pytest.raises(memdb.NotAMemDB, match=r"development version.*unchanged.*memdb copy"):
            memdb.open(address, embedder=None, mode=mode)
    assert shape(query) == before


def test_two_processes_migrate_at_once(address: str, query: Query) -> None:
    """One does it, the other waits and finds it done."""
    with child(MIGRATE, address, STEP) as first, child(MIGRATE, address, STEP) as second:
        go(first)
        go(second)
        assert read_line(first) == read_line(second) == "open"
    assert query("SELECT count(*) FROM extra") == [(1,)]


def test_a_migration_that_is_killed_leaves_nothing(address: str, query: Query) -> None:
    """SIGKILL in the middle: the tables are the old ones, and the next opening migrates them."""
    before = shape(query)
    with psycopg.connect(address) as gate:
        gate.execute(WAIT)
        with child(MIGRATE, address, STEP.replace("CREATE", WAIT + "CREATE")) as migrating:
            go(migrating)
            wait_until(
                lambda: query(f"SELECT 1 FROM pg_locks WHERE objid = {GATE} AND NOT granted") != []
            )
            migrating.kill()
            migrating.wait(LONG_S)
    assert shape(query) == before
    with memdb.open(address, embedder=None, counter="estimate") as db:
        assert db.scope("ann").session("trip").append("user", "again").seq == 2
    with child(MIGRATE, address, STEP) as migrating:
        go(migrating)
        assert read_line(migrating) == "open"


def test_writers_wait_for_a_migration_and_are_told(address: str, query: Query) -> None:
    """What they had acknowledged is there, what they wrote behind it is refused, nothing is half."""
    users = ("ann", "bob")
    with (
        child(WRITE, address, "ann") as ann,
        child(WRITE, address, "bob") as bob,
        child(MIGRATE, address, STEP) as migrating,
    ):
        seqs = {"ann": [int(read_line(ann))], "bob": [int(read_line(bob))]}
        go(migrating)
        assert read_line(migrating) == "open"
        for user, process in zip(users, (ann, bob), strict=True):
            while (line := read_line(process)) != "too new":
                seqs[user].append(int(line))
            assert process.wait(LONG_S) == 0

    for user in users:
        assert seqs[user] == [*range(1, len(seqs[user]) + 1)]
    stored = query("SELECT count(*), count(lang) FROM messages")
    assert stored == query("SELECT count, count FROM extra")  # no row came behind the migration
    assert stored[0][0] == 1 + sum(map(len, seqs.values()))


def test_who_watches_is_told_of_a_migration(address: str) -> None:
    """The handle of the older memdb reads again, or is opened again by a newer one."""
    with memdb.open(address, embedder=None, counter="estimate") as db:
        mark = db.changes().mark
        with child(MIGRATE, address, STEP) as migrating:
            go(migrating)
            assert read_line(migrating) == "open"
        with pytest.raises(memdb.SchemaTooNew):
            db.changes(mark)
        with pytest.raises(memdb.SchemaTooNew):
            db.scope("ann").session("trip").append("user", "no")
