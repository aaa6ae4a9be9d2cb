"""The guard, by plain sockets: who is let in, and what every answer carries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from web_site import TOKEN, Answer, Site

from memdb.web.errors import Refused
from memdb.web.guard import HEADERS, SECRET_S, Access

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "Miso"  # what the file of the examples says


def request(
    site: Site,
    method: str = "GET",
    path: str = "{base}api/v1/scopes",
    body: str = "",
    **changes: str | None,
) -> Answer:
    """Send a request of the page by a socket; None takes a header away."""
    headers: dict[str, str | None] = {
        "Host": f"127.0.0.1:{site.port}",
        "Cookie": site.cookie,
        "Sec-Fetch-Site": "same-origin",
        "Connection": "close",
    }
    if method not in ("GET", "HEAD"):
        headers |= {
            "Origin": site.origin,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{method} {path.format(base=site.base)} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return site.raw(("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1"))


@pytest.fixture(scope="module")
def page(reading_site: Site) -> Site:
    """Return a site that a browser is signed in to."""
    reading_site.cookie = reading_site.sign_in()
    return reading_site


ENTRIES = "{base}api/v1/entries?user=ann"
READS: list[tuple[str, int, Mapping[str, Any]]] = [
    ("the page itself", 200, {}),
    ("no host", 400, {"Host": None}),
    ("a foreign host", 421, {"Host": "evil.example"}),
    ("a foreign host with the port", 421, {"Host": "evil.example:{port}"}),
    ("no port", 421, {"Host": "127.0.0.1"}),
    ("another port", 421, {"Host": "127.0.0.1:1"}),
    ("another spelling", 421, {"Host": "127.1:{port}"}),
    ("a name that ends alike", 421, {"Host": "evil.127.0.0.1:{port}"}),
    ("localhost", 307, {"Host": "localhost:{port}"}),
    ("the other loopback", 307, {"Host": "[::1]:{port}"}),
    ("localhost of another port", 421, {"Host": "localhost:1"}),
    ("no cookie", 401, {"Cookie": None}),
    ("a wrong cookie", 401, {"Cookie": "memdb=abc"}),
    ("an empty cookie", 401, {"Cookie": "memdb="}),
    ("another name", 401, {"Cookie": "Memdb=abc"}),
    ("a cookie of another port before ours", 200, {"Cookie": "memdb=evil; x=y; {cookie}"}),
    ("another site", 403, {"Sec-Fetch-Site": "cross-site"}),
    ("another port of the host", 403, {"Sec-Fetch-Site": "same-site"}),
    ("an address that was typed", 403, {"Sec-Fetch-Site": "none"}),
    ("an old browser without origin", 403, {"Sec-Fetch-Site": None}),
    ("an old browser with it", 200, {"Sec-Fetch-Site": None, "Origin": "{origin}"}),
    ("an old browser elsewhere", 403, {"Sec-Fetch-Site": None, "Origin": "http://evil.example"}),
    ("a foreign origin", 403, {"Origin": "http://evil.example"}),
    ("no origin of its own", 403, {"Origin": "null"}),
    ("the origin by another name", 403, {"Origin": "http://localhost:{port}"}),
    ("https", 403, {"Origin": "https://127.0.0.1:{port}"}),
    ("a wrong token beside the cookie", 401, {"Authorization": "Bearer abc"}),
    ("basic", 401, {"Authorization": f"Basic {TOKEN}"}),
    ("a token", 200, {"Authorization": f"Bearer {TOKEN}", "Cookie": None}),
    ("a token in lower case", 200, {"Authorization": f"bearer {TOKEN}", "Cookie": None}),
    ("a token of a foreign page", 403, {"Authorization": f"Bearer {TOKEN}", "Origin": "null"}),
]
WRITES: list[tuple[str, int, Mapping[str, Any]]] = [
    ("the page itself", 200, {}),
    ("a charset", 200, {"Content-Type": "application/json; charset=UTF-8"}),
    ("no origin", 403, {"Origin": None}),
    ("a foreign origin", 403, {"Origin": "http://evil.example"}),
    ("another port", 403, {"Origin": "http://127.0.0.1:1"}),
    ("another site", 403, {"Sec-Fetch-Site": "cross-site"}),
    ("a form", 415, {"Content-Type": "application/x-www-form-urlencoded"}),
    ("a form of text", 415, {"Content-Type": "text/plain"}),
    ("text that says JSON", 415, {"Content-Type": "text/plain; application/json"}),
    ("no type", 415, {"Content-Type": None}),
    ("another charset", 415, {"Content-Type": "application/json; charset=utf-7"}),
    ("no cookie", 401, {"Cookie": None}),
    ("localhost", 421, {"Host": "localhost:{port}"}),
    ("too long", 413, {"Content-Length": "1048577"}),
    ("a program", 200, {"Authorization": f"Bearer {TOKEN}", "Cookie": None, "Origin": None}),
]


def filled_in(site: Site, changes: Mapping[str, Any]) -> dict[str, Any]:
    facts = {"port": site.port, "origin": site.origin, "cookie": site.cookie}
    return {
        name.replace("-", "_"): one if one is None else one.format(**facts)
        for name, one in changes.items()
    }


@each("status, changes", [one[1:] for one in READS])
def test_a_read(page: Site, status: int, changes: Mapping[str, Any]) -> None:
    """Each header decides alone."""
    answer = request(page, **filled_in(page, changes))

    assert answer.status == status, answer
    if status != 200:
        assert b"default" not in answer.body


@each("status, changes", [one[1:] for one in WRITES])
def test_a_write(page: Site, status: int, changes: Mapping[str, Any]) -> None:
    """What is refused has changed nothing."""
    for entry in page.app.db.scope("ann").entries.list():
        if "dog" in entry.text:
            page.app.db.scope("ann").entries.delete(entry.id)
    fact = json.dumps({"text": "Ann has a dog."})
    answer = request(page, "POST", ENTRIES, fact, **filled_in(page, changes))

    assert answer.status == status, answer
    texts = [one.text for one in page.app.db.scope("ann").entries.list()]
    assert ("Ann has a dog." in texts) == (status == 200)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods(page: Site, method: str) -> None:
    """No CORS preflight is answered."""
    answer = request(page, method)

    assert answer.status in (400, 405)
    assert not any(name.startswith("access-control") for name in answer.headers)


@each(
    "path, status",
    [
        ("/api/v1/scopes", 401),
        ("/f/abcdefghij/api/v1/scopes", 410),
        ("/f/abcdefghij/", 410),
        ("{base}api/v1/nothing", 404),
        ("{base}api/v2/scopes", 404),
        ("{base}../api/v1/scopes", 404),
        ("{base}s/../index.html", 404),
        ("{base}s/%2e%2e/%2e%2e/app.py", 404),
        ("{base}%61pi/v1/scopes", 200),
        ("http://evil.example{base}api/v1/scopes", 404),
        ("/robots.txt", 404),
        ("{base}", 200),
        ("{base}conversations?user=ann", 200),
        ("/", 303),
    ],
)
def test_paths(page: Site, path: str, status: int) -> None:
    """The cookie counts below the base only."""
    assert request(page, "GET", path).status == status


@pytest.mark.parametrize(
    "path", ["", "conversations", "search", "health", "session", "api/v1/scopes"]
)
def test_without_a_credential_nothing_is_told(page: Site, path: str) -> None:
    """The shell is the same for every file, and holds no data."""
    answer = page.send("GET", page.base + path)

    assert MARK.encode() not in answer.body
    assert b"trip.db" not in answer.body
    assert answer.status == (401 if path in ("session", "api/v1/scopes") else 200)


def test_every_answer_has_the_headers(page: Site) -> None:
    """Answers of the API, of the shell, redirects and refusals alike."""
    answers = [
        request(page),
        request(page, path="{base}"),
        request(page, path="/"),
        request(page, path="/nothing"),
        request(page, Host="evil.example"),
        request(page, Cookie=None),
        request(page, path="{base}api/v1/entry?user=ann&id=1"),
        request(page, path="{base}api/v1/export?user=ann"),
    ]

    for answer in answers:
        for name, value in HEADERS.items():
            if name != "cache-control":
                assert answer.headers[name] == value
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert "server" not in answer.headers
    assert {one.headers["cache-control"] for one in answers} == {"no-store", "no-cache"}


def test_a_long_body_without_a_length(page: Site) -> None:
    """Chunks are counted as they come."""
    head = (
        f"POST {page.base}api/v1/entries?user=ann HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    assert page.raw(head.encode() + chunk * 17 + b"0\r\n\r\n").status == 413


def test_long_headers(page: Site) -> None:
    """Over 16 kB they are refused."""
    assert request(page, X_Long="a" * 20_000).status == 431


def test_the_link_works_once(page: Site) -> None:
    """The second use says where to get another link."""
    site = page
    secret = site.app.new_link().partition("#k=")[2]
    body = json.dumps({"secret": secret})
    headers = {"Origin": site.origin, "Content-Type": "application/json"}
    first = site.send("POST", f"{site.base}session", body, headers)
    second = site.send("POST", f"{site.base}session", body, headers)

    assert first.status == 204
    assert second.status == 401
    assert "Enter" in second.json["todo"]
    cookie = first.headers["set-cookie"]
    assert cookie.split("; ")[1:] == ["HttpOnly", "SameSite=Strict", f"Path={site.base}"]
    assert secret not in cookie


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ('{"secret": "wrong"}', {}, 401),
        ('{"secret": 1}', {}, 401),
        ("[]", {}, 401),
        ("{", {}, 422),
        ('{"secret": "S"}', {"Origin": "http://evil.example"}, 403),
        ('{"secret": "S"}', {"Origin": ""}, 403),
        ('{"secret": "S"}', {"Content-Type": "text/plain"}, 415),
    ],
)
def test_what_does_not_sign_in(
    page: Site, body: str, headers: Mapping[str, str], status: int
) -> None:
    """Only the secret of the link, posted by the page; a refusal does not use the link up."""
    site = page
    secret = site.app.new_link().partition("#k=")[2]
    usual = {"Origin": site.origin, "Content-Type": "application/json"}
    given = {name: one for name, one in {**usual, **headers}.items() if one}

    answer = site.send("POST", f"{site.base}session", body.replace("S", secret), given)
    assert answer.status == status
    assert "set-cookie" not in answer.headers
    again = site.send("POST", f"{site.base}session", json.dumps({"secret": secret}), usual)
    assert again.status == 204


def test_signing_out_ends_the_cookie(page: Site) -> None:
    """It works no more, whoever kept it; those of other browsers do."""
    cookie = page.sign_in()
    about = request(page, path="{base}session", Cookie=cookie).json
    assert about["file"] == page.app.name
    assert (about["read_only"], about["asks_network"]) == (False, False)
    out = request(page, "DELETE", "{base}session", Cookie=cookie)

    assert out.status == 204
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert request(page, Cookie=cookie).status == 401
    assert request(page).status == 200


def refusal_of(access: Access, secret: str) -> str:
    """Return the code that a secret is refused with."""
    with pytest.raises(Refused) as refused:
        access.exchange(secret)
    return refused.value.code


def test_a_secret_ends_after_two_minutes() -> None:
    """By a clock that nobody can set back; the newest link is the only one."""
    now_s = 1000.0
    access = Access(clock_s=lambda: now_s)
    old, new = access.new_secret(), access.new_secret()
    assert refusal_of(access, old) == "link_old"
    now_s += SECRET_S + 1

    assert refusal_of(access, new) == "link_old"
    assert refusal_of(access, "") == "sign_in"
    used = access.new_secret()
    access.exchange(used)
    assert refusal_of(access, used) == "link_used"
    assert not access.is_token("")
    assert not access.is_cookie("")


def test_cookies_are_bounded() -> None:
    """The oldest of very many ends."""
    access = Access()
    cookies = [access.exchange(access.new_secret()) for _ in range(101)]

    assert [access.is_cookie(one) for one in cookies[:2]] == [False, True]
    assert access.is_cookie(cookies[-1])
