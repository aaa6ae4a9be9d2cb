"""
CSV: one table with a row per message, entry, summary, item and state.

A spreadsheet runs a cell that begins like a formula, so such a cell gets an apostrophe before
it, which `memdb import` takes off again.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from memdb.formats.writers.shared import KEYWORD_MARK, OLD, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

COLUMNS = (
    *("kind", "app", "user", "session", "title", "number", "time", "role", "author", "text"),
    *("category", "key", "keywords", "state", "trust", "expires", "id", "uid"),
)

# What a cell begins with that a spreadsheet runs, also in full width, and what it may stand behind.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
BEFORE_FORMULA = "' \t\r\n\v\f\ufeff\u00a0"
MARK = "\ufeff"  # by which spreadsheets know UTF-8


def write(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the table."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)

    def row(cells: Iterable[object]) -> str:
        writer.writerow([guarded("" if cell is None else str(cell)) for cell in cells])
        text = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return text

    yield MARK + row(COLUMNS)
    about: dict[str, Any] = {}
    titles: dict[str, Any] = {}
    for line in lines:
        kind = line["kind"]
        if kind == "scope":
            about, titles = {"app": line["app"], "user": line["user"]}, {}
        elif kind == "session":
            titles[line["name"]] = line.get("title")
        elif kind not in ("branch", "artifact"):
            title = titles.get(line.get("session", ""))
            values = {**about, **_cells(line), "kind": kind, "title": title}
            yield row(values.get(column) for column in COLUMNS)


def _cells(line: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a record by column."""
    cells = {name: line.get(name) for name in ("session", "role", "author", "text", "category")}
    cells |= {
        "key": line.get("key"),
        "time": time_of(line, is_exact=True),
        "number": line.get("seq"),
    }
    cells |= {"id": line.get("external_id"), "uid": line.get("uid")}
    if line.get("branch") is not None:
        cells["session"] = f"{line['session']} ({line['branch']})"
    if line["kind"] == "summary":
        cells["number"] = f"{line['first_seq']}..{line['last_seq']}"
    if line["kind"] == "entry":
        cells["keywords"] = KEYWORD_MARK.join(line.get("keywords") or ())
        cells["state"] = None if line.get("active", True) else OLD
        cells["trust"] = line.get("trust")
        cells["expires"] = time_of({"created_ms": line.get("expires_ms")}, is_exact=True)
    if line["kind"] in ("item", "state") and "value" in line:
        cells["text"] = json.dumps(line["value"], ensure_ascii=False)
        cells["category"] = "/".join(map(str, line.get("namespace", ())))
    return cells


def is_formula(cell: str) -> bool:
    """Say whether a spreadsheet would run a cell, with or without apostrophes before it."""
    return cell.lstrip(BEFORE_FORMULA).startswith(FORMULA)


def guarded(cell: str) -> str:
    """
    Return a cell that no spreadsheet runs.

    >>> guarded("=1+1"), guarded("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{cell}" if is_formula(cell) else cell


def unguarded(cell: str) -> str:
    """
    Return what a cell was before `guarded`.

    >>> unguarded(guarded("'=1")), unguarded("'quoted'")
    ("'=1", "'quoted'")
    """
    return cell[1:] if cell.startswith("'") and is_formula(cell) else cell
