"""
The logs.db of simonw's llm: threads of messages (0.36 and later) and responses (before).
"""

from __future__ import annotations

import json
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from memdb.formats.imports.sqlite import database_format
from memdb.transfer.lines import utc_time
from memdb.transfer.sqlite_files import ROW, plain_text, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.sqlite import Records
    from memdb.transfer.sqlite_files import Database

NEEDS = {
    "responses": frozenset(
        {"id", "prompt", "response", "system", "model", "conversation_id", "datetime_utc"}
    )
}
THREADS = {"threads", "turns", "messages", "parts", "fragments"}


def _records(source: Database, most: int) -> Records:
    titles: dict[Any, Any] = {}
    if "conversations" in source.table_names():
        rows = read_rows(source, "conversations", (), most)
        titles = {row["id"]: row.get("name") for row in rows}
    for row in read_rows(source, "responses", (), most):
        title = titles.pop(row["conversation_id"], None)
        yield f"response {row[ROW]}", partial(_response, row, title)
    if {*source.table_names()} >= THREADS:
        yield from _threads(source, most)


def _response(row: dict[str, Any], title: Any) -> Iterator[dict[str, Any]]:
    """Yield prompt and response of a call; before them the session, if it has a *title*."""
    line: dict[str, Any] = {"session": plain_text(row["conversation_id"] or row["id"])}
    if title:
        yield {"kind": "session", "name": line["session"], "title": plain_text(title)}
    if row["datetime_utc"]:
        line["created_ms"] = utc_time(row["datetime_utc"], "datetime_utc")
    for role, name in (("system", "system"), ("user", "prompt"), ("assistant", "response")):
        if row[name]:
            author = {"author": plain_text(row["model"])} if role == "assistant" else {}
            yield {**line, **author, "role": role, "text": plain_text(row[name])} | {
                "external_id": f"llm/{row['id']}/{name}"
            }


def _threads(source: Database, most: int) -> Records:
    """Yield a record per thread."""
    messages = {row["hash"]: row for row in read_rows(source, "messages", (), most)}
    fragments = {row["id"]: row["content"] for row in read_rows(source, "fragments", (), most)}
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(source, "parts", (), most):
        parts.setdefault(row["message_hash"], []).append(row)
    turns: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(source, "turns", (), most):
        turns.setdefault(row["thread_id"], []).append(row)

    def lines(thread: dict[str, Any]) -> Iterator[dict[str, Any]]:
        turn_of = _turns_of(turns.get(thread["id"], []), messages)
        name = plain_text(thread["id"])
        session: dict[str, Any] = {"kind": "session", "name": name}
        if thread["name"]:
            session["title"] = plain_text(thread["name"])
        yield session
        for number, key in enumerate(_path(thread["tip_message_hash"], messages), start=1):
            rows = sorted(parts.get(key, []), key=itemgetter("position"))
            about = {"session": name, "external_id": f"llm/{key}/{number}"}
            found = [_part(row, fragments) for row in rows]
            yield {**_message(messages[key], found, turn_of.get(key, {})), **about}

    for thread in read_rows(source, "threads", (), most):
        yield f"thread {thread[ROW]}", partial(lines, thread)


def _message(
    row: dict[str, Any], parts: list[dict[str, Any]], turn: dict[str, Any]
) -> dict[str, Any]:
    """Return a message with the time and the model of its turn."""
    line: dict[str, Any] = {"kind": "message", "role": plain_text(row["role"])}
    if all(part["type"] == "text" for part in parts):
        line["text"] = "\n".join(part["text"] for part in parts)
    else:
        line["parts"] = parts
    if turn.get("datetime_utc"):
        line["created_ms"] = utc_time(turn["datetime_utc"], "datetime_utc")
    if line["role"] == "assistant" and turn.get("model"):
        line["author"] = plain_text(turn["model"])
    return line


def _path(tip: Any, messages: dict[Any, dict[str, Any]]) -> list[Any]:
    """Return the hashes of the messages from the root to *tip*."""
    path: list[Any] = []
    seen = set()
    while tip in messages and tip not in seen:
        seen.add(tip)
        path.append(tip)
        tip = messages[tip]["parent_hash"]
    return path[::-1]


def _turns_of(
    turns: list[dict[str, Any]], messages: dict[Any, dict[str, Any]]
) -> dict[Any, dict[str, Any]]:
    """Return the first turn of which each message is a part."""
    found: dict[Any, dict[str, Any]] = {}
    for turn in sorted(turns, key=lambda one: str(one["datetime_utc"])):
        for key in _path(turn["tip_message_hash"], messages):
            found.setdefault(key, turn)
    return found


def _part(row: dict[str, Any], fragments: dict[Any, Any]) -> dict[str, Any]:
    """Return a part in the words of docs/parts.md."""
    try:
        payload = json.loads(row["payload"]) if row["payload"] else {}
    except ValueError:
        payload = {}
    text = row["text"]
    if text is None and isinstance(payload.get("text_ref"), list):
        pieces = [one for one in payload["text_ref"] if isinstance(one, dict)]
        text = "".join(
            str(one.get("literal", fragments.get(one.get("fragment"), ""))) for one in pieces
        )
    kind = row["type"]
    if kind in ("text", "reasoning"):
        return {"type": "text" if kind == "text" else "thinking", "text": plain_text(text or "")}
    if kind == "tool_call":
        return {
            "type": "tool_call",
            "id": payload.get("tool_call_id"),
            "name": payload.get("name") or row["tool_name"],
            "arguments": payload.get("arguments") or {},
        }
    if kind == "tool_result":
        return {
            "type": "tool_result",
            "tool_call_id": payload.get("tool_call_id"),
            "name": payload.get("name") or row["tool_name"],
            "content": plain_text(payload.get("output") or ""),
        }
    return {"type": "other", "kind": plain_text(kind), "data": payload, "provider": "llm"}


FORMATS = {"llm": database_format("llm", "the logs.db of llm", NEEDS, _records)}
