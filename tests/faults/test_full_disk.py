"""No room left: DiskFull, the file as before, and work goes on when there is room again."""

import io
import random
from collections.abc import Callable
from typing import Any

import pytest

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


WRITES: dict[str, Callable[[MemDB], object]] = {
    "append": lambda db: db.scope("ann").session("trip").append("user", LARGE),
    "extend": lambda db: (
        db.scope("ann")
        .session("trip")
        .extend([{"role": "user", "text": LARGE[n:20_000]} for n in range(20)])
    ),
    "remember": lambda db: db.scope("ann").remember(LARGE),
    "remember a key again": lambda db: db.scope("ann").remember(LARGE, key="home"),
    "update": lambda db: db.scope("ann").entries.update(
        next(db.scope("ann").entries.list()).id, text=LARGE
    ),
    "save": lambda db: db.scope("ann").artifacts.save("menu.md", LARGE),
    "archive": lambda db: db.scope("ann").session("long").archive(keep_last=1),
    "save a stream": lambda db: db.scope("ann").artifacts.save(
        "menu.md", io.BytesIO(bytes(range(256)) * 40_000)
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_full_disk_leaves_the_file_as_before(full: MemDB, dump: Any, name: str) -> None:
    """The error says what to do, and every row is as it was."""
    before = dump(full.path)

    with pytest.raises(memdb.DiskFull, match="free some space") as caught:
        WRITES[name](full)

    assert (caught.value.code, caught.value.exit_code, caught.value.sqlite_code & 0xFF) == (
        "full",
        7,
        13,
    )
    assert dump(full.path) == before


@pytest.mark.parametrize("name", WRITES)
def test_work_goes_on_when_there_is_room(full: MemDB, name: str) -> None:
    """The same handle does the same call."""
    with pytest.raises(memdb.DiskFull):
        WRITES[name](full)
    limit_pages(full, 100_000)

    WRITES[name](full)

    assert full.file.check(deep=True) == []


def test_reading_and_small_writes_go_on_while_a_large_one_fails(full: MemDB) -> None:
    """A full disk stops what does not fit, nothing else."""
    with pytest.raises(memdb.DiskFull):
        WRITES["append"](full)

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
