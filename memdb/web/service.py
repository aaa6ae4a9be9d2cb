"""
`memdb serve`: the JSON API of a file or a folder for programs, each with a token of a user.

The table of verbs is that of `memdb web`. A user's token gives access to the verbs of scopes and
sessions, for that user and app only. A token for everything gives access to all verbs. There is no
page, no cookie and no address without a token but `/health` and `/ready`.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.routing import Route as Path

from memdb.adapters.host import HostFile
from memdb.errors import FileError, InvalidInput
from memdb.folder.folder import Folder
from memdb.web.app import application
from memdb.web.errors import Refused
from memdb.web.folders import FolderApi
from memdb.web.guard import READS, Guard
from memdb.web.limits import BACKLOG, Server, admit
from memdb.web.meeting import Meeting
from memdb.web.parameters import is_whole
from memdb.web.routes import Api, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Scope

    from memdb.api.database import MemDB
    from memdb.web.limits import Limits
    from memdb.web.tokens import Grant, TokenFile

SHUTDOWN_S = 30
OPEN = ("/health", "/ready")
ABOUT = (
    "A memory over HTTP, for programs: `memdb serve`. A token of one user is about that user and "
    "app only: leave `user` and `app` out."
)


class Service:
    """The server of one open database for programs."""

    def __init__(
        self,
        db: MemDB | Folder,
        tokens: TokenFile,
        *,
        read_only: bool = False,
        meeting_place: str | None = None,
    ) -> None:
        """
        Serve *db* to programs with one of *tokens*.

        Args:
            read_only: Without any route that writes.
            meeting_place: The folder for `memdb sync` of devices, None without one.
        """
        if isinstance(db, Folder):
            self.api: Api = FolderApi(db, read_only=read_only)
            self._probe: Callable[[], object] = lambda: db.list(limit=1)
        else:
            self.api = Api(db, read_only=read_only)
            self._probe = db.changes
        probes = [Path("/health", self._health), Path("/ready", self._ready)]
        if meeting_place is not None:
            probes += Meeting(meeting_place).routes
        app = application(self.api, self._answer, (ABOUT, ""), probes)
        self.guard = TokenGuard(app, tokens)

    def _answer(self, noun: str) -> Callable[[Request], Awaitable[Response]]:
        whole = {method for method, one in self.api.routes[noun].items() if is_whole(one.verb)}

        async def answer(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            bind_to_scope(request.scope, about_all=method in whole)
            return await self.api.answer(noun, request)

        return answer

    async def _health(self, request: Request) -> Response:  # noqa: ARG002 (Starlette gives it)
        """Return that the process is alive."""
        return encode({"ok": True})

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002 (Starlette gives it)
        """Return whether the database answers a small read."""
        await self.api.run(self._probe)
        return encode({"ok": True})


def bind_to_scope(scope: Scope, *, about_all: bool) -> None:
    """
    Limit a request to the user and app of its token.

    Args:
        about_all: Whether the verb is always about the whole memory.

    Raises:
        Refused: the request names another user or app, or the verb is about the whole memory.
        InvalidInput: the query cannot be read.
    """
    grant: Grant = scope["memdb.grant"]
    scope["memdb.owner"] = grant.id
    scope["memdb.within_scope"] = grant.user is not None and not grant.shared
    if grant.user is None:
        return
    if about_all:
        raise Refused("whole_memory", "the token is for one user, and this is about all")
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("latin-1"),
            keep_blank_values=True,
            strict_parsing=bool(scope["query_string"]),
            errors="strict",
        )
    except ValueError as error:
        raise InvalidInput(f"the query cannot be read: {error}") from error
    own = {"user": grant.user, "app": grant.app}
    if any(value != own[name] for name, value in pairs if name in own):
        raise Refused("other_user", "the token is for another user or app")
    rest = [(name, value) for name, value in pairs if name not in own]
    scope["query_string"] = urlencode([*own.items(), *rest]).encode()


class TokenGuard(Guard):
    """
    Finds the grant of a request's token.

    The guard passes on `scope["memdb.grant"]`, except for the addresses that need no token.
    """

    def __init__(self, app: ASGIApp, tokens: TokenFile) -> None:
        """Guard *app*."""
        super().__init__(app)
        self._tokens = tokens

    def admit(self, scope: Scope, headers: Mapping[str, list[str]]) -> None:
        """Refuse a request without a valid token."""
        if scope["path"] in OPEN and scope["method"] in READS:
            return
        given = headers.get("authorization", [])
        kind, _, token = (given or [""])[0].partition(" ")
        grant = None
        if len(given) == 1 and kind.lower() == "bearer":
            grant = self._tokens.find(token.strip())
        if grant is None:
            raise Refused("token", "the request has no valid token", {"WWW-Authenticate": "Bearer"})
        scope["memdb.grant"] = grant
        admit(scope)


class ServiceServer(Server):
    """The server of a service."""

    def __init__(
        self, service: Service, certificate: tuple[str, str] | None, limits: Limits | None = None
    ) -> None:
        """Serve *service*; *certificate*: paths of certificate and key, None without TLS."""
        tls = {} if certificate is None else dict(zip(TLS_OPTIONS, certificate, strict=True))
        super().__init__(service.guard, shutdown_s=SHUTDOWN_S, limits=limits, **tls)


TLS_OPTIONS = ("ssl_certfile", "ssl_keyfile")


def listen(host: str, port: int) -> socket.socket:
    """
    Return a socket on *host* at *port*; 0 takes any that is free.

    Raises:
        InvalidInput: the address does not exist here, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise InvalidInput(
            f"{host}:{port} cannot be served ({error.strerror}): give another --host or --port"
        ) from error
    return listener


def serve(
    service: Service, listener: socket.socket, certificate: tuple[str, str] | None = None
) -> None:
    """
    Answer requests on *listener* until a signal arrives; running calls then have 30 s to end.

    Raises:
        FileError: certificate or key cannot be read.
    """
    HostFile(service.api.db).warm()
    server = ServiceServer(service, certificate)
    try:
        server.config.load()
    except (OSError, ValueError) as error:
        names = ", ".join(certificate or ())
        raise FileError(f"{names} cannot be used for TLS ({error})", names) from error
    try:
        server.run(sockets=[listener])
    finally:
        service.api.close()
        listener.close()
