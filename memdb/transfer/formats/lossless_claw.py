"""
The lcm.db of lossless-claw: every message of a conversation.

Its summaries are not taken: memdb condenses the same messages by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.transfer.formats.base import LEFT_OUT
from memdb.transfer.formats.sqlite import database_format
from memdb.transfer.sqlite_files import plain_text, read_rows, utc_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.transfer.sqlite_files import Database

NEEDS = {
    "conversations": frozenset({"conversation_id", "session_id", "title", "created_at"}),
    "messages": frozenset({"message_id", "conversation_id", "seq", "role", "content"}),
    "summaries": frozenset({"summary_id", "conversation_id", "kind", "content"}),
}
WHY = "memdb makes its own of the same messages"


def _lines(source: Database, most: int) -> Iterator[dict[str, Any]]:
    names: dict[object, str] = {}
    for row in read_rows(source, "conversations", (), most):
        name = plain_text(row.get("session_key") or row["session_id"])
        if name in names.values():  # a session that was begun anew keeps its name there
            name = f"{name} {row['conversation_id']}"
        names[row["conversation_id"]] = name
        session: dict[str, Any] = {"kind": "session", "name": name}
        if row["title"]:
            session["title"] = plain_text(row["title"])
        if row["created_at"]:
            session["created_ms"] = utc_time(row["created_at"])
        yield session
    rows = read_rows(source, "messages", (), most)
    for row in sorted(rows, key=lambda one: (str(one["conversation_id"]), one["seq"])):
        if row["conversation_id"] in names and row["content"]:
            yield {
                "kind": "message",
                "session": names[row["conversation_id"]],
                "role": plain_text(row["role"]),
                "text": plain_text(row["content"]),
                "external_id": f"lcm/{row['message_id']}",
                "created_ms": utc_time(row["created_at"]),
            }
    count = source["summaries"].count
    if count:
        yield {"kind": LEFT_OUT, "what": "summaries", "why": WHY, "count": count}


FORMATS = {
    "lossless-claw": database_format("lossless-claw", "the lcm.db of lossless-claw", NEEDS, _lines)
}
