"""TypeScript types of the answers of the JSON API, from its OpenAPI document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.web import openapi
from memdb.web.routes import find_routes

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD = """\
// What the JSON API answers: made from its OpenAPI document by tests/web/test_page_types.py.
declare namespace Api {
"""
NAMES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " | ".join(_plain(kind, schema) for kind in kinds) or "unknown"


def _plain(kind: str, schema: Mapping[str, Any]) -> str:
    if kind == "array":
        return f"Array<{type_of(schema.get('items', {}))}>"
    if kind == "object" and "properties" in schema:
        needed = schema.get("required", ())
        fields = (
            f"{name}{'' if name in needed else '?'}: {type_of(one)}"
            for name, one in schema["properties"].items()
        )
        return f"{{ {'; '.join(fields)} }}"
    if kind == "object":
        return f"Record<string, {type_of(schema.get('additionalProperties', {}))}>"
    return NAMES.get(kind, "null")


def declarations() -> str:
    """Return the types of all records, then of the answer of each request."""
    document = openapi.document(find_routes(read_only=False), "")
    lines = [HEAD.rstrip()]
    for name, schema in document["components"]["schemas"].items():
        lines.append(f"  interface {name} {{")
        needed = schema.get("required", ())
        for field, one in schema["properties"].items():
            lines.append(f"    {field}{'' if field in needed else '?'}: {type_of(one)};")
        lines.append("  }")
    for method in ("get", "post", "put", "patch", "delete"):
        lines.append(f"  interface {method.capitalize()} {{")
        for path, operations in document["paths"].items():
            answer = operations.get(method, {}).get("responses", {}).get("200", {})
            schema = answer.get("content", {}).get("application/json", {}).get("schema")
            if schema is not None:
                lines.append(f'    "{path.removeprefix("/api/v1/")}": {type_of(schema)};')
        lines.append("  }")
    return "\n".join([*lines, "}", ""])
