"""
Markdown: one file with a heading per conversation and each text in a quotation.

A text stays inside its quotation, whatever it says: none of its lines is a heading or the end
of a list; `<` is written so that no reader takes it for HTML, and `![` so that no reader fetches
a picture.

`memdb import` reads conversations and entries again (`memdb.formats.imports.documents`): a
comment behind a message has its uid, one behind a session its name if that has characters that
are not shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from memdb.formats.writers.shared import (
    SECTIONS,
    SEPARATOR,
    one_line,
    parts_of,
    time_of,
    title_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

TITLE, APP = "# Memory of ", "App "

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=(?:amp;)*lt;)")
_ENTITIES = re.compile(r"&((?:amp;)*)lt;")
_PICTURE = re.compile(r"(\\*)!(?=\[)")
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!&])")
_MARKED = re.compile(r"\\(.)|&middot;")


def write(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the file."""
    section = ""
    for line in lines:
        kind = line["kind"]
        if kind == "scope":
            section = ""
            yield f"{TITLE}{plain(line['user'] or 'all users')}\n\n"
            yield f"{APP}{plain(line['app'])}\n\n"
            continue
        if kind in SECTIONS and SECTIONS[kind] != section:
            section = SECTIONS[kind]
            yield f"## {section}\n\n"
        if kind in ("session", "branch"):
            of = f" of {plain(line['session'])}" if kind == "branch" else ""
            yield f"### {plain(title_of(line))}{of}\n\n"
            name = f"{line['session']} ({line['name']})" if kind == "branch" else line["name"]
            yield f"{plain(name)}{SEPARATOR}{time_of(line)}{_exact(name)}\n\n"
            continue
        label = SEPARATOR.join(map(plain, parts_of(line, is_exact=True)))
        yield f"**{label}**{_identity(line)}\n\n{quoted(words_of(line))}\n\n"


def _identity(line: dict[str, Any]) -> str:
    """Return a comment with the uid of a message and its external id, "" for another record."""
    return _comment(line.get("uid"), line.get("external_id")) if line["kind"] == "message" else ""


def _exact(name: str) -> str:
    """Return a comment with a name that cannot be read from what is shown of it, else ""."""
    return "" if one_line(name) == name else _comment(name)


def _comment(*values: str | None) -> str:
    """Return a comment with the values that there are; nothing in them can end it."""
    return f" <!-- {' '.join(quote(value, safe='') for value in values if value)} -->"


def plain(text: object) -> str:
    """Return a text on one line in which no character is markup."""
    return _MARKS.sub(r"\\\1", one_line(text)).replace("·", "&middot;")


def unmarked(text: str) -> str:
    r"""
    Return a text as it was before it stood in a heading or label.

    >>> unmarked(r"\#1 \& 2 &middot; 3")
    '#1 & 2 · 3'
    """
    return _MARKED.sub(lambda found: found[1] or "·", text)


def quoted(text: str) -> str:
    """Return a text as a quotation."""
    harmless = _TAG.sub("&lt;", _ENTITY.sub("&amp;", text))
    harmless = _PICTURE.sub(lambda found: f"{found[1] * 2}\\!", harmless)
    return "\n".join(f"> {line}" if line else ">" for line in harmless.split("\n"))


def unquoted(lines: list[str]) -> str:
    r"""
    Return the text that stands in a quotation.

    >>> unquoted(quoted("<b> &lt; ![x](y)\n\n\\![z]").split("\n"))
    '<b> &lt; ![x](y)\n\n\\![z]'
    """
    text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)
    text = _PICTURE.sub(lambda found: f"{found[1][: len(found[1]) // 2]}!", text)
    return _ENTITIES.sub(lambda found: f"&{found[1][4:]}lt;" if found[1] else "<", text)
