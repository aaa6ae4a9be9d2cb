"""
Transcripts of coding agents: what a line of any of them says.

`line_reader` gives the function that reads a line of a format, and `format_of` tells the format by
a line. Hooks and imports read with the functions here, so that each message has the same session
and the same id, whichever comes first. Claude Code has a module of its own.

Codex: a rollout contains two logs: `response_item` is what the model got and gave, `event_msg` what
the terminal showed of it. Words of the second count where the first has not got them: older
sessions have no others. What Codex puts into the mouth of the user (its environment, AGENTS.md)
is not the user's.

Cursor: a line has a role and blocks as Anthropic writes them, and neither id nor time. What the
user typed stands in `<user_query>`; the rest of a user's line is what Cursor attached.

Gemini CLI writes a message again, as a whole, when its tools have answered. So each of its texts,
thoughts, calls and results is a message of its own, with an id that stays. Older releases
write one JSON document with the same messages.

Source: docs/coding-agents.md
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.formats.claude_code import is_echo, program_role, read_entry, title_of
from memdb.formats.projects import app_of
from memdb.formats.provider_messages import read_messages
from memdb.formats.provider_parts import read_part
from memdb.models.ids import made_id
from memdb.models.messages import NewMessage, role_of
from memdb.models.record import Record
from memdb.text.parts import content_text, json_text, kind_of, text_of, text_value, without_original
from memdb.text.times import iso_ms
from memdb.text.validate import MAX_NAME_CHARS, fit_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import PurePath


class Line(Record):
    """
    The contents of a line of a transcript.

    Attributes:
        kind: What the program calls the line, to count what is left out.
        messages: What was said, in the roles of those who said it; [] for a line without.
        session: The id of the session, where the line tells it.
        parent: The id of the session whose agent started this one.
        folder: The working directory.
        title: The rank and text of a title, a higher rank being stronger; (-1, "") for none.
        is_echo: Another line may say the same: it counts where none does.
        behind: The id of the line before it, where the line tells it.
    """

    kind: str
    messages: list[NewMessage]
    session: str | None = None
    parent: str | None = None
    folder: str | None = None
    title: tuple[int, str] = (-1, "")
    is_echo: bool = False
    behind: str | None = None


# Lines that are looked at for the session and the folder; a longer line is no message but a
# file that was read.
HEAD_LINES = 50
MAX_LINE_BYTES = 32 << 20
MAX_PROMPTS = 50  # that a retyped turn is looked up in, once the transcript grows

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SEPARATOR = "/"
SUBAGENTS = "subagents"

# What stands beside transcripts and is none.
NO_TRANSCRIPTS = ("journal.jsonl", "history.jsonl", "sessions-index.jsonl")


class Head(Record):
    """
    The contents of the first lines of a transcript.

    Attributes:
        session: The name of its session.
        app: Its project.
        id: What its own lines call the session; None of a sub-agent, whose lines name another.
    """

    format: str
    session: str
    app: str
    id: str | None = None


def session_of(head: Head, line: Line) -> str:
    """Return the session of a line: a fork begins with those of the session that it left."""
    is_own = head.id is None or line.session in (None, head.id)
    return head.session if is_own or line.session is None else line.session[:MAX_NAME_CHARS]


class Prompts:
    """
    Prompts of the user, by the line before each: two behind one line are a turn typed again.

    The second takes the place of the first one, and of all that was said behind that.
    """

    def __init__(self, known: Iterable[tuple[str, str]] = ()) -> None:
        """Begin with what is *known*: the line before a prompt, and the prompt's external id."""
        self._by_line = dict(known)

    def taken_back(self, line: Line) -> str | None:
        """
        Return the external id of the prompt that *line* stands in place of, None if there is none.
        """
        known = self._by_line.get(line.behind or "")
        return known if known != self._id_of(line) and self._id_of(line) else None

    def note(self, line: Line) -> None:
        """Note a line that is stored."""
        if line.behind and (name := self._id_of(line)):
            self._by_line[line.behind] = name

    def newest(self) -> tuple[tuple[str, str], ...]:
        """Return the newest of them, for the next time."""
        return tuple(self._by_line.items())[-MAX_PROMPTS:]

    def _id_of(self, line: Line) -> str | None:
        is_prompt = line.messages and line.messages[0].role == "user"
        return line.messages[0].external_id if is_prompt else None


def spoken(lines: Iterable[Line]) -> str:
    """Return all that lines say for certain, to look an echo up in it."""
    return "\n".join(
        one.text
        for line in lines
        if not line.is_echo
        for one in line.messages
        if one.role != "tool"
    )


def repeats(line: Line, said: str) -> bool:
    """Return whether a line is an echo of what was *said*."""
    return line.is_echo and all(one.text.strip() in said for one in line.messages)


def line_reader(name: str) -> Callable[[dict[str, Any]], Line]:
    """Return the function that reads the lines of a format; InvalidInput for no format."""
    if name not in READERS:
        raise InvalidInput(f"format is {name!r}: use one of {', '.join(READERS)}")
    return READERS[name]


def read_claude_code(line: dict[str, Any]) -> Line:
    """Return what a line of Claude Code's says."""
    origin = line.get("forkedFrom")
    source = origin.get("sessionId") if isinstance(origin, dict) else None
    return Line(
        text_value(line.get("type")) or "?",
        read_entry(line, whole=False),
        session=text_value(source) or text_value(line.get("sessionId")) or None,
        folder=text_value(line.get("cwd")) or None,
        title=title_of([line]),
        is_echo=is_echo(line),
        behind=text_value(line.get("parentUuid")) or None,
    )


def format_of(line: dict[str, Any]) -> str | None:
    """Return the format that a line is of; None if it could be of several, or is of none."""
    kind = line.get("type")
    if isinstance(line.get("payload"), dict) or kind == "session_meta" or "instructions" in line:
        return "codex"
    if "projectHash" in line or (kind in ("user", "gemini") and "content" in line):
        return "gemini-cli"
    if isinstance(kind, str) and ("sessionId" in line or "leafUuid" in line or "uuid" in line):
        return "claude-code"
    if "role" in line and ("message" in line or "content" in line):
        return "cursor" if kind is None else "codex"
    return None


def read_head(
    lines: Iterable[bytes], path: PurePath, session: str | None = None, app: str | None = None
) -> Head | None:
    """
    Return format, session and project of a transcript; None if it is of no known program.

    Args:
        lines: From the first one on; about `HEAD_LINES` of them are read.
        path: Place where it stands: sub-agents of Claude Code name their session by it.
        session: Its name; None means by the id that the transcript names.
        app: The project; None means by the working directory that it names.
    """
    chosen: str | None = None
    id_, parent, folder = None, None, None
    for number, raw in enumerate(lines):
        value = parse_object(raw)
        if number >= HEAD_LINES or (id_ and folder):
            break
        if value is None:
            continue
        chosen = chosen or format_of(value)
        if chosen is None:
            continue
        line = line_reader(chosen)(value)
        id_, parent, folder = id_ or line.session, parent or line.parent, folder or line.folder
    if chosen is None:
        return None
    if chosen == "claude-code" and _UUID.fullmatch(path.stem):  # a fork's first lines name another
        id_ = path.stem
    name = session or id_ or path.stem
    if SUBAGENTS in path.parts:  # <session>/subagents/.../agent-1.jsonl
        at = len(path.parts) - 1 - path.parts[::-1].index(SUBAGENTS)
        name, id_ = SEPARATOR.join([*path.parts[at - 1 : -1], path.stem]), None
    elif parent:
        name = SEPARATOR.join([parent, SUBAGENTS, name])
    place = app or (app_of(folder) if folder else path.parent.name or "default")
    return Head(chosen, name[:MAX_NAME_CHARS], place, id_ if chosen == "claude-code" else None)


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if it is none."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def with_ids(messages: list[NewMessage], offset: int, raw: bytes) -> list[NewMessage]:
    """
    Return messages with ids that follow from their line, where the line has none.

    Args:
        offset: The byte of the transcript at which the line begins.
        raw: The line with its line end.
    """
    made = made_id(str(offset), raw)
    return [
        one if one.external_id else one.replace(external_id=f"{made}#{number}")
        for number, one in enumerate(messages, start=1)
    ]


def document_lines(data: bytes) -> bytes:
    """
    Return a chat of Gemini CLI that is one JSON document as lines.

    Raises:
        InvalidInput: *data* is no JSON object.
    """
    value = parse_object(data)
    if value is None:
        raise InvalidInput("the line is not a JSON object, so this is not a chat of Gemini CLI")
    messages = value.pop("messages", None)
    lines = [value, *(messages if isinstance(messages, list) else ())]
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def read_codex(line: dict[str, Any]) -> Line:
    """
    Return what a line of a rollout says.

    >>> said = {"type": "message", "role": "user", "content": "Hi."}
    >>> read_codex({"type": "response_item", "payload": said}).messages[0].text
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
    if outer != "response_item":
        return _event(outer, kind, payload, created_ms)
    try:
        read = read_messages(fit_value(payload))
    except InvalidInput:
        return Line(kind, [])
    return Line(kind, [one for message in read for one in _codex_said(message, created_ms)])


# Roles of the lines that tell what was said beside the response items.
EVENTS = {
    "compacted": "system",
    "event_msg/user_message": "user",
    "event_msg/agent_message": "assistant",
}


def _event(outer: str, kind: str, payload: dict[str, Any], created_ms: int | None) -> Line:
    """Return what another line tells: a summary, a folder, a title, or words said elsewhere."""
    text = text_value(fit_value(payload.get("message")))
    name = " ".join(text_value(fit_value(payload.get("thread_name"))).split())
    role = EVENTS.get(kind) or EVENTS.get(outer)
    said = [NewMessage(role, text, created_ms=created_ms)] if role and text.strip() else []
    return Line(
        kind if outer == "event_msg" else outer,
        said,
        folder=_text(payload.get("cwd")) if outer == "turn_context" else None,
        title=(0, name[:MAX_NAME_CHARS]) if name else (-1, ""),
        is_echo=outer == "event_msg",
    )


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


def _codex_said(message: NewMessage, created_ms: int | None) -> list[NewMessage]:
    """Return a message with the role of who made it; [] if it has no words."""
    parts = without_original(message.parts or [])
    if message.parts and not any(_says_something(part) for part in parts):
        return []
    text = text_of(parts) if parts else message.text
    role = message.role
    if role == "user":
        role, _ = program_role(text) or (role, None)
    is_text = all(kind_of(part) == "text" for part in parts)
    kept = None if is_text else parts
    return [NewMessage(role, text, parts=kept, created_ms=created_ms)] if text.strip() else []


def _says_something(part: Any) -> bool:
    kind = kind_of(part)
    if kind == "other" and part.get("kind") == "empty message":
        return False
    return kind not in ("text", "thinking") or bool(text_value(part.get("text")).strip())


_QUERY, _QUERY_END = "<user_query>", "</user_query>"


def read_cursor(line: dict[str, Any]) -> Line:
    """
    Return what a line of a chat says.

    >>> text = "<open_files>a.py</open_files><user_query>Fix it.</user_query>"
    >>> said = read_cursor({"role": "user", "message": {"content": text}}).messages
    >>> [(one.role, one.text) for one in said]
    [('system', '<open_files>a.py</open_files>'), ('user', 'Fix it.')]
    """
    role = role_of(line.get("role"))
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else line.get("content")
    if role not in ("user", "assistant", "system", "tool"):
        return Line(text_value(line.get("type")) or "?", [])
    blocks = content if isinstance(content, list) else [content]
    read = [
        read_part(fit_value(block)) for block in blocks if isinstance(block, (str, dict)) and block
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


def read_gemini_cli(line: dict[str, Any]) -> Line:
    """
    Return what a line of a chat says.

    >>> read_gemini_cli({"id": "m1", "type": "user", "content": "Hi."}).messages[0].external_id
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
    plain = fit_value(line)
    name = text_value(plain.get("id"))
    if kind not in ("user", "gemini"):
        return Line(kind, [])
    created_ms = iso_ms(plain.get("timestamp"))
    found = [one for one in _gemini_said(plain, kind, name) if one.text.strip()]
    return Line(kind, [one.replace(created_ms=created_ms) for one in found])


def _gemini_said(line: dict[str, Any], kind: str, name: str) -> Iterator[NewMessage]:
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
    if role == "user":
        role, _ = program_role(text) or (role, None)
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


READERS = {
    "claude-code": read_claude_code,
    "codex": read_codex,
    "cursor": read_cursor,
    "gemini-cli": read_gemini_cli,
}
