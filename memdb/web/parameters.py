"""
Parameters of verbs: their JSON schemas, from the annotations of the called functions.

The OpenAPI document and the check of a request use the same schema. So a value of a wrong type
is refused before a call begins. Texts come from the docstrings.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

from memdb.adapters.schemas import check_value, short, wanted
from memdb.api.signatures import argument_texts, own_parameters, schema_of
from memdb.errors import InvalidInput
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memdb.api.verbs import Verb

MAX_DEPTH = 64

# Which parameters choose the thing that a call is asked of, by its class.
USER = {"user": "str", "app": "str"}
SESSION = {**USER, "session": "str", "branch": "str | None"}
OF_ANY = {**USER, "session": "str | None"}
# The classes that are asked of all of a memory, not of one user's.
WHOLE_KINDS = ("MemDB", "File", "Jobs", "StoredSettings", "Folder")
IDENTITIES: dict[str, dict[str, str]] = {
    **{kind: {} for kind in WHOLE_KINDS},
    **dict.fromkeys(("Scope", "Entries", "Items"), USER),
    **dict.fromkeys(("Session", "Summaries"), SESSION),
    **dict.fromkeys(("Artifacts", "State"), OF_ANY),
}
IDENTITY_TEXTS = {
    "user": 'Whose memory; "" is what all users of the app share.',
    "app": "The program it belongs to.",
    "session": "Name of the session.",
    "branch": "A branch of the session. Default: the session itself.",
}
MISSING = object()
# Media types of the files that a list can be.
KINDS = {
    "jsonl": "application/jsonl",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
}


class Parameter(Record):
    """
    One parameter of a verb.

    Attributes:
        name: Its name in requests.
        argument: Its name in the function.
        schema: JSON schema of its values.
        place: "query" or "body".
        text: Its meaning; "" if the name is enough.
        default: None also if the parameter is required.
    """

    name: str
    argument: str
    schema: dict[str, Any]
    required: bool
    place: str
    text: str
    default: Any = None


def owner_kind(verb: Verb) -> str:
    """Return the name of the class that has the call of a verb."""
    if "." in verb.call.__qualname__:
        return verb.call.__qualname__.split(".")[0]
    return str(next(iter(inspect.signature(verb.call).parameters.values())).annotation)


def is_whole(verb: Verb) -> bool:
    """Return whether a verb is about a whole memory, even if a request names a user."""
    return owner_kind(verb) in WHOLE_KINDS and all(
        one.name != "user" for one in parameters_of(verb)
    )


def parameters_of(verb: Verb) -> tuple[Parameter, ...]:
    """Return the parameters of a verb: user, app, session and branch, then those of its call."""
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
        values: The values in the query, one or several for a list.

    Raises:
        InvalidInput: the values are not of its type.
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
    raise InvalidInput(f"{parameter.name} is {short(values[0])}: give {wanted(schema)}")


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
    Return the value of JSON text.

    Raises:
        InvalidInput: *text* is not JSON, contains NaN or a name twice, or is nested too deeply.
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
        raise ValueError(f"{short(twice)} is given twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


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
