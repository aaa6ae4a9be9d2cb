"""
The nine tools of the official memory server (@modelcontextprotocol/server-memory).

They answer as that server does, call by call, and are described in its words. The graph is
one shared artifact, in the lines that the server keeps in its file, so it is searched,
exported and forgotten like everything else. A call reads and writes it in one transaction:
of two processes none loses a write.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput, NotFound
from memdb.integrations.mcp.tools import TOOLS, Tool, halved, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.scope import Scope

    Given = dict[str, Any]

NAME = "user:knowledge-graph.jsonl"
URI = "memory://knowledge-graph"
RESOURCE = {
    "uri": URI,
    "name": "knowledge-graph",
    "title": "Knowledge Graph",
    "description": "The full knowledge graph with all entities and relations",
    "mimeType": "application/json",
}
ENTITY = ("name", "entityType", "observations")
RELATION = ("from", "to", "relationType")


class Graph:
    """Entities and relations, in the order in which they were made."""

    def __init__(self, lines: str = "") -> None:
        """
        Read the lines of the official server's file.

        Raises:
            InvalidInput: they are not such lines; nothing of them is left out.
        """
        self.entities: list[Given] = []
        self.relations: list[Given] = []
        for number, line in enumerate(lines.split("\n"), start=1):
            if line.strip():
                one = _read(line, number)
                if one["type"] == "entity":
                    self.entities.append(_only(one, ENTITY))
                else:
                    self.relations.append(_only(one, RELATION))

    def lines(self) -> str:
        """Return the graph as that file."""
        kinds = (("entity", self.entities), ("relation", self.relations))
        return "\n".join(
            json.dumps({"type": kind, **one}, ensure_ascii=False, separators=(",", ":"))
            for kind, all_of in kinds
            for one in all_of
        )

    def whole(self) -> Given:
        """Return everything."""
        return {"entities": self.entities, "relations": self.relations}

    def around(self, entities: list[Given]) -> Given:
        """Return *entities* with the relations that touch one of them."""
        names = {one["name"] for one in entities}
        touching = [one for one in self.relations if one["from"] in names or one["to"] in names]
        return {"entities": entities, "relations": touching}


def _only(one: Given, fields: tuple[str, ...]) -> Given:
    return {field: one[field] for field in fields if field in one}


def _read(line: str, number: int) -> Given:
    """Return an entity or a relation."""
    try:
        one = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(number, "is no JSON") from error
    kind = one.get("type") if isinstance(one, dict) else None
    if kind not in ("entity", "relation"):
        raise _damaged(number, "is neither an entity nor a relation")
    fields = ENTITY if kind == "entity" else RELATION
    for field in fields:
        value = one.get(field)
        texts = value if field == "observations" else [value]
        if not isinstance(texts, list) or not all(isinstance(said, str) for said in texts):
            what = "a list of texts" if field == "observations" else "a text"
            raise _damaged(number, f"has no {field}, which is {what}")
    if halved([one[field] for field in fields]):
        raise _damaged(number, "holds half a character (a lone surrogate)")
    return {**one}


def _damaged(number: int, what: str) -> InvalidInput:
    return InvalidInput(
        f"artifact {NAME}, line {number}: it {what}; load the artifact, correct the line and save "
        "it, nothing was changed"
    )


def _load(scope: Scope) -> Graph:
    try:
        data = scope.artifacts.load(NAME).data
    except NotFound:
        return Graph()
    try:
        return Graph(data.decode())
    except UnicodeDecodeError as error:
        raise _damaged(data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from error


def read_graph(scope: Scope) -> Given:
    """Return the whole graph."""
    return _load(scope).whole()


def _changing(change: Callable[[Graph, Given], Given]) -> Callable[[Scope, Given], Given]:
    """Return *change* as an atomic call that reads, changes and stores the graph."""

    def run(scope: Scope, given: Given) -> Given:
        graph = _load(scope)
        before = graph.lines()
        answer = change(graph, given)
        after = graph.lines()
        if after != before:
            saved = scope.artifacts.save(NAME, after, mime="text/plain")
            if saved.version > 1:  # what was deleted from the graph is gone
                scope.artifacts.delete(NAME, saved.version - 1)
        return answer

    return run


def _create_entities(graph: Graph, given: Given) -> Given:
    known = {one["name"] for one in graph.entities}
    new = [_only(one, ENTITY) for one in given["entities"] if one["name"] not in known]
    graph.entities += new
    return {"entities": new}


def _create_relations(graph: Graph, given: Given) -> Given:
    known = [*graph.relations]
    asked = [_only(one, RELATION) for one in given["relations"]]
    new = [one for one in asked if one not in known]
    graph.relations += new
    return {"relations": new}


def _add_observations(graph: Graph, given: Given) -> Given:
    results = []
    for asked in given["observations"]:
        entity = _entity(graph, asked["entityName"])
        if entity is None:
            raise InvalidInput(f"Entity with name {asked['entityName']} not found")
        held = entity["observations"]
        new = [one for one in asked["contents"] if one not in held]
        entity["observations"] = held + new
        results.append({"entityName": asked["entityName"], "addedObservations": new})
    return {"results": results}


def _entity(graph: Graph, name: str) -> Given | None:
    return next((one for one in graph.entities if one["name"] == name), None)


def _delete_entities(graph: Graph, given: Given) -> Given:
    gone = set(given["entityNames"])
    graph.entities = [one for one in graph.entities if one["name"] not in gone]
    graph.relations = [one for one in graph.relations if not gone & {one["from"], one["to"]}]
    return _done("Entities")


def _delete_observations(graph: Graph, given: Given) -> Given:
    for asked in given["deletions"]:
        entity = _entity(graph, asked["entityName"])
        if entity is not None:
            kept = [one for one in entity["observations"] if one not in asked["observations"]]
            entity["observations"] = kept
    return _done("Observations")


def _delete_relations(graph: Graph, given: Given) -> Given:
    gone = [_only(one, RELATION) for one in given["relations"]]
    graph.relations = [one for one in graph.relations if one not in gone]
    return _done("Relations")


def _done(what: str) -> Given:
    return {"success": True, "message": f"{what} deleted successfully"}


def _search_nodes(scope: Scope, given: Given) -> Given:
    graph, wanted = _load(scope), given["query"].lower()
    found = [
        one
        for one in graph.entities
        if any(
            wanted in said.lower()
            for said in (one["name"], one["entityType"], *one["observations"])
        )
    ]
    return graph.around(found)


def _open_nodes(scope: Scope, given: Given) -> Given:
    graph = _load(scope)
    return graph.around([one for one in graph.entities if one["name"] in given["names"]])


def answer_text(name: str, answer: Given) -> str:
    """Return the text that the official server sends beside a structured answer."""
    if "message" in answer:
        return str(answer["message"])
    whole = name in ("read_graph", "search_nodes", "open_nodes")
    return json.dumps(
        answer if whole else next(iter(answer.values())), ensure_ascii=False, indent=2
    )


# The tools as that server lists them, to the letter: a client may have recorded them.
DRAFT = "http://json-schema.org/draft-07/schema#"
TEXT: Given = {"type": "string"}
CLOSED: Given = {"additionalProperties": False}


def _texts(description: str = "") -> Given:
    return _list(TEXT, description)


def _list(items: Given, description: str = "") -> Given:
    told = {"description": description} if description else {}
    return {"type": "array", "items": items, **told}


def _object(fields: Given) -> Given:
    required = {"required": [*fields]} if fields else {}
    return {"type": "object", "properties": fields, **required}


def _closed(schema: Given) -> Given:
    """Return a schema whose objects have no other fields, as those of answers."""
    inner = {
        name: {**one, "items": one["items"] | CLOSED} if _holds_objects(one) else one
        for name, one in schema["properties"].items()
    }
    return {"$schema": DRAFT, **schema, "properties": inner, **CLOSED}


def _holds_objects(schema: Given) -> bool:
    return "properties" in schema.get("items", {})


ENTITY_SHAPE = _object(
    {
        "name": text("The name of the entity"),
        "entityType": text("The type of the entity"),
        "observations": _texts("An array of observation contents associated with the entity"),
    }
)
RELATION_SHAPE = _object(
    {
        "from": text("The name of the entity where the relation starts"),
        "to": text("The name of the entity where the relation ends"),
        "relationType": text("The type of the relation"),
    }
)
ENTITIES = {"entities": _list(ENTITY_SHAPE)}
RELATIONS = {"relations": _list(RELATION_SHAPE)}
GRAPH = ENTITIES | RELATIONS
DONE = {"success": {"type": "boolean"}, "message": TEXT}


def _tool(name: str, description: str, asked: Given, answer: Given, run: Any, **hints: Any) -> Tool:
    title = name.replace("_", " ").title()
    arguments = {"$schema": DRAFT, **_object(asked)}
    return Tool(name, title, description, arguments, _closed(_object(answer)), run, **hints)


READ = {"read_only": True, "idempotent": True}
CHANGE: Given = {"atomic": True, "ordered": True, "changes": frozenset({URI})}
DELETE: Given = {"destructive": True, "idempotent": True, **CHANGE}
COMPAT = (
    _tool(
        "create_entities",
        "Create multiple new entities in the knowledge graph",
        ENTITIES,
        ENTITIES,
        _changing(_create_entities),
        **CHANGE,
    ),
    _tool(
        "create_relations",
        "Create multiple new relations between entities in the knowledge graph. Relations should be"
        " in active voice",
        RELATIONS,
        RELATIONS,
        _changing(_create_relations),
        **CHANGE,
    ),
    _tool(
        "add_observations",
        "Add new observations to existing entities in the knowledge graph",
        {
            "observations": _list(
                _object(
                    {
                        "entityName": text("The name of the entity to add the observations to"),
                        "contents": _texts("An array of observation contents to add"),
                    }
                )
            )
        },
        {"results": _list(_object({"entityName": TEXT, "addedObservations": _texts()}))},
        _changing(_add_observations),
        **CHANGE,
    ),
    _tool(
        "delete_entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        {"entityNames": _texts("An array of entity names to delete")},
        DONE,
        _changing(_delete_entities),
        **DELETE,
    ),
    _tool(
        "delete_observations",
        "Delete specific observations from entities in the knowledge graph",
        {
            "deletions": _list(
                _object(
                    {
                        "entityName": text("The name of the entity containing the observations"),
                        "observations": _texts("An array of observations to delete"),
                    }
                )
            )
        },
        DONE,
        _changing(_delete_observations),
        **DELETE,
    ),
    _tool(
        "delete_relations",
        "Delete multiple relations from the knowledge graph",
        {"relations": _list(RELATION_SHAPE, "An array of relations to delete")},
        DONE,
        _changing(_delete_relations),
        **DELETE,
    ),
    _tool(
        "read_graph",
        "Read the entire knowledge graph",
        {},
        GRAPH,
        lambda scope, _given: read_graph(scope),
        **READ,
    ),
    _tool(
        "search_nodes",
        "Search for nodes in the knowledge graph based on a query",
        {
            "query": text(
                "The search query to match against entity names, types, and observation content"
            )
        },
        GRAPH,
        _search_nodes,
        **READ,
    ),
    _tool(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        {"names": _texts("An array of entity names to retrieve")},
        GRAPH,
        _open_nodes,
        **READ,
    ),
)
NAMES = frozenset(tool.name for tool in COMPAT)


def offered(*, compat: bool) -> tuple[Tool, ...]:
    """Return the tools of a server, with those of the official memory server for *compat*."""
    return (*TOOLS, *COMPAT) if compat else TOOLS
