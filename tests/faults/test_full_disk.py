"""No room left: DiskFull, the file as before, and work goes on when there is room again."""

import contextlib
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from counters import count
from shaker import Shaker
from writes import WRITES, every_write

import memdb
from memdb import MemDB

LARGE = "words that fill pages " * 20_000


@pytest.fixture
def full(file_db: MemDB) -> MemDB:
    """Return a file that holds a little and cannot grow by more than five pages."""
    noise = random.Random(1)
    ann = file_db.scope("ann")
    ann.session("trip").append("user", "before")
    ann.remember("Ann lives in Oslo.", key="home")
    ann.artifacts.save("menu.md", "soup")
    # Words that no index page has room for, and no compression makes small.
    ann.session("long").extend(
        [{"role": "user", "text": noise.randbytes(1_500).hex()} for _ in range(200)]
    )
    file_db.jobs.run(kinds=("embed",))
    limit_pages(file_db, 5)
    return file_db


def limit_pages(db: MemDB, more: int) -> None:
    """Let the file grow by *more* pages at most."""
    connection = db._db._writing().raw
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + more}").fetchall()


# What a call says that could not write into the file, or another one beside it.
ERRORS = (memdb.DiskFull, memdb.IOFailed, memdb.FileError, memdb.MigrationFailed)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 8 MB; skip where that is not allowed."""
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or not sys.platform.startswith("linux"):
        pytest.skip("mounting a small disk needs Linux")
    asked = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting a small disk is not allowed here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filled_up(folder: Path, left: int) -> Iterator[None]:
    """Let only so many bytes of the disk be free."""
    filler = folder / "filler"
    free = shutil.disk_usage(folder).free
    with contextlib.suppress(OSError):  # upkeep writes meanwhile: then the disk is full
        filler.write_bytes(bytes(max(0, free - left)))
    yield
    filler.unlink()


@every_write(15)
def test_a_full_disk_leaves_before_or_after(
    opened: Callable[..., MemDB], tmp_path: Path, name: str
) -> None:
    """A real one, with more and more room; the same call works when there is enough."""
    with small_disk(tmp_path / "disk") as folder:
        shaker = Shaker(partial(opened, folder=folder), WRITES[name])
        for left in (0, 4_096, 65_536, 262_144):
            error, wrong = shaker.run_with(lambda _, left=left: filled_up(folder, left))
            assert wrong == [], left
            assert error is None or isinstance(error, ERRORS)
            count("disks", error is not None)


def append_much(db: MemDB) -> object:
    """Append more than fits."""
    return db.scope("ann").session("trip").append("user", LARGE)


def test_a_full_disk_says_what_to_do(full: MemDB, dump: Any) -> None:
    """The error has its own code and exit status, and every row is as it was."""
    before = dump(full.path)

    with pytest.raises(memdb.DiskFull, match="free some space") as caught:
        append_much(full)

    found = caught.value
    assert (found.code, found.exit_code, found.sqlite_code & 0xFF) == ("full", 7, 13)
    assert dump(full.path) == before


def test_reading_and_small_writes_go_on_while_a_large_one_fails(full: MemDB) -> None:
    """A full disk stops what does not fit, nothing else."""
    with pytest.raises(memdb.DiskFull):
        append_much(full)

    assert full.scope("ann").session("trip").append("user", "small").seq == 2
    assert full.scope("ann").recall("before")


def test_summaries_that_do_not_fit_are_made_later(full: MemDB) -> None:
    """Contexts answer meanwhile; each summary is there whole or not at all."""
    chat = full.scope("ann").session("long")
    with pytest.raises(memdb.DiskFull):
        full.jobs.run(kinds=("summarize",))
    tree = chat.summaries.tree()
    covered = sum(summary.message_count for summary in tree.frontier)
    assert (covered, tree.last_seq) == (tree.first_raw_seq - 1, 200)
    assert chat.context(2_000).tokens <= 2_000
    limit_pages(full, 100_000)

    full.jobs.run(kinds=("summarize",))

    assert len(chat.summaries.tree().summaries) == 25
    assert full.file.check(deep=True) == []


def test_a_caught_full_disk_inside_a_write_does_not_let_half_of_it_through(
    path: str, make_database: Any
) -> None:
    """SQLite ends the whole transaction; what follows in it must not be stored alone."""
    database = make_database(path)

    with pytest.raises(memdb.DiskFull), database.write() as tx:
        tx.run("INSERT INTO meta (key, value) VALUES ('first', '1')")
        (pages,) = tx.one("PRAGMA page_count")
        tx.all(f"PRAGMA max_page_count = {pages + 2}")
        try:
            with database.write():
                tx.run("INSERT INTO meta (key, value) VALUES ('second', :value)", {"value": LARGE})
        except memdb.DiskFull:
            tx.run("INSERT INTO meta (key, value) VALUES ('third', '3')")

    with database.read() as tx:
        assert tx.all("SELECT key FROM meta WHERE key IN ('first', 'second', 'third')") == []


def test_a_new_file_that_does_not_fit_is_not_half_made(path: str, run_child: Any) -> None:
    """A file made under a size limit of the system fails whole, and opens later."""
    run_child(
        """
import resource, signal, sys, memdb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    memdb.open(sys.argv[1], embedder=None)
except memdb.MemDBError as error:
    assert isinstance(error, (memdb.DiskFull, memdb.IOFailed, memdb.FileError)), type(error)
else:
    raise SystemExit("it fitted")
""",
        path,
    )

    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.scope("ann").session("s").append("user", "hi").seq == 1
        assert db.file.check() == []


LIMITED = """
import resource, signal, sys
import memdb
db = memdb.open(sys.argv[1], embedder=None)
chat = db.scope("ann").session("trip")
chat.append("user", "before")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
try:
    for number in range(10_000):
        chat.append("user", f"word{number} " * 500)
except memdb.DiskFull as error:
    print(error.code)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
chat.append("user", "after")
print(chat.last(1)[0].text, db.file.check(deep=True))
"""


def test_a_quota_is_a_full_disk(tmp_path: Path) -> None:
    """The system says it in other words; the file is sound, and work goes on with more room."""
    asked = [sys.executable, "-c", LIMITED, str(tmp_path / "a.db")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)

    assert (done.stdout.split(maxsplit=1)[:1], done.stderr) == (["full"], "")
    assert done.stdout.endswith("after []\n")
