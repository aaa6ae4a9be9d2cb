"""
Transcripts of coding agents: what a line of any of them says.

The module of a format has `read_line`; `line_reader` gives the one for a format, and
`format_of` tells the format by a line. Hooks and imports read with the functions here, so that
each message has the same session and the same id, whichever comes first.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.formats.claude_code import read_entry, title_of
from memdb.formats.codex import read_line as read_codex
from memdb.formats.cursor import read_line as read_cursor
from memdb.formats.gemini_cli import read_line as read_gemini_cli
from memdb.formats.projects import app_of
from memdb.models.record import Record
from memdb.models.transcripts import Line
from memdb.text.parts import text_value
from memdb.text.validate import MAX_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import PurePath

    from memdb.models.messages import NewMessage

# Lines that are looked at for the session and the folder; a longer line is no message but a
# file that was read.
HEAD_LINES = 50
MAX_LINE_BYTES = 32 << 20

SEPARATOR = "/"
SUBAGENTS = "subagents"

# What stands beside transcripts and is none.
NO_TRANSCRIPTS = ("journal.jsonl", "history.jsonl", "sessions-index.jsonl")


class Head(Record):
    """
    What the first lines of a transcript say.

    Attributes:
        session: The name of its session.
        app: Its project.
    """

    format: str
    session: str
    app: str


def line_reader(name: str) -> Callable[[dict[str, Any]], Line]:
    """Return the function that reads the lines of a format; InvalidInput for no format."""
    if name not in READERS:
        raise InvalidInput(f"format is {name!r}: use one of {', '.join(READERS)}")
    return READERS[name]


def read_claude_code(line: dict[str, Any]) -> Line:
    """Return what a line of Claude Code's says."""
    return Line(
        text_value(line.get("type")) or "?",
        read_entry(line, whole=False),
        session=text_value(line.get("sessionId")) or None,
        folder=text_value(line.get("cwd")) or None,
        title=title_of([line]),
    )


READERS = {
    "claude-code": read_claude_code,
    "codex": read_codex,
    "cursor": read_cursor,
    "gemini-cli": read_gemini_cli,
}


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
        path: Where it stands: sub-agents of Claude Code name their session by it.
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
    name = session or id_ or path.stem
    if SUBAGENTS in path.parts:  # <session>/subagents/.../agent-1.jsonl
        at = len(path.parts) - 1 - path.parts[::-1].index(SUBAGENTS)
        name = SEPARATOR.join([*path.parts[at - 1 : -1], path.stem])
    elif parent:
        name = SEPARATOR.join([parent, SUBAGENTS, name])
    place = app or (app_of(folder) if folder else path.parent.name or "default")
    return Head(chosen, name[:MAX_NAME_CHARS], place)


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
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return [
        one if one.external_id else one.replace(external_id=f"{offset}:{digest}#{number}")
        for number, one in enumerate(messages, start=1)
    ]


def document_lines(data: bytes) -> bytes:
    """
    Return a chat of Gemini CLI that is one JSON document as lines.

    Raises:
        InvalidInput: it is no JSON object.
    """
    value = parse_object(data)
    if value is None:
        raise InvalidInput("it is no JSON object: no chat of Gemini CLI")
    messages = value.pop("messages", None)
    lines = [value, *(messages if isinstance(messages, list) else ())]
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)
