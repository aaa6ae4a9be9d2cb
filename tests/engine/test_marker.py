"""The mark of a file in use: a file without its WAL, or with another's, is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import memdb
from memdb.engine.sqlite import marker
from memdb.engine.sqlite.connection import Tx

if TYPE_CHECKING:
    from collections.abc import Callable

KILLED = """
import memdb, os, sys
path, count, first = sys.argv[1], int(sys.argv[2]), sys.argv[3]
db = memdb.open(path, embedder=None, counter="estimate")
for n in range(count):
    db.scope("ann").session("s").append("user", f"{first} {n}")
os.kill(os.getpid(), 9)
"""

READER = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
    print(db.scope("ann").session("s").last_seq, flush=True)
    sys.stdin.readline()
"""

NEVER_CLOSED = """
import sys, memdb
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
db.scope("ann").session("s").append("user", "one")
"""


def kill_writer(
    start_child: Callable[..., subprocess.Popen[str]], path: Path, count: int, before: str = ""
) -> None:
    child = start_child(before + KILLED, path, count, path.name)
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL


def texts(path: Path) -> int:
    """Return how many messages a sound file has."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.file.check(deep=True) == []
        return db.scope("ann").session("s").last_seq


def is_marked(path: Path) -> bool:
    """Return whether the file says, without its WAL, that it is in use."""
    connection = apsw.Connection(
        f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    (value,) = connection.execute("SELECT value FROM meta WHERE key = 'in_use'").fetchone()
    connection.close()
    return bool(value.startswith("1"))


def say(db: memdb.MemDB, text: str) -> None:
    db.scope("ann").session("s").append("user", text)


# Begins its WAL anew after so few pages, some twenty times.
OFTEN = """
import memdb.engine.sqlite.connection as connections
connections.CHECKPOINT_PAGES = 20
"""

SHELL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
for sql in ["SELECT count(*) FROM messages", *sys.argv[2:]]:
    connection.execute(sql).fetchall()
connection.commit()
connection.close()
"""


def test_marked_from_the_first_write_to_the_close(tmp_path: Path) -> None:
    """Also if it is opened again; only reading marks nothing."""
    path = tmp_path / "a.db"
    for _ in range(2):
        with memdb.open(path, embedder=None, counter="estimate") as db:
            say(db, "one")
            assert is_marked(path)
        assert not is_marked(path)
    with memdb.open(path, embedder=None) as db:
        db.scope("ann").session("s").last(1)
        assert not is_marked(path)
    assert os.listdir(tmp_path) == ["a.db"]


def test_a_killed_file_opens(tmp_path: Path, start_child: Any) -> None:
    """Mark and WAL are there: everything acknowledged is."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 50)

    assert is_marked(path)
    assert texts(path) == 50  # reading leaves both
    assert texts(path) == 50
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "more")
    assert not is_marked(path)
    assert os.listdir(tmp_path) == ["a.db"]


@pytest.mark.parametrize("how", ["copied", "moved", "wal removed", "wal and shm removed"])
@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_file_without_its_wal_is_refused(
    tmp_path: Path, start_child: Any, how: str, mode: Any
) -> None:
    """Instead of being opened with messages missing; the error names what helps."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 50)
    if how in {"copied", "moved"}:
        (tmp_path / "b").mkdir()
        {"copied": shutil.copy, "moved": shutil.move}[how](path, tmp_path / "b" / "b.db")
        path = tmp_path / "b" / "b.db"
    else:
        os.unlink(f"{path}-wal")
        if how == "wal and shm removed":
            os.unlink(f"{path}-shm")
    before = path.read_bytes()

    for _ in range(3):  # looking does not change what is found
        with pytest.raises(memdb.FileError, match=r"memdb recover"):
            memdb.open(path, embedder=None, mode=mode)

    assert path.read_bytes() == before
    assert not os.path.exists(f"{path}-wal")


OTHER_PROGRAMS = {
    "reads": [],
    "moves the WAL": ["PRAGMA wal_checkpoint(FULL)"],
    "leaves WAL mode": ["PRAGMA journal_mode = DELETE"],
}


@pytest.mark.parametrize("program", OTHER_PROGRAMS)
@pytest.mark.parametrize(("count", "mode"), [(1, "write"), (60, "write"), (60, "read")])
def test_another_program_closes_a_killed_file(
    tmp_path: Path, start_child: Any, run_child: Any, program: str, count: int, mode: Any
) -> None:
    """It moved all of the WAL before it removed it: nothing is missing, and it opens."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, count)
    run_child(SHELL, path, *OTHER_PROGRAMS[program])
    assert not os.path.exists(f"{path}-wal")
    assert is_marked(path)

    with memdb.open(path, embedder=None, counter="estimate", mode=mode) as db:
        assert db.scope("ann").session("s").last_seq == count
    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.file.check(deep=True) == []
        say(db, "more")

    assert not is_marked(path)
    assert os.listdir(tmp_path) == ["a.db"]


def test_another_program_closes_it_twice(tmp_path: Path, start_child: Any, run_child: Any) -> None:
    """The WAL of the second killed program is the one that counts."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 20)
    run_child(SHELL, path)
    kill_writer(start_child, path, 30)
    lost = shutil.copy(path, tmp_path / "head")
    run_child(SHELL, path)

    assert texts(path) == 50
    with pytest.raises(memdb.FileError, match="memdb recover"):
        memdb.open(lost, embedder=None)


def test_a_removed_wal_is_missed_after_another_program(
    tmp_path: Path, start_child: Any, run_child: Any
) -> None:
    """Memdb went on writing after it: that WAL is gone."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 20)
    run_child(SHELL, path)
    kill_writer(start_child, path, 30)
    os.unlink(f"{path}-wal")

    for _ in range(2):
        with pytest.raises(memdb.FileError, match="memdb recover"):
            memdb.open(path, embedder=None)


def test_a_partly_moved_wal_that_was_removed(tmp_path: Path, start_child: Any) -> None:
    """A checkpoint beside a reader moves a part only; then the WAL is deleted by hand."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 20)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    kill_writer(start_child, path, 20)
    shell = apsw.Connection(str(path))
    shell.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    os.unlink(f"{path}-wal")
    for connection in (reader, shell):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()

    with pytest.raises(memdb.FileError, match="memdb recover"):
        memdb.open(path, embedder=None)


def test_without_hard_links_a_closed_file_is_refused(
    tmp_path: Path, start_child: Any, run_child: Any
) -> None:
    """And the error says both: it may be whole; what the command takes from it is everything."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 50)
    os.unlink(f"{path}-wal.kept")
    run_child(SHELL, path)

    with pytest.raises(memdb.FileError, match=r"it is whole.*memdb recover"):
        memdb.open(path, embedder=None)

    memdb.recover(path, tmp_path / "new.db")
    assert texts(tmp_path / "new.db") == 50


@pytest.mark.parametrize("count", [1, 2, 200])
def test_a_wal_of_another_file_is_refused(tmp_path: Path, start_child: Any, count: int) -> None:
    """Whatever it holds; neither file is changed, and the right one opens again."""
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        [say(db, f"old {n}") for n in range(30)]
    with memdb.open(other, embedder=None, counter="estimate") as db:
        [say(db, f"other {n}") for n in range(30)]
    kill_writer(start_child, other, count)
    shutil.copy(f"{other}-wal", f"{path}-wal")
    before = path.read_bytes()

    with pytest.raises(memdb.FileError, match="belongs to another file"):
        memdb.open(path, embedder=None)

    assert path.read_bytes() == before
    os.unlink(f"{path}-wal")
    assert texts(path) == 30


def test_a_backup_beside_an_old_wal_is_refused(tmp_path: Path, start_child: Any) -> None:
    """`cp backup.db agent.db` after a crash: the restore would be undone without a word."""
    path, backup = tmp_path / "a.db", tmp_path / "backup.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        [say(db, f"old {n}") for n in range(30)]
        db.file.backup(backup)
    kill_writer(start_child, path, 20)
    shutil.copy(backup, path)

    with pytest.raises(memdb.FileError, match="belongs to another file"):
        memdb.open(path, embedder=None)


def test_a_backup_of_a_file_in_use_is_not_in_use(tmp_path: Path) -> None:
    """It holds everything; the open file stays marked."""
    path, backup = tmp_path / "a.db", tmp_path / "backup.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "one")
        db.file.backup(backup)
        assert is_marked(path)

    assert not is_marked(backup)
    assert texts(backup) == 1


def test_a_young_file_can_be_copied(tmp_path: Path) -> None:
    """After it was made, and after each checkpoint of an idle moment."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "one")
        db._db.maintenance.checkpoint()
        shutil.copy(path, tmp_path / "copy.db")
        say(db, "two")
        assert is_marked(path)

    assert texts(tmp_path / "copy.db") == 1
    assert texts(path) == 2


LONG_META = """
import os, sys
import memdb
from memdb.engine.sqlite import marker
marker.UseMarker._is_moved = lambda *_: False  # it ends before
db = memdb.open(sys.argv[1], embedder=None)
with db._db.write() as tx:
    rows = [{"key": f"{key} {n}", "value": "x" * 300} for key in "az" for n in range(20)]
    tx.many("INSERT INTO meta (key, value) VALUES (:key, :value)", rows)
os._exit(0)
"""


def test_a_file_whose_facts_move_to_another_page(tmp_path: Path, run_child: Any) -> None:
    """As `meta` grows, before the mark is in the file: the WAL is its own all the same."""
    path = tmp_path / "a.db"
    memdb.open(path, embedder=None).close()
    run_child(LONG_META, path)

    with memdb.open(path, embedder=None) as db:
        assert len(db.query("SELECT key FROM meta WHERE value LIKE 'xxx%'").rows) == 40


def test_a_program_that_never_closes(tmp_path: Path, run_child: Any) -> None:
    """The end of the program closes the file."""
    path = tmp_path / "a.db"
    run_child(NEVER_CLOSED, path)

    assert not is_marked(path)
    assert os.listdir(tmp_path) == ["a.db"]


def test_another_writer_marks_it_again(tmp_path: Path) -> None:
    """A close clears the mark; who goes on writing sets it."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "one")
        with memdb.open(path, embedder=None, counter="estimate") as other:
            say(other, "two")
        assert not is_marked(path)
        say(db, "three")
        assert is_marked(path)
    assert not is_marked(path)
    assert texts(path) == 3


@pytest.mark.parametrize("again", [1, 3], ids=["once", "three times"])
def test_a_writer_that_closes_while_the_wal_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: int
) -> None:
    """It marks the file after the other cleared it, and finds it locked when it wants to."""
    path = tmp_path / "a.db"
    first = memdb.open(path, embedder=None, counter="estimate")
    say(first, "one")
    run = Tx.all
    left = [again]

    def run_between(tx: Tx, sql: str, *values: Any) -> Any:
        if sql == marker.CHECKPOINT_ALL and left[0]:
            left[0] -= 1
            with monkeypatch.context() as patched:
                # As if the first held the lock of a checkpoint at that moment.
                patched.setattr(marker.UseMarker, "clear", lambda *_: 0)
                with memdb.open(path, embedder=None, counter="estimate") as second:
                    say(second, "two")
        return run(tx, sql, *values)

    monkeypatch.setattr(Tx, "all", run_between)
    first.close()

    assert not left[0]
    assert not is_marked(path)
    assert texts(path) == 1 + again


def test_the_last_program_may_be_another_one(tmp_path: Path, raw: Any) -> None:
    """A SQLite shell that closes last removes the WAL: the file is whole."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "one")
        shell = raw(str(path))
        shell.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
        say(db, "two")
    shell.execute("ROLLBACK")
    shell.close()

    assert texts(path) == 2


def test_a_reader_that_is_the_last(tmp_path: Path, start_child: Any) -> None:
    """A memdb that only reads tidies up after a writer that could not."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "one")
        child = start_child(READER, path)
        assert child.stdout.readline() == "1\n"
        say(db, "two")
    child.communicate("done\n", timeout=60)

    assert os.listdir(tmp_path) == ["a.db"]
    assert texts(path) == 2


def test_a_long_reader_delays_the_mark_only(tmp_path: Path) -> None:
    """It is moved into the file when the reader has ended, at the latest some commits later."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "one")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "two")
        assert not is_marked(path)
        with memdb.open(path, embedder=None) as again:  # its WAL sets the mark
            assert again.scope("ann").session("s").last_seq == 2
        reader.execute("ROLLBACK")
        reader.close()
        for _ in range(5):
            say(db, "more")
        assert is_marked(path)
    assert texts(path) == 7


@pytest.mark.parametrize("how", ["wal removed", "file replaced"])
def test_a_close_moves_nothing_into_a_file_that_is_another(path: str, how: str) -> None:
    """What was acknowledged is in the WAL alone then: it stays, under one of its names."""
    db = memdb.open(path, embedder=None, counter="estimate")
    chat = db.scope("ann").session("trip")
    for number in range(20):
        chat.append("user", f"message {number}")
    if how == "wal removed":
        os.remove(f"{path}-wal")
    else:
        shutil.copy(path, f"{path}.copy")
        os.replace(f"{path}.copy", path)
    with pytest.raises(memdb.FileError, match=r"removed,? (cut )?or replaced"):
        chat.append("user", "later")
    db.close()

    if how == "wal removed":
        with pytest.raises(memdb.FileError, match="no -wal"):
            memdb.open(path, embedder=None)
        os.replace(f"{path}-wal.kept", f"{path}-wal")
    with memdb.open(path, embedder=None, counter="estimate") as again:
        assert len(again.scope("ann").session("trip").last(50)) == 20
        assert again.file.check(deep=True) == []


def cut(path: str, size: int) -> None:
    os.truncate(path, size)


def overwrite(path: str, data: bytes, at: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


# What may happen to a WAL, given its path.
DAMAGES: dict[str, Callable[[str], object]] = {
    "emptied": lambda wal: cut(wal, 0),
    "only its header": lambda wal: cut(wal, 32),
    "half a header": lambda wal: cut(wal, 16),
    "one frame": lambda wal: cut(wal, 32 + 24 + 4096),
    "zeros": lambda wal: overwrite(wal, bytes(os.path.getsize(wal))),
    "its header zeroed": lambda wal: overwrite(wal, bytes(32)),
    "another file's": lambda wal: shutil.copy(f"{wal}.other", wal),
    "its own of before": lambda wal: shutil.copy(f"{wal}.before", wal),
}


@pytest.fixture(scope="module", params=["one write", "many", "begun anew"])
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int]:
    """Return a killed file with two other WALs beside it, and its number of messages."""
    folder = tmp_path_factory.mktemp("killed")
    path, other = folder / "a.db", folder / "b.db"

    def kill(victim: Path, count: int, before: str = "") -> None:
        command = [sys.executable, "-c", before + KILLED, str(victim), str(count), victim.name]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL

    kill(other, 30)
    os.rename(f"{other}-wal", f"{path}-wal.other")
    kill(path, 20)
    shutil.copy(f"{path}-wal", f"{path}-wal.before")
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db._db.maintenance.checkpoint()
        say(db, "between")
    count = 1 if request.param == "one write" else 60
    kill(path, count, OFTEN if request.param == "begun anew" else "")
    return path, 21 + count


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wal_that_is_not_whole_is_refused(
    tmp_path: Path, killed: tuple[Path, int], damage: str
) -> None:
    """A copy of the head beside it opened with messages missing."""
    for end in ("", "-wal", "-wal.before", "-wal.other"):
        shutil.copy(f"{killed[0]}{end}", f"{tmp_path / 'a.db'}{end}")
    path = tmp_path / "a.db"
    DAMAGES[damage](f"{path}-wal")
    stored = {one.name: one.read_bytes() for one in tmp_path.iterdir()}

    for mode in ("write", "read"):
        with pytest.raises(memdb.FileError, match=r"memdb recover"):
            memdb.open(path, embedder=None, mode=mode)

    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == stored


def test_the_same_file_with_its_whole_wal_opens(tmp_path: Path, killed: tuple[Path, int]) -> None:
    """Copied both, it is as it was."""
    for end in ("", "-wal"):
        shutil.copy(f"{killed[0]}{end}", f"{tmp_path / 'a.db'}{end}")

    assert texts(tmp_path / "a.db") == killed[1]


@pytest.mark.parametrize("damage", DAMAGES)
def test_recovery_says_that_the_wal_was_not_whole(
    tmp_path: Path, killed: tuple[Path, int], damage: str
) -> None:
    """And takes what is left of both, but nothing of another file's."""
    path = tmp_path / "a.db"
    for end in ("", "-wal", "-wal.before", "-wal.other"):
        shutil.copy(f"{killed[0]}{end}", f"{path}{end}")
    DAMAGES[damage](f"{path}-wal")

    (note,) = memdb.recover(path, tmp_path / "new.db").notes

    assert note.startswith(("the -wal beside it", "its -wal is empty or cut"))
    assert 21 <= texts(tmp_path / "new.db") <= killed[1]


TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"
RESTART = "PRAGMA wal_checkpoint(RESTART)"

# It writes pages before its commit, of which there is none.
KILLED_IN_A_WRITE = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("CREATE TABLE spilled (x)")
for _ in range(200):
    connection.execute("INSERT INTO spilled VALUES (randomblob(3000))")
os.kill(os.getpid(), 9)
"""

STOPPED = f"""{OFTEN}
import memdb, sys, os
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
chat = db.scope("ann").session("s")
for line in sys.stdin:
    for n in range(int(line)):
        print(chat.append("user", f"said {{n}}").seq, flush=True)
"""


def ask(child: Any, count: int) -> int:
    """Let a child write; return the number of its last message."""
    child.stdin.write(f"{count}\n")
    child.stdin.flush()
    return [int(child.stdout.readline()) for _ in range(count)][-1]


def end(child: Any) -> None:
    child.kill()
    child.wait(timeout=60)


@pytest.mark.parametrize(
    ("first", "then", "pragma"),
    [
        (1, 0, TRUNCATE),
        (40, 0, TRUNCATE),
        (1, 1, TRUNCATE),
        (40, 40, TRUNCATE),
        (1, 1, RESTART),
        (1, 40, RESTART),
        (40, 1, RESTART),
    ],
)
def test_another_program_cuts_the_wal_of_an_open_file(
    tmp_path: Path, start_child: Any, raw: Any, first: int, then: int, pragma: str
) -> None:
    """It is legal: the file opens beside the writer, and after that is killed."""
    path = tmp_path / "a.db"
    child = start_child(STOPPED, path)
    last = ask(child, first)
    shell = raw(str(path))
    for _ in range(6000):
        if shell.execute(pragma).fetchall()[0][0] == 0:
            break
        time.sleep(0.01)  # the writer's own thread is moving the WAL
    else:
        raise AssertionError
    assert texts(path) == last
    if then:
        last = ask(child, then)
        assert texts(path) == last
    end(child)

    assert texts(path) == last  # the shell is there still


@pytest.mark.parametrize("count", [1, 40])
def test_another_program_cuts_the_wal_then_memdb_is_killed(
    tmp_path: Path, start_child: Any, run_child: Any, count: int
) -> None:
    """The write after it has set the mark again."""
    path = tmp_path / "a.db"
    child = start_child(STOPPED, path)
    ask(child, 30)
    run_child(SHELL, path, TRUNCATE)
    last = ask(child, count)
    end(child)

    assert texts(path) == last


@pytest.mark.parametrize("then", [1, 40])
def test_a_process_is_killed_while_it_begins_the_wal_anew(
    tmp_path: Path, start_child: Any, then: int
) -> None:
    """SQLite gives the WAL other numbers if the next one commits; that one marks it."""
    path = tmp_path / "a.db"
    other, child = (start_child(STOPPED, path) for _ in range(2))
    ask(other, 4)
    ask(child, 1)  # moves all of the WAL
    killed = start_child(KILLED_IN_A_WRITE, path)
    assert killed.wait(timeout=60) == -signal.SIGKILL
    last = ask(child, then)
    end(child)
    end(other)

    assert texts(path) == last == 5 + then


def test_writers_that_take_turns_and_die(tmp_path: Path, start_child: Any) -> None:
    """Each begins the WAL anew now and then, and marks it."""
    path = tmp_path / "a.db"
    children = [start_child(STOPPED, path) for _ in range(3)]
    last = 0
    for turn in range(12):
        last = ask(children[turn % 3], 1 + turn % 4)
        assert texts(path) == last
    for child in children:
        end(child)

    assert texts(path) == last


def test_maintenance_leaves_no_file_that_is_refused(tmp_path: Path, start_child: Any) -> None:
    """What cuts the WAL clears the mark before, so that a kill after it leaves a whole file."""
    path = tmp_path / "a.db"
    calls = "db.file.vacuum()", "db.scope('ann').forget(query='a.db', prove=True)"
    for call in calls:
        killed = KILLED.replace("os.kill", f"{call}\nos.kill")
        child = start_child(killed, path, 3, path.name)
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        with memdb.open(path, embedder=None, counter="estimate") as db:
            assert db.file.check(deep=True) == []


def test_a_wal_that_was_cut_by_another_program_after_a_kill(
    tmp_path: Path, start_child: Any, run_child: Any
) -> None:
    """It is whole, which nothing shows; the error says so, and recovery takes all of it."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 30)
    run_child(SHELL, path, TRUNCATE)
    assert os.listdir(tmp_path).count("a.db-wal.kept") == 1

    with pytest.raises(memdb.FileError, match=r"wal_checkpoint\(TRUNCATE\).*memdb recover"):
        memdb.open(path, embedder=None)

    report = memdb.recover(path, tmp_path / "new.db")
    assert [one.left_out for one in report.tables] == [0] * len(report.tables)
    assert texts(tmp_path / "new.db") == 30


def test_only_the_second_name_of_the_wal_is_left(tmp_path: Path, start_child: Any) -> None:
    """The error says how to put it back; recovery says so too."""
    path = tmp_path / "a.db"
    kill_writer(start_child, path, 30)
    for end in ("-wal", "-shm"):
        os.unlink(f"{path}{end}")

    with pytest.raises(memdb.FileError, match=f"rename it to {path}-wal"):
        memdb.open(path, embedder=None)
    (note,) = memdb.recover(path, tmp_path / "new.db").notes
    assert "wal.kept" in note

    os.rename(f"{path}-wal.kept", f"{path}-wal")
    assert texts(path) == 30


# What may happen to the WAL of a file that is open, given its path.
LOSSES: dict[str, Callable[[str], object]] = {
    "removed": os.unlink,
    "moved": lambda wal: os.rename(wal, f"{wal}.moved"),
    "emptied": lambda wal: (shutil.copy(wal, f"{wal}.whole"), cut(wal, 0)),
    "cut": lambda wal: (shutil.copy(wal, f"{wal}.whole"), cut(wal, 20_000)),
    "replaced by an empty one": lambda wal: (os.unlink(wal), Path(wal).touch(0o600)),
    "replaced by zeros": lambda wal: (os.unlink(wal), Path(wal).write_bytes(bytes(5000))),
    "replaced by another's": lambda wal: os.replace(f"{wal}.other", wal),
}

# What a handle may be asked then.
CALLS: dict[str, Callable[[memdb.MemDB], object]] = {
    "append": lambda db: say(db, "later"),
    "last": lambda db: db.scope("ann").session("s").last(50),
    "recall": lambda db: db.scope("ann").recall("said"),
    "query": lambda db: db.query("SELECT count(*) FROM messages"),
    "check": lambda db: db.file.check(),
    "export": lambda db: list(db.export_lines()),
    "another handle": lambda db: memdb.open(db.path, embedder=None),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_an_open_file_whose_wal_is_lost_answers_nothing_wrong(
    tmp_path: Path, start_child: Any, loss: str
) -> None:
    """Every call but the first few of a reader says so; with the WAL back in place, all works."""
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    kill_writer(start_child, other, 30)
    with memdb.open(path, embedder=None, counter="estimate") as db:
        say(db, "first")
        [say(db, f"said {n}") for n in range(19)]
        os.rename(f"{other}-wal", f"{path}-wal.other")
        LOSSES[loss](f"{path}-wal")
        with pytest.raises((memdb.FileError, memdb.Corrupt), match=r"was refused|restore"):
            say(db, "later")

        for name, call in CALLS.items():
            # A connection that has read the WAL before it was cut fails on its own.
            with pytest.raises((memdb.FileError, memdb.IOFailed, memdb.Corrupt), match="memdb "):
                call(db)
                pytest.fail(name)

        whole = "wal.whole" if loss in {"emptied", "cut"} else "wal.kept"
        os.replace(f"{path}-{whole}", f"{path}-wal")
        assert len(db.scope("ann").session("s").last(50)) == 20
        say(db, "later")
        assert db.file.check(deep=True) == []
    assert texts(path) == 21
