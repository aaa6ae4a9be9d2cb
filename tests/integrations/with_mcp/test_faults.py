"""What goes wrong around the MCP server: signals, broken pipes, damaged graphs, odd arguments."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from child_processes import end_by_signals, free_port
from mcp import Client
from mcp.shared.exceptions import MCPError

import memdb
import memdb.aio
from memdb.errors import InvalidInput
from memdb.integrations.mcp import make_server, serve

ROOT = Path(memdb.__file__).parents[1]
TOKEN = "a-token-for-this-test-only"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "T": TOKEN, "KEY": "none"}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
RECALL = {"name": "recall", "arguments": {"query": "Oslo"}}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SAID = {signal.SIGINT: "Stopped.\n", signal.SIGTERM: ""}
SIGNALS = pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="SIGINT"),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.slow),
    ],
)


def request(number: Any, method: str, **params: Any) -> dict[str, Any]:
    """Return a request as JSON."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@contextmanager
def command(path: str, *options: str):
    """Run `memdb mcp` in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, "-m", "memdb", "mcp", path, "--user", "ann", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        yield server
    finally:
        server.kill()
        server.communicate()


def send(server: subprocess.Popen[str], *lines: object) -> None:
    """Write messages, and lines as they are."""
    for line in lines:
        server.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    server.stdin.flush()


def greet(server: subprocess.Popen[str]) -> None:
    """Open the conversation over stdio."""
    send(server, request(0, "initialize", **HELLO))
    assert json.loads(server.stdout.readline())["id"] == 0
    send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})


def over(server: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the code of a server that ends by itself, and what it said."""
    code = server.wait(60)
    return code, server.stderr.read()


def beside(path: str) -> list[str]:
    """Return the files that SQLite keeps beside an open one."""
    return [end for end in ("-wal", "-shm") if Path(path + end).exists()]


def http_options() -> tuple[int, list[str]]:
    """Return a free port and how to serve there."""
    port = free_port()
    return port, ["--http", str(port), "--token-env", "T"]


def connected(port: int) -> socket.socket:
    """Return a connection to the server at *port*, which may be about to begin."""
    for _ in range(2000):  # a busy machine starts slowly
        try:
            return socket.create_connection(("127.0.0.1", port), 100)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server does not listen")


def http(port: int, method: str, body: object = None, **headers: str) -> socket.socket:
    """Send one request with the token, and return its connection."""
    sent = b"" if body is None else json.dumps(body).encode()
    given = {
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(sent)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    one = connected(port)
    lines = [f"{method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    one.sendall("\r\n".join([*lines, "", ""]).encode() + sent)
    return one


def answered(one: socket.socket) -> str:
    """Return the whole answer of a connection that the server closes."""
    with one:
        found = b""
        while more := one.recv(1 << 16):
            found += more
    return found.decode()


def status(port: int, method: str, body: object = None, **headers: str) -> int:
    """Return the status that a request is answered with."""
    return int(answered(http(port, method, body, Connection="close", **headers)).split()[1])


def http_session(port: int) -> str:
    """Open a conversation over HTTP, and return its id."""
    found = answered(http(port, "POST", request(0, "initialize", **HELLO), Connection="close"))
    (name,) = [line[16:] for line in found.splitlines() if line.startswith("mcp-session-id: ")]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert status(port, "POST", ready, Mcp_Session_Id=name) == 202
    return name


@contextmanager
def slow_embedder(pause_s=(0.7,)):
    """Serve vectors, each after `pause_s[0]`; give its name and an event that says it was asked."""
    asked = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            asked.set()
            time.sleep(pause_s[0])
            rows = [{"index": n, "embedding": [1.0, 2.0]} for n in range(len(texts))]
            body = json.dumps({"data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"openai:m@http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()


def filled(path: str) -> str:
    """Make a file with one message, and return its path."""
    with memdb.open(path, embedder=None) as db:
        db.scope("ann").session("trip").append("user", "We fly to Oslo.")
    return path


@SIGNALS
def test_a_signal_ends_an_idle_server_over_stdio(path, number):
    """Although the client keeps its end open; the file is closed."""
    with command(path) as server:
        greet(server)
        server.send_signal(number)
        code, said = over(server)

    assert (code, said, beside(path)) == (CODES[number], SAID[number], [])


@SIGNALS
def test_a_signal_lets_a_call_over_stdio_finish(path, number):
    """What the client asked before is answered; then the server ends."""
    filled(path)
    with slow_embedder() as (name, asked), command(path, "--embedder", name) as server:
        greet(server)
        asked.clear()
        send(server, request(1, "tools/call", **RECALL))
        assert asked.wait(60)
        server.send_signal(number)
        answer = json.loads(server.stdout.readline())
        code, said = over(server)

    assert answer["result"]["structuredContent"]["hits"][0]["text"] == "We fly to Oslo."
    assert (code, said, beside(path)) == (CODES[number], SAID[number], [])


def test_what_is_stored_when_a_signal_comes_is_answered(path):
    """A client that sends on and on: no answer without its message, no message without its answer."""
    given = {"session": "trip", "role": "user"}
    with command(path) as server:
        greet(server)
        calls = [
            request(n, "tools/call", name="chat_append", arguments={**given, "text": f"{n}"})
            for n in range(1, 201)
        ]
        send(server, *calls)
        answers = [json.loads(server.stdout.readline())]
        server.send_signal(signal.SIGTERM)
        answers += [json.loads(line) for line in server.stdout]
        code, said = over(server)

    assert (code, said, beside(path)) == (143, "", [])
    assert all("result" in one for one in answers)
    with memdb.open(path) as db:
        stored = {message.text for message in db.scope("ann").session("trip").messages()}
    assert stored == {str(one["id"]) for one in answers}


@pytest.mark.slow
def test_a_signal_ends_a_server_whose_answers_nobody_reads(path):
    """The pipe to the client is full: its thread is left behind."""
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "word " * 50_000)
    with command(path) as server:
        greet(server)
        send(server, *(request(n, "resources/read", uri="memdb://sessions/trip") for n in (1, 2)))
        time.sleep(0.5)
        server.send_signal(signal.SIGINT)
        code, said = over(server)

    assert (code, said, beside(path)) == (130, "Stopped.\n", [])


@SIGNALS
def test_a_signal_ends_an_idle_server_over_http(path, number):
    """With a stream open that waits for news, and a request half sent."""
    port, options = http_options()
    with command(path, *options) as server:
        name = http_session(port)
        stream = http(port, "GET", Mcp_Session_Id=name)
        assert b"200 OK" in stream.recv(100)
        half = http(port, "POST", Content_Length="100")
        time.sleep(0.2)
        server.send_signal(number)
        code, said = over(server)
        ended = answered(stream).endswith("0\r\n\r\n")
        half.close()

    assert (code, said, beside(path)) == (CODES[number], SAID[number], [])
    assert ended


@SIGNALS
def test_a_signal_lets_a_call_over_http_finish(path, number):
    """The answer comes whole."""
    filled(path)
    port, options = http_options()
    with slow_embedder() as (name, asked), command(path, *options, "--embedder", name) as server:
        session = http_session(port)
        asked.clear()
        call = http(port, "POST", request(1, "tools/call", **RECALL), Mcp_Session_Id=session)
        assert asked.wait(60)
        server.send_signal(number)
        code, said = over(server)
        answer = answered(call)

    assert "We fly to Oslo." in answer
    assert answer.endswith("0\r\n\r\n")
    assert (code, said, beside(path)) == (CODES[number], SAID[number], [])


def test_a_second_signal_ends_a_server_at_once(path):
    """A call that takes long is not waited for."""
    filled(path)
    pause_s = [0.0]
    with slow_embedder(pause_s) as (name, asked), command(path, "--embedder", name) as server:
        greet(server)
        asked.clear()
        pause_s[0] = 3600.0
        send(server, *(request(n, "tools/call", **RECALL) for n in range(1, 30)))
        assert asked.wait(60)
        code = end_by_signals(server, signal.SIGTERM)
        said = server.stderr.read()

    assert (code, said) == (143, "")
    with memdb.open(path) as db:
        assert db.file.check() == []


SERVE = """
import signal, sys
import memdb
from memdb.integrations.mcp import serve

numbers = signal.SIGINT, signal.SIGTERM
before = [signal.getsignal(number) for number in numbers]
with memdb.open(sys.argv[1]) as db:
    print("open", file=sys.stderr, flush=True)
    try:
        serve(db, user="ann")
    except KeyboardInterrupt:
        print("interrupted", [signal.getsignal(number) for number in numbers] == before)
"""


def test_a_program_that_serves_gets_its_signals_back(path, start_child):
    """Ctrl-C is a KeyboardInterrupt, as everywhere in Python."""
    server = start_child(SERVE, path)
    assert server.stderr.readline() == "open\n"
    greet(server)
    server.send_signal(signal.SIGINT)
    code, said = over(server)

    assert (code, said, server.stdout.read()) == (0, "", "interrupted True\n")
    assert beside(path) == []


def test_a_client_that_no_longer_reads_ends_the_server(path):
    """Its next request finds nobody to answer: code 0 and no word, as when it goes."""
    with command(path) as server:
        greet(server)
        server.stdout.close()
        send(server, request(1, "ping"))
        code, said = over(server)

    assert (code, said, beside(path)) == (0, "", [])


def test_requests_from_a_file_are_all_answered(path):
    """The end of the input comes before the answers."""
    lines = [request(0, "initialize", **HELLO)]
    lines += [
        request(
            n,
            "tools/call",
            name="chat_append",
            arguments={"session": "trip", "role": "user", "text": f"message {n}"},
        )
        for n in range(1, 101)
    ]
    with command(path) as server:
        out, _ = server.communicate("".join(json.dumps(line) + "\n" for line in lines), 60)

    answers = [json.loads(line) for line in out.splitlines()]
    assert {one["id"] for one in answers} == set(range(101))
    assert all("result" in one for one in answers)


NO_MESSAGES = [
    ("garbage", None, -32700),
    ("[" * 100_000, None, -32700),
    ('{"jsonrpc": "1.0", "id": 5, "method": "ping"}', 5, -32600),
    ('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', None, -32600),
    ('{"jsonrpc": "2.0", "id": true, "method": 5}', None, -32600),
    ("[1]", None, -32600),
]


def test_a_line_that_is_no_message_is_answered(path):
    """With its id if it has one, and the next request as ever."""
    answers = []
    with command(path) as server:
        greet(server)
        for line, _, _ in NO_MESSAGES:
            send(server, "", line, request(9, "ping"))
            answers.append([json.loads(server.stdout.readline()) for _ in range(2)])

    assert [(refused["id"], refused["error"]["code"]) for refused, _ in answers] == [
        (number, code) for _, number, code in NO_MESSAGES
    ]
    assert [pong for _, pong in answers] == [{"jsonrpc": "2.0", "id": 9, "result": {}}] * 6


def test_a_character_that_no_file_can_hold_is_stored_as_another(path):
    """NUL and half a character, as at every other door."""
    texts = ["GIF89a\0;", "cut \ud83d off"]
    given = [{"session": "trip", "role": "user", "text": one} for one in texts]
    with command(path) as server:
        greet(server)
        for number, one in enumerate(given):
            send(server, request(number, "tools/call", name="chat_append", arguments=one))
            assert json.loads(server.stdout.readline())["result"]["isError"] is False

    with memdb.open(path) as db:
        said = db.scope("ann").session("trip").messages()
    assert [one.text for one in said] == ["GIF89a\ufffd;", "cut \ufffd off"]
    assert all("U+FFFD" in one.warnings[0] for one in said)


def test_a_cancelled_request_is_not_waited_for(path):
    """Nor one that is named by what is no id; then the server ends without delay."""
    filled(path)
    with slow_embedder() as (name, asked), command(path, "--embedder", name) as server:
        greet(server)
        asked.clear()
        send(server, request(1, "tools/call", **RECALL))
        assert asked.wait(60)
        for number in ([1], {}, None, 1):
            given = {"requestId": number}
            send(server, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": given})
        send(server, request(10**30, "ping"))
        pong = json.loads(server.stdout.readline())
        server.stdin.close()
        code, said = over(server)
        server.stdin = None

    assert pong["id"] == 10**30
    assert (code, beside(path)) == (0, [])
    assert "Traceback" not in said


def test_a_port_in_use_is_an_error_that_names_the_option(path):
    """Exit code 5, as for other values that cannot be used."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with command(path, "--http", str(port), "--token-env", "T") as server:
            code, said = over(server)

    assert code == 5
    assert said == (
        f"Error: port {port} of 127.0.0.1 cannot be used (Address already in use): end the "
        "program that uses it, or choose another port with --http or port=\n"
    )


def test_only_the_token_opens_the_door(path):
    """Its scheme in any case; an upgrade to WebSockets is refused as any request."""
    port, options = http_options()
    websocket = {
        "Connection": "Upgrade, close",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    hello = request(0, "initialize", **HELLO)
    with command(path, *options) as server:
        lower = status(port, "POST", hello, Authorization=f"bearer {TOKEN}")
        spaced = status(port, "POST", hello, Authorization=f"BEARER  {TOKEN}")
        basic = status(port, "POST", hello, Authorization=f"Basic {TOKEN}")
        longer = status(port, "POST", hello, Authorization=f"Bearer {TOKEN}x")
        one = http(port, "GET", Authorization="", **websocket)
        upgrade = int(answered(one).split()[1])
        server.send_signal(signal.SIGINT)
        _, said = over(server)

    assert (lower, spaced, basic, longer, upgrade) == (200, 200, 401, 401, 401)
    assert said == "Stopped.\n"


def test_http_takes_what_stdio_takes(path):
    """A text of 8 MB; the mcp package alone takes 4."""
    port, options = http_options()
    given = {"session": "trip", "role": "user", "text": "word " * 1_600_000}
    with command(path, *options):
        name = http_session(port)
        call = request(1, "tools/call", name="chat_append", arguments=given)
        code = status(port, "POST", call, Mcp_Session_Id=name)

    assert code == 200
    with memdb.open(path) as db:
        assert db.scope("ann").session("trip").get(1).text == given["text"]


@pytest.mark.parametrize("token", [None, "", "fifteen chars.."])
def test_http_is_not_served_without_a_token(path, token):
    """Neither from Python."""
    with memdb.open(path) as db, pytest.raises(InvalidInput, match="token has"):
        serve(db, user="ann", port=free_port(), token=token)


def in_process(path: str, work: Any, **options: Any) -> Any:
    """Run *work* with a client of a server in this process."""

    async def talk():
        async with (
            await memdb.aio.open(path, durability="process") as db,
            Client(make_server(db, user="ann", **options)) as client,
        ):
            return await work(client)

    return asyncio.run(talk())


def refused(path: str, name: str, given: dict[str, Any]) -> str:
    """Return what a tool says to a call that is wrong."""

    async def work(client):
        return await client.call_tool(name, given)

    result = in_process(path, work)
    assert result.is_error
    return result.content[0].text


def test_a_whole_number_is_an_integer_however_it_is_written(path):
    """The schema takes 5.0 for 5, so the tools do."""
    filled(path)

    async def work(client):
        calls = [
            ("recall", {"query": "Oslo", "limit": 5.0}),
            ("remember", {"text": "Ann likes tea.", "importance": 7.0}),
            ("context", {"session": "trip", "budget_tokens": 100.0}),
            ("expand", {"session": "trip", "id": "1-1", "after": 0.0}),
            ("artifact_save", {"name": "user:a", "text": "x"}),
            ("artifact_load", {"name": "user:a", "version": 1.0}),
        ]
        return [(await client.call_tool(name, given)).is_error for name, given in calls]

    assert in_process(path, work) == [False] * 6


@pytest.mark.parametrize(
    "cursor", ["zz", "9" * 5000, "", "0", "-100", "7", "0100", "\u0661\u0660\u0660"]
)
def test_a_cursor_of_somebody_else_is_refused(path, cursor):
    """Code -32602, never the first page again."""

    async def work(client):
        with pytest.raises(MCPError) as caught:
            await client.list_resources(cursor=cursor)
        return caught.value.error

    error = in_process(path, work)

    assert error.code == -32602
    assert "begin without one" in error.message


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("artifact_save", {"name": "a", "base64": "é"}, "base64 cannot be read"),
        ("chat_append", {"session": "\udfff", "role": "user", "text": "x"}, "session holds a lone"),
        (
            "expand",
            {"session": "s", "id": "zz"},
            "id is 'zz': give a summary's number, or messages as '11-20'",
        ),
        (
            "expand",
            {"session": "s", "id": ""},
            "id is '': give a summary's number, or messages as '11-20'",
        ),
        ("expand", {"session": "s", "id": "9-2"}, "id is '9-2'"),
        ("expand", {"session": "s", "id": "1-2", "after": 1 << 40}, "after is 1099511627776"),
        ("forget", {}, "give exactly one of entry, session, query and person"),
        ("forget", {"dry_run": True}, "give exactly one of entry, session, query and person"),
        (
            "forget",
            {"entry": 1, "query": "x"},
            "give exactly one of entry, session, query and person",
        ),
        ("context", {"session": "s", "budget_tokens": 1}, "tokens of the newest message"),
        (
            "chat_append",
            {"session": "s", "role": "user", "text": "other", "external_id": "e"},
            "external_id is 'e': another message of the conversation has it",
        ),
    ],
)
def test_an_error_names_the_argument_of_the_tool(path, name, given, said):
    """Not that of the Python call behind it."""
    with memdb.open(path) as db:
        db.scope("ann").session("s").append("user", "We fly to Oslo.", external_id="e")

    assert refused(path, name, given).startswith(said)


@pytest.mark.parametrize(
    "given",
    [
        {"text": "Ann likes tea.", "category": "nonsense"},
        {"text": "my key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"},
    ],
    ids=["category", "secret"],
)
def test_no_error_asks_a_client_for_python(path, given):
    """It has tools alone."""
    said = refused(path, "remember", given)

    assert "db." not in said
    assert "open the file" not in said


def test_the_budget_that_an_error_names_is_enough(path):
    """A client that gives it gets its context."""
    with memdb.open(path) as db:
        db.scope("ann").session("s").extend(
            [{"role": "user", "text": f"We fly to Oslo {n}."} for n in range(30)]
        )
    said = refused(path, "context", {"session": "s", "budget_tokens": 1})
    needed = int(said.split(" is ")[1].split(",")[0])

    async def work(client):
        return await client.call_tool("context", {"session": "s", "budget_tokens": needed})

    assert not in_process(path, work).is_error


def test_an_id_that_is_none_is_answered(path: str) -> None:
    """With an error to no id: whoever sent it would wait for ever."""
    answers = []
    with command(path) as server:
        greet(server)
        for number in (1.5, None, True, [1]):
            send(server, request(number, "tools/list"), request(7, "tools/list"))
            answers.append([json.loads(server.stdout.readline()) for _ in range(2)])

    assert [first["error"]["code"] for first, _ in answers] == [-32600] * 4
    assert [first.get("id") for first, _ in answers] == [None] * 4
    assert [second["id"] for _, second in answers] == [7] * 4


def test_a_line_without_end_is_refused(path: str) -> None:
    """Read to 96 MB, then thrown away; the next line is answered."""
    with command(path) as server:
        greet(server)
        for _ in range(100):
            server.stdin.write("x" * (1 << 20))
        send(server, "", request(7, "tools/list"))
        first, second = (json.loads(server.stdout.readline()) for _ in range(2))
        peak = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")

    assert "more than 96 MB" in first["error"]["message"]
    assert second["id"] == 7
    assert int(re.search(r"VmHWM:\s+(\d+)", peak)[1]) >> 10 < 256
