"""The error tree and the table from SQLite's codes to it."""

import pickle
from typing import Any

import apsw
import pytest

import memdb
from memdb import errors
from memdb.errors import SQLITE_ERRORS, from_sqlite

# (class, parent, code, exit code)
TREE = [
    ("MemDBError", "Exception", "internal", 1),
    ("InvalidInput", "MemDBError", "invalid", 5),
    ("DimensionMismatch", "InvalidInput", "dimension", 5),
    ("TooLarge", "InvalidInput", "too_large", 5),
    ("SecretFound", "InvalidInput", "secret", 5),
    ("InvalidItem", "InvalidInput", "invalid_item", 5),
    ("NotFound", "MemDBError", "not_found", 3),
    ("Conflict", "MemDBError", "conflict", 4),
    ("AlreadyExists", "Conflict", "exists", 4),
    ("VersionConflict", "Conflict", "version", 4),
    ("FileError", "MemDBError", "file", 6),
    ("NotAMemDB", "FileError", "not_memdb", 6),
    ("KeyMissing", "FileError", "key_missing", 6),
    ("WrongKey", "FileError", "wrong_key", 6),
    ("CipherMissing", "FileError", "cipher_missing", 6),
    ("SchemaTooNew", "FileError", "schema_new", 6),
    ("SettingsTooNew", "FileError", "settings_new", 6),
    ("MigrationFailed", "FileError", "migration", 6),
    ("ReadOnly", "FileError", "read_only", 6),
    ("StorageError", "MemDBError", "storage", 7),
    ("Busy", "StorageError", "busy", 7),
    ("DiskFull", "StorageError", "full", 7),
    ("Corrupt", "StorageError", "corrupt", 7),
    ("Interrupted", "StorageError", "interrupted", 7),
    ("IOFailed", "StorageError", "io", 7),
    ("Closed", "StorageError", "closed", 7),
    ("SessionClosed", "Closed", "session_closed", 7),
    ("Unsupported", "StorageError", "unsupported", 7),
    ("WrongProcess", "StorageError", "wrong_process", 7),
    ("PortError", "MemDBError", "port", 8),
    ("Unavailable", "PortError", "unavailable", 8),
    ("Unreadable", "PortError", "unreadable", 8),
]

FACTS = [
    (memdb.DimensionMismatch(3, 4), {"expected": 3, "got": 4}),
    (memdb.TooLarge("x", 1, 2), {"limit": 1, "got": 2}),
    (memdb.SecretFound("text", ["jwt", "jwt"]), {"field": "text", "kinds": ["jwt"]}),
    (memdb.NotFound("entry", 7), {"kind": "entry", "ref": 7}),
    (memdb.AlreadyExists("file", "a"), {"kind": "file", "ref": "a"}),
    (
        memdb.VersionConflict("entry", 7, 1, 2),
        {"kind": "entry", "ref": 7, "expected": 1, "got": 2},
    ),
    (memdb.FileError("bad", "p"), {"path": "p"}),
    (memdb.SchemaTooNew("p", 9, 1), {"path": "p", "file_version": 9, "code_version": 1}),
    (memdb.MigrationFailed("p", 1, 2, "why"), {"path": "p", "from_version": 1, "to_version": 2}),
    (memdb.StorageError("bad", 11), {"sqlite_code": 11}),
    (memdb.PortError("e", "bad"), {"name": "e"}),
]

# What each primary code means to a user; names as in sqlite3.h.
EXPECTED = {
    "SQLITE_ERROR": memdb.Corrupt,
    "SQLITE_INTERNAL": memdb.StorageError,
    "SQLITE_PERM": memdb.IOFailed,
    "SQLITE_ABORT": memdb.Interrupted,
    "SQLITE_BUSY": memdb.Busy,
    "SQLITE_LOCKED": memdb.Busy,
    "SQLITE_NOMEM": memdb.StorageError,
    "SQLITE_READONLY": memdb.IOFailed,
    "SQLITE_INTERRUPT": memdb.Interrupted,
    "SQLITE_IOERR": memdb.IOFailed,
    "SQLITE_CORRUPT": memdb.Corrupt,
    "SQLITE_NOTFOUND": memdb.StorageError,
    "SQLITE_FULL": memdb.DiskFull,
    "SQLITE_CANTOPEN": memdb.IOFailed,
    "SQLITE_PROTOCOL": memdb.Busy,
    "SQLITE_EMPTY": memdb.StorageError,
    "SQLITE_SCHEMA": memdb.Busy,
    "SQLITE_TOOBIG": memdb.StorageError,
    "SQLITE_CONSTRAINT": memdb.Corrupt,
    "SQLITE_MISMATCH": memdb.StorageError,
    "SQLITE_MISUSE": memdb.StorageError,
    "SQLITE_NOLFS": memdb.IOFailed,
    "SQLITE_AUTH": memdb.StorageError,
    "SQLITE_FORMAT": memdb.Corrupt,
    "SQLITE_RANGE": memdb.StorageError,
    "SQLITE_NOTADB": memdb.Corrupt,
}


@pytest.mark.parametrize(
    ("name", "parent", "code", "exit_code"), TREE, ids=[row[0] for row in TREE]
)
def test_each_error_has_its_place_and_codes(
    name: str, parent: str, code: str, exit_code: int
) -> None:
    """Parent, code and exit code are promises to hosts and scripts."""
    kind = getattr(memdb, name)

    assert kind.__bases__[0].__name__ == parent
    assert (kind.code, kind.exit_code) == (code, exit_code)


def test_the_tree_above_is_complete() -> None:
    """No error class is missing in this file, and none in the module's drawing."""
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, memdb.MemDBError)
    }

    assert found == {row[0] for row in TREE}
    assert all(name in (errors.__doc__ or "") for name in found)


def test_codes_are_unique() -> None:
    """A code names one class."""
    assert len({row[2] for row in TREE}) == len(TREE)


@pytest.mark.parametrize(
    ("kind", "builtin"), [(memdb.InvalidInput, ValueError), (memdb.NotFound, LookupError)]
)
def test_python_users_may_catch_what_they_expect(kind: type, builtin: type) -> None:
    """Bad values are ValueErrors, absent things LookupErrors."""
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("name", [row[0] for row in TREE])
def test_only_waiting_helps_where_it_is_retryable(name: str) -> None:
    """Busy, Interrupted and Unavailable alone."""
    assert getattr(memdb, name).retryable is (name in ("Busy", "Interrupted", "Unavailable"))


@pytest.mark.parametrize(("error", "facts"), FACTS, ids=lambda value: type(value).__name__)
def test_facts_are_attributes(error: memdb.MemDBError, facts: dict[str, object]) -> None:
    """What the sentence says is there for programs too."""
    assert error.facts() == facts
    assert {name: getattr(error, name) for name in facts} == facts


def test_every_primary_code_of_sqlite_is_in_the_table() -> None:
    """Codes that say success are not."""
    primary = {
        code
        for name, code in apsw.mapping_result_codes.items()
        if isinstance(name, str)
        and name
        not in ("SQLITE_OK", "SQLITE_NOTICE", "SQLITE_WARNING", "SQLITE_ROW", "SQLITE_DONE")
    }

    assert set(SQLITE_ERRORS) == primary
    assert {apsw.mapping_result_codes[name] for name in EXPECTED} == primary


@pytest.mark.parametrize(("name", "kind"), EXPECTED.items(), ids=EXPECTED)
def test_each_primary_code_maps(name: str, kind: type[memdb.StorageError]) -> None:
    """The class fits, the code is kept, and the sentence says what to do."""
    code = apsw.mapping_result_codes[name]
    error = from_sqlite(code, "detail")

    assert type(error) is kind
    assert error.sqlite_code == code
    assert "detail" in str(error)
    assert ":" in str(error) or "report" in str(error)


@pytest.mark.parametrize(
    "name", sorted(name for name in apsw.mapping_extended_result_codes if isinstance(name, str))
)
def test_each_extended_code_maps_like_its_primary(name: str) -> None:
    """By its low byte; the whole code is kept."""
    code = apsw.mapping_extended_result_codes[name]
    error = from_sqlite(code, "detail")

    assert type(error) is SQLITE_ERRORS[code & 0xFF][0] if code & 0xFF in SQLITE_ERRORS else True
    assert error.sqlite_code == code


def test_an_unknown_code_is_still_a_storage_error() -> None:
    """A future SQLite may have more."""
    assert type(from_sqlite(250, "detail")) is memdb.StorageError


@pytest.mark.parametrize("error", [row[0] for row in FACTS], ids=lambda error: type(error).__name__)
def test_messages_are_one_line(error: memdb.MemDBError) -> None:
    """They go into logs and terminals as they are."""
    assert "\n" not in str(error)


def test_errors_can_cross_processes() -> None:
    """A worker's StorageError arrives as it was raised."""
    error = memdb.Busy("busy", 5)

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.sqlite_code) == (memdb.Busy, "busy", 5)


def test_a_code_without_a_sentence_has_none() -> None:
    """SQLite says "not an error" where it has nothing to say, as for a full disk."""
    assert str(from_sqlite(13, "not an error")).endswith("(SQLite 13)")
    assert str(from_sqlite(13, "disk I/O")).endswith("(SQLite 13: disk I/O)")


WRONG_CALLS = [  # statement, its values, the class, what the error names
    ("SELECT ?1, ?2", (1,), memdb.MemDBError, "bindings"),
    ("SELECT no_such_function(1)", {}, memdb.Corrupt, "memdb check"),
    ("SELECT 1 FROM no_such_table", {}, memdb.Corrupt, "memdb check"),
]


@pytest.mark.parametrize(("sql", "values", "kind", "names"), WRONG_CALLS)
def test_a_fault_of_memdb_is_not_called_damage(
    sql: str, values: Any, kind: type[memdb.MemDBError], names: str
) -> None:
    """A statement that does not fit never sends anybody to a backup; the report is asked for."""
    with memdb.open(":memory:", embedder=None) as db:
        reading = db._services.db.read()
        with reading as tx, pytest.raises(memdb.MemDBError, match=names) as raised:
            tx.all(sql, values)

    assert type(raised.value) is kind
    assert "please report it" in str(raised.value)
    assert "restore" not in str(raised.value)
