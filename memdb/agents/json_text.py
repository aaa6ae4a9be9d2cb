"""
Edit settings in JSON as text, so that everything else keeps its bytes.

Comments, trailing commas, a byte order mark and any line ends stay, because programs accept such
settings. An edit inserts a piece of text at an offset, so that it can be removed again.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.record import Record

if TYPE_CHECKING:
    Members = tuple[list[tuple[Any, int, "Node"]], int]

MAX_DEPTH = 200

_BLANK = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
_DECODER = json.JSONDecoder()


class Node:
    """
    A value in a text.

    Attributes:
        start, end: Its place in the text, as offsets.
        value: The value itself.
    """

    def __init__(
        self, text: str, start: int, end: int, value: Any, members: Members | None
    ) -> None:
        """Store a value; *members* None means that they are read when needed."""
        self.start, self.end, self.value = start, end, value
        self._text = text
        self._members = members

    @property
    def members(self) -> list[tuple[Any, int, Node]]:
        """The members of an object or list: key or index, offset, and node."""
        return self._known()[0]

    @property
    def trailing(self) -> int:
        """Offset of a comma after the last member, -1 if there is none."""
        return self._known()[1]

    def _known(self) -> Members:
        if self._members is None:
            is_many = isinstance(self.value, (dict, list))
            node = _read_many(self._text, self.start, 0) if is_many else None
            self._members = (node.members, node.trailing) if node else ([], -1)
        return self._members

    def find(self, key: Any) -> Node | None:
        """Return the member with a key; the last one if there are two."""
        return next((node for name, _, node in reversed(self.members) if name == key), None)


class Piece(Record):
    """A text to insert at an offset."""

    offset: int
    text: str


def parse(text: str) -> Node | None:
    """
    Return the value of a text with the places of its parts; None for a text without a value.

    Raises:
        InvalidInput: the text is not JSON with comments and trailing commas; the error names the
            line.
    """
    start = _skip(text, 0)
    if start == len(text):
        return None
    node = _read(text, start, 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise _problem(text, end)
    return node


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _problem(text: str, at: int) -> InvalidInput:
    line = text.count("\n", 0, at) + 1
    return InvalidInput(f"line {line} is not JSON: correct it first")


def _read(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the JSON is nested over {MAX_DEPTH} deep: make it flatter")
    try:
        # Strict JSON, as nearly all of a file is, in a thirtieth of the time.
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        if text[at : at + 1] in ("{", "["):
            return _read_many(text, at, depth)
        raise _problem(text, at) from error
    return Node(text, at, end, value, None)


def _read_many(text: str, start: int, depth: int) -> Node:
    """Read an object or a list."""
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    members: list[tuple[Any, int, Node]] = []
    trailing, at = -1, _skip(text, start + 1)
    while text[at : at + 1] != close:
        if members and trailing == -1:
            raise _problem(text, at)
        begin, key = at, len(members)
        if is_object:
            name = _read(text, at, depth + 1)
            key = name.value
            colon = _skip(text, name.end)
            if not isinstance(key, str) or text[colon : colon + 1] != ":":
                raise _problem(text, colon)
            at = _skip(text, colon + 1)
        node = _read(text, at, depth + 1)
        members.append((key, begin, node))
        at = _skip(text, node.end)
        trailing = -1
        if text[at : at + 1] == ",":
            trailing, at = at, _skip(text, at + 1)
    values = [node.value for _, _, node in members]
    value = dict(zip((key for key, _, _ in members), values, strict=True)) if is_object else values
    return Node(text, start, at + 1, value, (members, trailing))


def add(text: str, path: tuple[str, ...], key: str | None, value: Any) -> list[Piece]:
    """
    Return the edits that add a member to the object at *path*, which is created if it is missing.

    Args:
        key: Its key; None adds to the end of a list at *path*.

    Raises:
        InvalidInput: a value on the path is not an object, or the last one is not a list.
    """
    node = parse(text)
    wrapped = value if key is not None else [value]
    missing = list(path)
    for depth, label in enumerate(path):
        if node is None or not isinstance(node.value, dict):
            break
        found = node.find(label)
        if found is None:
            break
        node, missing = found, list(path[depth + 1 :])
    place = ".".join(path[: len(path) - len(missing)]) or "the file"
    if key is None and missing:
        key = missing.pop()
        value = wrapped
    expected = list if key is None else dict
    if node is not None and not isinstance(node.value, expected):
        word = "list" if expected is list else "object"
        raise InvalidInput(f"{place} is not a JSON {word}: correct it first")
    for label in reversed(missing):
        key, value = label, {key: value}
    if node is None:
        return [Piece(len(text), _render({key: value}, "  ", "") + "\n")]
    return _insert(text, node, key, value)


def _insert(text: str, node: Node, key: str | None, value: Any) -> list[Piece]:
    """Return the edits that add a member after the last one of *node*."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not node.members:
        base = _indent_at(text, node.start)
        member = label + _render(value, unit, base + unit)
        inner = text[node.start + 1 : node.end - 1]
        at = node.start + 1
        tail = "" if "\n" in inner else newline + base
        if inner.strip():  # a comment
            at, tail = node.end - 1, newline + base
        return _with(newline, [Piece(at, f"\n{base}{unit}{member}{tail}")])
    _, begin, last = node.members[-1]
    if "\n" not in text[node.start : begin]:
        member = label + json.dumps(value, ensure_ascii=False)
        if node.trailing >= 0:
            return [Piece(node.trailing + 1, f" {member},")]
        return [Piece(last.end, f", {member}")]
    base = _indent_at(text, begin)
    member = f"\n{base}{label}{_render(value, unit, base)}"
    end = last.end if node.trailing < 0 else node.trailing + 1
    note = _REST_OF_LINE.match(text, end)
    if node.trailing >= 0:
        return _with(newline, [Piece(note.end() if note else end, f"{member},")])
    if note is None:
        return _with(newline, [Piece(end, f",{member}")])
    return _with(newline, [Piece(end, ","), Piece(note.end(), member)])


def _with(newline: str, pieces: list[Piece]) -> list[Piece]:
    if newline == "\n":
        return pieces
    return [piece.replace(text=piece.text.replace("\n", newline)) for piece in pieces]


def _render(value: Any, unit: str, base: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=unit)
    return text.replace("\n", f"\n{base}")


def _unit(text: str) -> str:
    """Return one step of the indentation of the text."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _indent_at(text: str, at: int) -> str:
    """Return the indentation of the line with an offset."""
    start = text.rfind("\n", 0, at) + 1
    match = re.compile(r"[ \t]*").match(text, start)
    return match[0] if match else ""


def remove(text: str, path: tuple[Any, ...]) -> str:
    """
    Return *text* without the member at *path*, for a file that was changed since.

    memdb writes no comments, so every comment is the user's, and stays in its place.
    """
    node, parent = parse(text), None
    for label in path:
        parent = node
        node = node.find(label) if node is not None else None
    if node is None or parent is None:
        return text
    number = next(at for at, (_, _, one) in enumerate(parent.members) if one is node)
    begin, end = parent.members[number][1], node.end
    head, tail = text[:begin], text[end:]
    comma = _skip(text, end)
    if text[comma : comma + 1] == ",":
        tail = text[end:comma] + text[comma + 1 :]
    elif number > 0:
        comma = _skip(text, parent.members[number - 1][2].end)
        head = text[:comma] + text[comma + 1 : begin]
    head, tail = _cut(head, comments(text[begin:end]), tail)
    close = parent.end - 1 - len(text)  # counted from the end, which stays
    inner = head[parent.start + 1 :] + tail[:close]
    if not inner.strip() and inner.count("\n") <= 1:
        return head[: parent.start + 1] + tail[close:]
    return head + tail


def _cut(head: str, kept: list[str], tail: str) -> tuple[str, str]:
    """Return the texts before and after a removed piece, without a line that becomes empty."""
    before = head.rstrip(" \t")
    behind = tail.lstrip(" \t")
    is_line_end = behind.startswith(("\n", "\r\n"))
    if kept:
        newline = f"\n{_indent_at(head, len(head))}"
        is_open = kept[-1].startswith("//") and not is_line_end
        return head + newline.join(kept) + newline * is_open, tail
    if before.endswith("\n") and is_line_end:
        return before, behind[behind.index("\n") + 1 :]
    if is_line_end:
        return before, behind
    return (before, tail) if behind.startswith(("}", "]")) else (head, behind)


def comments(text: str) -> list[str]:
    """Return the comments of a text, or of a piece of one."""
    return [one.rstrip("\r") for one in _STRING_OR_COMMENT.findall(text) if one[0] == "/"]
