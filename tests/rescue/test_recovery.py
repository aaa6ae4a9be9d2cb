"""recover and restore: what is left of a damaged file, and a backup in place of one."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from click.testing import CliRunner

import memdb
from memdb.cli import cli
from memdb.engine.columns import read_columns
from memdb.rescue import found_rows as rows_of
from memdb.rescue.pages import BrokenPage, PageFile

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 4096
START_MS = 1_700_000_000_000
# Vectors and jobs are made anew; meta is the new file's own; a segment is its messages.
DERIVED = {"meta", "changes", "synced", "vector_groups", "jobs", "vectors", "archive_segments"}

# What stays of a row whose other columns an archive moves, or a recovery counts again.
KEPT = {
    "messages": ("id", "uid", "role", "created_ms", "content_hash"),
    "sessions": read_columns()["sessions"].covered,
}
COLUMNS = {name: shape.columns for name, shape in rows_of._shapes(moving=True)[0].items()}

KILLED = """
import memdb, os, sys, time
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
for n in range(60):
    db.scope("ann").session("late").append("user", f"late {n}")
while b"in_use1 " not in open(sys.argv[1], "rb").read():  # moved there in the background
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""

OPEN = """
import memdb, sys
with memdb.open(sys.argv[1], embedder=None) as db:
    print(db.scope("ann").session("s1").last_seq, flush=True)
    sys.stdin.readline()
"""


def fill(db: memdb.MemDB) -> None:
    """Give the file some hundred pages of everything."""
    chance = random.Random(1)
    words = [f"w{n}" for n in range(400)]

    def text(count: int) -> str:
        return " ".join(chance.choices(words, k=count))

    for user in ("ann", "bob", "cid"):
        scope = db.scope(user)
        for n in range(6):
            scope.session(f"s{n}").extend(
                [{"role": "user", "text": text(30), "external_id": str(k)} for k in range(60)]
            )
        for n in (*range(40), *range(0, 40, 3)):
            scope.remember(text(12), key=f"k{n}")
        scope.session("s1").archive(keep_last=10)
        scope.artifacts.save("big", chance.randbytes(60_000))
        scope.session("s2").artifacts.save("menu.md", "soup")
        scope.state.update(a=1, b={"c": 2})
        scope.session("s3").state.update(x=[1, 2])
        scope.session("s5").delete()
    db.jobs.run()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a closed file with some hundred pages."""
    path = tmp_path_factory.mktemp("prepared") / "agent.db"
    with memdb.open(
        path, counter="estimate", clock=lambda: START_MS, settings={"extract": False}
    ) as db:
        fill(db)
    return path.read_bytes()


@pytest.fixture
def agent(tmp_path: Path, prepared: bytes) -> Path:
    """Return the path of a fresh copy."""
    path = tmp_path / "agent.db"
    path.write_bytes(prepared)
    return path


def rows(path: Path) -> dict[str, set[Any]]:
    """Return the rows of the tables of truth."""
    found = rows_of.read_rows(str(path), wal=True)
    return {
        name: {identified(name, row) for row in each}
        for name, each in found.rows.items()
        if name not in DERIVED
    }


def identified(name: str, row: Any) -> Any:
    """Return a row without what an archive moves, its digest and the counts of a session."""
    return tuple(row[COLUMNS[name].index(one)] for one in KEPT.get(name, COLUMNS[name]))


def rows_on(path: Path, pages: set[int]) -> dict[str, set[Any]]:
    """Return the rows of which a part stands on one of *pages*."""
    file, (shapes, _) = PageFile(str(path)), rows_of._shapes(moving=True)
    roots = rows_of._stored_roots(file)
    found: dict[str, set[Any]] = defaultdict(set)
    for name in shapes.keys() - DERIVED | {"archive_segments"}:
        for number in file.tree(roots[name]).pages:
            chain: set[int] = set()
            try:
                _, raw, _ = file._read(number, chain)
            except BrokenPage:
                continue
            if number in pages or chain & pages:
                found[name] |= {identified(name, shapes[name].read(row)) for row in raw}
    return found


def share_recovered(agent: Path, pages: set[int], chance: random.Random) -> float:
    """Damage *pages*, recover, and return the share of the other rows that are there."""
    whole, lost = rows(agent), rows_on(agent, pages)
    data = bytearray(agent.read_bytes())
    for page in pages:
        data[(page - 1) * PAGE : page * PAGE] = chance.randbytes(PAGE)
    damaged, new = agent.with_name("damaged.db"), agent.with_name("new.db")
    damaged.write_bytes(data)
    new.unlink(missing_ok=True)

    report = memdb.recover(damaged, new)

    assert report.findings == ()
    assert damaged.read_bytes() == data
    with memdb.open(new, mode="read", embedder=None) as db:
        assert db.file.check(deep=True) == []
    after = rows(new)
    archived = {
        (one[0] + seq) for one in lost["archive_segments"] for seq in range(one[1], one[2] + 1)
    }
    lost["messages"] |= {row for row in whole["messages"] if row[0] in archived}
    blobs = {one[0] for one in lost["blob_chunks"]}  # without all of its bytes it is none
    lost["blobs"] |= {row for row in whole["blobs"] if row[0] in blobs}
    blob_no = COLUMNS["artifacts"].index("blob_no")
    lost["artifacts"] |= {row for row in whole["artifacts"] if row[blob_no] in blobs}
    lost["blob_chunks"] |= {row for row in whole["blob_chunks"] if row[0] in blobs}
    gone = {one[0] for one in lost["entries"] - after["entries"]}
    lost["entry_links"] |= {row for row in whole["entry_links"] if gone & {*row[:2]}}
    wanted = {(name, row) for name in whole for row in whole[name] - lost[name]}
    return sum(row in after[name] for name, row in wanted) / len(wanted)


def damages(agent: Path, chance: random.Random, count: int) -> list[float]:
    pages = range(1, len(agent.read_bytes()) // PAGE + 1)
    return [share_recovered(agent, {*chance.sample(pages, 3)}, chance) for _ in range(count)]


def test_rows_outside_of_three_damaged_pages(agent: Path) -> None:
    """At least 99 in 100 are there, whichever pages those are."""
    shares = damages(agent, random.Random(3), 3)

    assert min(shares) >= 0.99


@pytest.mark.slow
def test_a_hundred_damages_of_three_pages(agent: Path) -> None:
    """The bar of `memdb recover`, in each of them; the counts are printed."""
    shares = damages(agent, random.Random(11), 100)

    sys.stderr.write(f"recovered {sum(shares) / 100:.3%} on average, {min(shares):.2%} at least\n")
    assert min(shares) >= 0.99


@pytest.mark.parametrize("page", ["first", "scopes", "sessions", "messages", "entries", "blobs"])
def test_the_first_page_of_a_table(agent: Path, page: str) -> None:
    """The rows below it are found all the same; scopes and sessions get their names back."""
    roots = rows_of._stored_roots(PageFile(str(agent)))

    share = share_recovered(agent, {roots.get(page, 1)}, random.Random(1))

    assert share >= 0.99
    with memdb.open(agent.with_name("new.db"), mode="read", embedder=None) as db:
        assert [scope.user for scope in db.scopes()] == ["ann", "bob", "cid"]
        assert [one.name for one in db.scope("ann").sessions()] == ["s0", "s1", "s2", "s3", "s4"]
        assert len([*db.scope("bob").session("s1").messages()]) == 60


@pytest.mark.parametrize("lost", ["the header", "the free list"])
@pytest.mark.parametrize("table", ["messages", "entries"])
def test_the_first_page_of_a_table_and_the_free_list(agent: Path, table: str, lost: str) -> None:
    """The rows are found without the list of free pages, and no deleted message is among them."""
    file = PageFile(str(agent))
    trunk = int.from_bytes(file.page(1)[32:36], "big")
    before = rows(agent)["messages"]

    share = share_recovered(
        agent,
        {rows_of._stored_roots(file)[table], 1 if lost == "the header" else trunk},
        random.Random(1),
    )

    assert trunk
    assert share >= 0.99
    assert rows(agent.with_name("new.db"))["messages"] <= before


def test_what_a_lost_entry_superseded_stays_superseded(agent: Path) -> None:
    """A lost entry is made anew, inactive: no old statement comes back as if it still held."""

    def entries(path: Path) -> dict[int, Any]:
        sql = "SELECT id, active, text, superseded_by FROM entries"
        with memdb.open(path, mode="read", embedder=None) as db:
            return {row[0]: row[1:] for row in db.query(sql).rows}

    before, file, made = entries(agent), PageFile(str(agent)), 0
    roots = rows_of._stored_roots(file)
    for page in sorted(file.tree(roots["entries"]).pages - {roots["entries"]})[::2]:
        share_recovered(agent, {page}, random.Random(5))
        for number, (active, text, superseded_by) in entries(agent.with_name("new.db")).items():
            if (active, text, superseded_by) != before[number]:
                made += 1
                assert not active
                assert superseded_by in (before[number][2], None)
    assert made


def test_a_sound_file_comes_out_whole(agent: Path) -> None:
    """Row by row; what was deleted does not come back."""
    report = memdb.recover(agent, agent.with_name("new.db"))

    assert rows(agent.with_name("new.db")) == rows(agent)
    assert (report.broken_trees, report.notes, report.findings) == (0, (), ())
    assert {(one.left_out, one.made) for one in report.tables} == {(0, 0)}


def test_a_table_without_its_rows(tmp_path: Path, raw: Any) -> None:
    """Whichever it is: what belonged to them goes or is adopted, and the rest is sound."""
    path = tmp_path / "small.db"
    with memdb.open(path, counter="estimate") as db:
        ann = db.scope("ann")
        chat = ann.session("s")
        chat.extend([{"role": "user", "text": f"word{n} of many"} for n in range(40)])
        chat.branch("b", 30).append("user", "elsewhere")
        for text in ("Ann lives in Oslo.", "Ann lives in Bergen."):
            ann.remember(text, key="home", session="s", seq=3)
        ann.remember("Only here.", session="s", session_only=True)
        ann.items.put(("prefs",), "seat", {"side": "window"})
        chat.artifacts.save("menu.md", "soup")
        ann.state["a"] = 1
        db.jobs.run()
        chat.archive(keep_last=10)
    tables = set(rows_of.read_rows(str(path), wal=True).rows) - {"meta", "changes", "synced"}
    for table in sorted(tables):
        damaged, new = tmp_path / f"{table}.db", tmp_path / f"{table}.new.db"
        shutil.copy(path, damaged)
        connection = raw(str(damaged))
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(f"DELETE FROM {table}")
        connection.close()

        report = memdb.recover(damaged, new)

        assert report.findings == (), table
        assert all(one.left_out >= 0 and one.made >= 0 for one in report.tables), (table, report)
        left = {one.name: one.left_out for one in report.tables}
        assert left["artifacts"] == (table == "blob_chunks"), table
        assert {one.made for one in report.tables if one.name == "blobs"} == {table == "blobs"}


LOST_ROWS = {
    "a branch": ("one",),
    "a branch that leaves another": ("two",),
    "both": ("one", "two"),
    "the session": ("",),
    "the session and a branch": ("", "one"),
    "all": ("", "one", "two", "three"),
}


@pytest.mark.parametrize("names", LOST_ROWS.values(), ids=LOST_ROWS)
@pytest.mark.parametrize("archived", [False, True])
def test_lost_rows_of_branches(
    tmp_path: Path, raw: Any, names: tuple[str, ...], archived: bool
) -> None:
    """Every message is in the new file, and what is left of the tree is sound."""
    path = tmp_path / "tree.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("talk")
        chat.extend([{"role": "user", "text": f"m{number}"} for number in range(1, 7)])
        one = chat.branch("one", 4)
        one.append("user", "of one")
        one.branch("two").append("user", "of two")
        chat.branch("three", 5).append("user", "of three")
        chat.replace([2])
        one.replace([3])
        if archived:
            chat.archive(keep_last=2)
    connection = raw(str(path))
    uids = {str(UUID(bytes=uid)) for (uid,) in connection.execute("SELECT uid FROM messages")}
    for name in names:
        connection.execute("DELETE FROM sessions WHERE branch = ?", (name,))
    connection.close()

    report = memdb.recover(path, tmp_path / "new.db")

    assert report.findings == ()
    with memdb.open(tmp_path / "new.db", embedder=None) as db:
        ann = db.scope("ann")
        heads = [ann.session(info.name) for info in ann.sessions()]
        heads += [head.branch(info.name) for head in list(heads) for info in head.branches()]
        assert {one.uid for head in heads for one in head.messages()} == uids
        for head in heads:
            head.append("user", "goes on")
        assert db.file.check(deep=True) == []


def test_what_is_in_the_wal_counts(agent: Path, start_child: Any) -> None:
    """With the WAL everything acknowledged, without it a note."""
    start_child(KILLED, agent).communicate(timeout=60)
    bare = agent.with_name("bare.db")
    shutil.copy(agent, bare)
    before = (agent.read_bytes(), Path(f"{agent}-wal").read_bytes())

    memdb.recover(agent, agent.with_name("new.db"))
    report = memdb.recover(bare, agent.with_name("less.db"))

    with memdb.open(agent.with_name("new.db"), embedder=None) as db:
        assert db.scope("ann").session("late").last_seq == 60
    assert "-wal is missing" in report.notes[0]
    assert (agent.read_bytes(), Path(f"{agent}-wal").read_bytes()) == before


@pytest.mark.parametrize("kind", ["absent", "text", "empty", "another program's", "target"])
def test_what_cannot_be_recovered(agent: Path, raw: Any, kind: str) -> None:
    """Nothing is made."""
    source, new = agent.with_name("source.db"), agent.with_name("new.db")
    if kind == "another program's":
        raw(str(source)).execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)").fetchall()
    elif kind == "target":
        shutil.copy(agent, source)
        new.write_text("mine")
    elif kind != "absent":
        source.write_text("hello " * 900 if kind == "text" else "")
    before = sorted(os.listdir(agent.parent))

    with pytest.raises(memdb.MemDBError):
        memdb.recover(source, new)

    assert sorted(os.listdir(agent.parent)) == before
    assert not new.exists() or new.read_text() == "mine"


def test_the_command_prints_a_table(agent: Path) -> None:
    """And JSON."""
    table = CliRunner().invoke(cli, ["recover", str(agent), str(agent.with_name("new1.db"))])
    data = CliRunner().invoke(
        cli, ["recover", str(agent), str(agent.with_name("new2.db")), "--json"]
    )

    assert (table.exit_code, data.exit_code) == (0, 0)
    assert re.search(r"messages +900 +0 +0", table.output)
    counts = {one["name"]: one["rows"] for one in json.loads(data.output)["tables"]}
    assert (counts["messages"], counts["scopes"]) == (900, 3)


@pytest.fixture
def backup(agent: Path) -> Path:
    """Return a backup of the file, which has one message more since."""
    path = agent.with_name("backup.db")
    with memdb.open(agent, embedder=None, counter="estimate") as db:
        db.file.backup(path)
        db.scope("ann").session("s0").append("user", "since")
    return path


def last_seq(path: Path | str) -> int:
    with memdb.open(path, embedder=None) as db:
        assert db.file.check() == []
        return db.scope("ann").session("s0").last_seq


def test_a_backup_takes_the_place_of_the_file(agent: Path, backup: Path) -> None:
    """The old one is kept, under another name each time."""
    kept = [memdb.restore(backup, agent).kept for _ in range(2)]

    assert kept == [f"{agent}.replaced-1", f"{agent}.replaced-2"]
    assert [last_seq(path) for path in (agent, kept[0] or "", kept[1] or "")] == [60, 61, 60]


def test_the_wal_goes_with_the_old_file(agent: Path, backup: Path, start_child: Any) -> None:
    """It would be played into the backup; the old file opens with it."""
    start_child(KILLED, agent).communicate(timeout=60)

    kept = memdb.restore(backup, agent).kept

    with memdb.open(agent, embedder=None) as db:
        assert db.scope("ann").session("late").last_seq == 0
    with memdb.open(kept or "", embedder=None) as db:
        assert db.scope("ann").session("late").last_seq == 60


def test_a_damaged_file_is_replaced(agent: Path, backup: Path) -> None:
    """That is what backups are for; so is a file that is gone."""
    agent.write_bytes(b"rot" * 5000)
    memdb.restore(backup, agent)
    assert last_seq(agent) == 60

    agent.unlink()
    assert memdb.restore(backup, agent).kept is None
    assert last_seq(agent) == 60


def test_dry_run_changes_nothing(agent: Path, backup: Path) -> None:
    """It checks all the same."""
    before = {path.name: path.read_bytes() for path in agent.parent.iterdir()}

    assert memdb.restore(backup, agent, dry_run=True).kept == f"{agent}.replaced-1"

    assert {path.name: path.read_bytes() for path in agent.parent.iterdir()} == before


def test_a_file_that_is_read_without_locks_is_replaced(agent: Path, backup: Path) -> None:
    """The reader keeps what it reads, and learns at its next call that the file is another."""
    os.utime(agent, ns=(10**18, 10**18))  # long ago: nobody is writing to it
    with memdb.open(agent, embedder=None, mode="read") as db:
        before = db.scope("ann").session("s0").last(1)
        memdb.restore(backup, agent)

        assert before
        with pytest.raises(memdb.MemDBError, match="was removed or replaced"):
            db.scope("ann").session("s0").last(1)


@pytest.mark.parametrize("how", ["in this process", "in another"])
def test_an_open_file_is_not_replaced(
    agent: Path, backup: Path, start_child: Callable[..., Any], how: str
) -> None:
    """Its program would go on writing to a file that nobody can find."""
    before = agent.read_bytes()
    if how == "in another":
        child = start_child(OPEN, agent)
        child.stdout.readline()
        with pytest.raises(memdb.Busy, match="open in another program"):
            memdb.restore(backup, agent)
        child.communicate("end\n", timeout=60)
    else:
        with memdb.open(agent, embedder=None) as db:
            db.scope("ann").session("s0").last(1)
            with pytest.raises(memdb.Busy, match="open in another program"):
                memdb.restore(backup, agent)

    assert agent.read_bytes() == before
    memdb.restore(backup, agent)


@pytest.mark.parametrize("kind", ["damaged", "text", "absent", "itself"])
def test_what_is_no_backup(agent: Path, backup: Path, kind: str) -> None:
    """The file stays in its place."""
    if kind == "damaged":
        data = bytearray(backup.read_bytes())
        data[20 * PAGE : 60 * PAGE] = bytes(40 * PAGE)
        backup.write_bytes(data)
    elif kind == "text":
        backup.write_text("hello")
    elif kind == "absent":
        backup.unlink()
    before = agent.read_bytes()

    with pytest.raises(memdb.MemDBError):
        memdb.restore(agent if kind == "itself" else backup, agent)

    assert agent.read_bytes() == before
    assert [path.name for path in agent.parent.iterdir() if "replaced" in path.name] == []


def test_the_command_asks(agent: Path, backup: Path) -> None:
    """Without a terminal it needs --yes; it prints where the old file is."""
    asked, dry, done = [
        CliRunner().invoke(cli, ["restore", str(backup), str(agent), *more])
        for more in ([], ["--dry-run"], ["--yes", "--json"])
    ]

    assert (asked.exit_code, dry.exit_code, done.exit_code) == (2, 0, 0)
    assert "Would restore" in dry.output
    assert json.loads(done.output)["kept"] == f"{agent}.replaced-1"
