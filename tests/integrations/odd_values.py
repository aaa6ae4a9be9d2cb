"""
Values and ids that clients give and no file can hold as they are, one table for every adapter.

A value comes back as it was, or with U+FFFD for what no file can hold, or the adapter refuses
it with its client's own error and the file is as before. An id that no row can have is absent, or refused likewise.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memdb.text.validate import fit_value

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = 2_000


class Alien:
    """An object without a JSON form."""


def nested(levels: int = LEVELS) -> dict[str, Any]:
    """Return objects in each other, *levels* deep."""
    top: dict[str, Any] = {}
    inner = top
    for _ in range(levels - 1):
        inner["a"] = {}
        inner = inner["a"]
    return top


def endless() -> list[Any]:
    """Return a list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


VALUES: dict[str, Callable[[], Any]] = {
    "NUL": lambda: "a\0b",
    "NUL in a key": lambda: {"a\0b": 1},
    "half a character": lambda: "a\ud800b",
    "half a character in a key": lambda: {"a\udfff": 1},
    "NUL and half a character": lambda: "\0\ud800",
    "NaN": lambda: math.nan,
    "infinity": lambda: [math.inf, -math.inf],
    "a text that says NaN": lambda: "NaN",
    "an emoji": lambda: "\U0001f600",
    "what packed values look like": lambda: {"$json": "[1]"},
    "an object": Alien,
    "an object in a list": lambda: [1, Alien()],
    "a set": lambda: {1, 2},
    "bytes": lambda: b"\xff\0",
    "a time": lambda: datetime(2026, 11, 22, tzinfo=UTC),
    "a complex number": lambda: 1j,
    "160 levels": lambda: nested(160),
    "500 levels": lambda: nested(500),
    "2,000 levels": nested,
    "itself": endless,
}

# What is no id of anything. The last two are no texts that a set could hold.
IDS: dict[str, Any] = {
    "None": None,
    "a number": 5,
    "True": True,
    "a fraction": 1.5,
    "bytes": b"a",
    "an object": Alien(),
    "nothing": "",
    "blanks": " \t",
    "NUL": "a\0b",
    "half a character": "a\ud800",
    "too long": "x" * 2_000,
    "a list": ["a"],
    "an object of JSON": {"a": 1},
}


def assert_kept_or_refused(
    name: str,
    put: Callable[[Any], object],
    read: Callable[[], Any],
    refused: type[Exception] | tuple[type[Exception], ...],
    *,
    restored: Callable[[Any], Any] | None = None,
) -> bool:
    """
    Store the value of a name; return whether it was kept.

    Args:
        put: Stores a value.
        read: Reads everything that is stored; it has to succeed whatever was given.
        refused: The error that the client's users expect; nothing else may be raised.
        restored: Takes what *read* gave, and returns the value in it. None: only reading counts.
    """
    before, problem = read(), None
    try:
        put(VALUES[name]())
    except refused as error:
        problem = error
    after = read()
    if problem is not None:
        assert type(problem) not in (UnicodeEncodeError, RecursionError), repr(problem)
        assert looks(after) == looks(before)
        return False
    if restored is not None:
        value = VALUES[name]()
        assert looks(restored(after)) in (looks(value), looks(fit_value(value)))
    return True


def looks(value: Any) -> str:
    """Return what can be compared: NaN is NaN, an object one of its class."""
    try:
        return repr(_shown(value))
    except RecursionError:
        return "deep"


def _shown(value: Any) -> Any:
    if isinstance(value, Alien):
        return "<an object>"
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(inner) for inner in value]
    return value
