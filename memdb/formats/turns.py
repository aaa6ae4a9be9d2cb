"""
Turns of a conversation: each tool result at its call, as every model API wants it.

`memdb.formats.shapes` says what holds for calls and results, and writes the turns in
the words of an API. A turn that a provider's own message gave has that message too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from memdb.formats.originals import original_of, parts_with_text
from memdb.formats.provider_parts import EMPTY
from memdb.text.parts import (
    MEDIA,
    content_text,
    json_text,
    kind_of,
    part_text,
    text_of,
    text_value,
    without_original,
)
from memdb.text.validate import fit_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memdb.text.parts import Part

    class FormatMessage(Protocol):
        """The fields of a message that a format reads."""

        @property
        def role(self) -> str:
            """system, user, assistant or tool."""

        @property
        def text(self) -> str:
            """The words of the message."""

        @property
        def parts(self) -> list[Any] | None:
            """The parts, or None if the text is all there is."""


UNKNOWN_TOOL = "unknown_tool"  # the name of a call that only its result tells of
EMPTY_RESULT = "(empty)"
NO_RESULT = "[no result]"  # of a call whose siblings have one: it was cancelled, or the run ended

# Source: https://docs.anthropic.com/en/api/messages (these characters only) and
# https://platform.openai.com/docs/api-reference/chat (at most 40).
MAX_ID_CHARS = 40
MAX_NAME_CHARS = 64
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

OPENAI, RESPONSES, ANTHROPIC = "openai", "openai-responses", "anthropic"
GEMINI, LANGCHAIN, ADK = "gemini", "langchain", "adk"


class Result:
    """The result of a tool: its text, media, and the provider's own form of it."""

    __slots__ = ("error", "media", "own", "text")

    def __init__(self, part: Part, own: Any = None) -> None:
        """Read a tool_result part; *own* is what the provider had for it."""
        content = part.get("content")
        parts = content if isinstance(content, list) else []
        self.media = [one for one in parts if kind_of(one) in MEDIA]
        if self.media and all(map(kind_of, parts)):
            content = text_of([one for one in parts if kind_of(one) not in MEDIA])
        self.text = content_text(content)
        self.error = bool(part.get("is_error"))
        self.own = own


class Call:
    """A tool call and its results; `real` if it is sent as a call."""

    __slots__ = ("arguments", "given_id", "id", "name", "part", "real", "results")

    def __init__(self, part: Part, shape: str) -> None:
        """Read a tool_call part for the API *shape*."""
        self.part = part
        self.id = self.given_id = text_value(part.get("id"))
        self.name = _name(text_value(part.get("name")), ".:" if shape == GEMINI else "")
        self.arguments = json_text(part.get("arguments"))
        self.results: list[Result] = []
        self.real = False

    @property
    def content(self) -> str:
        """The call as text."""
        return part_text(self.part)

    @property
    def is_unchanged(self) -> bool:
        """Whether the API takes the id and the name as they were given."""
        return self.id == self.given_id and self.name == text_value(self.part.get("name"))

    @property
    def own_result(self) -> Any | None:
        """The provider's own form of the result, None unless it is the only one."""
        same = len(self.results) == 1 and self.id == self.given_id
        return self.results[0].own if same else None

    @property
    def result(self) -> str:
        """All results as one text, never blank."""
        return joined([result.text for result in self.results]) or EMPTY_RESULT

    @property
    def error(self) -> bool:
        """Whether the last result is an error."""
        return self.results[-1].error

    @property
    def media(self) -> list[Part]:
        """The images, sounds and files of the results."""
        return [one for result in self.results for one in result.media]

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as an object; `{"_raw": text}` if they are none."""
        if not self.arguments.strip():
            return {}
        try:
            value = json.loads(self.arguments)
            # NaN, infinity and lone surrogates can be read, but not sent.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {"_raw": self.arguments}


class Turn:
    """
    One message: parts and calls in order, and the provider's own form of it.

    Attributes:
        is_torn: What the model said or thought right before it may be left out, or is not
            known to the provider: Responses gets it without its reasoning and ids.
    """

    __slots__ = ("calls", "content", "is_answered", "is_torn", "own", "role")

    def __init__(self, role: str, own: Any = None, *, is_torn: bool = False) -> None:
        """Begin a turn; *own* is the provider's message."""
        self.role = role
        self.is_torn = is_torn
        self.own = own
        self.content: list[Part | Call] = []
        self.calls: list[Call] = []
        self.is_answered = False

    @property
    def texts(self) -> list[str]:
        """All that is not sent as a call, as texts that are not blank."""
        return [text for text in map(part_text, self.items()) if text.strip()]

    @property
    def real_calls(self) -> list[Call]:
        """The calls that are sent as calls."""
        return [call for call in self.calls if call.real]

    @property
    def is_whole(self) -> bool:
        """Whether the provider's own form can be sent: its calls are real, under their ids."""
        if self.own is None:
            return False
        return all(call.real and call.is_unchanged for call in self.calls)

    def items(self) -> Iterator[Part]:
        """Yield the parts in order, calls that are not real as texts, without blank texts."""
        for item in self.content:
            if isinstance(item, Call):
                if not item.real:
                    yield {"type": "text", "text": item.content}
            elif part_text(item).strip():
                yield item


def turns_of(messages: Sequence[FormatMessage], shape: str) -> list[Turn]:
    """Return the turns that are not empty, with each result at its call."""
    turns: list[Turn] = []
    latest: dict[str, Call] = {}
    for message, is_torn in zip(messages, _torn(messages), strict=True):
        if message.role != "tool":
            turn = turn_of(message, shape)
            turn.is_torn = is_torn
            turns.append(turn)
            latest.update((call.id, call) for call in turn.calls if call.id and call.name)
        made: Turn | None = None
        for part, result in results_of(message, shape):
            call = latest.get(text_value(part.get("tool_call_id")))
            if call is None:
                if made is None:
                    turns.append(made := Turn("assistant", is_torn=is_torn))
                call = _add_call(made, part, shape)
            call.results.append(result)
            turns[-1].is_answered = True
    pending = {id(call) for turn in _last_step(turns) for call in turn.calls}
    for step in steps_of(turns):
        _answer_siblings(step, latest)
        for call in (call for turn in step for call in turn.calls):
            is_pending = id(call) in pending and latest.get(call.id) is call
            call.real = is_pending or bool(call.results)
    if shape != GEMINI:  # finds a call by its function's name; what was read of it has no ids
        _give_ids([call for turn in turns for call in turn.real_calls])
    return [turn for turn in turns if turn.real_calls or any(turn.items())]


def _torn(messages: Sequence[FormatMessage]) -> Iterator[bool]:
    """
    Yield for each message whether older ones are left out since the user spoke last.

    They are left out at the beginning, or where memdb's own text, of seq 0, replaces them.
    """
    last, is_after_own, is_torn = 0, True, False
    for message in messages:
        seq = getattr(message, "seq", 1)
        is_torn = is_torn or bool(seq and is_after_own and seq > last + 1)
        is_torn = is_torn and message.role != "user"
        yield is_torn
        is_after_own, last = seq == 0, seq or last


def _answer_siblings(step: list[Turn], latest: dict[str, Call]) -> None:
    """Add a result to every call of a step as soon as one has one: an API wants all or none."""
    calls = [call for turn in step for call in turn.calls]
    if any(call.results for call in calls):
        for call in calls:
            if not call.results and latest.get(call.id) is call:
                call.results.append(Result({"content": NO_RESULT, "is_error": True}))


def _add_call(turn: Turn, result: Part, shape: str) -> Call:
    """Add a call to a turn for a result that has none, and return it."""
    part = {"id": result.get("tool_call_id"), "name": result.get("name") or UNKNOWN_TOOL}
    turn.calls.append(Call({"type": "tool_call", **part, "arguments": "{}"}, shape))
    turn.content.append(turn.calls[-1])
    return turn.calls[-1]


def _last_step(turns: list[Turn]) -> Iterator[Turn]:
    """Yield the assistant's turns at the end whose calls may still be answered."""
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].role != "assistant":
            return
        if turns[place].is_answered and place < len(turns) - 1:
            return
        yield turns[place]


def steps_of(turns: Iterable[Turn]) -> Iterator[list[Turn]]:
    """Yield the turns in runs: the assistant's up to the next results, others alone."""
    run: list[Turn] = []
    for turn in turns:
        if run and (turn.role != "assistant" or run[-1].role != "assistant" or run[-1].is_answered):
            yield run
            run = []
        run.append(turn)
    if run:
        yield run


def turn_of(message: FormatMessage, shape: str) -> Turn:
    """Return a message that is not a tool's as a turn; results in it are not in the turn."""
    parts = parts_with_text(message.parts or (), message.text)
    if any(part.get("kind") == EMPTY for part in parts if isinstance(part, dict)):
        return Turn(message.role)  # no API takes a message that says nothing
    turn = Turn(message.role, own_form(message, shape, fit=True))
    for part in parts:
        if kind_of(part) == "tool_call" and message.role == "assistant":
            turn.calls.append(Call(part, shape))
            turn.content.append(turn.calls[-1])
        elif kind_of(part) != "tool_result":
            turn.content.append(part)
    if not turn.calls and not any(turn.items()) and not any(_is_result(part) for part in parts):
        turn.content.append({"type": "text", "text": message.text})
    return turn


def _is_result(part: Any) -> bool:
    return kind_of(part) == "tool_result"


def own_form(message: FormatMessage, shape: str, *, fit: bool = False) -> Any | None:
    """
    Return a message as the provider gave it, in the form of *shape*; None if there is none.

    Args:
        fit: Whether U+FFFD replaces characters that no file and no request can contain.
    """
    if not message.parts:
        return None
    found = original_of(message.parts, *((GEMINI, ADK) if shape == GEMINI else (shape,)))
    if isinstance(found, str):  # JSON text, where it holds what no stored JSON may
        try:
            found = json.loads(found)
        except ValueError:
            return None
        found = fit_value(found) if fit else found
    if shape == RESPONSES and found is None:  # a developer's words are the same in both APIs
        found = original_of(message.parts, OPENAI)
        if isinstance(found, dict) and [*found] == ["role", "content"]:
            return found if isinstance(found["content"], str) else None
        return None
    if shape != GEMINI:
        return found if isinstance(found, dict) else None
    if isinstance(found, dict) and isinstance(found.get("content"), dict):
        found = found["content"]
    parts = found.get("parts") if isinstance(found, dict) else None
    return found if parts and isinstance(parts, list) else None


def results_of(message: FormatMessage, shape: str) -> Iterator[tuple[Part, Result]]:
    """Yield each tool result in *message*; a tool's message without any is one itself."""
    parts = without_original(message.parts or ())
    places = [place for place, part in enumerate(parts) if _is_result(part)]
    if message.role != "tool":
        for place in places:
            yield parts[place], Result(parts[place])
        return
    beside = [part for part in parts if not _is_result(part)]
    shown = [part for part in beside if kind_of(part) in MEDIA]
    words = text_of([part for part in beside if kind_of(part) not in MEDIA])
    if not places:
        result = Result({"content": message.text if message.text != text_of(parts) else words})
        result.media = shown
        if result.text.strip() or shown:
            yield {}, result
        return
    own = own_form(message, shape, fit=True)
    for place in places:
        result = Result(parts[place], _own_result(own, place, len(places)))
        is_blank = not (result.text.strip() or result.media or words)
        if is_blank and len(places) == 1 and message.text != text_of(parts):
            result.text = message.text
        if place == places[-1] and beside:
            result.text, result.own = joined([result.text, words]), None
            result.media = [*result.media, *shown]
        yield parts[place], result


def _own_result(own: Any, place: int, count: int) -> Any | None:
    """Return the part for the result at *place* in a tool's own message."""
    if not isinstance(own, dict):
        return None
    for field in ("content", "parts"):
        blocks = own.get(field)
        if isinstance(blocks, list) and "tool_call_id" not in own and place < len(blocks):
            return blocks[place]
    return own if count == 1 else None


def _give_ids(calls: Sequence[Call]) -> None:
    """Make the ids unique and acceptable; the last use of an id keeps it."""
    taken = {call.id for call in calls}
    used: set[str] = set()
    number = 0
    for call in reversed(calls):
        if call.id in used or not 0 < len(call.id) <= MAX_ID_CHARS or not _SAFE.issuperset(call.id):
            while (fresh := f"call_{number}") in taken:
                number += 1
            call.id = fresh
            taken.add(fresh)
        used.add(call.id)


def joined(texts: Sequence[str]) -> str:
    """Return *texts* as lines, "" if there is nothing in them."""
    text = "\n".join(texts)
    return text if text.strip() else ""


def _name(name: str, also: str) -> str:
    return "".join(char if char in _SAFE or char in also else "_" for char in name)[:MAX_NAME_CHARS]


def answered_calls(step: Iterable[Turn]) -> list[Call]:
    """Return the calls of a step that have a result, in order."""
    return [call for turn in step for call in turn.real_calls if call.results]


def one_call_turn(turns: list[Turn]) -> Iterator[Turn]:
    """
    Yield the turns, all calls of a step in its last one.

    Chat APIs want one message of calls, and nothing between it and its results. Another call may
    not stand there, and the assistant may not speak before the host has answered.
    """
    for step in steps_of(turns):
        callers = [turn for turn in step if turn.real_calls]
        yield from (turn for turn in step if not turn.real_calls)
        if len(callers) > 1:
            last = Turn("assistant")
            last.content = [item for turn in callers for item in turn.content]
            last.calls = [call for turn in callers for call in turn.calls]
            yield last
        else:
            yield from callers


def turn_alone(message: FormatMessage, shape: str) -> Turn:
    """Return a message as a turn whose calls are real, whatever stands around it."""
    turn = turn_of(message, shape)
    for call in turn.calls:
        call.real = bool(call.id and call.name)
    return turn


def call_of(part: Part, result: Result, shape: str) -> Call:
    """Return a call for the result *part*, whose own call is absent."""
    name = part.get("name") or UNKNOWN_TOOL
    call = Call({"id": part.get("tool_call_id"), "name": name}, shape)
    call.results.append(result)
    return call
