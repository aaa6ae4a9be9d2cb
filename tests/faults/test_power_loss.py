"""
A power cut after any write or sync: what was acknowledged is there, and the file is sound.

All public writes run on one file through a VFS that records each write, sync, truncation and
removal. Then the cut is tried after each of them: what was synced is on the disk; what was
not is lost, kept, kept in part and in any order, or torn by sector. Each image is opened
with memdb.open; its rows have to be those of the last acknowledged commit, or of the one
that was being made; `check(deep)` is silent, and a message can be appended.

The model is SQLite's own: sectors of 512 bytes, directory entries durable at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from counters import count
from vfs import PLAIN, Event, Recorder, installed
from writes import POLICY, WRITES, Summarizer, make_old, migrate, next_format

import memdb
from memdb.engine.sqlite import connection as connections
from memdb.engine.sqlite import upkeep, wal_sync, writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

SECTOR = 512
MODELS = ("none", "all", "some", "torn", "torn")

# The writes are spread over so many files, so that few of them meet what others deleted.
PARTS = 8

# The rows of a file, each as a text that begins with its table.
State = frozenset[str]

# The state of a file that was not made yet: memdb makes it then, with another uid.
NOTHING: State = frozenset({"nothing"})

# Rows that are shown where an image has others, and characters of a value.
MAX_SHOWN, MAX_CHARS = 6, 60

# Writes whose files are not the one that is watched.
ELSEWHERE = ("backup", "create a file", "migrate", "restore", "recover")


def rows_of(path: str) -> State:
    """Return all rows of a file, but for the mark that it is in use."""
    connection = apsw.Connection(path, vfs=PLAIN)
    connection.execute("PRAGMA query_only = ON; BEGIN").fetchall()
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
        "AND name NOT GLOB '*_fts_*' ORDER BY name"
    ).fetchall()
    found = set()
    for (name,) in names:
        where = "WHERE key <> 'in_use'" if name == "meta" else ""
        for row in connection.execute(f'SELECT * FROM "{name}" {where}'):
            found.add(f"{name} {' '.join(map(shown, row))}")
    connection.close()
    return frozenset(found)


def shown(value: object) -> str:
    """Return a value as a short text that no other value has."""
    data = value if isinstance(value, bytes) else repr(value).encode()
    if len(data) <= MAX_CHARS and not isinstance(value, bytes):
        return data.decode()
    start = "bytes" if isinstance(value, bytes) else repr(value)[:MAX_CHARS]
    return f"{start}...{hashlib.blake2b(data, digest_size=8).hexdigest()}"


@dataclass
class Commit:
    """
    A state of the rows, and numbers of events: before COMMIT returned, and before the call did.

    The call returns after a sync, or is known to have returned: then the state is acknowledged.
    """

    made: int
    state: State
    acknowledged: int | None = None


@dataclass
class History:
    """
    What was done to a file, and the states that were committed meanwhile.

    Attributes:
        events: Writes, syncs, truncations and removals, in order.
        commits: What the rows were after each commit, in order.
        start: The bytes of the file before.
        writes: The names of the writes, and how many events were before each.
    """

    path: str
    start: bytes
    events: list[Event] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    writes: list[tuple[int, str]] = field(default_factory=list)

    def write_of(self, number: int) -> str:
        """Return the name of the write that event *number*, from 1, was a part of."""
        return next((name for begun, name in reversed(self.writes) if begun < number), "opening")

    def acknowledge(self) -> None:
        """Note that the caller knows of every commit so far."""
        for commit in self.commits:
            if commit.acknowledged is None:
                commit.acknowledged = len(self.events)


def move_wal(path: str) -> None:
    """Move the WAL into a file as another program does; of "" there is nothing to move."""
    other = apsw.Connection(path)
    other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    other.close()


@contextlib.contextmanager
def recording(path: Path, *, moved: bool = False) -> Iterator[tuple[History, Callable[[], None]]]:
    """
    Record what SQLite does to a file; give a function that notes a state that is committed.

    *moved*: another connection moves the WAL into the file after every COMMIT, as the upkeep of
    this or another process may do, also between the two commits with which a burst begins.
    """
    is_new = not path.exists()
    history = History(str(path), b"" if is_new else path.read_bytes())
    history.commits.append(Commit(0, NOTHING if is_new else rows_of(str(path)), 0))
    recorder = Recorder()
    history.events = recorder.events

    def note_commit() -> None:
        state = rows_of(str(path))
        if state != history.commits[-1].state:
            history.commits.append(Commit(len(recorder.events), state))

    def note() -> None:
        note_commit()
        history.acknowledge()

    def see(event: Event) -> None:
        recorder(event)
        if event.kind == "sync" and event.path.endswith("-wal"):
            history.acknowledge()

    def trace(done: dict[str, Any]) -> None:
        if done["sql"] == "COMMIT":
            note_commit()
            move_wal(str(path) if moved else "")

    def watch(connection: apsw.Connection) -> None:
        if connection.open_vfs != PLAIN and connection.filename == str(path):
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, trace)

    apsw.connection_hooks.append(watch)
    try:
        with installed(see):
            yield history, note
    finally:
        apsw.connection_hooks.remove(watch)


def record(
    path: Path,
    prepared: bytes,
    opener: Callable[[], MemDB],
    names: list[str],
    *,
    moved: bool,
) -> History:
    """Run the writes of *names* on a file, each on what the ones before it left."""
    path.write_bytes(prepared)
    with recording(path, moved=moved) as (history, note):
        db = opener()
        for name in names:
            history.writes.append((len(history.events), name))
            # A write before it may have taken away what it needs.
            with contextlib.suppress(
                memdb.NotFound, memdb.InvalidInput, memdb.Conflict, LookupError, AssertionError
            ):
                WRITES[name].act(db)
            note()
            if name == names[len(names) // 2]:
                db.close()
                db = opener()
        db.close()
    return history


class Disk:
    """The files of a history up to an event: what is durable, and what is not yet."""

    def __init__(self, history: History) -> None:
        """Begin before the first event."""
        self._durable: dict[str, bytearray] = {history.path: bytearray(history.start)}
        self._pending: dict[str, list[Event]] = {}

    def apply(self, event: Event) -> None:
        """Let the next event happen."""
        if event.kind == "open":
            self._durable.setdefault(event.path, bytearray())
        elif event.kind == "unlink":
            self._durable.pop(event.path, None)
            self._pending.pop(event.path, None)
        elif event.kind == "sync":
            for one in self._pending.pop(event.path, []):
                change(self._durable[event.path], one)
        else:
            self._pending.setdefault(event.path, []).append(event)

    def cut(self, model: str, chance: random.Random) -> dict[str, bytes]:
        """Return the files as a power cut may leave them now."""
        image = {}
        for path, durable in self._durable.items():
            content = bytearray(durable)
            for event in survivors(self._pending.get(path, []), model, chance):
                change(content, event)
            image[path] = bytes(content)
        return image


def survivors(pending: list[Event], model: str, chance: random.Random) -> list[Event]:
    """Return what reaches the disk of writes that were not synced, by one of `MODELS`."""
    if model == "none":
        return []
    if model == "all":
        return pending
    kept = [event for event in pending if chance.random() < 0.6]
    chance.shuffle(kept)
    if model == "some":
        return kept
    return [piece for event in kept for piece in torn(event, chance)]


def torn(event: Event, chance: random.Random) -> Iterator[Event]:
    """Yield some of the sectors of a write."""
    if event.kind != "write":
        yield event
        return
    first = SECTOR - event.offset % SECTOR
    edges = [0, *range(first, len(event.data), SECTOR), len(event.data)]
    for begin, end in itertools.pairwise(edges):
        if chance.random() < 0.6:
            yield Event("write", event.path, event.offset + begin, event.data[begin:end])


def change(content: bytearray, event: Event) -> None:
    """Write into, or cut, the bytes of a file."""
    if event.kind == "truncate":
        del content[event.offset :]
        return
    if len(content) < event.offset:
        content.extend(bytes(event.offset - len(content)))
    content[event.offset : event.offset + len(event.data)] = event.data


def expected(history: History, number: int) -> list[State]:
    """Return the states that a file may have after *number* events."""
    commits = history.commits
    last = max(
        n
        for n, one in enumerate(commits)
        if one.acknowledged is not None and one.acknowledged <= number
    )
    newest = max(n for n, one in enumerate(commits) if one.made <= number)
    return [one.state for one in commits[last : newest + 2]]


class Judge:
    """
    Opens images in a folder and says what is wrong with them.

    Images differ in their WAL, and SQLite makes the same rows of most of them. So the rows and
    the deep check of the same content are asked for once; each image is opened and written to.
    """

    def __init__(self, folder: Path, history: History, *, reads: bool = False) -> None:
        """Write the images of *history* into *folder*; *reads*: and write nothing to them."""
        self._reads = reads
        self._folder = folder
        self._history = history
        self._states = {one.state for one in history.commits}
        self._rows: dict[bytes, State] = {}
        self._checked: set[bytes] = set()
        folder.mkdir()

    def find_fault(self, image: dict[str, bytes], allowed: list[State]) -> str:
        """Open one image; return what is wrong with it, "" for nothing."""
        for old in self._folder.iterdir():
            old.unlink()
        path = self._folder / "agent.db"
        for name, content in image.items():
            if name.startswith(self._history.path):
                end = name.removeprefix(self._history.path)
                (self._folder / f"agent.db{end}").write_bytes(content)
        try:
            with memdb.open(path, embedder=None, counter="estimate", durability="process") as db:
                return self._find_in(db, allowed)
        except (memdb.MemDBError, apsw.Error, UnicodeDecodeError) as error:
            return f"it does not open: {error!r}"

    def _find_in(self, db: MemDB, allowed: list[State]) -> str:
        content = content_hash(db.path)
        if content not in self._rows:
            self._rows[content] = rows_of(db.path)
        rows = self._rows[content]
        if rows not in allowed and NOTHING not in allowed:
            is_old = rows in self._states
            return (
                "acknowledged and lost"
                if is_old
                else f"nobody committed {differing(rows, allowed)}"
            )
        chat = db.scope("after").session("the cut")
        if not self._reads and (
            chat.append("user", "works again").seq != 1 or chat.last(1)[0].text != "works again"
        ):
            return "the next call does not work"
        if content not in self._checked:
            if found := db.file.check(deep=True):
                return "".join(map(str, found))
            self._checked.add(content)
        return ""


def differing(rows: State, allowed: list[State]) -> str:
    """Return some rows in which a state differs from the nearest allowed one."""
    more, less = min(
        ((rows - one, one - rows) for one in allowed), key=lambda pair: len(pair[0] | pair[1])
    )
    each = [*(f"+ {row}" for row in sorted(more)), *(f"- {row}" for row in sorted(less))]
    return f"{len(each)} rows: {each[:MAX_SHOWN]}"


def content_hash(path: str) -> bytes:
    """Return a hash of all pages of a file as SQLite reads them, with its WAL."""
    connection = apsw.Connection(path, vfs=PLAIN)
    pages = connection.serialize("main")
    connection.close()
    return hashlib.blake2b(pages).digest()


def images(
    history: History, seed: int, most: int | None
) -> Iterator[tuple[int, str, dict[str, bytes]]]:
    """Yield (event, model, image) for cuts after each event, or after about *most* of them."""
    chance = random.Random(seed)
    disk = Disk(history)
    share = 1.0 if most is None else most / (len(MODELS) * max(1, len(history.events)))
    for number, event in enumerate(history.events, 1):
        disk.apply(event)
        for model in MODELS:
            if chance.random() < share:
                yield number, model, disk.cut(model, chance)


def image_hash(image: dict[str, bytes], allowed: list[State]) -> bytes:
    """Return a hash of an image and of the states that it may show."""
    hasher = hashlib.blake2b(repr([hash(one) for one in allowed]).encode())
    for path in sorted(image):
        hasher.update(f"{path} {len(image[path])} ".encode())
        hasher.update(image[path])
    return hasher.digest()


def cut_often(
    folder: Path,
    history: History,
    row: str,
    *,
    seed: int,
    most: int | None = None,
    allow_older: bool = False,
    reads: bool = False,
) -> tuple[int, list[str]]:
    """Try all images, or about *most*; return how many differ, and what was wrong."""
    judge = Judge(folder, history, reads=reads)
    wrong = []
    tried: set[bytes] = set()
    for number, model, image in images(history, seed, most):
        allowed = expected(history, number)
        if allow_older:
            allowed = [one.state for one in history.commits if one.made <= number] + allowed
        key = image_hash(image, allowed)
        if key in tried:
            continue
        tried.add(key)
        found = judge.find_fault(image, allowed)
        count(row, bool(found) == (row == "off"))
        if found:
            event, write = history.events[number - 1], history.write_of(number)
            place = f"{event.kind} {event.path.removeprefix(history.path)} {event.offset}"
            wrong.append(f"event {number} ({place}) of {write}, {model}: {found}")
    return len(tried), wrong


def opener_of(path: Path, open_db: Any, make_embedder: Any, durability: str) -> Callable[[], MemDB]:
    """Return a function that opens the watched file."""
    return lambda: open_db(
        str(path),
        embedder=make_embedder("e", 8),
        summarizer=Summarizer(),
        settings=POLICY,
        durability=durability,
    )


@pytest.fixture(params=[40, 4_000], ids=["often", "as shipped"])
def checkpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a commit copy the WAL back after so many pages."""
    monkeypatch.setattr(upkeep, "WAL_PAGES", request.param)
    return int(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder in memory if there is one: what is tried here are no real syncs."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def history_of(
    folder: Path, prepared: bytes, open_db: Any, make_embedder: Any, small_steps: None
) -> Callable[..., History]:
    """Return a function that records one of so many parts of the writes, each on a full file."""

    def make(
        durability: str,
        part: int,
        parts: int = PARTS,
        *,
        link: bool = False,
        moved: bool = False,
    ) -> History:
        names = [name for name in WRITES if name not in ELSEWHERE]
        random.Random(3).shuffle(names)
        path = folder / "watched.db"
        if link:
            (folder / "links").mkdir()
            (folder / "links" / "link.db").symlink_to(path)
        opened = folder / "links" / "link.db" if link else path
        opener = opener_of(opened, open_db, make_embedder, durability)
        return record(path, prepared, opener, names[part::parts], moved=moved)

    return make


@pytest.mark.parametrize("link", [False, True], ids=["by its path", "through a link"])
def test_a_power_cut_loses_nothing_acknowledged(
    history_of: Callable[..., History], folder: Path, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    """Some eighty images, spread over eleven writes."""
    monkeypatch.setattr(upkeep, "WAL_PAGES", 40)
    tried, wrong = cut_often(
        folder / "images", history_of("power", 0, 6, link=link), "power", seed=1, most=100
    )

    assert tried > 50
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_power_cut_loses_anything_acknowledged(
    history_of: Callable[..., History], folder: Path, checkpoint: int, part: int
) -> None:
    """After every event of every public write: twenty thousand different images in all."""
    _, wrong = cut_often(folder / "images", history_of("power", part), "power", seed=part)

    assert wrong == []


def test_a_power_cut_beside_another_that_moves_the_wal(prepared: bytes, folder: Path) -> None:
    """Whichever commits of a burst are in the file: no image is told that its WAL is missing."""
    path = folder / "watched.db"
    path.write_bytes(prepared)
    with recording(path, moved=True) as (history, note):
        for text in ("first", "second"):
            with memdb.open(path, embedder=None, counter="estimate") as db:
                db.scope("ann").session("trip").append("user", text)
                note()

    tried, wrong = cut_often(folder / "images", history, "power", seed=1)

    assert (tried > 40, wrong) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_power_cut_loses_anything_beside_another_that_moves_the_wal(
    history_of: Callable[..., History], folder: Path, part: int
) -> None:
    """The same of some images of every public write."""
    history = history_of("power", part, moved=True)
    _, wrong = cut_often(folder / "images", history, "power", seed=part, most=400)

    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_no_power_cut_loses_anything_through_a_link(
    history_of: Callable[..., History], folder: Path, checkpoint: int, part: int
) -> None:
    """The same syncs as by the real path."""
    history = history_of("power", part, link=True)
    _, wrong = cut_often(folder / "images", history, "power", seed=part)

    assert wrong == []


@pytest.mark.slow
def test_a_power_cut_while_a_file_is_made(folder: Path) -> None:
    """Either it is made anew, or what was acknowledged is in it."""
    path = folder / "new.db"
    with recording(path) as (history, note):
        with memdb.open(path, embedder=None, counter="estimate") as db:
            note()
            db.scope("ann").session("s").extend([{"role": "user", "text": "first"}] * 20)
        note()

    tried, wrong = cut_often(folder / "images", history, "power", seed=1)

    assert (tried > 40, wrong) == (True, [])


@pytest.mark.slow
def test_a_power_cut_while_a_file_is_migrated(opened: Callable[..., MemDB], folder: Path) -> None:
    """The next opening migrates it, or finds that it is, in some hundred images."""
    db = opened("agent.db", folder=folder)
    make_old(db)
    with recording(folder / "old.db") as (history, note):
        migrate(db)
        note()
    history.commits[:] = [Commit(0, history.commits[-1].state, 0)]

    with next_format():  # whose tables the statements of memdb only read
        tried, wrong = cut_often(folder / "images", history, "power", seed=1, most=400, reads=True)

    assert (tried > 40, wrong) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_power_cut_at_process_loses_only_the_newest(
    history_of: Callable[..., History], folder: Path, checkpoint: int, part: int
) -> None:
    """The file is sound and in a state that was committed, perhaps an older one."""
    _, wrong = cut_often(
        folder / "images",
        history_of("process", part),
        "process",
        seed=part,
        most=150,
        allow_older=True,
    )

    assert wrong == []


@pytest.mark.parametrize("most", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_the_control_without_syncs_fails(
    history_of: Callable[..., History], folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """With synchronous=OFF the same cuts lose and damage: the simulator bites."""
    monkeypatch.setattr(upkeep, "WAL_PAGES", 40)
    monkeypatch.setitem(connections.SYNCHRONOUS, "power", "OFF")
    monkeypatch.setattr(writer, "SYNC_APART", "PRAGMA synchronous = OFF")
    monkeypatch.setattr(wal_sync.SharedSync, "wait", lambda *_: None)
    tried, wrong = cut_often(folder / "images", history_of("power", 0, 6), "off", seed=1, most=most)

    assert len(wrong) > tried // 4


@pytest.mark.slow
def test_the_wait_for_the_disk_is_what_keeps_a_write(
    prepared: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the newest ones are lost, and the file is sound; with it, none."""
    lost = []
    for name in ("with", "without"):
        path = folder / f"{name}.db"
        path.write_bytes(prepared)
        with (
            recording(path) as (history, note),
            memdb.open(path, embedder=None, counter="estimate") as db,
        ):
            for number in range(8):
                db.scope("ann").session("s").append("user", f"message {number}")
                note()
        _, wrong = cut_often(folder / f"images {name}", history, "power", seed=1, most=60)
        assert all("acknowledged and lost" in one for one in wrong)
        lost.append(len(wrong))
        monkeypatch.setattr(wal_sync.SharedSync, "wait", lambda *_: None)

    assert lost[0] == 0
    assert lost[1] > 10
