"""
Transactions: run statements on a connection, and translate the driver's errors.
"""

from __future__ import annotations

import apsw

from memdb.engine.sqlite.connection import load_vector_functions
from memdb.errors import Closed, MemDBError, from_sqlite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from memdb.engine.base import Row, Values
    from memdb.engine.sqlite.vectors import SqliteVectors
    from memdb.engine.sqlite.words import SqliteWords


class Tx:
    """
    A transaction: runs statements, all under one fixed time.

    A statement takes a list of ids or texts as `IN (SELECT value FROM
    json_each(:ids))`; callers pass a Python list (or tuple, or set).

    Attributes:
        now_ms: The time of everything written in it.
        kept: What readers keep for the next transaction of this connection, by
            the hash of what it was made from.
    """

    __slots__ = ("_connection", "_execute", "_has_vectors", "_lost", "_open", "kept", "now_ms")

    def __init__(self, connection: apsw.Connection) -> None:
        """Run statements on *connection*."""
        self._connection = connection
        self._execute = connection.execute
        connection.convert_binding = _encode_list
        self._has_vectors = False
        self._open = False
        self._lost: MemDBError | None = None
        self.now_ms = 0
        self.kept: dict[bytes, Any] = {}

    def all(self, sql: str, values: Values | None = None) -> list[Row]:
        """Return every row of a query."""
        if self._lost is not None:
            raise self._lost
        try:
            return self._execute(sql, values).fetchall()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._failed(error) from error

    def one(self, sql: str, values: Values | None = None) -> Row | None:
        """Return the first row of a query, None without one."""
        if self._lost is not None:
            raise self._lost
        try:
            return self._execute(sql, values).fetchone()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._failed(error) from error

    def run(self, sql: str, values: Values | None = None) -> int:
        """Run a statement that returns nothing; the answer is how many rows it changed."""
        if self._lost is not None:
            raise self._lost
        try:
            self._execute(sql, values).fetchall()
        except apsw.Error as error:
            raise self._failed(error) from error
        return self._connection.changes()

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*."""
        if self._lost is not None:
            raise self._lost
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as error:
            raise self._failed(error) from error

    @property
    def words(self) -> SqliteWords:
        """The full-text indexes; loaded at their first use."""
        from memdb.engine.sqlite.words import SqliteWords

        return SqliteWords(self)

    @property
    def vectors(self) -> SqliteVectors:
        """The stored vectors; loaded at their first use."""
        from memdb.engine.sqlite.vectors import SqliteVectors

        return SqliteVectors(self)

    def begin(self) -> None:
        """Take the write lock, waiting for other writers."""
        self.run("BEGIN IMMEDIATE")
        self._open = True

    def end(self) -> None:
        """Note that the outermost transaction is over."""
        self._open = False
        self._lost = None

    def _failed(self, error: apsw.Error | UnicodeDecodeError) -> MemDBError:
        """
        Return what to raise for *error*.

        A full disk may have ended the whole transaction. Whatever comes after
        it would be stored alone, so from then on the same error is raised
        until the transaction is left.
        """
        found = translate(error)
        if self._open and not self._connection.in_transaction:
            self._lost = found
        return found

    @property
    def raw(self) -> apsw.Connection:
        """The connection itself, for what no statement can do: scripts and backups."""
        return self._connection

    def find_broken_keys(self) -> list[str]:
        """Return rows that refer to a row that is not there, 20 at most."""
        from memdb.engine.sqlite.check import find_broken_keys  # rarely needed

        return find_broken_keys(self)

    def overwrite_deleted(self, *, on: bool) -> None:
        """Let what this transaction deletes be overwritten at once, or as usual again."""
        from memdb.engine.sqlite.proof import begin_purge, end_purge  # rarely needed

        (begin_purge if on else end_purge)(self)

    def use_vectors(self) -> None:
        """Make sqlite-vec's functions usable in this transaction's statements."""
        if not self._has_vectors:
            load_vector_functions(self._connection)
            self._has_vectors = True

    def close(self) -> None:
        """Close the connection under it; where another thread reads, that one does it."""
        try:
            self._connection.close()
        except apsw.ThreadingViolationError:
            return


def _encode_list(_cursor: object, _number: int, values: Iterable[int | str]) -> str:
    """Return the ids or texts bound to a list parameter as the JSON array that SQLite reads."""
    items = list(values)
    if items and isinstance(items[0], str):
        from json import dumps  # rarely needed

        return dumps(items)
    return f"[{','.join(map(str, items))}]"


def translate(error: apsw.Error | UnicodeDecodeError) -> MemDBError:
    """Return the memdb error for an error of the driver, or for a text that is none."""
    if isinstance(error, UnicodeDecodeError):
        return from_sqlite(apsw.SQLITE_CORRUPT, str(error))
    if isinstance(error, apsw.ConnectionClosedError):
        return Closed("the file was closed meanwhile: open it again with memdb.open()")
    return from_sqlite(getattr(error, "extendedresult", 1), str(error))
