"""What a token of one user writes stays in the scope of that user, whatever it gives."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from service_site import OF_A_USER, SECRET, fill_other, if_match, name_of, running
from web_site import fill, opened

from memdb.models.settings import Category
from memdb.web.parameters import parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service_site import Client, Running

    from memdb.api.database import MemDB
    from memdb.api.verbs import Verb
    from memdb.web.parameters import Parameter

OFFICE = "The office is in Oslo."
SHARED_CATEGORY = "news"
# Parameters that let a call write for all users of an app.
FLAGGED = {(name_of(verb), name) for verb in OF_A_USER for name in verb.leaves}
WORDS = ("", "app:place", "user:place", "../ann", "trip", "home", "office", OFFICE, SHARED_CATEGORY)
VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "null": (None,),
    "number": (0.5, 90.0),
    "object": (
        {},
        {"app:place": "Bergen"},
        {"user": "ann", "app": "default", "shared": True},
        {"role": "user", "text": "We sail to Oslo."},
    ),
}


@contextmanager
def three_users(folder: Path) -> Iterator[tuple[MemDB, Running]]:
    """Serve a file with ann, bob, an ann of another app, and what all of the app share."""
    path = folder / "a.db"
    fill(path)
    with opened(path) as db:
        fill_other(db, "bob")
        fill_other(db, "ann", "other app")
        shared = db.shared()
        shared.remember(OFFICE, key="office")
        shared.items.put(("notes",), "k1", {"text": "Lock the door."})
        db.shared("default").state.update(place="Oslo")
        news = Category(SHARED_CATEGORY, shared=True)
        db.settings.update(categories=[*db.settings.categories(), news])
        db.jobs.run()
        with running(db, folder / "tokens.json") as found:
            yield db, found


def rows_of_others(db: MemDB) -> list[str]:
    """Return all of the file but what is bob's."""
    found: list[str] = []
    is_bob = False
    for text in db.export_lines():
        line = json.loads(text)
        if line["kind"] == "scope":
            is_bob = line["user"] == "bob"
        if not is_bob:
            found.append(text)
    return found


def values_of(parameter: Parameter, ids: list[int]) -> list[Any]:
    """Return values of a parameter: some of each type that it takes, and all real ids."""
    found: list[Any] = []
    for schema in parameter.schema.get("anyOf", [parameter.schema]):
        kind = schema.get("type", "object")
        if kind == "string":
            found += schema.get("enum", WORDS)
        elif kind == "integer":
            found += [0, 1, *ids]
        elif kind == "array":
            found += [[], ["app:place"], ["user", "ann"], ids]
        else:
            found += VALUES[kind]
    return found


def calls_of(verb: Verb, ids: list[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield calls of a verb: the example, and with each parameter in turn something else."""
    own: dict[str, Any] = {"user": None}
    new = {"sessions": "session", "branches": "name", "fork": "name"}.get(verb.noun)
    if "id" in verb.example and isinstance(verb.example["id"], int):
        own["id"] = ids[0]
    yield "", own
    for number, parameter in enumerate(parameters_of(verb)):
        if parameter.name in ("user", "app"):
            continue
        for value in values_of(parameter, ids):
            more = {**own, parameter.name: value}
            if new is not None and verb.creates and parameter.name != new:
                more[new] = f"new {number} {value}"[:60]
            if parameter.name in ("key", "text", "category", "shared"):  # what is known there
                yield parameter.name, {**more, "key": "office", parameter.name: value}
            yield parameter.name, more


def ids_of_entries(db: MemDB) -> list[int]:
    """Return ids of entries: of bob, of all of the app, of ann, of the ann of another app."""
    scopes = [db.scope("bob"), db.shared(), db.scope("ann"), db.scope("ann", "other app")]
    return [scope.entries.list(inactive=True)[0].id for scope in scopes]


def walk(db: MemDB, client: Client) -> tuple[dict[str, int], set[tuple[str, str]], list[str]]:
    """
    Ask every verb with every parameter; return a count of answers by kind, and what leaves.

    The latter are the verbs and parameters that changed a row of others, and the answers
    that show one.
    """
    counts: dict[str, int] = {}
    leaving: set[tuple[str, str]] = set()
    shown: list[str] = []
    ids = ids_of_entries(db)
    before = rows_of_others(db)
    for verb in OF_A_USER:
        place = {one.name: one.place for one in parameters_of(verb)}
        for name, more in calls_of(verb, ids):
            known = {key: value for key, value in more.items() if key in place}
            answer = client.ask(verb, known, if_match(verb))
            code = answer.json["code"] if answer.status == 403 else f"{answer.status // 100}xx"
            counts[code] = counts.get(code, 0) + 1
            if b"Miso" in answer.body or b"map.svg" in answer.body:
                shown.append(f"{name_of(verb)} {known}")
            if verb.writes and answer.status < 300:
                after = rows_of_others(db)
                if after != before:
                    leaving.add((name_of(verb), name))
                before = after
    return counts, leaving, shown


@pytest.mark.slow  # 20 s
def test_nothing_that_a_token_gives_leaves_its_scope(tmp_path: Path) -> None:
    """Each verb with each parameter, 1,072 requests and more: no row of others changes."""
    with three_users(tmp_path) as (db, service):
        counts, leaving, shown = walk(db, service.client("bob"))

    assert leaving == set()
    assert shown == []
    assert "5xx" not in counts
    assert sum(counts.values()) > 1_072
    assert counts["2xx"] > 300, counts
    assert counts["shared"] >= len(FLAGGED), counts


@pytest.mark.slow  # 20 s
def test_every_flag_is_of_a_parameter_that_leaves(tmp_path: Path) -> None:
    """A token with --shared writes for all by these parameters; the walk so sees a leak."""
    with three_users(tmp_path) as (db, service):
        client = service.client("bob", shared=True)
        counts, leaving, _ = walk(db, client)

    assert leaving >= FLAGGED
    assert leaving - FLAGGED == {("POST entries", "category")}  # of a category that is shared
    assert "5xx" not in counts


def test_the_refusal_says_what_to_do(tmp_path: Path) -> None:
    """The error names the parameter and the token that is needed; nothing is stored."""
    fact = {"text": f"All users must pay {SECRET}.", "shared": True}
    with three_users(tmp_path) as (db, service):
        bob, ann = service.client("bob"), service.client("ann")
        answer = bob.send("POST", "/api/v1/entries", fact)
        kept = bob.send("POST", "/api/v1/entries", {"text": "We won.", "category": "news"})
        hits = ann.send("GET", "/api/v1/recall?query=who+must+pay&min_score=0").json["hits"]
        owner = service.client(None).send("POST", "/api/v1/entries?user=bob", fact)

        assert db.scope("bob").entries.get(kept.json["entry"]["id"]).text == "We won."
        assert [one.text for one in db.shared().entries.list(category="news")] == []
        assert db.shared("default").state["place"] == "Oslo"
    assert (answer.status, answer.json["code"]) == (403, "shared")
    assert answer.json["detail"].startswith("shared writes for all users")
    assert "--shared" in answer.json["todo"]
    assert SECRET not in str(hits)
    assert owner.status == 200
