"""
Items: what format readers hand to the sink, and the checks, times and roles they share.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from datetime import datetime
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, SecretFound
from memdb.models.record import Record
from memdb.text.validate import int_value, text_value, time_value

if TYPE_CHECKING:
    from typing import Any

    from memdb.errors import MemDBError

# What other programs call the four roles.
ROLES = {
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}

# A number below this is a time in seconds (the year 5138), else in milliseconds.
MAX_SECONDS = 100_000_000_000


class Item(Record):
    """
    One thing to import.

    Attributes:
        place: Where it stands, for whoever has to mend it: "line 17".
        kind: "session", "message", "entry" ..., as in the export.
        fields: What the line says; not checked yet.
    """

    place: str
    kind: str
    fields: dict[str, Any]


def located(place: str, error: MemDBError) -> InvalidInput:
    """Return *error* as one that begins with the place in the file."""
    if isinstance(error, SecretFound):
        return SecretFound(f"{place}: {error.field}", error.kinds)
    return InvalidInput(f"{place}: {error}")


def refuse_unknown(kind: str, fields: dict[str, Any], known: frozenset[str]) -> None:
    """Refuse a field that nothing would read: it is a slip, or from a newer memdb."""
    if not fields.keys() <= known:
        unknown = min(fields.keys() - known)
        raise InvalidInput(f"{kind} has no field {unknown!r}: use {', '.join(sorted(known))}")


def needed(fields: dict[str, Any], name: str) -> Any:
    """Return a field that must be there."""
    value = fields.get(name)
    if value is None:
        raise InvalidInput(f"{name} is missing: add it")
    return value


def needed_ms(fields: dict[str, Any], name: str) -> int:
    """Return a time that must be there, UTC milliseconds."""
    value = time_value(needed(fields, name), name)
    assert value is not None
    return value


def count_of(fields: dict[str, Any], name: str, low: int, high: int) -> int:
    """Return an int that must be there, from *low* to *high*."""
    return int_value(needed(fields, name), name, low, high)


def flag_of(fields: dict[str, Any], name: str) -> bool:
    """Return true or false, which must be there."""
    value = needed(fields, name)
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r}: give true or false")
    return value


def bytes_of(fields: dict[str, Any], name: str) -> bytes:
    """Return the bytes of a base64 field that must be there."""
    coded = needed(fields, name)
    if not isinstance(coded, str):
        raise InvalidInput(f"{name} is {type(coded).__name__}: give base64 text")
    try:
        return b64decode(coded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{name} is not base64 ({error}): encode the bytes again") from error


def utf8_of(fields: dict[str, Any], name: str) -> bytes:
    """Return a text that must be there as UTF-8; it may be longer than a text of a row."""
    text = fields.get(name)
    if not isinstance(text, str) or "\0" in text:
        text_value(text, name)  # which says what is wrong with it
    try:
        return str(text).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} holds a lone surrogate at position {error.start}: give the bytes as data"
        ) from error


def any_time(value: object, field: str) -> int | None:
    """
    Return None for None, else a time as UTC milliseconds.

    Args:
        value: A number of seconds or milliseconds (from 100,000,000,000 on), or
            ISO 8601 text with a time zone.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return iso_time(value, field)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidInput(f"{field} is {type(value).__name__}: give milliseconds or ISO 8601 text")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{field} is {value}: give milliseconds or ISO 8601 text")
    if abs(value) >= MAX_SECONDS:
        return time_value(round(value), field)
    return seconds(value, field)


def seconds(value: object, field: str) -> int | None:
    """Return None for None, else a number of seconds as UTC milliseconds."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:  # noqa: PLR0124 (NaN)
        raise InvalidInput(f"{field} is {value!r}: give a number of seconds")
    if abs(value) >= MAX_SECONDS:
        raise InvalidInput(f"{field} is {value}: give seconds since 1970")
    return time_value(round(value * 1000), field)


def iso_time(value: object, field: str) -> int | None:
    """Return None for None, else ISO 8601 text with a time zone as UTC milliseconds."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError as error:
        raise InvalidInput(f"{field} is {value!r}: write it like 2025-03-01T09:30:00Z") from error
    if moment.tzinfo is None:
        raise InvalidInput(f"{field} is {value!r}, without a time zone: add Z or +01:00")
    return time_value(round(moment.timestamp() * 1000), field)
