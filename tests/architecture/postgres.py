"""
The statements of `memdb/tables/`, and those that engines share, as PostgreSQL takes them, and its schema, for tests.
"""

from __future__ import annotations

import re

from source_tree import FILES, statements_of

from memdb.engine import compose
from memdb.postgres import vectors
from memdb.postgres.dialect import to_postgres
from memdb.postgres.schema import partitioned_schema, scopes_per_partition
from memdb.postgres.schema import read_script as schema
from tests.postgres_server import CannotStart, server

__all__ = ["CannotStart", "partitioned_schema", "schema", "server", "to_postgres"]

SHARED = ("engine/branches.py", "engine/segments.py")  # by both engines

FILES_ONLY = ("tables/synced.py",)  # a server needs no folder to meet in

PARTITIONS = 8
SCOPES_PER_PARTITION = scopes_per_partition(PARTITIONS)


def statements() -> dict[str, str]:
    """Return the statements of both engines by name, those in other words there in these."""
    return {
        sql[3 : sql.index(" */")]: vectors.OVERRIDES.get(sql) or compose.without_digest(sql)
        for file in FILES
        if (file.startswith("tables/") and file not in FILES_ONLY) or file in SHARED
        for sql in statements_of(file).values()
    }


def read_schema_table(table: str) -> list[str]:
    """Return the columns of a table in schema.sql, in order."""
    body = re.search(rf"CREATE TABLE {table} \((.*?)\n\);", schema(), re.DOTALL)
    assert body is not None, table
    return re.findall(r"^  ([a-z_]+) (?:BIGINT|TEXT|BYTEA|DOUBLE)", body[1], re.MULTILINE)
