"""The OpenAPI document: complete, true of what is answered, and the source of docs/api.md."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from source_tree import CHECKOUT, ROOT
from test_verbs import call, changes_of

from memdb.api.verbs import VERBS, Verb
from memdb.web import openapi
from memdb.web.errors import CODES
from memdb.web.routes import find_routes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from web_site import Site

    from memdb.web.routes import Route

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


@pytest.fixture(scope="module")
def document(reading_site: Site) -> dict[str, Any]:
    """Return the document as it is served."""
    answer = reading_site.ask("GET", "openapi.json")
    assert answer.status == 200
    found: dict[str, Any] = answer.json
    return found


def wrong(
    value: Any, schema: Mapping[str, Any], document: Mapping[str, Any], at: str = ""
) -> list[str]:
    """Return where *value* is not as the schema says."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [wrong(value, one, document, at) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, TYPES[kind]) for kind in kinds):
        return [f"{at} is {value!r}, not {kinds}"]
    places: list[str] = []
    if isinstance(value, dict):
        places += [
            f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value
        ]
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            places += wrong(one, inner or {}, document, f"{at}.{name}")
    if isinstance(value, list):
        for one in value:
            places += wrong(one, schema.get("items", {}), document, f"{at}[]")
    return places


@each("verb", [one for one in VERBS if not one.writes])
def test_an_answer_is_as_the_document_says(
    reading_site: Site, document: dict[str, Any], verb: Verb
) -> None:
    """Every field of every record, by its type."""
    operation = document["paths"][f"/api/v1/{verb.noun}"][verb.method.lower()]
    answer = call(reading_site, verb, **changes_of(verb, reading_site.app.db))
    (kind, content), *_ = operation["responses"]["200"]["content"].items()

    if kind != "application/octet-stream":
        assert answer.headers["content-type"] == kind
    if kind == "application/json":
        assert wrong(answer.json, content["schema"], document) == []


def test_the_document_is_whole(document: dict[str, Any]) -> None:
    """A path per noun, one name per operation, and no schema that is named and absent."""
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]

    assert document["openapi"] == "3.1.0"
    assert len(names) == len({*names}) == len(VERBS)
    assert all(one["summary"] for one in operations)
    references = {
        one.partition('"')[0]
        for one in str(document).replace("'", '"').split("#/components/schemas/")[1:]
    }
    assert references <= {*document["components"]["schemas"]}


def markdown(routes: Mapping[str, Mapping[str, Route]]) -> str:
    """Return the table of routes and of errors for docs/api.md."""
    lines = ["| Request | Query | Body | What it does |", "|---|---|---|---|"]
    for noun, methods in routes.items():
        for method, route in methods.items():
            places = {
                place: ", ".join(
                    f"**{one.name}**" if one.required else one.name
                    for one in route.parameters
                    if one.place == place and one.name != "app"
                )
                for place in ("query", "body")
            }
            marks = " (`If-Match`)" if route.verb.swaps else ""
            summary = openapi.summary_of(route).replace("|", "\\|")
            row = f"`{method} {noun}`{marks} | {places['query']} | {places['body']} | {summary}"
            lines.append(f"| {row} |")
    lines += ["", "| Status | Code | What to do |", "|---|---|---|"]
    by_status = sorted(CODES.items(), key=lambda one: one[1][0])
    lines += [f"| {status} | `{code}` | {todo} |" for code, (status, todo) in by_status]
    return "\n".join(lines)


def test_the_table_of_docs_is_that_of_the_code() -> None:
    """`MEMDB_WRITE_DOCS=1 pytest tests/web/test_openapi.py` writes it anew."""
    if not ROOT.is_relative_to(CHECKOUT):
        pytest.skip("the installed wheel is tested, not the checkout")
    place = Path(CHECKOUT) / "docs" / "api.md"
    text = place.read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- routes -->\n")
    tail = rest.partition("<!-- end -->")[2]
    table = markdown(find_routes(read_only=False))
    made = f"{head}<!-- routes -->\n{table}\n<!-- end -->{tail}"
    if os.environ.get("MEMDB_WRITE_DOCS"):
        place.write_text(made, encoding="utf-8")
        return

    assert text == made
