"""
Gemini's activity in Google's Takeout: `MyActivity.json` below `Gemini Apps`.

Takeout keeps no conversations: each prompt stands alone with its answer. The prompts of a
day become one session.
"""

from __future__ import annotations

import html
import re
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import Format, elements, groups
from memdb.transfer.lines import Item, any_time, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

HEADERS = ("gemini", "bard")  # "Gemini Apps", "Gemini-Apps", "Applications Gemini"
PROMPTED = "Prompted "  # the title of a prompt begins so, in English
_NUMBER = re.compile("[0-9]+")
_BREAK = re.compile(r"</(?:p|li|h[1-6]|tr|div|pre)>|<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


def _claim(tree: Tree) -> list[str]:
    """Claim arrays of activities of Gemini."""
    names = tree.candidates("*.json")
    return [name for name in names if _is_of(tree.peek(name))]


def _is_of(fields: dict[str, Any]) -> bool:
    header = str(fields.get("header")).lower()
    return "title" in fields and "time" in fields and any(one in header for one in HEADERS)


def _read(request: Request) -> Read:
    found = sorted(
        elements(request, request.names, "activity"),
        key=lambda one: str(one[1].get("time")) if isinstance(one[1], dict) else "",
    )
    yield from groups(found, _activity)


def _activity(place: str, value: Any) -> Iterator[Item]:
    if not isinstance(value, dict) or not isinstance(value.get("title"), str):
        raise InvalidInput("the activity has no title: export it again")
    made_ms = any_time(value.get("time"), "time")
    if made_ms is None:
        raise InvalidInput("the activity has no time: export it again")
    answers = [
        one["html"]
        for one in value.get("safeHtmlItem") or []
        if isinstance(one, dict) and isinstance(one.get("html"), str)
    ]
    if not value["title"].startswith(PROMPTED) and not answers:
        yield left_out(place, "activities", "they are no prompts")
        return
    day = datetime.fromisoformat(value["time"]).date().isoformat()
    content = f"{value['time']}\n{value['title']}".encode()
    key = blake2b(content, digest_size=8).hexdigest()
    fields = {"session": f"gemini {day}", "created_ms": made_ms}
    prompt = value["title"].removeprefix(PROMPTED)
    yield Item(
        place, "message", {**fields, "role": "user", "text": prompt, "external_id": f"{key}/prompt"}
    )
    if attached := _attached(value):
        yield left_out(place, "attached files", "Takeout has them beside the prompts", attached)
    for number, answer in enumerate(answers, start=1):
        text = _plain(answer)
        if text:
            about = {"role": "assistant", "author": "Gemini", "text": text}
            yield Item(
                place, "message", {**fields, **about, "external_id": f"{key}/answer-{number}"}
            )


def _attached(value: dict[str, Any]) -> int:
    """Return how many files a prompt came with, 0 if there is none."""
    images = value.get("imageFile") or ()
    given = value.get("subtitles")
    names = [one.get("name") for one in given or () if isinstance(one, dict)]
    numbers = [int(one) for name in names for one in _NUMBER.findall(str(name))[:1]]
    return max(1 if isinstance(images, str) else len(images), *numbers, 0)


def _plain(text: str) -> str:
    """Return the words of HTML: lines where blocks end, no tags."""
    lines = html.unescape(_TAG.sub("", _BREAK.sub("\n", text))).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())


FORMATS = {"gemini": Format("gemini", "Gemini in Google's Takeout", _claim, _read)}
