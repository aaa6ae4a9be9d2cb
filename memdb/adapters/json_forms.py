"""
JSON values that frameworks give, in a form that every file can hold and read back.

Python's JSON knows NUL, lone surrogates and NaN, which no file of memdb holds. A value with
one of them is kept as its JSON text, the only field of an object. A value that is nested too
deep is refused: Python's parser gives up the sooner the deeper it is called.
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
        field: What an error calls it.
        most: Levels of lists and objects that it may have.

    Raises:
        InvalidInput: a part of it has no JSON form, or it is nested deeper.

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
    Return whether a file can hold *value*, with the JSON text *text*, as it is.

    Cost: that of a search in the text; only one that may hold something else is walked.
    """
    return not any(sign in text for sign in _SIGNS) or bool(fit_value(value) == value)


def pack_value(value: object, field: str) -> Any:
    r"""
    Return *value* as an item keeps it: itself, or its JSON text where no file can contain it.

    Raises:
        InvalidInput: as `json_of`.

    >>> pack_value({"a": 1}, "value"), pack_value({"a": "\0"}, "value")
    ({'a': 1}, {'$json': '{"a": "\\u0000"}'})
    """
    text = json_of(value, field)
    return value if is_plain(value, text) and not _is_packed(value) else {TEXT_FIELD: text}


def unpack_value(stored: Any) -> Any:
    """
    Return the value that `pack_value` made *stored* of; anything else as it is.

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
