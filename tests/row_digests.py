"""Connections of tests that write rows past memdb: with right digests, as a stranger could."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.columns import digest_columns
from memdb.engine.sqlite.digests import register_functions, renew

if TYPE_CHECKING:
    import apsw

SELECT_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


def keep_digests(connection: apsw.Connection) -> None:
    """Let what *connection* writes get the right digest, where the file has memdb's tables."""
    register_functions(connection)
    there = {name for (name,) in connection.execute(SELECT_TABLES)}
    for table, columns in digest_columns().items():
        if table not in there:
            continue
        digest = columns.digest_of({one: f"NEW.{one}" for one in columns.covered})
        where = " AND ".join(f"{one} = NEW.{one}" for one in columns.key)
        for event in ("INSERT", f"UPDATE OF {', '.join(columns.covered)}"):
            connection.execute(
                f"CREATE TEMP TRIGGER {table}_{event[:6]} AFTER {event} ON main.{table} BEGIN "
                f"UPDATE {table} SET digest = {digest} WHERE {where}; END"
            )


def renew_digests(tx: Any, *tables: str) -> None:
    """Give the rows that a test changed the right digests; a server has none."""
    if type(tx).__module__.startswith("memdb.engine.sqlite"):
        renew(tx, tables)
