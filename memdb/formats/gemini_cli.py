"""
Transcripts of Gemini CLI: the lines of a chat, as messages.

A message is written again, as a whole, when its tools have answered, so each of its texts,
thoughts, calls and results is a message of its own, with an id that stays. Older releases
write one JSON document with the same messages.

Source: docs/coding-agents.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.adapters.json_forms import storable
from memdb.formats.provider_parts import read_part
from memdb.models.messages import NewMessage
from memdb.models.transcripts import Line
from memdb.text.parts import content_text, json_text, text_of, text_value
from memdb.text.times import iso_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM_TAGS = ("<session_context>", "<hook_context>", "<system-reminder>")


def read_line(line: dict[str, Any]) -> Line:
    """
    Return what a line of a chat says.

    >>> read_line({"id": "m1", "type": "user", "content": "Hi."}).messages[0].external_id
    'm1'
    """
    if "sessionId" in line and "type" not in line:
        folders = line.get("directories")
        folder = folders[0] if isinstance(folders, list) and folders else None
        return Line(
            "header",
            [],
            session=text_value(line["sessionId"]) or None,
            folder=folder if isinstance(folder, str) else None,
        )
    kind = text_value(line.get("type")) or "$set"
    plain = storable(line)
    name = text_value(plain.get("id"))
    if kind not in ("user", "gemini"):
        return Line(kind, [])
    created_ms = iso_ms(plain.get("timestamp"))
    found = [one for one in _said(plain, kind, name) if one.text.strip()]
    return Line(kind, [one.replace(created_ms=created_ms) for one in found])


def _said(line: dict[str, Any], kind: str, name: str) -> Iterator[NewMessage]:
    """Yield the messages of a line, each with its id."""

    def named(suffix: str) -> str | None:
        return f"{name}{suffix}"[:1000] if name else None

    thoughts = line.get("thoughts")
    for number, one in enumerate(thoughts if isinstance(thoughts, list) else ()):
        if isinstance(one, dict):
            words = [text_value(one.get("subject")), text_value(one.get("description"))]
            part = {"type": "thinking", "text": ": ".join(word for word in words if word)}
            if part["text"]:
                yield NewMessage("assistant", text_of([part]), parts=[part],
                                 external_id=named(f"#thought{number}"))  # fmt: skip
    text = _content(line.get("content"))
    role = "assistant" if kind == "gemini" else "user"
    if role == "user" and text.lstrip().startswith(SYSTEM_TAGS):
        role = "system"
    yield NewMessage(role, text, external_id=named(""))
    calls = line.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield from _call(call, named)


def _call(call: dict[str, Any], named: Any) -> Iterator[NewMessage]:
    """Yield a call, and its result if it has one."""
    call_id, tool = text_value(call.get("id")), text_value(call.get("name"))
    args = call.get("args")
    part = {"type": "tool_call", "id": call_id, "name": tool,
            "arguments": args if isinstance(args, (str, dict)) else json_text(args)}  # fmt: skip
    yield NewMessage("assistant", text_of([part]), parts=[part], external_id=named(f"#{call_id}"))
    result = call.get("result")
    if result is not None:
        content = _result(result)
        answer = {"type": "tool_result", "tool_call_id": call_id, "name": tool, "content": content}
        if call.get("status") in ("error", "cancelled"):
            answer["is_error"] = True
        yield NewMessage("tool", content_text(content) or "[tool_result]", parts=[answer],
                         external_id=named(f"#{call_id}#result"))  # fmt: skip


def _result(result: Any) -> Any:
    """Return what a tool gave: the output of function responses, else all of it."""
    texts = []
    for one in result if isinstance(result, list) else [result]:
        told = one.get("functionResponse") if isinstance(one, dict) else None
        response = told.get("response") if isinstance(told, dict) else None
        if isinstance(response, dict):
            texts.append(json_text(response.get("output", response.get("error", response))))
    return "\n".join(texts) if texts else result


def _content(content: Any) -> str:
    """Return a text, or the texts of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        content = [content] if isinstance(content, dict) else []
    return text_of([read_part(one) for one in content if isinstance(one, (str, dict)) and one])
