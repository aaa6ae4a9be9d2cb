"""
Settings: what a file does by itself, a field per row. Owns the table `settings`.

A field without a row has its default. Every program that opens the file gets the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memdb.engine.base import Tx

SELECT_SETTINGS = compose.select("settings.get_all", "name, value", "settings", order="name")

UPSERT_SETTING = compose.insert(
    "settings.put",
    "settings",
    updated_ms=":now_ms",
    otherwise=compose.conflict("name", "value, updated_ms"),
)


def get_all(tx: Tx) -> dict[str, str]:
    """Return the JSON text of each field that has been set, by name; Corrupt if one is damaged."""
    values: dict[str, str] = dict(tx.all(SELECT_SETTINGS))
    if values:
        tx.verify("settings", values)
    return values


def put(tx: Tx, values: Mapping[str, str]) -> None:
    """Set fields, given as JSON text by name; the others stay."""
    for name, value in values.items():
        tx.run(UPSERT_SETTING, {"name": name, "value": value, "now_ms": tx.now_ms})
