"""
Transcripts of Codex: the lines of a rollout, as messages.

A rollout holds two logs: `response_item` is what the model got and gave, `event_msg` what the
terminal showed of it. Only the first is read, so nothing is said twice. What Codex puts into
the mouth of the user (its environment, AGENTS.md) is not the user's.

Source: docs/coding-agents.md
"""

from __future__ import annotations

from typing import Any

from memdb.adapters.json_forms import storable
from memdb.errors import InvalidInput
from memdb.formats.provider_messages import read_messages
from memdb.models.messages import NewMessage
from memdb.models.transcripts import Line
from memdb.text.parts import kind_of, text_of, text_value, without_original
from memdb.text.times import iso_ms

# What Codex writes in the place of the user's words, by how it begins.
SYSTEM_TAGS = (
    *"<environment_context> <user_instructions> <turn_aborted> <skill> <INSTRUCTIONS>".split(),
    *"<subagent_notification> <permissions".split(),
    "# AGENTS.md instructions",
)
TOOL_TAGS = ("<user_shell_command>", "<user_action>")


def read_line(line: dict[str, Any]) -> Line:
    """
    Return what a line of a rollout says.

    >>> said = {"type": "message", "role": "user", "content": "Hi."}
    >>> read_line({"type": "response_item", "payload": said}).messages[0].text
    'Hi.'
    """
    payload = line.get("payload")
    outer = text_value(line.get("type"))
    if not isinstance(payload, dict):
        payload, outer = line, "response_item" if outer else "session_meta"
    if outer == "session_meta":
        return _header(payload)
    kind = f"{outer}/{text_value(payload.get('type')) or '?'}"
    created_ms = iso_ms(line.get("timestamp"))
    if outer == "compacted":
        text = text_value(storable(payload.get("message")))
        found = [NewMessage("system", text, created_ms=created_ms)] if text.strip() else []
        return Line(outer, found)
    if outer == "turn_context":
        return Line(outer, [], folder=_text(payload.get("cwd")))
    if outer != "response_item":
        return Line(kind, [])
    try:
        read = read_messages(storable(payload))
    except InvalidInput:
        return Line(kind, [])
    return Line(kind, [one for message in read for one in _said(message, created_ms)])


def _header(payload: dict[str, Any]) -> Line:
    """Return what the first line tells about the session."""
    parent = payload.get("parent_thread_id")
    source = payload.get("source")
    for label in ("subagent", "thread_spawn", "parent_thread_id"):
        source = source.get(label) if isinstance(source, dict) else None
    return Line(
        "session_meta",
        [],
        session=_text(payload.get("id")),
        parent=_text(parent) or _text(source),
        folder=_text(payload.get("cwd")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _said(message: NewMessage, created_ms: int | None) -> list[NewMessage]:
    """Return a message with the role of who made it; [] if it has no words."""
    parts = without_original(message.parts or [])
    if message.parts and not any(_says_something(part) for part in parts):
        return []
    text = text_of(parts) if parts else message.text
    role = message.role
    if role == "user" and text.lstrip().startswith(TOOL_TAGS):
        role = "tool"
    if role == "user" and text.lstrip().startswith(SYSTEM_TAGS):
        role = "system"
    is_text = all(kind_of(part) == "text" for part in parts)
    kept = None if is_text else parts
    return [NewMessage(role, text, parts=kept, created_ms=created_ms)] if text.strip() else []


def _says_something(part: Any) -> bool:
    kind = kind_of(part)
    if kind == "other" and part.get("kind") == "empty message":
        return False
    return kind not in ("text", "thinking") or bool(text_value(part.get("text")).strip())
