"""
Edit settings in TOML as text: a table is added after all others, and removed again.

Every edit is verified with `tomllib`: the values are the old ones and those of the table.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from memdb.agents.json_text import Piece
from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|#[^\n]*|[\n\[\]{}]|[^\"'#\n\[\]{}]+|.",
    re.DOTALL,
)


def parse(text: str) -> dict[str, Any]:
    """
    Return the values of a text.

    Raises:
        InvalidInput: the text is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the file is not TOML ({error}): correct it first") from error


def add(text: str, path: tuple[str, ...], value: dict[str, Any]) -> list[Piece]:
    """
    Return the edit that adds the table at *path*.

    Raises:
        InvalidInput: a table on the path is written inline, and cannot be added to.
    """
    expected = parse(text)
    inner = expected
    for label in path[:-1]:
        inner = inner.setdefault(label, {})
        if not isinstance(inner, dict):
            raise InvalidInput(f"{label} is not a table: correct it first")
    inner[path[-1]] = value
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(one)}" for key, one in value.items()]
    newline = "\r\n" if "\r\n" in text else "\n"
    lead = "" if not text or text.endswith("\n") else newline
    gap = newline if text.strip() else ""
    piece = Piece(len(text), lead + gap + newline.join([*lines, ""]))
    try:
        changed = parse(text + piece.text)
    except InvalidInput as error:
        raise InvalidInput(
            f"{path[0]} is written inline: write it as [{path[0]}.name] tables first"
        ) from error
    if changed != expected:
        raise InvalidInput(f"{'.'.join(path)} cannot be added: add it to the file by hand")
    return [piece]


def remove(text: str, path: tuple[str, ...]) -> str:
    """
    Return *text* without the table at *path*, for a file that was changed since.

    memdb writes no comments, so every comment is the user's, and stays in its place.

    Raises:
        InvalidInput: the table is written in a form that memdb does not write.
    """
    expected = parse(text)
    inner: Any = expected
    for label in path[:-1]:
        inner = inner.get(label, {})
    if path[-1] not in inner:
        return text
    del inner[path[-1]]
    kept: list[str] = []
    header: tuple[str, ...] = ()
    for statement in _statements(text):
        name = _path_of(statement)
        is_header = statement.lstrip().startswith("[")
        header = name if is_header else header
        if not name or (name if is_header else header + name)[: len(path)] != path:
            kept.append(statement)
            continue
        if is_header and kept and not kept[-1].strip():
            kept.pop()  # the blank line that was put in with it
        newline = "\r\n" if statement.endswith("\r\n") else "\n"
        kept += [one + newline for one in comments(statement)]
    changed = "".join(kept)
    if _pruned(parse(changed)) != _pruned(expected):
        raise InvalidInput(f"{'.'.join(path)} cannot be removed: remove it from the file by hand")
    return changed


def _statements(text: str) -> Iterator[str]:
    """Yield the headers, values, comments and blank lines of a text, each with its line end."""
    start = depth = 0
    for match in _TOKEN.finditer(text):
        depth += (match[0] in ("[", "{")) - (match[0] in ("]", "}"))
        if match[0] == "\n" and depth == 0:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]


def _path_of(statement: str) -> tuple[str, ...]:
    """Return the labels of a header or of a value; () for a comment."""
    labels: list[str] = []
    value: Any = parse(statement)
    while isinstance(value, (dict, list)) and len(value) == 1:
        if isinstance(value, dict):
            labels += value
        (value,) = value.values() if isinstance(value, dict) else value
    return tuple(labels)


def comments(text: str) -> list[str]:
    """Return the comments of a text, or of whole statements of one."""
    return [one.rstrip() for one in _TOKEN.findall(text) if one.startswith("#")]


def _pruned(value: Any) -> Any:
    """Return tables without those that are empty."""
    if not isinstance(value, dict):
        return value
    kept = {key: _pruned(one) for key, one in value.items()}
    return {key: one for key, one in kept.items() if one != {}}


def _key(label: str) -> str:
    return label if re.fullmatch(r"[A-Za-z0-9_-]+", label) else _value(label)


def _value(value: Any) -> str:
    """Return a text, number, flag or list of them; its JSON form is also its TOML form."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
