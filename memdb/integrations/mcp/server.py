"""
The MCP server: tools and resources of one scope, over whatever transport.

Whatever a client calls, the server answers and goes on: a wrong call gets an
error that says what to do.

A client that subscribes to a resource hears that it changed, through whatever process. A change by
a tool of this server is announced before the tool's answer. Changes of other clients of the file
are seen by SQLite's counter of commits, which is read `POLL_S` apart while there are subscriptions.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from memdb import __version__
from memdb.adapters.host import HostFile
from memdb.errors import Busy, Closed, MemDBError
from memdb.integrations.mcp.tools import (
    TOOLS,
    WRITTEN,
    described,
    escaped,
    loaded_answer,
    message_of,
    said,
    written,
)
from memdb.providers.shared import missing_extra
from memdb.text.trust import UNTRUSTED, least_trust, trust_of_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection
    from typing import Any

    import mcp_types as types
    from mcp.server import Server

    from memdb import aio
    from memdb.api.database import MemDB
    from memdb.integrations.mcp.tools import Answer, Tool
    from memdb.models.messages import ArtifactVersion

    Stamps = Callable[[MemDB, Collection[str]], dict[str, object]]


POLL_S = 0.25
ALL = ""  # means the list of resources


class Subscriptions:
    """The clients of one server, and the resources that each wants to hear of."""

    def __init__(self, db: aio.MemDB, stamps: Stamps) -> None:
        """Find changes by *stamps*: for each URI a value that changes with the resource."""
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self._db = db
        self._stamps = stamps
        self._bus = InMemorySubscriptionBus()
        self._stream = ListenHandler(self._bus)
        self._sessions: dict[object, tuple[Any, set[str]]] = {}  # by connection
        self._streams: list[set[str]] = []
        self._known: dict[str, object] = {}
        self._stamp: int | None = None
        self._own_calls = 0
        self._lock = asyncio.Lock()
        self._polling: asyncio.Task[None] | None = None

    async def subscribe(
        self, context: Any, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Send changes of a resource to a client until it unsubscribes; any URI will do."""
        import mcp_types as types

        connection = getattr(context.session, "_connection", context.session)
        if connection not in self._sessions:
            self._sessions[connection] = context.session, set()
            with suppress(AttributeError):
                connection.exit_stack.callback(self._sessions.pop, connection, None)
        self._sessions[connection][1].add(str(params.uri))
        await self._begin()
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Any, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Stop notifying a client of a resource; without a subscription this does nothing."""
        import mcp_types as types

        connection = getattr(context.session, "_connection", context.session)
        _, uris = self._sessions.get(connection, (None, set()))
        uris.discard(str(params.uri))
        return types.EmptyResult()

    async def listen(
        self, context: Any, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve the stream of a client of the protocol without a handshake, until it goes."""
        wanted = params.notifications
        uris = {str(uri) for uri in wanted.resource_subscriptions or ()}
        uris |= {ALL} if wanted.resources_list_changed else set()
        self._streams.append(uris)
        try:
            await self._begin()
            return await self._stream(context, params)
        finally:
            self._streams.remove(uris)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Announce what has changed, after a block that changes the file."""
        self._own_calls += 1
        try:
            yield
            await self._announce()
        finally:
            self._own_calls -= 1

    async def _announce(self) -> None:
        """Send news of whatever has changed since the last look."""
        async with self._lock:
            wanted = self._wanted()
            if not wanted:
                return
            self._stamp = self._stamp_of_file()
            now = await self._db.run(lambda db: self._stamps(db, wanted), kind="read")
            news = {uri for uri in now if uri in self._known and self._known[uri] != now[uri]}
            self._known = now
            for uri in sorted(news):
                await self._send(uri)

    def _stamp_of_file(self) -> int | None:
        mark = HostFile(self._db.blocking).mark()
        return None if mark is None else mark.stamp

    def _wanted(self) -> set[str]:
        return set().union(*self._streams, *(uris for _, uris in self._sessions.values()))

    async def _begin(self) -> None:
        """Read the present stamps, and look at the file from time to time."""
        await self._announce()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        """Announce what others change, while somebody wants to hear it."""
        with suppress(Closed):
            while self._wanted():
                await asyncio.sleep(POLL_S)
                if not self._own_calls and self._stamp_of_file() != self._stamp:
                    with suppress(Busy):  # looked at again later
                        await self._announce()

    async def _send(self, uri: str) -> None:
        from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated

        await self._bus.publish(ResourceUpdated(uri) if uri else ResourcesListChanged())
        for session, uris in [*self._sessions.values()]:
            if uri in uris:
                await session.send_resource_updated(uri)


INSTRUCTIONS = (
    "The long-term memory of one user. Recall before you answer what may have been said before; "
    "remember what will matter later."
)
SCHEME = "memdb://"
PAGE = 100
MAX_CURSOR_CHARS = 12


def make_server(db: aio.MemDB, *, user: str, app: str = "default") -> Server[Any]:
    """
    Return a server of the mcp package for the memory of *user*.

    Args:
        db: Stays open, and is closed by the caller.

    Raises:
        InvalidInput: the mcp package is not installed, or a name is unusable.
    """
    try:
        import jsonschema  # noqa: F401 (loading it later would hold up the event loop)
        from mcp.server import Server
    except ImportError as error:
        raise missing_extra("mcp", error) from error
    door = _Door(db, user, app)
    return Server(
        "memdb",
        version=__version__,
        title="memdb",
        instructions=INSTRUCTIONS,
        on_list_tools=door.list_tools,
        on_call_tool=door.call_tool,
        on_list_resources=door.list_resources,
        on_list_resource_templates=door.list_templates,
        on_read_resource=door.read_resource,
        on_subscribe_resource=door.subscriptions.subscribe,
        on_unsubscribe_resource=door.subscriptions.unsubscribe,
        on_subscriptions_listen=door.subscriptions.listen,
    )


class _Door:
    """The answers to the requests of the protocol, from one scope."""

    def __init__(self, db: aio.MemDB, user: str, app: str) -> None:
        db.scope(user, app)  # refuses a name before anybody connects
        self._db = db
        self._place = user, app
        self._tools = {tool.name: tool for tool in TOOLS}
        self.subscriptions = Subscriptions(db, self._stamps)

    async def list_tools(self, _context: Any, _params: Any) -> types.ListToolsResult:
        """Return every tool with its schemas and hints."""
        import mcp_types as types

        described = [_definition(tool) for tool in self._tools.values()]
        return types.ListToolsResult(tools=[types.Tool.model_validate(one) for one in described])

    async def call_tool(
        self, _context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Do a call in a thread of the file, beside others unless it is quick to write."""
        tool = self._tools.get(params.name)
        if tool is None:
            return _failed(f"there is no tool {params.name!r}: use one of {', '.join(self._tools)}")
        given = _whole(tool, params.arguments or {})
        wrong = _wrong(tool, given)
        if wrong is not None:
            return _failed(wrong)

        def run(db: MemDB) -> Answer:
            return tool.run(db.scope(*self._place), {**given})

        try:
            if tool.read_only:
                answer = await self._db.run(run, kind="ask")
            else:  # news comes before the answer
                async with self.subscriptions.changing():
                    answer = await self._db.run(run, kind="write" if tool.ordered else "ask")
        except MemDBError as error:
            return _failed(said(error, given))
        except Exception as error:  # noqa: BLE001 (the server outlives any call)
            return _failed(f"{type(error).__name__}: {error}")
        return _answered(answer)

    async def list_resources(self, _context: Any, params: Any) -> types.ListResourcesResult:
        """Return a page of the conversations and artifacts."""
        import mcp_types as types

        start = _start(getattr(params, "cursor", None))
        found = await self._db.run(self._resources, kind="read")
        after = str(start + PAGE) if start + PAGE < len(found) else None
        page = [types.Resource.model_validate(escaped(one)) for one in found[start : start + PAGE]]
        return types.ListResourcesResult(resources=page, next_cursor=after)

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

    async def list_templates(
        self, _context: Any, _params: Any
    ) -> types.ListResourceTemplatesResult:
        """Return how the URIs of resources are made."""
        import mcp_types as types

        shapes = {
            "session": "sessions/{session}",
            "artifact of a session": "sessions/{session}/artifacts/{name}",
            "shared artifact": "artifacts/{name}",
        }
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=SCHEME + path, name=name)
                for name, path in shapes.items()
            ]
        )

    async def read_resource(
        self, _context: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return a conversation as JSON lines, or the newest version of an artifact."""
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        uri = str(params.uri)
        try:
            found = await self._db.run(lambda db: self._read(db, uri), kind="read")
        except MemDBError as error:
            raise MCPError(types.INVALID_PARAMS, said(error, {})) from error
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri!r}: list them first")
        content = escaped(found)
        meta = {name: content[name] for name in WRITTEN}
        shown = {"uri": uri, "mime_type": content["mime"], "meta": meta}
        made: types.TextResourceContents | types.BlobResourceContents
        if "text" in content:
            made = types.TextResourceContents(**shown, text=content["text"])
        else:
            made = types.BlobResourceContents(**shown, blob=content["base64"])
        return types.ReadResourceResult(contents=[made])

    def _read(self, db: MemDB, uri: str) -> Answer | None:
        """Return the text or bytes of a resource, its media type, and who wrote it."""
        scope = db.scope(*self._place)
        match _place(uri):
            case session, None:
                if session not in {one.name for one in scope.sessions(session)}:
                    return None
                said = [message_of(one) for one in scope.session(session).messages()]
                trust = least_trust(one["trust"] for one in said)
                text = "\n".join(map(json.dumps, said))
                return {"mime": "application/jsonl", "text": text, **written(trust, None, None)}
            case session, name:
                return loaded_answer(scope.artifacts.load(name, session=session))
        return None

    def _stamps(self, db: MemDB, uris: Collection[str]) -> dict[str, object]:
        """Return for each resource what changes with it, None without it; "" is the list of all."""
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
                stamps[uri] = scope.artifacts.versions(place[1], session=place[0])[:1]
        return stamps


def _definition(tool: Tool) -> dict[str, Any]:
    """Return the description of a tool, as it is sent."""
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
        "execution": {"taskSupport": "forbidden"},
        "outputSchema": tool.answer,
    }


def _place(uri: str) -> tuple[str, None] | tuple[str | None, str] | None:
    """Return session and artifact of a URI; without the latter it is the session's own."""
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
    """Return where the page of a cursor begins."""
    import mcp_types as types
    from mcp.shared.exceptions import MCPError

    if cursor is None:
        return 0
    digits = cursor.isascii() and cursor.isdecimal() and len(cursor) < MAX_CURSOR_CHARS
    start = int(cursor) if digits else 0
    if not start or start % PAGE or str(start) != cursor:
        raise MCPError(
            types.INVALID_PARAMS,
            f"cursor {cursor[:40]!r} is none of this server's: begin without one",
        )
    return start


def _wrong(tool: Tool, given: dict[str, Any]) -> str | None:
    """Return what is wrong with the arguments of a call, None if nothing is."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(tool.arguments).iter_errors(given))
    if error is None:
        return None
    place = ".".join(map(str, error.absolute_path)) or "arguments"
    return f"{place}: {error.message[:300]}"


def _whole(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """
    Return *given* as models mean it: without null, and with 5 for "5" and 5.0.

    A tool that takes null itself gets it.
    """
    fields = tool.arguments["properties"]
    kinds = {field: fields.get(field, {}).get("type") for field in given}
    return {
        field: _count(value) if kinds[field] == "integer" else value
        for field, value in given.items()
        if value is not None or kinds[field] is None
    }


def _count(value: Any) -> Any:
    """Return a whole number that is written as a text or a fraction; others as they are."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,15}", value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _answered(answer: dict[str, Any]) -> types.CallToolResult:
    import mcp_types as types

    answer = escaped(answer)
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=answer, is_error=False
    )


def _failed(message: str) -> types.CallToolResult:
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=escaped(message))], is_error=True)
