"""What a row that is lost from a damaged file does."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import each

import memdb
from memdb import MemDB
from memdb.entries import apply
from memdb.tables import entries, entry_history, scopes, sessions, summaries

LOST = 7 << 44 | 1

# By table: what reads a row that another row or an index names.
READS: list[tuple[str, Callable[[Any], object]]] = [
    ("scopes", lambda tx: scopes.identity(tx, 7)),
    ("scopes", lambda tx: scopes.next_id(tx, 7)),
    ("sessions", lambda tx: sessions.descriptions(tx, [LOST])),
    ("sessions", lambda tx: sessions.names(tx, [LOST])[LOST]),
    ("summaries", lambda tx: summaries.session_of(tx, LOST)),
    ("entries", lambda tx: entries.row(tx, LOST)),
    ("entries", lambda tx: apply.get_entry(tx, LOST)),
    ("entry_history", lambda tx: entry_history.get(tx, LOST, 1)),
    ("entry_history", lambda tx: entry_history.source(tx, LOST, 1)),
]


@each("table, read", READS)
def test_a_lost_row_is_said(
    open_db: Callable[..., MemDB], table: str, read: Callable[[Any], object]
) -> None:
    """A damaged file raises Corrupt, which names the table and what to run."""
    with open_db(":memory:", embedder=None) as db:
        said = f"a row of the table {table} is lost: .*memdb recover"
        with pytest.raises(memdb.Corrupt, match=said), db._db.write() as tx:
            read(tx)


def test_no_table_asserts_what_a_file_holds() -> None:
    """An `assert` of a row would be an AssertionError of a damaged file: `existing` says more."""
    places = [
        f"{path.name}:{node.lineno}"
        for path in sorted(Path(entries.__file__).parent.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert places == []
