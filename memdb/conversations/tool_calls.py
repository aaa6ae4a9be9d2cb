"""
Units: neighbouring messages that must stay together.

An assistant message with tool calls and the results that answer them make
sense only together, and model APIs refuse one without the other. All functions are pure and look at
the order of a run of messages, oldest first. The functions do not know messages before or after
the run.

The rules:

- A call is a part `{"type": "tool_call", "id": ...}` of an assistant message.
  An answer is a part `{"type": "tool_result", "tool_call_id": ...}` of a tool
  message. Parts of other roles, and ids that are not a text or are "", do not count.
- An answer belongs to the latest call with its id *before* it in the run, so an id may be used
  again. Several answers to one call all count.
- A call, its last answer and everything in between are one unit, also messages of others;
  overlapping units are one.
- A tool message without a known id belongs to the message directly before it, if that is an
  assistant's or a tool's. Otherwise it is alone.
- Every other message is a unit by itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb.models.messages import Message


def units(messages: Sequence[Message]) -> list[list[Message]]:
    """
    Return *messages* in units, in order; [] if there are none.

    Joined again they are *messages*; no unit is empty.

    Cost: one pass, about 2 µs per message.
    """
    cuts = [*unit_starts(messages), len(messages)]
    return [list(messages[start:end]) for start, end in pairwise(cuts)]


def unit_starts(messages: Sequence[Message]) -> list[int]:
    """Return the index of the first message of each unit, from 0 up; [] without messages."""
    links = _links(messages)
    reaches = [place for place, _ in enumerate(messages)]
    for place, called in links.answers:
        reaches[called] = place  # answers come in order: the last one stays
    starts = []
    end = -1
    for place, reach in enumerate(reaches):
        if place > end and place not in links.adjacent:
            starts.append(place)
        end = max(end, reach)
    return starts


def has_open_call(unit: Sequence[Message]) -> bool:
    """
    Return whether a call in *unit* has no answer in it: the tool may still run.

    A call without an id is never open, because nothing can answer it by id.
    """
    return bool(open_calls(unit))


def open_calls(messages: Sequence[Message]) -> set[str]:
    """
    Return the ids of calls that no message after them in the run answers.

    If an id was used several times, one call without an answer is enough.
    """
    links = _links(messages)
    return {call_id for place, call_id in links.calls - links.answered}


def orphans(messages: Sequence[Message]) -> set[int]:
    """
    Return the seqs of tool messages that answer no call in the run.

    A tool message is an orphan if no earlier message in the run made its call.
    Without ids it is an orphan if no assistant message precedes its group of tool messages. If one
    of several ids is known, the message stays.

    A window without orphans is accepted by every model API; the `units` of the others do not
    change.
    """
    links = _links(messages)
    found = set()
    follows_assistant = False
    for place, message in enumerate(messages):
        if message.role != "tool":
            follows_assistant = message.role == "assistant"
        elif place in links.matched:
            continue
        elif any(True for _ in answer_ids(message)) or not follows_assistant:
            found.add(message.seq)
    return found


def unknown_answers(messages: Sequence[Message]) -> list[int]:
    """Return the places of tool messages that answer an id not called before in the run."""
    return _links(messages).unknown


def call_ids(message: Message) -> Iterator[str]:
    """Yield the ids of the tool calls in an assistant message; nothing for other roles."""
    return _ids(message, "assistant", "tool_call", "id")


def answer_ids(message: Message) -> Iterator[str]:
    """Yield the ids that a tool message answers; nothing for other roles."""
    return _ids(message, "tool", "tool_result", "tool_call_id")


def _ids(message: Message, role: str, kind: str, field: str) -> Iterator[str]:
    if message.role != role or not message.parts:
        return
    for part in message.parts:
        if isinstance(part, dict) and part.get("type") == kind:
            found = part.get(field)
            if isinstance(found, str) and found:
                yield found


class _Links:
    """Calls and answers of a run, by place; see `_links`."""

    __slots__ = ("adjacent", "answered", "answers", "calls", "matched", "unknown")

    def __init__(self) -> None:
        self.calls: set[tuple[int, str]] = set()
        self.answered: set[tuple[int, str]] = set()
        self.answers: list[tuple[int, int]] = []  # (place of the answer, of its call)
        self.matched: set[int] = set()  # tool messages with a known id
        self.adjacent: set[int] = set()  # tool messages that belong to the one before
        self.unknown: list[int] = []  # tool messages with an id that was not called


def _links(messages: Sequence[Message]) -> _Links:
    links = _Links()
    latest: dict[str, int] = {}
    before = ""
    for place, message in enumerate(messages):
        role = message.role
        if role == "assistant":
            for call_id in call_ids(message):
                latest[call_id] = place
                links.calls.add((place, call_id))
        elif role == "tool":
            for call_id in answer_ids(message):
                if call_id not in latest:
                    links.unknown.append(place)
                else:
                    links.answers.append((place, latest[call_id]))
                    links.answered.add((latest[call_id], call_id))
                    links.matched.add(place)
            if place not in links.matched and before in ("assistant", "tool"):
                links.adjacent.add(place)
        before = role
    return links
