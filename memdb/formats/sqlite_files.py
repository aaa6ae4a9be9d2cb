"""
Other SQLite files, through sqlite-utils: rows of their tables in, a plain copy out.

Never a memdb file: sqlite-utils brings a second SQLite library, and two of them on one live
file lose each other's locks (ADR-0002).
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from memdb.engine.files import PARTIAL, is_memdb, is_sqlite, open_private, refuse_live, whole_path
from memdb.engine.sqlite.query import bounded_foreign
from memdb.errors import AlreadyExists, FileError, InvalidInput
from memdb.formats.source import FREE_BYTES, MAX_RATIO
from memdb.models.ids import MAX_INT
from memdb.text.validate import refuse_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlite_utils import Database as Database  # noqa: PLC0414 (formats name it too)

BATCH = 500

# Time to read a file, and the rows that any may give; more only by its size.
FREE_S = 20
S_PER_MB = 2
MIN_ROWS = 10_000

# Under this name a row has its number; no column can be called so.
ROW = ""

# Tables of the plain copy, by the kind of the line of an export.
PLAIN_TABLES = {
    "session": "sessions",
    "message": "messages",
    "entry": "entries",
    "summary": "summaries",
    "artifact": "artifacts",
    "item": "items",
    "state": "state",
}


@contextmanager
def as_lines(
    path: str,
    table: str | None,
    lines: Callable[[Database, int], Iterator[dict[str, Any]]],
) -> Iterator[str]:
    """
    Yield the path of JSON lines with the rows of a SQLite file, for a `with` block.

    The file may be a stranger's. Its views and generated columns are bounded in time, as a
    query of `db.query` is, and in rows and bytes by its own size.

    Args:
        table: The table or view that the caller named; None means those of a format.
        lines: Yields the lines from at most this many rows of a table.

    Raises:
        InvalidInput: the database has no such table or column, or gives more than its size lets
            expect.
        FileError: the file cannot be read.
    """
    import sqlite3

    source = _open_foreign(path)
    try:
        handle, name = tempfile.mkstemp(suffix=".jsonl")
        try:
            size = os.stat(path).st_size
            most, timeout_s = max(MIN_ROWS, size), FREE_S + S_PER_MB * (size >> 20)
            with (
                os.fdopen(handle, "w", encoding="utf-8") as file,
                bounded_foreign(source.conn, table, timeout_s),
            ):
                left = FREE_BYTES + MAX_RATIO * most
                for line in lines(source, most):
                    left -= file.write(json.dumps(line, default=plain_text) + "\n")
                    if left < 0:
                        raise _too_much(path)
            yield name
        except sqlite3.Error as error:
            raise FileError(f"{path} cannot be read ({error}): get it again", path) from error
        finally:
            with suppress(OSError):
                os.unlink(name)
    finally:
        source.close()


def list_tables(path: str) -> dict[str, frozenset[str]]:
    """
    Return the tables of another program's SQLite file, each with its columns.

    Raises:
        FileError: the file cannot be read.
    """
    import sqlite3

    source = _open_foreign(path)
    try:
        return {
            name: frozenset(column.name for column in source[name].columns)
            for name in source.table_names()
        }
    except sqlite3.Error as error:
        raise FileError(f"{path} cannot be read ({error}): get it again", path) from error
    finally:
        source.close()


def _too_much(path: str) -> InvalidInput:
    return InvalidInput(
        f"{path} gives more rows or text than a file of its size can hold, so a view or a computed "
        "column makes them: name a table that holds messages"
    )


def _open_foreign(path: str) -> Database:
    """Open a SQLite file that is not memdb's, for reading."""
    import sqlite3

    from sqlite_utils import Database

    refuse_live(path)
    if is_memdb(path):
        raise InvalidInput(f"{path} is a memdb file: export it first with `memdb export`")
    quoted = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        handle = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise FileError(f"{path} cannot be read ({error}): check the path", path) from error
    # One text that is no UTF-8 is left out with its record, and does not end the import.
    handle.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return Database(handle)


def read_rows(
    source: Database, table: str, names: Iterable[str], most: int
) -> Iterator[dict[str, Any]]:
    """Yield up to *most* rows of a table or view with their number under `ROW`, in its order."""
    import sqlite3

    known = {*source.table_names(), *source.view_names()}
    if table not in known:
        raise InvalidInput(
            f"there is no table {table!r}: choose one of {', '.join(sorted(known)[:20]) or 'none'}"
        )
    try:
        columns = {column.name for column in source[table].columns}
        for name in names:
            if name not in columns:
                raise InvalidInput(
                    f"table {table!r} has no column {name!r}: choose one of "
                    f"{', '.join(sorted(columns))}"
                )
        for number, row in enumerate(source[table].rows, 1):
            if number > most:
                raise _too_much(f"table {table!r}")
            yield {**row, ROW: number}
    except sqlite3.Error as error:
        raise InvalidInput(f"table {table!r} cannot be read: {error}") from error


def plain_text(value: object) -> str:
    """Return a value of a column as text; bytes are read as UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def write_plain(lines: Iterable[str], target: str, *, replace: bool) -> int:
    """
    Write the lines of an export as plain tables of a new SQLite file; return the number of rows.

    `sessions`, `messages`, `entries`, `summaries`, `artifacts`, `items` and `state`, each
    with `app` and `user`. The columns are the fields of the export; lists and
    objects are JSON. The copy is not kept up to date and cannot be imported.

    Raises:
        AlreadyExists: something is at *target*, and *replace* is False.
        FileError: *target* cannot be written, or is a database.
    """
    import sqlite3

    from sqlite_utils import Database

    if os.path.lexists(target) and not replace:
        raise AlreadyExists("file", target)
    refuse_live(target, target + PARTIAL)
    refuse_output(target)
    if is_sqlite(target) and is_memdb(target):
        raise FileError(f"{target} is a memdb file: choose another place", target)
    try:
        with whole_path(target) as partial:
            os.close(open_private(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            with closing(Database(sqlite3.connect(partial))) as plain:
                return _insert(plain, lines)
    except sqlite3.Error as error:
        raise FileError(
            f"{target} cannot be written ({error}): choose another place", target
        ) from error


def _stored(value: object) -> object:
    """Return a value as SQLite can store it: an integer of more than 64 bits as text."""
    return str(value) if isinstance(value, int) and abs(value) > MAX_INT else value


def _insert(plain: Database, lines: Iterable[str]) -> int:
    waiting: dict[str, list[dict[str, Any]]] = {name: [] for name in PLAIN_TABLES.values()}
    owner: dict[str, Any] = {}
    count = 0

    def flush(table: str) -> None:
        if waiting[table]:
            plain.table(table).insert_all(waiting[table], alter=True)
            waiting[table] = []

    for line in lines:
        row = json.loads(line)
        kind = row.pop("kind", None)
        if kind == "scope":
            owner = {"app": row["app"], "user": row["user"]}
        table = PLAIN_TABLES.get(kind)
        if table is not None:
            row = {name: _stored(value) for name, value in row.items()}
            waiting[table].append({**owner, **row})
            count += 1
            if len(waiting[table]) >= BATCH:
                flush(table)
    for table in waiting:
        flush(table)
    return count
