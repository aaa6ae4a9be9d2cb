"""Every row of the table: called from its example over HTTP, equal to the Python call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from web_site import PIXEL, Site, opened

from memdb.api.verbs import VERBS, Verb
from memdb.models.record import plain
from memdb.web.parameters import parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.api.session import Session


def ann(db: MemDB) -> Scope:
    return db.scope("ann")


def trip(db: MemDB) -> Session:
    return db.scope("ann").session("trip")


def first_entry(db: MemDB) -> int:
    return min(entry.id for entry in ann(db).entries.list())


def second_entry(db: MemDB) -> int:
    return max(entry.id for entry in ann(db).entries.list())


def summary(db: MemDB) -> str:
    return trip(db).summaries.list()[0].id


def new_session(db: MemDB) -> Any:
    return ann(db).session("new").create(title="New")


def import_text(db: MemDB, name: str, text: str) -> Any:
    path = Path(db.path).parent / "import" / name
    path.parent.mkdir()
    path.write_text(text)
    return db.import_file(path, user="ann")


def new_branch(db: MemDB) -> Any:
    trip(db).branch("rail", 1)
    return trip(db).branches()[0]


# What each row does, written with the Python API by hand.
PYTHON: dict[str, Callable[[MemDB], Any]] = {
    "GET file": lambda db: db.file.info(),
    "GET check": lambda db: db.file.check(deep=True),
    "POST rebuild": lambda db: db.file.rebuild(),
    "POST vacuum": lambda db: db.file.vacuum(),
    "GET backup": lambda db: b"SQLite format 3\x00",
    "GET stats": lambda db: db.stats(),
    "GET scopes": lambda db: [{"app": one.app, "user": one.user} for one in db.scopes()],
    "GET changes": lambda db: db.changes(),
    "POST query": lambda db: db.query("SELECT 1 AS one"),
    "GET export": lambda db: list(db.export_lines(user="ann")),
    "POST upload": lambda db: 2,
    "POST import": lambda db: import_text(db, "tea.md", "Tea is green.\n"),
    "GET settings": lambda db: db.settings.get(),
    "PATCH settings": lambda db: db.settings.update(entry_quota=500),
    "GET prompts": lambda db: db.settings.prompts(),
    "GET categories": lambda db: db.settings.categories(),
    "GET jobs": lambda db: db.jobs.pending(),
    "POST jobs": lambda db: db.jobs.run(),
    "GET sessions": lambda db: ann(db).sessions(),
    "POST sessions": new_session,
    "GET session": lambda db: trip(db).head(),
    "PATCH session": lambda db: trip(db).update(title="Oslo in May"),
    "GET messages": lambda db: list(trip(db).messages()),
    "POST messages": lambda db: trip(db).extend([{"role": "user", "text": "Two nights."}]),
    "GET message": lambda db: trip(db).get(1),
    "POST message": lambda db: trip(db).append("user", "We fly on 3 May."),
    "PATCH message": lambda db: trip(db).edit(1, {"role": "user", "text": "We sail to Oslo."}),
    "GET message/bytes": lambda db: PIXEL,
    "GET context": lambda db: trip(db).context(2000, "Oslo?"),
    "GET context/given": lambda db: trip(db).given(13),
    "GET context/sent": lambda db: trip(db).context(2000).to("openai"),
    "GET branches": lambda db: trip(db).branches(),
    "POST branches": new_branch,
    "POST fork": lambda db: trip(db).fork("copy").head(),
    "POST extract": lambda db: trip(db).extract(),
    "POST archive": lambda db: trip(db).archive(),
    "POST unarchive": lambda db: trip(db).unarchive(),
    "GET tree": lambda db: trip(db).summaries.tree(),
    "GET summaries": lambda db: trip(db).summaries.list(),
    "GET expand": lambda db: trip(db).summaries.expand("1-2"),
    "PATCH summary": lambda db: trip(db).summaries.rewrite(summary(db), "Ann plans a trip."),
    "DELETE summary": lambda db: trip(db).summaries.delete(summary(db)),
    "POST compact": lambda db: trip(db).summaries.compact(),
    "GET recall": lambda db: ann(db).recall("Oslo"),
    "GET why": lambda db: ann(db).why("Oslo", "trip", 1),
    "GET counts": lambda db: ann(db).counts(),
    "GET profile": lambda db: ann(db).profile(500),
    "GET secrets": lambda db: list(ann(db).find_secrets()),
    "POST delete": lambda db: ann(db).delete(session="old"),
    "POST forget/preview": lambda db: ann(db).forget(session="old", dry_run=True),
    "POST undo": lambda db: ann(db).undo(writer="mail", dry_run=True),
    "POST forget": lambda db: ann(db).forget(session="old"),
    "POST session/forget": lambda db: trip(db).forget(last=2),
    "GET entries": lambda db: list(ann(db).entries.list()),
    "POST entries": lambda db: ann(db).remember("Ann has a dog."),
    "GET entry": lambda db: ann(db).entries.get(first_entry(db)),
    "GET entry/find": lambda db: ann(db).entries.find("home"),
    "PATCH entry": lambda db: ann(db).entries.update(first_entry(db), importance=8),
    "DELETE entry": lambda db: ann(db).entries.delete(first_entry(db)),
    "POST entry/revert": lambda db: ann(db).entries.revert(first_entry(db), 1),
    "POST entry/supersede": lambda db: ann(db).entries.supersede(first_entry(db), second_entry(db)),
    "GET entry/history": lambda db: ann(db).entries.history(first_entry(db)),
    "GET entry/replaced": lambda db: ann(db).entries.replaced(first_entry(db)),
    "GET entry/links": lambda db: ann(db).entries.links(first_entry(db)),
    "POST entry/unlink": lambda db: ann(db).entries.unlink(second_entry(db), first_entry(db)),
    "GET artifacts": lambda db: ann(db).artifacts.list(),
    "GET artifact": lambda db: trip(db).artifacts.versions("plan.md")[0],
    "GET artifact/bytes": lambda db: trip(db).artifacts.load("plan.md").data,
    "GET artifact/versions": lambda db: trip(db).artifacts.versions("plan.md"),
    "GET artifact/diff": lambda db: trip(db).artifacts.diff("plan.md", against=1),
    "PUT artifact": lambda db: trip(db).artifacts.save("plan.md", "Day 1: Oslo"),
    "POST artifact/rename": lambda db: trip(db).artifacts.rename("plan.md", "route.md"),
    "DELETE artifact": lambda db: trip(db).artifacts.delete("plan.md"),
    "GET items": lambda db: ann(db).items.list(),
    "GET item": lambda db: ann(db).items.get(("notes",), "k1"),
    "PUT item": lambda db: ann(db).items.put(("notes",), "k1", {"text": "Pack."}),
    "DELETE item": lambda db: ann(db).items.delete(("notes",), "k1"),
    "GET namespaces": lambda db: ann(db).items.namespaces(),
    "GET state": lambda db: trip(db).state.all(),
    "GET state/value": lambda db: trip(db).state.find("city"),
    "PUT state/value": lambda db: trip(db).state.put("city", "Bergen"),
    "DELETE state/value": lambda db: trip(db).state.delete("city"),
}
# Fields that differ between two files, or between two calls.
PASSING = {"path", "calls", "size_bytes", "wal_bytes", "bytes_per_store", "wal_readers", "upkeep"}


def name_of(verb: Verb) -> str:
    return f"{verb.method} {verb.noun}"


def as_json(value: Any) -> Any:
    """Return what a Python call returned, as the API answers it."""
    if isinstance(value, (list, tuple)):
        return {"items": [plain(one) for one in value], "next": None, "complete": True}
    found = plain(value)
    return found if isinstance(found, dict) else {"value": found}


def lasting(value: Any) -> Any:
    """Return JSON without what passes."""
    if isinstance(value, dict):
        return {name: lasting(one) for name, one in value.items() if name not in PASSING}
    return [lasting(one) for one in value] if isinstance(value, list) else value


def call(site: Site, verb: Verb, **changes: Any) -> Any:
    """Send the example of a row."""
    given = {**verb.example, **changes}
    places = {one.name: one.place for one in parameters_of(verb)}
    query = {name: one for name, one in given.items() if places[name] == "query"}
    query = {
        name: str(one).lower() if isinstance(one, bool) else one for name, one in query.items()
    }
    fields = {name: one for name, one in given.items() if places[name] == "body"}
    headers = {"If_Match": "*"} if verb.swaps else {}
    return site.ask(
        verb.method, verb.noun, query, fields if verb.method != "GET" else None, **headers
    )


def changes_of(verb: Verb, db: MemDB) -> dict[str, Any]:
    """Return the ids that the example of a row has in this file."""
    found: dict[str, Any] = {}
    if verb.noun.startswith("entry") and "id" in verb.example:
        found["id"] = first_entry(db)
    if verb.noun == "summary":
        found["id"] = summary(db)
    if "older_id" in verb.example:
        found |= {"id": second_entry(db), "older_id": first_entry(db)}
    if "new_id" in verb.example:
        found["new_id"] = second_entry(db)
    return found


def compare(site: Site, verb: Verb, twin: MemDB) -> None:
    """Do the same over HTTP and with the Python API, and compare."""
    changes = changes_of(verb, twin)
    expected = PYTHON[name_of(verb)](twin)
    answer = call(site, verb, **changes)

    assert answer.status == 200, answer.body
    if isinstance(expected, bytes):
        assert answer.body.startswith(expected)
    elif answer.headers["content-type"] == "application/jsonl":
        *lines, end = answer.body.decode().splitlines()
        assert json.loads(end) == {"kind": "end", "complete": True, "lines": len(lines)}
        assert lines == expected
    else:
        assert lasting(answer.json) == lasting(json.loads(json.dumps(as_json(expected))))


@each("verb", [one for one in VERBS if not one.writes])
def test_a_read_gives_what_the_python_call_gives(reading_site: Site, verb: Verb) -> None:
    """By the same open file."""
    compare(reading_site, verb, reading_site.app.db)


@pytest.mark.parametrize("verb", [one for one in VERBS if one.writes], ids=name_of)
def test_a_write_gives_what_the_python_call_gives(
    site: Site, verb: Verb, tmp_path: Path, filled: Any
) -> None:
    """On two copies of a file, with equal clocks and uids."""
    twin = tmp_path / "twin.db"
    filled.put(twin)
    with opened(twin) as db:
        compare(site, verb, db)


def test_every_row_has_a_python_call() -> None:
    """A new row needs one; and no row stands twice."""
    assert [name_of(verb) for verb in VERBS] == list(PYTHON)


def test_a_read_only_server_has_no_route_that_writes(make_site: Callable[..., Site]) -> None:
    """Absent, not refused; in the document too."""
    site = make_site(mode="read", read_only=True)
    paths = site.ask("GET", "openapi.json").json["paths"]
    writing = [verb for verb in VERBS if verb.writes]

    assert {call(site, verb).status for verb in writing} <= {404, 405}
    assert not any(verb.method.lower() in paths.get(f"/api/v1/{verb.noun}", {}) for verb in writing)
    assert len(paths) > 20
