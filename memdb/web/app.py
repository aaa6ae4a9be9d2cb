"""
Assembly of `memdb web`: the application, the port, the server and its end.

`App` is the server of an open file, and `application` makes its ASGI application. `bind` takes a
port of 127.0.0.1, and `serve` answers there until it is stopped.

The files of the page are read once at start, and served under the hash of all of them. The hash is
in the path, so a module imports its neighbours by a relative name, and the browser can cache every
file for ever. `index.html` names its files by `{{static}}`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import threading
import urllib.request
from importlib import resources
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route as Path

from memdb import __version__
from memdb.adapters.host import HostFile
from memdb.api.verbs import Verb
from memdb.errors import InvalidInput, MemDBError
from memdb.web import openapi
from memdb.web.bytes import read_session
from memdb.web.errors import Refused, from_error, problem
from memdb.web.events import Events
from memdb.web.guard import API, COOKIE, HOST, PLAIN_PAGE, STATIC, VIEWS, Access, PageGuard
from memdb.web.limits import Server
from memdb.web.parameters import read_json
from memdb.web.routes import Api, Route, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

    from memdb.api.database import MemDB
    from memdb.models.types import SearchBy
    from memdb.web.limits import Limits


TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
MARK = b"{{static}}"
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
HASH_CHARS = 16


class StaticFiles:
    """The files in memdb/web/static, in memory: plain and compressed."""

    def __init__(self, folder: Traversable | None = None) -> None:
        """Read every file of *folder*; None means those of the package."""
        folder = folder or resources.files("memdb.web") / "static"
        files = dict(_walk(folder, ""))
        whole = hashlib.sha256()
        for name, data in sorted(files.items()):
            whole.update(name.encode() + b"\0" + data + b"\0")
        self.prefix = f"{STATIC}{whole.hexdigest()[:HASH_CHARS]}"
        index = files.pop(INDEX, b"").replace(MARK, self.prefix.encode())
        self._index = index, gzip.compress(index, mtime=0)
        self._files = {name: (data, gzip.compress(data, mtime=0)) for name, data in files.items()}

    def names(self) -> list[str]:
        """Return the names of all files except the index."""
        return sorted(self._files)

    async def index(self, request: Request) -> Response:
        """Return the page's HTML, which contains no data."""
        return _answer(request, self._index, TYPES["html"], {"Cache-Control": "no-cache"})

    async def file(self, request: Request) -> Response:
        """Return a file by the hash of all files and its name."""
        path = request.path_params["path"]
        name = path.removeprefix(self.prefix.removeprefix(STATIC)).removeprefix("/")
        kind = TYPES.get(name.rpartition(".")[2])
        if name == path or name not in self._files or kind is None:
            return problem("no_route", "there is no such file: open the page again")
        return _answer(request, self._files[name], kind, FOREVER)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walk(one, f"{prefix}{one.name}/")
        elif one.name.rpartition(".")[2] in TYPES:
            yield f"{prefix}{one.name}", one.read_bytes()


def _answer(
    request: Request, content: tuple[bytes, bytes], kind: str, headers: dict[str, str]
) -> Response:
    headers = {**headers, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(content[1], 200, {**headers, "Content-Encoding": "gzip"}, kind)
    return Response(content[0], 200, headers, kind)


MOST_PORTS = 20
ID_CHARS = 10
# Without letters and digits that are read for one another.
ALPHABET = "abcdefghijkmnopqrstuvwxyz"
PLAIN_TEXT = "text/plain; charset=utf-8"
SHUTDOWN_S = 5
PROBE_S = 2.0
WARM_SCOPES = 3
WARM_WORD = "warmth"

# The noun that waits for the warming, and how long: both at once take twice the time.
WARMED = "recall"
MOST_WARM_S = 2.0
TYPED_CHARS = 2  # with so many the page asks first
MAX_WARM_CHARS = 40
ABOUT = "One memdb file over HTTP, on loopback: `memdb web FILE`."
EVERY_METHOD = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def file_id(db: MemDB) -> str:
    """
    Return ten letters that identify the file in links.

    The letters come from its uid, so links survive a move.
    """
    return _letters(db.file.info().meta.get("file_uid", db.path))


def place_id(path: str) -> str:
    """
    Return ten letters that show whether two servers serve one file, by whatever path.

    A copy has the uid of its original, so its links work; here it counts as another file.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # in memory, or on a server
        return _letters(path)
    return _letters(f"{found.st_dev}:{found.st_ino}" if found.st_ino else os.path.realpath(path))


def _letters(text: str) -> str:
    """Return ten letters of the digest of a text."""
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).digest()
    number = int.from_bytes(digest[:8], "big")
    letters = ""
    while len(letters) < ID_CHARS:
        number, place = divmod(number, len(ALPHABET))
        letters += ALPHABET[place]
    return letters


class App:
    """The server of one open file: its API, its guard, and its addresses."""

    def __init__(
        self,
        db: MemDB,
        *,
        read_only: bool = False,
        token: str | None = None,
        asks_network: bool = False,
        user: str = "default",
    ) -> None:
        """
        Serve *db* to a browser that has the link, and to programs that have *token*.

        Args:
            read_only: Leave out every route that writes.
            token: What programs send. None lets none in.
            asks_network: Whether a search by meaning asks a server for the vector; the page then
                searches by words while the user types.
            user: The user that the page offers to create in a file without users.
        """
        self.db = db
        self.read_only = read_only
        self.asks_network = asks_network
        self.user = user
        self.id = file_id(db)
        self.access = Access(token)
        self.api = Api(db, read_only=read_only)
        self.events = Events(db)
        self.static = StaticFiles()
        self._warming: threading.Thread | None = None
        self._plain_page = Route(Verb(PLAIN_PAGE, "GET", read_session), None, PLAIN_TEXT)
        name = os.path.basename(db.path)
        self.name = name
        self.place = place_id(db.path)
        self.guard = PageGuard(
            self._application(), self.access, file_id=self.id, name=name, place=self.place
        )

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"{self.guard.origin}{self.guard.base}"

    def new_link(self) -> str:
        """Return an address that signs in one browser, within two minutes."""
        return f"{self.address}#k={self.access.new_secret()}"

    def warm(self) -> None:
        """
        Load the token counter, the embedder and search for the first requests.

        The call searches for the first letters of a word of the newest conversation, and for the
        word. The search counts no use and asks no server.
        """
        try:
            if not self.asks_network:
                HostFile(self.db).warm()
            for scope in self.db.scopes()[:WARM_SCOPES]:
                newest = scope.sessions(limit=1, order="updated")
                words = " ".join(one.title or one.opening or "" for one in newest).split()
                word = max(words, key=len, default=WARM_WORD)
                by: SearchBy = "words" if self.asks_network else "meaning"
                for typed in (word[:TYPED_CHARS], word[:MAX_WARM_CHARS]):
                    scope.recall(typed, by=by, prefix=True, explain=True, count_use=False)
        except MemDBError:
            return  # the first request says what is wrong

    def begin_warming(self) -> None:
        """Warm up in a thread; a search that comes meanwhile waits for it, two seconds at most."""
        self._warming = threading.Thread(target=self.warm, name="memdb-warm", daemon=True)
        self._warming.start()

    def _application(self) -> Starlette:
        return application(
            self.api,
            self._answer,
            (ABOUT, f"{COOKIE}-PORT"),
            [
                Path(f"/{API}/events", self.events.stream),
                Path(f"/{PLAIN_PAGE}", self._read),
                Path("/session", self._session, methods=["GET", "POST", "DELETE"]),
                Path(f"/{STATIC}{{path:path}}", self.static.file),
                *(Path(f"/{view}", self.static.index) for view in VIEWS),
            ],
        )

    def _answer(self, noun: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self.events.refuse_ended()
            if noun == WARMED and self._warming is not None and self._warming.is_alive():
                await run_in_threadpool(self._warming.join, MOST_WARM_S)
            return await self.api.answer(noun, request)

        return answer

    async def _read(self, request: Request) -> Response:
        """Return a session as plain text: no virtual list, no script."""
        return await self.api.answer_route(self._plain_page, request)

    async def _session(self, request: Request) -> Response:
        """Sign in with the secret of the link, describe the file, or sign out."""
        if request.method == "POST":
            return await self._sign_in(request)
        if request.method == "DELETE":
            self.access.sign_out(request.scope.get("memdb.cookie", ""))
            return Response(
                status_code=204, headers={"Set-Cookie": self._cookie(request, "", "; Max-Age=0")}
            )
        settings = await run_in_threadpool(self.db.settings.get)
        about = {
            "file": self.name,
            "id": self.id,
            "read_only": self.read_only,
            "asks_network": self.asks_network,
            "logs_contexts": settings.context_log_days > 0,
            "user": self.user,
            "version": __version__,
        }
        return encode(about)

    async def _sign_in(self, request: Request) -> Response:
        given = read_json(await request.body())
        secret = given.get("secret") if isinstance(given, dict) else None
        cookie = self.access.exchange(secret if isinstance(secret, str) else "")
        return Response(status_code=204, headers={"Set-Cookie": self._cookie(request, cookie)})

    def _cookie(self, request: Request, value: str, more: str = "") -> str:
        # Path matters: a cookie with Path=/ is handed to every other port of 127.0.0.1. So does
        # the port: a copy of a file has its id, and so the same path.
        port = request.scope["server"][1]
        return f"{COOKIE}-{port}={value}; HttpOnly; SameSite=Strict; Path={self.guard.base}{more}"


async def no_route(request: Request, error: Exception) -> Response:  # noqa: ARG001 (Starlette gives it)
    """Answer that nothing is at an address."""
    return problem("no_route", f"there is nothing at {request.url.path[:200]}")


async def wrong_method(request: Request, error: Exception) -> Response:
    """Answer that an address does not support a method."""
    headers = getattr(error, "headers", None)
    return problem("method", f"{request.method} is not served here", headers=headers)


async def failed(request: Request, error: Exception) -> Response:  # noqa: ARG001 (Starlette gives it)
    """Answer with the error that a call raised."""
    return from_error(error)


def application(
    api: Api,
    answer: Callable[[str], Callable[[Request], Awaitable[Response]]],
    about: tuple[str, str],
    more: list[Path],
) -> Starlette:
    """
    Return the application of an API: its nouns, their OpenAPI document, and *more* addresses.

    Args:
        answer: Returns the handler of a noun.
        about: What `openapi.document` takes.
    """
    document = json.dumps(openapi.document(api.routes, *about), default=str).encode()

    async def describe(request: Request) -> Response:  # noqa: ARG001 (Starlette gives it)
        return Response(document, 200, media_type="application/json")

    nouns = [Path(f"/{API}/{noun}", answer(noun), methods=EVERY_METHOD) for noun in api.routes]
    return Starlette(
        routes=[*nouns, Path(f"/{API}/openapi.json", describe), *more],
        exception_handlers={
            404: no_route,
            405: wrong_method,
            **dict.fromkeys((Refused, MemDBError, Exception), failed),
        },
    )


def bind(port: int, app: App, note: Callable[[str], None]) -> socket.socket:
    """
    Return a socket on 127.0.0.1 at *port*, or at the next free one; 0 takes any.

    Args:
        note: Called with a sentence about each port that is taken.

    Raises:
        InvalidInput: this file is already served there, or no port is free.
    """
    last = port + MOST_PORTS
    for number in range(port, min(last, 65535) + 1):
        # Said to be TCP, asyncio sends at once; else each answer waits 40 ms for an ACK.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # elsewhere it would share the port of another server
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, number))
            listener.listen(128)
        except OSError:
            listener.close()
        else:
            app.guard.port = listener.getsockname()[1]
            return listener
        served = who_serves(number)
        if served is not None and served[0] == app.place:
            raise InvalidInput(
                f"{served[1]} is already served at http://{HOST}:{number}/f/{app.id}/: press Enter "
                "in its terminal for a link, or give --port"
            )
        what = "another program" if served is None else served[1]
        note(f"Port {number} serves {what}; trying {number + 1}.")
    raise InvalidInput(f"no port from {port} to {last} is free: give --port")


class _Stay(urllib.request.HTTPRedirectHandler):
    """It follows no redirect, because the answer is in its address and header."""

    def redirect_request(self, *_: object) -> None:
        """Return no request."""


def who_serves(port: int) -> tuple[str, str] | None:
    """Return `place_id` and name of the file that a memdb serves on *port*; None for others."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay)
    try:
        with opener.open(f"http://{HOST}:{port}/", timeout=PROBE_S):
            return None
    except HTTPError as error:
        with error:
            name, place = error.headers.get("Memdb-File"), error.headers.get("Memdb-Place", "")
        return None if name is None else (place, unquote(name))
    except (OSError, ValueError):
        return None


class PageServer(Server):
    """The server of a page; the command line handles signals."""

    def __init__(self, app: App, limits: Limits | None = None) -> None:
        """Serve *app*."""
        super().__init__(app.guard, shutdown_s=SHUTDOWN_S, limits=limits)
        self._events = app.events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, then wait for answers in progress."""
        self._events.close()
        await super().shutdown(sockets=sockets)


def serve(app: App, listener: socket.socket) -> None:
    """Answer requests on *listener* until a signal arrives; running calls then have 5 s to end."""
    app.begin_warming()
    server = PageServer(app)
    try:
        server.run(sockets=[listener])
    finally:
        app.api.close()
        listener.close()
