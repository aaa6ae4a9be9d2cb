"""`memdb serve`: a token is bound to one user, and nothing else is to be seen with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from service_site import (
    NOW_MS,
    OF_A_USER,
    SECRET,
    WHOLE,
    Running,
    fill_other,
    ids_of,
    if_match,
    name_of,
    running,
)
from web_site import fill, opened

import memdb
from memdb.api.verbs import VERBS
from memdb.cli import cli
from memdb.errors import FileError, NotFound
from memdb.web import tokens as token_file
from memdb.web.parameters import parameters_of
from memdb.web.tokens import TokenFile, add_grant, hash_of, read_grants, remove_grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]) -> tuple[Any, Any]:
    """Return what a database holds in which ann is alone, and one with others."""
    folder = tmp_path_factory.mktemp("serve")

    def fill_all(path: str) -> None:
        fill(path)
        with opened(path) as db:
            fill_other(db, "bob")
            fill_other(db, "ann", "other app")

    return make_kept(folder / "alone.db", fill), make_kept(folder / "beside.db", fill_all)


@pytest.fixture
def beside(tmp_path: Path, two: tuple[Any, Any]) -> Iterator[Running]:
    """Return a served file with ann and others."""
    two[1].put(tmp_path / "beside.db")
    with (
        opened(tmp_path / "beside.db") as db,
        running(db, tmp_path / "tokens.json") as found,
    ):
        yield found


@pytest.fixture
def alone(tmp_path: Path, two: tuple[Any, Any]) -> Iterator[Running]:
    """Return a served file with ann only."""
    two[0].put(tmp_path / "alone.db")
    with (
        opened(tmp_path / "alone.db") as db,
        running(db, tmp_path / "alone.json") as found,
    ):
        yield found


def test_no_verb_of_a_user_names_another_one() -> None:
    """Whose memory it is stands in the query alone, where the token is compared with it."""
    for verb in OF_A_USER:
        named = [one for one in parameters_of(verb) if one.name in ("user", "app")]
        assert [(one.name, one.place) for one in named] == [("user", "query"), ("app", "query")]
        others = {one.argument for one in parameters_of(verb)} & {"scope", "owner", "to_user"}
        assert others == set()
    assert len(OF_A_USER) > 50
    assert len(WHOLE) > 10


def test_a_token_of_a_user_sees_no_other(beside: Running, alone: Running) -> None:
    """Every verb answers as in a file in which the user is alone."""
    here, there = beside.client("ann"), alone.client("ann")
    for verb in OF_A_USER:
        if verb.writes:
            continue
        answer = here.ask(verb, {"user": None, **ids_of(verb, here)})
        assert SECRET.encode() not in answer.body, name_of(verb)
        expected = there.ask(verb, {"user": None, **ids_of(verb, there)})
        assert answer.status == expected.status, (name_of(verb), answer.body)
        assert answer.status < 500, (name_of(verb), answer.body)


def test_a_token_of_a_user_changes_no_other(
    beside: Running, tmp_path: Path, two: tuple[Any, Any]
) -> None:
    """Every verb that writes, with what another user has too."""
    client = beside.client("ann")
    with memdb.open(tmp_path / "beside.db", embedder=None) as db:
        before = [*db.export_lines(user="bob"), *db.export_lines(user="ann", app="other app")]
    wrote = 0
    for verb in OF_A_USER:
        if verb.writes:
            answer = client.ask(verb, {"user": None, **ids_of(verb, client)}, if_match(verb))
            assert SECRET.encode() not in answer.body, name_of(verb)
            assert answer.status < 500, (name_of(verb), answer.body)
            wrote += answer.status < 300
    assert wrote > 25
    with memdb.open(tmp_path / "beside.db", embedder=None) as db:
        after = [*db.export_lines(user="bob"), *db.export_lines(user="ann", app="other app")]
    assert after == before


@pytest.mark.parametrize(
    "named", [{"user": "bob"}, {"user": ""}, {"user": "ann", "app": "other app"}]
)
def test_another_user_or_app_is_refused(beside: Running, named: dict[str, str]) -> None:
    """By every verb, before anything is read."""
    client = beside.client("ann")
    for verb in OF_A_USER:
        answer = client.ask(verb, named, if_match(verb))
        assert (answer.status, answer.json["code"]) == (403, "other_user"), name_of(verb)


def test_the_user_given_twice_is_refused(beside: Running) -> None:
    """The second value counts as much as the first."""
    client = beside.client("ann")
    for query in ("user=ann&user=bob", "user=bob&user=ann", "user=ann&app=default&app=x"):
        assert client.send("GET", f"/api/v1/sessions?{query}").status == 403
    assert client.send("GET", "/api/v1/sessions?user=ann&user=ann").status == 200
    assert client.send("GET", "/api/v1/sessions?user=%ff").status == 422
    assert client.send("POST", "/api/v1/entries", {"text": "x", "user": "bob"}).status == 422


def test_what_is_about_all_needs_a_token_for_all(beside: Running) -> None:
    """A token of a user gets none of it; one for everything all of it."""
    client, owner = beside.client("ann"), beside.client(None)
    for verb in WHOLE:
        answer = client.ask(verb, {})
        assert (answer.status, answer.json["code"]) == (403, "whole_memory"), name_of(verb)
    assert owner.send("GET", "/api/v1/scopes").status == 200
    assert SECRET.encode() in owner.send("GET", "/api/v1/sessions?user=bob").body


def test_a_user_fetches_the_own_memory(beside: Running, tmp_path: Path) -> None:
    """What `export` writes for that user and app, and nothing of the file or of others."""
    with memdb.open(tmp_path / "beside.db", embedder=None) as db:
        db.settings.update(entry_quota=500)
        expected = [json.loads(line) for line in db.export_lines(user="ann")]
    for more in ("", "?user=ann", "?app=default&embeddings=true"):
        answer = beside.client("ann").send("GET", f"/api/v1/export{more}")
        *lines, end = (json.loads(line) for line in answer.body.splitlines())
        assert (answer.status, answer.headers["content-type"]) == (200, "application/jsonl")
        assert lines == expected
        assert end == {"kind": "end", "complete": True, "lines": len(lines)}
    assert all(line["kind"] != "settings" for line in expected)
    assert SECRET not in str(expected)


def test_the_document_tells_of_this_server(beside: Running) -> None:
    """Not of the page: there is no cookie, and it need not be on this computer."""
    found = beside.client("ann").send("GET", "/api/v1/openapi.json").json
    about = found["info"]["description"]

    assert "`memdb serve`" in about
    assert not {"loopback", "web"} & {*about.replace("`", " ").split()}
    assert [*found["components"]["securitySchemes"]] == ["token"]
    assert found["security"] == [{"token": []}]


def test_what_the_document_requires_is_what_a_token_needs(beside: Running) -> None:
    """A user's own name is known; all else that is marked so is asked for."""
    client = beside.client("ann")
    paths = client.send("GET", "/api/v1/openapi.json").json["paths"]
    asked = {path: one["get"]["parameters"] for path, one in paths.items() if "get" in one}
    bare = {
        path: client.send("GET", path)
        for path, every in asked.items()
        if "user" in {one["name"] for one in every}
    }

    assert len(bare) > 20
    for path, answer in bare.items():
        needed = {one["name"] for one in asked[path] if one["required"]}
        assert (answer.status == 422) == bool(needed), path
        assert not needed or answer.json["field"] in needed, path


def test_without_a_token_nothing_is_served(beside: Running) -> None:
    """But that the process and the database answer."""
    client = beside.client("ann")
    paths = [f"/api/v1/{verb.noun}" for verb in VERBS]
    for path in [*paths, "/api/v1/openapi.json", "/", "/s/app.js", "/session", "/api/v1/events"]:
        for headers in (
            {"Authorization": ""},
            {"Authorization": f"Basic {client.token}"},
            {"Authorization": "Bearer "},
            {"Authorization": f"Bearer {client.token[:-1]}"},
            {"Authorization": f"Bearer {hash_of(client.token)}"},
        ):
            answer = client.send("GET", path, headers=headers)
            assert (answer.status, answer.json["code"]) == (401, "token"), path
    for path in ("/health", "/ready"):
        assert client.send("GET", path, headers={"Authorization": ""}).json == {"ok": True}
    assert client.send("POST", "/health", headers={"Authorization": ""}).status == 401
    assert client.send("GET", "/api/v1/nothing").status == 404
    assert client.send("GET", "/read?user=bob&session=trip").status == 404


@pytest.mark.parametrize("kind", ["application/json", "text/plain", ""])
def test_a_method_that_a_path_does_not_take_is_405(beside: Running, kind: str) -> None:
    """With those that it takes, whatever the body is."""
    client = beside.client("ann")
    takes: dict[str, set[str]] = {}
    for verb in VERBS:
        takes.setdefault(verb.noun, set()).add(verb.method)
    takes["openapi.json"] = {"GET"}
    for noun, methods in takes.items():
        for method in {"POST", "PUT", "PATCH", "DELETE"} - methods:
            answer = client.send(method, f"/api/v1/{noun}", headers={"Content-Type": kind})
            allowed = {*answer.headers["allow"].replace(" ", "").split(",")} - {"HEAD"}
            assert (answer.status, allowed) == (405, methods), (method, noun)
    answer = client.send("POST", "/api/v1/entries", headers={"Content-Type": "text/plain"})
    assert answer.status == 415


def test_an_idempotency_key_of_another_user_is_another(beside: Running) -> None:
    """Who guesses it gets neither the answer nor that there is one."""
    ann, bob = beside.client("ann"), beside.client("bob")
    key = {"Idempotency-Key": "k1"}
    first = ann.send("POST", "/api/v1/entries", {"text": "Ann sails."}, key)
    again = ann.send("POST", "/api/v1/entries", {"text": "Ann sails."}, key)
    other = bob.send("POST", "/api/v1/entries", {"text": "Bob swims."}, key)

    assert (first.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert other.status == 200
    assert "idempotency-replayed" not in other.headers


def test_a_page_of_another_user_does_not_go_on(beside: Running) -> None:
    """A cursor is bound to the user of its list."""
    ann, bob = beside.client("ann"), beside.client("bob")
    after = bob.send("GET", "/api/v1/messages?session=trip&limit=2").json["next"]
    answer = ann.send("GET", f"/api/v1/messages?session=trip&limit=2&after={after}")

    assert answer.status == 422
    assert SECRET.encode() not in answer.body


def test_a_removed_token_ends_at_once(beside: Running) -> None:
    """And a new one works at once, without a restart."""
    client = beside.client("ann")
    assert client.send("GET", "/api/v1/sessions").status == 200
    grant = next(one for one in read_grants(beside.tokens) if one.sha256 == hash_of(client.token))
    remove_grant(beside.tokens, grant.id)
    assert client.send("GET", "/api/v1/sessions").status == 401
    assert beside.client("ann").send("GET", "/api/v1/sessions").status == 200


def test_for_reading_only(tmp_path: Path, two: tuple[Any, Any]) -> None:
    """No verb that writes is there."""
    two[1].put(tmp_path / "reading.db")
    with (
        opened(tmp_path / "reading.db") as db,
        running(db, tmp_path / "tokens.json", read_only=True) as found,
    ):
        client = found.client("ann")
        for verb in OF_A_USER:
            if verb.writes:
                assert client.ask(verb, {"user": None}).status in (404, 405), name_of(verb)


def test_a_token_file_holds_no_token(tmp_path: Path) -> None:
    """Only its hash; nobody else may read or write it."""
    path = tmp_path / "tokens.json"
    token, grant = add_grant(str(path), "ann", "default", NOW_MS)

    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_grants(str(path)) == [grant]
    with pytest.raises(NotFound):
        remove_grant(str(path), "nothing")


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "{}",
        '{"id": 1}',
        "[]",
        '{"id":"a","user":"x","app":null,"sha256":"","created_ms":1}',
    ],
)
def test_a_token_file_that_is_none(tmp_path: Path, text: str) -> None:
    """A server does not start with it."""
    path = tmp_path / "tokens.json"
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    with pytest.raises(FileError):
        TokenFile(str(path))
    path.write_text("")
    path.chmod(0o622)
    with pytest.raises(FileError, match="chmod 600"):
        TokenFile(str(path))
    with pytest.raises(FileError, match="memdb token add"):
        TokenFile(str(tmp_path / "absent"))


def test_the_command_makes_lists_and_removes_tokens(tmp_path: Path) -> None:
    """The token is shown once."""
    path = str(tmp_path / "tokens.json")
    run = CliRunner().invoke
    made = json.loads(run(cli, ["token", "add", path, "--user", "ann", "--json"]).stdout)
    everything = run(cli, ["token", "add", path, "--everything"])
    listed = run(cli, ["token", "list", path])
    assert made["token"] not in listed.output
    assert "ann" in listed.output
    assert everything.stdout.strip() not in listed.output
    assert run(cli, ["token", "add", path]).exit_code == 2
    assert run(cli, ["token", "remove", path, made["id"]]).exit_code == 0
    assert run(cli, ["token", "remove", path, made["id"]]).exit_code == 3
    assert [one.user for one in read_grants(path)] == [None]


@pytest.mark.parametrize(
    "options",
    [["--host", "0.0.0.0"], ["--tls-cert", "x"], ["--tls-key", "x"]],
)
def test_no_token_in_the_clear(tmp_path: Path, options: list[str]) -> None:
    """Another host than this one needs TLS, or a word that something else has it."""
    path = str(tmp_path / "tokens.json")
    add_grant(path, "ann", "default", NOW_MS)
    done = CliRunner().invoke(cli, ["serve", str(tmp_path / "a.db"), "--tokens", path, *options])
    assert done.exit_code == 2
    assert not (tmp_path / "a.db").exists()


@contextmanager
def process(*options: str, environment: dict[str, str] | None = None) -> Iterator[Any]:
    """Start `memdb serve` in a process of its own; yield it and its port."""
    child = subprocess.Popen(
        [sys.executable, "-m", "memdb", "serve", "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        assert child.stderr is not None
        line = child.stderr.readline()
        assert line.startswith("Serving"), line + child.stderr.read()
        yield child, int(line.rsplit(":", 1)[1].split("/")[0]), line
    finally:
        child.kill()
        child.communicate()


def test_sigterm_lets_what_runs_end(tmp_path: Path, address_of: Callable[[str], str]) -> None:
    """A request in progress is answered, then the process ends; its file is closed."""
    tokens, path = str(tmp_path / "tokens.json"), address_of(str(tmp_path / "a.db"))
    token, _ = add_grant(tokens, "ann", "default", NOW_MS)
    variables = {"MEMDB_FILE": path, "MEMDB_EMBEDDER": "none"}
    with process("--tokens", tokens, environment=variables) as (child, port, _):
        body = json.dumps({"text": "Ann sails."})
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            head = (
                f"POST /api/v1/entries HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n"
            )
            connection.sendall(head.encode() + body[:5].encode())
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
            child.send_signal(signal.SIGTERM)
            connection.sendall(body[5:].encode())
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert child.wait(30) in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
    with memdb.open(path, embedder=None) as db:
        assert [one.text for one in db.scope("ann").entries.list()] == ["Ann sails."]


def test_tls(tmp_path: Path) -> None:
    """With a certificate the same API answers over TLS only."""
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl is not installed")
    tokens = str(tmp_path / "tokens.json")
    token, _ = add_grant(tokens, "ann", "default", NOW_MS)
    options = ("--tokens", tokens, "--tls-cert", cert, "--tls-key", key)
    with process(str(tmp_path / "a.db"), *options, environment={"MEMDB_EMBEDDER": "none"}) as (
        _,
        port,
        line,
    ):
        assert "https://" in line
        context = ssl.create_default_context(cafile=cert)
        connection = HTTPSConnection("localhost", port, context=context, timeout=30)
        connection.request("GET", "/api/v1/sessions", headers={"Authorization": f"Bearer {token}"})
        assert connection.getresponse().status == 200
        connection.close()


def test_an_address_is_shown_without_its_password(tmp_path: Path) -> None:
    """Neither in an error nor in what a command prints."""
    tokens = str(tmp_path / "tokens.json")
    add_grant(tokens, "ann", "default", NOW_MS)
    address = "postgresql://memdb:hunter2qzx@127.0.0.1:1/team?password=hunter3qzx"
    for arguments in (["serve", "--tokens", tokens], ["info"], ["info", "extra"], ["recall"]):
        done = CliRunner().invoke(cli, arguments, env={"MEMDB_URL": address, "MEMDB_FILE": ""})
        assert done.exit_code != 0
        assert "hunter" not in done.output + str(done.exception)


def test_the_fields_of_the_file_are_those_of_a_grant() -> None:
    """A field that is added to one is added to the other."""
    assert set(token_file.FIELDS) == set(token_file.Grant.__match_args__)
