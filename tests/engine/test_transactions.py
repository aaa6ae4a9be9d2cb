"""`with db.write()` and `with db.read()`: whole or not at all, one moment, one thread."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine

PUT = "INSERT INTO meta (key, value) VALUES (:key, 'x')"
KEYS = "SELECT key FROM meta WHERE key < 'b' ORDER BY key"

FORK = """
import os, sys, memdb
db = memdb.open(sys.argv[1], embedder=None, counter="estimate")
chat = db.scope("ann").session("trip")
chat.append("user", "parent")
child = os.fork()
if child == 0:
    codes = []
    for call in (lambda: chat.append("user", "child"), lambda: chat.last(1), db.file.check, db.file.info, db.scopes):
        try:
            call()
            codes.append("worked")
        except memdb.MemDBError as error:
            codes.append(error.code)
    db.close()
    print(*codes, flush=True)
    sys.exit(0)
os.waitpid(child, 0)
chat.append("user", "parent again")
print([message.text for message in chat.messages()], db.file.check())
"""


class Stop(Exception):
    """What the tests raise inside a transaction."""


def keys(database: SqliteEngine) -> list[str]:
    """Return the keys that the tests have put."""
    with database.read() as tx:
        return [key for (key,) in tx.all(KEYS)]


def put(tx: Tx, key: str) -> None:
    """Write a row."""
    tx.run(PUT, {"key": key})


def test_a_write_is_there_when_its_block_ends(database: SqliteEngine) -> None:
    """All of it."""
    with database.write() as tx:
        put(tx, "a1")
        put(tx, "a2")

    assert keys(database) == ["a1", "a2"]


def test_a_write_that_raises_is_gone(database: SqliteEngine) -> None:
    """All of it, and the body's own error arrives."""
    with pytest.raises(Stop), database.write() as tx:
        put(tx, "a1")
        raise Stop

    assert keys(database) == []


def test_a_write_that_is_interrupted_by_the_keyboard_is_gone(database: SqliteEngine) -> None:
    """Also for what is no Exception; the lock is free again."""
    with pytest.raises(KeyboardInterrupt), database.write() as tx:
        put(tx, "a1")
        raise KeyboardInterrupt

    with database.write() as tx:
        put(tx, "a2")
    assert keys(database) == ["a2"]


def test_a_nested_write_that_raises_takes_only_its_own_part(database: SqliteEngine) -> None:
    """The outer one may go on."""
    with database.write() as tx:
        put(tx, "a1")
        with pytest.raises(Stop), database.write() as inner:
            put(inner, "a2")
            raise Stop
        put(tx, "a3")

    assert keys(database) == ["a1", "a3"]


def test_in_a_whole_write_a_nested_one_that_raises_undoes_all(database: SqliteEngine) -> None:
    """It has no savepoint; the next write is as ever."""
    with pytest.raises(Stop), database.write_whole() as tx:
        put(tx, "a1")
        with database.write() as inner:
            put(inner, "a2")
        with database.write() as inner:
            put(inner, "a3")
            raise Stop
    assert keys(database) == []

    with database.write_whole() as tx:
        put(tx, "a4")
        with database.write() as inner:
            put(inner, "a5")
    with database.write() as tx:
        put(tx, "a6")
        with pytest.raises(Stop), database.write() as inner:
            put(inner, "a7")
            raise Stop
    assert keys(database) == ["a4", "a5", "a6"]


def test_a_nested_write_goes_with_the_outer_one(database: SqliteEngine) -> None:
    """What an inner block finished is not stored alone."""
    with pytest.raises(Stop), database.write() as tx:
        with database.write():
            put(tx, "a1")
        raise Stop

    assert keys(database) == []


def test_three_levels_undo_the_innermost_alone(database: SqliteEngine) -> None:
    """Savepoints of the same name stack."""
    with database.write() as tx:
        put(tx, "a1")
        with database.write():
            put(tx, "a2")
            with pytest.raises(Stop), database.write():
                put(tx, "a3")
                raise Stop
            put(tx, "a4")

    assert keys(database) == ["a1", "a2", "a4"]


def test_the_error_of_the_body_wins(database: SqliteEngine) -> None:
    """Though SQLite has ended the transaction by itself, and ROLLBACK has nothing to do."""
    with pytest.raises(Stop), database.write() as tx:
        put(tx, "a1")
        tx.raw.execute("ROLLBACK")
        raise Stop

    assert keys(database) == []


def test_a_refused_statement_is_a_memdb_error_with_its_cause(database: SqliteEngine) -> None:
    """The driver's error is kept behind it."""
    with database.write() as tx:
        put(tx, "a1")
        with pytest.raises(memdb.StorageError) as caught:
            put(tx, "a1")

    assert caught.value.sqlite_code == 1555
    assert type(caught.value.__cause__).__module__ == "apsw"
    assert keys(database) == ["a1"]


@pytest.mark.parametrize("method", ["all", "one", "run", "count_changed"])
def test_every_way_to_run_a_statement_translates_errors(
    database: SqliteEngine, method: str
) -> None:
    """No error of the driver gets through."""
    with database.read() as tx, pytest.raises(memdb.StorageError):
        getattr(tx, method)("SELECT nonsense FROM nowhere")


def test_many_translates_errors(database: SqliteEngine) -> None:
    """Also for the second of several rows."""
    with pytest.raises(memdb.StorageError), database.write() as tx:
        tx.many(PUT, [{"key": "a1"}, {"key": "a1"}])

    assert keys(database) == []


def test_count_changed_says_how_many_rows_it_changed(database: SqliteEngine) -> None:
    """Zero when none matched."""
    with database.write() as tx:
        tx.many(PUT, [{"key": key} for key in ("a1", "a2", "a3")])

        assert tx.count_changed("DELETE FROM meta WHERE key BETWEEN 'a1' AND 'a2'") == 2
        assert tx.count_changed("DELETE FROM meta WHERE key = 'a9'") == 0


def test_one_gives_none_without_a_row(database: SqliteEngine) -> None:
    """Absence is None."""
    with database.read() as tx:
        assert tx.one(KEYS) is None


def test_the_time_is_fixed_in_a_write(database: SqliteEngine, clock: Any) -> None:
    """Whatever the clock does meanwhile, also in nested blocks; the next one has a new time."""
    clock.step_ms = 10
    with database.write() as tx:
        first = tx.now_ms
        clock.advance(1_000)
        with database.write() as inner:
            nested = inner.now_ms
    with database.write() as tx:
        later = tx.now_ms

    assert nested == first
    assert later > first


def test_a_read_inside_a_write_sees_it(database: SqliteEngine) -> None:
    """It is the same transaction."""
    with database.write() as tx:
        put(tx, "a1")
        with database.read() as inside:
            assert inside.all(KEYS) == [("a1",)]
            assert inside is tx


def test_a_read_sees_one_moment(path: str, make_database: Callable[..., SqliteEngine]) -> None:
    """What another handle commits meanwhile is seen by the next read."""
    reader, writer = make_database(path), make_database(path)
    with reader.read() as tx:
        before = tx.all(KEYS)
        with writer.write() as other:
            put(other, "a1")
        with reader.read() as nested:
            during = nested.all(KEYS)

    assert (before, during) == ([], [])
    assert keys(reader) == ["a1"]


def test_a_read_cannot_write(path: str, make_database: Callable[..., SqliteEngine]) -> None:
    """Its connection refuses."""
    database = make_database(path)

    with pytest.raises(memdb.StorageError), database.read() as tx:
        put(tx, "a1")

    assert keys(database) == []


def test_a_thread_does_not_see_what_another_has_not_finished(
    path: str, make_database: Callable[..., SqliteEngine]
) -> None:
    """It reads the state before, without waiting."""
    database = make_database(path)
    seen: list[list[str]] = []
    with database.write() as tx:
        put(tx, "a1")
        thread = threading.Thread(target=lambda: seen.append(keys(database)))
        thread.start()
        thread.join(60)

    assert seen == [[]]


def test_only_the_thread_that_writes_is_writing(database: SqliteEngine) -> None:
    """Another thread's read does not join this thread's write."""
    seen: list[bool] = []
    with database.write():
        thread = threading.Thread(target=lambda: seen.append(database.writing))
        thread.start()
        thread.join(60)

        assert database.writing is True
    assert (seen, database.writing) == ([False], False)


def test_writers_of_several_threads_take_turns(database: SqliteEngine) -> None:
    """Their blocks never mix."""

    def write(name: str) -> None:
        for _ in range(20):
            with database.write() as tx:
                (count,) = tx.one("SELECT count(*) FROM meta WHERE key LIKE 'a%'")
                put(tx, f"a{count:05}{name}")

    threads = [threading.Thread(target=write, args=(str(n),)) for n in range(6)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]

    numbers = [int(key[1:6]) for key in keys(database)]
    assert numbers == list(range(numbers[0], numbers[0] + 120))


def test_a_failing_clock_leaves_no_transaction_open(
    path: str, make_database: Callable[..., SqliteEngine]
) -> None:
    """The lock is free for the next."""
    answers = iter([1, 1])

    def clock() -> int:
        try:
            return next(answers)
        except StopIteration:
            raise Stop from None  # the one error

    database = make_database(path, clock=clock)
    with database.write() as tx:
        put(tx, "a1")

    with pytest.raises(Stop), database.write():
        pass

    with make_database(path).write() as tx:
        put(tx, "a2")
    assert keys(database) == ["a1", "a2"]


def test_closing_twice_is_closing_once(database: SqliteEngine) -> None:
    """The second does nothing."""
    database.close()
    database.close()


@pytest.mark.parametrize("how", ["read", "write"])
def test_a_closed_file_says_so(database: SqliteEngine, how: str) -> None:
    """It does not open itself again."""
    database.close()

    with pytest.raises(memdb.Closed, match="open it again"), getattr(database, how)():
        pass


def test_every_call_on_a_closed_memdb_says_so(db: memdb.MemDB) -> None:
    """Reads, writes and services alike."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "hi")
    stream = chat.artifacts
    stream.save("a", b"x")
    handle = stream.open("a")
    db.close()

    for call in (
        lambda: chat.append("user", "x"),
        lambda: chat.last(1),
        chat.messages,
        lambda: db.scope("ann").recall("x"),
        lambda: db.scope("ann").remember("x"),
        handle.read,
        db.file.check,
        db.file.rebuild,
        db.file.info,
        db.scopes,
        db.jobs.run,
        lambda: db.file.backup("x"),
    ):
        with pytest.raises(memdb.Closed):
            call()


def test_closing_while_others_read_ends_them_with_closed(file_db: memdb.MemDB) -> None:
    """No error of the driver, no hang, and close itself succeeds."""
    chat = file_db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": "x"} for _ in range(600)])
    errors: list[BaseException] = []
    started = threading.Barrier(5)

    def read() -> None:
        started.wait(60)
        try:
            while True:
                list(chat.messages())
        except BaseException as error:  # noqa: BLE001 (each is compared)
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    [thread.start() for thread in threads]
    started.wait(60)
    file_db.close()
    [thread.join(60) for thread in threads]

    assert [type(error) for error in errors] == [memdb.Closed] * 4


def test_closing_inside_a_write_is_refused_or_whole(
    path: str, make_database: Callable[..., SqliteEngine]
) -> None:
    """The write does not half survive, and no connection is left behind."""
    database = make_database(path)

    with pytest.raises(memdb.MemDBError), database.write() as tx:
        put(tx, "a1")
        database.close()

    assert keys(make_database(path)) == []


def test_a_forked_child_is_refused(path: str, run_child: Any) -> None:
    """It cannot write through its parent's connection; the parent goes on."""
    out = run_child(FORK, path)

    assert out.splitlines() == [
        "wrong_process wrong_process wrong_process wrong_process wrong_process",
        "['parent', 'parent again'] []",
    ]


def test_a_stamp_changes_with_the_file_and_only_then(make_database, path):
    """Other connections' commits change it, reads do not; it never waits for a writer."""
    database, other = make_database(path), make_database(path)
    assert database.stamp() is None  # nobody asked for it yet

    first = database.stamp(start=True)
    with database.read():
        assert database.stamp() == first
    with other.write() as tx:
        tx.run("CREATE TABLE more (x INTEGER) STRICT")
        assert database.stamp() == first
    second = database.stamp()
    with database.write() as tx:
        tx.run("DROP TABLE more")
    third = database.stamp()
    database.close()

    assert len({first, second, third}) == 3
    assert database.stamp() is None


def test_memory_has_no_stamp(make_database):
    """Its one connection belongs to whoever works."""
    assert make_database(":memory:").stamp(start=True) is None


@pytest.mark.parametrize("given", [["a1", "b\u00e9"], ("a1", "b\u00e9"), {"a1", "b\u00e9"}])
def test_a_list_is_bound_as_it_is(database: SqliteEngine, given: Any) -> None:
    """A list, tuple or set of texts goes in as a Python value."""
    with database.read() as tx:
        rows = tx.all("SELECT value FROM json_each(:texts) ORDER BY value", {"texts": given})

    assert rows == [("a1",), ("b\u00e9",)]


def test_a_list_of_ids_keeps_64_bits(database: SqliteEngine) -> None:
    """The largest id comes out as it went in; no ids give no rows."""
    with database.read() as tx:
        assert tx.all("SELECT value FROM json_each(:ids)", {"ids": [(1 << 63) - 1]}) == [
            ((1 << 63) - 1,)
        ]
        assert tx.all("SELECT value FROM json_each(:ids)", {"ids": []}) == []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_pages_read_a_table_once_and_in_order(database: SqliteEngine, count: int) -> None:
    """Each page begins behind the key of the last row, also of a key of two columns."""
    sql = """
        SELECT length(key), key, value FROM meta
        WHERE key LIKE 'p%' AND (length(key), key) > (:size, :key)
        ORDER BY length(key), key
        LIMIT 2
    """
    names = sorted(
        (f"p{n}" * (1 + n % 3) for n in range(count)), key=lambda name: (len(name), name)
    )
    with database.write() as tx:
        rows = [{"key": name, "value": "v"} for name in names]
        tx.many("INSERT INTO meta (key, value) VALUES (:key, :value)", rows)
        pages = list(tx.pages(sql, {"size": 0, "key": ""}))

    assert [row[1] for page in pages for row in page] == names
    assert all(len(page) == 2 for page in pages[:-1])


def test_apart_does_not_join_the_transaction_of_its_thread(
    path: str, make_database: Callable[..., SqliteEngine]
) -> None:
    """A file gets a connection of its own, which is closed; memory shares the one it has."""
    database = make_database(path)
    with database.write() as tx, database.apart(writable=False) as other:
        tx.run("INSERT INTO meta (key, value) VALUES ('apart', 'x')")
        assert other.one("SELECT 1 FROM meta WHERE key = 'apart'") is None
    with pytest.raises(memdb.Closed):
        other.one("SELECT 1")
    shared = make_database(":memory:")
    with shared.write() as tx, shared.apart() as other:
        assert other is tx
