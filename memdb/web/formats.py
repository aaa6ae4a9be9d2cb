"""
Lists as files: a filtered list as JSON lines, CSV or Markdown, sent while it is read.

The last line marks the list as complete. A cell of CSV that a spreadsheet would run begins with an
apostrophe.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from memdb.formats.documents import guarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from memdb.models.record import Record

END = "complete"


def lines_of(rows: Iterable[Record], kind: str) -> Iterator[str]:
    """Yield *rows* in the format *kind*, and mark the end; the sender adds line ends."""
    makers = {"jsonl": _json_lines, "csv": _csv_lines, "md": _markdown_lines}
    count = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row.to_dict()

    yield from makers[kind](counted())
    if kind == "jsonl":
        yield json.dumps({"kind": "end", "complete": True, "lines": count})
    elif kind == "csv":
        yield f"# {END}: {count}"
    else:
        yield f"\n<!-- {END}: {count} -->"


def _json_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _csv_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out)  # whose "\r\n" makes it quote a cell with either of both

    def line(cells: Iterable[str]) -> str:
        out.seek(0)
        out.truncate()
        writer.writerow(cells)
        return out.getvalue().removesuffix("\r\n")

    names: list[str] = []
    for row in rows:
        if not names:
            names = list(row)
            yield line(names)
        yield line(_cell(row[name]) for name in names)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return str(value)
    return guarded(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _markdown_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        title = row.get("label") or row.get("name") or row.get("key") or row.get("author")
        place = row.get("seq") or row.get("id") or ""
        yield f"## {_escaped(' '.join(str(one) for one in (place, title) if one))}\n"
        text = row.get("text")
        if isinstance(text, str):
            yield "\n".join(f"> {_escaped(line)}" for line in text.splitlines())
        else:
            rest = {name: one for name, one in row.items() if one not in (None, "")}
            yield "\n".join(f"- {name}: {_escaped(_cell(one))}" for name, one in rest.items())
        yield ""


def _escaped(text: str) -> str:
    """Return *text* in a form that Markdown shows unchanged and in which no HTML begins."""
    marked = "".join(f"\\{one}" if one in "\\`*_[]<>#|!" else one for one in text)
    return " ".join(marked.split())
