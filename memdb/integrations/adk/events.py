"""
Events of ADK as messages of memdb, and back.

An event is stored whole, as JSON text in a part of its own. Beside it are the fields that every
client of the file reads: role, author, words, calls and results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.genai import types

from memdb.formats.originals import original_of
from memdb.formats.provider_messages import ADK, gemini_parts
from memdb.formats.shapes import gemini_parts_of
from memdb.models.messages import NewMessage
from memdb.text.parts import ORIGINAL
from memdb.text.validate import MAX_MS, MIN_MS, fit_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from memdb.models.messages import Message

# Authors of events that another client wrote. Only a user's words are "user": what ADK
# has from any other author, and not from the agent itself, its model gets as quoted data.
AUTHORS = {"user": "user", "assistant": "model", "system": "system", "tool": "tool"}


def to_message(event: Event, custom: dict[str, Any] | None = None) -> NewMessage:
    """
    Return the message of *event*, with *custom* beside it.

    Raises:
        InputValidationError: the event has no JSON form, or no time.
    """
    whole = to_json(event, f"event {event.id!a}")
    parts = (event.content.parts if event.content else None) or []
    results = any(part.function_response for part in parts)
    return NewMessage(
        "tool" if results else "user" if event.author == "user" else "assistant",
        said(event.content),
        event.author or None,
        [*_neutral(parts), {"type": ORIGINAL, "provider": ADK, "whole": whole}],
        event.id,
        to_ms(event.timestamp),
        {"custom": custom} if custom else None,
    )


def to_events(messages: Iterable[Message]) -> list[Event]:
    """Return the events in *messages*, oldest first."""
    names: dict[str, str] = {}
    return [to_event(message, names) for message in messages]


def to_event(message: Message, names: dict[str, str] | None = None) -> Event:
    """
    Return the event in *message*; a message of another client keeps its parts.

    Args:
        names: Names of the functions that earlier messages called, by the id of the call; the
            function adds those called here. None means that there are no earlier ones.
    """
    whole = original_of(message.parts, ADK)
    if isinstance(whole, str):
        return Event.model_validate_json(whole)
    author = AUTHORS[message.role]
    if message.role != "user" and message.author not in (None, "user"):
        author = message.author
    parts = gemini_parts_of(message, {} if names is None else names)
    role = "model" if message.role in ("assistant", "system") else "user"
    content = types.Content.model_validate({"role": role, "parts": parts})
    return Event(
        id=message.external_id or message.uid,
        author=author,
        timestamp=message.created_ms / 1000,
        content=content if parts else None,
    )


def to_json(model: BaseModel, what: str, **options: Any) -> str:
    """
    Return the JSON text of a model of ADK without fields that are None.

    U+FFFD replaces characters that no file can store, but not in the names of an event.

    Raises:
        InputValidationError: the model has no JSON form; the error names *what*, the field and the
            fix.
    """
    try:
        return model.model_dump_json(exclude_none=True, **options)
    except (ValueError, TypeError) as error:
        try:
            fields = model.model_dump(exclude_none=True)
            names = {name: fields.get(name) for name in ("id", "author", "invocation_id")}
            if fit_value(names) == names and fit_value(fields) != fields:
                fit = type(model).model_validate(fit_value(fields))
                return fit.model_dump_json(exclude_none=True, **options)
        except (ValueError, TypeError):  # a circle
            fields = {}
        raise InputValidationError(f"{what} cannot be stored: {reason(fields, error)}") from error


def reason(value: Any, error: Exception, place: str = "") -> str:
    """Return why *value* at *place* cannot become JSON text, and what to do."""
    found = _surrogate(value, place)
    if found is None:
        return f"it has no JSON form ({error}): use plain values"
    return f"{found} holds a lone surrogate: decode the text with errors='replace'"


def _surrogate(value: Any, place: str) -> str | None:
    """Return the place of a lone surrogate in *value*, such as `content.parts[0].text`."""
    if isinstance(value, str):
        return place if any("\ud800" <= one <= "\udfff" for one in value) else None
    if isinstance(value, dict):
        keys = ((key, f"a key of {place}") for key in value)
        items = ((item, f"{place}.{key}".lstrip(".")) for key, item in value.items())
        below: Iterable[tuple[Any, str]] = (*keys, *items)
    elif isinstance(value, (list, tuple, set)):
        below = ((item, f"{place}[{number}]") for number, item in enumerate(value))
    else:
        below = ()
    return next((found for item, at in below if (found := _surrogate(item, at))), None)


def to_ms(timestamp: float, field: str = "timestamp") -> int:
    """Return *timestamp*, in seconds, as milliseconds; the order of two timestamps stays."""
    try:
        ms = int(timestamp * 1000)
    except (ValueError, OverflowError):
        ms = MAX_MS + 1
    if not MIN_MS <= ms <= MAX_MS:
        raise InputValidationError(
            f"{field} is {timestamp}: give seconds since 1970, within the years 1 to 9999"
        )
    return ms


def said(content: types.Content | None) -> str:
    """
    Return the words of *content* that are searched: its texts except thoughts.

    NUL, which no text of the file can hold, becomes U+FFFD here; the event
    keeps it.
    """
    parts = (content.parts if content else None) or []
    texts = [part.text for part in parts if part.text and not part.thought]
    return "\n".join(texts).replace("\0", "\ufffd")


def _neutral(parts: list[types.Part]) -> list[dict[str, Any]]:
    """Return the parts that are not text in the form of all clients of memdb."""
    found = [part for part in parts if part.text is None or part.thought]
    return gemini_parts(
        [fit_value(part.model_dump(mode="json", exclude_none=True)) for part in found]
    )
