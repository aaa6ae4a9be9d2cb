"""
LoCoMo: one long conversation between two people, for evaluating memories.

Sessions are `session_1`, `session_2` ... beside `session_1_date_time`; the first
speaker becomes the user. Its questions are not imported. Format:
Maharana et al. 2024, github.com/snap-research/locomo.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.facts.calendar import MONTHS
from memdb.formats.imports.base import Format, groups
from memdb.formats.source import read_object
from memdb.transfer.lines import Item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

TURN_MS = 60_000

_SESSION = re.compile(r"session_(\d+)")
_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>am|pm)\s+on\s+"
    r"(?P<day>\d{1,2})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{4})",
    re.IGNORECASE,
)


def _claim(tree: Tree) -> list[str]:
    """Claim a file that is one conversation of two speakers."""
    if not tree.is_alone:
        return []
    fields = tree.peek(tree.names[0])
    talk = fields.get("conversation", fields)
    is_talk = isinstance(talk, dict) and {"speaker_a", "speaker_b"} <= talk.keys()
    return [*tree.names] if is_talk else []


def _read(request: Request) -> Read:
    with request.tree.open(request.names[0]) as source:
        talk = _talk_of(read_object(source))
    found = ((f"session_{number}", number) for number in _numbers(talk))
    yield from groups(found, lambda _, number: _session(talk, number))


def read(conversation: dict[str, Any]) -> Iterator[Item]:
    """
    Yield the messages of *conversation*, session by session.

    Raises:
        InvalidInput: a speaker, a time or a turn is not in LoCoMo's form.
    """
    talk = _talk_of(conversation)
    for number in _numbers(talk):
        yield from _session(talk, number)


def _talk_of(conversation: dict[str, Any]) -> dict[str, Any]:
    talk = conversation.get("conversation", conversation)
    if not isinstance(talk, dict):
        raise InvalidInput("conversation is not an object: get the file again")
    return talk


def _numbers(talk: dict[str, Any]) -> list[int]:
    return sorted(
        int(match[1])
        for key, turns in talk.items()
        if (match := _SESSION.fullmatch(key)) and turns is not None
    )


def _session(talk: dict[str, Any], number: int) -> Iterator[Item]:
    roles = {talk.get("speaker_a"): "user", talk.get("speaker_b"): "assistant"}
    name = f"session_{number}"
    if not isinstance(talk[name], list):
        raise InvalidInput(f"{name} is not a list of turns: get the file again")
    start_ms = _start_ms(name, talk.get(f"{name}_date_time"))
    for place, turn in enumerate(talk[name]):
        yield _item(name, place, turn, roles, start_ms)


def _item(name: str, place: int, turn: Any, roles: dict[Any, str], start_ms: int) -> Item:
    where = f"{name}, turn {place + 1}"
    if not isinstance(turn, dict) or not isinstance(turn.get("text"), str):
        raise InvalidInput(f"{where} has no text: get the file again")
    speaker = turn.get("speaker")
    if speaker not in roles:
        raise InvalidInput(f"{where}: {speaker!r} is neither speaker_a nor speaker_b")
    caption = turn.get("blip_caption")
    text = f"{turn['text']} [shares: {caption}]" if caption else turn["text"]
    fields = {
        "session": name,
        "role": roles[speaker],
        "author": speaker,
        "text": text.strip(),
        "external_id": turn.get("dia_id"),
        "created_ms": start_ms + place * TURN_MS,
    }
    if fields["external_id"] is None:
        raise InvalidInput(f"{where} has no dia_id: get the file again")
    return Item(where, "message", fields)


def _start_ms(name: str, value: Any) -> int:
    """Return a time like "1:56 pm on 8 May, 2023", taken as UTC, in milliseconds."""
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    month = match["month"].lower() if match else ""
    if match is None or month not in MONTHS:
        raise InvalidInput(f"{name}_date_time is {value!r}: write it like '1:56 pm on 8 May, 2023'")
    hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "pm" else 0)
    try:
        moment = datetime(
            int(match["year"]),
            MONTHS.index(month) + 1,
            int(match["day"]),
            hour,
            int(match["minute"]),
            tzinfo=UTC,
        )
    except ValueError as error:
        raise InvalidInput(f"{name}_date_time is {value!r}: {error}") from error
    return round(moment.timestamp() * 1000)


FORMATS = {"locomo": Format("locomo", "a conversation of LoCoMo", _claim, _read)}
