"""How `memdb mcp` begins and ends over stdio: its first answers, and what stops it before them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from with_mcp.test_faults import ENVIRONMENT, command, http_options

import memdb

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "2025-11-25"
CLIENT = {"name": "test", "version": "1"}


def request(number: Any, method: str, params: Any = None) -> bytes:
    """Return the line of a request, without params for None."""
    body = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(body if params is None else {**body, "params": params}).encode()


def hello() -> bytes:
    """Return the line of an initialize request."""
    params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": CLIENT}
    return request(0, "initialize", params)


INITIALIZED = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


def run_to_end(path: str, lines: list[bytes]) -> tuple[int, str, list[Any]]:
    """Return exit code, errors and answers of a server whose client sends *lines* and goes."""
    with command(path) as server:
        output, errors = server.communicate("".join(f"{one.decode()}\n" for one in lines), 60)
    return server.returncode, errors, [json.loads(line) for line in output.splitlines()]


def test_every_answer_comes_once(path: str) -> None:
    """A wrong line among them is answered too."""
    call = request(3, "tools/call", {"name": "recall", "arguments": {"query": "tea"}})
    first = [hello(), INITIALIZED, request(1, "ping"), request(2, "tools/list")]

    code, errors, answers = run_to_end(path, [*first, call, b"{", request(4, "ping")])

    assert (code, errors) == (0, "")
    assert sorted(str(one.get("id")) for one in answers) == ["0", "1", "2", "3", "4", "None"]
    assert [one["error"]["code"] for one in answers if "error" in one] == [-32700]


@pytest.mark.parametrize("count", [0, 1])
def test_a_client_that_goes_early_leaves_nothing_behind(path: str, count: int) -> None:
    """The server answers what it was asked, and ends with 0."""
    lines = [hello()][:count]

    code, errors, answers = run_to_end(path, lines)

    assert (code, errors) == (0, "")
    assert [one["id"] for one in answers] == list(range(count))


def test_a_package_that_cannot_be_imported_is_an_error(path: str, tmp_path: Path) -> None:
    """It stands in the message that ends the server, with the extra that brings it."""
    broken = tmp_path / "mcp" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('half installed')\n")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"}

    ran = subprocess.run(
        [sys.executable, "-m", "memdb", "mcp", path, "--user", "ann", *http_options()[1]],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )

    assert ran.returncode == 5
    assert "half installed" in ran.stderr
    assert "Traceback" not in ran.stderr


CLIENT_THAT_DIES = """
import os, subprocess, sys
reading, writing = os.pipe()
subprocess.Popen(["sleep", "60"], pass_fds=[writing], stdin=-3, stdout=-3, stderr=-3)
subprocess.Popen(sys.argv[2:], stdin=reading, close_fds=True)
os.write(writing, sys.argv[1].encode() + b"\\n")
os.read(0, 1)
"""


def test_a_server_ends_with_its_client(path: str) -> None:
    """Also when the client is killed while another child of it holds the pipe."""
    server = [sys.executable, "-m", "memdb", "mcp", path, "--user", "ann"]
    words = [sys.executable, "-c", CLIENT_THAT_DIES, hello().decode(), *server]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        start_new_session=True,
    ) as client:
        assert client.stdout is not None
        assert json.loads(client.stdout.readline())["id"] == 0
        client.kill()
        client.wait()
        try:
            assert client.stdout.read() == b""  # the server alone holds it, so it has ended
        finally:
            os.killpg(client.pid, signal.SIGKILL)  # the one that sleeps


def test_a_row_names_the_client_that_wrote_it(tmp_path: Path) -> None:
    """By the name of its `initialize`; what cannot be stored leaves "mcp"."""
    for number, (client, writer) in enumerate(
        {"claude-code": "mcp:claude-code", "\0": "mcp"}.items()
    ):
        path = tmp_path / f"{number}.db"
        hello_of = {"protocolVersion": VERSION, "capabilities": {}}
        hello_of["clientInfo"] = {"name": client, "version": "1"}
        arguments = {"name": "remember", "arguments": {"text": "Ann likes tea."}}
        asked = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello_of},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments},
        ]
        words = [sys.executable, "-m", "memdb", "mcp", str(path), "--user", "ann"]
        said = "".join(f"{json.dumps(one)}\n" for one in asked)
        subprocess.run(words, input=said, text=True, capture_output=True, check=True, timeout=120)
        with memdb.open(path) as db:
            assert [one.writer for one in db.user("ann").entries.list()] == [writer]
