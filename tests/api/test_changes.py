"""`db.changes` and `db.watch`: what changed is named, whoever did it, and nothing is missed."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import tables
from memdb.engine import compose
from memdb.records import changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITES = re.compile(
    r"/\* ([\w.]+) \*/\s*(?:WITH\b.*?)?\b(?:INSERT|UPDATE|DELETE|REPLACE)\b(.*)", re.DOTALL
)


def statements() -> Iterator[str]:
    """Yield the statements of all tables, those in dicts and lists too."""
    for module in pkgutil.iter_modules(tables.__path__, "memdb.tables."):
        for value in vars(importlib.import_module(module.name)).values():
            many = (
                [*value.values()]
                if isinstance(value, dict)
                else value
                if isinstance(value, (list, tuple))
                else [value]
            )
            yield from (one for one in many if isinstance(one, str))


@pytest.fixture(params=["file", "memory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[memdb.MemDB]:
    """Return an open file with something of each kind, on disk and in memory."""
    path = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with memdb.open(path, embedder=None, durability="process") as opened:
        fill(opened)
        yield opened


def fill(db: memdb.MemDB) -> None:
    """Store something of each kind."""
    ann = db.scope("ann")
    for name in ("trip", "old"):
        ann.session(name).extend(
            {"role": "user", "text": f"{name}, line {number}"} for number in range(30)
        )
    ann.remember("Ann lives in Oslo.")
    ann.session("trip").artifacts.save("plan.md", "Day 1: fly")
    ann.items.put(("notes",), "k1", {"text": "Pack."})
    ann.session("trip").state.put("city", "Oslo")


def entry_id(db: memdb.MemDB) -> int:
    """Return the id of the entry."""
    return db.scope("ann").entries.list()[0].id


# What is done, the sessions that are named, and the kinds.
CHANGES: dict[str, tuple[Callable[[memdb.MemDB], object], set[str], set[str]]] = {
    "append": (lambda db: db.scope("ann").session("trip").append("user", "More."), {"trip"}, set()),
    "new session": (
        lambda db: db.scope("ann").session("new").append("user", "Hi."),
        {"new"},
        set(),
    ),
    "created": (lambda db: db.scope("ann").session("new").create(), {"new"}, set()),
    "branch": (lambda db: db.scope("ann").session("trip").branch("rail", 3), {"trip"}, set()),
    "title": (
        lambda db: db.scope("ann").session("trip").update(title="Oslo"),
        set(),
        {"session"},
    ),
    "edit": (
        lambda db: db.scope("ann").session("trip").edit(2, {"role": "user", "text": "No."}),
        set(),
        {"message"},
    ),
    "forget one": (
        lambda db: db.scope("ann").session("trip").forget(last=1, prove=False),
        set(),
        {"message"},
    ),
    "delete session": (
        lambda db: db.scope("ann").delete(session="old"),
        set(),
        {"message", "session"},
    ),
    "delete user": (
        lambda db: db.scope("ann").delete(everything=True),
        set(),
        {"message", "session", "entry", "artifact", "item", "state"},
    ),
    "archive": (
        lambda db: db.scope("ann").session("trip").archive(keep_last=1),
        set(),
        {"message"},
    ),
    "compact": (lambda db: db.scope("ann").session("trip").summaries.compact(), set(), {"summary"}),
    "remember": (lambda db: db.scope("ann").remember("Ann skis."), set(), {"entry"}),
    "entry": (
        lambda db: db.scope("ann").entries.update(entry_id(db), pinned=True),
        set(),
        {"entry"},
    ),
    "entry gone": (lambda db: db.scope("ann").entries.delete(entry_id(db)), set(), {"entry"}),
    "artifact": (
        lambda db: db.scope("ann").session("trip").artifacts.save("plan.md", "Day 2"),
        set(),
        {"artifact"},
    ),
    "item": (lambda db: db.scope("ann").items.put(("n",), "k", {"a": 1}), set(), {"item"}),
    "item gone": (lambda db: db.scope("ann").items.delete(("notes",), "k1"), set(), {"item"}),
    "state": (lambda db: db.scope("ann").session("trip").state.put("x", 1), set(), {"state"}),
    "settings": (lambda db: db.settings.update(entry_quota=500), set(), {"settings"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_named(db: memdb.MemDB, name: str) -> None:
    """By session if it got messages, else by kind; once, and from the same mark again."""
    change, sessions, kinds = CHANGES[name]
    start = db.changes().mark
    assert db.changes(start).is_empty
    change(db)
    found = db.changes(start)
    assert {place.session for place in found.sessions} == sessions
    assert kinds <= {*found.kinds} <= kinds | {"message", "session", "summary", "entry"}
    assert found.is_complete
    assert db.changes(found.mark).is_empty
    assert db.changes(start) == found


def test_looking_is_no_change(db: memdb.MemDB) -> None:
    """What a recall counts as use, and what jobs do, is nothing that is said."""
    start = db.changes().mark
    db.scope("ann").recall("Oslo")
    db.scope("ann").items.get(("notes",), "k1")
    db.scope("ann").session("trip").last(5)
    assert {*db.changes(start).kinds} <= {"other"}
    assert db.changes(start).sessions == ()


@pytest.mark.parametrize("rows", [[], [{"id": -1}]], ids=["none", "no match"])
def test_a_statement_that_changes_no_row_is_no_change(
    db: memdb.MemDB, rows: list[dict[str, int]]
) -> None:
    """Neither one that runs for each of no rows, nor one that matches none."""
    start = db.changes().mark
    with db._db.write() as tx:
        tx.many(tables.artifacts.DELETE_NAME, rows)
        for row in rows:
            tx.run(tables.artifacts.DELETE_NAME, row)
    assert {*db.changes(start).kinds} <= {"other"}


def test_what_is_undone_is_no_change(db: memdb.MemDB) -> None:
    """A transaction that raised changed nothing."""
    start = db.changes().mark
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.scope("ann").remember("Ann skis.")
        db.scope("ann").session("trip").append("user", "More.")
        raise ZeroDivisionError
    assert {*db.changes(start).kinds} <= {"other"}
    assert db.changes(start).sessions == ()


def test_a_mark_from_before_the_file_was_opened(path: str) -> None:
    """It says whether anything changed since, and which kinds; not which sessions grew."""
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "We fly on 3 May.")
        mark = db.changes().mark
    with memdb.open(path) as db:
        same = db.changes(mark)
        db.scope("ann").remember("Ann likes tea.")
    with memdb.open(path) as db:
        told = db.changes(mark)
        db.scope("ann").session("trip").append("user", "Pack the tent.")
    with memdb.open(path, mode="read") as db:
        grown = db.changes(mark)
        again = db.changes(grown.mark)

    assert same.is_empty
    assert (told.sessions, told.kinds, told.is_complete) == ((), ("entry",), True)
    assert (grown.sessions, grown.kinds, grown.is_complete) == ((), ("entry",), False)
    assert again.is_empty


def test_a_mark_that_is_not_known_says_read_all_again(db: memdb.MemDB) -> None:
    """Of another open file, or of none; and a start is no change."""
    for mark in ("x", "", "a-1", f"{db.changes().mark}x"):
        found = db.changes(mark)
        assert not found.is_complete
        assert not found.is_empty
        assert db.changes(found.mark).is_empty
    with pytest.raises(memdb.InvalidInput, match="transaction"), db.transaction():
        db.changes()


def test_many_sessions_are_not_all_named(db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the answer says that it is not complete."""
    monkeypatch.setattr(changes, "MOST_SESSIONS", 2)
    start = db.changes().mark
    for number in range(3):
        db.scope("ann").session(f"s{number}").append("user", "Hi.")
    found = db.changes(start)
    assert (found.sessions, found.is_complete) == ((), False)


PROGRAM = """
import sys
import memdb

path, count = sys.argv[1], int(sys.argv[2])
with memdb.open(path, embedder=None, durability="process") as db:
    session = db.scope("bob").session("far")
    for number in range(count):
        session.append("user", f"From outside, {number}.")
        if number % 10 == 9:
            db.scope("bob").remember(f"Bob counts to {number}.")
"""


def test_nothing_of_another_process_is_missed(path: str, start_child: Callable[..., Any]) -> None:
    """Each look names what was written since the one before, while another process writes."""
    with memdb.open(path, embedder=None) as db:
        fill(db)
        mark = db.changes().mark
        seen = entries = 0
        child = start_child(PROGRAM, path, 200)
        is_over = False
        while not is_over:
            is_over = child.poll() is not None  # then one more look
            found = db.changes(mark)
            mark = found.mark
            length = db.scope("bob").session("far").last_seq
            if found.sessions:
                assert [place.session for place in found.sessions] == ["far"]
                assert found.sessions[0].user == "bob"
                seen = max(seen, length)
            entries += "entry" in found.kinds
        assert child.returncode == 0
        assert (seen, db.changes(mark).is_empty) == (200, True)
        assert entries > 0


def test_a_watch_yields_and_ends_with_the_file(tmp_path: Path) -> None:
    """Changes before its first step are there too; a closed file ends it."""
    with memdb.open(tmp_path / "agent.db", embedder=None) as db:
        watch = db.watch(interval_s=0.01)
        db.scope("ann").session("trip").append("user", "Hi.")
        (found,) = islice(watch, 1)
        assert [place.session for place in found.sessions] == ["trip"]
        for wrong in (0, -1, "1", 4000):
            with pytest.raises(memdb.InvalidInput, match="interval_s"):
                db.watch(interval_s=wrong)
    assert list(watch) == []
    with pytest.raises(memdb.errors.Closed):
        db.changes()


def test_a_slow_look_rests_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with very many sessions takes a tenth of the time at most."""
    waits: list[float] = []
    ticks = iter(range(100))
    monkeypatch.setattr(changes, "perf_counter", lambda: float(next(ticks)))

    def wait(seconds: float) -> None:
        waits.append(seconds)
        db.scope("ann").session("trip").append("user", "Hi.")

    with memdb.open(tmp_path / "agent.db", embedder=None) as db:
        watch = changes.ChangeLog(db._db).watch(0.25, wait)
        assert len(list(islice(watch, 3))) == 3
    assert waits == [0.25, 9.0, 9.0]


def test_a_database_that_is_migrated_is_said(
    path: str, set_format: Callable[[memdb.MemDB, int], None]
) -> None:
    """Whether or not anybody has written."""
    with memdb.open(path, embedder=None) as db:
        fill(db)
        mark = db.changes().mark
        set_format(db, 99)
        with pytest.raises(memdb.errors.SchemaTooNew):
            db.changes(mark)
        set_format(db, 1)
        db.changes(mark)


def test_a_file_that_is_replaced_is_said(tmp_path: Path) -> None:
    """Whether or not anybody has written."""
    path = tmp_path / "agent.db"
    with memdb.open(path, embedder=None) as db:
        fill(db)
        mark = db.changes().mark
        path.rename(tmp_path / "kept.db")
        with pytest.raises(memdb.errors.FileError, match="replaced"):
            db.changes(mark)
        (tmp_path / "kept.db").rename(path)


def test_every_statement_that_writes_is_counted_or_not() -> None:
    """One that changes what is said is counted when it runs, or its count says why not."""
    seen = set()
    for text in statements():
        if (found := WRITES.match(text)) is not None:
            name, body = found.groups()
            seen.add(name)
            if "RETURNING" in body:  # `Tx.one` runs it, which counts nothing
                assert compose.kind_of(text) is None or name == "entries.update", name
    assert {name.partition(".")[0] for name in seen} - {*compose.KINDS} == {
        "blobs", "checks", "jobs", "scopes", "spaces", "synced", "tombstones",
    }  # fmt: skip
