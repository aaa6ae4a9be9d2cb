"""
The guard of `memdb web`: it checks every request before routing.

Host, method, size, credential, origin and content type are checked, and every answer gets
the headers of the policy. `Access` contains the one-time secret, the cookies and the token,
each as a hash in memory. A page of another site cannot read an answer: there are no CORS headers,
and `Cross-Origin-Resource-Policy` is set. It cannot change anything, because Origin must match and
the type must be `application/json`. It cannot get here by a name that it controls either, because
Host is checked.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import RedirectResponse

from memdb.errors import MemDBError
from memdb.web.errors import Refused, from_error
from memdb.web.limits import MAX_HEADER_BYTES, admit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
ALIASES = ("localhost", "[::1]")
COOKIE = "memdb"
SECRET_BYTES = 32
SECRET_S = 120
MAX_COOKIES = 100
MAX_BODY_BYTES = 1 << 20

# Why a link lets nobody in, by the code of the refusal.
REFUSED_LINKS = {
    "sign_in": "the link belongs to another run of the server",
    "link_used": "the link was used already",
    "link_old": "the link is over two minutes old, or a newer one was printed",
}

READS = ("GET", "HEAD")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
VIEWS = ("", "conversations", "search", "entries", "artifacts", "context", "health", "map")
API = "api/v1"
STATIC = "s/"
PLAIN_PAGE = "read"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
NO_FEATURES = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "camera",
        "display-capture",
        "fullscreen",
        "geolocation",
        "gyroscope",
        "microphone",
        "midi",
        "payment",
        "publickey-credentials-get",
        "usb",
        "screen-wake-lock",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": NO_FEATURES,
    "cache-control": "no-store",
}


class Access:
    """Credentials: a secret that works once, the cookies made from it, and a token for programs."""

    def __init__(
        self, token: str | None = None, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Accept programs with *token*. None accepts no program."""
        self._token = None if token is None else _digest(token)
        self._clock_s = clock_s
        self._secret: tuple[bytes, float] | None = None
        self._cookies: dict[bytes, None] = {}
        self._spent: dict[bytes, str] = {}  # secrets that work no more, with the reason

    def new_secret(self) -> str:
        """Return a secret that works once, for two minutes; the earlier one becomes invalid."""
        if self._secret is not None:
            self._spend(self._secret[0], "link_old")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._secret = _digest(secret), self._clock_s() + SECRET_S
        return secret

    def exchange(self, secret: str) -> str:
        """
        Return a new cookie for the secret.

        Raises:
            Refused: the secret was used, is too old, or is unknown; each has a code of its own.
        """
        digest, kept = _digest(secret), self._secret
        if kept is None or not hmac.compare_digest(kept[0], digest):
            code = self._spent.get(digest, "sign_in")
            raise Refused(code, REFUSED_LINKS[code])
        self._secret = None
        if self._clock_s() > kept[1]:
            self._spend(digest, "link_old")
            raise Refused("link_old", REFUSED_LINKS["link_old"])
        self._spend(digest, "link_used")
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        self._cookies[_digest(cookie)] = None
        while len(self._cookies) > MAX_COOKIES:
            del self._cookies[next(iter(self._cookies))]
        return cookie

    def _spend(self, digest: bytes, code: str) -> None:
        """Note why a secret is no longer valid."""
        self._spent[digest] = code
        while len(self._spent) > MAX_COOKIES:
            del self._spent[next(iter(self._spent))]

    def is_cookie(self, cookie: str) -> bool:
        """Return whether a cookie was made with a secret of this server and is not signed out."""
        return _digest(cookie) in self._cookies

    def is_token(self, token: str) -> bool:
        """Return whether *token* is the programs' token."""
        return self._token is not None and hmac.compare_digest(self._token, _digest(token))

    def sign_out(self, cookie: str) -> None:
        """Forget a cookie."""
        self._cookies.pop(_digest(cookie), None)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Guard:
    """The outermost layer of a server: checks a request, then passes it on."""

    def __init__(self, app: ASGIApp) -> None:
        """Guard *app*."""
        self._app = app

    def admit(self, scope: Scope, headers: Mapping[str, list[str]]) -> Response | None:
        """
        Check a request.

        Return a redirect if it belongs elsewhere, and raise Refused if nowhere.
        """
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        guarded = with_headers(send)
        try:
            _refuse_malformed(scope)
            elsewhere = self.admit(scope, headers_of(scope))
        except (Refused, MemDBError) as error:
            await from_error(error)(scope, receive, guarded)
            return
        if elsewhere is None:
            await self._app(scope, limited(scope, receive), guarded)
        else:
            await elsewhere(scope, receive, guarded)


class PageGuard(Guard):
    """
    Admits the browser with the link, and programs with the token; removes the base from a path.

    The guard passes on `scope["memdb.base"]`, which is "" for a program that came without the
    base, and `scope["memdb.cookie"]`, the cookie that admitted it, if one did.
    """

    def __init__(
        self, app: ASGIApp, access: Access, *, file_id: str, name: str, place: str
    ) -> None:
        """Guard *app*; *name* and *place* identify the file, for a second start on the port."""
        super().__init__(app)
        self._access = access
        self.base = f"/f/{file_id}/"
        self._names = {"Memdb-File": quote(name), "Memdb-Place": place}
        self.port = 0

    @property
    def origin(self) -> str:
        """The one origin whose requests are accepted."""
        return f"http://{HOST}:{self.port}"

    def admit(self, scope: Scope, headers: Mapping[str, list[str]]) -> Response | None:
        """Check host, origin and credential, and remove the base from the path."""
        if headers.get("host") != [f"{HOST}:{self.port}"]:
            return self._to_our_host(scope, headers.get("host", []))
        method = scope["method"]
        origins = headers.get("origin", [])
        if origins and origins != [self.origin]:
            raise Refused("foreign", "the request comes from another page")
        if scope["path"] == "/":
            return RedirectResponse(self.base, 303, self._names)
        path = self._cut(scope)
        is_open = scope["memdb.base"] != "" and _is_open(path, method)
        if not is_open:
            self._check_credential(scope, headers, path)
            admit(scope)
        if method in WRITES:
            is_page = is_open or "memdb.cookie" in scope
            if is_page and origins != [self.origin]:
                raise Refused("foreign", "a write must come from the page itself")
        return None

    def _to_our_host(self, scope: Scope, hosts: list[str]) -> Response:
        """Return a redirect from another name of this computer."""
        name, _, port = (hosts or [""])[0].rpartition(":")
        if len(hosts) != 1 or name not in ALIASES or port != str(self.port):
            raise Refused("host", "the request names another host")
        if scope["method"] not in READS or not scope["path"].startswith("/"):
            raise Refused("host", "a write goes to the address that was printed")
        path = quote(scope["path"], safe="/")
        query = scope["query_string"].decode("latin-1")
        return RedirectResponse(f"{self.origin}{path}{'?' * bool(query)}{query}", 307)

    def _cut(self, scope: Scope) -> str:
        """Remove the base from the path of *scope*, and return the rest."""
        path: str = scope["path"]
        if path.startswith(self.base):
            scope["memdb.base"], rest = self.base, path[len(self.base) :]
        elif path.startswith(f"/{API}/"):
            scope["memdb.base"], rest = "", path[1:]
        elif path.startswith("/f/"):
            raise Refused("other_file", "this link belongs to another file")
        else:
            raise Refused("no_route", "there is nothing at this address")
        scope["path"] = f"/{rest}"
        scope["raw_path"] = quote(scope["path"], safe="/").encode()
        return rest

    def _check_credential(self, scope: Scope, headers: Mapping[str, list[str]], path: str) -> None:
        """Refuse a request without a valid credential; note its cookie in *scope*."""
        given = headers.get("authorization", [])
        if given:
            kind, _, token = given[0].partition(" ")
            if len(given) != 1 or kind.lower() != "bearer" or not self._access.is_token(token):
                raise _unknown("the token is not that of --token-file")
            return
        if scope["memdb.base"] == "":
            raise _unknown(
                "no token was sent: send Authorization: Bearer with the token of --token-file"
            )
        cookie = next(filter(self._access.is_cookie, _cookies(headers)), None)
        if cookie is None:
            raise _unknown("this browser is not signed in")
        scope["memdb.cookie"] = cookie
        sites = headers.get("sec-fetch-site", [])
        is_typed = path == PLAIN_PAGE and sites == ["none"]  # or opened again
        if sites and sites != ["same-origin"] and not is_typed:
            raise Refused("foreign", "the request comes from another site")
        if not sites and headers.get("origin") != [self.origin]:
            raise Refused("foreign", "the browser does not say where the request comes from")


def _refuse_malformed(scope: Scope) -> None:
    """Refuse a method that no route has, and headers that are too long."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise Refused("header_size", f"the headers are over {MAX_HEADER_BYTES:,} bytes")
    if scope["method"] not in (*READS, *WRITES):
        raise Refused("method", f"{scope['method']} is not served here", {"Allow": "GET"})


def _is_open(path: str, method: str) -> bool:
    """Return whether no credential is needed: for the page without data, and for signing in."""
    if path == "session":
        return method == "POST"
    return method in READS and (path in VIEWS or path.startswith(STATIC))


def _unknown(detail: str) -> Refused:
    return Refused("sign_in", detail, {"WWW-Authenticate": "Bearer"})


def check_body(headers: Mapping[str, list[str]]) -> None:
    """Refuse the body of a write if its type is not JSON, or if it is too long."""
    kinds = headers.get("content-type", [])
    kind, _, options = (kinds or [""])[0].partition(";")
    charset = options.strip().lower().replace('"', "")
    is_json = kind.strip().lower() == "application/json" and charset in ("", "charset=utf-8")
    if len(kinds) != 1 or not is_json:
        raise Refused("content_type", "a write is JSON")
    length = headers.get("content-length", ["0"])[0]
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        raise _too_large()


def _too_large() -> Refused:
    return Refused("body_size", f"the body is over {MAX_BODY_BYTES:,} bytes")


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """Return the values of each header, by its name in lower case."""
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _cookies(headers: Mapping[str, list[str]]) -> list[str]:
    """Return the values of our cookie, because another port of the host may have set one too."""
    pairs = [pair.strip() for line in headers.get("cookie", []) for pair in line.split(";")]
    return [pair.partition("=")[2] for pair in pairs if pair.startswith(f"{COOKIE}-")]


def limited(scope: Scope, receive: Receive) -> Receive:
    """
    Return *receive* that refuses a body that is not JSON or becomes too long.

    Only a route that supports the method reads a body; others answer 405 whatever is sent.
    """
    total, is_checked = 0, scope["method"] not in WRITES

    async def counted() -> Message:
        nonlocal total, is_checked
        if not is_checked:
            check_body(headers_of(scope))
            is_checked = True
        message = await receive()
        total += len(message.get("body", b""))
        if total > MAX_BODY_BYTES:
            raise _too_large()
        return message

    return counted


def with_headers(send: Send) -> Send:
    """Return *send* that adds the headers of the policy to those of an answer."""

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            own = [
                (name.encode(), value.encode())
                for name, value in HEADERS.items()
                if name.encode() not in given
            ]
            message = {**message, "headers": [*message["headers"], *own]}
        await send(message)

    return add
