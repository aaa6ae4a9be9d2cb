"""
A page of Datasette that searches a memdb file: `/-/memdb/DATABASE?q=...`, and `.json`.

Each search is a `memdb recall` in a process of its own. memdb is never loaded into Datasette:
two SQLite libraries with one file in a process lose each other's locks (ADR-0002).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from datasette import hookimpl
from datasette.utils.asgi import Forbidden, NotFound, Response

if TYPE_CHECKING:
    from typing import Any

    from datasette.app import Datasette
    from datasette.database import Database
    from datasette.utils.asgi import Request

VIEWS = frozenset(("sessions_view", "messages_view", "entries_view", "items_view"))
TIMEOUT_S = 30
MAX_AT_ONCE = 4
MAX_LIMIT = 100
DEFAULT_LIMIT = "20"
OPTIONS = ("user", "app", "session", "since", "until", "role", "kind")
FORM = ("user", "app")

_searches = asyncio.Semaphore(MAX_AT_ONCE)


class Answer(NamedTuple):
    """What a search gave: hits, or why there are none, and the HTTP status that says so."""

    hits: list[dict[str, Any]]
    error: str = ""
    status: int = 200
    certainty: str = "none"


@hookimpl
def register_routes() -> list[tuple[str, object]]:
    """Add the page and its JSON."""
    return [
        (r"^/-/memdb/(?P<database>[^/]+?)\.json$", search_json),
        (r"^/-/memdb/(?P<database>[^/]+?)$", search_page),
    ]


@hookimpl
def database_actions(datasette: Datasette, database: str, request: Request) -> object:
    """Add a link to the menu of a database that is a memdb file."""

    async def links() -> list[dict[str, str]]:
        if not await is_memdb(datasette.get_database(database)):
            return []
        if not await _may_read(datasette, request, database):
            return []
        path = datasette.urls.path(f"/-/memdb/{quote(database, safe='')}")
        return [{"href": path, "label": "Search this memory"}]

    return links


async def search_json(datasette: Datasette, request: Request) -> Response:
    """Return the hits as `memdb recall --json` gives them."""
    answer = await _answer(datasette, request)
    if answer.error:
        return Response.json({"ok": False, "error": answer.error}, status=answer.status)
    return Response.json({"ok": True, "certainty": answer.certainty, "hits": answer.hits})


async def search_page(datasette: Datasette, request: Request) -> Response:
    """Show a form, and the hits of what was asked."""
    answer = await _answer(datasette, request)
    name = request.url_vars["database"]
    asked = {key: request.args.get(key) or "" for key in ("q", *FORM)}
    fields = "".join(
        f'<label>{label} <input name="{key}" value="{escape(asked[key])}"></label> '
        for key, label in (("q", "Question"), ("user", "User"), ("app", "App"))
    )
    shown = "".join(_shown(datasette, name, hit) for hit in answer.hits)
    if not shown and asked["q"] and not answer.error:
        shown = "<p>Nothing is known about it.</p>"
    if shown and answer.certainty == "unsure":
        shown = f"<p>Not sure. Closest:</p>{shown}"
    error = f"<p><strong>{escape(answer.error)}</strong></p>" if answer.error else ""
    page = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Search {escape(name)}</title></head><body>"
        f'<h1>Search <a href="{escape(datasette.urls.database(name))}">{escape(name)}</a></h1>'
        f"<form>{fields}<button>Search</button></form>{error}{shown}</body></html>"
    )
    return Response.html(page, status=answer.status)


def _shown(datasette: Datasette, name: str, hit: dict[str, Any]) -> str:
    """Return a hit as HTML, a message with a link to its row of `messages_view`."""
    source = hit["source"]
    where = f"{source.get('session') or ''}#{source.get('seq')}" if source.get("seq") else ""
    if hit["kind"] == "message":
        # The view computes seq, so that Datasette's own filter compares it as text.
        row = urlencode({"session": source["session"], "_where": f"seq = {int(source['seq'])}"})
        view = datasette.urls.table(name, "messages_view")
        where = f'<a href="{escape(f"{view}?{row}")}">{escape(where)}</a>'
    else:
        place = [*(source.get("namespace") or ()), source.get("key") or source.get("artifact")]
        where = escape("/".join(str(one) for one in place if one) or where)
    return (
        f"<p><small>{escape(hit['kind'])} {where} {hit['score']:.2f}</small><br>"
        f'<span style="white-space: pre-wrap">{escape(hit["text"])}</span></p>'
    )


async def _answer(datasette: Datasette, request: Request) -> Answer:
    """
    Return what the question of a request finds.

    Raises:
        NotFound: there is no such database, or it is no memdb file.
        Forbidden: the actor may not read all of it.
    """
    name = request.url_vars["database"]
    try:
        database = datasette.get_database(name)
    except KeyError:
        raise NotFound(f"There is no database {name}") from None  # a KeyError of the same name
    if not await _may_read(datasette, request, name):
        raise Forbidden("You may not read this database")
    if not await is_memdb(database):
        raise NotFound(f"{name} is no memdb file")
    query = request.args.get("q") or ""
    if not query.strip():
        return Answer([])
    if not database.is_mutable:
        return Answer([], f"{name} is opened as immutable: start Datasette without -i", 400)
    arguments = ["--json", "--limit", _limit(request.args.get("limit"))]
    for option in OPTIONS:
        value = request.args.get(option)
        if value:
            arguments.append(f"--{option}={value}")
    return await recall([*arguments, f"--file={database.path}", "--", query])


def _limit(given: str | None) -> str:
    """Return a number of hits, 1 to `MAX_LIMIT`."""
    number = given if given and given.isascii() and given.isdecimal() else DEFAULT_LIMIT
    return str(min(max(int(number[:6]), 1), MAX_LIMIT))


async def recall(arguments: list[str]) -> Answer:
    """Run `memdb recall` in a process of its own; a few run at once, others wait."""
    if any("\0" in one for one in arguments):
        return Answer([], "the question holds a NUL", 400)
    async with _searches:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "memdb", "recall", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        try:
            output, errors = await asyncio.wait_for(child.communicate(), TIMEOUT_S)
        except TimeoutError:
            return Answer([], f"the search took over {TIMEOUT_S} s", 504)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    if child.returncode == 0:
        found = json.loads(output)
        return Answer(found["hits"], certainty=found["certainty"])
    return Answer([], _message(output, errors.decode("utf-8", "replace")), 400)


def _message(output: bytes, errors: str) -> str:
    """Return the sentence in what memdb printed as its error."""
    try:
        return str(json.loads(output)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return errors.strip().rpartition("Error: ")[2] or "memdb recall failed"


async def is_memdb(database: Database) -> bool:
    """Return whether a database looks like a memdb file, by its views."""
    return bool(database.path) and VIEWS.issubset(await database.view_names())


async def _may_read(datasette: Datasette, request: Request, name: str) -> bool:
    """Return whether an actor may read everything: who may run any SELECT of their own."""
    if hasattr(datasette, "allowed"):  # Datasette 1.0
        from datasette.resources import DatabaseResource

        resource = DatabaseResource(name)
        allowed = await datasette.allowed(
            action="execute-sql", resource=resource, actor=request.actor
        )
        return bool(allowed)
    if not await datasette.permission_allowed(
        request.actor, "execute-sql", resource=name, default=True
    ):
        return False
    try:
        await datasette.ensure_permissions(
            request.actor, [("view-database", name), "view-instance"]
        )
    except Forbidden:
        return False
    return True
