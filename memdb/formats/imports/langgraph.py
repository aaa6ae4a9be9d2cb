"""
The SqliteStore of LangGraph: its items, under their namespaces and keys.

Vectors are not taken: they are made anew if the file has an embedder.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from memdb.formats.imports.sqlite import database_format
from memdb.transfer.sqlite_files import ROW, plain_text, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.sqlite import Records
    from memdb.transfer.sqlite_files import Database

NEEDS = {"store": frozenset({"prefix", "key", "value", "created_at", "updated_at"})}
MINUTE_MS = 60_000


def _records(source: Database, most: int) -> Records:
    for row in read_rows(source, "store", (), most):
        yield f"item {row[ROW]}", partial(_item, row)


def _item(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    line = {
        "kind": "item",
        "namespace": plain_text(row["prefix"]).split(".") if row["prefix"] else [],
        "key": plain_text(row["key"]),
        "value": json.loads(plain_text(row["value"])),
    }
    if row.get("ttl_minutes"):
        line["ttl_ms"] = round(float(row["ttl_minutes"]) * MINUTE_MS)
    yield line


FORMATS = {
    "langgraph": database_format("langgraph", "the SqliteStore of LangGraph", NEEDS, _records)
}
