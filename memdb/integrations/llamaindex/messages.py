"""
Messages of LlamaIndex as messages of memdb, and messages of memdb as LlamaIndex's.

A message of LlamaIndex comes back as its own JSON form keeps it. What other clients wrote
is given as the messages that say the same, one for each result of a tool.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage

from memdb import NewMessage
from memdb.adapters.json_forms import is_plain, json_of, storable
from memdb.errors import InvalidInput
from memdb.formats.provider_messages import keep_whole, role_of
from memdb.formats.provider_parts import read_part
from memdb.formats.turns import own_form
from memdb.text.parts import (
    content_text,
    json_text,
    kind_of,
    original_part,
    part_text,
    without_original,
)

if TYPE_CHECKING:
    from memdb import Message

LLAMAINDEX = "llamaindex"
ROLES = {"chatbot": "assistant"}


def to_stored(message: ChatMessage, field: str = "message") -> NewMessage:
    """
    Return a message of LlamaIndex as one of memdb; an error calls it *field*.

    Raises:
        InvalidInput: it is no ChatMessage, or has no JSON form.
    """
    if not isinstance(message, ChatMessage):
        raise InvalidInput(f"{field} is {type(message).__name__}: give a ChatMessage")
    try:
        data = message.model_dump(mode="json")
    except (TypeError, ValueError, RecursionError) as error:  # of pydantic
        raise InvalidInput(f"{field} has no JSON form: {error}") from error
    raw = json_of(data, field)
    if is_plain(data, raw):
        role, parts = _read(data)
        return NewMessage(role, parts=[*parts, original_part(LLAMAINDEX, data, parts)])
    role, parts = _read(storable(data))
    return keep_whole(NewMessage(role, parts=parts), LLAMAINDEX, raw)


def _read(data: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the role and parts of a message in memdb's words."""
    role = str(role_of(ROLES.get(data["role"], data["role"])))
    more = data["additional_kwargs"]
    parts = [_part(block) for block in data["blocks"]]
    known = {part.get("id") for part in parts if part["type"] == "tool_call"}
    calls = [call for call in more.get("tool_calls") or () if isinstance(call, dict)]
    parts += [
        read_part({"type": "function", **call}) for call in calls if call.get("id") not in known
    ]
    if role == "tool":
        call_id = more.get("tool_call_id")
        text = "\n".join(part_text(part) for part in parts)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        name = more.get("name")
        parts = [{**read_part(result), **({"name": name} if isinstance(name, str) else {})}]
    if not any(part["type"] != "text" or part["text"].strip() for part in parts):
        parts = [{"type": "other", "name": "empty message"}]
    return role, parts


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("block_type")
    if kind == "text":
        return {"type": "text", "text": block.get("text") or ""}
    if kind == "thinking":
        return {"type": "thinking", "text": block.get("content") or ""}
    if kind == "tool_call":
        arguments = json_text(block.get("tool_kwargs"))
        call = {"id": block.get("tool_call_id"), "name": block.get("tool_name")}
        return read_part({"type": "function", "id": call["id"], "function": {
            "name": call["name"], "arguments": arguments}})  # fmt: skip
    if kind in ("image", "audio"):
        data, link = block.get(kind), block.get("url")
        mime = block.get("image_mimetype") or (block.get("format") and f"audio/{block['format']}")
        made = {"type": kind, **({"media_type": mime} if mime else {})}
        return {**made, **({"base64": data} if data else {"url": str(link or "")})}
    return read_part({**block, "type": str(kind or "block")})


def to_messages(stored: Message) -> list[ChatMessage]:
    """Return the messages of LlamaIndex that a stored message is, one at least."""
    own = own_form(stored, LLAMAINDEX)
    if own is not None:
        return [ChatMessage.model_validate(own)]
    parts = without_original(stored.parts or ())
    results = [part for part in parts if kind_of(part) == "tool_result"]
    if stored.role == "tool":
        return [_result(part) for part in results or [{"content": stored.text}]]
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if kind_of(part) == "tool_call":
            blocks.append(_call(part))
        elif kind_of(part) != "tool_result" and part_text(part).strip():
            blocks.append({"block_type": "text", "text": part_text(part)})
    if not blocks:
        blocks.append({"block_type": "text", "text": stored.text})
    made = ChatMessage.model_validate({"role": stored.role, "blocks": blocks})
    return [made, *map(_result, results)]


def _call(part: dict[str, Any]) -> dict[str, Any]:
    arguments: Any = json_text(part.get("arguments"))
    with suppress(ValueError):
        arguments = json.loads(arguments or "{}")
    return {
        "block_type": "tool_call",
        "tool_call_id": part.get("id"),
        "tool_name": part.get("name") or "unknown_tool",
        "tool_kwargs": arguments if isinstance(arguments, dict) else str(arguments),
    }


def _result(part: dict[str, Any]) -> ChatMessage:
    more = {"tool_call_id": part.get("tool_call_id"), "name": part.get("name")}
    return ChatMessage(
        role="tool",
        content=content_text(part.get("content")),
        additional_kwargs={key: value for key, value in more.items() if value},
    )
