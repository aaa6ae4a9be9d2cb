"""
Check the values of a client by the JSON schemas of a call, for the JSON API and for MCP.

Supported are `type`, `anyOf`, `enum`, `minimum`, `maximum`, `items`, `minItems`, `maxItems`,
`properties`, `required`, `additionalProperties` and `contentEncoding`.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from types import NoneType
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT
from memdb.models.record import MAX_EXACT_INT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Schema = Mapping[str, Any]

MAX_SHOWN = 40

# By the name of a type: its values in Python, and what an error calls one.
TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "a text"),
    "integer": ((int, float), "an integer"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
    "null": (NoneType, "null"),
}


def check_value(value: Any, schema: Schema, field: str) -> Any:
    """
    Return *value* as the call takes it: base64 as bytes, 5.0 as an integer.

    Raises:
        InvalidInput: the value does not match the schema; the error names *field* or a part of it.
    """
    schemas: Sequence[Schema] = schema.get("anyOf", [schema])
    if isinstance(value, str) and _is_large(value, schemas):
        value = int(value)
    chosen = next((one for one in schemas if any(_is_a(kind, value) for kind in kinds(one))), None)
    if chosen is None:
        raise InvalidInput(f"{field} is {short(value)}: give {wanted(schema)}")
    if value not in chosen.get("enum", (value,)):
        raise InvalidInput(f"{field} is {short(value)}: use {', '.join(chosen['enum'])}")
    if isinstance(value, list):
        return _check_list(value, chosen, field)
    if isinstance(value, dict):
        return _check_object(value, chosen, field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _check_number(value, chosen, field)
    if chosen.get("contentEncoding") == "base64":
        try:
            return a2b_base64(value, strict_mode=True)
        except (Base64Error, ValueError) as error:
            raise InvalidInput(f"{field} is not base64: {error}") from error
    return value


def _is_large(text: str, schemas: Sequence[Schema]) -> bool:
    """Return whether *text* is a number that a browser would round."""
    takes_large = any(one.get("maximum") == MAX_INT for one in schemas)
    return (
        takes_large
        and re.fullmatch("[1-9][0-9]{15,18}", text) is not None
        and int(text) > MAX_EXACT_INT
    )


def _check_list(value: list[Any], schema: Schema, field: str) -> Any:
    count = len(value)
    if not schema.get("minItems", 0) <= count <= schema.get("maxItems", count):
        raise InvalidInput(f"{field} has {count} elements: give {schema['minItems']}")
    items = schema.get("items", {})
    checked = [check_value(one, items, f"{field}[{at}]") for at, one in enumerate(value)]
    return tuple(checked) if "minItems" in schema else checked


def _check_object(value: dict[str, Any], schema: Schema, field: str) -> dict[str, Any]:
    fields = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        raise InvalidInput(f"{field} has no {missing[0]}: give it")
    if not schema.get("additionalProperties", True) and (more := value.keys() - fields.keys()):
        raise InvalidInput(f"{field} has {short(min(more))}: use {', '.join(fields)}")
    return {name: check_value(one, fields.get(name, {}), name) for name, one in value.items()}


def _check_number(value: float, schema: Schema, field: str) -> float:
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if not least <= value <= most:
        limit = f"{least} or more" if value < least else f"{most} or less"
        raise InvalidInput(f"{field} is {value}: it is out of range, give {limit}")
    return value if "number" in kinds(schema) else int(value)


def kinds(schema: Schema) -> Sequence[str]:
    """
    Return the names of the types that a schema without `anyOf` accepts; all types if it names none.
    """
    found: str | Sequence[str] = schema.get("type", tuple(TYPES))
    return (found,) if isinstance(found, str) else found


def _is_a(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    is_whole = kind != "integer" or not isinstance(value, float) or value.is_integer()
    return is_whole and isinstance(value, TYPES[kind][0])


def wanted(schema: Schema) -> str:
    """Describe in words what a schema accepts, without null."""
    named = [kind for one in schema.get("anyOf", [schema]) for kind in kinds(one)]
    return " or ".join(dict.fromkeys(TYPES[kind][1] for kind in named if kind != "null"))


def short(value: Any) -> str:
    """Return the repr of a value, cut to `MAX_SHOWN` characters."""
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
