"""
The file of the official MCP memory server: entities, observations and relations as lines.

The graph becomes the artifact that `memdb mcp` answers from, and each observation and
relation an entry, so that `recall` finds it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memdb.transfer.formats.base import Format, left_out
from memdb.transfer.lines import Item
from memdb.transfer.source import parse_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.transfer.formats.base import Request
    from memdb.transfer.tree import Tree

GRAPH = "user:knowledge-graph.jsonl"  # as memdb.integrations.mcp.compat calls it
ENTITY = {"type", "name", "entityType", "observations"}
RELATION = {"type", "from", "to", "relationType"}
SOURCE = "mcp-memory"


def _claim(tree: Tree) -> list[str]:
    """Claim files whose first line is an entity or a relation."""
    names = tree.candidates("*.jsonl", "*.json")
    return [name for name in names if _is_line(tree.peek(name))]


def _is_line(fields: dict[str, Any]) -> bool:
    kind = fields.get("type")
    return (kind == "entity" and fields.keys() >= ENTITY) or (
        kind == "relation" and fields.keys() >= RELATION
    )


def _read(request: Request) -> Iterator[Item]:
    lines = []
    for name in request.names:
        with request.tree.open(name) as source:
            for number, line in source.lines():
                place = request.tree.place(name, f"line {number}")
                value = parse_line(number, line)
                if not isinstance(value, dict) or not _is_line(value):
                    yield left_out(place, "lines", "they are neither an entity nor a relation")
                    continue
                lines.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
                for text, about in _facts(value):
                    fields = {"text": text, "source": SOURCE, "metadata": about}
                    yield Item(place, "entry", fields)
    if lines:
        fields = {"name": GRAPH, "text": "\n".join(lines), "mime": "application/jsonl"}
        yield Item(request.tree.name, "artifact", fields)


def _facts(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a sentence for each thing that a line says, and where it is from."""
    if value["type"] == "relation":
        relation = str(value["relationType"]).replace("_", " ")
        yield f"{value['from']} {relation} {value['to']}", {"relation": value["relationType"]}
        return
    about = {"entity": value["name"], "type": value["entityType"]}
    observations = value["observations"] if isinstance(value["observations"], list) else []
    for observation in observations:
        if isinstance(observation, str) and observation.strip():
            yield f"{value['name']}: {observation}", about


FORMATS = {"mcp-memory": Format("mcp-memory", "the file of the MCP memory server", _claim, _read)}
