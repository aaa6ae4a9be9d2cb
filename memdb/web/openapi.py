"""
The OpenAPI document of the JSON API, made from the table of verbs.

Schemas of answers are those of the returned records, with the texts of their docstrings.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, get_args

from memdb import __version__
from memdb.api import pages
from memdb.api.signatures import split_annotation
from memdb.models import entries, items, messages, observation, reports, settings, summaries, types
from memdb.models.record import Record
from memdb.summaries import tree
from memdb.web.parameters import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memdb.web.routes import Route

MODULES = (messages, entries, summaries, tree, reports, items, settings, observation, pages)
RECORDS: dict[str, type[Record]] = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Record) and value is not Record
}
ANSWER_TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": ["number", "null"]},  # one that is infinite has no JSON
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "None": {"type": "null"},
    **dict.fromkeys(("PortError", "MemDBError"), {"type": "string"}),  # noqa: RUF024 (read only)
}
BYTES: dict[str, Any] = {"application/octet-stream": {}, "image/*": {}}
LISTS = ("Page", "list", "tuple", "Iterator", "Sequence")
PROBLEM = {
    "type": "object",
    "required": ["type", "status", "code", "detail", "todo"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "That of `memdb.errors`, or of the server."},
        "detail": {"type": "string", "description": "What failed."},
        "todo": {"type": "string", "description": "What to do."},
        "field": {"type": ["string", "null"], "description": "The parameter, of a 422."},
    },
}


def document(
    routes: Mapping[str, Mapping[str, Route]], about: str, cookie: str = ""
) -> dict[str, Any]:
    """
    Return the OpenAPI 3.1 document of *routes*.

    Args:
        about: What serves them.
        cookie: The name of the cookie that can replace a token. "" means that there is none, and
            that a user's token decides whose memory is meant.
    """
    schemes: dict[str, dict[str, str]] = {"token": {"type": "http", "scheme": "bearer"}}
    if cookie:
        schemes["cookie"] = {"type": "apiKey", "in": "cookie", "name": cookie}
    schemas: dict[str, Any] = {"Problem": PROBLEM}
    paths = {
        f"/api/v1/{noun}": {
            method.lower(): _operation(route, schemas, has_users=not cookie)
            for method, route in methods.items()
        }
        for noun, methods in routes.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "memdb", "version": __version__, "description": about},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": schemes},
        "security": [{name: []} for name in schemes],
    }


def _operation(route: Route, schemas: dict[str, Any], *, has_users: bool) -> dict[str, Any]:
    verb = route.verb
    known = {"user"} if has_users else set()
    parameters = [
        {
            "name": one.name,
            "in": "query",
            "required": one.required and one.name not in known,
            "schema": one.schema,
            **({"description": one.text} if one.text else {}),
            **({"example": verb.example[one.name]} if one.name in verb.example else {}),
        }
        for one in route.parameters
        if one.place == "query"
    ]
    if verb.swaps:
        parameters.append(_header("If-Match", "The ETag that you read; * for any."))
        parameters.append(_header("If-None-Match", "* if nothing may be there yet."))
    if verb.creates:
        parameters.append(_header("Idempotency-Key", "The same key again gives the same answer."))
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": summary_of(route),
        "description": description_of(route),
        "parameters": parameters,
        "responses": {"200": _answer(route, schemas), "default": _problem()},
    }
    fields = [one for one in route.parameters if one.place == "body"]
    if fields:
        operation["requestBody"] = _body(route, fields)
    return operation


def _header(name: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": text,
    }


def _body(route: Route, fields: list[Any]) -> dict[str, Any]:
    example = {
        one.name: route.verb.example[one.name] for one in fields if one.name in route.verb.example
    }
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": [one.name for one in fields if one.required],
        "properties": {
            one.name: {**one.schema, **({"description": one.text} if one.text else {})}
            for one in fields
        },
    }
    content = {"application/json": {"schema": schema, "example": example}}
    return {"required": bool(schema["required"]), "content": content}


def _problem() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": "What failed",
        "content": {"application/problem+json": {"schema": schema}},
    }


def _answer(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    is_lines = route.answers.startswith("Iterator[") and not route.verb.page
    kind = "application/jsonl" if is_lines else "application/json"
    if route.answers in ("OpenBytes", "BackupCopy"):
        return {"description": "The bytes", "content": BYTES}
    content: dict[str, Any] = {kind: {"schema": answer_schema(route, schemas)}}
    if route.verb.page:
        content |= {one.partition(";")[0]: {"schema": {"type": "string"}} for one in KINDS.values()}
    return {"description": "What the call returns", "content": content}


def answer_schema(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer; the records that it names are added to *schemas*."""
    answers = route.answers
    if answers.startswith("Iterator[") and not route.verb.page:
        return {"type": "object"}
    parts = [one for one in split_annotation(answers, "|") if one != "None"]
    kind = parts[0] if parts else "None"
    outer, _, inner = kind.partition("[")
    if outer in LISTS:
        return _list(type_schema(inner.removesuffix("]").removesuffix(", ..."), schemas))
    if kind in RECORDS or outer == "dict":
        return type_schema(kind, schemas)
    return {
        "type": "object",
        "required": ["value"],
        "properties": {"value": type_schema(answers, schemas)},
    }


def _list(items_schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items", "next", "complete"],
        "properties": {
            "items": {"type": "array", "items": items_schema},
            "next": {"type": ["string", "null"], "description": "Give it as `after`."},
            "complete": {"type": "boolean"},
        },
    }


def type_schema(annotation: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field's type; a record is added to *schemas* by its name."""
    parts = split_annotation(annotation, "|")
    if len(parts) > 1:
        return {"anyOf": [type_schema(one, schemas) for one in parts]}
    kind = parts[0]
    if kind in RECORDS:
        if kind not in schemas:
            schemas[kind] = {}
            schemas[kind].update(_record_schema(RECORDS[kind], schemas))
        return {"$ref": f"#/components/schemas/{kind}"}
    outer, _, inner = kind.partition("[")
    inner = inner.removesuffix("]")
    if outer in LISTS and "," not in inner.removesuffix(", ..."):
        return {"type": "array", "items": type_schema(inner.removesuffix(", ..."), schemas)}
    if outer in ("dict", "Mapping"):
        values = type_schema(split_annotation(inner, ",")[-1], schemas)
        return {"type": "object", "additionalProperties": values}
    words = get_args(getattr(types, kind, None)) if outer == kind else ()
    return {"enum": list(words)} if words else ANSWER_TYPES.get(kind, {})


def _record_schema(kind: type[Record], schemas: dict[str, Any]) -> dict[str, Any]:
    fields = {name: of for name, of in kind.__annotations__.items() if name != "row_id"}
    texts = field_texts(inspect.getdoc(kind) or "")
    properties = {}
    for name, annotation in fields.items():
        schema = type_schema(str(annotation), schemas)
        text = texts.get(name, "")
        properties[name] = {**schema, "description": text} if text else schema
    return {
        "type": "object",
        "description": (inspect.getdoc(kind) or "").partition("\n")[0],
        "required": list(fields),
        "properties": properties,
    }


def field_texts(docstring: str) -> dict[str, str]:
    """Return the text about each field in the section "Attributes:" of a docstring."""
    texts: dict[str, str] = {}
    name = ""
    for line in docstring.partition("Attributes:\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        text = line.strip()
        if line.startswith("    ") and not line.startswith("     "):
            name, _, text = text.partition(":")
        if name and text:
            texts[name] = f"{texts.get(name, '')} {text.strip()}".strip()
    return texts


def operation_id(route: Route) -> str:
    """Return the name of a route, for client generators."""
    noun = route.verb.noun.replace("/", "_")
    return f"{route.verb.method.lower()}_{noun}"


def summary_of(route: Route) -> str:
    """Return the first sentence of the docstring of a verb's call."""
    return (inspect.getdoc(route.verb.call) or "").partition("\n")[0]


def description_of(route: Route) -> str:
    """Return the docstring before its sections."""
    doc = inspect.getdoc(route.verb.call) or ""
    return doc.partition("\nArgs:")[0].partition("\nReturns:")[0].partition("\nRaises:")[0].strip()
