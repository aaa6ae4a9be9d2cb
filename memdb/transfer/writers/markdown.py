"""
Markdown: one file with a heading per conversation and each text in a quotation.

A text stays inside its quotation, whatever it says: none of its lines is a heading or the end
of a list; `<` is written so that no reader takes it for HTML, and `![` so that no reader fetches
a picture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memdb.transfer.writers.shared import (
    SECTIONS,
    label_of,
    one_line,
    time_of,
    title_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"!(?=\[)")
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def write(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of the file."""
    section = ""
    for line in lines:
        kind = line["kind"]
        if kind == "scope":
            section = ""
            yield f"# Memory of {_plain(line['user'] or 'all users')}\n\n"
            yield f"App {_plain(line['app'])}\n\n"
            continue
        if kind in SECTIONS and SECTIONS[kind] != section:
            section = SECTIONS[kind]
            yield f"## {section}\n\n"
        if kind in ("session", "branch"):
            of = f" of {_plain(line['session'])}" if kind == "branch" else ""
            yield f"### {_plain(title_of(line))}{of}\n\n"
            yield f"{_plain(line['name'])} · {time_of(line)}\n\n"
            continue
        yield f"**{_plain(label_of(line))}**\n\n{_quoted(words_of(line))}\n\n"


def _plain(text: object) -> str:
    """Return a text on one line in which no character is markup."""
    return _MARKS.sub(r"\\\1", one_line(text))


def _quoted(text: str) -> str:
    """Return a text as a quotation."""
    harmless = _PICTURE.sub(r"\\!", _TAG.sub("&lt;", text))
    return "\n".join(f"> {line}".rstrip() for line in harmless.split("\n"))
