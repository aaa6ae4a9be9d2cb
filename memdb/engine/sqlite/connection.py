"""
Connections and transactions: configure a SQLite file (ADR-0002), run statements, translate errors.

Each pragma has a comment with its reason. `translate` makes a memdb error of one of the driver.
"""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import contextmanager
from itertools import count
from operator import itemgetter
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

import apsw

from memdb.engine import compose
from memdb.engine.base import Asking
from memdb.engine.sqlite import cipher
from memdb.engine.sqlite.digests import find_damaged, register_functions, verify_rows
from memdb.engine.sqlite.vectors import SqliteVectors, load_vector_functions
from memdb.engine.sqlite.wal_file import LARGE_WAL_BYTES
from memdb.engine.sqlite.words import SqliteWords
from memdb.errors import (
    Closed,
    FileError,
    IOFailed,
    MemDBError,
    ReadOnly,
    StorageError,
    from_sqlite,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from memdb.engine.base import Key, KnownKey, Row, Values
    from memdb.models.keys import FileKey


MEMORY = ":memory:"

# The system's errors that say, as a full disk does, that a file may not grow: a quota, a limit.
NO_ROOM = (errno.EDQUOT, errno.EFBIG)

# The WAL of a connection that has not begun a transaction yet.
NO_WAL_YET = (0, 0)

# Longest sleep between two tries for a lock. Random short sleeps kept the longest
# wait of 8 writers at 92 ms; SQLite's own back-off let one starve
# for 1.5 s. Source: ADR-0002.
BUSY_SLEEP_S = 0.0004

# Errors after which a connection is as good as before: SQLite refused a statement or waited
# for another process. After any other it may have rolled back by itself.
HARMLESS = frozenset(
    (apsw.SQLITE_ERROR, apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED, apsw.SQLITE_CONSTRAINT)
)

# The file, its WAL and -shm, and a folder that is synced.
FILES_PER_CONNECTION = 4

# Of SQLite, of text that is not UTF-8, and of a stored number that grew beyond 64 bits:
# what callers give was checked before.
DRIVER_ERRORS = (apsw.Error, UnicodeDecodeError, OverflowError)

# Rows whose digest a connection remembers to have compared, per table: 8 MB.
MAX_VERIFIED = 100_000

# Prepared statements that a connection keeps. One that reads and writes uses 150; with apsw's 100
# a recall took 1.2 times as long.
STATEMENTS = 200

# Answers that a connection keeps of what it asked: 2 MB.
MAX_KNOWN = 10_000

# A row holds up to 64 MB of text, the JSON of its parts and its bigrams.
MAX_ROW_BYTES = 512 << 20

LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: MAX_ROW_BYTES,
    apsw.SQLITE_LIMIT_ATTACHED: 1,  # VACUUM attaches one
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 16,  # ON DELETE CASCADE counts as one
}

# Free pages can leave the file in steps (ADR-0044). Holds for a file without any page yet, and
# from the next VACUUM on.
SET_AUTO_VACUUM = """/* connection.set_auto_vacuum */
PRAGMA auto_vacuum = INCREMENTAL
"""

# Of a file that is one of many: an empty one takes 200 KB, not 364, since each table and index has
# a page at least.
SET_SMALL_PAGES = """/* connection.set_small_pages */
PRAGMA page_size = 2048
"""
SET_WAL_MODE = """/* connection.set_wal_mode */
PRAGMA journal_mode = WAL
"""

# Bytes 18 and 19 of a database: one in memory that came from a file may say WAL, which SQLite
# does not open there. Source: sqlite.org/fileformat.html#file_format_version_numbers
JOURNAL_MODE = slice(18, 20)
NO_WAL = b"\1\1"

# Of a connection for one task, whose COMMIT waits for the disk. A `Writer` sets NORMAL instead:
# its block waits, when others may write.
SYNCHRONOUS = {"power": "FULL", "process": "NORMAL"}


class BusyHandler:
    """
    A busy handler that sleeps for random times until its time is over.

    Attributes:
        timeout_ms: How long it waits for a lock.
    """

    __slots__ = ("_spread", "_started", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        """Wait up to *timeout_ms*."""
        self.timeout_ms = timeout_ms
        self._started = 0.0
        # It only has to differ between processes.
        self._spread = os.getpid() % 97 / 97

    def __call__(self, tries: int) -> bool:
        """Sleep; return False to give up. SQLite passes the number of earlier calls."""
        now = time.monotonic()
        if tries == 0:
            self._started = now
        if (now - self._started) * 1000 >= self.timeout_ms:
            return False
        self._spread = (self._spread * 61.7 + now * 997) % 1.0
        time.sleep(BUSY_SLEEP_S * self._spread)
        return True


def connect(
    path: str,
    *,
    durability: str,
    timeout_ms: int,
    writable: bool,
    create: bool = False,
    immutable: bool = False,
    key: FileKey | None = None,
) -> apsw.Connection:
    """
    Open *path* and apply the connection policy.

    Args:
        path: A file, or `:memory:`.
        durability: "power" or "process", a key of `SYNCHRONOUS`.
        timeout_ms: How long to wait for a lock of another process.
        writable: False gives a connection that refuses every write.
        create: Create the file if it is absent.
        immutable: Read a file that nobody can write, without locks and without the -shm file that
            WAL mode otherwise needs.
        key: Key of an encrypted file; a new file is encrypted with it.

    Raises:
        FileError, ReadOnly: the file cannot be opened.
        KeyMissing, WrongKey, CipherMissing: the file is encrypted and cannot be opened, or is not
            encrypted.
        NotAMemDB: *path* is not a SQLite database.
    """
    if key is not None:
        cipher.require_cipher(path)
    # URI for what a copy is encrypted with; *path* is absolute, so it is none.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    if create:
        flags |= apsw.SQLITE_OPEN_CREATE
    name = path
    if immutable:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        name = cipher.as_uri(path, "immutable=1")
    if create and path != MEMORY:
        create_private(path)
    try:
        connection = apsw.Connection(name, flags=flags, statementcachesize=STATEMENTS)
    except apsw.Error as error:
        raise open_error(error, path, key) from error
    try:
        if key is not None:
            cipher.unlock(connection, key)
        if create:
            _retry_busy(lambda: _begin_file(connection, path), timeout_ms)
        _apply(connection, durability, timeout_ms, writable=writable)
    except apsw.Error as error:
        connection.close()
        raise open_error(error, path, key) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _begin_file(connection: apsw.Connection, path: str) -> None:
    """Set the properties of a new file, unless another process has written its first page."""
    # Else it asks for the lock of writers, which a migration holds while it opens another one.
    if path == MEMORY or os.stat(path).st_size == 0:
        connection.execute(SET_AUTO_VACUUM).fetchall()


def begin_small_file(path: str) -> None:
    """
    Make an empty plain file at *path* with small pages, which `SqliteEngine` then fills.

    Raises:
        FileError, ReadOnly: the file cannot be made.
    """
    create_private(path)
    try:
        connection = apsw.Connection(path)
        try:
            for sql in (SET_SMALL_PAGES, SET_AUTO_VACUUM, SET_WAL_MODE):
                connection.execute(sql).fetchall()
        finally:
            connection.close()
    except apsw.Error as error:
        raise open_error(error, path) from error


def open_temporary(name: str = MEMORY) -> Tx:
    """
    Return a connection to a new temporary database, which the caller must close.

    Args:
        name: `MEMORY`, or "" for a database that may outgrow memory into a file.
    """
    with translated_errors():
        return Tx(apsw.Connection(name))


def load_image(target: apsw.Connection, source: Tx) -> None:
    """Copy everything that *source* sees into the database in memory *target*, without a key."""
    with translated_errors():
        image = bytearray(source.raw.serialize("main"))
        image[JOURNAL_MODE] = NO_WAL
        target.deserialize("main", image)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise errors of the driver inside a block as errors of memdb."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error) from error


def create_private(path: str) -> None:
    """
    Make an empty file that only its owner can read, unless it exists.

    SQLite gives the -wal and -shm files the mode of the file. If it cannot be made, SQLite raises
    the error.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return


def _apply(
    connection: apsw.Connection, durability: str, timeout_ms: int, *, writable: bool
) -> None:
    if writable:
        _refuse_fallback(connection)
    connection.set_busy_handler(BusyHandler(timeout_ms))
    harden(connection)
    register_functions(connection)
    # One plan per statement, whatever is bound. Otherwise SQLite 3.47 and later
    # prepares a statement again each time its `LIMIT :limit` is bound: 10 µs.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # The WAL stays with a file that is marked as in use; see `wal_guard`.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    run = connection.execute
    # SQLite enforces them only where a connection asks for it.
    run("PRAGMA foreign_keys = ON")
    # A mapped file that another program truncates kills the process by SIGBUS.
    run("PRAGMA mmap_size = 0").fetchall()
    if writable:
        _let_write(connection, durability, timeout_ms)
    else:
        set_query_only(connection, is_on=True)


def set_query_only(connection: apsw.Connection, *, is_on: bool) -> None:
    """Refuse writes on a connection, as a second line of defence, or allow them."""
    connection.execute(f"PRAGMA query_only = {is_on:d}")


def keep_few_pages(connection: apsw.Connection) -> None:
    """Keep 64 KB of pages in memory instead of 2 MB; the system's cache has the others."""
    connection.execute("PRAGMA cache_size = -64").fetchall()


def let_write(
    connection: apsw.Connection, *, durability: str, timeout_ms: int, key: FileKey | None, **_: Any
) -> None:
    """Make a writing connection of a reading one, which has already read the schema."""
    try:
        _refuse_fallback(connection)
        set_query_only(connection, is_on=False)
        _let_write(connection, durability, timeout_ms)
    except apsw.Error as error:
        raise open_error(error, connection.filename, key) from error


def _refuse_fallback(connection: apsw.Connection) -> None:
    if connection.readonly("main"):
        # SQLite falls back to reading, also if the only reason is too many open files.
        raise cannot_open(connection.filename, "it cannot be written")


def _let_write(connection: apsw.Connection, durability: str, timeout_ms: int) -> None:
    run = connection.execute
    if connection.filename:
        # Readers and one writer at the same time; the file stays in this mode.
        _retry_busy(lambda: run(SET_WAL_MODE).fetchall(), timeout_ms)
    # Deleted bytes become zeros at once, also where a page is split: ADR-0018.
    run("PRAGMA secure_delete = ON").fetchall()
    # FULL syncs each commit, NORMAL only a checkpoint.
    run(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    # macOS: fsync leaves data in the drive's cache, F_FULLFSYNC does not. A no-op elsewhere.
    run(f"PRAGMA fullfsync = {durability == 'power':d}").fetchall()
    run(f"PRAGMA checkpoint_fullfsync = {durability == 'power':d}").fetchall()
    # A WAL that was once larger is cut to this after a checkpoint.
    run(f"PRAGMA journal_size_limit = {LARGE_WAL_BYTES}").fetchall()


def harden(connection: apsw.Connection) -> None:
    """
    Switch off everything that a hostile schema could run, and set SQLite's limits.

    Cost: 10 µs.
    """
    # No function with side effects inside of a schema.
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # SQL can edit neither the schema text nor FTS5's own tables.
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # memdb has no triggers, and its views are for people.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    # A misspelt column in double quotes is an error, not a text.
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    for limit, most in LIMITS.items():
        connection.limit(limit, most)


def _retry_busy(action: Callable[[], object], timeout_ms: int) -> None:
    """
    Repeat *action* while the file is busy, at most *timeout_ms*.

    The function is only for switching a new file to WAL, where SQLite does not call the busy
    handler. Many processes may open a new file at the same time.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            action()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(BUSY_SLEEP_S)
        else:
            return


def open_error(
    error: apsw.Error, path: str, key: FileKey | None = None
) -> FileError | StorageError:
    """Return the error to raise if *path* could not be opened."""
    code = getattr(error, "extendedresult", apsw.SQLITE_MISUSE)
    primary = code & 0xFF
    if primary == apsw.SQLITE_NOTADB:
        return cipher.unreadable(path, key)
    if primary not in (apsw.SQLITE_CANTOPEN, apsw.SQLITE_READONLY, apsw.SQLITE_PERM):
        return from_sqlite(code, str(error))
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return FileError(f"{path} is a folder: give the path of a file in it", path)
    if not _may_be_folder(folder):
        return FileError(f"{folder} does not exist: create the folder first", path)
    return cannot_open(
        path,
        "its folder must be writable, also to read a file in WAL "
        "mode. Check the permissions, or copy the file to a folder of your own",
    )


def _may_be_folder(path: str) -> bool:
    """Return False if there is no folder at *path*; an unreachable path may be one."""
    try:
        return S_ISDIR(os.stat(path).st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


def cannot_open(path: str, reason: str) -> ReadOnly | IOFailed:
    """Return the error for a file that cannot be opened; *reason* if other files can be."""
    handles = []
    try:
        for _ in range(FILES_PER_CONNECTION):
            # Never the file itself: closing it would drop SQLite's locks.
            handles.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 (kept if one fails)
    except OSError as error:
        return IOFailed(
            f"{path} cannot be opened ({error.strerror}): close some files, or raise the limit "
            "(ulimit -n), and try again",
            apsw.SQLITE_CANTOPEN,
        )
    finally:
        for handle in handles:
            os.close(handle)
    return ReadOnly(f"{path} cannot be opened: {reason}", path)


# Connections begin with the same version, so `Tx.data_version` adds their number.
DATA_VERSION = """/* connection.data_version */
PRAGMA data_version
"""

SELECT_BROKEN_KEYS = """/* connection.broken_keys */
SELECT "table" || ' row ' || coalesce(rowid, '?') || ' points to a missing ' || parent
FROM pragma_foreign_key_check
ORDER BY "table", rowid, parent
LIMIT 20
"""


def parameters_of(sql: str) -> list[str]:
    """Return the names of the parameters of a statement of memdb, in SQLite's order."""
    behind = sql.replace(",", " ").replace(")", " ").split(":")[1:]
    names = (part.split(None, 1)[0] for part in behind)
    return [*dict.fromkeys(filter(str.isidentifier, names))]  # a text may hold a colon too


_numbers = count(1)


class Tx(Asking):
    """
    A transaction: runs statements, all with the same time.

    A statement takes a list of ids or texts as `IN (SELECT value FROM
    json_each(:ids))`; callers pass a Python list (or tuple, or set).

    Attributes:
        now_ms: The time of everything written in it, UTC milliseconds.
        raw: The connection of apsw, for scripts and backups.
        kept: Cache of this connection; keys are the SHA-256 of the source of a value.
        written_by: The program, adapter or client that writes; None means that it is unknown.
        is_alone: Whether it is known that no other connection has written since its last commit.
        version: The state of the file as of its last commit; every commit changes it.
        used_words: The full-text indexes, None before their first use.
        is_broken: Whether a storage error happened; the connection is not used again.
        number: Number of the connection, different from any other of this process.
        wal: Device and inode of the WAL that the connection has open.
    """

    __slots__ = (
        "_execute",
        "_has_vectors",
        "_known",
        "_known_at",
        "_lost",
        "_open",
        "_vectors",
        "_verified",
        "is_alone",
        "is_broken",
        "kept",
        "now_ms",
        "number",
        "raw",
        "used_words",
        "version",
        "wal",
        "written_by",
    )

    def __init__(self, connection: apsw.Connection) -> None:
        """Run statements on *connection*."""
        self.raw = connection
        self._execute = connection.execute
        connection.convert_binding = _encode_list
        self._has_vectors = False
        self.used_words: SqliteWords | None = None
        self._vectors: SqliteVectors | None = None
        self._open = False
        self._lost: MemDBError | None = None
        self._verified: dict[str, set[Key]] = {}
        self._known: dict[KnownKey, int] = {}
        self._known_at = 0  # changes of this connection when they held
        self.now_ms = 0
        self.written_by: str | None = None
        self.kept: dict[bytes, Any] = {}
        self.is_broken = self.is_alone = False
        self.number, self.version = next(_numbers), -1
        self.wal: tuple[int, ...] | None = NO_WAL_YET

    def all(self, sql: str, values: Values | None = None) -> list[Row]:
        """Return every row of a query."""
        if self._lost is not None:
            raise self._lost
        try:
            return self._execute(sql, values).fetchall()
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error

    def one(self, sql: str, values: Values | None = None) -> Row | None:
        """Return the first row of a query, None if there is none."""
        if self._lost is not None:
            raise self._lost
        try:
            return self._execute(sql, values).fetchone()
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error

    def run(self, sql: str, values: Values | None = None) -> None:
        """Run a statement."""
        if self._lost is not None:
            raise self._lost
        try:
            self._execute(sql, values).fetchall()
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error

    def count_changed(self, sql: str, values: Values | None = None) -> int:
        """Run a statement and return how many rows it changed."""
        self.run(sql, values)
        return self.raw.changes()

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*."""
        names = parameters_of(sql)
        # apsw looks each name up in each row, which takes 1.3 µs of 8 for a message.
        self._run_many(sql, map(itemgetter(*names), rows) if names[1:] else rows)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """See `memdb.engine.base.Tx`; *table* and *columns* are names of schema.sql."""
        self._run_many(compose.insert("connection.load", table, ", ".join(columns)), rows)

    def _run_many(self, sql: str, rows: Iterable[Any]) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            self.raw.executemany(sql, rows)
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error

    @property
    def words(self) -> SqliteWords:
        """The full-text indexes."""
        if self.used_words is None:
            self.used_words = SqliteWords(self, self._committed_state, lambda: self._open)
        return self.used_words

    @property
    def vectors(self) -> SqliteVectors:
        """The stored vectors."""
        if self._vectors is None:
            self._vectors = SqliteVectors(self, self.use_vectors, self.state)
        return self._vectors

    def verify(self, table: str, ids: Collection[Key]) -> None:
        """See `memdb.engine.base.Tx`."""
        verified = self._verified.setdefault(table, set())
        if not verified.issuperset(ids):
            verify_rows(self, table, ids)
            if len(verified) > MAX_VERIFIED:
                verified.clear()
            verified.update(ids)

    def known(self) -> dict[KnownKey, int]:
        """See `memdb.engine.base.Tx`."""
        if self.raw.total_changes() != self._known_at or len(self._known) > MAX_KNOWN:
            self._known.clear()
        return self._known

    def expect(self, sql: str, values: Values | None = None) -> None:
        """Do nothing, because a file needs no round trip."""

    def keep_known(self) -> None:
        """See `memdb.engine.base.Tx`."""
        self._known_at = self.raw.total_changes()

    def begin(self) -> None:
        """Take the write lock, waiting for other writers."""
        try:
            self._execute("BEGIN IMMEDIATE")
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error
        self._open = True

    def commit(self) -> None:
        """Commit the transaction; on an error it is still open, unless SQLite rolled it back."""
        if self._lost is not None:
            raise self._lost
        if self.used_words is not None and self.used_words.is_stale:
            self.used_words.finish()
        try:
            self._execute("COMMIT")
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error
        self._open = False

    def begin_read(self) -> None:
        """Begin a snapshot at the next statement."""
        try:
            self._execute("BEGIN")
        except apsw.Error as error:
            raise self._failed(error) from error

    def end_read(self) -> None:
        """End the snapshot; the connection is broken if that fails."""
        try:
            self._execute("ROLLBACK")
        except apsw.Error:
            self.is_broken = True

    def _failed(self, error: apsw.Error | UnicodeDecodeError | OverflowError) -> MemDBError:
        """
        Return the memdb error for *error*.

        A full disk may have ended the whole transaction. A later statement would be committed
        alone, so each one raises the same error until the end of the transaction.
        """
        found = translate(error)
        self._known.clear()
        if getattr(error, "extendedresult", 0) & 0xFF not in HARMLESS:
            self.is_broken = True
        if isinstance(found, IOFailed) and self.raw.system_errno in NO_ROOM:
            found = from_sqlite(apsw.SQLITE_FULL, str(error))
        if self._open and not self.in_transaction:
            self._lost = found
        return found

    def lose(self, error: MemDBError) -> None:
        """Roll back the whole transaction; until its end each statement raises *error*."""
        self.roll_back()
        self._lost = error

    def roll_back(self) -> None:
        """End a transaction and roll back what is open; if that fails, the connection is broken."""
        try:
            if self.raw.in_transaction:
                self._known.clear()
                self.raw.execute("ROLLBACK")
                if self.used_words is not None:
                    self.used_words.is_stale = False
        except apsw.Error:
            self.is_broken = True
        self._open = False
        self._lost = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; False for a closed connection."""
        try:
            return self.raw.in_transaction
        except apsw.ConnectionClosedError:
            self.is_broken = True
            return False

    def data_version(self) -> int:
        """Return a number that changes with every commit by another connection. Cost: 4 µs."""
        row = self.one(DATA_VERSION)
        return (self.number << 32) + (0 if row is None else int(row[0]))

    def state(self) -> tuple[int, int]:
        """Return the state of the file, which every change changes, own ones too. Cost: 4 µs."""
        return self.data_version(), self.raw.total_changes()

    def _committed_state(self) -> tuple[int, int] | None:
        """Return `state`; None inside a write, where it would not show a rollback."""
        return None if self._open else self.state()

    def find_damaged_rows(self, *, deep: bool) -> Iterator[str]:
        """See `memdb.engine.base.Tx`."""
        return find_damaged(self, deep=deep)

    def find_broken_keys(self) -> list[str]:
        """Return rows whose foreign key has no parent, 20 at most."""
        return [row[0] for row in self.all(SELECT_BROKEN_KEYS)]

    def use_vectors(self) -> None:
        """Make sqlite-vec's functions available to this transaction's statements."""
        if not self._has_vectors:
            load_vector_functions(self.raw)
            self._has_vectors = True

    def close(self) -> None:
        """
        Close the connection; if another thread reads with it, that thread closes it.

        A checkpoint that fails here loses nothing, because committed rows are in the WAL.
        """
        try:
            self.raw.close()
        except apsw.Error:
            return


def _encode_list(_cursor: object, _number: int, values: Iterable[Key]) -> str:
    """Return the keys bound to a list parameter as the JSON array that SQLite reads."""
    items = list(values)
    if items and not isinstance(items[0], int):
        return json.dumps(items)
    return f"[{','.join(map(str, items))}]"


def translate(error: apsw.Error | UnicodeDecodeError | OverflowError) -> MemDBError:
    """Return the memdb error for one of `DRIVER_ERRORS`."""
    if not isinstance(error, apsw.Error):
        return from_sqlite(apsw.SQLITE_CORRUPT, str(error))
    if isinstance(error, apsw.ConnectionClosedError):
        return Closed("the file was closed meanwhile: open it again with memdb.open()")
    if not hasattr(error, "extendedresult"):  # of apsw, before SQLite saw the statement
        return MemDBError(f"memdb used SQLite wrongly: {error}; please report it")
    return from_sqlite(error.extendedresult, str(error))
