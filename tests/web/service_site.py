"""A service of `memdb serve`, with several users, and programs that ask it with a token."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from web_site import Answer

from memdb.api.verbs import VERBS
from memdb.web.limits import Limits
from memdb.web.parameters import is_whole, parameters_of
from memdb.web.service import Service, ServiceServer, listen
from memdb.web.tokens import TokenFile, add_grant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memdb.api.database import MemDB
    from memdb.api.verbs import Verb

SECRET = "zorbaqzx"  # stands in every field of another user
NOW_MS = 1_700_000_000_000


def fill_other(db: MemDB, user: str, app: str = "default") -> None:
    """Give another user what ann has, with a word in each field that is nowhere else."""
    other = db.scope(user, app)
    chat = other.session("trip")
    for number in range(1, 14):
        chat.append("user", f"{SECRET} {number}: we fly to Oslo.", author=SECRET)
    chat.update(title=SECRET)
    other.session("old").append("user", SECRET)
    other.session(f"{SECRET} session").append("user", "hello")
    other.remember(f"{SECRET} lives in Oslo.", key="home", session="trip", seq=1)
    chat.artifacts.save("plan.md", SECRET)
    chat.state.update(city=SECRET)
    other.items.put(("notes",), "k1", {"text": SECRET})
    db.jobs.run()


class Client:
    """Asks a service with a token."""

    def __init__(self, port: int, token: str) -> None:
        """Ask on *port*."""
        self.port = port
        self.token = token

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Return the answer to one request."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        data = None
        if method not in ("GET", "HEAD"):
            given.setdefault("Content-Type", "application/json")
            data = json.dumps(body or {})
        try:
            connection.request(method, path, data, given)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def ask(
        self, verb: Verb, more: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Answer:
        """Ask a verb with its example, changed by *more*; None takes an argument out."""
        given = {**verb.example, **more}
        places = {one.name: one.place for one in parameters_of(verb)}
        query = [
            (name, json.dumps(one) if isinstance(one, (dict, bool)) else one)
            for name, value in given.items()
            if value is not None and places.get(name, "query") == "query"
            for one in (value if isinstance(value, list) else [value])
        ]
        body = {name: value for name, value in given.items() if places.get(name) == "body"}
        path = f"/api/v1/{verb.noun}{'?' * bool(query)}{urlencode(query)}"
        return self.send(verb.method, path, body, headers)


class Running:
    """A service in a thread, with a token file."""

    def __init__(self, port: int, tokens: Path) -> None:
        """Hold both."""
        self.port = port
        self.tokens = str(tokens)

    def client(
        self, user: str | None, app: str | None = "default", *, shared: bool = False
    ) -> Client:
        """Return a client with a new token."""
        place = user, None if user is None else app
        token, _ = add_grant(self.tokens, *place, NOW_MS, shared=shared)
        return Client(self.port, token)


@contextmanager
def running(
    db: MemDB, tokens: Path, limits: Limits | None = None, **options: Any
) -> Iterator[Running]:
    """Serve *db* in a thread; without *limits* any number of attempts may fail."""
    add_grant(str(tokens), None, None, NOW_MS)
    service = Service(db, TokenFile(str(tokens)), **options)
    listener = listen("127.0.0.1", 0)
    server = ServiceServer(service, None, limits or Limits(failures=1_000_000))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Running(listener.getsockname()[1], tokens)
    finally:
        server.should_exit = True
        thread.join()
        service.api.close()
        listener.close()


def ids_of(verb: Verb, client: Client) -> dict[str, Any]:
    """Return real ids for the entries and summaries that an example names."""
    found: dict[str, Any] = {}
    if verb.noun.startswith("entry") and "id" in verb.example:
        rows = client.send("GET", "/api/v1/entries").json["items"]
        found["id"] = rows[0]["id"]
        if "new_id" in verb.example:
            found["new_id"] = rows[-1]["id"]
    return found


def if_match(verb: Verb) -> dict[str, str]:
    """Return the header that a change needs."""
    return {} if not verb.swaps else {"If-Match": "*"}


WHOLE = [verb for verb in VERBS if is_whole(verb)]
OF_A_USER = [verb for verb in VERBS if not is_whole(verb)]


def name_of(verb: Verb) -> str:
    """Return method and path."""
    return f"{verb.method} {verb.noun}"
