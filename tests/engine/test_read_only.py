"""A file opened with mode="read": every read answers, every write is refused, no byte changes."""

from __future__ import annotations

import hashlib
import inspect
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import Host
from memdb.api.collections import Artifacts, Entries, State, Summaries
from memdb.api.database import Jobs, StoredSettings
from memdb.api.file import File
from memdb.api.items import Items
from memdb.api.tools import Tools
from memdb.models.items import PutItem

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

# A process without rights of its own: modes of files and folders bind root too.
UNPRIVILEGED = """
import ctypes, os, struct, sys
if os.geteuid() == 0:
    header = struct.pack("II", 0x20080522, 0)
    assert ctypes.CDLL(None).capset(header, struct.pack("6I", 0, 0, 0, 0, 0, 0)) == 0
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="gives up its rights as Linux does")


class Asked(Exception):
    """A model or arbiter was asked."""


class Model:
    """A language model that must not be asked."""

    name = "never"

    def complete(self, *_: Any, **__: Any) -> str:
        """Fail the test."""
        raise Asked


def ann(db: MemDB) -> Any:
    return db.scope("ann")


def trip(db: MemDB) -> Any:
    return ann(db).session("trip")


def entry(db: MemDB) -> int:
    return ann(db).entries.list()[0].id


# Every public call that writes, by class and name.
WRITES: dict[tuple[type, str], Callable[[MemDB, str], object]] = {
    (memdb.MemDB, "transaction"): lambda db, _: db.transaction().__enter__(),
    (memdb.MemDB, "import_file"): lambda db, other: db.import_file(other, user="ann"),
    (memdb.MemDB, "sync"): lambda db, other: db.sync(other),
    (memdb.Scope, "remember"): lambda db, _: ann(db).remember("Ann likes cake."),
    (memdb.Scope, "undo"): lambda db, _: ann(db).undo(writer="mail"),
    (memdb.Scope, "delete"): lambda db, _: ann(db).delete(session="trip"),
    (memdb.Scope, "forget"): lambda db, _: ann(db).forget(query="tea"),
    (memdb.Session, "append"): lambda db, _: trip(db).append("user", "more"),
    (memdb.Session, "extend"): lambda db, _: trip(db).extend([{"role": "user", "text": "more"}]),
    (memdb.Session, "extract"): lambda db, _: trip(db).extract(),
    (memdb.Session, "branch"): lambda db, _: trip(db).branch("other"),
    (memdb.Session, "fork"): lambda db, _: trip(db).fork("copy"),
    (memdb.Session, "archive"): lambda db, _: trip(db).archive(keep_last=1),
    (memdb.Session, "unarchive"): lambda db, _: ann(db).session("cold").unarchive(),
    (memdb.Session, "delete"): lambda db, _: trip(db).delete(),
    (memdb.Session, "forget"): lambda db, _: trip(db).forget([1]),
    (Host, "create"): lambda db, _: Host(ann(db).session("new")).create(),
    (memdb.Session, "create"): lambda db, _: ann(db).session("new").create(),
    (Host, "date"): lambda db, _: Host(trip(db)).date(created=1),
    (Host, "commit"): lambda db, _: Host(trip(db)).commit({"role": "user", "text": "a"}),
    (Host, "transaction"): lambda db, _: Host(trip(db)).transaction().__enter__(),
    (memdb.Session, "pop"): lambda db, _: trip(db).pop(),
    (memdb.Session, "replace"): lambda db, _: trip(db).replace([1]),
    (memdb.Session, "clear"): lambda db, _: trip(db).clear(),
    (Host, "erase"): lambda db, _: Host(trip(db)).erase(1),
    (memdb.Session, "edit"): lambda db, _: trip(db).edit(1, {"role": "user", "text": "a"}),
    (memdb.Session, "update"): lambda db, _: trip(db).update(title="a"),
    (Summaries, "compact"): lambda db, _: trip(db).summaries.compact(keep_last=1),
    (Summaries, "upgrade"): lambda db, _: trip(db).summaries.upgrade(),
    (Entries, "update"): lambda db, _: ann(db).entries.update(entry(db), text="New."),
    (Summaries, "rewrite"): lambda db, _: trip(db).summaries.rewrite("1-10", "a"),
    (Summaries, "delete"): lambda db, _: trip(db).summaries.delete("1-10"),
    (Entries, "unlink"): lambda db, _: ann(db).entries.unlink(
        *[one.id for one in ann(db).entries.list()]
    ),
    (Entries, "supersede"): lambda db, _: ann(db).entries.supersede(
        *[one.id for one in ann(db).entries.list()]
    ),
    (Entries, "revert"): lambda db, _: ann(db).entries.revert(entry(db), 1),
    (Entries, "delete"): lambda db, _: ann(db).entries.delete(entry(db)),
    (Artifacts, "save"): lambda db, _: ann(db).artifacts.save("a", "b"),
    (Artifacts, "rename"): lambda db, _: trip(db).artifacts.rename("menu.md", "card.md"),
    (Items, "put"): lambda db, _: ann(db).items.put(("n",), "k", 1),
    (Items, "delete"): lambda db, _: ann(db).items.delete(("n",), "k"),
    (Items, "clear"): lambda db, _: ann(db).items.clear(("n",)),
    (Items, "batch"): lambda db, _: ann(db).items.batch([PutItem(("n",), "k", 1)]),
    (State, "put"): lambda db, _: ann(db).state.put("k", 1),
    (State, "delete"): lambda db, _: ann(db).state.delete("k"),
    (Artifacts, "delete"): lambda db, _: trip(db).artifacts.delete("menu.md"),
    (State, "update"): lambda db, _: ann(db).state.update(a=1),
    (State, "clear"): lambda db, _: ann(db).state.clear(),
    (Tools, "call"): lambda db, _: trip(db).tools().call("memory_compact"),
    (File, "rebuild"): lambda db, _: db.file.rebuild(),
    (File, "vacuum"): lambda db, _: db.file.vacuum(),
    (File, "delete_space"): lambda db, _: db.file.delete_space("static-en-1"),
    (Jobs, "run"): lambda db, _: db.jobs.run(),
    (Jobs, "start"): lambda db, _: db.jobs.start(),
    (StoredSettings, "update"): lambda db, _: db.settings.update(entry_quota=7),
}

# Every public call that only reads. `backup` and `export` write somewhere else.
READS: dict[type, str] = {
    memdb.MemDB: "path closed jobs file user scope shared settings scopes export export_lines query close "
    "stats changes watch sync_status",
    memdb.Scope: "app user session sessions counts recall why profile state entries items artifacts "
    "find_secrets",
    memdb.Session: "name title metadata branches branch_name parent last_seq messages last get find recall context given summaries head state "
    "tools artifacts",
    Host: "context prepare segments snapshot window",
    Summaries: "tree expand list",
    Entries: "get find history replaced links list",
    Artifacts: "load open export versions diff list",
    Items: "find get keys list namespaces recall",
    State: "all find",
    Tools: "schemas",
    File: "info check backup copy count_tokens",
    Jobs: "pending",
    StoredSettings: "get categories prompts",
}

READING = f"""{UNPRIVILEGED}
import memdb
with memdb.open(sys.argv[1], mode="read") as db:
    ann = db.scope("ann")
    print(len(ann.session("trip").last(5)), len(ann.recall("tea")), db.file.check(deep=True))
    print(len(ann.session("long").context(900).messages) > 0, db.file.info().counts["messages"])
    try:
        ann.session("trip").append("user", "x")
    except memdb.ReadOnly:
        print("refused")
"""

REFUSED = f"""{UNPRIVILEGED}
import memdb
try:
    memdb.open(sys.argv[1], mode="read")
except memdb.ReadOnly as error:
    print(error)
"""

COMMAND = f"""{UNPRIVILEGED}
import sys
from memdb.cli import main
main()
"""


def fill(db: MemDB) -> None:
    """Give the file one of everything; some of it is due."""
    chat = trip(db)
    chat.extend([{"role": "user", "text": f"tea {n}"} for n in range(4)])
    ann(db).remember("Ann likes tea.", key="drink")
    ann(db).remember("Ann lives in Oslo.")
    chat.artifacts.save("menu.md", "soup")
    ann(db).session("cold").extend([{"role": "user", "text": f"cold {n}"} for n in range(4)])
    ann(db).session("cold").archive(keep_last=1)
    ann(db).session("long").extend(
        [{"role": "user", "text": f"a long talk about tea {n} " * 20} for n in range(60)]
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]) -> Any:
    """Return what a closed file with one of everything holds."""

    def make(path: str) -> None:
        with memdb.open(path) as db:
            fill(db)

    return make_kept(tmp_path_factory.mktemp("prepared") / "agent.db", make)


@pytest.fixture
def filled(tmp_path: Path, prepared: Any) -> str:
    """Return the path of a closed file with one of everything."""
    path = tmp_path / "agent.db"
    prepared.put(path)
    return str(path)


@pytest.fixture
def stored(tmp_path: Path, filled: str, databases: Any) -> Callable[[], Any]:
    """Return a function that reads all bytes below the folder, or all rows of a server."""
    return lambda: bytes_below(tmp_path) if databases is None else databases.rows_of(filled)


def bytes_below(folder: Path) -> dict[str, str]:
    """Return the hash of every file below *folder*."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_public_call_is_listed() -> None:
    """A new call has to say whether it writes."""
    for cls, reads in READS.items():
        public = {name for name in vars(cls) if not name.startswith("_")}
        writes = {name for owner, name in WRITES if owner is cls}
        assert public == writes | {*reads.split()}, cls.__name__


@pytest.mark.parametrize("call", WRITES, ids=lambda call: f"{call[0].__name__}.{call[1]}")
def test_every_write_is_refused(
    filled: str, tmp_path: Path, call: tuple[type, str], stored: Callable[[], Any]
) -> None:
    """Before a model is asked; the folder is byte for byte as before."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"role": "user", "text": "hi"}\n')
    before = stored()
    with (
        memdb.open(filled, mode="read", model=Model(), counter="estimate") as db,
        pytest.raises(memdb.ReadOnly),
    ):
        WRITES[call](db, str(other))

    assert stored() == before


def test_settings_are_refused_at_open(filled: str) -> None:
    """They would have to be kept in the file."""
    with pytest.raises(memdb.ReadOnly):
        memdb.open(filled, mode="read", settings={"entry_quota": 7})


def test_reading_changes_no_byte(filled: str, stored: Callable[[], Any]) -> None:
    """No use count, no vector that is due, no summary that is due, no -wal that stays."""
    before = stored()

    with memdb.open(filled, mode="read") as db:
        scope = ann(db)
        assert scope.recall("what does Ann like?")
        assert scope.session("long").context(900).messages
        scope.profile(500)
        assert scope.session("trip").artifacts.load("menu.md").text == "soup"
        assert len([*scope.session("cold").messages()]) == 4
        assert db.file.check(deep=True) == []
        assert sum(1 for _ in db.export_lines()) > 70
        db.jobs.pending(), db.file.info(), Host(scope.session("long")).window(budget_tokens=900)

    assert stored() == before


def test_a_difference_of_an_index_is_found(filled: str, raw: Any) -> None:
    """Comparing an index needs a copy, as it is an INSERT."""
    connection = raw(filled)
    connection.execute("UPDATE entries SET text = 'coffee' WHERE text LIKE '%tea%'")
    connection.close()

    with memdb.open(filled, mode="read") as db:
        codes = {finding.code for finding in db.file.check()}

    assert "entries_fts" in codes


@pytest.mark.parametrize("kind", ["absent", "empty", "memory", "mode"])
def test_what_cannot_be_read(tmp_path: Path, kind: str) -> None:
    """No file is made."""
    path = tmp_path / "agent.db"
    if kind == "empty":
        path.touch()
    before = bytes_below(tmp_path)
    name, mode = {"memory": (":memory:", "read"), "mode": (str(path), "r")}.get(
        kind, (str(path), "read")
    )

    with pytest.raises((memdb.FileError, memdb.InvalidInput)):
        memdb.open(name, mode=mode)

    assert bytes_below(tmp_path) == before


def test_a_reader_sees_what_is_written_beside_it(filled: str) -> None:
    """It is no snapshot."""
    with memdb.open(filled, mode="read") as reader, memdb.open(filled) as writer:
        trip(writer).append("user", "news")

        assert trip(reader).last(1)[0].text == "news"


@linux
@pytest.mark.parametrize("kind", ["file", "backup"])
def test_read_only_media(filled: str, tmp_path: Path, run_child: Any, kind: str) -> None:
    """A folder and a file that cannot be written: all that reads works, and nothing is made."""
    media = tmp_path / "media"
    media.mkdir()
    if kind == "backup":
        with memdb.open(filled) as db:
            db.file.backup(media / "agent.db")
    else:
        shutil.copy(filled, media / "agent.db")
    (media / "agent.db").chmod(0o444)
    media.chmod(0o555)
    before = bytes_below(media)

    assert run_child(READING, media / "agent.db") == "4 10 []\nTrue 68\nrefused\n"
    assert bytes_below(media) == before


@linux
def test_read_only_media_with_a_wal(tmp_path: Path, run_child: Any, open_db: Any) -> None:
    """What is in the WAL cannot be read there; the error says what to do."""
    crashed = open_db(str(tmp_path / "agent.db"))
    trip(crashed).append("user", "in the WAL")
    media = tmp_path / "media"
    media.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{crashed.path}{end}", media / f"agent.db{end}")
        (media / f"agent.db{end}").chmod(0o444)
    media.chmod(0o555)

    assert "copy both into a folder of your own" in run_child(REFUSED, media / "agent.db")


@linux
@pytest.mark.parametrize("args", [["check", "--deep"], ["recall", "tea"]], ids=lambda a: a[0])
def test_commands_on_read_only_media(
    filled: str, tmp_path: Path, run_child: Any, start_child: Any, args: list[str]
) -> None:
    """Commands that read need no option for it."""
    media = tmp_path / "media"
    media.mkdir()
    shutil.copy(filled, media / "agent.db")
    (media / "agent.db").chmod(0o444)
    media.chmod(0o555)

    verb, *rest = args

    assert run_child(COMMAND, verb, media / "agent.db", *rest)
    refused = start_child(COMMAND, "rebuild", media / "agent.db")
    assert "check the permissions of the file and its folder" in refused.communicate(timeout=60)[1]
    assert [*bytes_below(media)] == ["agent.db"]


def test_the_option_has_a_type() -> None:
    """Editors offer both words."""
    assert "OpenMode" in str(inspect.signature(memdb.open).parameters["mode"].annotation)
