"""The first answers of `memdb mcp` are those of the mcp package, which is imported behind them."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from cases import each
from mcp.shared.message import SessionMessage
from with_mcp.test_faults import ENVIRONMENT, command

import memdb.aio
from memdb.integrations.mcp import make_server
from memdb.integrations.mcp.compat import offered
from memdb.integrations.mcp.handshake import META, STATELESS_VERSION, VERSIONS, Handshake

CLIENT = {"name": "test", "version": "1"}
ENVELOPE = {
    f"{META}/protocolVersion": STATELESS_VERSION,
    f"{META}/clientInfo": CLIENT,
    f"{META}/clientCapabilities": {},
}


def request(number: Any, method: str, params: Any = None) -> bytes:
    """Return the line of a request, without params for None."""
    body = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(body if params is None else {**body, "params": params}).encode()


def hello(version: Any = VERSIONS[-1], **more: Any) -> bytes:
    """Return the line of an initialize request."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT, **more}
    return request(0, "initialize", params)


INITIALIZED = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


def asked_of_package(path: str, lines: list[bytes], compat: bool) -> list[Any]:
    """Return what a server of the mcp package answers to *lines*, one after the other."""

    async def talk() -> list[Any]:
        async with memdb.aio.open(path, durability="process") as db:
            server = make_server(db, user="ann", compat=compat)
            to_server, requests = anyio.create_memory_object_stream[Any](math.inf)
            answers, from_server = anyio.create_memory_object_stream[Any](math.inf)
            answered = []
            async with to_server, from_server, anyio.create_task_group() as group:
                options = server.create_initialization_options()
                group.start_soon(server.run, requests, answers, options)
                for line in lines:
                    read = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_server.send(SessionMessage(read))
                    if b'"id"' in line:
                        message = (await from_server.receive()).message
                        text = message.model_dump_json(by_alias=True, exclude_unset=True)
                        answered.append(json.loads(text))
                group.cancel_scope.cancel()
        for one in answered:  # mcp 2.2 says that it has none
            one["result"].get("capabilities", {}).pop("experimental", None)
        return answered

    return asyncio.run(talk())


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize("version", [*VERSIONS, STATELESS_VERSION])
def test_the_first_answers_are_those_of_the_package(path: str, version: str, compat: bool) -> None:
    """For every version of the protocol, field by field."""
    lines = [hello(version), INITIALIZED, request(1, "tools/list"), request("two", "ping", {})]
    if version == STATELESS_VERSION:
        lines = [request(5, "server/discover", {"_meta": ENVELOPE})]
    handshake = Handshake(offered(compat=compat))

    ours = [handshake.answer(line) for line in lines]

    assert None not in ours
    assert [json.loads(one) for one in ours if one] == asked_of_package(path, lines, compat)
    assert handshake.kept == lines[:2]
    assert handshake.replayed == [json.loads(lines[0])["id"]]


@each(
    "line",
    [
        b"{",
        b"[]",
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
        request(1.5, "ping"),
        request(True, "ping"),
        request(None, "ping"),
        request("\ud800", "ping"),
        request(1, "ping", []),
        request(1, "tools/list", {"cursor": "x"}),
        request(1, "tools/list", {"_meta": ENVELOPE}),
        request(1, "tools/call", {"name": "recall", "arguments": {"query": "x"}}),
        request(1, "server/discover", {"_meta": ENVELOPE}),
        request(1, "initialize", {}),
        request(1, "ping", {"x": "y" * (65 << 10)}),
        b"\xff" + request(1, "ping"),
        b"[" * 100_000,
        hello("2024-11-05"),
    ],
)
def test_whatever_else_is_left_to_the_package(line: bytes) -> None:
    """Also a second initialize."""
    handshake = Handshake(offered(compat=False))
    assert handshake.answer(hello())

    assert handshake.answer(line) is None


@pytest.mark.parametrize(
    "line",
    [
        hello("1999-01-01"),
        hello(5),
        hello(capabilities=[]),
        hello(clientInfo={"name": "x"}),
        hello(_meta=ENVELOPE),
        request(0, "ping"),
        request(0, "tools/list"),
        request(0, "server/discover", {}),
        request(0, "server/discover", {"_meta": {**ENVELOPE, f"{META}/clientInfo": 5}}),
    ],
)
def test_a_conversation_that_begins_otherwise_is_left_to_the_package(line: bytes) -> None:
    """It knows what to refuse, and what a version is that is not known here."""
    assert Handshake(offered(compat=False)).answer(line) is None


def test_the_tools_are_defined_as_by_the_official_server() -> None:
    """To the letter: a client that recorded the definitions of 2026.8.31 sees no change."""
    recorded = json.loads(Path(__file__).with_name("official_tools.json").read_text())
    handshake = Handshake(offered(compat=True))
    handshake.answer(hello())

    tools = json.loads(handshake.answer(request(1, "tools/list")) or b"")["result"]["tools"]

    assert tools[-len(recorded) :] == recorded


def test_the_package_is_not_imported_before_the_first_answer() -> None:
    """Nor is anything else that takes long."""
    program = "import sys, memdb.integrations.mcp.transports; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )

    slow = {"mcp", "mcp_types", "pydantic", "jsonschema", "tiktoken", "numpy", "starlette"}
    assert slow & set(ran.stdout.split()) == set()


def run_to_end(path: str, lines: list[bytes]) -> tuple[int, str, list[Any]]:
    """Return exit code, errors and answers of a server whose client sends *lines* and goes."""
    with command(path) as server:
        output, errors = server.communicate("".join(f"{one.decode()}\n" for one in lines), 60)
    return server.returncode, errors, [json.loads(line) for line in output.splitlines()]


def test_answers_come_once_and_in_order(path: str) -> None:
    """Those without the package, those with it, and a wrong line among them."""
    call = request(3, "tools/call", {"name": "recall", "arguments": {"query": "tea"}})
    first = [hello(), INITIALIZED, request(1, "ping"), request(2, "tools/list")]

    code, errors, answers = run_to_end(path, [*first, call, b"{", request(4, "ping")])

    assert (code, errors) == (0, "")
    assert sorted(str(one.get("id")) for one in answers) == ["0", "1", "2", "3", "4", "None"]
    assert [one["id"] for one in answers[:3]] == [0, 1, 2]
    assert [one["error"]["code"] for one in answers if "error" in one] == [-32700]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_client_that_goes_early_leaves_nothing_behind(path: str, count: int) -> None:
    """The server ends with 0 while it imports the package."""
    lines = [hello(), INITIALIZED, request(1, "ping")][:count]

    code, errors, answers = run_to_end(path, lines)

    assert (code, errors) == (0, "")
    assert [one["id"] for one in answers] == list(range((count + 1) // 2))


def test_a_package_that_cannot_be_imported_is_an_error(path: str, tmp_path: Path) -> None:
    """It stands in the message that ends the server, with the extra that brings it."""
    broken = tmp_path / "mcp" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('half installed')\n")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"}

    ran = subprocess.run(
        [sys.executable, "-m", "memdb", "mcp", path, "--user", "ann"],
        input=hello().decode() + "\n" + request(1, "tools/call").decode() + "\n",
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )

    assert ran.returncode == 5
    assert "half installed" in ran.stderr
    assert "Traceback" not in ran.stderr
