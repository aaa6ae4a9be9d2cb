"""
Messages of Pydantic AI as messages of memdb, and messages of memdb as Pydantic AI's.

A message of Pydantic AI is stored as one message for each party that speaks in it, so that
no tool speaks in the role of a person, and comes back equal. What other clients wrote has
no such original, and is given as the message that says the same.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessagesTypeAdapter

from memdb import NewMessage
from memdb.adapters.json_forms import is_plain, json_of, storable
from memdb.errors import InvalidInput
from memdb.formats.provider_messages import PYDANTIC, keep_whole, read_messages
from memdb.formats.turns import own_form
from memdb.text.parts import (
    content_text,
    json_text,
    kind_of,
    original_of,
    original_part,
    part_text,
    parts_with_text,
    without_original,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage

    from memdb import Message

UNKNOWN_TOOL = "unknown_tool"


def to_stored(message: ModelMessage) -> list[NewMessage]:
    """
    Return a message of Pydantic AI as those of memdb, in order, one at least.

    Raises:
        InvalidInput: it has no JSON form.
    """
    try:
        (data,) = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    except (TypeError, ValueError, RecursionError) as error:  # of pydantic
        raise InvalidInput(f"the message has no JSON form: {error}") from error
    raw = json_of(data, "the message")
    if not data["parts"]:
        role = "assistant" if data["kind"] == "response" else "user"
        nothing = {"type": "other", "name": "empty message"}
        return [keep_whole(NewMessage(role, parts=[nothing]), PYDANTIC, raw)]
    if is_plain(data, raw):
        return _with_originals(read_messages(data), data)
    first, *others = read_messages(storable(data))
    shown = [one.replace(parts=without_original(one.parts or ())) for one in others]
    return [keep_whole(first, PYDANTIC, raw), *shown]


def _with_originals(read: list[NewMessage], data: dict[str, Any]) -> list[NewMessage]:
    """Return messages with the parts of *data* they were read of as they are, None too."""
    made, start = [], 0
    for one in read:
        own = original_of(one.parts, PYDANTIC)
        end = start + (len(own["parts"]) if own else 0)
        parts = without_original(one.parts or ())
        whole = {**data, "parts": data["parts"][start:end]}
        made.append(one.replace(parts=[*parts, original_part(PYDANTIC, whole, parts)]))
        start = end
    return made


def to_message(stored: Sequence[Message], names: dict[str, str]) -> ModelMessage:
    """
    Return the message of Pydantic AI that some messages in a row were stored of.

    Args:
        names: Of the tools called so far, by the call's id; gets those called here.
    """
    for message in stored:
        for part in message.parts or ():
            if kind_of(part) == "tool_call" and part.get("id") and part.get("name"):
                names[part["id"]] = part["name"]
    originals = [own for one in stored if (own := own_form(one, PYDANTIC)) is not None]
    if originals:
        parts = [part for own in originals for part in own["parts"]]
        data = {**originals[0], "parts": parts}
    else:
        data = _retold(stored[0], names)
    (made,) = ModelMessagesTypeAdapter.validate_python([data])
    return made


def _retold(message: Message, names: dict[str, str]) -> dict[str, Any]:
    """Return the message that says what another client's message says."""
    parts: list[dict[str, Any]] = []
    for part in parts_with_text(message.parts or (), message.text):
        kind = kind_of(part)
        if kind == "tool_result":
            parts.append(_result(part, names))
        elif kind == "tool_call" and message.role == "assistant":
            parts.append(_call(part))
        elif kind == "thinking" and message.role == "assistant":
            parts.append({"part_kind": "thinking", "content": part_text(part)})
        elif part_text(part).strip():
            parts.append(_words(message.role, part_text(part)))
    if not parts:
        if message.role == "tool":
            parts = [_result({"content": message.text}, names)]
        else:
            parts = [_words(message.role, message.text)]
    said = datetime.fromtimestamp(message.created_ms / 1000, UTC)
    if message.role == "assistant":
        return {"kind": "response", "parts": parts, "timestamp": said}
    return {"kind": "request", "parts": [{**part, "timestamp": said} for part in parts]}


def _words(role: str, text: str) -> dict[str, Any]:
    if role == "tool":
        return _result({"content": text}, {})
    kinds = {"assistant": "text", "system": "system-prompt", "user": "user-prompt"}
    return {"part_kind": kinds[role], "content": text}


def _call(part: dict[str, Any]) -> dict[str, Any]:
    made = {
        "part_kind": "tool-call",
        "tool_name": part.get("name") or UNKNOWN_TOOL,
        "args": json_text(part.get("arguments")),
    }
    return {**made, "tool_call_id": part["id"]} if part.get("id") else made


def _result(part: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    call_id = part.get("tool_call_id")
    made = {
        "part_kind": "tool-return",
        "tool_name": part.get("name") or names.get(str(call_id)) or UNKNOWN_TOOL,
        "content": content_text(part.get("content")),
    }
    return {**made, "tool_call_id": call_id} if call_id else made
