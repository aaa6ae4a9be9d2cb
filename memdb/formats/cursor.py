"""
Transcripts of Cursor: the lines of an agent's chat, as messages.

A line has a role and blocks as Anthropic writes them, and neither id nor time. What the user
typed stands in `<user_query>`; the rest of a user's line is what Cursor attached.

Source: docs/coding-agents.md
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from memdb.adapters.json_forms import storable
from memdb.formats.provider_messages import role_of
from memdb.formats.provider_parts import read_part
from memdb.models.messages import NewMessage
from memdb.models.transcripts import Line
from memdb.text.parts import kind_of, text_of, text_value
from memdb.text.times import iso_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUERY, _QUERY_END = "<user_query>", "</user_query>"


def read_line(line: dict[str, Any]) -> Line:
    """
    Return what a line of a chat says.

    >>> text = "<open_files>a.py</open_files><user_query>Mend it.</user_query>"
    >>> said = read_line({"role": "user", "message": {"content": text}}).messages
    >>> [(one.role, one.text) for one in said]
    [('system', '<open_files>a.py</open_files>'), ('user', 'Mend it.')]
    """
    role = role_of(line.get("role"))
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else line.get("content")
    if role not in ("user", "assistant", "system", "tool"):
        return Line(text_value(line.get("type")) or "?", [])
    blocks = content if isinstance(content, list) else [content]
    read = [
        read_part(storable(block)) for block in blocks if isinstance(block, (str, dict)) and block
    ]
    said = [one for part in read for one in _roles(str(role), part)]
    created_ms = iso_ms(line.get("timestamp"))
    found = []
    for by, run in groupby(said, lambda one: one[0]):
        parts = [part for _, part in run]
        is_text = all(kind_of(part) == "text" for part in parts)
        found.append(
            NewMessage(by, text_of(parts), parts=None if is_text else parts, created_ms=created_ms)
        )
    return Line(str(role), [one for one in found if one.text.strip()])


def _roles(role: str, part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pieces of a part, each with its role."""
    if kind_of(part) == "tool_result":
        yield "tool", part
        return
    text = text_value(part.get("text"))
    queries, rest = _cut(text) if role == "user" and kind_of(part) == "text" else ([], text)
    if not queries:
        yield role, part
        return
    if rest.strip():
        yield "system", {"type": "text", "text": rest.strip()}
    for query in queries:
        yield "user", {"type": "text", "text": query.strip()}


def _cut(text: str) -> tuple[list[str], str]:
    """Return what stands in the closed `<user_query>` of a text, and the rest of it."""
    queries, rest, at = [], [], 0
    # A pattern would look for the end behind each beginning: a square of those never closed.
    while (start := text.find(_QUERY, at)) >= 0:
        end = text.find(_QUERY_END, start)
        if end < 0:
            break
        queries.append(text[start + len(_QUERY) : end])
        rest.append(text[at:start])
        at = end + len(_QUERY_END)
    return queries, "".join([*rest, text[at:]])
