"""
What the parts of a message say, as text that can be searched and counted.

Known part types: text, tool_call (name, arguments) and tool_result (content).
Arguments and content are text, or the JSON that a host keeps there. Others
(images, files, data of a host) are kept in the body and say nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def text_of(parts: Sequence[Any]) -> str:
    """
    Return the words in *parts*, a line per part.

    >>> text_of([{"type": "tool_call", "name": "read", "arguments": '{"path": "a"}'}])
    'read({"path": "a"})'
    >>> text_of([{"type": "tool_result", "content": [{"found": "北京"}]}])
    '[{"found": "北京"}]'
    """
    return "\n".join(said for said in map(_said, parts) if said)


def payload_of(parts: Sequence[Any]) -> str:
    """Return what *parts* say beyond their text parts: tool calls and results."""
    return text_of([part for part in parts if _kind(part) != "text"])


def _kind(part: Any) -> str:
    return str(part.get("type", "")) if isinstance(part, dict) else ""


def _said(part: Any) -> str:
    kind = _kind(part)
    if kind == "text":
        return _string(part.get("text"))
    if kind == "tool_call":
        return f"{_string(part.get('name'))}({_payload(part.get('arguments'))})"
    if kind == "tool_result":
        return _payload(part.get("content"))
    return ""


def _payload(value: Any) -> str:
    """Return what a tool was told or gave: a text, or whatever JSON as one."""
    if value is None or isinstance(value, str):
        return value or ""
    import json  # texts are the rule

    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""  # no JSON: the message is refused when its parts are stored


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
