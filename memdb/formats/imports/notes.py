"""
Notes: Markdown or plain text, as a file, a folder, a vault of Obsidian or its zip.

A note becomes an artifact of the user under its path, a changed note its next version.
Front matter, title, tags and links go into the version's metadata.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from memdb.formats.imports.base import Format, groups, read_text
from memdb.text.times import iso_ms
from memdb.transfer.lines import Item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

MARKDOWN = ("*.md", "*.markdown")
TEXT = ("*.txt", "*.text")
DATES = ("created", "date", "created_at")
DAY_CHARS = len("2026-05-01")

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^#\s+(.+?)\s*#*$", re.MULTILINE)
_TAG = re.compile(r"(?<![\w/#&])#([^\W\d_][\w/-]*)")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]+)")
_LINK = re.compile(r"\]\(([^()\s:]+\.md)(?:#[^()\s]*)?\)")
_KEY = re.compile(r"([\w][\w -]*):(?:\s+(.*))?$")


def _claim_markdown(tree: Tree) -> list[str]:
    """Claim files with a Markdown name, and text files beside them."""
    names = tree.named(*MARKDOWN)
    return sorted([*names, *tree.named(*TEXT)]) if names else []


def _claim_text(tree: Tree) -> list[str]:
    """Claim files with the name of a text."""
    return tree.named(*TEXT)


def _read(request: Request) -> Read:
    tree = request.tree
    texts = set(tree.named(*TEXT))
    found = ((name, name not in texts) for name in request.names)
    yield from groups(found, partial(_note, tree))


def _note(tree: Tree, name: str, is_markdown: bool) -> Iterator[Item]:  # noqa: FBT001 (private)
    text = read_text(tree, name)
    front, body = split_front_matter(text) if is_markdown else ({}, "")
    fields = {
        "name": f"user:{name}" if tree.is_alone else f"user:{tree.name}/{name}",
        "text": text,
        "mime": "text/markdown" if is_markdown else "text/plain",
        "created_ms": _time(front) or _day(name) or tree.changed_ms(name),
        "metadata": _metadata(front, body) or None,
    }
    yield Item(name, "artifact", fields)


def _time(front: dict[str, Any]) -> int | None:
    """Return the day or time in the front matter, None if there is none that can be read."""
    for key in DATES:
        found = iso_ms(front.get(key))
        if found is not None:
            return found
    return None


def _day(name: str) -> int | None:
    """Return the day at the beginning of a daily note's name, None if there is none."""
    return iso_ms(PurePath(name).name[:DAY_CHARS].replace("_", "-"))


def _metadata(front: dict[str, Any], body: str) -> dict[str, Any]:
    plain = _FENCE.sub("", body)
    about = dict(front)
    title = _TITLE.search(plain)
    if title and "title" not in about:
        about["title"] = title[1]
    given = about.pop("tags", None) or about.pop("tag", None) or []
    tags = given if isinstance(given, list) else re.split(r"[,\s]+", str(given))
    tags = [str(tag).removeprefix("#") for tag in tags] + _TAG.findall(plain)
    links = [link.strip() for link in _WIKI_LINK.findall(plain)] + _LINK.findall(plain)
    for key, found in (("tags", tags), ("links", links)):
        if unique := list(dict.fromkeys(filter(None, found))):
            about[key] = unique
    return about


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    r"""
    Return the fields between the lines of `---` at the top of a note, and the rest.

    Only the flat form that notes use is read: texts, and lists of texts; other YAML is kept as
    text.

    >>> split_front_matter("---\ntitle: Oslo\ntags: [trip, tent]\n---\nPack.")
    ({'title': 'Oslo', 'tags': ['trip', 'tent']}, 'Pack.')
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}, text
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if not end:
        return {}, text
    fields: dict[str, Any] = {}
    key = ""
    for line in lines[1:end]:
        found = _KEY.match(line)
        if found:
            key = found[1].strip()
            fields[key] = _value(found[2] or "")
        elif key and line.strip().startswith("- "):
            items = fields[key] if isinstance(fields[key], list) else []
            fields[key] = [*items, _unquoted(line.strip().removeprefix("- "))]
    return {name: value for name, value in fields.items() if value != ""}, "\n".join(
        lines[end + 1 :]
    )


def _value(text: str) -> str | list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(one) for one in text[1:-1].split(",") if one.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


FORMATS = {
    "markdown": Format("markdown", "notes in Markdown", _claim_markdown, _read, is_watched=True),
    "text": Format("text", "plain text", _claim_text, _read, is_watched=True),
}
