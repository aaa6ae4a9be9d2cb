"""
The lcm.db of lossless-claw: every message of a conversation.

Its summaries are not taken: memdb condenses the same messages by itself.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from memdb.transfer.formats.base import LEFT_OUT
from memdb.transfer.formats.sqlite import database_format
from memdb.transfer.sqlite_files import ROW, plain_text, read_rows, utc_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.transfer.formats.sqlite import Records
    from memdb.transfer.sqlite_files import Database

NEEDS = {
    "conversations": frozenset({"conversation_id", "session_id", "title", "created_at"}),
    "messages": frozenset({"message_id", "conversation_id", "seq", "role", "content"}),
    "summaries": frozenset({"summary_id", "conversation_id", "kind", "content"}),
}
WHY = "memdb makes its own of the same messages"


def _records(source: Database, most: int) -> Records:
    """Yield a record per conversation: its session and its messages."""
    names: dict[object, str] = {}
    said: dict[object, list[dict[str, Any]]] = {}
    for row in read_rows(source, "messages", (), most):
        said.setdefault(row["conversation_id"], []).append(row)
    for row in read_rows(source, "conversations", (), most):
        name = plain_text(row.get("session_key") or row["session_id"])
        if name in names.values():  # a session that was begun anew keeps its name there
            name = f"{name} {row['conversation_id']}"
        names[row["conversation_id"]] = name
        messages = said.get(row["conversation_id"], [])
        yield f"conversation {row[ROW]}", partial(_conversation, name, row, messages)
    count = source["summaries"].count
    if count:
        line = {"kind": LEFT_OUT, "what": "summaries", "why": WHY, "count": count}
        yield "summaries", lambda: [line]


def _conversation(
    name: str, row: dict[str, Any], messages: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    session: dict[str, Any] = {"kind": "session", "name": name}
    if row["title"]:
        session["title"] = plain_text(row["title"])
    if row["created_at"]:
        session["created_ms"] = utc_time(row["created_at"])
    yield session
    for message in sorted(messages, key=itemgetter("seq")):
        if message["content"]:
            yield {
                "kind": "message",
                "session": name,
                "role": plain_text(message["role"]),
                "text": plain_text(message["content"]),
                "external_id": f"lcm/{message['message_id']}",
                "created_ms": utc_time(message["created_at"]),
            }


FORMATS = {
    "lossless-claw": database_format(
        "lossless-claw", "the lcm.db of lossless-claw", NEEDS, _records
    )
}
