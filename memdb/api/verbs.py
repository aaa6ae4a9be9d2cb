"""
The table of what a program can ask of a file over HTTP: one row per verb.

`memdb.web` makes its routes, its OpenAPI document and docs/api.md of it. A row names a
method of the Python API, or a function of `memdb.api.pages` where the method returns or
takes what JSON cannot say. Parameters, their types and their texts are those of the
function, so that the three never differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.api import pages
from memdb.api.collections import Artifacts, Entries, State, Summaries
from memdb.api.database import Jobs, MemDB, StoredSettings
from memdb.api.file import File
from memdb.api.items import Items
from memdb.api.scope import Scope
from memdb.api.session import Session
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Verb(Record):
    """
    One row of the table.

    Attributes:
        noun: The path below /api/v1.
        method: Of HTTP.
        call: A method of the API, or a function whose first parameter is the object of the noun.
        example: Arguments of a call that works on the file of the tests.
        reads: Whether it changes nothing in the file, as each GET.
        at: Parameters that name a thing; they are in the query even if others are in the body.
        names: Parameters with another name in requests, by that name.
        swaps: Whether `If-Match` gives the parameter *expected*, and must be there.
        fixed: Arguments that every call gets.
        without: Parameters that a request cannot have, besides functions.
        leaves: Parameters that write outside of the user's scope, each with the value that does
            not. A token of one user allows only that value.
        creates: Whether it makes something new, so that it takes an `Idempotency-Key`.
        page: The fields of a row that tell its place in a list with pages.
        is_slow: Whether it may take longer than seconds.
    """

    noun: str
    method: str
    call: Callable[..., Any]
    example: Mapping[str, Any] = {}
    reads: bool = False
    at: tuple[str, ...] = ()
    names: Mapping[str, str] = {}
    swaps: bool = False
    fixed: Mapping[str, Any] = {}
    without: tuple[str, ...] = ()
    leaves: Mapping[str, Any] = {}
    creates: bool = False
    page: tuple[str, ...] = ()
    is_slow: bool = False

    @property
    def writes(self) -> bool:
        """Whether it changes the file; a server with --read-only lacks it."""
        return self.method != "GET" and not self.reads


ENTRY = {"id": "entry_id"}
SUMMARY = {"id": "summary_id"}
TRIP = {"user": "ann", "session": "trip"}
ANN = {"user": "ann"}
UNCOUNTED = {"count_use": False}  # looking changes nothing


VERBS = (
    Verb("file", "GET", File.info),
    Verb("check", "GET", File.check, {"deep": True}, is_slow=True),
    Verb("rebuild", "POST", File.rebuild, is_slow=True),
    Verb("vacuum", "POST", File.vacuum, is_slow=True),
    Verb("backup", "GET", pages.copy_file, is_slow=True),
    Verb("stats", "GET", MemDB.stats),
    Verb("scopes", "GET", pages.list_scopes),
    Verb("changes", "GET", MemDB.changes),
    Verb("query", "POST", MemDB.query, {"sql": "SELECT 1 AS one"}, reads=True, is_slow=True),
    Verb("export", "GET", pages.export_lines, ANN, is_slow=True),
    Verb(
        "upload",
        "POST",
        pages.add_part,
        {**ANN, "upload": "chats", "data": "e30="},
        at=("user", "app", "upload", "at"),
        is_slow=True,
    ),
    Verb(
        "import",
        "POST",
        pages.import_upload,
        {**ANN, "name": "tea.md", "data": "VGVhIGlzIGdyZWVuLgo="},
        at=("user", "app"),
        creates=True,
        is_slow=True,
    ),
    Verb("settings", "GET", StoredSettings.get),
    Verb("settings", "PATCH", pages.change_settings, {"changes": {"entry_quota": 500}}),
    Verb("prompts", "GET", StoredSettings.prompts),
    Verb("categories", "GET", StoredSettings.categories),
    Verb("jobs", "GET", Jobs.pending),
    Verb("jobs", "POST", pages.run_jobs, is_slow=True),
    Verb("sessions", "GET", Scope.sessions, ANN, page=("name", "updated_ms", "created_ms")),
    Verb(
        "sessions",
        "POST",
        Session.create,
        {"user": "ann", "session": "new", "title": "New"},
        creates=True,
    ),
    Verb("session", "GET", Session.head, TRIP),
    Verb("session", "PATCH", Session.update, {**TRIP, "title": "Oslo in May"}, swaps=True),
    Verb("messages", "GET", pages.list_messages, TRIP, page=("seq",)),
    Verb(
        "messages",
        "POST",
        Session.extend,
        {**TRIP, "messages": [{"role": "user", "text": "Two nights."}]},
        creates=True,
    ),
    Verb("message", "GET", Session.get, {**TRIP, "seq": 1}),
    Verb(
        "message",
        "POST",
        Session.append,
        {**TRIP, "role": "user", "text": "We fly on 3 May."},
        creates=True,
    ),
    Verb(
        "message",
        "PATCH",
        Session.edit,
        {**TRIP, "seq": 1, "message": {"role": "user", "text": "We sail to Oslo."}},
        at=("seq",),
    ),
    Verb("message/bytes", "GET", pages.open_part, {**TRIP, "seq": 13}),
    Verb(
        "context",
        "GET",
        Session.context,
        {**TRIP, "budget_tokens": 2000, "query": "Oslo?"},
        fixed=UNCOUNTED,
    ),
    Verb("context/given", "GET", Session.given, {**TRIP, "seq": 13}),
    Verb("context/sent", "GET", pages.send_context, {**TRIP, "budget_tokens": 2000}),
    Verb("branches", "GET", Session.branches, TRIP),
    Verb(
        "branches",
        "POST",
        pages.make_branch,
        {**TRIP, "name": "rail", "after_seq": 1},
        creates=True,
    ),
    Verb("fork", "POST", pages.fork_session, {**TRIP, "name": "copy"}, creates=True),
    Verb("extract", "POST", Session.extract, TRIP, is_slow=True),
    Verb("archive", "POST", Session.archive, TRIP, is_slow=True),
    Verb("unarchive", "POST", Session.unarchive, TRIP, is_slow=True),
    Verb("tree", "GET", Summaries.tree, TRIP),
    Verb("summaries", "GET", Summaries.list, TRIP),
    Verb("expand", "GET", Summaries.expand, {**TRIP, "id": "1-2"}, names=SUMMARY),
    Verb(
        "summary",
        "PATCH",
        Summaries.rewrite,
        {**TRIP, "id": "1-8", "text": "Ann plans a trip."},
        at=("id",),
        names=SUMMARY,
        is_slow=True,
    ),
    Verb("summary", "DELETE", Summaries.delete, {**TRIP, "id": "1-8"}, names=SUMMARY),
    Verb("compact", "POST", Summaries.compact, TRIP, is_slow=True),
    Verb(
        "recall",
        "GET",
        Scope.recall,
        {**ANN, "query": "Oslo"},
        without=("vector",),
        fixed=UNCOUNTED,
    ),
    Verb("why", "GET", Scope.why, {**TRIP, "query": "Oslo", "seq": 1}),
    Verb("counts", "GET", Scope.counts, ANN),
    Verb("profile", "GET", Scope.profile, {**ANN, "budget_tokens": 500}, fixed=UNCOUNTED),
    Verb("secrets", "GET", Scope.find_secrets, ANN, is_slow=True),
    Verb("delete", "POST", Scope.delete, {**ANN, "session": "old"}, is_slow=True),
    Verb(
        "forget/preview",
        "POST",
        Scope.forget,
        {**ANN, "session": "old"},
        reads=True,
        fixed={"dry_run": True},
        without=("prove",),
    ),
    Verb("undo", "POST", Scope.undo, {**ANN, "writer": "mail", "dry_run": True}),
    Verb("forget", "POST", Scope.forget, {**ANN, "session": "old"}, is_slow=True),
    Verb("session/forget", "POST", Session.forget, {**TRIP, "last": 2}, is_slow=True),
    Verb("entries", "GET", Entries.list, ANN, page=("id", "updated_ms", "created_ms")),
    Verb(
        "entries",
        "POST",
        Scope.remember,
        {**ANN, "text": "Ann has a dog."},
        leaves={"shared": False},
        creates=True,
    ),
    Verb("entry", "GET", Entries.get, {**ANN, "id": 1}, names=ENTRY),
    Verb("entry/find", "GET", Entries.find, {**ANN, "key": "home"}),
    Verb(
        "entry",
        "PATCH",
        Entries.update,
        {**ANN, "id": 1, "importance": 8},
        at=("id",),
        names=ENTRY,
        swaps=True,
    ),
    Verb("entry", "DELETE", Entries.delete, {**ANN, "id": 1}, names=ENTRY, swaps=True),
    Verb(
        "entry/revert",
        "POST",
        Entries.revert,
        {**ANN, "id": 1, "version": 1},
        at=("id",),
        names=ENTRY,
        swaps=True,
    ),
    Verb(
        "entry/supersede",
        "POST",
        Entries.supersede,
        {**ANN, "id": 1, "new_id": 2},
        at=("id",),
        names={"id": "old_id"},
        swaps=True,
    ),
    Verb("entry/history", "GET", Entries.history, {**ANN, "id": 1}, names=ENTRY),
    Verb("entry/replaced", "GET", Entries.replaced, {**ANN, "id": 1}, names=ENTRY),
    Verb("entry/links", "GET", Entries.links, {**ANN, "id": 1}, names=ENTRY),
    Verb(
        "entry/unlink",
        "POST",
        Entries.unlink,
        {**ANN, "id": 2, "older_id": 1},
        at=("id",),
        names={"id": "newer_id"},
    ),
    Verb("artifacts", "GET", Artifacts.list, ANN, page=("session", "name", "created_ms", "uid")),
    Verb("artifact", "GET", pages.find_artifact, {**TRIP, "name": "plan.md"}),
    Verb("artifact/bytes", "GET", pages.open_artifact, {**TRIP, "name": "plan.md"}),
    Verb("artifact/versions", "GET", Artifacts.versions, {**TRIP, "name": "plan.md"}),
    Verb("artifact/diff", "GET", Artifacts.diff, {**TRIP, "name": "plan.md", "against": 1}),
    Verb(
        "artifact",
        "PUT",
        pages.save_artifact,
        {**TRIP, "name": "plan.md", "text": "Day 1: Oslo"},
        at=("session", "name"),
        swaps=True,
    ),
    Verb(
        "artifact/rename",
        "POST",
        Artifacts.rename,
        {**TRIP, "name": "plan.md", "new_name": "route.md"},
        at=("session", "name"),
        swaps=True,
    ),
    Verb(
        "artifact", "DELETE", Artifacts.delete, {**TRIP, "name": "plan.md"}, without=("expected",)
    ),
    Verb(
        "items",
        "GET",
        Items.list,
        ANN,
        without=("refresh",),  # a read changes nothing
        page=("id", "namespace", "key", "created_ms", "updated_ms"),
    ),
    Verb(
        "item",
        "GET",
        Items.get,
        {**ANN, "namespace": ["notes"], "key": "k1"},
        without=("refresh",),  # a read changes nothing
    ),
    Verb(
        "item",
        "PUT",
        Items.put,
        {**ANN, "namespace": ["notes"], "key": "k1", "value": {"text": "Pack."}},
        at=("namespace", "key"),
        without=("vectors",),
        swaps=True,
    ),
    Verb("item", "DELETE", Items.delete, {**ANN, "namespace": ["notes"], "key": "k1"}, swaps=True),
    Verb("namespaces", "GET", Items.namespaces, ANN),
    Verb("state", "GET", State.all, TRIP),
    Verb("state/value", "GET", State.find, {**TRIP, "key": "city"}),
    Verb(
        "state/value",
        "PUT",
        State.put,
        {**TRIP, "key": "city", "value": "Bergen"},
        at=("key",),
        swaps=True,
    ),
    Verb("state/value", "DELETE", State.delete, {**TRIP, "key": "city"}, swaps=True),
)
