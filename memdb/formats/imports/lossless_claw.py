"""
The lcm.db of lossless-claw: every message of a conversation.

Its summaries are not taken: memdb condenses the same messages by itself.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from memdb.formats.imports.base import LEFT_OUT
from memdb.formats.imports.sqlite import database_format
from memdb.formats.transcripts import parse_object
from memdb.transfer.lines import utc_time
from memdb.transfer.sqlite_files import ROW, plain_text, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.sqlite import Records
    from memdb.transfer.sqlite_files import Database

NEEDS = {
    "conversations": frozenset({"conversation_id", "session_id", "title", "created_at"}),
    "messages": frozenset({"message_id", "conversation_id", "seq", "role", "content"}),
    "summaries": frozenset({"summary_id", "conversation_id", "kind", "content"}),
}
PARTS = "message_parts"  # which the first versions did not have
WHY = "memdb makes its own of the same messages"
TWICE = "lossless-claw stored them twice, when a turn was tried again"


def _records(source: Database, most: int) -> Records:
    """Yield a record per conversation: its session and its messages."""
    names: dict[object, str] = {}
    said: dict[object, list[dict[str, Any]]] = {}
    parts: dict[object, list[dict[str, Any]]] = {}
    for row in read_rows(source, "messages", (), most):
        said.setdefault(row["conversation_id"], []).append(row)
    if PARTS in source.table_names():
        for row in read_rows(source, PARTS, (), most):
            parts.setdefault(row["message_id"], []).append(row)
    for row in read_rows(source, "conversations", (), most):
        name = plain_text(row.get("session_key") or row["session_id"])
        if name in names.values():  # a session that was begun anew keeps its name there
            name = f"{name} {row['conversation_id']}"
        names[row["conversation_id"]] = name
        messages = said.get(row["conversation_id"], [])
        yield f"conversation {row[ROW]}", partial(_conversation, name, row, messages, parts)
    count = source["summaries"].count
    if count:
        line = {"kind": LEFT_OUT, "what": "summaries", "why": WHY, "count": count}
        yield "summaries", lambda: [line]


def _conversation(
    name: str,
    row: dict[str, Any],
    messages: list[dict[str, Any]],
    parts: dict[object, list[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    session: dict[str, Any] = {"kind": "session", "name": name}
    if row["title"]:
        session["title"] = plain_text(row["title"])
    if row["created_at"]:
        session["created_ms"] = utc_time(row["created_at"], "created_at")
    yield session
    seen: dict[str, set[object]] = {}
    for message in sorted(messages, key=itemgetter("seq")):
        said = _said(message, parts.get(message["message_id"], []))
        key = repr((message["role"], message["created_at"], said))
        if _is_twin(message.get("transcript_entry_id"), seen.setdefault(key, set())):
            yield {"kind": LEFT_OUT, "what": "messages", "why": TWICE, "count": 1}
        elif not any(said.values()):
            yield {"kind": LEFT_OUT, "what": "messages", "why": "they have no words", "count": 1}
        else:
            yield {
                "kind": "message",
                "session": name,
                "role": plain_text(message["role"]),
                "external_id": f"lcm/{message['message_id']}",
                "created_ms": utc_time(message["created_at"], "created_at"),
                **said,
            }


def _is_twin(entry: object, entries: set[object]) -> bool:
    """
    Say whether a message is there already, and note it.

    A turn that was tried again is stored twice: as it ran, without an entry of the transcript,
    and from the transcript. Two entries are two messages.

    Args:
        entries: Of the messages with the same role, words, time and calls.
    """
    is_twin = bool(entries) and (entry is None or entry in entries or entries == {None})
    entries.add(entry)
    return is_twin


def _said(message: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the text of a message, or its parts if it calls tools or is what one answered."""
    text = plain_text(message["content"])
    tools = [one for one in rows if one["part_type"] == "tool"]
    if message["role"] == "tool":
        first = next((one for one in rows if one["tool_call_id"]), None)
        outputs = [plain_text(one["tool_output"]) for one in tools if one["tool_output"]]
        content = text or "\n".join(outputs)
        if first is None or not content:
            return {"text": content}
        about = {"tool_call_id": first["tool_call_id"], "name": first["tool_name"]}
        return {"parts": [{"type": "tool_result", **about, "content": content}]}
    calls = [_call(one) for one in sorted(tools, key=itemgetter("ordinal")) if one["tool_name"]]
    if not calls:
        return {"text": text}
    return {"parts": [*([{"type": "text", "text": text}] if text else []), *calls]}


def _call(row: dict[str, Any]) -> dict[str, Any]:
    given = plain_text(row["tool_input"] or "{}")
    arguments = parse_object(given.encode("utf-8", "replace"))
    call = {"type": "tool_call", "id": row["tool_call_id"], "name": plain_text(row["tool_name"])}
    return {**call, "arguments": given if arguments is None else arguments}


FORMATS = {
    "lossless-claw": database_format(
        "lossless-claw", "the lcm.db of lossless-claw", NEEDS, _records
    )
}
