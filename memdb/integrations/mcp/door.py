"""
Answer the requests of the Model Context Protocol from one scope.

Requests and answers are plain JSON objects, as on the wire: nothing here needs the mcp package.
Every request is answered and the server continues: a wrong call gets an error that says what to do.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from memdb.adapters.schemas import check_value
from memdb.adapters.shared import for_client, note_answer
from memdb.errors import InvalidInput, MemDBError
from memdb.integrations.mcp.subscriptions import Subscriptions
from memdb.integrations.mcp.tools import (
    TOOLS,
    WRITTEN,
    artifacts_of,
    described,
    escaped,
    loaded_answer,
    many,
    message_of,
    pieces_of,
    said,
    shape,
    text,
    written,
)
from memdb.text.trust import UNTRUSTED, least_trust, trust_of_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from typing import Any

    from memdb.api.database import MemDB
    from memdb.integrations.mcp.subscriptions import Caller, Run
    from memdb.integrations.mcp.tools import Answer, Arguments, Tool
    from memdb.models.messages import ArtifactVersion

INSTRUCTIONS = (
    "The long-term memory of one user. Recall before you answer what may have been said before; "
    "remember what will matter later."
)
SCHEME = "memdb://"
PAGE = 100
MAX_CURSOR_CHARS = 12
MAX_SHOWN = 80
READ = "resources/read"
INVALID_PARAMS = -32602


class Refused(Exception):
    """A refused request: the code of the protocol's error, a sentence, and data."""

    def __init__(self, code: int, sentence: str, data: Any = None) -> None:
        """Answer with *sentence*."""
        super().__init__(sentence)
        self.code = code
        self.data = data


def takes(*required: str, **fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request's parameters; additional ones are ignored."""
    return {**shape(*required, **fields), "additionalProperties": True}


URI = takes("uri", uri=text(""))
CURSOR = takes(cursor={"type": ["string", "null"]})
CALL = takes("name", name=text(""), arguments={"type": ["object", "null"]})
WANTED = takes(
    resourcesListChanged={"type": ["boolean", "null"]},
    resourceSubscriptions={**many(text("")), "type": ["array", "null"]},
)
PARAMS = {
    "tools/list": CURSOR,
    "tools/call": CALL,
    "resources/list": CURSOR,
    "resources/templates/list": CURSOR,
    READ: URI,
    "resources/subscribe": URI,
    "resources/unsubscribe": URI,
    "subscriptions/listen": takes("notifications", notifications=WANTED),
}


class Door:
    """
    The requests of a client about one scope.

    Attributes:
        requests: The handler of each method of `PARAMS`; it gets parameters that match the schema.
        subscriptions: The clients that are notified of changes.
    """

    def __init__(self, db: MemDB, run: Run, user: str, app: str) -> None:
        """
        Answer from the memory of *user*.

        Args:
            run: Runs a call in a thread of the file, as `memdb.aio.MemDB.run` does.

        Raises:
            InvalidInput: a name is unusable.
        """
        db.scope(user, app)  # refuses a name before anybody connects
        self._db = db
        self._run = run
        self._place = user, app
        self._tools = {tool.name: tool for tool in TOOLS}
        self.subscriptions = Subscriptions(db, run, self._stamps)
        self.requests: dict[str, Callable[[Caller, Arguments], Awaitable[Answer]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            READ: self._read_resource,
            "resources/subscribe": self.subscriptions.subscribe,
            "resources/unsubscribe": self.subscriptions.unsubscribe,
            "subscriptions/listen": self.subscriptions.listen,
        }

    async def _list_tools(self, _caller: Caller, _params: Arguments) -> Answer:
        """Return every tool with its schemas and hints."""
        return {"tools": [_definition(tool) for tool in self._tools.values()]}

    async def _call_tool(self, caller: Caller, params: Arguments) -> Answer:
        """Run a call in a thread of the file, beside others unless it is a quick write."""
        tool = self._tools.get(params["name"])
        if tool is None:
            shown = params["name"][:MAX_SHOWN]
            return _failed(f"there is no tool {shown!r}: use one of {', '.join(self._tools)}")
        given = _whole(tool, params.get("arguments") or {})
        try:
            given = check_value(given, tool.arguments, "arguments")
        except InvalidInput as error:
            return _failed(str(error))

        def run(db: MemDB) -> Answer:
            scope = db.scope(*self._place)
            answer = tool.run(scope, {**given})
            if tool.is_logged:
                note_answer(scope, tool.name, partial(pieces_of, answer, given.get("session")))
            return answer

        try:
            with for_client(self._db, _writer(caller)):
                if tool.read_only:
                    answer = await self._run(run, kind="ask")
                else:  # news comes before the answer
                    async with self.subscriptions.changing():
                        answer = await self._run(run, kind="write" if tool.ordered else "ask")
        except MemDBError as error:
            return _failed(said(error, given))
        except Exception as error:  # noqa: BLE001 (the server outlives any call)
            return _failed(f"{type(error).__name__}: {error}")
        answer = escaped(answer)
        shown = json.dumps(answer, ensure_ascii=False)
        return {
            "content": [{"type": "text", "text": shown}],
            "structuredContent": answer,
            "isError": False,
        }

    async def _list_resources(self, _caller: Caller, params: Arguments) -> Answer:
        """Return a page of the conversations and artifacts."""
        start = _start(params.get("cursor"))
        found = await self._run(self._resources, kind="read")
        after = {"nextCursor": str(start + PAGE)} if start + PAGE < len(found) else {}
        return {"resources": [escaped(one) for one in found[start : start + PAGE]], **after}

    def _resources(self, db: MemDB) -> list[dict[str, Any]]:
        scope = db.scope(*self._place)
        found: list[dict[str, Any]] = [
            {
                "uri": f"{SCHEME}sessions/{quote(one.name, safe='')}",
                "name": one.name,
                "description": f"Conversation of {one.message_count} messages",
                "mimeType": "application/jsonl",
                "_meta": written(trust_of_text(one.name, UNTRUSTED), None, None),
            }
            for one in scope.sessions()
        ]
        for artifact in scope.artifacts.list():
            shown = described(artifact)
            found.append(
                {
                    "uri": _uri(artifact),
                    "name": artifact.name,
                    "mimeType": artifact.mime,
                    "size": artifact.size_bytes,
                    "_meta": {name: shown[name] for name in WRITTEN},
                }
            )
        return found

    async def _list_templates(self, _caller: Caller, _params: Arguments) -> Answer:
        """Return the templates of the URIs of resources."""
        shapes = {
            "session": "sessions/{session}",
            "artifact of a session": "sessions/{session}/artifacts/{name}",
            "shared artifact": "artifacts/{name}",
        }
        made = [{"name": name, "uriTemplate": SCHEME + path} for name, path in shapes.items()]
        return {"resourceTemplates": made}

    async def _read_resource(self, caller: Caller, params: Arguments) -> Answer:
        """Return a conversation as JSON lines, or the newest version of an artifact."""
        uri = params["uri"]
        try:
            with for_client(self._db, _writer(caller)):
                found = await self._run(lambda db: self._read(db, uri), kind="read")
        except MemDBError as error:
            raise Refused(INVALID_PARAMS, said(error, {})) from error
        if found is None:
            raise Refused(INVALID_PARAMS, f"there is no resource {uri!r}: list them first")
        content = escaped(found)
        body = {"text": content["text"]} if "text" in content else {"blob": content["base64"]}
        meta = {name: content[name] for name in WRITTEN}
        return {"contents": [{"uri": uri, "mimeType": content["mime"], **body, "_meta": meta}]}

    def _read(self, db: MemDB, uri: str) -> Answer | None:
        """Return the text or bytes of a resource, its media type and its writer."""
        scope = db.scope(*self._place)
        match _place(uri):
            case session, None:
                if session not in {one.name for one in scope.sessions(session)}:
                    return None
                said = [message_of(one) for one in scope.session(session).messages()]
                note_answer(scope, READ, partial(pieces_of, {"messages": said}, session))
                trust = least_trust(one["trust"] for one in said)
                text = "\n".join(map(json.dumps, said))
                return {"mime": "application/jsonl", "text": text, **written(trust, None, None)}
            case session, name:
                answer = loaded_answer(artifacts_of(scope, session).load(name))
                note_answer(scope, READ, partial(pieces_of, answer, session))
                return answer
        return None

    def _stamps(self, db: MemDB, uris: Collection[str]) -> dict[str, object]:
        """
        Return a value for each resource that changes with it, None for an absent one.

        "" is the list of all.
        """
        scope = db.scope(*self._place)
        stamps: dict[str, object] = {}
        for uri in uris:
            place = _place(uri)
            if not uri:
                stamps[uri] = [(one["uri"], one.get("mimeType")) for one in self._resources(db)]
            elif place is None:
                stamps[uri] = None
            elif place[1] is None:
                stamps[uri] = scope.session(place[0]).head()
            else:
                stamps[uri] = artifacts_of(scope, place[0]).versions(place[1])[:1]
        return stamps


def _definition(tool: Tool) -> dict[str, Any]:
    """Return the description of a tool for clients."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.arguments,
        "annotations": {
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
        "outputSchema": tool.answer,
    }


def _writer(caller: Caller) -> str | None:
    """Return the writer of rows that a client stores; None means the server's name."""
    return None if caller.client is None else f"mcp:{caller.client}"


def _place(uri: str) -> tuple[str, None] | tuple[str | None, str] | None:
    """Return session and artifact of a URI; without an artifact it is the session itself."""
    if not uri.startswith(SCHEME):
        return None
    match [unquote(part) for part in uri[len(SCHEME) :].split("/")]:
        case ["sessions", session]:
            return session, None
        case ["sessions", session, "artifacts", name]:
            return session, name
        case ["artifacts", name]:
            return None, name
    return None


def _uri(one: ArtifactVersion) -> str:
    place = "" if one.session is None else f"sessions/{quote(one.session, safe='')}/"
    return f"{SCHEME}{place}artifacts/{quote(one.name, safe='')}"


def _start(cursor: str | None) -> int:
    """Return the first row of the page that a cursor names."""
    if cursor is None:
        return 0
    digits = cursor.isascii() and cursor.isdecimal() and len(cursor) < MAX_CURSOR_CHARS
    start = int(cursor) if digits else 0
    if not start or start % PAGE or str(start) != cursor:
        raise Refused(
            INVALID_PARAMS, f"cursor {cursor[:40]!r} is not from this server: begin without one"
        )
    return start


def _whole(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """
    Return *given* as models mean it: without null, and "5" as 5.

    A tool that accepts null gets it.
    """
    fields = tool.arguments["properties"]
    kinds = {field: fields.get(field, {}).get("type") for field in given}
    return {
        field: _count(value) if kinds[field] == "integer" else value
        for field, value in given.items()
        if value is not None or kinds[field] is None
    }


def _count(value: Any) -> Any:
    """Return the number in a text such as "5"; other values unchanged."""
    is_number = isinstance(value, str) and re.fullmatch("-?[0-9]{1,15}", value)
    return int(value) if is_number else value


def _failed(sentence: str) -> Answer:
    return {"content": [{"type": "text", "text": escaped(sentence)}], "isError": True}
