"""
Parameters of verbs: their JSON schemas, from the annotations of what a verb calls.

The OpenAPI document and the check of a request use the same schema. So a value of a wrong type
is refused before a call begins. Texts come from the docstrings.
"""

from __future__ import annotations

import inspect
import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import TYPE_CHECKING, Any

from memdb.api.signatures import (
    INTEGER,
    argument_texts,
    own_parameters,
    schema_of,
)
from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT
from memdb.models.record import MAX_EXACT_INT, Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memdb.api.verbs import Verb

MAX_DEPTH = 64

# Which parameters choose the thing that a call is asked of, by its class.
USER = {"user": "str", "app": "str"}
SESSION = {**USER, "session": "str", "branch": "str | None"}
# The classes that are asked of all of a memory, not of one user's.
WHOLE_KINDS = ("MemDB", "File", "Jobs", "StoredSettings", "Folder")
IDENTITIES: dict[str, dict[str, str]] = {
    **{kind: {} for kind in WHOLE_KINDS},
    **dict.fromkeys(("Scope", "Entries", "Artifacts", "Items"), USER),
    **dict.fromkeys(("Session", "Summaries"), SESSION),
    "State": {**USER, "session": "str | None"},
}
IDENTITY_TEXTS = {
    "user": 'Whose memory; "" is what all users of the app share.',
    "app": "The program it belongs to.",
    "session": "Name of the session.",
    "branch": "A branch of the session. Default: the session itself.",
}
MISSING = object()
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
# Media types of the files that a list can be.
KINDS = {
    "jsonl": "application/jsonl",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
}
_ARTICLES = {
    "string": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Parameter(Record):
    """
    One parameter of a verb.

    Attributes:
        name: What requests call it.
        argument: What the function calls it.
        schema: JSON schema of its values.
        place: "query" or "body".
        text: What it means; "" if its name says it.
        default: None also if it is required.
    """

    name: str
    argument: str
    schema: dict[str, Any]
    required: bool
    place: str
    text: str
    default: Any = None


def owner_kind(verb: Verb) -> str:
    """Return the name of the class that a verb is asked of."""
    if "." in verb.call.__qualname__:
        return verb.call.__qualname__.split(".")[0]
    return str(next(iter(inspect.signature(verb.call).parameters.values())).annotation)


def is_whole(verb: Verb) -> bool:
    """Return whether a verb is about all of a memory, even where a request names a user."""
    return owner_kind(verb) in WHOLE_KINDS and all(
        one.name != "user" for one in parameters_of(verb)
    )


def parameters_of(verb: Verb) -> tuple[Parameter, ...]:
    """Return the parameters of a verb: whose memory first, then those of its function."""
    texts = argument_texts(inspect.getdoc(verb.call) or "")
    own = own_parameters(verb.call)
    identities = {
        name: kind
        for name, kind in IDENTITIES[owner_kind(verb)].items()
        if all(one.name != name for one in own)
    }
    renamed = {argument: name for name, argument in verb.names.items()}
    found = [
        Parameter(
            name,
            name,
            schema_of(kind, nullable=False),
            name != "app" and "None" not in kind,
            "query",
            IDENTITY_TEXTS[name],
            "default" if name == "app" else None,
        )
        for name, kind in identities.items()
    ]
    in_query = verb.method in ("GET", "DELETE")
    for one in own:
        skipped = {*verb.without, *verb.fixed, *("expected",) * verb.swaps}
        if one.name in skipped or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        name = renamed.get(one.name, one.name)
        place = "query" if in_query or name in verb.at else "body"
        kind = "str" if verb.page and one.name == "after" else str(one.annotation)
        required = one.default is one.empty
        found.append(
            Parameter(
                name,
                one.name,
                schema_of(kind),
                required,
                place,
                texts.get(one.name, ""),
                None if required else one.default,
            )
        )
    if verb.page:
        words = {"type": "string", "enum": list(KINDS)}
        text = "All of the list as a file, from *after* on; *limit* does not count then."
        found.append(Parameter("format", "format", words, required=False, place="query", text=text))
    return tuple(found)


def read_query(parameter: Parameter, values: Sequence[str]) -> Any:
    """
    Return the value of a parameter in a query.

    Args:
        values: As they stand there, once or repeated for a list.

    Raises:
        InvalidInput: they are not of its type.
    """
    schema = parameter.schema
    schemas = schema.get("anyOf", [schema])
    lists = [one for one in schemas if one.get("type") == "array"]
    if lists and (len(schemas) == 1 or len(values) > 1 or len(_but_null(schemas)) == 1):
        inner = parameter.replace(schema=lists[0]["items"])
        return check_value([read_query(inner, [one]) for one in values], schema, parameter.name)
    if len(values) > 1:
        raise InvalidInput(f"{parameter.name} is given {len(values)} times: give it once")
    for one in _but_null(schemas):
        try:
            value = _from_text(values[0], one)
        except InvalidInput as error:
            raise InvalidInput(f"{parameter.name}: {error}") from error
        if value is not MISSING:
            return check_value(value, schema, parameter.name)
    raise InvalidInput(f"{parameter.name} is {_short(values[0])}: give {_wanted(schema)}")


def _but_null(schemas: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in schemas if one.get("type") != "null"]


def _from_text(text: str, schema: Mapping[str, Any]) -> Any:
    """Return *text* as a value of the type, `MISSING` if it cannot be one."""
    kind = schema.get("type")
    if kind == "integer":
        return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else MISSING
    if kind == "number":
        is_number = re.fullmatch(r"-?[0-9]{1,30}(\.[0-9]{1,30})?", text)
        return float(text) if is_number else MISSING
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, MISSING)
    if kind == "object":
        return read_json(text)
    if kind == "array":
        return [_from_text(text, schema["items"])]
    return text


def read_json(text: str | bytes) -> Any:
    """
    Return what JSON text says.

    Raises:
        InvalidInput: it is no JSON, holds NaN or a name twice, or is nested too deeply.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_to_object)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the JSON cannot be read: {error}") from error
    _check_depth(value)
    return value


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_short(twice)} is given twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        inside = [one for one in level if isinstance(one, (dict, list))]
        level = [
            inner for one in inside for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise InvalidInput(f"the JSON is nested more than {MAX_DEPTH} deep: make it flatter")


def check_value(value: Any, schema: Mapping[str, Any], field: str) -> Any:
    """
    Return *value* as the call takes it: bytes for base64.

    Raises:
        InvalidInput: it is not of the schema; the error names *field*.
    """
    schemas = schema.get("anyOf", [schema])
    if INTEGER in schemas and isinstance(value, str) and _is_large(value):
        value = int(value)
    chosen = next((one for one in schemas if _is_of(value, one)), None)
    if chosen is None:
        raise InvalidInput(f"{field} is {_short(value)}: give {_wanted(schema)}")
    if "enum" in chosen and value not in chosen["enum"]:
        raise InvalidInput(f"{field} is {_short(value)}: use {', '.join(chosen['enum'])}")
    if chosen.get("type") == "array":
        return _check_list(value, chosen, field)
    if chosen.get("type") == "integer" and abs(value) > MAX_INT:
        raise InvalidInput(f"{field} is {value}: it is out of range")
    if chosen.get("contentEncoding") == "base64":
        try:
            return a2b_base64(value, strict_mode=True)
        except (Base64Error, ValueError) as error:
            raise InvalidInput(f"{field} is no base64: {error}") from error
    return value


def _is_large(text: str) -> bool:
    """Return whether *text* is a number that a browser would round."""
    return bool(re.fullmatch("[1-9][0-9]{15,18}", text)) and int(text) > MAX_EXACT_INT


def _check_list(value: list[Any], schema: Mapping[str, Any], field: str) -> Any:
    count = len(value)
    if not schema.get("minItems", 0) <= count <= schema.get("maxItems", count):
        raise InvalidInput(f"{field} has {count} elements: give {schema['minItems']}")
    items = schema.get("items", {})
    checked = [check_value(one, items, f"{field}[{at}]") for at, one in enumerate(value)]
    return tuple(checked) if "minItems" in schema else checked


def _is_of(value: Any, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind is None:
        return True
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    return isinstance(value, _TYPES[kind])


def _wanted(schema: Mapping[str, Any]) -> str:
    kinds = [_ARTICLES[one["type"]] for one in _but_null(schema.get("anyOf", [schema]))]
    return " or ".join(dict.fromkeys(kinds))


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"  # noqa: PLR2004 (of a message)
