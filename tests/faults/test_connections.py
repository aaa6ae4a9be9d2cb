"""
The life of connections: forks, signals, failed allocations, other libraries, truncated files.

Each test loses nothing that was acknowledged, and the next call works.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from counters import count
from vfs import starved

import memdb
import memdb.aio
from memdb import MemDB
from memdb.adapters.host import Host, HostFile
from memdb.engine.sqlite import maintenance, upkeep, wal_sync

APPEND = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate") as db:
    print(db.scope("ann").session("trip").append("user", "other").seq)
"""

# The parent closes its handle while the child writes; a third process comes and goes.
DAEMON = """
import multiprocessing, os, subprocess, sys, time, memdb
path, how, other = sys.argv[1:]
db = memdb.open(path, embedder=None, counter="estimate")
db.scope("ann").session("trip").append("user", "before")

def daemon():
    with memdb.open(path, embedder=None, counter="estimate") as own:
        chat = own.scope("ann").session("trip")
        print("ready", flush=True)
        for n in range(12):
            chat.append("user", f"daemon {n}")
            print("stored", flush=True)
            time.sleep(0.03)
        if how == "killed":
            os.kill(os.getpid(), 9)
    os._exit(0)

if how == "multiprocessing":
    child = multiprocessing.get_context("fork").Process(target=daemon)
    child.start()
    wait = child.join
else:
    pid = os.fork()
    if pid == 0:
        daemon()
    wait = lambda: os.waitpid(pid, 0)
time.sleep(0.1)
db.close()
for _ in range(3):
    print("stored" if subprocess.run([sys.executable, "-c", other, path], stdout=-3).returncode == 0 else "failed", flush=True)
wait()
"""

BUSY_FORK = """
import os, sys, threading, memdb
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
chat = db.scope("ann").session("trip")
chat.append("user", "one")
entered, leave = threading.Event(), threading.Event()

def use():
    with getattr(db._db, sys.argv[2])():
        entered.set()
        leave.wait(30)

thread = threading.Thread(target=use)
thread.start()
entered.wait(30)
pid = os.fork()
if pid == 0:
    try:
        memdb.open(sys.argv[1], embedder=None)
        print("opened", flush=True)
    except memdb.WrongProcess as error:
        print("refused", "spawn" in str(error), flush=True)
    with memdb.open(sys.argv[1] + ".other", embedder=None, counter="estimate") as own:
        print(own.scope("ann").session("trip").append("user", "mine").seq, flush=True)
    sys.exit(0)
os.waitpid(pid, 0)
leave.set()
thread.join()
print(chat.append("user", "two").seq, db.file.check(deep=True))
"""

LOCKED_FORK = """
import os, signal, sys, threading, time, memdb
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
chat = db.scope("ann").session("trip")
chat.append("user", "one")
upkeep, pool = db._db.upkeep, db._db.pool
held, leave = threading.Event(), threading.Event()

def hold():
    with upkeep._busy, upkeep._wake._cond, pool.write_lock._change, pool._lending._change:
        held.set()
        leave.wait(60)

thread = threading.Thread(target=hold)
thread.start()
held.wait(30)
pid = os.fork()
if pid == 0:
    sys.exit(0)  # what runs at the exit stops threads
for _ in range(300):
    if os.waitpid(pid, os.WNOHANG) != (0, 0):
        print("ended")
        break
    time.sleep(0.1)
else:
    print("hangs")
    os.kill(pid, signal.SIGKILL)
leave.set()
thread.join()
print(chat.append("user", "two").seq)
"""

STORM = """
import random, signal, sys, threading, memdb

class Stop(BaseException):
    pass

def ring(*_):
    raise Stop

signal.signal(signal.SIGALRM, ring)
path, calls, keep, most = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "keep", int(sys.argv[4])
chance = random.Random(int(sys.argv[2]) + keep)
db = memdb.open(path, durability="process", embedder=None, counter="estimate")
chat = db.scope("ann").session("trip")
stored = chat.append("user", "one").seq
stops, held, failed, kept = 0, 0, set(), None

def call(n):
    if n % 3 == 0:
        chat.last(3)
    elif n % 7 == 0:
        with db.transaction():
            chat.append("user", "first")
            chat.append("user", "second")
    else:
        chat.append("user", "hello")

for n in range(calls):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 10 ** chance.uniform(-5, most))
            call(n)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop as error:
        stops += 1
        kept = error if keep else None
    except memdb.MemDBError as error:
        failed.add(repr(error))
    pool = db._db.pool
    writing = pool.writing if hasattr(pool, "writing") else pool.write_lock.owner
    if isinstance(getattr(writing, "thread", None), int) and writing.thread != threading.get_ident():
        writing = None  # the thread for upkeep is at work
    held += bool(writing or pool.reading)
    if n % 40 == 0:
        own = chat.append("user", "own").seq
        assert own > stored and chat.last_seq == own == chat.last(1)[0].seq
        box = []
        thread = threading.Thread(target=lambda: box.append(chat.append("user", "thread").seq))
        thread.start()
        thread.join(60)
        (stored,) = box
seqs = [message.seq for message in chat.messages()]
print(stops * 30 > calls, held, failed, seqs == [*range(1, len(seqs) + 1)], db.file.check(deep=True))
"""

READ_FOR_EVER = """
import sys, memdb
db = memdb.open(sys.argv[1], mode=sys.argv[2], embedder=None, counter="estimate")
chat = db.scope("ann").session("trip")
print(len(chat.last(5)), flush=True)
try:
    while len(list(chat.messages())) > 1:
        db.scope("ann").recall("row word", limit=2)
        db.file.check()
    print("whole", flush=True)
except memdb.MemDBError as error:
    print(error.code, flush=True)
"""


def count_messages(path: str) -> int:
    """
    Return how many messages the session has; fail if the file is damaged.

    Another library may have moved the WAL and removed it, which looks like a loss.
    """
    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.file.check(deep=True, accept=True) == []
        seqs = [message.seq for message in db.scope("ann").session("trip").messages()]
    assert seqs == [*range(1, len(seqs) + 1)]
    return len(seqs)


@pytest.mark.parametrize(
    "how",
    [
        "killed",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("closed", "multiprocessing")),
    ],
)
def test_a_forked_child_that_opens_the_file_loses_nothing(
    path: str, run_child: Callable[..., str], how: str
) -> None:
    """Not its own messages, nor those of a program that closes the file meanwhile."""
    out = run_child(DAEMON, path, how, APPEND)  # of two processes: a line is no unit

    assert out.count("stored") == 15
    assert "failed" not in out
    assert count_messages(path) == 16
    count("forks")


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_child_refuses_a_file_that_was_in_use_at_the_fork(
    path: str, run_child: Callable[..., str], method: str
) -> None:
    """It says what to do; other files can be opened, and the parent goes on."""
    out = run_child(BUSY_FORK, path, method)

    assert out.splitlines() == ["refused True", "1", "2 []"]
    count("forks")


def test_a_child_ends_though_a_thread_of_its_parent_held_every_lock_at_the_fork(
    path: str, run_child: Callable[..., str]
) -> None:
    """A thread that the child does not have never gives back what it held."""
    assert run_child(LOCKED_FORK, path).split() == ["ended", "2"]
    count("forks")


def test_idle_connections_are_opened_again_after_a_fork(file_db: MemDB) -> None:
    """The parent does not notice; a stamp of before is not that of after."""
    chat = file_db.scope("ann").session("trip")
    chat.append("user", "one")
    before = HostFile(file_db).mark()
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)

    assert [message.text for message in chat.last(5)] == ["one"]
    assert HostFile(file_db).mark() != before
    assert chat.append("user", "two").seq == 2
    count("forks")


@pytest.mark.parametrize("keep", ["keep", pytest.param("drop", marks=pytest.mark.slow)])
def test_exceptions_at_any_bytecode_leave_no_lock_and_no_snapshot(
    path: str, run_child: Callable[..., str], keep: str, databases: Any
) -> None:
    """600 timers; whether or not somebody keeps the traceback, as a notebook does."""
    most = (
        -3 if databases is None else -2
    )  # the longest, as a power of ten: calls take longer there

    assert run_child(STORM, path, 600, keep, most).strip() == "True 0 set() True []"


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_block_whose_exit_never_ran_is_undone(file_db: MemDB, levels: int) -> None:
    """Also if its traceback is kept; another thread can write at once."""
    blocks = [file_db._db.write() for _ in range(levels)]
    exits = [block.__exit__ for block in blocks]
    for block in blocks:
        block.__enter__().run("INSERT INTO meta (key, value) VALUES (:k, 'x')", {"k": str(block)})
    exits.clear()

    done: list[int] = []
    thread = threading.Thread(
        target=lambda: done.append(file_db.scope("ann").session("trip").append("user", "x").seq)
    )
    thread.start()
    thread.join(60)

    assert done == [1]
    with file_db._db.read() as tx:
        assert tx.one("SELECT count(*) FROM meta WHERE value = 'x'") == (0,)


def test_a_transaction_can_be_entered_by_an_exit_stack(db: MemDB) -> None:
    """It commits, or undoes what raised."""
    chat = db.scope("ann").session("trip")
    with ExitStack() as stack:
        stack.enter_context(db.transaction())
        chat.append("user", "one")
    with pytest.raises(ZeroDivisionError), ExitStack() as stack:
        stack.enter_context(db.transaction())
        chat.append("user", "two")
        raise ZeroDivisionError

    assert chat.append("user", "three").seq == 2


TRANSACTIONS: dict[str, Callable[[Any], Any]] = {
    "of the file": lambda db: db.transaction(),
    "of a host": lambda db: Host(db.scope("ann").session("trip")).transaction(),
    "without savepoints": lambda db: Host(db.scope("ann").session("trip")).transaction(
        savepoints=False
    ),
}


def enter_again(transaction: Any, say: Callable[[str], object]) -> None:
    with transaction:
        say("never")


def enter_inside(transaction: Any, say: Callable[[str], object]) -> None:
    with transaction:
        say("undone")
        enter_again(transaction, say)


def enter_in_a_thread(transaction: Any, say: Callable[[str], object]) -> None:
    with transaction:
        say("undone")
        in_a_thread(lambda: enter_again(transaction, say))


def enter_after_the_end(transaction: Any, say: Callable[[str], object]) -> None:
    with transaction:
        pass
    enter_again(transaction, say)


def enter_after_an_error(transaction: Any, say: Callable[[str], object]) -> None:
    with suppress(ZeroDivisionError), transaction:
        say("undone")
        raise ZeroDivisionError
    enter_again(transaction, say)


def enter_by_a_stack(transaction: Any, say: Callable[[str], object]) -> None:
    with ExitStack() as stack:
        stack.enter_context(transaction)
        say("undone")
        stack.enter_context(transaction)


def leave_first(transaction: Any, _say: Callable[[str], object]) -> None:
    transaction.__exit__(None, None, None)


def leave_twice(transaction: Any, _say: Callable[[str], object]) -> None:
    with transaction:
        pass
    transaction.__exit__(None, None, None)


MISUSES = [enter_inside, enter_in_a_thread, enter_after_the_end, enter_after_an_error,
           enter_by_a_stack, leave_first, leave_twice]  # fmt: skip


def in_a_thread(work: Callable[[], object]) -> None:
    """Do *work* in another thread; its error comes here."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(20)


@pytest.mark.parametrize("around", [False, True], ids=["outermost", "inside another"])
@pytest.mark.parametrize("misuse", MISUSES)
@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_a_transaction_is_for_one_with_statement(
    db: MemDB, kind: str, misuse: Callable[[Any, Any], None], around: bool
) -> None:
    """InvalidInput; what it held is undone, and no lock and no transaction is left."""
    chat = db.scope("ann").session("trip")

    def say(text: str) -> None:
        chat.append("user", text)

    with db.transaction() if around else nullcontext():
        say("before")
        with pytest.raises(memdb.InvalidInput, match="transaction"):
            misuse(TRANSACTIONS[kind](db), say)
        say("after")

    in_a_thread(lambda: say("another thread"))
    if db.path != ":memory:":
        with memdb.open(db.path, embedder=None, counter="estimate", busy_timeout_s=0) as other:
            other.scope("ann").session("trip").append("user", "another handle")
    assert not db._db.writing
    texts = [message.text for message in chat.messages()]
    assert texts[:3] == ["before", "after", "another thread"]


def test_what_catches_a_second_entry_goes_on_in_its_transaction(db: MemDB) -> None:
    """Also if another thread tried, and if something looked at the exit."""
    chat = db.scope("ann").session("trip")
    transaction = db.transaction()
    assert hasattr(transaction, "__exit__")
    with suppress(ZeroDivisionError), transaction:
        chat.append("user", "undone")
        assert hasattr(transaction, "__exit__")
        with pytest.raises(memdb.InvalidInput):
            enter_again(transaction, chat.append)
        with pytest.raises(memdb.InvalidInput):
            in_a_thread(lambda: enter_again(transaction, chat.append))
        chat.append("user", "undone too")
        raise ZeroDivisionError

    assert [*chat.messages()] == []


def test_one_of_many_threads_enters_a_transaction(db: MemDB) -> None:
    """The others get InvalidInput; what it wrote is whole."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "first")
    for _ in range(20):
        transaction, start = db.transaction(), threading.Barrier(4)

        def enter(transaction: Any = transaction, start: Any = start) -> bool:
            start.wait(20)
            with suppress(memdb.InvalidInput), transaction:
                chat.append("user", "one")
                chat.append("user", "two")
                return True
            return False

        with ThreadPoolExecutor(4) as pool:
            entered = [pool.submit(enter) for _ in range(4)]
        assert sum(one.result() for one in entered) == 1

    assert chat.last_seq == 41


def test_coroutines_that_share_a_transaction_enter_it_once(path: str) -> None:
    """One of the calls that run beside each other; the file can be written afterwards."""

    async def run() -> list[Any]:
        async with memdb.aio.open(path, embedder=None, counter="estimate") as db:
            transaction = db.blocking.transaction()

            def work(sync: MemDB) -> str:
                with transaction:
                    return sync.scope("ann").session("trip").append("user", "once").text

            calls = [db.run(work, kind=kind) for kind in ("write", "read", "ask", "search")]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            await db.scope("ann").session("trip").append("user", "after")
            assert await db.scope("ann").session("trip").last_seq() == 2
            return answers

    answers = asyncio.run(run())

    assert answers.count("once") == 1
    assert [type(one) for one in answers if one != "once"] == [memdb.InvalidInput] * 3


def test_an_inner_write_whose_exit_never_ran_undoes_the_outer_one(db: MemDB) -> None:
    """Which of its statements to keep is not known, so the transaction says that it failed."""
    chat = db.scope("ann").session("trip")
    with pytest.raises(memdb.Interrupted), db.transaction():
        chat.append("user", "one")
        inner = db._db.write()
        inner.__enter__()
        del inner

    assert chat.append("user", "two").seq == 1


@pytest.mark.parametrize("place", ["memory", "file"], indirect=True)
@pytest.mark.parametrize(
    "name",
    [
        "delete",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("archive", "append", "forget")),
    ],
)
def test_a_failed_allocation_damages_no_index(
    place: str, make_database: Any, open_db: Any, name: str
) -> None:
    """As memory falls short for one call: it fails whole, the next works, every index is sound."""
    db = open_db(place, embedder=None)
    ann = db.scope("ann")
    texts = [" ".join(f"w{n * k % 397}" for k in range(1, 31)) for n in range(400)]
    ann.session("trip").extend([{"role": "user", "text": text} for text in texts])
    calls: dict[str, Callable[[], object]] = {
        "archive": lambda: ann.session("trip").archive(keep_last=5),
        "append": lambda: ann.session("trip").append("user", texts[0] * 40),
        "forget": lambda: ann.forget(query="w7"),
        "delete": lambda: ann.session("trip").delete(),
    }
    failures = 0
    for spare in range(20_000, 180_000, 8_000):
        ann.session("trip").last(1)
        db._db._writing()
        try:
            with starved(spare):
                calls[name]()
        except memdb.MemDBError:
            failures += 1
        ann.session("next").append("user", "next word")
        assert db.file.check() == []
        count("memory")
    assert failures


def look_with_another_library(path: str, start_child: Any) -> int:
    """
    Read the file with Python's SQLite, then let another process append; return how many it did.

    Closing drops memdb's locks, so the WAL is removed under its connections.
    """
    other = sqlite3.connect(path)
    other.execute("SELECT count(*) FROM messages").fetchall()
    other.close()
    child = start_child(APPEND, path)
    child.communicate(timeout=60)
    return int(child.returncode == 0)


def test_a_look_by_another_library_loses_no_acknowledged_write(path: str, start_child: Any) -> None:
    """The write after it is refused, the one after that works."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "one")
        stored = 1 + look_with_another_library(path, start_child)

        with pytest.raises(memdb.FileError, match="another SQLite library"):
            chat.append("user", "refused")
        assert [chat.append("user", f"after {n}").seq - stored for n in range(3)] == [1, 2, 3]

    assert count_messages(path) == stored + 3
    count("libraries")


@pytest.mark.slow
@pytest.mark.parametrize("n", range(20))
def test_forks_and_looks_lose_nothing(
    path: str, run_child: Callable[..., str], start_child: Any, n: int
) -> None:
    """The two again and again, at other moments."""
    how = ("closed", "killed", "multiprocessing")[n % 3]
    test_a_forked_child_that_opens_the_file_loses_nothing(path, run_child, how)
    test_a_look_by_another_library_loses_no_acknowledged_write(f"{path}.other", start_child)


def test_a_read_notices_that_its_wal_was_removed(path: str, start_child: Any) -> None:
    """It would see one moment for ever."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "one")
        chat.last(1)
        stored = 1 + look_with_another_library(path, start_child)

        assert len(chat.last(5)) == stored
        try:
            following = chat.append("user", "next")
        except memdb.FileError:  # it is noticed only now, and said once
            following = chat.append("user", "next")
        assert following.seq == stored + 1

    assert count_messages(path) == stored + 1
    count("libraries")


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_too_many_open_files_say_so_and_pass(file_db: MemDB, left: int) -> None:
    """SQLite opens for reading only then; the handle does not keep that connection."""
    import resource

    chat = file_db.scope("ann").session("trip")
    chat.append("user", "one")
    file_db._db.pool.close_idle()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    spare: list[int] = []
    try:
        while True:
            spare.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    try:
        for _ in range(left):
            os.close(spare.pop())
        try:
            chat.append("user", "two")
            message = ""
        except memdb.MemDBError as error:
            message = str(error)
    finally:
        for number in spare:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert not message or "open" in message
    assert "permissions of the file and its folder" not in message
    assert chat.append("user", "three").seq == 2 + (not message)


@pytest.mark.parametrize(("how", "mode"), [("truncate", "write"), ("copy", "read")])
def test_a_file_that_shrinks_under_a_reader_kills_nobody(
    path: str, start_child: Any, how: str, mode: str
) -> None:
    """An error, and no SIGBUS."""
    shrink_under_a_reader(path, start_child, how, mode)


@pytest.mark.slow
@pytest.mark.parametrize("n", range(40))
def test_files_that_shrink_under_readers(path: str, start_child: Any, n: int) -> None:
    """Truncated and copied over, half of them opened only for reading."""
    shrink_under_a_reader(
        path, start_child, ("truncate", "copy")[n % 2], ("write", "read")[n // 2 % 2]
    )


def shrink_under_a_reader(path: str, start_child: Any, how: str, mode: str) -> None:
    """Truncate a file, or copy a small one over it, while a process reads it in a loop."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        trip = db.scope("ann").session("trip")
        trip.extend([{"role": "user", "text": f"row {n} " + "word " * 40} for n in range(1_500)])
    with memdb.open(path + ".small", embedder=None, counter="estimate") as db:
        db.scope("ann").session("trip").append("user", "one")
    child = start_child(READ_FOR_EVER, path, mode)
    assert child.stdout.readline() == "5\n"
    if how == "truncate":
        os.truncate(path, 60_000)
    else:
        Path(path).write_bytes(Path(path + ".small").read_bytes())

    out, err = child.communicate(timeout=60)

    assert (child.returncode, err) == (0, "")
    # Copied over in one piece between two reads, it is a whole file that says something else.
    assert out.strip() in {"busy", "corrupt", "file", "not_memdb", "io", "storage", "whole"}
    assert out.strip() != "whole" or (how, mode) == ("copy", "read")
    count("truncations")


def test_threads_that_ended_leave_no_descriptors(file_db: MemDB) -> None:
    """100 of them read and write."""
    chat = file_db.scope("ann").session("trip")
    chat.append("user", "one")

    def use() -> None:
        chat.last(1)
        chat.append("user", "more")

    def run(number: int) -> int:
        threads = [threading.Thread(target=use) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return len(os.listdir("/proc/self/fd"))

    assert run(100) <= run(10) + 16
    assert chat.last_seq == 111


GENERATORS: dict[str, Callable[[MemDB], Any]] = {
    "messages": lambda db: iter(db.scope("ann").session("trip").messages()),
    "export_lines": lambda db: db.export_lines(),
    "export_lines of a user": lambda db: db.export_lines(user="ann"),
    "entries.list": lambda db: iter(db.scope("ann").entries.list()),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_keeps_no_snapshot_between_two_items(
    file_db: MemDB, name: str, databases: Any
) -> None:
    """The thread reads what it wrote meanwhile, and the WAL of a file can be moved into it."""
    ann = file_db.scope("ann")
    chat = ann.session("trip")
    chat.extend([{"role": "user", "text": f"row {n}"} for n in range(1_200)])
    for n in range(3):
        ann.remember(f"Ann owns boat number {n}.", key=f"boat{n}")
    rows = GENERATORS[name](file_db)
    next(rows)
    stored = chat.append("user", "meanwhile").seq

    assert not file_db._db.pool.reading
    assert chat.last_seq == stored == chat.last(1)[0].seq
    if databases is None:
        file_db._db.checkpoint()
        assert os.path.getsize(file_db.path + "-wal") == 0
    assert len(list(rows)) >= 2


def test_process_durability_syncs_soon_after_a_commit(
    path: str, open_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the upkeep thread, which ends when nothing is due, starts again, and stops at close."""
    synced: list[str] = []
    monkeypatch.setattr(upkeep, "SYNC_S", 0.02)
    monkeypatch.setattr(upkeep, "IDLE_S", 0.2)
    monkeypatch.setattr(wal_sync, "sync_handle", lambda _handle, path: synced.append(path))
    db = open_db(path, durability="process")
    for _ in range(3):
        before = len(synced)
        db.scope("ann").session("trip").append("user", "one")
        wait_until(lambda before=before: len(synced) > before)
        wait_until(lambda: not db._db.upkeep.is_running)

    assert {*synced} == {f"{db._db.path}-wal"}
    db.scope("ann").session("trip").append("user", "last")
    db.close()
    wait_until(lambda: not db._db.upkeep.is_running)


@pytest.mark.parametrize("options", [{"durability": "power"}, {"mode": "read"}])
def test_no_thread_syncs_a_handle_that_needs_none(file_db: MemDB, options: Any) -> None:
    """With durability "power", or if nothing is written."""
    file_db.scope("ann").session("trip").append("user", "one")
    before = threading.active_count(), len(os.listdir("/proc/self/task"))
    with memdb.open(file_db.path, embedder=None, counter="estimate", **options) as db:
        db.scope("ann").session("trip").last(1)
        if options != {"mode": "read"}:
            db.scope("ann").session("trip").append("user", "two")
        threads = int(options != {"mode": "read"})  # the one that every writer has for a second
        assert len(os.listdir("/proc/self/task")) <= before[1] + threads


ENDLESS_READ = """
import sys, apsw
reader = apsw.Connection(sys.argv[1])
reader.execute("BEGIN")
reader.execute("SELECT count(*) FROM messages").fetchall()
print("reading", flush=True)
sys.stdin.read()
reader.execute("ROLLBACK")
reader.close()
print("ended", flush=True)
"""


def test_a_reader_that_never_ends_is_named(
    path: str, open_db: Any, start_child: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `check` and `info`, while the WAL is large because of it; no longer than that."""
    monkeypatch.setattr(maintenance, "LARGE_WAL_BYTES", 1 << 20)
    db = open_db(path)
    chat = db.scope("ann").session("trip")
    chat.append("user", "one")
    child = start_child(ENDLESS_READ, path)
    assert child.stdout.readline() == "reading\n"
    chat.extend([{"role": "user", "text": f"row {n} " + "word " * 100} for n in range(2_000)])

    (finding,) = db.file.check()
    assert (finding.code, finding.rebuildable) == ("wal_held", False)
    assert f"process {child.pid} reads" in finding.text
    assert db.file.info().wal_readers == (child.pid,)

    assert child.communicate(timeout=60)[0] == "ended\n"
    assert db.file.check() == []
    db._db.checkpoint()
    assert db.file.info().wal_readers == ()


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait up to 20 s."""
    for _ in range(2_000):
        if is_done():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")
