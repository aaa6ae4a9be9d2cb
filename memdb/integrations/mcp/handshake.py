"""
What a server says about itself, and the first answers of one that begins over stdio.

Importing the mcp package takes a second, in which a client waits. So the requests that every
client begins with are answered here, as the package would; tests compare the two. All others
are left to the package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.integrations.mcp.tools import Tool

    Message = dict[str, Any]

INSTRUCTIONS = (
    "The long-term memory of one user. Recall before you answer what may have been said before; "
    "remember what will matter later."
)
SERVER = {"name": "memdb", "title": "memdb", "version": __version__}

# Of the protocol with a handshake, and of the one whose requests each carry the version.
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"
META = "io.modelcontextprotocol"

# A longer line is none of the requests below.
MAX_LINE_BYTES = 64 << 10
INITIALIZE_FIELDS = {"protocolVersion", "capabilities", "clientInfo", "_meta"}


def definition(tool: Tool) -> Message:
    """Return what a client is told about a tool, as it is sent."""
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


class Handshake:
    """
    The first messages of a client, answered without the mcp package.

    Attributes:
        kept: The lines that the package has to get too, before any other.
        replayed: The ids of requests among them: its answers to these are not sent.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Offer *tools*."""
        self._tools = tools
        self._agreed = False
        self.kept: list[bytes] = []
        self.replayed: list[int | str] = []

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a request, b"" to a notification; None leaves it to the package."""
        message = _read(line)
        if message is None:
            return None
        number, method, params = message.get("id"), message["method"], message.get("params", {})
        if "id" not in message:
            self.kept.append(line)
            return b""
        result = self._result(method, params)
        if result is None or isinstance(number, bool) or not isinstance(number, int | str):
            return None
        if not self._agreed:
            self._agreed = True
            self.kept.append(line)
            self.replayed.append(number)
        answered = {"jsonrpc": "2.0", "id": number, "result": result}
        return json.dumps(answered, separators=(",", ":")).encode()

    def _result(self, method: str, params: Message) -> Message | None:
        if not self._agreed:
            if method == "initialize" and _is_initialize(params):
                return _initialized(params["protocolVersion"])
            if method == "server/discover" and _is_stateless(params):
                return _discovered()
            return None
        if params:
            return None
        if method == "tools/list":
            return {"tools": [definition(tool) for tool in self._tools]}
        return {} if method == "ping" else None


def _read(line: bytes) -> Message | None:
    """Return a request or notification, None if it is neither or needs a closer look."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    fits = isinstance(message.get("method"), str) and isinstance(message.get("params", {}), dict)
    return message if fits and b"\\ud" not in line.lower() else None


def _is_initialize(params: Message) -> bool:
    client = params.get("clientInfo")
    return (
        params.keys() <= INITIALIZE_FIELDS
        and params.get("protocolVersion") in VERSIONS
        and isinstance(params.get("capabilities"), dict)
        and "_meta" not in params
        and isinstance(client, dict)
        and all(isinstance(client.get(field), str) for field in ("name", "version"))
    )


def _initialized(version: str) -> Message:
    return {
        "protocolVersion": version,
        "capabilities": {
            "resources": {"listChanged": False, "subscribe": True},
            "tools": {"listChanged": False},
        },
        "serverInfo": SERVER,
        "instructions": INSTRUCTIONS,
    }


def _is_stateless(params: Message) -> bool:
    meta = params.get("_meta")
    if not isinstance(meta, dict) or len(params) > 1:
        return False
    client = meta.get(f"{META}/clientInfo")
    return (
        meta.get(f"{META}/protocolVersion") == STATELESS_VERSION
        and isinstance(meta.get(f"{META}/clientCapabilities"), dict)
        and isinstance(client, dict)
        and all(isinstance(client.get(field), str) for field in ("name", "version"))
    )


def _discovered() -> Message:
    return {
        "resultType": "complete",
        "supportedVersions": [STATELESS_VERSION],
        "capabilities": {
            "resources": {"listChanged": True, "subscribe": True},
            "tools": {"listChanged": True},
        },
        "instructions": INSTRUCTIONS,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {f"{META}/serverInfo": SERVER},
    }
