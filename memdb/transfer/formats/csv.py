"""
Tables as CSV: a message per row, by the names of its columns.

The separator is a comma, a semicolon or a tab, whichever the header has most of.
"""

from __future__ import annotations

import csv
import io
from datetime import datetime
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.messages import ROLES
from memdb.text.provider_messages import role_of
from memdb.transfer.formats.base import Format, left_out, read_text
from memdb.transfer.lines import Item, any_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.transfer.formats.base import Request
    from memdb.transfer.tree import Tree

PATTERNS = ("*.csv", "*.tsv")
SEPARATORS = (",", ";", "\t")

# What columns are called, the usual name first; case, spaces and _ make no difference.
COLUMNS = {
    "text": ("text", "content", "message", "body", "prompt"),
    "role": ("role", "sender", "speaker", "from"),
    "author": ("author", "name", "user"),
    "created_ms": ("created", "createdat", "time", "timestamp", "date", "datetime", "createdms"),
    "session": ("session", "conversation", "conversationid", "thread", "chat", "channel"),
    "external_id": ("id", "messageid", "externalid", "uuid"),
}


def _claim(tree: Tree) -> list[str]:
    """Claim files that are called as tables are."""
    return tree.named(*PATTERNS)


def _read(request: Request) -> Iterator[Item]:
    for name in request.names:
        text = read_text(request.tree, name)
        first = text.partition("\n")[0]
        separator = max(SEPARATORS, key=first.count)
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        try:
            columns = _columns(rows.fieldnames or ())
            if "text" not in columns:
                raise InvalidInput(
                    f"{request.tree.shown(name)} has no column with the text of messages: call one "
                    f"{' or '.join(COLUMNS['text'])}; it has {', '.join(rows.fieldnames or ())}"
                )
            session = request.session or name.rpartition("/")[2].rpartition(".")[0]
            for number, row in enumerate(rows, start=1):
                yield _item(
                    request.tree.place(name, f"row {number}"), row, columns, session, number
                )
        except csv.Error as error:
            raise InvalidInput(f"{request.tree.shown(name)} is no CSV ({error})") from error


def _columns(header: Any) -> dict[str, str]:
    """Return the column for each field of a message that has one."""
    plain = {"".join(char for char in str(one).lower() if char.isalnum()): one for one in header}
    chosen = {
        field: next((plain[name] for name in names if name in plain), None)
        for field, names in COLUMNS.items()
    }
    return {field: column for field, column in chosen.items() if column is not None}


def _item(place: str, row: Any, columns: dict[str, str], session: str, number: int) -> Item:
    values = {field: (row.get(column) or "").strip() for field, column in columns.items()}
    if not values["text"]:
        return left_out(place, "rows", "they have no text")
    role = role_of(values.get("role", "user").lower() or "user")
    fields: dict[str, Any] = {
        "session": values.get("session") or session,
        "role": role if role in ROLES else "user",
        "text": values["text"],
        "external_id": values.get("external_id") or f"row-{number}",
    }
    author = values.get("author") or (values.get("role") if role not in ROLES else None)
    if author:
        fields["author"] = author
    if values.get("created_ms"):
        fields["created_ms"] = _time(values["created_ms"])
    return Item(place, "message", fields)


def _time(text: str) -> int | None:
    """Return seconds, milliseconds or an ISO time, without a zone in UTC, in milliseconds."""
    try:
        return any_time(float(text), "time")
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"time is {text!r}: write it like 2025-03-01T09:30:00Z") from error
    return any_time(text if moment.tzinfo else f"{moment.isoformat()}+00:00", "time")


FORMATS = {"csv": Format("csv", "a CSV table of messages", _claim, _read, takes_session=True)}
