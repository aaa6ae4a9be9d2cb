"""
What the writers of exports for people share: headings, times, and words of a record.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memdb.text.trust import TRUST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# What a section of a user's memory is called, by the kind of its first line.
SECTIONS = {
    "session": "Conversations",
    "branch": "Branches of conversations",
    "summary": "Summaries",
    "entry": "What is remembered",
    "artifact": "Artifacts",
    "item": "Items",
    "state": "State",
}

# What stands between the parts of a label, and before those of an entry.
SEPARATOR = " · "
KEY, KEYWORDS, TRUSTED, UNTIL = "key: ", "keywords: ", "trust: ", "until "
KEYWORD_MARK = "; "
OLD = "no longer so"

# Control characters, and marks that turn the direction of what follows.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def time_of(line: dict[str, Any], *, is_exact: bool = False) -> str:
    """Return the time of a line as "2025-03-01 09:30:00Z"; "" if it has none."""
    given = line.get("created_ms")
    if given is None:
        return ""
    try:
        moment = datetime.fromtimestamp(given / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{given} ms"
    rest = f".{given % 1000:03}" if is_exact and given % 1000 else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{rest}Z"


def shown(text: str) -> str:
    """Return a text with U+FFFD for what would not be seen; tabs and line ends stay."""
    return _HIDDEN.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """Return a text on one line."""
    return " ".join(shown(str(text)).split())


def title_of(line: dict[str, Any]) -> str:
    """Return what a conversation or a branch is called."""
    return one_line(line.get("title") or line["name"]) or "unnamed"


def parts_of(line: dict[str, Any], *, is_exact: bool = False) -> list[str]:
    """Return what stands before the words of a record: who, which, when."""
    kind = line["kind"]
    words: list[object] = []
    if kind == "message":
        words = [f"#{line['seq']}", line["role"], line.get("author")]
    elif kind == "summary":
        words = [line["session"], f"#{line['first_seq']} to #{line['last_seq']}"]
    elif kind == "entry":
        words = [line["category"], *_about_entry(line)]
    elif kind == "artifact":
        words = [line["name"], f"version {line.get('version', 1)}", line.get("mime")]
    elif kind == "item":
        words = ["/".join(map(str, line["namespace"])), line["key"]]
    elif kind == "state":
        words = [line["key"]]
    found = (*words, time_of(line, is_exact=is_exact))
    return [one_line(word) for word in found if word not in (None, "")]


def _about_entry(line: dict[str, Any]) -> Iterator[str]:
    """Yield what an entry is known by and how far it holds."""
    if line.get("key"):
        yield f"{KEY}{line['key']}"
    if line.get("keywords"):
        yield f"{KEYWORDS}{KEYWORD_MARK.join(line['keywords'])}"
    if line.get("trust", TRUST[0]) != TRUST[0]:
        yield f"{TRUSTED}{line['trust']}"
    if line.get("expires_ms") is not None:
        yield f"{UNTIL}{time_of({'created_ms': line['expires_ms']}, is_exact=True)}"
    if not line.get("active", True):
        yield OLD


def label_of(line: dict[str, Any]) -> str:
    """Return `parts_of` as one text."""
    return SEPARATOR.join(parts_of(line))


def words_of(line: dict[str, Any]) -> str:
    """Return the words of a record: its text, or its value as JSON."""
    if isinstance(line.get("text"), str):
        return shown(line["text"])
    if line["kind"] == "artifact":
        return "(bytes that are no text)"
    if "value" in line:
        return shown(json.dumps(line["value"], ensure_ascii=False, indent=1))
    return "(bytes)" if "data" in line else ""
