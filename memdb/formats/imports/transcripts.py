"""
Transcripts of coding agents, with the sessions and ids that hooks use.

So `memdb import` for the same user and app does not store again what a hook stored, and the other
way round. A record is a line; the readers of the four programs are in `memdb.formats.transcripts`.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import Format, groups, read_bytes
from memdb.formats.transcripts import (
    MAX_LINE_BYTES,
    NO_TRANSCRIPTS,
    READERS,
    Prompts,
    document_lines,
    format_of,
    line_reader,
    parse_object,
    read_head,
    repeats,
    session_of,
    spoken,
    with_ids,
)
from memdb.text.secrets import redact_secrets
from memdb.transfer.lines import Item, left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree
    from memdb.formats.transcripts import Head, Line

# Bytes of a file in which a line has to tell its program, if its first object does not.
DETECTED_BYTES = 1 << 16

# A line of each program has one of these fields; words alone are no sign.
MARKS = {
    "claude-code": {"sessionId", "leafUuid", "parentUuid", "messageId"},
    "codex": {"payload"},
    "gemini-cli": {"projectHash"},
    "cursor": {"message"},
}


def _claim(tree: Tree, program: str) -> list[str]:
    """Claim files with a line of a program among their first lines."""
    if tree.is_database:
        return []
    names = [name for name in tree.candidates("*.jsonl", "*.json") if _may_be(name)]
    return [name for name in names if program in _programs(tree, name)]


def _may_be(name: str) -> bool:
    return name.rpartition("/")[2] not in NO_TRANSCRIPTS


def _programs(tree: Tree, name: str) -> set[str | None]:
    """Return the programs whose marks the first lines of a file have."""
    if tree.first_character(name) != b"{":
        return set()
    with tree.open(name, counts=False) as source:
        lines = source.read(DETECTED_BYTES).splitlines()
    values = [value for value in map(parse_object, lines) if value is not None]
    values.append(tree.peek(name))
    return {_program(value) for value in values}


def _program(value: dict[str, Any]) -> str | None:
    """Return the program of a line that has its marks."""
    chosen = format_of(value)
    return chosen if chosen and MARKS[chosen] & value.keys() else None


def _read(request: Request) -> Read:
    homes: dict[str, str] = {}  # a line that was copied stays where it came first
    for name in request.names:
        yield from _Transcript(request.tree, name, homes).read()


class _Transcript:
    """One file: read once for its session and title, and once for its messages."""

    def __init__(self, tree: Tree, name: str, homes: dict[str, str]) -> None:
        self._tree = tree
        self._homes = homes
        self._name = name
        above = PurePath(os.path.abspath(tree.path))
        self._path = above if tree.is_alone else above / name
        self._has_session = False
        self._taken: set[int] = set()  # where lines begin that were taken back
        self._before: dict[int, str | None] = {}  # the message before each line, if any was

    def read(self) -> Read:
        """Yield a group per line; the first with messages has the session."""
        head = read_head((raw for _, _, raw in self._lines()), self._path)
        if head is None:
            yield left_out(self._name, "files", "they name no session of a known program")
            return
        read = line_reader(head.format)
        lines = self._scan(head, read)
        title = max((one.title for one in lines), key=lambda one: one[0], default=(-1, ""))[1]
        said = spoken(lines) if any(one.is_echo for one in lines) else ""
        del lines
        for is_taken in (False, True) if self._taken else (False,):
            found = (
                (self._tree.place(self._name, f"line {number}"), (at, raw))
                for number, (at, _, raw) in enumerate(self._lines(counts=not is_taken), start=1)
                if (at in self._taken) == is_taken
            )
            yield from groups(found, partial(self._line, head, title, said))

    def _scan(self, head: Head, read: Callable[[dict[str, Any]], Line]) -> list[Line]:
        """Return the lines, and note which of them later ones replaced."""
        lines, prompts = [], Prompts()
        way: list[tuple[int, list[str]]] = []
        steps: dict[str, int] = {}  # of the way, by the ids of its messages
        for at, _, raw in self._lines():
            value = parse_object(raw)
            if value is None:
                continue
            lines.append(line := read(value))
            if not line.messages or session_of(head, line) != head.session:
                continue
            first = steps.get(prompts.taken_back(line) or "", len(way))
            for begin, ids in way[first:]:
                self._taken.add(begin)
                for one in ids:
                    steps.pop(one, None)
            del way[first:]
            prompts.note(line)
            self._before[at] = way[-1][1][-1] if way else None
            ids = [str(one.external_id) for one in with_ids(line.messages, at, raw)]
            steps |= dict.fromkeys(ids, len(way))
            way.append((at, ids))
        if not self._taken:
            self._before.clear()
        return lines

    def _line(
        self, head: Head, title: str, known: str, place: str, line: tuple[int, bytes]
    ) -> Iterator[Item]:
        """Yield the messages of a line; *known* is what other lines say for certain."""
        at, raw = line
        if not raw.strip():
            return
        value = parse_object(raw)
        if value is None:
            long = f"it is over {MAX_LINE_BYTES >> 20} MiB"
            raise InvalidInput(long if len(raw) > MAX_LINE_BYTES else "it is not a JSON object")
        said = line_reader(head.format)(value)
        if not said.messages:
            yield left_out(place, "lines", f"they have no words: {said.kind}")
            return
        if repeats(said, known):
            yield left_out(place, "lines", f"others say the same: {said.kind}")
            return
        own = session_of(head, said)
        if own == head.session and not self._has_session:
            self._has_session = True
            about = {"name": head.session, "title": redact_secrets(title) if title else None}
            yield Item(place, "session", about)
        for message in with_ids(said.messages, at, raw):
            session = own
            if head.id is not None and message.external_id:
                session = self._homes.setdefault(message.external_id, own)
            fields = {name: getattr(message, name) for name in FIELDS}
            given = {name: one for name, one in fields.items() if one is not None}
            if at in self._before:
                given["after"] = self._before[at]
                self._before[at] = message.external_id
            yield Item(place, "message", {**given, "session": session})

    def _lines(self, *, counts: bool = False) -> Iterator[tuple[int, int, bytes]]:
        """Yield start and end of each line, and its bytes with the line end."""
        at = 0
        if self._name.endswith(".json"):
            # Gemini CLI before 2026 rewrites a document as a whole.
            data = document_lines(read_bytes(self._tree, self._name))
            for raw in data.splitlines(keepends=True):
                yield at, at + len(raw), raw
                at += len(raw)
            return
        with self._tree.open(self._name, counts=counts) as source:
            while raw := source.read_line(MAX_LINE_BYTES):
                end = at + len(raw)
                while not raw.endswith(b"\n") and len(raw) > MAX_LINE_BYTES:
                    rest = source.read_line(MAX_LINE_BYTES)
                    end += len(rest)
                    if rest.endswith(b"\n") or not rest:
                        break
                # The line end that a line without one will get, so that its ids stay.
                yield at, end, raw if raw.endswith(b"\n") else raw + b"\n"
                at = end


FIELDS = ("role", "text", "author", "parts", "external_id", "created_ms")
LABELS = {
    "claude-code": "a transcript of Claude Code",
    "codex": "a transcript of Codex",
    "gemini-cli": "a chat of Gemini CLI",
    "cursor": "a transcript of Cursor",
}
FORMATS = {
    name: Format(name, LABELS[name], partial(_claim, program=name), _read, is_captured=True)
    for name in READERS
}
