"""
The views of schema.sql for queries on a server: a query that names one brings its SELECT along.

No view is stored there: it would be one more thing to migrate.
"""

from __future__ import annotations

import re

VIEW = re.compile(r"CREATE VIEW (\w+) AS\n(.*?);", re.DOTALL)
COMMENT = re.compile(r"[ \t]*--[^\n]*")
WITH = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)

TIME = 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'

# From SQLite's words to PostgreSQL's, in this order.
RULES = (
    (
        r"strftime\('[^']*', (\S+) / 1000\.0, 'unixepoch'\)",
        rf"to_char(to_timestamp(\1 / 1000.0) AT TIME ZONE 'UTC', '{TIME}')",
    ),
    (r"\(julianday\('now'\) - 2440587\.5\) \* 86400000", "extract(epoch FROM now()) * 1000"),
    (r"\nJOIN \(SELECT", "\nCROSS JOIN (SELECT"),
    (r"\biif\(\s*(.*?),\s*([\w.]+),\s*NULL\s*\)", r"CASE WHEN \1 THEN \2 END"),
    (r"CAST\(\s*(CASE substr.*?END) AS TEXT\s*\)", r"convert_from(\1, 'UTF8')"),
    (r"\bhex\(([\w.]+)\)", r"encode(\1, 'hex')"),
    (r"\bchar\(", "chr("),
    (r"\bx'(\w+)'", r"'\\x\1'::bytea"),
    (r"\bINTEGER\b", "BIGINT"),
)


def read_views() -> dict[str, str]:
    """Return the SELECT of each view in PostgreSQL's dialect."""
    from memdb.engine.sqlite.schema import read_schema  # only for queries that name one

    found = {}
    for name, select in VIEW.findall(COMMENT.sub("", read_schema())):
        body = select
        for pattern, replacement in RULES:
            body = re.sub(pattern, replacement, body, flags=re.DOTALL)
        found[name] = body
    return found


def with_views(sql: str) -> str:
    """Return a query with the SELECTs of the views that it names before it."""
    if "_view" not in sql:
        return sql
    named = [(name, body) for name, body in read_views().items() if re.search(rf"\b{name}\b", sql)]
    if not named:
        return sql
    views = ",\n".join(f"{name} AS NOT MATERIALIZED (\n{body}\n)" for name, body in named)
    match = WITH.match(sql)
    if match is None:
        return f"WITH {views}\n{sql}"
    return f"WITH {match[1] or ''}{views},\n{sql[match.end() :]}"
