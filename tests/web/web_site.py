"""A served file, on a port of its own, and what asks it: plain sockets and `http.client`."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import memdb
from memdb.web.app import App, PageServer, bind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from memdb.api.database import MemDB

TOKEN = "t" * 40
PIXEL = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
START_MS = 1_700_000_000_000


class Clock:
    """Moves on by *step_ms* at each call."""

    def __init__(self, step_ms: int = 1) -> None:
        """Start at `START_MS`."""
        self.now_ms = START_MS
        self.step_ms = step_ms

    def __call__(self) -> int:
        """Return the time."""
        self.now_ms += self.step_ms
        return self.now_ms


class Ids:
    """Gives uids that are counted from 1."""

    def __init__(self, first: int = 1) -> None:
        """Begin with *first*."""
        self.next = first

    def __call__(self, _now_ms: int) -> str:
        """Return the next."""
        self.next += 1
        return f"00000000-0000-7000-8000-{self.next:012x}"


def fill(path: Path | str) -> None:
    """Make the file that the examples of the table work on."""
    plain = {"extract": False}  # the examples name each entry
    with memdb.open(path, clock=Clock(), ids=Ids(), durability="process", settings=plain) as db:
        ann = db.scope("ann")
        trip = ann.session("trip")
        trip.append("user", "We fly to Oslo on 3 May.", author="Ann")
        for number in range(1, 12):
            role = "user" if number % 2 else "assistant"
            trip.append(role, f"Line {number}: pack the tent, the stove and the map for Oslo.")
        image = {"type": "image", "base64": b64encode(PIXEL).decode(), "media_type": "image/gif"}
        trip.append("user", "The map.", parts=[image])
        trip.update(title="Oslo")
        ann.session("old").append("user", "The rent was due in May.")
        ann.remember("Ann lives in Oslo.", key="home", session="trip", seq=1)
        ann.remember("Ann has a cat called Miso.", pinned=True)
        trip.artifacts.save("plan.md", "Day 1: fly")
        ann.artifacts.save("user:map.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
        trip.state.update(city="Oslo")
        ann.items.put(("notes",), "k1", {"text": "Pack the tent."})
        ann.items.put(("notes", "trip"), "k2", {"text": "Buy a map."})
        db.jobs.run()


@contextmanager
def opened(path: Path | str, **options: Any) -> Iterator[MemDB]:
    """Open a file with the clock and the uids of these tests."""
    clock = Clock(0)
    clock.now_ms += 1_000_000
    with memdb.open(path, clock=clock, ids=Ids(1000), durability="process", **options) as db:
        yield db


class Answer(NamedTuple):
    """What came back: status, headers by lower-case name, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Site:
    """A served file, and requests to it."""

    def __init__(self, app: App, port: int) -> None:
        """Ask *app* on *port*."""
        self.app, self.port = app, port
        self.origin = f"http://127.0.0.1:{port}"
        self.base = app.guard.base
        self.cookie = ""

    def send(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request as it is given, but for Host and length."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def ask(
        self,
        method: str,
        noun: str,
        query: Mapping[str, Any] | None = None,
        fields: Any = None,
        **headers: str,
    ) -> Answer:
        """Ask the API as a program does that has the token."""
        given = {"Authorization": f"Bearer {TOKEN}"}
        if method != "GET":
            given["Content-Type"] = "application/json"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        text = urlencode(query or {}, doseq=True)
        body = None if fields is None else json.dumps(fields)
        return self.send(method, f"/api/v1/{noun}{'?' * bool(text)}{text}", body, given)

    def begin(self, method: str, path: str, *headers: str) -> socket.socket:
        """Send a request of a program, and return the socket that its answer comes on."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"Authorization: Bearer {TOKEN}", "Connection: close", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return connection

    def raw(self, request: bytes) -> Answer:
        """Send bytes on a socket, and read what comes until it is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            with suppress(ConnectionError):  # it was answered before all of it was read
                connection.sendall(request)
            data = b""
            with suppress(ConnectionError):
                while more := connection.recv(65536):
                    data += more
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        status = int(lines[0].split()[1]) if lines[0] else 0
        return Answer(status, {name.lower(): one for name, one in headers.items()}, body)

    def sign_in(self) -> str:
        """Exchange a new link for a cookie, and return it as a request sends it."""
        secret = self.app.new_link().partition("#k=")[2]
        given = {"Origin": self.origin, "Content-Type": "application/json"}
        body = json.dumps({"secret": secret})
        answer = self.send("POST", f"{self.base}session", body, given)
        assert answer.status == 204, answer
        return answer.headers["set-cookie"].partition(";")[0]


@contextmanager
def served(db: MemDB, **options: Any) -> Iterator[Site]:
    """Serve an open file in a thread."""
    app = App(db, token=TOKEN, **options)
    listener = bind(0, app, lambda _: None)
    server = PageServer(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Site(app, app.guard.port)
    finally:
        server.should_exit = True
        thread.join(60)
        app.api.close()
        listener.close()
