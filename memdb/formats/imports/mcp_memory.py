"""
The file of the official MCP memory server: entities, observations and relations as lines.

The graph becomes an artifact, and each observation and relation an entry, so that `recall`
finds it.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from memdb.formats.imports.base import Format, groups, left_out
from memdb.text.validate import name_value, text_value
from memdb.transfer.lines import Item
from memdb.transfer.source import value_or_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.transfer.source import Tree

GRAPH = "user:knowledge-graph.jsonl"
ENTITY = ("type", "name", "entityType", "observations")
RELATION = ("type", "from", "to", "relationType")
SOURCE = "mcp-memory"


def _claim(tree: Tree) -> list[str]:
    """Claim files whose first line is an entity or a relation."""
    names = tree.candidates("*.jsonl", "*.json")
    return [name for name in names if _is_line(tree.peek(name))]


def _is_line(fields: dict[str, Any]) -> bool:
    kind = fields.get("type")
    return (kind == "entity" and fields.keys() >= {*ENTITY}) or (
        kind == "relation" and fields.keys() >= {*RELATION}
    )


def _read(request: Request) -> Read:
    kept: dict[str, str] = {}  # by place
    yield from groups(_values(request), partial(_line, kept=kept))
    texts = [text for place, text in kept.items() if place not in request.refused]
    if texts:
        fields = {"name": GRAPH, "text": "\n".join(texts), "mime": "application/jsonl"}
        yield Item(request.tree.name, "artifact", fields)


def _values(request: Request) -> Iterator[tuple[str, Any]]:
    """Yield place and value of each line."""
    for name in request.names:
        with request.tree.open(name) as source:
            for number, line in source.lines():
                yield request.tree.place(name, f"line {number}"), value_or_error(number, line)


def _line(place: str, value: Any, kept: dict[str, str]) -> Iterator[Item]:
    """Yield what a line says as entries; add it to *kept*, the lines of the graph."""
    if not isinstance(value, dict) or not _is_line(value):
        yield left_out(place, "lines", "they are neither an entity nor a relation")
        return
    is_entity = value["type"] == "entity"
    for name in ("name", "entityType") if is_entity else ("from", "to", "relationType"):
        name_value(value[name], name)
    if is_entity:
        given = value["observations"] if isinstance(value["observations"], list) else [None]
        texts = [one for one in given if isinstance(one, str) and one.strip()]
        if len(texts) < len(given):
            yield left_out(place, "observations", "they are no text", len(given) - len(texts))
        value = {**value, "observations": [text_value(text, "observation") for text in texts]}
    for text, about in _facts(value):
        yield Item(place, "entry", {"text": text, "source": SOURCE, "metadata": about})
    plain = {name: value[name] for name in (ENTITY if is_entity else RELATION)}
    kept[place] = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _facts(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a sentence for each thing that a line says, and where it is from."""
    if value["type"] == "relation":
        relation = value["relationType"].replace("_", " ")
        yield f"{value['from']} {relation} {value['to']}", {"relation": value["relationType"]}
        return
    about = {"entity": value["name"], "type": value["entityType"]}
    for observation in value["observations"]:
        yield f"{value['name']}: {observation}", about


FORMATS = {"mcp-memory": Format("mcp-memory", "the file of the MCP memory server", _claim, _read)}
