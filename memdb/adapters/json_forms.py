"""
JSON values of frameworks, in a form that every file can store and return.

Python's JSON allows NUL, lone surrogates and NaN, which no memdb file can store. A value with one
of these is stored as its JSON text, in an object with one field. A value that is nested too deep is
refused, because Python's parser fails at a depth that depends on the caller.
"""

from __future__ import annotations

import json
from typing import Any

from memdb.errors import InvalidInput
from memdb.text.validate import fit_value, is_deep

MAX_DEPTH = 170  # of a value: 200 levels can be stored, and it stands in a part or an object
TEXT_FIELD = "$json"

# What JSON text says where a value may hold what no file can; escapes of ASCII text.
_SIGNS = ("\\u0000", "\\ud", "NaN", "Infinity")


def json_of(value: object, field: str, most: int = MAX_DEPTH) -> str:
    r"""
    Return *value* as JSON text in ASCII.

    Args:
        field: Name of the value in errors.
        most: Most levels of lists and objects.

    Raises:
        InvalidInput: a part of the value has no JSON form, or is nested deeper.

    >>> json_of({"a": "é\0"}, "value")
    '{"a": "\\u00e9\\u0000"}'
    """
    try:
        text = json.dumps(value)
    except RecursionError as error:
        raise InvalidInput(f"{field} is nested over {most} deep: make it flatter") from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{field} has no JSON form ({error}): use plain values") from error
    if is_deep(value, text, most):
        raise InvalidInput(f"{field} is nested over {most} deep: make it flatter")
    return text


def is_plain(value: object, text: str) -> bool:
    """
    Return whether a file can store *value*, whose JSON text is *text*, unchanged.

    Cost: a search in the text; the value is walked only if the text may contain such a character.
    """
    return not any(sign in text for sign in _SIGNS) or bool(fit_value(value) == value)


def pack_value(value: object, field: str) -> Any:
    r"""
    Return *value* as an item stores it: unchanged, or as its JSON text if no file can contain it.

    Raises:
        InvalidInput: as `json_of`.

    >>> pack_value({"a": 1}, "value"), pack_value({"a": "\0"}, "value")
    ({'a': 1}, {'$json': '{"a": "\\u0000"}'})
    """
    text = json_of(value, field)
    return value if is_plain(value, text) and not _is_packed(value) else {TEXT_FIELD: text}


def unpack_value(stored: Any) -> Any:
    """
    Return the value from which `pack_value` made *stored*; any other value unchanged.

    >>> unpack_value(pack_value([float("inf")], "value"))
    [inf]
    """
    if not _is_packed(stored):
        return stored
    try:
        return json.loads(stored[TEXT_FIELD])
    except (ValueError, RecursionError):
        return stored  # another program's


def _is_packed(value: object) -> bool:
    return (
        isinstance(value, dict) and [*value] == [TEXT_FIELD] and isinstance(value[TEXT_FIELD], str)
    )
