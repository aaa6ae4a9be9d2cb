"""
What happens to a file in ordinary life: kills, viewers, copies, backups, sync folders, mounts.

Each scenario is a function that does something to a file of which a program was killed, or to one
that a program has open. It opens afterwards, never refused, with every message that is left; what
is lost is reported as "wal_missing". A refusal where none is expected, or a loss that nobody
reports, fails the table.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import memdb
from memdb.engine.sqlite.foreign_wal import read_alone

if TYPE_CHECKING:
    from collections.abc import Callable

# Messages of the files: two before the burst in which the program was killed, the file alone then
# (with the first message of the burst), the whole, and a newer copy.
OLDEST, OLDER, ALONE, WHOLE, NEWER = 5, 10, 11, 20, 30

WRITER = """
import sys, time, memdb
from memdb.engine.sqlite import upkeep
upkeep.IDLE_S = 1e6
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
chat = db.scope("ann").session("s")
for line in sys.stdin:
    count = line.strip()
    try:
        if count == "rest":
            while not db._db.checkpoint_if_idle():
                pass
        elif count == "close":
            db.close()
        else:
            for number in range(int(count)):
                chat.append("user", f"said {number}")
                while not number and db._db.upkeep._passive_at:
                    time.sleep(0.001)
                db._db.pause_upkeep()()  # the mark is in the file
        print(chat.last_seq if count != "close" else "closed", flush=True)
    except memdb.MemDBError as error:
        print(error.code, flush=True)
"""

SHELL = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[2])
for sql in ["SELECT count(*) FROM sqlite_schema", *sys.argv[3:]]:
    connection.execute(sql).fetchall()
connection.commit()
if sys.argv[1] == "stay":
    print("open", flush=True)
    sys.stdin.readline()
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
connection.close()
"""


class Life:
    """A file in a folder of its own, and the programs that use it."""

    def __init__(self, folder: Path, made: Path) -> None:
        """Begin with the files of *made*, which a killed program left."""
        self.folder, self.made = folder, made
        self.path = folder / "a.db"
        self._children: list[subprocess.Popen[str]] = []

    def begin(self, state: str) -> None:
        """Put the files in place; start a program if it is "running"."""
        self.folder.mkdir()
        if state.startswith("running"):
            shutil.copy(self.made / "older.db", self.path)
            self.writer = self.start(WRITER, self.path)
            assert self.tell(str(WHOLE - OLDER)) == str(WHOLE)
            if state == "running, idle":
                self.tell("rest")
            return
        for end in ("", "-wal", "-shm"):
            source = Path(f"{self.made / state}.db{end}")
            if source.exists():
                shutil.copy(source, f"{self.path}{end}")

    def start(self, program: str, *args: object) -> subprocess.Popen[str]:
        """Start a program that reads its standard input."""
        command = [sys.executable, "-c", program, *map(str, args)]
        self._children.append(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=-3
            )
        )
        return self._children[-1]

    def tell(self, what: str, child: subprocess.Popen[str] | None = None) -> str:
        """Let the program do something; return what it prints."""
        child = child or self.writer
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{what}\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    def shell(self, *sql: str, end: str = "close", path: Path | None = None) -> None:
        """Run statements in a shell, which closes, is killed ("kill") or stays open ("stay")."""
        child = self.start(SHELL, end, path or self.path, *sql)
        if end == "stay":
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
        else:
            child.communicate(timeout=60)

    def files(self) -> list[Path]:
        """Return the file and what stands beside it."""
        return [one for one in self.folder.iterdir() if one.name.startswith(self.path.name)]

    def move_to(self, folder: Path, copy: Callable[[Path, Path], object]) -> None:
        """Bring all files into another folder."""
        folder.mkdir()
        for one in self.files():
            copy(one, folder / one.name)
        self.path = folder / self.path.name

    def rename(self, name: str) -> None:
        """Give the file and its WAL another name."""
        for end in ("", "-wal"):
            if os.path.exists(f"{self.path}{end}"):
                os.rename(f"{self.path}{end}", f"{self.folder / name}{end}")
        self.path = self.folder / name

    def end(self) -> None:
        """Kill every program."""
        for child in self._children:
            child.kill()
            child.communicate()


TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"
OWN_TABLE = "CREATE TABLE own (x)"


def replace_alone(life: Life) -> None:
    life.path = Path(shutil.copy(life.path, life.folder / "copy.db"))


def pack(life: Life, *, tar: bool) -> None:
    archive, target = life.folder / "packed", life.folder / "out"
    files = life.files()
    if tar:
        with tarfile.open(archive, "w:gz") as out:
            for one in files:
                out.add(one, one.name)
        with tarfile.open(archive) as back:
            back.extractall(target, filter="data")
    else:
        with zipfile.ZipFile(archive, "w") as zipped:
            for one in files:
                zipped.write(one, one.name)
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(target)
    life.path = target / life.path.name


def cut_wal(life: Life, size: int | None = None, less: int = 0) -> None:
    wal = f"{life.path}-wal"
    before = os.path.getsize(wal)
    os.truncate(wal, max(0, before - less) if size is None else min(size, before))


def zero_wal(life: Life) -> None:
    wal = Path(f"{life.path}-wal")
    wal.write_bytes(bytes(wal.stat().st_size))


def put(life: Life, name: str) -> None:
    """Write one of the made files over the file, which keeps its inode."""
    life.path.write_bytes((life.made / name).read_bytes())


def put_anew(life: Life, name: str) -> None:
    """Put one of the made files in place of the file, as another one."""
    shutil.copy(life.made / name, life.folder / "new")
    os.replace(life.folder / "new", life.path)


def link(life: Life) -> None:
    (life.folder / "links").mkdir()
    (life.folder / "links" / "l.db").symlink_to(life.path)
    life.path = life.folder / "links" / "l.db"


def copy_by_api(life: Life) -> None:
    life.shell(f"ATTACH '{life.folder / 'b.db'}' AS b", end="close")
    program = "import sqlite3, sys; a, b = map(sqlite3.connect, sys.argv[1:]); a.backup(b)"
    life.start(program, life.path, life.folder / "b.db").communicate(timeout=60)
    life.path = life.folder / "b.db"


def vacuum_into(life: Life) -> None:
    target = life.folder / "i.db"
    subprocess.run(["sqlite3", life.path, f"VACUUM INTO '{target}'"], check=True)
    life.path = target


def own_table_alone(life: Life) -> None:
    life.shell(OWN_TABLE)
    life.tell("1")
    while (alone := read_alone(str(life.path))) is None or alone.is_copy:
        time.sleep(0.005)  # the mark is moved into the file in the background
    life.tell("1")
    replace_alone(life)


def dump(life: Life) -> None:
    target = life.folder / "d.db"
    script = subprocess.run(["sqlite3", life.path, ".dump"], capture_output=True, check=True)
    subprocess.run(["sqlite3", target], input=script.stdout, check=True)
    life.path = target


def kill_another(life: Life) -> None:
    other = life.start(WRITER, life.path)
    life.tell("3", other)
    other.kill()
    other.communicate()


def write_again(life: Life, texts: int, *, close: bool) -> None:
    other = life.start(WRITER, life.path)
    life.tell(str(texts), other)
    if close:
        life.tell("close", other)
    other.kill()
    other.communicate()


def look_often(life: Life, *sql: str) -> None:
    for number in range(10):
        life.shell(*sql)
        assert life.tell("1") == str(WHOLE + 1 + number)


def hot_copy(life: Life) -> None:
    life.move_to(life.folder / "hot", shutil.copy2)


def replicate(life: Life) -> None:
    """Checkpoint as Litestream does: with a read that is open, in passing, and close."""
    life.shell("BEGIN", "SELECT * FROM sqlite_schema", end="stay")
    life.shell("PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(RESTART)")


def lose_wal(life: Life) -> None:
    os.unlink(f"{life.path}-wal")
    assert life.tell("1") == "file"  # refused, and said
    assert life.tell("1").isdigit()
    life.tell("close")


def newer_under(life: Life) -> None:
    """A copy of a newer file comes over that of a running program, which goes on writing."""
    put(life, "newer.db")
    first = life.tell("1")
    assert first in {"file", "corrupt"}, first
    assert life.tell("1") == str(NEWER + 1)
    life.tell("close")


def newer_in_its_place(life: Life) -> None:
    """`mv` puts a newer file there: the program has the old one, and says so at each write."""
    put_anew(life, "newer.db")
    assert [life.tell("1") for _ in range(3)] == ["file"] * 3
    life.tell("close")


def other_name(life: Life) -> None:
    os.link(life.path, life.folder / "b.db")
    life.path = life.folder / "b.db"


def mount_alone(life: Life) -> None:
    life.path = Path(shutil.move(life.path, life.folder / "mounted.db"))


class Case(NamedTuple):
    """A scenario, and what it may leave: messages, whether a loss is reported; None: refused."""

    name: str
    state: str
    act: Callable[[Life], object]
    left: int | None
    lost: bool | None = False


NAMES = ("ü日本.db", "a'b.db", 'a"b.db', "100%.db", "what?.db", "a#b.db", "file:x.db", "-a.db")

# After a kill in a burst, and after one of an idle program: what is left, and whether it is said.
KILLED: dict[str, tuple[Callable[[Life], object], int, bool | None, int]] = {
    "nothing": (lambda _: None, WHOLE, False, WHOLE),
    "a viewer": (lambda life: life.shell(), WHOLE, None, WHOLE),
    "a viewer is killed": (lambda life: life.shell(end="kill"), WHOLE, False, WHOLE),
    "a viewer stays": (lambda life: life.shell(end="stay"), WHOLE, False, WHOLE),
    "a viewer checkpoints": (
        lambda life: life.shell("PRAGMA wal_checkpoint(FULL)"),
        WHOLE,
        None,
        WHOLE,
    ),
    "RESTART, killed": (
        lambda life: life.shell("PRAGMA wal_checkpoint(RESTART)", end="kill"),
        WHOLE,
        False,
        WHOLE,
    ),
    "TRUNCATE": (lambda life: life.shell(TRUNCATE), WHOLE, None, WHOLE),
    "TRUNCATE, killed": (lambda life: life.shell(TRUNCATE, end="kill"), WHOLE, None, WHOLE),
    "TRUNCATE, stays": (lambda life: life.shell(TRUNCATE, end="stay"), WHOLE, None, WHOLE),
    "TRUNCATE in exclusive mode": (
        lambda life: life.shell("PRAGMA locking_mode = EXCLUSIVE", TRUNCATE),
        WHOLE,
        None,
        WHOLE,
    ),
    "leaves WAL mode": (
        lambda life: life.shell("PRAGMA journal_mode = DELETE"),
        WHOLE,
        None,
        WHOLE,
    ),
    "an own table": (lambda life: life.shell(OWN_TABLE), WHOLE, None, WHOLE),
    "an own table, killed": (lambda life: life.shell(OWN_TABLE, end="kill"), WHOLE, False, WHOLE),
    "moved": (lambda life: life.move_to(life.folder / "b", shutil.move), WHOLE, False, WHOLE),
    "copied": (lambda life: life.move_to(life.folder / "b", shutil.copy), WHOLE, False, WHOLE),
    "zipped": (lambda life: pack(life, tar=False), WHOLE, False, WHOLE),
    "in a tar": (lambda life: pack(life, tar=True), WHOLE, False, WHOLE),
    "checked out": (
        lambda life: life.move_to(life.folder / "b", lambda a, b: b.write_bytes(a.read_bytes())),
        WHOLE,
        False,
        WHOLE,
    ),
    "-shm deleted": (lambda life: os.unlink(f"{life.path}-shm"), WHOLE, False, WHOLE),
    "renamed": (lambda life: life.rename("b.db"), WHOLE, False, WHOLE),
    "through a link": (link, WHOLE, False, WHOLE),
    "a torn -wal": (lambda life: cut_wal(life, less=100), WHOLE - 1, False, WHOLE),
    "copied alone": (replace_alone, ALONE, True, WHOLE),
    "copied alone, a viewer stays": (
        lambda life: (replace_alone(life), life.shell(end="stay")),
        ALONE,
        True,
        WHOLE,
    ),
    "copied alone, an own table, killed": (
        lambda life: (replace_alone(life), life.shell(OWN_TABLE, end="kill")),
        ALONE,
        True,
        WHOLE,
    ),
    "-wal removed": (lambda life: os.unlink(f"{life.path}-wal"), ALONE, True, WHOLE),
    "-wal and -shm removed": (
        lambda life: [os.unlink(f"{life.path}{end}") for end in ("-wal", "-shm")],
        ALONE,
        True,
        WHOLE,
    ),
    "-wal emptied": (lambda life: cut_wal(life, 0), ALONE, True, WHOLE),
    "only the header of the -wal": (lambda life: cut_wal(life, 32), ALONE, True, WHOLE),
    "half a header": (lambda life: cut_wal(life, 16), ALONE, True, WHOLE),
    "one frame": (lambda life: cut_wal(life, 32 + 24 + 4096), ALONE, True, WHOLE),
    "zeros": (zero_wal, ALONE, True, WHOLE),
    "another file's -wal": (
        lambda life: shutil.copy(life.made / "other.db-wal", f"{life.path}-wal"),
        ALONE,
        True,
        WHOLE,
    ),
    "the file before the burst": (lambda life: put(life, "older.db"), OLDER, True, OLDER),
    "an older file": (lambda life: put(life, "oldest.db"), OLDEST, True, OLDEST),
    "a newer file": (lambda life: put(life, "newer.db"), NEWER, True, NEWER),
    "a newer file, anew": (lambda life: put_anew(life, "newer.db"), NEWER, True, NEWER),
    "a backup": (lambda life: put(life, "backup.db"), OLDER, True, OLDER),
    "copied by .backup": (copy_by_api, WHOLE, False, WHOLE),
    "VACUUM INTO": (vacuum_into, WHOLE, False, WHOLE),
    "dumped": (dump, WHOLE, False, WHOLE),
    "killed again": (lambda life: write_again(life, 1, close=False), WHOLE + 1, False, WHOLE + 1),
    "closed by another": (
        lambda life: write_again(life, 1, close=True),
        WHOLE + 1,
        False,
        WHOLE + 1,
    ),
    **{
        f"named {name}": (lambda life, name=name: life.rename(name), WHOLE, False, WHOLE)
        for name in NAMES
    },
}

# An idle file has nothing in its WAL, so nothing is missing without it: but for its own table.
SAID_WHEN_IDLE = {"another file's -wal"}

RUNNING = (
    Case("TRUNCATE ten times", "running", lambda life: look_often(life, TRUNCATE), 30, None),
    Case("a viewer ten times", "running", look_often, 30),
    Case("an own table", "running", lambda life: life.shell(OWN_TABLE), WHOLE),
    Case("copied hot", "running", hot_copy, WHOLE),
    Case("copied hot, idle", "running, idle", hot_copy, WHOLE),
    Case("copied hot and alone", "running", replace_alone, ALONE, True),
    Case("copied hot and alone, idle", "running, idle", replace_alone, WHOLE),
    Case("one of two killed", "running", kill_another, WHOLE + 3),
    Case("copied by .backup", "running", copy_by_api, WHOLE),
    Case("VACUUM INTO", "running", vacuum_into, WHOLE),
    Case("dumped", "running", dump, WHOLE),
    Case("an own table, copied alone", "running", own_table_alone, WHOLE + 1, True),
    Case("copied by .backup, idle", "running, idle", copy_by_api, WHOLE),
    Case("replicated", "running", replicate, WHOLE),
    Case("replicated, idle", "running, idle", replicate, WHOLE),
    Case("through a link", "running", link, WHOLE),
    Case("-wal removed", "running", lose_wal, ALONE + 1, True),
    Case("-wal removed, idle", "running, idle", lose_wal, WHOLE + 1),
    Case("a newer file over it", "running", newer_under, NEWER + 1, True),
    Case("a newer file over it, idle", "running, idle", newer_under, NEWER + 1),
    Case("a newer file in its place", "running", newer_in_its_place, NEWER, True),
    Case("a newer file in its place, idle", "running, idle", newer_in_its_place, NEWER),
    Case("a hard link", "running", other_name, None),
    Case("a hard link, idle", "running, idle", other_name, None),
    Case("mounted alone", "running", mount_alone, None),
)

CASES = (
    *(Case(name, "killed", act, left, lost) for name, (act, left, lost, _) in KILLED.items()),
    *(
        Case(name, "idle", act, left, name in SAID_WHEN_IDLE)
        for name, (act, _, _, left) in KILLED.items()
        if name not in ("-shm deleted", "-wal and -shm removed")
    ),
    *RUNNING,
)

FAST = {"nothing", "a viewer", "copied", "copied alone", "zeros", "an older file", "a newer file",
        "another file's -wal", "a newer file over it", "a hard link", "-wal removed"}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file killed in a burst, one killed idle, and other states of it."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("other", "killed"):
        life = Life(folder, folder)
        life.path = folder / f"{name}.db"
        life.writer = life.start(WRITER, life.path)
        for count, kept in ((OLDEST, "oldest"), (OLDER - OLDEST, "older")):
            life.tell(str(count))
            life.tell("rest")
            shutil.copy(life.path, folder / f"{kept}.db")
        with memdb.open(folder / "older.db", embedder=None, mode="read") as db:
            db.file.backup(folder / "backup.db", replace=True)
        assert life.tell(str(WHOLE - OLDER)) == str(WHOLE)
        life.end()
    for name, count in (("idle", 0), ("newer", NEWER - WHOLE)):
        for end in ("", "-wal"):
            shutil.copy(folder / f"killed.db{end}", folder / f"{name}.db{end}")
        life = Life(folder, folder)
        life.path = folder / f"{name}.db"
        life.writer = life.start(WRITER, life.path)
        life.tell(str(count))
        if count:
            assert life.tell("close") == "closed"
        else:
            life.tell("1")
            life.end()
            (folder / "idle.db").unlink()
            for end in ("-wal", "-shm"):
                Path(f"{folder / 'idle.db'}{end}").unlink(missing_ok=True)
            shutil.copy(folder / "older.db", folder / "idle.db")
            life.writer = life.start(WRITER, life.path)
            assert life.tell(str(WHOLE - OLDER)) == str(WHOLE)
            life.tell("rest")
        life.end()
    return folder


def find_fault(life: Life, case: Case) -> str:
    """Open the file as it is now; return what is wrong, "" for nothing."""
    options: dict[str, Any] = {"embedder": None, "counter": "estimate", "busy_timeout_s": 5}
    if case.left is None:
        with pytest.raises(memdb.FileError):
            memdb.open(life.path, **options)
        return ""
    seen: list[object] = []
    with memdb.open(life.path, mode="read", **options) as db:
        seen.append(db.scope("ann").session("s").last_seq)
    codes: list[list[str]] = []
    for _ in range(2):
        with memdb.open(life.path, **options) as db:
            codes.append([one.code for one in db.file.check(deep=True)])
            seen.append(db.scope("ann").session("s").last_seq)
            if len(seen) == 2:
                seen.append(db.scope("ann").session("s").append("user", "goes on").seq)
    with memdb.open(life.path, **options) as db:
        codes.append([one.code for one in db.file.check(accept=True)])
    reported = {None: codes[0], True: ["wal_missing"], False: []}[case.lost]
    left = case.left
    if seen == [left, left, left + 1, left + 1] and codes == [reported, reported, []]:
        return "" if case.lost is not None or reported in ([], ["wal_missing"]) else str(codes)
    return f"{seen} messages, {codes} reported"


def list_wrong(tmp_path: Path, made: Path, cases: list[Case]) -> list[str]:
    """Return what is wrong, by case."""
    wrong = []
    for number, case in enumerate(cases):
        if case.name == "dumped" and shutil.which("sqlite3") is None:
            continue  # Python's iterdump cannot write the tables of FTS5
        life = Life(tmp_path / str(number), made)
        try:
            life.begin(case.state)
            case.act(life)
            fault = find_fault(life, case)
        except (memdb.MemDBError, AssertionError, OSError) as error:
            fault = repr(error)
        finally:
            life.end()
        if fault:
            wrong.append(f"{case.state}, {case.name}: {fault}")
    return wrong


def test_a_dozen_scenarios(tmp_path: Path, made: Path) -> None:
    """Nothing is refused or lost without a word."""
    cases = [one for one in CASES if one.name in FAST and one.state != "idle"]

    assert len(cases) >= 12
    assert list_wrong(tmp_path, made, cases) == []


@pytest.mark.slow
@pytest.mark.parametrize("state", ["killed", "idle", "running"])
def test_every_scenario(tmp_path: Path, made: Path, state: str) -> None:
    """More than a hundred; the 71 of the first table are among them."""
    cases = [one for one in CASES if one.state.startswith(state)]

    assert len(CASES) >= 71
    assert list_wrong(tmp_path, made, cases) == []
