"""
The protocol around the answers: versions, the handshake, and the errors.

Two forms are spoken. Up to 2025 a client begins with `initialize`. Since 2026 there is no
handshake: each request names its version in `_meta`, and each answer describes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb import __version__
from memdb.adapters.schemas import check_value
from memdb.errors import InvalidInput
from memdb.integrations.mcp.door import INSTRUCTIONS, INVALID_PARAMS, PARAMS, Refused, takes
from memdb.integrations.mcp.tools import text

if TYPE_CHECKING:
    from typing import Any

    from memdb.integrations.mcp.door import Door
    from memdb.integrations.mcp.subscriptions import Caller
    from memdb.integrations.mcp.tools import Answer

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST = "2026-07-28"

RESERVED = "io.modelcontextprotocol/"
VERSION = f"{RESERVED}protocolVersion"
CAPABILITIES = f"{RESERVED}clientCapabilities"

CLIENT = f"{RESERVED}clientInfo"

BY_HANDSHAKE = {"initialize", "ping", "resources/subscribe", "resources/unsubscribe"}
WITHOUT = {"server/discover", "subscriptions/listen"}
# Whose answers say how long they may be kept: not at all.
KEPT = {"server/discover", "tools/list", "resources/list", "resources/templates/list"}
KEPT |= {"resources/read"}

SERVER = {"name": "memdb", "title": "memdb", "version": __version__}
HELLO = takes(
    "protocolVersion",
    "capabilities",
    "clientInfo",
    protocolVersion=text(""),
    capabilities={"type": "object"},
    clientInfo=takes("name", "version", name=text(""), version=text("")),
)


async def reply(door: Door, caller: Caller, method: str, params: dict[str, Any]) -> Answer:
    """
    Return the result of a request.

    Raises:
        Refused: the method is unknown, or its parameters are wrong.
    """
    meta = params.get("_meta")
    if method != "initialize" and isinstance(meta, dict) and VERSION in meta:
        return await _reply_without_handshake(door, caller, method, params)
    if method in WITHOUT:
        raise Refused(METHOD_NOT_FOUND, "Method not found", method)
    if method == "ping":
        return {}
    if method == "initialize":
        _check(HELLO, params)
        caller.connection.client = params["clientInfo"]["name"]
        asked = params["protocolVersion"]
        return {
            "protocolVersion": asked if asked in HANDSHAKES else HANDSHAKES[-1],
            "capabilities": _capabilities(changes=False),
            "serverInfo": SERVER,
            "instructions": INSTRUCTIONS,
        }
    return await _answer(door, caller, method, params)


async def _reply_without_handshake(
    door: Door, caller: Caller, method: str, params: dict[str, Any]
) -> Answer:
    version, client = params["_meta"][VERSION], params["_meta"].get(CLIENT)
    if CAPABILITIES not in params["_meta"] or not isinstance(version, str):
        raise Refused(INVALID_PARAMS, f"_meta needs {VERSION} as a text, and {CAPABILITIES}")
    if version != NEWEST:
        about = {"supported": [NEWEST], "requested": version}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", about)
    if method in BY_HANDSHAKE:
        raise Refused(METHOD_NOT_FOUND, "Method not found", method)
    if isinstance(client, dict) and isinstance(client.get("name"), str):
        caller.connection.client = client["name"]
    if method == "server/discover":
        answer = {
            "supportedVersions": [NEWEST],
            "capabilities": _capabilities(changes=True),
            "instructions": INSTRUCTIONS,
        }
    else:
        answer = await _answer(door, caller, method, params)
    return in_form_of(version, method, answer)


def in_form_of(version: str, method: str, answer: Answer) -> Answer:
    """Return the answer to a method in the form of a version of the protocol."""
    if version != NEWEST:
        return answer
    kept = {"ttlMs": 0, "cacheScope": "private"} if method in KEPT else {}
    meta = {**answer.get("_meta", {}), f"{RESERVED}serverInfo": SERVER}
    return {"resultType": "complete", **kept, **answer, "_meta": meta}


async def _answer(door: Door, caller: Caller, method: str, params: dict[str, Any]) -> Answer:
    if method not in door.requests:
        raise Refused(METHOD_NOT_FOUND, "Method not found", method)
    _check(PARAMS[method], params)
    return await door.requests[method](caller, params)


def _check(schema: dict[str, Any], params: dict[str, Any]) -> None:
    try:
        check_value(params, schema, "params")
    except InvalidInput as error:
        raise Refused(INVALID_PARAMS, str(error)) from error


def _capabilities(*, changes: bool) -> Answer:
    return {
        "resources": {"subscribe": True, "listChanged": changes},
        "tools": {"listChanged": changes},
    }
