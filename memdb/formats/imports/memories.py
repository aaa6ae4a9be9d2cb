"""
Facts from other memories.

- `mem0`: the JSON of its `get_all` or export. Each memory becomes an entry with its time, its
  categories as keywords, and its metadata. Its user is the given one, or the one that it names.
- `mcp-memory`: the file of the official MCP memory server, with entities, observations and
  relations as lines. The graph becomes an artifact, and each observation and relation an entry,
  so that `recall` finds it.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import Format, elements, groups, line_values, nested, refused
from memdb.text.validate import name_value, text_value
from memdb.transfer.lines import NOTE, Item, any_time, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree


LISTS = ("results", "memories")  # where the memories stand, if not in an array
MEM0 = "mem0"
PEEKS = 4
SHOWN = 5
MIXED = "it holds memories of {} users ({}), and all of them went to one: give --user one of these"
KEPT = ("id", "user_id", "agent_id", "run_id", "app_id")


def _claim_mem0(tree: Tree) -> list[str]:
    """Claim files whose first object is a memory, or has a list of them."""
    names = tree.candidates("*.json")
    return [name for name in names if any(map(_is_memory, _firsts(tree.peek(name))))]


def _firsts(fields: dict[str, Any]) -> list[Any]:
    """Return the first memories: the very first may be broken."""
    for name in LISTS:
        if isinstance(fields.get(name), list) and fields[name]:
            return [*fields[name][:PEEKS]]
    return [fields]


def _is_memory(value: Any) -> bool:
    return isinstance(value, dict) and "id" in value and isinstance(value.get("memory"), str)


def _read_mem0(request: Request) -> Read:
    if request.user is None:
        yield from _of_each(request)
        return
    found = elements(request, request.names, "memory", is_whole=False)
    people = {_user_of(value) for _, value in nested(found, "memory", _memories)} - {None}
    # Where the file knows whom it is imported for, what others have is not theirs.
    mine = request.user if len(people) > 1 and request.user in people else None
    found = elements(request, request.names, "memory")
    yield from groups(nested(found, "memory", _memories), partial(_memory, mine=mine))
    if len(people) > 1 and mine is None:
        names = ", ".join(sorted(map(repr, people))[:SHOWN])
        yield Item(request.tree.name, NOTE, {"text": MIXED.format(len(people), names)})


def _of_each(request: Request) -> Read:
    """Yield the memories of each user; first those that name none, which need a user."""
    by_user: dict[str, list[tuple[str, Any]]] = {"": []}
    for place, value in nested(elements(request, request.names, "memory"), "memory", _memories):
        by_user.setdefault(_user_of(value) or "", []).append((place, value))
    for user, found in by_user.items():
        if user:
            try:
                name_value(user, "user_id")
            except InvalidInput as error:
                yield from (refused(place, error) for place, _ in found)
                continue
            yield Item(found[0][0], "scope", {"app": "default", "user": user})
        yield from groups(found, partial(_memory, mine=None))


def _names_user(tree: Tree, names: list[str]) -> bool:
    """Return whether one of the first memories names its user."""
    return any(_user_of(one) for name in names for one in _firsts(tree.peek(name)))


def _user_of(value: Any) -> Any:
    """Return the user of a memory; None if it names none."""
    user = value.get("user_id") if _is_memory(value) else None
    return user if isinstance(user, str) else None


def _memories(value: Any) -> list[Any] | None:
    """Return the memories of an answer; None for what is a memory itself."""
    lists = [value[name] for name in LISTS if isinstance(value, dict) and name in value]
    return lists[0] if lists and isinstance(lists[0], list) else None


def _memory(place: str, value: Any, mine: str | None) -> Iterator[Item]:
    if not _is_memory(value):
        raise InvalidInput("this is not a memory of mem0, because it has no id or no text")
    user = _user_of(value)
    if mine is not None and user not in (None, mine):
        yield left_out(place, f"memories of {user!r}", "import the file for that user too")
        return
    about = {name: value[name] for name in KEPT if value.get(name)}
    if isinstance(value.get("metadata"), dict):
        about |= value["metadata"]
    fields: dict[str, Any] = {"text": value["memory"], "writer": MEM0, "metadata": about}
    categories = value.get("categories")
    if isinstance(categories, list):
        fields["keywords"] = [word for word in categories if isinstance(word, str) and word]
    for name in ("created", "updated"):
        fields[f"{name}_ms"] = any_time(value.get(f"{name}_at"), f"{name}_at")
    yield Item(place, "entry", {name: one for name, one in fields.items() if one is not None})


GRAPH = "user:knowledge-graph.jsonl"
ENTITY = ("type", "name", "entityType", "observations")
RELATION = ("type", "from", "to", "relationType")
GRAPH_SOURCE = "mcp-memory"


def _claim_graph(tree: Tree) -> list[str]:
    """Claim files whose first line is an entity or a relation."""
    names = tree.candidates("*.jsonl", "*.json")
    return [name for name in names if _is_line(tree.peek(name))]


def _is_line(fields: dict[str, Any]) -> bool:
    kind = fields.get("type")
    return (kind == "entity" and fields.keys() >= {*ENTITY}) or (
        kind == "relation" and fields.keys() >= {*RELATION}
    )


def _read_graph(request: Request) -> Read:
    kept: dict[str, str] = {}  # by place
    yield from groups(line_values(request, request.names), partial(_line, kept=kept))
    texts = [text for place, text in kept.items() if place not in request.refused]
    if texts:
        fields = {"name": GRAPH, "text": "\n".join(texts), "mime": "application/jsonl"}
        yield Item(request.tree.name, "artifact", fields)


def _line(place: str, value: Any, kept: dict[str, str]) -> Iterator[Item]:
    """Yield a line's statements as entries, and add it to *kept*, the lines of the graph."""
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
        yield Item(place, "entry", {"text": text, "writer": GRAPH_SOURCE, "metadata": about})
    plain = {name: value[name] for name in (ENTITY if is_entity else RELATION)}
    kept[place] = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _facts(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a sentence for each statement of a line, and its source."""
    if value["type"] == "relation":
        relation = value["relationType"].replace("_", " ")
        yield f"{value['from']} {relation} {value['to']}", {"relation": value["relationType"]}
        return
    about = {"entity": value["name"], "type": value["entityType"]}
    for observation in value["observations"]:
        yield f"{value['name']}: {observation}", about


FORMATS = {
    "mem0": Format("mem0", "memories of mem0", _claim_mem0, _read_mem0, _names_user),
    "mcp-memory": Format(
        "mcp-memory", "the file of the MCP memory server", _claim_graph, _read_graph
    ),
}
