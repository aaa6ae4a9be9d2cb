"""
What the parts of a message say, as text that can be searched and counted.

Known part types: text, tool_call (name, arguments as JSON text) and
tool_result (content). Others (images, files, data of a host) are kept in the
body and say nothing.
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
        return f"{_string(part.get('name'))}({_string(part.get('arguments'))})"
    if kind == "tool_result":
        return _string(part.get("content"))
    return ""


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
