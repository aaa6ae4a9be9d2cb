"""
A user's SELECT, on a reading connection of its own, limited in time and rows.

A database in memory is copied for it, because replaced SQLite functions stay on their connection.

An authorizer refuses everything else, in whatever way it is written. Views are enabled only if all
of memdb's objects are those of schema.sql.

SQLite looks for an interrupt between rows, not inside a function. So no function call may take
long. The values that a statement makes are limited in size. Functions whose time grows with the
square of their input are replaced by Python's. Full-text search is left to `recall`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

import apsw

from memdb.engine.sqlite.connection import open_temporary, translate
from memdb.engine.sqlite.schema import expected_objects, find_schema_differences
from memdb.errors import Interrupted, InvalidInput, MemDBError
from memdb.text.validate import check_query_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from sqlite3 import Connection

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx

    class Interruptible(Protocol):
        """A connection of apsw or sqlite3."""

        def interrupt(self) -> None:
            """Interrupt the running statement, from any thread."""

        def set_progress_handler(self, callable: Any, n: int, /) -> None:  # noqa: A002 (apsw's name)
            """Call a function every *n* steps; the statement ends if it returns true."""


# Between two interrupts, if SQLite was just beginning a statement at the first.
AGAIN_S = 0.05

ALLOWED = {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE}

# They change nothing without an argument; the first also with one.
SCHEMA_PRAGMAS = {
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
    "foreign_key_list",
}
PLAIN_PRAGMAS = {"user_version", "application_id", "page_count", "page_size", "freelist_count"}
REFUSED_FUNCTIONS = {
    *("load_extension", "fts3_tokenizer"),
    *("json_patch", "jsonb_patch"),  # the product of two sizes
}

# Functions that make more than they are given. A statement without them holds stored values
# only, which may be long.
MAKERS = {
    *("char", "concat", "concat_ws", "format", "group_concat", "hex", "printf", "quote"),
    *("randomblob", "replace", "string_agg", "strftime", "unistr_quote", "zeroblob"),
    *("json_array", "json_group_array", "json_group_object", "json_insert", "json_object"),
    *("json_pretty", "json_quote", "json_replace", "json_set"),
}
MAX_MADE_BYTES = 1 << 20
MAX_STORED_BYTES = 80 << 20  # a text of 64 MB, or its JSON
MAX_RESULT_BYTES = 256 << 20
MAX_CALLS = 200  # of functions in one statement
MAX_TRIMMED = 1000  # characters that trim(text, characters) takes away

LIMITS = {
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_VDBE_OP: 50_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
}

SELECT_VIRTUAL = """/* query.virtual */
SELECT lower(name) FROM sqlite_schema
WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%'
"""

TO_TEXT = """/* query.to_text */
SELECT CAST(:value AS TEXT)
"""


def run_query(
    db: SqliteFile,
    sql: str,
    values: Sequence[Any] | Mapping[str, Any],
    *,
    limit: int,
    timeout_s: float,
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], bool]:
    """
    Return the columns and the first *limit* rows of a query, and whether there are more.

    Raises:
        InvalidInput: *sql* is not a single SELECT, its values are not accepted or nested, or its
            result is larger than 256 MB. The error is also raised inside a transaction, whose
            writes the query would not see.
        Interrupted: the query took longer than *timeout_s*.
        StorageError: the file is damaged or busy.
    """
    db.refuse_inside("query")
    check_query_values(values)
    end = time.monotonic() + timeout_s
    with db.apart(writable=False) as tx, _errors(timeout_s):
        bound = tuple(values) if not isinstance(values, dict) else values
        with _bounded(tx, end) as statement:
            try:
                return _fetch(tx, statement, sql, bound, limit)
            except UnicodeDecodeError as error:
                column = _find_column(tx, statement, sql, bound)
                raise InvalidInput(
                    f"column {column} contains bytes that are not UTF-8 text: use hex({column}), "
                    "or CAST it AS BLOB. If the value is stored like that, `memdb check --deep` "
                    "shows what to do"
                ) from error


class StatementGuard:
    """
    Refuses everything that a SELECT may not do, and counts what the statement uses.

    Attributes:
        columns: Names of its columns.
        rows: Number of rows that it returned.
        functions: Number of function calls in its text.
        has_makers: Whether one of them is in `MAKERS`.
        count: Number of statements so far; more than one are refused.
    """

    def __init__(self, virtual: set[str]) -> None:
        """Refuse to read one of the tables *virtual*."""
        self.columns: tuple[str, ...] = ()
        self.rows = self.functions = self.count = 0
        self.has_makers = False
        self._virtual = virtual

    def authorize(
        self,
        action: int,
        first: str | None,
        second: str | None = None,
        _database: str | None = None,
        view: str | None = None,
    ) -> int:
        """Allow what only reads."""
        if action == apsw.SQLITE_FUNCTION and second is not None:
            return self._authorize_function(second.lower(), view)
        if action == apsw.SQLITE_READ and first is not None and first.lower() in self._virtual:
            return apsw.SQLITE_DENY
        if action in ALLOWED:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_PRAGMA and (
            first in SCHEMA_PRAGMAS or (first in PLAIN_PRAGMAS and second is None)
        ):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def authorize_import(self, action: int, first: str | None, *more: str | None) -> int:
        """Allow statements that only read, also a virtual table unless a view reads it."""
        is_read = action == apsw.SQLITE_READ and more[-1] is None
        is_read = is_read or (action == apsw.SQLITE_PRAGMA and first == "data_version")  # FTS5's
        return apsw.SQLITE_OK if is_read else self.authorize(action, first, *more)

    def _authorize_function(self, name: str, view: str | None) -> int:
        if view is None or view.lower() not in expected_objects():
            self.functions += 1
            self.has_makers = self.has_makers or name.replace("jsonb_", "json_") in MAKERS
        allowed = name not in REFUSED_FUNCTIONS and self.functions <= MAX_CALLS
        return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY


@contextmanager
def _bounded(tx: Tx, end: float) -> Iterator[StatementGuard]:
    """Prepare *tx*, which is used for nothing else, for a user's statement until *end*."""
    raw = tx.raw
    is_own = not find_schema_differences(tx)
    statement = StatementGuard({name for (name,) in tx.all(SELECT_VIRTUAL)})
    for kind, most in LIMITS.items():
        raw.limit(kind, most)
    for (name, arguments), function in FUNCTIONS.items():
        raw.create_scalar_function(
            name, function, arguments, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
        )
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, is_own)
    raw.set_authorizer(statement.authorize)
    with interrupted_at(raw, end):
        yield statement


@contextmanager
def bounded_foreign(connection: Connection, table: str | None, timeout_s: float) -> Iterator[None]:
    """
    Limit a sqlite3 connection to another program's file by *timeout_s*, for a `with` block.

    Args:
        table: *table* may be a virtual table, which views may not use.
    """
    virtual = {name for (name,) in connection.execute(SELECT_VIRTUAL)}
    if table is not None and table.lower() in virtual:
        quoted = table.replace('"', '""')
        connection.execute(f'SELECT * FROM "{quoted}" LIMIT 0')  # noqa: S608 (opens it)
    guard = StatementGuard(virtual)
    for kind, most in {**LIMITS, apsw.SQLITE_LIMIT_LENGTH: MAX_STORED_BYTES}.items():
        connection.setlimit(kind, most)
    for (name, arguments), function in FUNCTIONS.items():
        connection.create_function(name, arguments, function, deterministic=True)
    connection.set_authorizer(guard.authorize_import)
    with interrupted_at(connection, time.monotonic() + timeout_s):
        yield


@contextmanager
def interrupted_at(raw: Interruptible, end: float) -> Iterator[None]:
    """Interrupt the statements of *raw* at *end*, until the `with` block ends."""
    is_over, turn = Lock(), Lock()
    is_over.acquire()

    def interrupt() -> None:
        wait = max(0.0, end - time.monotonic())
        while not is_over.acquire(timeout=wait):
            with turn:
                if not is_over.locked():
                    return
                raw.interrupt()
            wait = AGAIN_S

    # In steps too: without a thread, and so that the end of a short query is not missed.
    raw.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    with suppress(RuntimeError):  # no more threads
        Thread(target=interrupt, daemon=True).start()
    try:
        yield
    finally:
        with turn:  # no interrupt after this one
            is_over.release()
        raw.set_progress_handler(None, 0)


def _fetch(
    tx: Tx, statement: StatementGuard, sql: str, values: Any, limit: int
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], bool]:
    """Run the statement and return its columns, its rows, and whether there are more."""
    raw = tx.raw

    def begin(cursor: apsw.Cursor, _sql: str, _values: object) -> bool:
        statement.count += 1
        if statement.count > 1:
            raise InvalidInput("sql has several statements: give one SELECT")
        statement.columns = tuple(one[0] for one in cursor.get_description())
        most = MAX_MADE_BYTES if statement.has_makers else MAX_STORED_BYTES
        raw.limit(apsw.SQLITE_LIMIT_LENGTH, most)
        return True

    cursor = raw.cursor()
    cursor.exec_trace = begin
    rows: list[tuple[Any, ...]] = []
    size = 0
    try:
        for row in cursor.execute(sql, values):
            if len(rows) == limit:
                return statement.columns, rows, True
            size += sum(len(value) for value in row if isinstance(value, str | bytes))
            if size > MAX_RESULT_BYTES:
                raise InvalidInput(
                    f"the result is larger than {MAX_RESULT_BYTES >> 20} MB: select fewer columns "
                    "or rows"
                )
            rows.append(row)
            statement.rows += 1
    finally:
        cursor.close(True)
    return statement.columns, rows, False


def _find_column(tx: Tx, statement: StatementGuard, sql: str, values: Any) -> str:
    """Return the name of the column whose value in the next row is not UTF-8."""
    names = [f"c{place}" for place in range(len(statement.columns))]
    taken = ", ".join(f"CAST({name} AS BLOB)" for name in names)
    inside = sql.strip().rstrip(";")
    again = (
        f"/* query.again */ WITH q ({', '.join(names)}) AS ({inside}\n) "  # noqa: S608 (after a parse)
        f"SELECT {taken} FROM q LIMIT 1 OFFSET {statement.rows}"
    )
    try:
        (row,) = tx.raw.execute(again, values).fetchall()
        for name, value in zip(statement.columns, row, strict=True):
            try:
                str(value or b"", "utf-8")  # type: ignore[arg-type]  # a number raises
            except UnicodeDecodeError:
                return name
    except (apsw.Error, ValueError):
        pass  # a PRAGMA, or too slow for a second time
    return " or ".join(statement.columns)


def _to_text(value: Any) -> str:
    """Return a value as the text that SQLite makes of it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    temporary = open_temporary()
    try:
        return str((temporary.one(TO_TEXT, {"value": value}) or ("",))[0])
    finally:
        temporary.close()


def instr(value: Any, part: Any) -> int | None:
    """
    Return the place of *part* in *value*, from 1, or 0; like SQLite's, but in linear time.

    >>> instr("oslo", "lo"), instr(b"abc", b"c"), instr("a", None)
    (3, 3, None)
    """
    if value is None or part is None:
        return None
    if isinstance(value, bytes) and isinstance(part, bytes):
        return value.find(part) + 1
    return _to_text(value).find(_to_text(part)) + 1


def replace(value: Any, old: Any, new: Any) -> str | None:
    """
    Return *value* with *old* replaced by *new*; like SQLite's, but in linear time.

    >>> replace("aaa", "a", "bc"), replace(1.5, "", "b"), replace(None, "a", "b")
    ('bcbcbc', '1.5', None)
    """
    if value is None or old is None:
        return None
    text, part = _to_text(value), _to_text(old)
    if part in ("", "\0"):
        return text
    if new is None:
        return None
    other = _to_text(new)
    if len(text) + text.count(part) * (len(other) - len(part)) > MAX_MADE_BYTES:
        raise apsw.TooBigError("a string or blob is too big")
    return text.replace(part, other)


def _trimming(trim: Callable[[str, str], str]) -> Callable[[Any, Any], str | None]:
    """Return an SQLite function that does what a method of str does."""

    def trimmed(value: Any, characters: Any) -> str | None:
        if value is None or characters is None:
            return None
        taken = _to_text(characters)
        if len(taken) > MAX_TRIMMED:
            raise InvalidInput(f"trim accepts at most {MAX_TRIMMED} different characters")
        return trim(_to_text(value), taken) if taken else _to_text(value)

    return trimmed


# In place of SQLite's, whose time is the product of two sizes.
FUNCTIONS: dict[tuple[str, int], Callable[..., Any]] = {
    ("instr", 2): instr,
    ("replace", 3): replace,
    ("trim", 2): _trimming(str.strip),
    ("ltrim", 2): _trimming(str.lstrip),
    ("rtrim", 2): _trimming(str.rstrip),
}


@contextmanager
def _errors(timeout_s: float) -> Iterator[None]:
    """Translate the driver's errors for a `with` block."""
    try:
        yield
    except MemDBError:
        raise
    except apsw.InterruptError as error:
        raise Interrupted(
            f"the query took longer than {timeout_s:g} s: narrow it, or give it more time"
        ) from error
    except apsw.AuthError as error:
        raise InvalidInput(
            "sql is refused: only a SELECT on the tables and views of the file is allowed, "
            f"without full-text search (use `recall`), json_patch, or more than {MAX_CALLS} "
            "functions"
        ) from error
    except apsw.TooBigError as error:
        raise InvalidInput(
            f"sql makes or reads a value that is too long: the limit is {MAX_MADE_BYTES >> 20} MB "
            f"for a statement that makes text, and {MAX_STORED_BYTES >> 20} MB for one that only "
            "reads"
        ) from error
    except (apsw.SQLError, apsw.BindingsError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"sql cannot be run: {error}") from error
    except apsw.Error as error:
        raise translate(error) from error
