"""The secret policy of the settings holds for every public write that takes a text."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import Host, HostEntries
from memdb.formats.importing import watch_folder
from memdb.models.settings import ACTIONS

from .writes import WRITES, beside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB
    from memdb.api.scope import Scope
    from memdb.api.session import Session

KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SAID = f"Use {KEY} for it."


def _ann(act: Callable[[Scope], object]) -> Callable[[MemDB], object]:
    return lambda db: act(db.scope("ann"))


def _in(act: Callable[[Session], object], name: str = "trip") -> Callable[[MemDB], object]:
    return lambda db: act(db.scope("ann").session(name))


def _append(**fields: Any) -> Callable[[MemDB], object]:
    return _in(lambda chat: chat.append("user", **{"text": "hi", **fields}))


def _update(**fields: Any) -> Callable[[MemDB], object]:
    def act(db: MemDB) -> object:
        found = db.scope("ann").entries.find("home")
        assert found is not None
        return db.scope("ann").entries.update(found.id, **fields)

    return act


def _watch(db: MemDB) -> object:
    """Watch a folder of a note that says a secret."""
    note = beside(db, "watched.md")
    note.write_text(SAID, encoding="utf-8")
    return next(watch_folder(db, note, user="ann"))


def _import(**line: Any) -> Callable[[MemDB], object]:
    def act(db: MemDB) -> object:
        source = beside(db, "talk.jsonl")
        source.write_text(json.dumps(line) + "\n", encoding="utf-8")
        return db.import_file(source, user="ann", session="imported")

    return act


def _import_export(fill: Callable[[MemDB], object]) -> Callable[[MemDB], object]:
    """Import what a file exported that allows secrets."""

    def act(db: MemDB) -> object:
        target = beside(db, "other.jsonl")
        allow = {"secrets_in_messages": "allow", "secrets_in_entries": "allow"}
        with memdb.open(":memory:", embedder=None, counter="estimate", settings=allow) as other:
            prepare(other)
            fill(other)
            other.export(target, replace=True)
        return db.import_file(target, user="eve")

    return act


def _set(key: str, value: Any) -> Callable[[MemDB], object]:
    def act(db: MemDB) -> None:
        db.scope("ann").state[key] = value

    return act


def _state_of_app(db: MemDB) -> None:
    db.scope("ann").session("x").append("user", "hi")
    db.shared().state["note"] = SAID


def _rewrite(db: MemDB) -> None:
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"hi {number}"} for number in range(10)])
    db.jobs.run()
    done = chat.summaries.rewrite("1-10", "Greetings.", hint=SAID)
    chat.append("user", done.hint or "", secrets="allow")  # an export holds no summaries


def _together(db: MemDB) -> None:
    host = Host(db.scope("ann").session("trip"))
    add = host.prepare([{"role": "user", "text": SAID}])
    with host.transaction(savepoints=False):
        add()


# By the public calls that take the text: a call that says it.
TEXTS: dict[str, tuple[str, Callable[[MemDB], object]]] = {
    "text": ("Session.append", _append(text=SAID)),
    "parts": ("Session.append", _append(parts=[{"type": "text", "text": SAID}])),
    "provider's message": (
        "Session.append",
        _in(lambda chat: chat.append({"role": "developer", "content": SAID})),
    ),
    "metadata": ("Session.append", _append(metadata={"note": SAID})),
    "named metadata": ("Session.append", _append(metadata={"password": f"x{KEY[4:20]}"})),
    "author": ("Session.append", _append(author=KEY)),
    "external id": ("Session.append", _append(external_id=KEY)),
    "name of a session": ("Session.append", _in(lambda chat: chat.append("user", "hi"), KEY)),
    "extend": (
        "Session.extend",
        _in(lambda chat: chat.extend([{"role": "user", "text": SAID}])),
    ),
    "branch": ("Session.branch", _in(lambda chat: chat.branch(KEY))),
    "fork": ("Session.fork", _in(lambda chat: chat.fork(KEY))),
    "create name": ("Session.create", _in(lambda chat: chat.create(), KEY)),
    "create title": ("Session.create", _in(lambda chat: chat.create(title=SAID), "new")),
    "create metadata": (
        "Session.create",
        _in(lambda chat: chat.create(metadata={"note": [SAID]}), "new"),
    ),
    "create state": (
        "Host.create",
        _in(lambda chat: Host(chat).create(user_state={"note": SAID}), "new"),
    ),
    "commit": ("Host.commit", _in(lambda chat: Host(chat).commit({"role": "user", "text": SAID}))),
    "commit state": (
        "Host.commit",
        _in(lambda chat: Host(chat).commit({"role": "user", "text": "a"}, state={"note": SAID})),
    ),
    "commit metadata": (
        "Host.commit",
        _in(lambda chat: Host(chat).commit({"role": "user", "text": "a"}, metadata={"n": SAID})),
    ),
    "prepare": ("Host.prepare Host.transaction Transaction", _together),
    "edit": (
        "Session.edit",
        _in(lambda chat: chat.edit(1, {"role": "user", "text": SAID})),
    ),
    "summary": ("Summaries.rewrite", _rewrite),
    "title": ("Session.update", _in(lambda chat: chat.update(title=SAID))),
    "replace": (
        "Session.replace",
        _in(lambda chat: chat.replace([1], [{"role": "user", "text": SAID}])),
    ),
    "state": ("State.__setitem__", _set("note", {"deep": [SAID]})),
    "state key": ("State.__setitem__", _set(KEY, 1)),
    "state of an app": ("State.__setitem__", _state_of_app),
    "state of a session": (
        "State.update",
        _in(lambda chat: chat.state.update(note=SAID)),
    ),
    "state of a session of that name": (
        "State.update",
        _in(lambda chat: chat.state.update(note=1), KEY),
    ),
    "state of a version": (
        "State.put",
        _ann(lambda ann: ann.state.put("note", SAID, expected=0)),
    ),
    "name of an artifact": (
        "Artifacts.rename",
        _ann(lambda ann: (ann.artifacts.save("a.md", "a"), ann.artifacts.rename("a.md", KEY))),
    ),
    "setdefault": (
        "State.pop State.popitem State.setdefault",
        _ann(lambda ann: ann.state.setdefault("note", SAID)),
    ),
    "item": ("Items.put", _ann(lambda ann: ann.items.put(("n",), "k", {"deep": [SAID]}))),
    "item key": ("Items.put", _ann(lambda ann: ann.items.put(("n",), KEY, 1))),
    "item namespace": ("Items.put", _ann(lambda ann: ann.items.put((KEY,), "k", 1))),
    "item metadata": (
        "Items.put",
        _ann(lambda ann: ann.items.put(("n",), "k", 1, metadata={"note": SAID})),
    ),
    "item of a batch": (
        "Items.batch",
        _ann(lambda ann: ann.items.batch([memdb.PutItem(("n",), "k", SAID)])),
    ),
    "import an item": (
        "MemDB.import_file",
        _import(kind="item", namespace=["n"], key="k", value={"note": SAID}),
    ),
    "artifact": ("Artifacts.save", _in(lambda chat: chat.artifacts.save("a.md", SAID))),
    "artifact bytes": (
        "Artifacts.save",
        _in(lambda chat: chat.artifacts.save("a.bin", SAID.encode())),
    ),
    "artifact stream": (
        "Artifacts.save",
        _ann(lambda ann: ann.artifacts.save("a.md", io.BytesIO(SAID.encode()))),
    ),
    "artifact name": ("Artifacts.save", _ann(lambda ann: ann.artifacts.save(KEY, "a"))),
    "artifact metadata": (
        "Artifacts.save",
        _ann(lambda ann: ann.artifacts.save("a.md", "a", metadata={"note": SAID})),
    ),
    "artifact of a session of that name": (
        "Artifacts.save",
        _in(lambda chat: chat.artifacts.save("a.md", "a"), KEY),
    ),
    "remember": ("Scope.remember", _ann(lambda ann: ann.remember(SAID))),
    "keywords": ("Scope.remember", _ann(lambda ann: ann.remember("a fact", keywords=[KEY]))),
    "entry metadata": (
        "Scope.remember",
        _ann(lambda ann: ann.remember("a fact", metadata={"note": SAID})),
    ),
    "key": ("Scope.remember", _ann(lambda ann: ann.remember("a fact", key=KEY))),
    "source": ("Scope.remember", _ann(lambda ann: ann.remember("a fact", writer=KEY))),
    "shared": ("MemDB.shared", lambda db: db.shared().remember(SAID)),
    "prepared entry": (
        "Scope.remember",
        lambda db: HostEntries(db.scope("ann")).prepare({"text": SAID})(),
    ),
    "update": ("Entries.update", _update(text=SAID)),
    "update keywords": ("Entries.update", _update(keywords=[KEY])),
    "update metadata": ("Entries.update", _update(metadata={"note": SAID})),
    "import a message": ("MemDB.import_file", _import(role="user", content=SAID)),
    "import an entry": ("MemDB.import_file", _import(kind="entry", text=SAID)),
    "import a source": ("MemDB.import_file", _import(kind="entry", text="a fact", writer=KEY)),
    "import an artifact": ("MemDB.import_file", _import(kind="artifact", name="a", text=SAID)),
    "a watched note": ("memdb.watch_folder", _watch),
    "import a title": ("MemDB.import_file", _import(kind="session", name="s", title=SAID)),
    "import a message's metadata": (
        "MemDB.export",
        _import_export(_append(metadata={"note": SAID})),
    ),
}
for _name in ("name of a session", "create title", "create metadata", "state", "state key"):
    TEXTS[f"import of an export: {_name}"] = ("MemDB.import_file", _import_export(TEXTS[_name][1]))
for _name in ("artifact", "artifact metadata", "item", "remember", "source", "entry metadata"):
    TEXTS[f"import of an export: {_name}"] = ("MemDB.import_file", _import_export(TEXTS[_name][1]))

# They take no text that is stored, or only what a file of memdb holds already.
WITHOUT_TEXT = set(
    """
    Artifacts.delete Entries.delete Entries.revert
    Entries.supersede Entries.unlink
    Host.context Items.clear Items.delete Items.find Items.get Items.list Items.recall
    File.backup File.delete_space File.rebuild File.vacuum Session.clear Host.date Host.erase Jobs.run
    Jobs.start MemDB.sync MemDB.transaction Scope.delete Scope.forget Scope.recall Scope.undo Session.archive
    Session.context Session.delete Session.extract Session.forget Session.pop Session.recall Session.unarchive
    State.__delitem__ State.clear State.delete StoredSettings.update Summaries.compact Summaries.delete
    Summaries.upgrade
    Tools.call Worker.stop memdb.open memdb.recover memdb.restore
    """.split()
)


def prepare(db: MemDB) -> None:
    """Give Ann a session of two messages and an entry."""
    db.scope("ann").session("trip").extend([{"role": "user", "text": "hi"} for _ in range(2)])
    db.scope("ann").remember("Ann lives in Oslo.", key="home")


def test_every_write_is_here() -> None:
    """A new public write that takes a text has to be in the table."""
    tested = {call for covers, _ in TEXTS.values() for call in covers.split()}
    written = {call for write in WRITES.values() for call in write.covers}

    assert written - WITHOUT_TEXT == tested
    assert written >= WITHOUT_TEXT


def test_a_long_stream_is_stored_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too long to be searched keeps all of its bytes."""
    monkeypatch.setattr("memdb.artifacts.service.MAX_TEXT_BYTES", 1000)
    data = bytes(range(256)) * 20
    settings = {"secrets_in_messages": "refuse"}
    with memdb.open(tmp_path / "a.db", embedder=None, counter="estimate", settings=settings) as db:
        db.scope("ann").artifacts.save("a", io.BytesIO(data))
        assert db.scope("ann").artifacts.load("user:a").data == data


@pytest.mark.parametrize("name", TEXTS)
def test_a_secret_is_refused_redacted_or_allowed(tmp_path: Path, name: str) -> None:
    """As the settings say; nothing of it is written if it is refused."""
    _, act = TEXTS[name]
    secret = KEY[4:20] if name == "named metadata" else KEY
    for action in ACTIONS:
        settings = {"secrets_in_messages": action, "secrets_in_entries": action}
        path = tmp_path / f"{action}.db"
        with memdb.open(path, embedder=None, counter="estimate", settings=settings) as db:
            prepare(db)
            said = ""
            try:
                done = act(db)
                if isinstance(done, memdb.ImportReport):  # the other lines came in
                    said = ", ".join(one.why for one in done.left_out)
            except memdb.SecretFound as error:
                said = str(error)
            lines = "\n".join(db.export_lines())
        assert (secret in lines) == (action == "allow"), action
        assert secret not in said
        assert said or action != "refuse"
        assert not said or action != "allow"
        if action != "allow":
            assert all(secret.encode() not in one.read_bytes() for one in tmp_path.glob("re*.db*"))
