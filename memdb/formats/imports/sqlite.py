"""
SQLite files of other programs: what their formats share, and any table with named columns.

A format gives JSON lines of the import for each record; the file may be a stranger's, so what
it may cost is bounded (`memdb.transfer.sqlite_files`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import LEFT_OUT, MISSHAPEN, Format, groups, refused
from memdb.formats.imports.jsonl import read_line
from memdb.transfer.lines import REFUSALS, Item, utc_time
from memdb.transfer.source import Tree, is_memdb, parse_line
from memdb.transfer.sqlite_files import ROW, as_lines, list_tables, plain_text, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.models.reports import TableColumns
    from memdb.transfer.sqlite_files import Database

    # Place of each record, and what makes its lines; an error means that it is broken.
    Records = Iterator[tuple[str, Callable[[], Iterable[dict[str, Any]]]]]
    Lines = Callable[[Database, int], Records]


def database_format(
    name: str, label: str, needs: Mapping[str, frozenset[str]], lines: Lines
) -> Format:
    """
    Return the format of a program's database.

    Args:
        needs: Tables that it has, with columns of each.
        lines: Yields the records in at most so many rows of a table.
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


def _read(request: Request, table: str | None, lines: Lines) -> Read:
    made = partial(_made, lines=lines)
    with (
        as_lines(request.engine, request.tree.path, table, made) as path,
        Tree(path) as tree,
        tree.open(tree.names[0]) as source,
    ):
        for number, line in source.lines():
            record = parse_line(number, line)
            yield from groups([(record["place"], record)], _items)


def _made(source: Database, most: int, lines: Lines) -> Iterator[dict[str, Any]]:
    """Yield each record with its lines, or with the reason why it has none."""
    for place, make in lines(source, most):
        try:
            record: dict[str, Any] = {"place": place, "lines": [*make()]}
        except (*REFUSALS, *MISSHAPEN) as error:
            record = {"place": place, "reason": refused(place, error).reason}
        yield record


def _items(place: str, record: dict[str, Any]) -> Iterator[Item]:
    """Yield the items of a record."""
    if "reason" in record:
        raise InvalidInput(record["reason"])
    lines = record["lines"]
    for number, given in enumerate(lines, start=1):
        where = place if len(lines) == 1 else f"{place}, message {number}"
        for kind, fields in read_line(given, None, number, b""):
            yield Item(where, kind, fields)


def _read_table(request: Request) -> Read:
    if request.columns is None:
        raise InvalidInput("columns are missing: give --table and --text-column")
    lines = partial(_table_records, columns=request.columns)
    return _read(request, request.columns.table, lines)


def _table_records(source: Database, most: int, columns: TableColumns) -> Records:
    fields = (columns.text, columns.role, columns.session, columns.created, columns.id)
    names = [name for name in fields if name is not None]
    for row in read_rows(source, columns.table, names, most):
        yield f"row {row[ROW]} of {columns.table}", partial(_row_lines, row, columns)


def _row_lines(row: dict[str, Any], columns: TableColumns) -> Iterator[dict[str, Any]]:
    text = row[columns.text]
    if text is None:
        yield {"kind": LEFT_OUT, "what": "rows", "why": "they have no text", "count": 1}
        return
    key = row[ROW] if columns.id is None else row[columns.id]
    session = columns.table if columns.session is None else plain_text(row[columns.session])
    line: dict[str, Any] = {
        "session": session,
        "role": plain_text(row[columns.role]) if columns.role else "user",
        "text": plain_text(text),
        "external_id": f"{columns.table}/{plain_text(key)}",
    }
    if columns.created is not None and row[columns.created] is not None:
        line["created_ms"] = utc_time(row[columns.created], "time")
    yield line


FORMATS = {
    "sqlite": Format(
        "sqlite", "a table of a SQLite file (--table, --text-column)", lambda _: [], _read_table
    )
}
