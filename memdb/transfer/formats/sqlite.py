"""
SQLite files of other programs: logs of `llm`, and any table whose columns are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.transfer.files import is_memdb
from memdb.transfer.formats import jsonl
from memdb.transfer.formats.base import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.transfer.formats.base import Request
    from memdb.transfer.lines import Item
    from memdb.transfer.tree import Tree


def _claim(tree: Tree) -> list[str]:
    """Claim a database that is not memdb's; which table it has shows when it is read."""
    if not tree.is_database:
        return []
    if is_memdb(tree.path):
        raise InvalidInput(
            f"{tree.name}: this is a memdb file: export it first with `memdb export`"
        )
    return list(tree.names)


def _read(request: Request) -> Iterator[Item]:
    from memdb.transfer.sqlite_files import as_lines  # 0.4 s
    from memdb.transfer.tree import Tree

    if not request.tree.is_database:
        raise InvalidInput(f"{request.tree.name} is no SQLite file of another program: no table")
    with as_lines(request.engine, request.tree.path, request.columns) as path, Tree(path) as lines:
        yield from jsonl.read(request.replace(tree=lines, names=list(lines.names)))


FORMATS = {
    "llm": Format("llm", "the logs.db of llm", _claim, _read),
    "sqlite": Format(
        "sqlite", "a table of a SQLite file (--table, --text-column)", lambda _: [], _read
    ),
}
