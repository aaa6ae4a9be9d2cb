"""`memdb serve DIR`: the verbs of a file, each asked of the file of its user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from service_site import OF_A_USER, SECRET, WHOLE, Running, fill_other, ids_of, if_match, name_of
from service_site import running as served
from web_site import Clock, Ids, fill, opened

import memdb
from memdb.folder.folder import place_of
from memdb.web.folders import FOLDER_VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Their answers say when they were asked.
TIMED = ("export", "forget/preview")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]) -> tuple[Any, Any]:
    """Return what the files of ann and of bob hold."""
    folder = tmp_path_factory.mktemp("folder")

    def fill_bob(path: str) -> None:
        with opened(path) as db:
            fill_other(db, "bob")

    return make_kept(folder / "ann.db", fill), make_kept(folder / "bob.db", fill_bob)


@pytest.fixture
def memories(tmp_path: Path, two: tuple[Any, Any]) -> Path:
    """Return a folder with the files of ann and bob."""
    for user, kept in zip(("ann", "bob"), two, strict=True):
        path = tmp_path / "memories" / place_of(user)
        os.makedirs(path.parent)
        kept.put(path)
    return tmp_path / "memories"


@pytest.fixture
def folder(memories: Path, tmp_path: Path) -> Iterator[Running]:
    """Return a served folder that keeps one file open."""
    given: dict[str, Any] = {"clock": Clock(1_000_000), "ids": Ids(1000), "durability": "process"}
    with (
        memdb.open_folder(memories, max_open=1, **given) as found,
        served(found, tmp_path / "tokens.json") as site,
    ):
        yield site


@pytest.fixture
def alone(tmp_path: Path, two: tuple[Any, Any]) -> Iterator[Running]:
    """Return the file of ann, served as a file."""
    two[0].put(tmp_path / "alone.db")
    with opened(tmp_path / "alone.db") as db, served(db, tmp_path / "alone.json") as site:
        yield site


def test_every_verb_of_a_user_answers_as_of_a_file(
    folder: Running, alone: Running, memories: Path
) -> None:
    """With a token of ann: the same answers, not a byte of bob's, and bob's file stays."""
    here, there = folder.client("ann"), alone.client("ann")
    with memdb.open(memories / place_of("bob"), mode="read") as db:
        before = [*db.export_lines()]
    for verb in [
        *(one for one in OF_A_USER if not one.writes),
        *(v for v in OF_A_USER if v.writes),
    ]:
        given = {"user": None, **ids_of(verb, here)}
        answer = here.ask(verb, given, if_match(verb))
        expected = there.ask(verb, given, if_match(verb))
        assert SECRET.encode() not in answer.body, name_of(verb)
        assert answer.status == expected.status, (name_of(verb), answer.body, expected.body)
        assert ("etag" in answer.headers) == ("etag" in expected.headers), name_of(verb)
        if not verb.writes and verb.noun not in TIMED:
            assert answer.body == expected.body, name_of(verb)
    with memdb.open(memories / place_of("bob"), mode="read") as db:
        assert [*db.export_lines()] == before


def test_another_user_is_refused(folder: Running) -> None:
    """By every verb, before a file is looked at; what is about the folder needs another token."""
    client = folder.client("ann", shared=True)
    for verb in OF_A_USER:
        for named in ({"user": "bob"}, {"user": ""}, {"user": "new"}):
            answer = client.ask(verb, named, if_match(verb))
            assert (answer.status, answer.json["code"]) == (403, "other_user"), name_of(verb)
    for verb in (*WHOLE, *FOLDER_VERBS[:-1]):
        answer = client.ask(verb, {"user": "ann"} if verb in WHOLE else {})
        assert (answer.status, answer.json["code"]) == (403, "whole_memory"), name_of(verb)


def test_what_is_about_a_file_names_its_user(folder: Running, alone: Running) -> None:
    """With a token for everything; without a user, or of one without a file, it is refused."""
    here, there = folder.client(None), alone.client(None)
    for verb in WHOLE:
        path = f"/api/v1/{verb.noun}?user="
        body = {name: value for name, value in verb.example.items() if verb.method != "GET"}
        answer = here.send(verb.method, f"{path}ann", body)
        expected = there.send(verb.method, f"/api/v1/{verb.noun}", body)
        assert answer.status == expected.status, (name_of(verb), answer.body)
        assert here.send(verb.method, path[:-6], body).status == 422, name_of(verb)
        assert here.send(verb.method, f"{path}new", body).status == 404, name_of(verb)


def test_users_of_a_folder(folder: Running, memories: Path) -> None:
    """They are listed and deleted; who has no file reads nothing and makes none by that."""
    here = folder.client(None)
    new = folder.client("new")

    assert here.send("GET", "/api/v1/users").json["items"] == ["ann", "bob"]
    assert here.send("GET", "/api/v1/users?limit=1&after=ann").json["items"] == ["bob"]
    assert new.send("GET", "/api/v1/recall?query=Oslo").json["hits"] == []
    assert here.send("GET", "/api/v1/folder").json["users"] == 2
    body = {"role": "user", "text": "We sail to Bergen."}
    assert new.send("POST", "/api/v1/message?session=trip", body).status == 200
    assert here.send("GET", "/api/v1/folder").json["users"] == 3
    assert here.send("POST", "/api/v1/folder/work").json["value"] > 0
    assert here.send("DELETE", "/api/v1/users?user=bob").json["value"] is True
    assert here.send("DELETE", "/api/v1/users?user=bob").json["value"] is False
    assert not os.path.exists(memories / place_of("bob"))
    assert folder.client("ann").send("DELETE", "/api/v1/users?user=new").status == 403
    body = {"text": "Lunch is at noon.", "shared": True}
    answer = folder.client("ann", shared=True).send("POST", "/api/v1/entries", body)
    assert (answer.status, answer.json["code"]) == (501, "unsupported")
    assert here.send("POST", "/api/v1/entries?user=", {"text": "Lunch is at noon."}).status == 200
    assert folder.client("ann").send("GET", "/ready").status == 200


def test_an_answer_in_pieces_keeps_its_file_open(folder: Running) -> None:
    """An export is whole though other files are asked for meanwhile."""
    ann, bob = folder.client("ann"), folder.client("bob")
    export = ann.send("GET", "/api/v1/export")
    for _ in range(3):
        bob.send("GET", "/api/v1/sessions")
        assert ann.send("GET", "/api/v1/export").body == export.body
    assert export.body.decode().splitlines()[-1].startswith('{"kind": "end", "complete": true')
