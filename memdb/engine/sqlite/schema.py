"""
File format: create a new file, recognise a memdb file, migrate an old one, compare its schema.

A new file is made from schema.sql alone. An older one is copied to `FILE.vN.bak`, then migrated
in one transaction (`memdb.engine.sqlite.migrate`). With mode="read" an in-memory copy of it is
migrated.

A file may come from an untrusted source. Its triggers and views never run, because they are
switched off on every connection (`connection.harden`); this module reports them.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING

import apsw

from memdb.engine import columns, compose
from memdb.engine.sqlite.connection import MEMORY, open_error, open_temporary
from memdb.engine.sqlite.mark import read_mark
from memdb.engine.sqlite.wal_file import has_bytes
from memdb.errors import NotAMemDB, SchemaTooNew, StorageError
from memdb.text.resources import read_text

if TYPE_CHECKING:
    from memdb.engine.base import Tx
    from memdb.engine.sqlite.base import SqliteFile

# What a new file is made from.

APPLICATION_ID = 0x6D656D64  # 'memd'
FORMAT = 1

# The result of `fingerprint_of` for schema.sql. Reading the script at each opening
# would take 1 ms; a test compares the two. Each format has one fingerprint, which a test keeps:
# another schema needs the next number and a migration.
FINGERPRINT = "6bcf444974deefc1b1378c06863cf5b988474c25bdf831025201945136483238"

SELECT_IDS = """/* schema.ids */
SELECT
  (SELECT application_id FROM pragma_application_id),
  (SELECT user_version FROM pragma_user_version),
  EXISTS (SELECT 1 FROM sqlite_schema)
"""

# Whether there is a table with facts of the file, and with their digests.
SELECT_META = """/* schema.meta */
SELECT 1 FROM pragma_table_info('meta') WHERE name = 'digest'
"""

SELECT_KEYS = compose.select("schema.keys", "key", "meta")

# `.dump` and `.clone` of the sqlite3 program copy every row and not these two numbers.
NO_IDS = (0, 0, 1)
WITHOUT_IDS = -1
SET_IDS = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

SELECT_FINGERPRINT = """/* schema.fingerprint */
SELECT value FROM meta WHERE key = 'fingerprint'
"""

UPDATE_FINGERPRINT = compose.insert(
    "schema.set_fingerprint",
    "meta",
    key="'fingerprint'",
    value=":fingerprint",
    otherwise=compose.conflict("key", "value"),
)

INSERT_META = compose.insert("schema.insert_meta", "meta")


def prepare(db: SqliteFile) -> int:
    """
    Create the file of *db* if necessary, and return its format; refuse one that is not memdb's.

    A current file is only read, so many processes can open it while another one writes. A file is
    created under the write lock, where its ids are read again.

    Raises:
        NotAMemDB: the file is another program's database, not a database, or made by a development
            version with another schema.
        SchemaTooNew: the file was written by a newer memdb.
    """
    if not db.is_read_only and (db.path == MEMORY or not has_bytes(db.path)):
        _create(db)
        return FORMAT
    version = _stored_version(db)
    if version == WITHOUT_IDS:
        if not db.is_read_only:
            _set_ids(db)
        return FORMAT
    if version == 0:
        db.refuse_read_only()
        _create(db)
        return FORMAT
    return version


def _set_ids(db: SqliteFile) -> None:
    with db.write() as tx:
        for sql in SET_IDS:
            tx.run(sql)
        tx.words.rebuild()  # `.clone` fills full text from its rows and its leaves at once


def _stored_version(db: SqliteFile) -> int:
    """
    Return the format of the file, 0 for an empty one; note if its WAL is missing.

    WITHOUT_IDS: by its fingerprint it is a file of this format, but its two ids are lost.
    """
    try:
        with db.read() as tx:
            ids = tx.one(SELECT_IDS)
            is_without_ids = ids == NO_IDS and _fingerprint(tx) == FINGERPRINT
            version = WITHOUT_IDS if is_without_ids else _version(ids, db.path)
            if version == FORMAT:
                _refuse_other_schema(tx, db.path)
            is_marked = version != 0 and read_mark(tx).is_set
    except StorageError as error:
        if isinstance(error.__cause__, apsw.Error):
            raise open_error(error.__cause__, db.path, db.key) from error
        raise
    if is_marked and not has_bytes(f"{db.path}-wal"):
        db.pool.set_wal_aside()
    return version


def stored_version(tx: Tx, path: str) -> int:
    """Return the format of the file of *tx*, 0 for an empty one; refuse foreign and newer ones."""
    return _version(tx.one(SELECT_IDS), path)


def _version(ids: tuple[int, int, int] | None, path: str) -> int:
    """Return the format, 0 for an empty database; refuse foreign and newer files."""
    application_id, version, has_tables = ids or (0, 0, 0)
    if not has_tables and application_id == 0 and version == 0:
        return 0
    if application_id != APPLICATION_ID:
        raise NotAMemDB(
            f"{path} is another program's database: give the path of a memdb file, or of a new one",
            path,
        )
    if version < 1:
        raise NotAMemDB(
            f"{path} has the file format {version}, which never existed: restore a backup (`memdb "
            f"restore BACKUP {path}`), or save what can be read (`memdb recover {path} NEW`)",
            path,
        )
    if version > FORMAT:
        raise SchemaTooNew(path, version, FORMAT)
    return version


def _refuse_other_schema(tx: Tx, path: str) -> None:
    """
    Refuse a file of the current format number with another schema.

    Raises:
        NotAMemDB: the file has another fingerprint or none.
        Corrupt: the reason is a damaged row.
    """
    if _fingerprint(tx) != FINGERPRINT:
        raise NotAMemDB(
            f"{path} was made by a development version of memdb with another file format. It is "
            "unchanged. Export it with that version (memdb export) and import it into a new file, "
            "or give the path of a new file",
            path,
        )


def _fingerprint(tx: Tx) -> str | None:
    """
    Return the fingerprint that the file stores, None if it has none.

    Corrupt if a row is damaged.
    """
    if tx.one(SELECT_META) is None:
        return None
    row = tx.one(SELECT_FINGERPRINT)
    if row != (FINGERPRINT,):
        tx.verify("meta", [key for (key,) in tx.all(SELECT_KEYS)])
    return None if row is None else str(row[0])


def fingerprint_of(script: str) -> str:
    """Return the SHA-256 of a script without comments and blanks, as 64 hexadecimal digits."""
    return hashlib.sha256(_without_blanks(script).encode()).hexdigest()


def normalized(script: str) -> str:
    """
    Return a script without comments, quotes of names, and insignificant white space.

    Two scripts of the same statements give the same text, also if ALTER TABLE added a column to one
    of them. The same is true after a rename, for which SQLite puts the new name in quotes.
    """
    return re.sub(r'"(\w+)"', r"\1", _without_blanks(script))


def _without_blanks(script: str) -> str:
    words = " ".join(re.sub(r"--[^\n]*", "", script).split())
    return re.sub(r" ?([(),;]) ?", r"\1", words)


def _create(db: SqliteFile) -> None:
    with db.write() as tx:
        if stored_version(tx, db.path):
            return  # another process was faster
        _run_script(tx.raw, read_schema())
        facts = {
            "created_by": "memdb",
            "created_ms": str(tx.now_ms),
            "file_uid": db.ids(tx.now_ms),
            "fingerprint": FINGERPRINT,
        }
        tx.many(INSERT_META, [{"key": key, "value": value} for key, value in facts.items()])
        db.pool.wal_guard.begin(tx)  # the mark names the WAL from the first commit on


def _run_script(connection: apsw.Connection, script: str) -> None:
    try:
        for _ in connection.execute(script):
            pass  # apsw runs a script only as far as its rows are read
    except apsw.Error as error:
        raise open_error(error, connection.filename) from error


def read_schema(number: int | None = None) -> str:
    """Return schema.sql, or the stored script of an earlier format *number*."""
    if number in (None, FORMAT):
        return columns.read_schema()
    return read_text(__file__, f"migrations/{number:04d}.sql")


MAX_FINDINGS = 20

SELECT_OBJECTS = """/* schema.objects */
SELECT type, name, coalesce(sql, '') FROM sqlite_schema
WHERE name NOT LIKE 'sqlite#_%' ESCAPE '#'
ORDER BY name
"""

# A name can belong to one thing only, so what has one of memdb's
# names is compared, and what hangs on one of its tables too.
SELECT_ATTACHED_TO = """/* schema.attached_to */
SELECT type, name, lower(tbl_name) FROM sqlite_schema
WHERE type IN ('trigger', 'index') AND sql IS NOT NULL
ORDER BY name
"""


def find_schema_differences(tx: Tx) -> list[str]:
    """
    Return the differences from schema.sql in memdb's tables, indexes and views; 20 at most.

    A foreign trigger or index on one of its tables is also a difference. Cost: 1 ms.
    """
    expected = expected_objects()
    stored = {name: (kind, sql) for kind, name, sql in tx.all(SELECT_OBJECTS)}
    by_lower_case = {name.lower(): name for name in stored}
    found = []
    for name, (kind, sql) in expected.items():
        actual = stored.get(by_lower_case.get(name, ""))
        if actual is None:
            found.append(f"{kind} {name} is missing")
        elif actual[0] != kind or not _is_same(actual[1], sql):
            found.append(f"{actual[0]} {name} is not the {kind} of schema.sql")
    for kind, name, table in tx.all(SELECT_ATTACHED_TO):
        if table in expected and name.lower() not in expected:
            found.append(f"{kind} {name} on {table} is not memdb's")
    return found[:MAX_FINDINGS]


def _is_same(stored: str, expected: str) -> bool:
    # Normalizing costs 0.1 ms per object, and only ALTER TABLE makes it necessary.
    return stored == expected or normalized(stored) == normalized(expected)


def list_other_tables(tx: Tx) -> tuple[str, ...]:
    """Return the names of tables and views of other programs, which memdb leaves alone."""
    expected = expected_objects()
    return tuple(
        name
        for kind, name, _ in tx.all(SELECT_OBJECTS)
        if kind in ("table", "view") and name.lower() not in expected
    )


def expected_objects() -> dict[str, tuple[str, str]]:
    """Return type and text of each object of schema.sql, by its name in lower case."""
    return _objects_of(read_schema())


@cache
def _objects_of(script: str) -> dict[str, tuple[str, str]]:
    temporary = open_temporary()
    try:
        temporary.all(script)
        rows = temporary.all(SELECT_OBJECTS)
    finally:
        temporary.close()
    return {str(name).lower(): (str(kind), str(sql)) for kind, name, sql in rows}
