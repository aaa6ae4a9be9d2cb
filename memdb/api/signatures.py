"""
Parameters of the calls of the API as JSON schemas and texts, from annotations and docstrings.

The JSON API and the command line are made of them, so that neither differs from Python.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, get_args

import memdb
from memdb.models import types
from memdb.models.ids import MAX_INT
from memdb.models.record import RecordType

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGER = {"type": "integer", "minimum": -MAX_INT, "maximum": MAX_INT}
STRING = {"type": "string"}
OBJECT = {"type": "object", "additionalProperties": True}  # of any values, also for TypeScript
SIMPLE: dict[str, dict[str, Any]] = {
    "str": STRING,
    "int": INTEGER,
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "Any": {},
    "object": {},
    "None": {"type": "null"},
    "Namespace": {"type": "array", "items": STRING},
}
UNIONS: dict[str, list[dict[str, Any]]] = {
    "When": [INTEGER, STRING],
    "Ttl": [{"type": "number"}, STRING],
    "ProviderMessage": [OBJECT, {"type": "array", "items": OBJECT}],
}
FUNCTIONS = ("Callable", "Progress")


def own_parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return what requests can give: no function, not the first, `**options` by their names."""
    found = list(inspect.signature(call).parameters.values())[1:]
    options = [one for one in found if one.kind is one.VAR_KEYWORD]
    for one in options:
        named = getattr(types, str(one.annotation)[len("Unpack[") : -1])
        found += [
            inspect.Parameter(name, one.KEYWORD_ONLY, default=None, annotation=of.__forward_arg__)
            for name, of in named.__annotations__.items()
        ]
    kept = [one for one in found if one not in options]
    return [one for one in kept if not str(one.annotation).startswith(FUNCTIONS)]


def argument_texts(doc: str) -> dict[str, str]:
    """Return the texts of the "Args:" section of a docstring, by parameter."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in doc.partition("Args:\n")[2].splitlines():
        if line and not line.startswith("    "):
            break
        if not line:
            names = []
            continue
        head = re.match(r" {4}([\w*, ]+): (.*)", line)
        if head and not line.startswith("     "):
            names = [name.strip().lstrip("*") for name in head[1].split(",")]
            texts |= dict.fromkeys(names, head[2])
        else:
            texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
    return texts


def schema_of(annotation: str, *, nullable: bool = True) -> dict[str, Any]:
    """
    Return the JSON schema of an annotation as the API writes them.

    Args:
        nullable: Whether null is a value, where the annotation has None.
    """
    pieces = split_annotation(annotation, "|")
    if len(pieces) > 1:  # a record in place of its number is for Python
        pieces = [one for one in pieces if not isinstance(getattr(memdb, one, None), RecordType)]
    if not nullable:
        pieces = [one for one in pieces if one != "None"]
    schemas: list[dict[str, Any]] = []
    for piece in pieces:
        schemas += [one for one in _schemas_of(piece) if one not in schemas]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _schemas_of(piece: str) -> list[dict[str, Any]]:
    if piece in SIMPLE or piece in UNIONS:
        return UNIONS.get(piece) or [SIMPLE[piece]]
    outer, _, inner = piece.partition("[")
    inner = inner.removesuffix("]")
    if outer == "Literal":
        return [{"type": "string", "enum": [one.strip(" '\"") for one in inner.split(",")]}]
    if outer == "tuple" and "..." not in inner:
        items = [schema_of(one) for one in split_annotation(inner, ",")]
        size = {"minItems": len(items), "maxItems": len(items)}
        return [{"type": "array", "items": items[0], **size}]
    if outer in ("Sequence", "Iterable", "list", "tuple"):
        return [{"type": "array", "items": schema_of(inner.removesuffix(", ..."))}]
    if outer in ("Mapping", "dict", "NewMessage"):
        return [OBJECT]
    words = get_args(getattr(types, piece, None))
    if not words or not all(isinstance(one, str) for one in words):
        raise TypeError(f"no JSON schema for {piece!r}")
    return [{"type": "string", "enum": list(words)}]


def split_annotation(text: str, mark: str) -> list[str]:
    """Cut *text* at each *mark* that stands outside of brackets."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == mark and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces]
