"""What a client may take of a server that has not shown a token: time, connections, attempts."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from service_site import NOW_MS, running
from web_site import opened

import memdb
from memdb.errors import FileError
from memdb.web.app import App, PageServer, bind
from memdb.web.limits import Limits
from memdb.web.tokens import TokenFile, add_grant, read_grants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from service_site import Client

WAIT_S = 30
SHORT = Limits(headers_s=0.3, body_s=0.3, strangers=20, failures=5, window_s=600)
HEAD = (
    "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
)
FACT = json.dumps({"text": "Ann sails."})


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            data += piece
    return data


def begin(port: int, text: str) -> socket.socket:
    """Connect, and send the beginning of a request."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    connection.sendall(text.encode())
    return connection


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Return a client of a service with short limits."""
    with (
        opened(tmp_path / "a.db", embedder=None) as db,
        running(db, tmp_path / "tokens.json", SHORT) as service,
    ):
        yield service.client("ann")


def test_who_sends_half_a_request_is_cut_off(client: Client) -> None:
    """Before, in and behind the headers; between bytes that drip too; with 408 if it can."""
    head = HEAD.format(port=client.port, token=client.token)
    post = f"POST /api/v1/entries HTTP/1.1\r\n{head}Content-Length: 900\r\n\r\n"
    for text in ("", "GET", f"GET /health HTTP/1.1\r\n{head}", post, f"{post}{FACT}"):
        with begin(client.port, text) as connection:
            assert read_all(connection).startswith(b"HTTP/1.1 408 "), text
    dripping = begin(client.port, "GET /health HTTP/1.1\r\n")
    with dripping, pytest.raises(ConnectionError):
        for _ in range(20 * WAIT_S):
            dripping.sendall(b"X: y\r\n")
            time.sleep(0.05)


def test_a_connection_that_was_answered_has_its_time_again(client: Client) -> None:
    """Each request has its own; what says nothing between two is kept as before."""
    connection = HTTPConnection("127.0.0.1", client.port, timeout=WAIT_S)
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    for _ in range(3):
        connection.request("POST", "/api/v1/entries", FACT, headers)
        assert connection.getresponse().read()
        time.sleep(2 * SHORT.headers_s)
    assert connection.sock is not None
    connection.close()


def test_strangers_are_few(client: Client) -> None:
    """One more closes the oldest; who has a token stays, and is let in."""
    known = HTTPConnection("127.0.0.1", client.port, timeout=WAIT_S)
    headers = {"Authorization": f"Bearer {client.token}"}
    known.request("GET", "/api/v1/sessions", headers=headers)
    known.getresponse().read()
    half = [begin(client.port, "GET /") for _ in range(3 * SHORT.strangers)]

    assert read_all(half[0]) == b""
    assert client.send("GET", "/api/v1/sessions").status == 200
    known.request("GET", "/api/v1/sessions", headers=headers)
    assert known.getresponse().status == 200
    for one in (*half, known):
        one.close()


def test_attempts_that_fail_are_few(client: Client) -> None:
    """Then each gets 429 and a closed connection; a valid token is answered all the while."""
    wrong = {"Authorization": "Bearer wrong"}
    answers = [client.send("GET", "/api/v1/sessions", headers=wrong) for _ in range(12)]

    assert [one.status for one in answers] == [401] * SHORT.failures + [429] * 7
    assert answers[-1].json["code"] == "attempts"
    assert answers[-1].headers["connection"] == "close"
    assert client.send("GET", "/api/v1/sessions").status == 200


def test_a_request_with_two_ends_is_refused(client: Client) -> None:
    """With a length and chunks: what stands behind is no second request."""
    head = HEAD.format(port=client.port, token=client.token)
    second = f"GET /api/v1/sessions HTTP/1.1\r\n{head}\r\n"
    for ends in (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ):
        text = f"POST /api/v1/entries HTTP/1.1\r\n{head}{ends}\r\n0\r\n\r\n{second}"
        with begin(client.port, text) as connection:
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert b'"framing"' in answer
        assert answer.count(b"HTTP/1.1 ") == 1, answer


def test_the_page_has_the_same_limits(tmp_path: Path) -> None:
    """Of headers, of framing and of attempts."""
    with opened(tmp_path / "a.db", embedder=None) as db:
        app = App(db)
        listener = bind(0, app, lambda _: None)
        server = PageServer(app, SHORT)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        port = app.guard.port
        try:
            with begin(port, "GET / HTTP/1.1\r\n") as connection:
                assert read_all(connection).startswith(b"HTTP/1.1 408 ")
            ends = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
            head = f"Host: 127.0.0.1:{port}\r\n"
            with begin(port, f"POST / HTTP/1.1\r\n{head}{ends}\r\n0\r\n\r\n") as connection:
                assert read_all(connection).startswith(b"HTTP/1.1 400 ")
            statuses = []
            for _ in range(8):
                text = f"GET /api/v1/file HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
                with begin(port, text) as connection:
                    statuses.append(read_all(connection)[9:12])
            assert statuses == [b"401"] * 5 + [b"429"] * 3
        finally:
            server.should_exit = True
            thread.join(WAIT_S)
            app.api.close()
            listener.close()


def command(kind: str, folder: Path, port: int) -> tuple[list[str], str]:
    """Return the command that starts a server, and the token that it takes."""
    file, tokens = str(folder / "a.db"), str(folder / "tokens.json")
    if kind == "serve":
        token, _ = add_grant(tokens, "ann", "default", NOW_MS)
        return ["serve", file, "--tokens", tokens, "--port", str(port)], token
    if kind == "web":
        token = "t" * 40
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        options = ["--no-browser", "--port", str(port), "--token-file", str(folder / "token")]
        return ["web", file, *options], token
    return ["mcp", file, "--user", "ann", "--http", str(port), "--token-env", "T"], "t" * 40


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], tuple[int, str, Path]]]:
    """Return what starts a server in a process; it gives the port, a token, and its log."""
    children = []

    def run(kind: str) -> tuple[int, str, Path]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        memdb.open(tmp_path / "a.db", embedder=None).close()
        words, token = command(kind, tmp_path, port)
        log = tmp_path / "log"
        environment = {**os.environ, "MEMDB_EMBEDDER": "none", "T": token}
        with log.open("wb") as file, (tmp_path / "a.db.out").open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", "memdb", *words],
                stdin=subprocess.DEVNULL, stdout=out, stderr=file, env=environment,
            )  # fmt: skip
        children.append(child)
        for _ in range(600):
            assert child.poll() is None, log.read_text()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                return port, token, log
            time.sleep(0.05)
        raise AssertionError("it does not listen")

    yield run
    for child in children:
        child.terminate()
        child.communicate()


@pytest.mark.slow  # the limit is 10 s
@pytest.mark.parametrize("kind", ["serve", "web", "mcp"])
def test_a_server_outlives_strangers(
    kind: str, start: Callable[[str], tuple[int, str, Path]]
) -> None:
    """
    600 half-sent requests, 50 clients that go away in a body, both ends, garbage.

    Every connection is closed within the limit, a valid token is answered meanwhile, and the
    log holds nothing.
    """
    port, token, log = start(kind)
    before = log.read_text()
    path = {"serve": "/api/v1/entries", "web": "/api/v1/entries?user=ann", "mcp": "/mcp"}[kind]
    head = HEAD.format(port=port, token=token)
    accept = "Accept: application/json, text/event-stream\r\n"
    begun_s = time.monotonic()
    half = [begin(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n") for _ in range(600)]
    for _ in range(50):
        text = f"POST {path} HTTP/1.1\r\n{head}{accept}Content-Length: 500\r\n\r\n{{"
        begin(port, text).close()
    for garbage in ("\x00\x01\x02\r\n\r\n", "GET / HTTP\r\n\r\n", f"POST {path}\r\n\r\n"):
        with begin(port, garbage) as connection:
            read_all(connection)
    both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with begin(port, f"POST {path} HTTP/1.1\r\n{head}{accept}{both}") as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 400 ")
    with begin(
        port, f"GET {path} HTTP/1.1\r\n{head}{accept}Connection: close\r\n\r\n"
    ) as connection:
        status = connection.recv(12)
        assert status.startswith(b"HTTP/1.1 "), status
        assert status[9:] not in (b"401", b"429", b"503")
    for connection in half:
        read_all(connection)
    took_s = time.monotonic() - begun_s
    for connection in half:
        connection.close()

    assert took_s < 2 * Limits().headers_s
    assert log.read_text() == before


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """By each bit of others; the error has the command that mends it."""
    path = tmp_path / "tokens.json"
    add_grant(str(path), "ann", "default", NOW_MS)
    for bit in range(6):
        path.chmod(0o600 | 1 << bit)
        for read in (TokenFile, read_grants):
            with pytest.raises(FileError, match=f"chmod 600 {path}"):
                read(str(path))
    path.chmod(0o600)
    assert len(read_grants(str(path))) == 1
