"""
SQLite files of other programs: what their formats share, and any table with named columns.

A format gives JSON lines of the import for the rows; the file may be a stranger's, so what it
may cost is bounded (`memdb.transfer.sqlite_files`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.transfer.files import is_memdb
from memdb.transfer.formats import jsonl
from memdb.transfer.formats.base import Format
from memdb.transfer.sqlite_files import ROW, as_lines, list_tables, plain_text, read_rows, utc_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from memdb.models.reports import TableColumns
    from memdb.transfer.formats.base import Request
    from memdb.transfer.lines import Item
    from memdb.transfer.sqlite_files import Database
    from memdb.transfer.tree import Tree

    Lines = Callable[[Database, int], Iterator[dict[str, Any]]]


def database_format(
    name: str, label: str, needs: Mapping[str, frozenset[str]], lines: Lines
) -> Format:
    """
    Return the format of a program's database.

    Args:
        needs: Tables that it has, with columns of each.
        lines: Yields JSON lines of the import from at most so many rows of a table.
    """

    def claim(tree: Tree) -> list[str]:
        tables = _tables(tree)
        has_all = bool(tables) and all(
            columns <= tables.get(table, frozenset()) for table, columns in needs.items()
        )
        return [*tree.names] if has_all else []

    return Format(name, label, claim, lambda request: _read(request, None, lines))


def _tables(tree: Tree) -> dict[str, frozenset[str]]:
    """Return the columns of each table; {} for what is no database of another program."""
    if not tree.is_database:
        return {}
    if is_memdb(tree.path):
        raise InvalidInput(
            f"{tree.name}: this is a memdb file: export it first with `memdb export`"
        )
    return list_tables(tree.path)


def _read(request: Request, table: str | None, lines: Lines) -> Iterator[Item]:
    from memdb.transfer.tree import Tree

    with as_lines(request.engine, request.tree.path, table, lines) as path, Tree(path) as made:
        yield from jsonl.read(request.replace(tree=made, names=list(made.names)))


def _read_table(request: Request) -> Iterator[Item]:
    if request.columns is None:
        raise InvalidInput("columns are missing: give --table and --text-column")
    lines = partial(_table_lines, columns=request.columns)
    return _read(request, request.columns.table, lines)


def _table_lines(source: Database, most: int, columns: TableColumns) -> Iterator[dict[str, Any]]:
    fields = (columns.text, columns.role, columns.session, columns.created, columns.id)
    names = [name for name in fields if name is not None]
    for row in read_rows(source, columns.table, names, most):
        text = row[columns.text]
        if text is None:
            continue
        key = row[ROW] if columns.id is None else row[columns.id]
        line: dict[str, Any] = {
            "session": columns.table
            if columns.session is None
            else plain_text(row[columns.session]),
            "role": plain_text(row[columns.role]) if columns.role else "user",
            "text": plain_text(text),
            "external_id": f"{columns.table}/{plain_text(key)}",
        }
        if columns.created is not None and row[columns.created] is not None:
            line["created_ms"] = utc_time(row[columns.created])
        yield line


FORMATS = {
    "sqlite": Format(
        "sqlite", "a table of a SQLite file (--table, --text-column)", lambda _: [], _read_table
    )
}
