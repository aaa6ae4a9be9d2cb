"""
Every public call as ann may make it, as data: with her own names, and with those of others.

Writes with her own names are `WRITES`. `test_isolation.py` fails for a public call that
stands in none of these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tenants import SECRETS, THEIR_USER
from writes import beside, entry

from memdb import FindItem
from memdb.adapters.host import Host, HostEntries, HostFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

S = SECRETS


class Names(NamedTuple):
    """What the others' things are called; ann gives these names and ids to her own calls."""

    entry: int
    shared_entry: int
    summary: str
    message: int
    uid: str


def names_of_others(db: MemDB) -> Names:
    """Return the ids of the others' things, from the file that has them."""
    bob = db.scope(THEIR_USER)
    chat = bob.session(S["session"])
    found, shared = bob.entries.find(S["entry_key"]), db.shared(S["app"]).entries.find("house")
    assert found is not None
    assert shared is not None
    tree = bob.session(S["summarised_session"]).summaries.tree()
    first = chat.get(1)
    return Names(found.id, shared.id, tree.frontier[0].id, first.row_id, first.uid)


def ann(db: MemDB) -> Any:
    """Return ann's memory."""
    return db.scope("ann")


def trip(db: MemDB) -> Any:
    """Return her conversation "trip"."""
    return db.scope("ann").session("trip")


def long(db: MemDB) -> Any:
    """Return her conversation that has summaries."""
    return db.scope("ann").session("long")


def exported(db: MemDB) -> list[str]:
    """Return the lines of a file that ann's export wrote, without its time."""
    target = beside(db, "exported.jsonl")
    target.unlink(missing_ok=True)
    db.export(target, user=ann(db).user, app=ann(db).app)
    return target.read_text(encoding="utf-8").splitlines()


def exported_artifact(db: MemDB) -> bytes:
    """Return the bytes of an artifact that was written to a file."""
    target = beside(db, "menu.md")
    trip(db).artifacts.export("menu.md", target, replace=True)
    return target.read_bytes()


def expand_all(db: MemDB) -> list[object]:
    """Return the pages of every summary of a conversation."""
    summaries = long(db).summaries
    return [summaries.expand(one.id) for one in summaries.tree().frontier]


# Words of ann's and of the others', some of both.
QUERIES = ("lamp", "Oslo", "tea", "北京", "soup", "red Oslo lamp", f"{S['text']} lamp", S["entry"])


def given(db: MemDB) -> list[Any]:
    """Return what ann's contexts gave, which is known."""
    found = [trip(db).given(99), ann(db).session("cold").given(99)]
    assert all(found)
    return found


# Name of a public read -> the call. A trailing word tells two of one name apart.
READ_CALLS: dict[str, Callable[[MemDB], object]] = {
    "Artifacts.export": exported_artifact,
    "Artifacts.diff": lambda db: trip(db).artifacts.diff("menu.md"),
    "Artifacts.list": lambda db: (ann(db).artifacts.list(), trip(db).artifacts.list()),
    "Artifacts.list by time": lambda db: ann(db).artifacts.list(order="updated", limit=50),
    "Artifacts.load": lambda db: trip(db).artifacts.load("menu.md"),
    "Artifacts.open": lambda db: trip(db).artifacts.open("menu.md", 1),
    "Artifacts.versions": lambda db: trip(db).artifacts.versions("menu.md"),
    "Entries.links": lambda db: ann(db).entries.links(entry(db)),
    "Entries.find": lambda db: ann(db).entries.find("home"),
    "Entries.get": lambda db: ann(db).entries.get(entry(db)),
    "Scope has_arbiter": lambda db: HostEntries(ann(db)).has_arbiter,
    "Entries.history": lambda db: ann(db).entries.history(entry(db)),
    "Entries.list": lambda db: ann(db).entries.list(inactive=True),
    "Entries.list by time": lambda db: [
        *ann(db).entries.list(order="updated", inactive=True),
        *ann(db).entries.list(order="created"),
    ],
    "Entries.list as_of": lambda db: ann(db).entries.list(as_of=HostFile(db).now_ms()),
    "Entries.list shared": lambda db: db.shared().entries.list(inactive=True),
    "Entries.replaced": lambda db: ann(db).entries.replaced(entry(db)),
    "File.count_tokens": lambda db: db.file.count_tokens([*QUERIES]),
    "File now_ms": lambda db: HostFile(db).now_ms(),
    "File warm": lambda db: HostFile(db).warm(),
    "Session.head": lambda db: trip(db).head(),
    "Host.segments": lambda db: Host(ann(db).session("cold")).segments(),
    "Host.snapshot": lambda db: Host(trip(db)).snapshot(),
    "Items.find": lambda db: ann(db).items.find(("notes", "trip"), "tent"),
    "Items.get": lambda db: ann(db).items.get(("notes",), "raw"),
    "Items.keys": lambda db: ann(db).items.keys(("notes", "trip")),
    "Items.list": lambda db: [
        ann(db).items.list(("notes",), order=order, descending=True)
        for order in ("key", "updated", "created")
    ],
    "Items.namespaces": lambda db: ann(db).items.namespaces(),
    "Items.recall": lambda db: [ann(db).items.recall(query) for query in (*QUERIES, "tent")],
    "Items.recall a vector": lambda db: ann(db).items.recall(vector=[1.0, 0.1]),
    "MemDB.export_lines": lambda db: db.export_lines(user="ann"),
    "MemDB.settings": lambda db: repr(db.settings.get()),
    "Scope.app": lambda db: ann(db).app,
    "Scope.artifacts": lambda db: ann(db).artifacts.list(),
    "Scope.entries": lambda db: ann(db).entries.list(category="events", pinned=False),
    "MemDB.export": exported,
    "Scope.find_secrets": lambda db: ann(db).find_secrets(entropy=True),
    "Scope.items": lambda db: ann(db).items.list(where={"stars": {"$gte": 1}}),
    "Scope.forget listed": lambda db: [
        ann(db).forget(everything=True, dry_run=True),
        *(ann(db).forget(query=word, dry_run=True) for word in ("tea", "oslo")),
    ],
    "Session.forget listed": lambda db: trip(db).forget(last=3, dry_run=True),
    "Scope.sessions by time": lambda db: [
        ann(db).sessions(order=order, limit=50) for order in ("updated", "created")
    ],
    "Scope.profile": lambda db: ann(db).profile(400, QUERIES, ids=True),
    "MemDB.user": lambda db: db.user("ann").sessions(),
    "Session.title": lambda db: trip(db).title,
    "Session.metadata": lambda db: trip(db).metadata,
    "Session.name": lambda db: trip(db).name,
    "StoredSettings.prompts": lambda db: db.settings.prompts(),
    "Scope.recall": lambda db: [ann(db).recall(query, 50, explain=True) for query in QUERIES],
    "Scope.recall by words": lambda db: [
        ann(db).recall(query, 50, explain=True, by="words", kinds=[kind])
        for query in QUERIES
        for kind in ("message", "entry", "artifact", "summary", "item")
    ],
    "Scope.recall sessions": lambda db: ann(db).recall("tea", group="session", kinds=["message"]),
    "Scope.recall as_of": lambda db: ann(db).recall(
        "Oslo", as_of=HostFile(db).now_ms(), explain=True
    ),
    "Scope.recall said since": lambda db: ann(db).recall("tea", since="2 weeks ago", rerank=False),
    "Scope.recall of a category": lambda db: ann(db).recall("Oslo", categories=["events"]),
    "Scope.recall of a role": lambda db: ann(db).recall("tea", roles=["user"]),
    "Scope.recall of an author": lambda db: ann(db).recall("tea", authors=["Ann", S["author"]]),
    "Scope.recall of metadata": lambda db: ann(db).recall("tea", where={"of": "tea"}),
    "Scope.recall by vector": lambda db: [
        ann(db).recall(query, 50, by="vector", explain=True) for query in QUERIES
    ],
    "Scope.recall with a vector": lambda db: ann(db).recall("tea", vector=[1.0] * 8),
    "Scope.recall own": lambda db: ann(db).recall("house Oslo", partition="own"),
    "Scope.recall of all users": lambda db: ann(db).recall("house Oslo", partition="shared"),
    "Scope.recall in a session": lambda db: [
        ann(db).recall("Oslo red", session="trip", scope_entries=part) for part in (True, False)
    ],
    "Scope.recall shared": lambda db: db.shared().recall("house", explain=True),
    "Scope.session": lambda db: repr(trip(db)),
    "Scope.sessions": lambda db: ann(db).sessions(),
    "Scope.state": lambda db: ann(db).state.all(),
    "Scope.user": lambda db: ann(db).user,
    "Scope.counts": lambda db: ann(db).counts(),
    "Scope.why": lambda db: [ann(db).why(query, "long", 3) for query in QUERIES],
    "Session.artifacts": lambda db: ann(db).session("cold").artifacts.list(),
    "Host.context": lambda db: [Host(trip(db)).context(300, query) for query in QUERIES],
    "Session.context with a query": lambda db: [trip(db).context(300, query) for query in QUERIES],
    "Session.find": lambda db: trip(db).find("m1"),
    "Session.get": lambda db: trip(db).get(1),
    "Session.given": given,
    "Session.host": lambda db: [Host(trip(db)).window(last=2), Host(long(db)).window()],
    "Session.last": lambda db: trip(db).last(50),
    "Session.last_seq": lambda db: trip(db).last_seq,
    "Session.messages": lambda db: ann(db).session("cold").messages(),
    "Session.recall": lambda db: [
        long(db).recall(query, 20, explain=True, kinds=("message", "summary")) for query in QUERIES
    ],
    "Session.state": lambda db: trip(db).state.all(),
    "Session.summaries": lambda db: long(db).summaries.tree(),
    "Session.tools": lambda db: trip(db).tools().schemas(maintenance=True),
    "State.all": lambda db: db.shared().state.all(),
    "State.find": lambda db: ann(db).state.find("colour"),
    "State.get": lambda db: trip(db).state.get("colour"),
    "State.items": lambda db: [*trip(db).state.items()],
    "State.keys": lambda db: [*ann(db).state.keys()],
    "State.values": lambda db: [*db.shared().state.values()],
    "StoredSettings.categories": lambda db: db.settings.categories(),
    "StoredSettings.get": lambda db: db.settings.get(),
    "Summaries.expand": expand_all,
    "Summaries.list": lambda db: long(db).summaries.list(depth=0, first_seq=3, limit=2),
    "Summaries.tree": lambda db: ann(db).session("due").summaries.tree(),
    "Tools.call": lambda db: long(db).tools().call("memory_expand", {"id": "1-10"}),
    "Tools.call of a search": lambda db: [
        long(db).tools().call("memory_search", {"query": one}) for one in QUERIES
    ],
    "Tools.schemas": lambda db: long(db).tools().schemas("gemini"),
}

# The same with what the others' things are called, each alone or with names of hers.
THEIR_NAMES: dict[str, Callable[[MemDB, Names], object]] = {
    "Artifacts.delete": lambda db, _: trip(db).artifacts.delete(S["artifact"]),
    "Artifacts.delete in a session": lambda db, _: (
        ann(db).session(S["session"]).artifacts.delete(S["artifact"], 1)
    ),
    "Artifacts.export": lambda db, _: (
        ann(db).session(S["session"]).artifacts.export(S["artifact"], beside(db, "never"))
    ),
    "Artifacts.list": lambda db, _: ann(db).session(S["session"]).artifacts.list(),
    "Artifacts.load": lambda db, _: ann(db).artifacts.load(f"user:{S['artifact_user']}"),
    "Artifacts.open": lambda db, _: ann(db).session(S["session"]).artifacts.open(S["artifact"]),
    "Artifacts.rename": lambda db, _: trip(db).artifacts.rename(S["artifact"], "mine.md"),
    "Artifacts.rename to theirs": lambda db, _: trip(db).artifacts.rename("menu.md", S["artifact"]),
    "Artifacts.save": lambda db, _: trip(db).artifacts.save(S["artifact_deleted"], "mine"),
    "Artifacts.save theirs": lambda db, _: trip(db).artifacts.save(
        "mine.md", f"{S['artifact_text']} soup"
    ),
    "Artifacts.save of their message": lambda db, names: trip(db).artifacts.save(
        "x", "mine", message_seq=names.message
    ),
    "Artifacts.versions": lambda db, _: (
        ann(db).session(S["session"]).artifacts.versions(S["artifact"])
    ),
    "Entries.links": lambda db, names: ann(db).entries.links(names.entry),
    "Entries.delete": lambda db, names: ann(db).entries.delete(names.entry),
    "Entries.delete shared": lambda db, names: db.shared().entries.delete(names.shared_entry),
    "Entries.find": lambda db, _: ann(db).entries.find(S["entry_key"]),
    "Entries.get": lambda db, names: ann(db).entries.get(names.entry),
    "Entries.get shared": lambda db, names: db.shared().entries.get(names.shared_entry),
    "Entries.history": lambda db, names: ann(db).entries.history(names.entry),
    "Entries.update pinned": lambda db, names: ann(db).entries.update(names.entry, pinned=True),
    "Scope prepare": lambda db, _: HostEntries(ann(db)).prepare(
        {"text": "mine", "session": S["session"]}
    )(),
    "Entries.replaced": lambda db, names: ann(db).entries.replaced(names.entry),
    "Entries.update trust": lambda db, names: ann(db).entries.update(names.entry, trust="flagged"),
    "Entries.update active": lambda db, names: ann(db).entries.update(names.entry, active=False),
    "Entries.unlink": lambda db, names: ann(db).entries.unlink(entry(db), names.entry),
    "Entries.unlink theirs": lambda db, names: ann(db).entries.unlink(names.entry, entry(db)),
    "Entries.supersede": lambda db, names: ann(db).entries.supersede(entry(db), names.entry),
    "Entries.supersede theirs": lambda db, names: ann(db).entries.supersede(names.entry, entry(db)),
    "Entries.update unpinned": lambda db, names: ann(db).entries.update(names.entry, pinned=False),
    "Entries.update": lambda db, names: ann(db).entries.update(names.entry, text="mine"),
    "Session.clear": lambda db, _: ann(db).session(S["session"]).clear(),
    "Host.commit": lambda db, _: Host(ann(db).session(S["session"])).commit(
        {"role": "user", "text": "mine", "external_id": f"{S['external_id']}-0"}
    ),
    "Host.commit theirs": lambda db, names: Host(trip(db)).commit(
        {"role": "user", "text": "mine", "external_id": f"{S['external_id']}-0"}, expected=4
    ),
    "Session.create": lambda db, _: ann(db).session(S["session"]).create(title="mine"),
    "Host.erase": lambda db, names: Host(trip(db)).erase(names.message & 0xFFFFFF | 1 << 20),
    "Host.erase in a session": lambda db, _: Host(ann(db).session(S["archived_session"])).erase(1),
    "Session.edit": lambda db, names: trip(db).edit(
        names.message & 0xFFFFFF | 1 << 20, {"role": "user", "text": "mine"}
    ),
    "Session.edit in a session": lambda db, _: (
        ann(db).session(S["archived_session"]).edit(1, {"role": "user", "text": "mine"})
    ),
    "Session.update": lambda db, _: ann(db).session(S["session"]).update(title="mine"),
    "Session.head": lambda db, _: ann(db).session(S["session"]).head(),
    "Session.pop": lambda db, _: ann(db).session(S["session"]).pop(),
    "Session.replace": lambda db, _: ann(db).session(S["archived_session"]).replace([1, 2]),
    "Host.segments": lambda db, _: Host(ann(db).session(S["archived_session"])).segments(),
    "Host.snapshot": lambda db, _: Host(ann(db).session(S["session"])).snapshot(),
    "Host.context": lambda db, _: Host(ann(db).session(S["archived_session"])).context(
        300, S["text"]
    ),
    "Host.window": lambda db, _: Host(ann(db).session(S["summarised_session"])).window(),
    "Items.batch": lambda db, _: ann(db).items.batch([FindItem((S["item_label"],), S["item_key"])]),
    "Items.clear": lambda db, _: ann(db).items.clear((S["item_label"],)),
    "Items.delete": lambda db, _: ann(db).items.delete((S["item_label"],), S["item_key"]),
    "Items.find": lambda db, _: ann(db).items.find((S["item_label"],), S["item_key"]),
    "Items.get": lambda db, _: ann(db).items.get((S["item_label"],), S["item_key"]),
    "Items.keys": lambda db, _: ann(db).items.keys((S["item_label"],)),
    "Items.list": lambda db, _: ann(db).items.list((S["item_label"],)),
    "Items.namespaces": lambda db, _: ann(db).items.namespaces((S["item_label"],)),
    "Items.put": lambda db, _: ann(db).items.put(
        (S["item_label"],), S["item_key"], f"{S['item_value']} lamp", expected=0
    ),
    "Items.recall": lambda db, _: ann(db).items.recall(S["item_value"]),
    "MemDB.export": lambda db, _: db.export(
        beside(db, "o.jsonl"), user=S["user"], app=S["app"], replace=True
    ),
    "MemDB.export_lines": lambda db, _: db.export_lines(user=S["user"], app=S["app"]),
    "MemDB.scope": lambda db, _: repr(db.scope(S["user"], "another app").sessions()),
    "MemDB.shared": lambda db, _: db.shared("another app").recall("house"),
    "Scope.undo": lambda db, _: ann(db).undo(writer=S["entry_source"]),
    "Scope.delete": lambda db, names: ann(db).delete(entry=names.entry),
    "Scope.delete a session": lambda db, _: ann(db).delete(session=S["session"]),
    "Scope.delete words": lambda db, _: ann(db).delete(query=S["text"], artifacts=True),
    "Scope.forget": lambda db, names: ann(db).forget(entry=names.entry),
    "Scope.forget a session": lambda db, _: ann(db).forget(session=S["session"], artifacts=True),
    "Scope.forget a session with a proof": lambda db, _: ann(db).forget(
        session=S["archived_session"], prove=True
    ),
    "Scope.forget words": lambda db, _: ann(db).forget(query=S["entry"], artifacts=True),
    "Scope.forget words with a proof": lambda db, _: ann(db).forget(
        query=S["artifact_text"], artifacts=True, prove=True
    ),
    "Scope.recall": lambda db, _: ann(db).recall(S["text"], session=S["session"]),
    "Scope.remember": lambda db, _: ann(db).remember("Mine.", session=S["session"], seq=1),
    "Scope.remember theirs": lambda db, _: ann(db).remember(
        f"The {S['entry']} lives in Oslo.", key=S["entry_key"], keywords=[S["keyword"]]
    ),
    "Scope.sessions": lambda db, _: ann(db).sessions(S["session"]),
    "Scope.why": lambda db, _: ann(db).why("lamp", S["session"], 1),
    "Session.append": lambda db, _: trip(db).append(
        "user", "mine too", external_id=f"{S['external_id']}-1"
    ),
    "Session.append to theirs": lambda db, _: (
        ann(db).session(S["deleted_session"]).append("user", "mine", expected=0)
    ),
    "Session.append a message": lambda db, _: (
        ann(db).session(S["archived_session"]).append({"role": "user", "content": "mine"})
    ),
    "Session.archive": lambda db, _: ann(db).session(S["session"]).archive(keep_last=0),
    "Session.branch": lambda db, _: trip(db).branch(S["session"], 2),
    "Session.branch theirs": lambda db, _: ann(db).session(S["archived_session"]).branch("other"),
    "Session.branch_name": lambda db, _: trip(db).branch("mine").branch_name,
    "Session.branches": lambda db, _: ann(db).session(S["archived_session"]).branches(),
    "Session.parent": lambda db, _: repr(trip(db).branch("mine").parent),
    "Session.given": lambda db, _: ann(db).session(S["archived_session"]).given(99),
    "Session.context": lambda db, _: ann(db).session(S["archived_session"]).context(300, S["text"]),
    "Session.delete": lambda db, _: ann(db).session(S["archived_session"]).delete(),
    "Session.extend": lambda db, _: ann(db).session(S["archived_session"]).extend([]),
    "Session.extract": lambda db, _: ann(db).session(S["archived_session"]).extract(),
    "Session.find": lambda db, _: trip(db).find(f"{S['external_id']}-2"),
    "Session.fork": lambda db, _: trip(db).fork(S["forked_session"]),
    "Session.fork theirs": lambda db, _: ann(db).session(S["archived_session"]).fork("fork"),
    "Session.forget": lambda db, _: ann(db).session(S["archived_session"]).forget([1]),
    "Session.get": lambda db, _: ann(db).session(S["archived_session"]).get(1),
    "Session.last": lambda db, _: ann(db).session(S["archived_session"]).last(5),
    "Session.last_seq": lambda db, _: ann(db).session(S["archived_session"]).last_seq,
    "Session.messages": lambda db, _: ann(db).session(S["archived_session"]).messages(),
    "Session.recall": lambda db, _: ann(db).session(S["archived_session"]).recall(S["archived"]),
    "Session.state": lambda db, _: ann(db).session(S["archived_session"]).state.all(),
    "Session.unarchive": lambda db, _: ann(db).session(S["archived_session"]).unarchive(),
    "State.get": lambda db, _: (
        ann(db).state.get(S["user_state_key"]),
        db.shared().state.get(S["app_state_key"]),
        trip(db).state.get(S["session_state_key"]),
    ),
    "State.find": lambda db, _: ann(db).state.find(S["user_state_key"]),
    "State.put": lambda db, _: ann(db).state.put(S["user_state_key"], 1, expected=0),
    "State.delete": lambda db, _: ann(db).state.delete(S["user_state_key"]),
    "State.pop": lambda db, _: ann(db).state.pop(S["user_state_key"], None),
    "State.__delitem__": lambda db, _: db.shared().state.__delitem__(S["app_state_key"]),
    "State.update": lambda db, _: db.shared().state.update({S["app_state_key"]: "mine"}),
    "Summaries.compact": lambda db, _: ann(db).session(S["archived_session"]).summaries.compact(),
    "Summaries.expand": lambda db, names: long(db).summaries.expand(names.summary),
    "Summaries.rewrite": lambda db, names: long(db).summaries.rewrite(names.summary, "mine"),
    "Summaries.delete": lambda db, names: long(db).summaries.delete(names.summary),
    "Summaries.list": lambda db, _: ann(db).session(S["summarised_session"]).summaries.list(),
    "Summaries.expand in theirs": lambda db, names: (
        ann(db).session(S["summarised_session"]).summaries.expand(names.summary)
    ),
    "Summaries.tree": lambda db, _: ann(db).session(S["summarised_session"]).summaries.tree(),
    "Summaries.upgrade": lambda db, _: ann(db).session(S["summarised_session"]).summaries.upgrade(),
    "Tools.call": lambda db, names: long(db).tools().call("memory_expand", {"id": names.summary}),
    "Tools.call of a span": lambda db, _: (
        ann(db).session(S["summarised_session"]).tools().call("memory_expand", {"id": "1-9"})
    ),
    "Tools.call of a search": lambda db, _: (
        ann(db)
        .session(S["summarised_session"])
        .tools()
        .call("memory_search", {"query": S["summarised"]})
    ),
}

# Public calls of whoever owns the file: they are about all that it holds, by their description.
OF_THE_FILE = {
    "File": "check copy info mark stamp",
    "Jobs": "pending",
    "MemDB": "changes close closed export file jobs path query scopes stats sync_status watch",
    "Worker": "error running",
    "Transaction": "",
}
NAMES_OF_THE_FILE = {f"{owner}.{name}" for owner, of in OF_THE_FILE.items() for name in of.split()}

# Writes of other files than the one that is open.
OTHER_FILES = {"create a file", "restore", "recover", "migrate"}

# Writes that show or change more than ann's: why they may.
WHOLE_FILE = {
    "upgrade and improve": "jobs.run works for everybody",
    "run": "jobs.run works for everybody",
    "run_due": "jobs.run(due=True) works for everybody",
    "summarize": "jobs.run works for everybody",
    "work in a thread": "a worker works for everybody",
    "rebuild": "queues jobs for everybody",
    "vacuum": "the bytes of the file",
    "vacuum whole": "the bytes of the file",
    "backup": "the bytes of the file",
    "sync": "the memory of everybody",
    "delete_space": "removes everybody's vectors of a model",
    "change settings": "the settings of the file",
}
