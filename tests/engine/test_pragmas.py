"""The connection policy: what is set on which connection, read back from SQLite."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import apsw
import pytest

import memdb
from memdb.engine.sqlite import connection as connections_module
from memdb.engine.sqlite.engine import SqliteEngine


@pytest.fixture
def connections(path: str, make_database: Callable[..., SqliteEngine]) -> Any:
    """Return the writing and a reading connection of a file with default durability."""
    database = make_database(path, durability="power")
    writer = database._writing().raw
    with database.read() as tx:
        return {"writer": writer, "reader": tx.raw}


def pragma(connection: apsw.Connection, name: str) -> Any:
    """Return what a pragma says."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def settings(connection: apsw.Connection) -> dict[str, Any]:
    """Return what each pragma of `connection.py` says."""
    source = inspect.getsource(connections_module)
    return {name: pragma(connection, name) for name in re.findall(r"PRAGMA (\w+) = ", source)}


@pytest.mark.parametrize(
    ("who", "name", "value"),
    [
        ("writer", "journal_mode", "wal"),
        ("writer", "synchronous", 1),
        ("writer", "foreign_keys", 1),
        ("writer", "trusted_schema", 0),
        ("writer", "query_only", 0),
        ("writer", "wal_autocheckpoint", 0),  # its hook is that of upkeep.py
        ("writer", "secure_delete", 1),
        ("writer", "fullfsync", 1),
        ("writer", "checkpoint_fullfsync", 1),
        ("writer", "journal_size_limit", 64 << 20),
        ("writer", "page_size", 4_096),
        ("writer", "encoding", "UTF-8"),
        ("reader", "query_only", 1),
        ("reader", "foreign_keys", 1),
        ("reader", "trusted_schema", 0),
        ("reader", "journal_mode", "wal"),
        ("reader", "mmap_size", 0),
    ],
    ids=lambda value: str(value),
)
def test_each_pragma_is_set(connections: Any, who: str, name: str, value: Any) -> None:
    """As connection.py says, on the connection it says."""
    assert pragma(connections[who], name) == value


def test_a_connection_that_read_is_set_as_one_that_was_opened_to_write(
    path: str, make_database: Callable[..., SqliteEngine]
) -> None:
    """The next write takes an idle connection, and each pragma says what it says on a new one."""
    engine = make_database(path)
    with engine.read(), engine.write():
        opened = settings(engine._writing().raw)
    engine.pool.close_idle()
    with engine.read():
        pass
    [reader] = engine.pool._readers
    taken = engine._writing()

    assert taken.raw is reader.raw
    assert settings(taken.raw) == opened


@pytest.mark.parametrize("durability", ["power", "process"])
def test_a_commit_waits_for_no_disk(
    path: str, make_database: Callable[..., SqliteEngine], durability: str
) -> None:
    """NORMAL: with "power" the writer syncs when it has given the lock back (test_wal_sync)."""
    engine = make_database(path, durability=durability)

    assert pragma(engine._writing().raw, "synchronous") == 1
    with engine.apart() as beside:  # a task of its own commits without that wait
        assert pragma(beside.raw, "synchronous") == {"power": 2, "process": 1}[durability]


@pytest.mark.parametrize("who", ["writer", "reader"])
def test_double_quotes_are_no_text(connections: Any, who: str) -> None:
    """A misspelt column is an error."""
    with pytest.raises(apsw.SQLError, match="no such column"):
        connections[who].execute('SELECT "nonsense" FROM meta').fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = ''",
        "DELETE FROM messages_fts_data",
        "SELECT load_extension('vec0')",
    ],
    ids=["the schema", "the index's own tables", "extensions"],
)
def test_sql_cannot_reach(connections: Any, sql: str) -> None:
    """What could damage the file or load code is closed to statements."""
    with pytest.raises(apsw.Error):
        connections["writer"].execute(sql).fetchall()


def test_vector_functions_come_without_leaving_the_door_open(
    path: str, make_database: Callable[..., SqliteEngine]
) -> None:
    """After loading sqlite-vec nothing else can be loaded, and it is loaded once."""
    with make_database(path).read() as tx:
        tx.use_vectors()
        tx.use_vectors()

        assert tx.one("SELECT vec_length(x'0000803f')") == (1,)
        with pytest.raises(memdb.StorageError):
            tx.one("SELECT load_extension('vec0')")


def test_the_mode_stays_in_the_file(
    path: str, make_database: Callable[..., SqliteEngine], raw: Any
) -> None:
    """Another program that opens it finds WAL."""
    make_database(path).close()

    assert pragma(raw(path), "journal_mode") == "wal"


def test_memory_has_its_rules_too(make_database: Callable[..., SqliteEngine]) -> None:
    """Foreign keys hold without a file."""
    connection = make_database(":memory:")._writing().raw

    assert (pragma(connection, "foreign_keys"), pragma(connection, "trusted_schema")) == (1, 0)


@pytest.mark.parametrize("who", ["writer", "reader"])
def test_binding_a_limit_does_not_prepare_again(connections: Any, who: str) -> None:
    """Reading 50 messages would take 10 µs more."""
    assert connections[who].config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
