"""
Gate for files: compare the tables, indexes and views of a file with schema.sql.

A file may come from a stranger. Its triggers and views never run, because they are
switched off on every connection (`connection.harden`); here they are reported.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from memdb.engine.sqlite import schema
from memdb.engine.sqlite.connection import open_temporary

if TYPE_CHECKING:
    from memdb.engine.base import Tx

MAX_FINDINGS = 20

SELECT_OBJECTS = """/* gate.objects */
SELECT type, name, coalesce(sql, '') FROM sqlite_schema
WHERE name NOT LIKE 'sqlite#_%' ESCAPE '#'
ORDER BY name
"""

# A name can belong to one thing only, so what has one of memdb's
# names is compared, and what hangs on one of its tables too.
SELECT_ATTACHED_TO = """/* gate.attached_to */
SELECT type, name, lower(tbl_name) FROM sqlite_schema
WHERE type IN ('trigger', 'index') AND sql IS NOT NULL
ORDER BY name
"""


def find_schema_differences(tx: Tx) -> list[str]:
    """
    Return what differs from schema.sql among memdb's tables, indexes and views; 20 at most.

    Also a foreign trigger or index on one of its tables. Cost: 1 ms.
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
    return stored == expected or schema.normalized(stored) == schema.normalized(expected)


def list_other_tables(tx: Tx) -> tuple[str, ...]:
    """Return the names of the tables and views that are not memdb's, which it leaves alone."""
    expected = expected_objects()
    return tuple(
        name
        for kind, name, _ in tx.all(SELECT_OBJECTS)
        if kind in ("table", "view") and name.lower() not in expected
    )


def expected_objects() -> dict[str, tuple[str, str]]:
    """Return type and text of each object that schema.sql makes, by its name in lower case."""
    return _objects_of(schema.read_schema())


@cache
def _objects_of(script: str) -> dict[str, tuple[str, str]]:
    temporary = open_temporary()
    try:
        temporary.all(script)
        rows = temporary.all(SELECT_OBJECTS)
    finally:
        temporary.close()
    return {str(name).lower(): (str(kind), str(sql)) for kind, name, sql in rows}
