"""
Every public call that writes, as data: what the tests of faults walk over.

`test_public_writes.py` fails for a public call that is neither in `WRITES` nor in `READS`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import random
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from coming_formats import VARIANTS, memdb_of

import memdb
from memdb import MemDB, api
from memdb.adapters.host import Host, HostEntries
from memdb.api._resolve import is_address
from memdb.api.collections import Artifacts, Entries, State, Summaries
from memdb.api.database import Jobs, StoredSettings
from memdb.api.file import File
from memdb.api.items import Items
from memdb.api.scope import Scope
from memdb.api.session import Session, Transaction
from memdb.api.tools import Tools
from memdb.api.worker import Worker
from memdb.engine.sqlite.tail import MAX_ROWS
from memdb.models.items import DeleteItem, FindItem, PutItem
from memdb.models.settings import Settings
from memdb.models.summaries import SourceItem, SummaryText

if TYPE_CHECKING:
    from collections.abc import Callable

# Small: ten messages make a tree of three levels.
POLICY = Settings(summary_messages=2, summary_condense_at=3, summary_group=2)
LARGE = random.Random(2).randbytes(1_200_000)

CLASSES = (
    MemDB,
    Scope,
    Session,
    Host,
    Entries,
    Artifacts,
    Items,
    State,
    Summaries,
    File,
    StoredSettings,
    Jobs,
    Tools,
    Worker,
    Transaction,
)


@dataclass(frozen=True)
class Write:
    """
    A public call that writes.

    Attributes:
        covers: The public names it calls, such as "Session.append".
        act: The call. Runs on a file that `prepare` has filled.
        stepwise: Commits several times: a fault may come after some of the steps.
        unchanging: Leaves every row of the file as it is.
        optional: Answers a question: it returns too if a fault kept it from writing.
        arrange: Called before it, without faults.
        invisible: Tables that a failed call may have changed: chunks of an upload that
            nobody sees, whose turn a job is.
    """

    covers: tuple[str, ...]
    act: Callable[[MemDB], object]
    stepwise: bool = False
    unchanging: bool = False
    optional: bool = False
    arrange: Callable[[MemDB], object] = id
    invisible: tuple[str, ...] = ()

    def visible(self, dumped: list[Any]) -> list[Any]:
        """Return the tables of *dumped* that a failed call has to leave alone."""
        return [table for table in dumped if table[0] not in self.invisible]

    def counts(self, dumped: list[Any]) -> dict[str, int]:
        """Return the number of rows of each of those tables."""
        return {table: len(rows) for table, rows in self.visible(dumped)}


class Summarizer:
    """Answers at once with a text that says what span it was asked for."""

    name = "spans"
    quality = "model"

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a short text."""
        return SummaryText(f"depth {depth} from {source[0].first_seq}", "more")


def prepare(db: MemDB, user: str = "ann", app: str = "default") -> None:
    """Give a user one of everything, embedded."""
    ann = db.scope(user, app)
    trip = ann.session("trip")
    trip.extend(
        [{"role": "user", "text": f"message {n} 北京", "external_id": f"m{n}"} for n in range(3)]
    )
    ann.remember("Ann lives in Oslo.", key="home", session="trip", seq=1)
    ann.remember("Ann has a red lamp.", key="lamp", writer="mail")
    for text in ("soup", "fish"):
        trip.artifacts.save("menu.md", text)
    ann.session("cold").extend([{"role": "user", "text": f"cold {n} 北京"} for n in range(3)])
    ann.session("cold").archive(keep_last=1)
    ann.session("long").extend([{"role": "user", "text": f"tea {n} 北京"} for n in range(10)])
    ann.session("long").archive(keep_last=4)
    db.jobs.run()
    trip.append("user", "not embedded yet")
    ann.session("long").extend([{"role": "user", "text": f"cake {n} 北京"} for n in range(9)])
    ann.session("due").extend([{"role": "user", "text": f"tea {n}"} for n in range(10)])
    ann.items.put(("notes", "trip"), "tent", {"text": "Pack the tent for 北京.", "stars": 3})
    ann.items.put(("notes",), "raw", bytes(range(64)), index=False)
    ann.items.put(("n",), "near", "x", vectors=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    ann.items.put(("notes", "short"), "soon", {"text": "It lives a day."}, ttl="1d")
    for state in (trip.state, ann.state, db.shared(app).state):
        state.update(colour="red", size=3)


def entry(db: MemDB, key: str = "home") -> int:
    """Return the id of one of Ann's entries."""
    found = db.scope("ann").entries.find(key)
    assert found is not None
    return found.id


SYNC_KEY = "abcd-abcd-abcd-abcd-abcd-abcd-abcd-abcd"

_folder: list[TemporaryDirectory[str]] = []


def beside(db: MemDB, name: str) -> Path:
    """Return a path in the folder of the file; over a server in a folder of this process."""
    if not is_address(str(db.path)):
        return Path(db.path).parent / name
    if not _folder:
        _folder.append(TemporaryDirectory(prefix="memdb-"))
    return Path(_folder[0].name) / name


def import_lines(db: MemDB) -> object:
    """Import a conversation of three messages."""
    source = beside(db, "talk.jsonl")
    lines = [{"role": "user", "content": f"imported {n}"} for n in range(3)]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return db.import_file(source, user="bob", session="imported")


def export_and_import(db: MemDB) -> object:
    """Export Ann's memory and import it into another app."""
    target = beside(db, "ann.jsonl")
    db.export(target, user="ann", replace=True)
    return db.import_file(target, user="eve")


def sync(db: MemDB) -> object:
    """Tell a folder what is new, and merge what another file told there."""
    folder = beside(db, f"folder of {Path(db.path).stem}") / "meeting"
    folder.mkdir(parents=True, exist_ok=True)
    with memdb.open(
        folder.parent / "other.db", embedder=None, counter="estimate", clock=db._db.clock
    ) as other:
        far = other.scope("ann").session("far")
        if not far.last_seq:  # the same however often it is called
            far.append("user", "from another device")
        other.sync(folder, pairing_key=SYNC_KEY)
    return db.sync(folder, pairing_key=SYNC_KEY)


def back_up(db: MemDB) -> object:
    """Copy the file; a copy that was acknowledged is whole."""
    target = beside(db, "copy.db")
    size = db.file.backup(target, replace=True)
    copy = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READONLY, vfs="unix")
    copy.exec_trace = None  # looked at without faults
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    copy.close()
    return size


def create(db: MemDB) -> object:
    """Make another file; what is half made is no obstacle to the next try."""
    target = beside(db, "new.db")
    with memdb.open(target, embedder=None, counter="estimate") as new:
        new.scope("ann").session("s").append("user", "first")
        return new.file.info()


def make_old(db: MemDB) -> object:
    """Make the file that `migrate` opens."""
    target = beside(db, "old.db")
    for path in target.parent.glob("old.db*"):
        path.unlink()
    with memdb.open(target, embedder=None, counter="estimate") as old:
        return old.scope("ann").session("s").append("user", "first")


def next_format() -> contextlib.AbstractContextManager[object]:
    """Let the format of memdb be one more."""
    return memdb_of(VARIANTS["everything made anew"])


def migrate(db: MemDB) -> object:
    """Open a file of this format with a memdb whose format is one more."""
    target = beside(db, "old.db")
    with next_format(), memdb.open(target, embedder=None, counter="estimate") as new:
        assert new.scope("ann").session("s").last_seq == 1
    return None


def make_damaged(db: MemDB) -> object:
    """Make the file that is restored or recovered, and its backup."""
    make_old(db)
    with memdb.open(beside(db, "old.db"), embedder=None, counter="estimate") as old:
        return old.file.backup(beside(db, "old.backup"), replace=True)


def restore(db: MemDB) -> object:
    """Put a backup in place of a file; one that was acknowledged opens."""
    done = memdb.restore(beside(db, "old.backup"), beside(db, "old.db"))
    with memdb.open(beside(db, "old.db"), embedder=None, counter="estimate") as old:
        assert old.scope("ann").session("s").last_seq == 1
    return done


def recover(db: MemDB) -> object:
    """Make a sound file of another one."""
    for path in beside(db, "").glob("saved.db*"):
        path.unlink()
    return memdb.recover(beside(db, "old.db"), beside(db, "saved.db"))


def together(db: MemDB) -> object:
    """Write in one transaction of the file, and in one of a session's host."""
    with db.transaction():
        db.scope("ann").session("trip").append("user", "in a transaction")
        db.scope("ann").remember("Ann likes trains.")
    return None


def together_in_host(db: MemDB) -> object:
    """Prepare messages and an entry, and store both in one transaction."""
    ann = db.scope("ann")
    host = Host(ann.session("trip"))
    add = host.prepare([{"role": "user", "text": "prepared"}])
    keep = HostEntries(ann).prepare({"text": "Ann likes trams."})
    with host.transaction(savepoints=False):
        add()
        keep()
    return None


def set_state(db: MemDB) -> object:
    """Set and remove keys of a session, of a user and of an app."""
    ann = db.scope("ann")
    with db.transaction():
        for state in (ann.session("trip").state, ann.state, db.shared().state):
            state["shape"] = {"round": True}
            del state["size"]
    return None


def change_state(db: MemDB) -> object:
    """Change one key and remove another, each at the version that it was read at."""
    state = db.scope("ann").state
    with db.transaction():
        state.put("colour", "blue", expected=1)
        return state.delete("size", expected=1)


def work_in_thread(db: MemDB) -> object:
    """Let a worker do what is due, and raise what stopped it."""
    try:
        worker = db.jobs.start(interval_s=0.01)
        worker.stop()
    finally:
        db.jobs._close()
    return db.jobs.run(due=True)


def _ann(act: Callable[[Scope], object]) -> Callable[[MemDB], object]:
    return lambda db: act(db.scope("ann"))


def _branch(chat: Session, name: str) -> Session:
    """Return a branch, that leaves after message 12 if it is new."""
    is_here = name in {one.name for one in chat.branches()}
    return chat.branch(name, None if is_here else 12)


def _branched(chat: Session) -> None:
    """Give a session two branches, the second of which leaves the first, with summaries."""
    other = _branch(chat, "other")
    other.extend([{"role": "user", "text": f"other {number}"} for number in range(5)])
    other.branch("third").append("user", "third")
    other.summaries.compact(keep_last=None)


def _sharing(chat: Session) -> None:
    """Let two branches share messages of each other and of their session, after a gap."""
    _branch(chat, "other").append("user", "other")
    _branch(chat, "third").append("user", "third")
    chat.replace([3])
    chat.summaries.compact(keep_last=None)


def _in(name: str, act: Callable[[Session], object]) -> Callable[[MemDB], object]:
    return lambda db: act(db.scope("ann").session(name))


def _many(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "text": text} for text in texts]


def first(chat: Session) -> str:
    """Return the id of the first summary of messages."""
    return chat.summaries.list(depth=0, limit=1)[0].id


def _fill_tail(db: MemDB) -> None:
    """Leave room for one message in the tail of the index."""
    with db._db.write() as tx:
        tx.words.move_tail()
    db.scope("ann").session("trip").extend(_many(*["tail"] * (MAX_ROWS - 1)))


WRITES: dict[str, Write] = {
    "append": Write(
        ("Session.append",),
        _in("trip", lambda chat: chat.append("user", "more 北京", external_id="m9")),
    ),
    "append that makes summaries due": Write(
        ("Session.append",), _in("long", lambda chat: chat.append("user", "the twentieth"))
    ),
    "append that moves the tail": Write(
        ("Session.append",),
        _in("trip", lambda chat: chat.append("user", "the last of the tail")),
        arrange=_fill_tail,
    ),
    "append to a new scope": Write(
        ("Session.append",), lambda db: db.scope("bob").session("s").append("user", "first")
    ),
    "extend": Write(("Session.extend",), _in("trip", lambda chat: chat.extend(_many("a", "b")))),
    "append from a provider": Write(
        ("Session.append",),
        _in("trip", lambda chat: chat.append([{"role": "model", "parts": [{"text": "a"}]}])),
    ),
    "branch": Write(("Session.branch",), _in("trip", lambda chat: chat.branch("other", 2))),
    "branch of a branch": Write(
        ("Session.branch",),
        _in("trip", lambda chat: chat.branch("other").branch("third", 1)),
        arrange=_in("trip", lambda chat: chat.branch("other")),
    ),
    "append to a branch": Write(
        ("Session.append",),
        _in("long", lambda chat: chat.branch("other").append("user", "more", external_id="m9")),
        arrange=_in("long", lambda chat: chat.branch("other", 12)),
    ),
    "delete what is shared": Write(
        ("Session.delete",),
        _in("long", lambda chat: chat.branch("other").delete([2, 13])),
        arrange=_in("long", _branched),
    ),
    "delete a branch": Write(
        ("Session.delete",),
        _in("long", lambda chat: chat.branch("other").delete(force=True)),
        arrange=_in("long", _branched),
    ),
    "pop what is shared": Write(
        ("Session.pop",),
        _in("long", lambda chat: chat.pop()),
        arrange=_in("long", lambda chat: chat.branch("other").branch("third")),
    ),
    "replace a message of a branch": Write(
        ("Session.replace",),
        _in("long", lambda chat: chat.branch("other").replace([3, 13], _many("new"))),
        arrange=_in("long", _branched),
    ),
    "replace a message that branches share": Write(
        ("Session.replace",),
        _in("long", lambda chat: chat.replace([3, 5], _many("new"))),
        arrange=_in("long", _branched),
    ),
    "pop a message that branches share": Write(
        ("Session.pop",),
        _in("long", lambda chat: chat.branch("other").pop()),
        arrange=_in("long", _branched),
    ),
    "clear a session that branches share": Write(
        ("Session.clear",),
        _in("long", lambda chat: chat.clear()),
        arrange=_in("long", _branched),
    ),
    "delete a branch that others share with": Write(
        ("Session.delete",),
        _in("long", lambda chat: chat.branch("other").delete()),
        arrange=_in("long", _sharing),
    ),
    "forget a message that is shared after a gap": Write(
        ("Session.forget",),
        _in("long", lambda chat: chat.branch("third").forget([4, 5])),
        arrange=_in("long", _sharing),
    ),
    "clear a branch": Write(
        ("Session.clear",),
        _in("long", lambda chat: chat.branch("other").clear()),
        arrange=_in("long", _branched),
    ),
    "fork": Write(("Session.fork",), _in("cold", lambda chat: chat.fork("copy"))),
    "extract": Write(("Session.extract",), _in("due", lambda chat: chat.extract()), stepwise=True),
    "context": Write(
        ("Session.context", "Host.context"),
        _in("due", lambda chat: [at.context(200, "tea") for at in (chat, Host(chat))]),
        stepwise=True,
        optional=True,
    ),
    "recall that embeds": Write(
        ("Scope.recall", "Session.recall"),
        _ann(lambda ann: (ann.recall("lamp"), ann.session("trip").recall("not embedded"))),
        stepwise=True,
        optional=True,
    ),
    "archive": Write(("Session.archive",), _in("trip", lambda chat: chat.archive(keep_last=1))),
    "archive more": Write(
        ("Session.archive",), _in("cold", lambda chat: chat.archive(keep_last=0))
    ),
    "unarchive": Write(("Session.unarchive",), _in("cold", lambda chat: chat.unarchive())),
    "unarchive under summaries": Write(
        ("Session.unarchive",), _in("long", lambda chat: chat.unarchive())
    ),
    "delete messages": Write(("Session.delete",), _in("trip", lambda chat: chat.delete([2]))),
    "delete a session": Write(("Session.delete",), _in("trip", lambda chat: chat.delete())),
    "delete an archived session": Write(
        ("Session.delete",), _in("cold", lambda chat: chat.delete())
    ),
    "delete a summarised session": Write(
        ("Session.delete",), _in("long", lambda chat: chat.delete())
    ),
    "undo": Write(("Scope.undo",), _ann(lambda ann: ann.undo(writer="mail"))),
    "delete in a scope": Write(("Scope.delete",), _ann(lambda ann: ann.delete(session="long"))),
    "forget messages": Write(("Session.forget",), _in("cold", lambda chat: chat.forget([1, 3]))),
    "forget a session": Write(("Scope.forget",), _ann(lambda ann: ann.forget(session="cold"))),
    "forget an entry": Write(("Scope.forget",), lambda db: db.scope("ann").forget(entry=entry(db))),
    "forget words": Write(
        ("Scope.forget",), _ann(lambda ann: ann.forget(query="北京", artifacts=True))
    ),
    "forget everything": Write(("Scope.forget",), _ann(lambda ann: ann.forget(everything=True))),
    "forget and prove": Write(
        ("Scope.forget",),
        _ann(lambda ann: ann.forget(session="cold", prove=True)),
        stepwise=True,
    ),
    "remember": Write(
        ("Scope.remember",), _ann(lambda ann: ann.remember("Ann likes tea.", keywords=["drink"]))
    ),
    "remember a key again": Write(
        ("Scope.remember",), _ann(lambda ann: ann.remember("Ann lives in Bergen.", key="home"))
    ),
    "remember for all": Write(
        ("MemDB.shared", "Scope.remember"),
        lambda db: db.shared().remember("The house is cold.", key="house"),
    ),
    "update": Write(
        ("Entries.update",),
        lambda db: db.scope("ann").entries.update(entry(db), text="Ann lives in Bergen."),
    ),
    "switch off": Write(
        ("Entries.update",), lambda db: db.scope("ann").entries.update(entry(db), active=False)
    ),
    "pin": Write(
        ("Entries.update",), lambda db: db.scope("ann").entries.update(entry(db), pinned=True)
    ),
    "pin and unpin": Write(
        ("Entries.update",),
        lambda db: (
            db.scope("ann").entries.update(entry(db), pinned=True),
            db.scope("ann").entries.update(entry(db), pinned=False),
        ),
        stepwise=True,
    ),
    "set_trust": Write(
        ("Entries.update",),
        lambda db: db.scope("ann").entries.update(entry(db), trust="flagged"),
    ),
    "supersede": Write(
        ("Entries.supersede",),
        lambda db: db.scope("ann").entries.supersede(entry(db), entry(db, "lamp")),
    ),
    "unlink": Write(
        ("Scope.remember", "Entries.unlink"),
        lambda db: (
            first := db.scope("ann").remember("The rent is 14,500 a month.").entry,
            new := db.scope("ann").remember("Correction: the rent is 15,400, not 14,500.").entry,
            db.scope("ann").entries.unlink(new.id, first.id),
        ),
        stepwise=True,
    ),
    "revert": Write(
        ("Entries.revert",),
        lambda db: (
            db.scope("ann").entries.update(entry(db), text="Ann lives in Bergen."),
            db.scope("ann").entries.revert(entry(db), 1),
        ),
        stepwise=True,
    ),
    "revive": Write(
        ("Entries.supersede", "Entries.update"),
        lambda db: (
            every := db.scope("ann").entries.list(inactive=True),  # a try before got half the way
            old := {one.key: one for one in every}["home"],
            old.active and db.scope("ann").entries.supersede(old.id, entry(db, "lamp")),
            db.scope("ann").entries.update(old.id, active=True),
        ),
        stepwise=True,
    ),
    "delete an entry": Write(
        ("Entries.delete",), lambda db: db.scope("ann").entries.delete(entry(db))
    ),
    "save": Write(
        ("Artifacts.save",),
        _in("trip", lambda chat: chat.artifacts.save("menu.md", "cake", message_seq=1)),
    ),
    "save to a new session": Write(
        ("Artifacts.save",), _in("new", lambda chat: chat.artifacts.save("a.md", "cake"))
    ),
    "save a stream": Write(
        ("Artifacts.save",),
        _ann(lambda ann: ann.artifacts.save("large", io.BytesIO(LARGE))),
        invisible=("blobs", "blob_chunks"),
    ),
    "save and keep one": Write(
        ("Artifacts.save",),
        _in("trip", lambda chat: chat.artifacts.save("menu.md", "x", keep_last=1)),
    ),
    "rename": Write(
        ("Artifacts.rename",),
        _in("trip", lambda chat: chat.artifacts.rename("menu.md", "card.md", expected=2)),
    ),
    "delete a version": Write(
        ("Artifacts.delete",), _in("trip", lambda chat: chat.artifacts.delete("menu.md", 2))
    ),
    "delete an artifact": Write(
        ("Artifacts.delete",), _in("trip", lambda chat: chat.artifacts.delete("menu.md"))
    ),
    "put": Write(
        ("Items.put",), _ann(lambda ann: ann.items.put(("notes", "new"), "k", {"text": "a 北京"}))
    ),
    "put again": Write(
        ("Items.put",),
        _ann(lambda ann: ann.items.put(("notes", "trip"), "tent", {"text": "Sell the tent."})),
    ),
    "put with vectors": Write(
        ("Items.put",),
        _ann(lambda ann: ann.items.put(("n",), "k", "x", vectors=[[1.0, 2.0], [2.0, 1.0]])),
    ),
    "put fewer vectors": Write(
        ("Items.put",), _ann(lambda ann: ann.items.put(("n",), "near", "x", vectors=[[1.0, 2.0]]))
    ),
    "put at a version": Write(
        ("Items.put",),
        _ann(lambda ann: ann.items.put(("notes",), "raw", b"x", expected=1, ttl=60)),
    ),
    "delete an item": Write(
        ("Items.delete",), _ann(lambda ann: ann.items.delete(("notes", "trip"), "tent"))
    ),
    "clear items": Write(("Items.clear",), _ann(lambda ann: ann.items.clear(("notes",)))),
    "remove expired items": Write(
        ("Items.clear",), _ann(lambda ann: ann.items.clear(expired=True)), unchanging=True
    ),
    "read and refresh": Write(
        ("Items.find", "Items.get", "Items.list", "Items.recall"),
        _ann(lambda ann: ann.items.list(("notes", "short"), refresh=True)),
        unchanging=True,  # the clock stands still
    ),
    "batch": Write(
        ("Items.batch",),
        _ann(
            lambda ann: ann.items.batch(
                [
                    PutItem(("notes",), "b1", {"text": "one"}),
                    DeleteItem(("notes", "trip"), "tent"),
                    FindItem(("notes", "short"), "soon", refresh=True),
                    PutItem(("notes",), "raw", [1, 2], expected=1),
                ]
            )
        ),
    ),
    "set state": Write(("State.__setitem__", "State.__delitem__"), set_state),
    "put state at a version": Write(("State.put", "State.delete"), change_state),
    "update state": Write(
        ("State.update",), _ann(lambda ann: ann.state.update(colour="blue", more=[1, 2]))
    ),
    "clear state": Write(("State.clear",), _ann(lambda ann: ann.state.clear())),
    "pop state": Write(
        ("State.pop", "State.popitem", "State.setdefault"),
        _ann(lambda ann: (ann.state.pop("size", None), ann.state.setdefault("age", 3))),
        stepwise=True,
    ),
    "create a session": Write(
        ("Host.create", "Session.create"),
        _in("born", lambda chat: Host(chat).create(title="t", state={"a": 1}, app_state={"b": 2})),
    ),
    "date a session": Write(
        ("Host.date",), _in("trip", lambda chat: Host(chat).date(created=1, updated=2))
    ),
    "commit": Write(
        ("Host.commit",),
        _in(
            "trip",
            lambda chat: Host(chat).commit(
                {"role": "user", "text": "with state"}, state={"a": 1}, user_state={"c": 3}
            ),
        ),
    ),
    "prepare and store together": Write(
        ("Host.prepare", "Host.transaction", "Transaction"), together_in_host
    ),
    "pop": Write(("Session.pop",), _in("trip", lambda chat: chat.pop())),
    "replace": Write(
        ("Session.replace",), _in("trip", lambda chat: chat.replace([1, 2], _many("other")))
    ),
    "clear": Write(("Session.clear",), _in("long", lambda chat: chat.clear())),
    "edit": Write(("Session.edit",), _in("trip", lambda chat: chat.edit(2, _many("other")[0]))),
    "title": Write(("Session.update",), _in("trip", lambda chat: chat.update(title="other"))),
    "erase": Write(("Host.erase",), _in("trip", lambda chat: Host(chat).erase(2))),
    "rewrite": Write(
        ("Summaries.rewrite",),
        _in("long", lambda chat: chat.summaries.rewrite(first(chat), "other")),
    ),
    "drop": Write(
        ("Summaries.delete",), _in("long", lambda chat: chat.summaries.delete(first(chat)))
    ),
    "upgrade": Write(("Summaries.upgrade",), _in("long", lambda chat: chat.summaries.upgrade())),
    "upgrade and improve": Write(
        ("Summaries.upgrade", "Jobs.run"),
        lambda db: (
            db.scope("ann").session("long").summaries.upgrade(),
            db.jobs.run(kinds=("summarize",)),
        ),
        stepwise=True,
    ),
    "compact": Write(
        ("Summaries.compact",),
        _in("due", lambda chat: chat.summaries.compact(keep_last=2)),
        stepwise=True,
    ),
    "prune and archive": Write(
        ("Summaries.compact",),
        _in("long", lambda chat: chat.summaries.compact(keep_last=1)),
        stepwise=True,
    ),
    "compact for a model": Write(
        ("Tools.call",),
        _in("due", lambda chat: chat.tools().call("memory_compact")),
        stepwise=True,
    ),
    "run": Write(("Jobs.run",), lambda db: db.jobs.run(), stepwise=True, invisible=("jobs",)),
    "summarize": Write(("Jobs.run",), lambda db: db.jobs.run(kinds=("summarize",)), stepwise=True),
    "run_due": Write(("Jobs.run",), lambda db: db.jobs.run(due=True), stepwise=True),
    "work in a thread": Write(("Jobs.start", "Worker.stop"), work_in_thread, stepwise=True),
    "write together": Write(("MemDB.transaction", "Transaction"), together),
    "change settings": Write(
        ("StoredSettings.update",), lambda db: db.settings.update(entry_quota=500)
    ),
    "import": Write(("MemDB.import_file", "memdb.watch_folder"), import_lines, stepwise=True),
    "export and import": Write(
        ("MemDB.export", "MemDB.import_file"), export_and_import, stepwise=True
    ),
    "sync": Write(("MemDB.sync",), sync, stepwise=True, invisible=("meta", "synced")),
    "rebuild": Write(
        ("File.rebuild",), lambda db: db.file.rebuild(), unchanging=True, invisible=("jobs",)
    ),
    "vacuum": Write(("File.vacuum",), lambda db: db.file.vacuum(), unchanging=True),
    "vacuum whole": Write(("File.vacuum",), lambda db: db.file.vacuum(whole=True), unchanging=True),
    "delete_space": Write(
        ("File.delete_space",), lambda db: db.file.delete_space("e", 8), stepwise=True
    ),
    "backup": Write(("File.backup",), back_up, unchanging=True),
    "create a file": Write(("memdb.open",), create, unchanging=True),
    "restore": Write(("memdb.restore",), restore, unchanging=True, arrange=make_damaged),
    "recover": Write(("memdb.recover",), recover, unchanging=True, arrange=make_damaged),
    "migrate": Write(("memdb.open",), migrate, unchanging=True, arrange=make_old),
}


def every_write(step: int = 1) -> pytest.MarkDecorator:
    """Walk a test over all writes; all but every *step*-th of them are slow."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[pytest.mark.slow] if number % step else [])
            for number, name in enumerate(WRITES)
        ],
    )


# Public calls that write nothing into the file: no fault can leave anything half done.
READS = {
    "Artifacts": "diff export list load open versions",
    "Entries": "find get history links list replaced",
    "File": "check copy count_tokens info",
    "Host": "segments snapshot window",
    "Items": "keys namespaces",
    "Jobs": "pending",
    "MemDB": "changes close closed export_lines file jobs path query scope scopes settings stats sync_status user watch",
    "Scope": "app artifacts counts entries find_secrets items profile session sessions state user "
    "why",
    "Session": "artifacts branch_name branches find get given head last last_seq messages parent "
    "metadata name state summaries title tools",
    "State": "all find get items keys values",
    "StoredSettings": "categories get prompts",
    "Summaries": "expand list tree",
    "Tools": "schemas",
    "Worker": "error running",
    "Transaction": "",
}

# The table of HTTP calls what the other modules have, and nothing else; adapters use the threads.
# What surrounds each public call are decorators of classes, and no calls of a user.
TABLE = ("verbs", "pages", "signatures", "threads", "calls")
PLACES = [
    f"memdb.api.{m.name}"
    for m in pkgutil.iter_modules(api.__path__)
    if m.name[0] != "_" and m.name not in TABLE
]

# What stands around it and is a function of `memdb`, or of its command line.
AROUND = {"memdb.recover", "memdb.restore", "memdb.watch_folder"}


def public_calls() -> set[str]:
    """Return the names of all public calls, such as "Session.append"."""
    calls = {
        f"{kind.__name__}.{name}"
        for kind in CLASSES
        for name in dir(kind)
        if not name.startswith("_") or name in ("__setitem__", "__delitem__")
        if not inspect.ismemberdescriptor(getattr(kind, name))
    }
    functions = {
        f"memdb.{name}"
        for module in map(importlib.import_module, PLACES)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    return calls | functions | AROUND
