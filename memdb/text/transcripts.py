"""
Transcripts of coding agents: what a line of any of them says.

The module of a format has `read_line`; `line_reader` gives the one for a format, and
`format_of` tells the format by a line.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.transcripts import Line
from memdb.text.claude_code import read_entry, title_of
from memdb.text.codex import read_line as read_codex
from memdb.text.cursor import read_line as read_cursor
from memdb.text.gemini_cli import read_line as read_gemini_cli
from memdb.text.parts import text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


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
