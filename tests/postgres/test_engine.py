"""Transactions on a server: together or not at all, repeated after a loss, one lock per scope."""

from __future__ import annotations

import gc
import linecache
import logging
import socket
import struct
import sys
import threading
import time
from array import array
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import HostFile
from memdb.models.ids import MAX_SCOPE_NO, system_clock, uuid7
from memdb.postgres.binary import from_pgvector, to_pgvector
from memdb.postgres.commits import FENCE
from memdb.postgres.dialect import statement_of
from memdb.postgres.engine import PostgresEngine
from memdb.postgres.maintenance import SELECT_BYTES
from memdb.postgres.schema import FORMAT
from memdb.postgres.wire import Wire
from memdb.postgres.words import PostgresWords
from memdb.tables import scopes, sessions, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")


@pytest.fixture
def address(postgres_databases: Any) -> Iterator[str]:
    """Return the address of an empty database of this test's."""
    yield postgres_databases.address_of("/engine")
    postgres_databases.empty_all()


@pytest.fixture
def open_engine(address: str) -> Iterator[Callable[..., PostgresEngine]]:
    """Return a function that opens the database; all are closed at the end."""
    opened: list[PostgresEngine] = []

    def make(place: str = address, **options: Any) -> PostgresEngine:
        opened.append(PostgresEngine(place, clock=system_clock, ids=uuid7, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def engine(open_engine: Callable[..., PostgresEngine]) -> PostgresEngine:
    """Return the open database."""
    return open_engine()


@pytest.fixture
def db(address: str) -> Iterator[memdb.MemDB]:
    """Return the open database with its services."""
    with memdb.open(address, embedder=None) as opened:
        yield opened


def kill_all(address: str) -> int:
    """End every connection of memdb's; return how many there were."""
    with psycopg.connect(address, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'memdb' AND datname = current_database()"
        ).fetchall()
    return len(rows)


class Proxy:
    """Passes bytes on to a server; `swallow` keeps its answers back from the next COMMIT on."""

    def __init__(self, port: int) -> None:
        """Listen on a port of its own."""
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.swallow = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            try:
                while data := client.recv(65536):
                    server.sendall(data)
            except OSError:
                return

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                if self.swallow and b"COMMIT" in data:
                    self.swallow = False
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._listening.close()


@contextmanager
def proxied(address: str) -> Iterator[tuple[Proxy, str]]:
    """Yield a proxy in front of a server, and the address that leads through it."""
    port = int(address.rpartition(":")[2].partition("/")[0])
    proxy = Proxy(port)
    try:
        yield proxy, address.replace(f":{port}/", f":{proxy.port}/")
    finally:
        proxy.close()


def test_a_block_is_committed_as_a_whole(engine: PostgresEngine) -> None:
    """If its body raises, nothing of it is there."""
    with pytest.raises(ZeroDivisionError), engine.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        raise ZeroDivisionError
    with engine.read() as tx:
        assert scopes.list_all(tx) == []

    with engine.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
    with engine.read() as tx:
        assert [row[1:] for row in scopes.list_all(tx)] == [("app", "ann")]


def test_an_inner_block_is_undone_alone(engine: PostgresEngine) -> None:
    """A statement that the server refuses leaves the rest of the transaction usable."""
    with engine.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        with pytest.raises(memdb.MemDBError), engine.write() as inner:
            scopes.ensure(inner, "app", "bob", "u")
            inner.all("SELECT no_such_column FROM scopes")
        scopes.ensure(tx, "app", "cid", "u")

    with engine.read() as tx:
        assert [user for _, _, user in scopes.list_all(tx)] == ["ann", "cid"]


def test_a_refused_statement_ends_the_transaction(engine: PostgresEngine) -> None:
    """Each later statement raises the same error, and nothing is committed."""
    with pytest.raises(memdb.Corrupt), engine.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        with pytest.raises(memdb.Corrupt):
            tx.all("SELECT no_such_column FROM scopes")
        with pytest.raises(memdb.Corrupt):
            scopes.find(tx, "app", "ann")

    with engine.read() as tx:
        assert scopes.list_all(tx) == []


def test_a_read_sees_one_moment(open_engine: Callable[..., PostgresEngine]) -> None:
    """What others commit meanwhile is seen by the next one."""
    reader, writer = open_engine(), open_engine()
    with reader.read() as tx:
        assert scopes.list_all(tx) == []
        with writer.write() as other:
            scopes.ensure(other, "app", "ann", "u")

        assert tx.all("SELECT count(*) FROM scopes") == [(0,)]
    with reader.read() as tx:
        assert len(scopes.list_all(tx)) == 1


@pytest.mark.parametrize("way", ["run", "many"])
def test_a_read_cannot_write(engine: PostgresEngine, way: str) -> None:
    """Also where the server would be told later, or never: nothing is lost without a word."""
    values = {"key": "a", "value": 1}
    put = "/* settings.put */ INSERT INTO meta (key, value) VALUES (:key, :value)"

    with (
        pytest.raises(memdb.StorageError, match="a read transaction cannot write"),
        engine.read() as tx,
    ):
        if way == "run":
            tx.run(put, values)
        else:
            tx.many(put, [values])


def test_a_read_inside_a_write_sees_it(engine: PostgresEngine) -> None:
    """And writing knows whether it is inside."""
    with engine.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        with engine.read() as inner:
            assert len(scopes.list_all(inner)) == 1
        assert engine.writing
        with pytest.raises(memdb.InvalidInput, match="vacuum was called inside"):
            engine.maintenance.vacuum()
    assert not engine.writing


def test_scopes_take_the_partitions_in_turn(postgres_databases: Any) -> None:
    """So that the first scopes of a server do not share one."""
    with postgres_databases.bare() as address, memdb.open(address, embedder=None) as db:
        for user in "abc":
            db.scope(user).session("s").append("user", f"hello {user}")

        found = db.query("SELECT scope_no FROM scopes ORDER BY scope_no")
        assert [row["scope_no"] for row in found] == [1, 65537, 131073]
        assert db.file.check(deep=True) == []


def test_the_number_of_scopes_has_a_limit(engine: PostgresEngine) -> None:
    """The sequence says how many numbers were given out, without counting the scopes."""
    with engine.write() as tx:
        tx.all("SELECT setval('scope_numbers', CAST(:n AS BIGINT))", {"n": MAX_SCOPE_NO - 2})
        scopes.ensure(tx, "app", "last", "u")
        with pytest.raises(memdb.TooLarge) as caught:
            scopes.ensure(tx, "app", "one more", "v")

    assert caught.value.limit == MAX_SCOPE_NO


def test_a_lost_connection_is_not_noticed(address: str, engine: PostgresEngine) -> None:
    """In a read, and in the middle of a write: the statements before are run again."""
    with engine.write() as tx:
        ann = scopes.ensure(tx, "app", "ann", "u")
        assert kill_all(address) >= 1
        first = sessions.add(tx, ann, "one", "s1")
        assert kill_all(address) >= 1
        assert sessions.find(tx, ann, "one") == first
        kill_all(address)

    with engine.read() as tx:
        assert sessions.find(tx, ann, "one") == first
        kill_all(address)
        assert [name for _, name in sessions.names(tx, [first]).items()] == ["one"]


def test_numbers_and_sizes_may_differ_after_a_loss(
    address: str, open_engine: Callable[..., PostgresEngine]
) -> None:
    """Sequences and sizes are of no snapshot: what others do to them is no reason to give up."""
    engine, other = open_engine(), open_engine()
    with engine.write() as tx:
        ann = scopes.ensure(tx, "app", "ann", "u")
        own = tx.read_number("/* test.next_scope */\nSELECT next_scope_no()")
        kill_all(address)
        with other.write() as beside:
            bob = scopes.ensure(beside, "app", "bob", "v")
        sessions.add(tx, ann, "one", "s1")
    assert len({ann, own, bob}) == 3

    with engine.read() as tx:
        before = dict(tx.all(SELECT_BYTES))
        kill_all(address)
        with other.write() as beside:
            settings.put(beside, {"quota": "5" * 100_000})
        assert {number for number, _, _ in scopes.list_all(tx)} == {ann, bob}
        assert dict(tx.all(SELECT_BYTES)).keys() == before.keys()


COUNT = "SELECT count(*) FROM scopes WHERE scope_no > :n"


@contextmanager
def calls_of(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[list[Any]]:
    """Yield the first argument of each call of a method of the wire."""
    real, calls = getattr(Wire, name), []

    def counting(self: Wire, *given: Any) -> Any:
        calls.append(given[0])
        return real(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Wire, name, counting)
        yield calls


def test_a_snapshot_asks_nothing_twice(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a caller changed its rows. What a write reads may change."""
    with engine.read() as tx, calls_of(monkeypatch, "send") as sent:
        tx.all(COUNT, {"n": 0}).clear()
        assert tx.all(COUNT, {"n": 0}) == [(0,)]
        assert tx.all(COUNT, {"n": 1}) == [(0,)]
    assert len([sql for sql in sent if "count" in sql]) == 2

    with engine.write() as tx:
        tx.expect(COUNT, {"n": 0})
        assert tx.all(COUNT, {"n": 0}) == [(0,)]
        scopes.ensure(tx, "app", "ann", "u")
        assert tx.all(COUNT, {"n": 0}) == [(1,)]


def test_what_is_sent_ahead_is_answered_together(
    address: str, engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wait for all; what is never asked disturbs nothing, and a loss neither."""
    with engine.read() as tx:
        for number in range(3):
            tx.expect(COUNT, {"n": number})
        with calls_of(monkeypatch, "_read_until") as waits:
            assert tx.one(COUNT, {"n": 1}) == (0,)
            assert tx.one(COUNT, {"n": 0}) == (0,)
        assert len(waits) == 1

    with engine.read() as tx:
        tx.expect(COUNT, {"n": 0})
        kill_all(address)
        assert tx.one(COUNT, {"n": 1}) == (0,)
        assert tx.one(COUNT, {"n": 0}) == (0,)
    with engine.read() as tx:
        tx.expect("SELECT 1 / 0")
        tx.expect(COUNT, {"n": 0})
        with pytest.raises(memdb.MemDBError):
            tx.one(COUNT, {"n": 0})
    with engine.read() as tx:
        assert tx.one(COUNT, {"n": 0}) == (0,)


def test_a_write_that_read_what_changed_is_refused(
    address: str, open_engine: Callable[..., PostgresEngine]
) -> None:
    """Nothing is decided by what holds no more: the error says to try again."""
    engine, other = open_engine(), open_engine()
    with (
        pytest.raises(memdb.Busy, match="changed what this transaction has read"),
        engine.write() as tx,
    ):
        assert settings.get_all(tx) == {}
        kill_all(address)
        with other.write() as beside:
            settings.put(beside, {"quota": "5"})
        settings.put(tx, {"quota": "7"})
        settings.get_all(tx)

    with engine.read() as tx:
        assert dict(settings.get_all(tx))["quota"] == "5"


def test_a_commit_without_an_answer_is_looked_up(
    address: str, open_engine: Callable[..., PostgresEngine]
) -> None:
    """It was committed once, so it is not written twice."""
    with proxied(address) as (proxy, through):
        engine = open_engine(through)
        with engine.write() as tx:
            ann = scopes.ensure(tx, "app", "ann", "u")
            sessions.add(tx, ann, "one", "s1")
        proxy.swallow = True
        with engine.write() as tx:
            assert scopes.next_id(tx, ann) & 0xFFFF == 1

        with engine.read() as tx:  # on the connection that looked it up
            assert len(scopes.list_all(tx)) == 1
        with engine.write() as tx:
            assert scopes.next_id(tx, ann) & 0xFFFF == 2
        assert proxy.swallow is False


def test_what_was_given_up_cannot_be_committed_later(engine: PostgresEngine) -> None:
    """The number of a transaction is compared with that of the last one."""
    with engine.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        writer = tx.link.writer
    fence = statement_of(FENCE)

    with pytest.raises(memdb.Busy, match="relied on"), engine.write() as tx:
        values = {"writer": writer, "number": 1, "now_ms": 0, "format": FORMAT}
        tx.all(FENCE, {**values, "model": None, "dim": None})
    assert fence.writes is False


def test_no_server_is_an_error_after_a_time(
    address: str, open_engine: Callable[..., PostgresEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do, and nothing was written."""
    monkeypatch.setattr("memdb.postgres.link.RETRY_S", 0.2)
    with proxied(address) as (proxy, through):
        engine = open_engine(through)
        with engine.write() as tx:
            scopes.ensure(tx, "app", "ann", "u")
        proxy.close()
        kill_all(address)

        with pytest.raises(memdb.IOFailed, match="check the server"), engine.write() as tx:
            scopes.ensure(tx, "app", "bob", "u")


def test_writers_of_other_scopes_do_not_wait(open_engine: Callable[..., PostgresEngine]) -> None:
    """One of the same scope waits until the first is done."""
    first, second = open_engine(), open_engine(timeout_ms=100)
    with first.write() as tx:
        ann = scopes.ensure(tx, "app", "ann", "u")
        bob = scopes.ensure(tx, "app", "bob", "u")

    with first.write() as tx:
        scopes.next_id(tx, ann)
        with second.write() as other:
            scopes.next_id(other, bob)
        with pytest.raises(memdb.Busy, match="writing to this scope"), second.write() as other:
            scopes.next_id(other, ann)
    with second.write() as other:
        scopes.next_id(other, ann)


def test_threads_write_each_in_its_own_block(engine: PostgresEngine) -> None:
    """No two get the same number, and none is left out."""
    with engine.write() as tx:
        ann = scopes.ensure(tx, "app", "ann", "u")
    found: list[int] = []

    def take() -> None:
        for _ in range(10):
            with engine.write() as tx:
                found.append(scopes.next_id(tx, ann))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)

    assert sorted(one & 0xFFFF for one in found) == list(range(1, 41))


def count_waits(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> int:
    """Return how often *call* waits for the server."""
    waits: list[str] = []
    real = Wire._read_until

    def counted(self: Any, last: Any) -> None:
        waits.append("" if last is None else last.sql)
        real(self, last)

    with monkeypatch.context() as patched:
        patched.setattr(Wire, "_read_until", counted)
        call()
    return len(waits)


def test_an_append_takes_one_round_trip(db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the connection knows is compared before the commit, not asked; the seq too."""
    chat = db.scope("ann").session("trip")
    for text in ("one", "two", "three", "four"):
        chat.append("user", text)

    assert count_waits(monkeypatch, lambda: chat.append("user", "five")) == 1
    assert [one.text for one in chat.last(2)] == ["four", "five"]


def test_a_transaction_asks_for_the_seqs_of_a_session_once(
    db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is locked from then on; a caller's transaction is not refused for a guess."""
    chat = db.scope("ann").session("trip")
    for text in ("one", "two", "three", "four"):
        chat.append("user", text)

    def write() -> None:
        with db.transaction():
            for number in range(20):
                assert chat.append("user", f"more {number}").seq == 5 + number

    assert count_waits(monkeypatch, write) == 2
    with suppress(ZeroDivisionError), db.transaction():
        chat.append("user", "lost")
        1 / 0
    assert chat.append("user", "after").seq == 25
    assert [one.text for one in chat.last(2)] == ["more 19", "after"]


@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_seq_that_another_process_has_taken_is_taken_by_nobody_else(
    address: str, db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The guess is refused by the server, and the call is run again, waiting for its seq."""
    chat = db.scope("ann").session("trip")
    for text in ("one", "two", "three", "four"):
        chat.append("user", text)
    with memdb.open(address, embedder=None) as other:
        theirs = other.scope("ann").session("trip")
        if change == "delete":
            theirs.delete()
        theirs.append("user", "theirs")

    stored = chat.append("user", "mine")

    assert stored.seq == {"append": 6, "delete": 2}[change]
    assert [one.text for one in chat.last(2)] == ["theirs", "mine"]
    assert count_waits(monkeypatch, lambda: chat.append("user", "next")) == 2  # it asks, for now
    assert db.file.check(deep=True) == []


def test_two_that_write_to_one_session_by_turns_leave_no_hole(
    address: str, db: memdb.MemDB
) -> None:
    """Each is right some times, then wrong; nothing is lost or stored twice."""
    with memdb.open(address, embedder=None) as other:
        for turn in range(8):
            for one in (db, other):
                for number in range(turn + 1):
                    one.scope("ann").session("trip").append("user", f"{turn} {number}")

    found = db.scope("ann").session("trip").last(200)
    assert [one.seq for one in found] == list(range(1, 73))
    assert [one.text for one in found] == [
        f"{turn} {number}" for turn in range(8) for _ in range(2) for number in range(turn + 1)
    ]


def test_a_wrong_guess_does_not_end_a_repeated_transaction(address: str, db: memdb.MemDB) -> None:
    """The connection is lost while another process takes the seq: the call is run again."""
    chat = db.scope("ann").session("trip")
    for text in ("one", "two", "three", "four"):
        chat.append("user", text)
    with memdb.open(address, embedder=None) as other:
        other.scope("ann").session("trip").append("user", "theirs")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'memdb' AND datname = current_database()"
        )

    assert chat.append("user", "mine").seq == 6
    assert [one.text for one in chat.last(2)] == ["theirs", "mine"]


def test_a_session_that_another_process_removed_is_not_written_to(
    address: str, db: memdb.MemDB
) -> None:
    """What the connection knew is compared, and the call runs again: it makes the session."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "one")
    chat.append("user", "two")
    with memdb.open(address, embedder=None) as other:
        other.scope("ann").session("trip").delete()

    chat.append("user", "three")

    assert [one.text for one in chat.last(9)] == ["three"]
    assert db.file.check(deep=True) == []


def test_changes_by_others_are_told(address: str, db: memdb.MemDB) -> None:
    """A mark changes with each commit; whose it was is not known of a server."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "one")
    before = HostFile(db).mark()
    chat.append("user", "two")
    own = HostFile(db).mark()
    assert before is not None
    assert own is not None
    assert own.stamp != before.stamp
    assert own.others is None
    assert own.commits == before.commits + 1
    with memdb.open(address, embedder=None) as other:
        other.scope("bob").session("trip").append("user", "hi")

    after = HostFile(db).mark()
    assert after is not None
    assert after.stamp != own.stamp
    assert after.commits == own.commits
    assert HostFile(db).stamp() is None


def test_a_query_only_reads(db: memdb.MemDB) -> None:
    """It is bounded in rows and time, and says what is wrong with it."""
    db.scope("ann").session("trip").append("user", "hi")

    found = db.query("SELECT text FROM messages WHERE role = :role", {"role": "user"})
    assert [*found] == [{"text": "hi"}]
    assert db.query("SELECT n FROM generate_series(1, 9) AS n", limit=2).has_more
    for sql in ("DELETE FROM messages", "WITH x AS (DELETE FROM messages RETURNING 1) SELECT 1"):
        with pytest.raises(memdb.InvalidInput):
            db.query(sql)
    with pytest.raises(memdb.InvalidInput, match="no_such"):
        db.query("SELECT no_such FROM messages")
    with pytest.raises(memdb.InvalidInput, match="pg_sleep"):
        db.query("SELECT pg_sleep(5)")
    with pytest.raises(memdb.Interrupted):
        db.query("SELECT sum(n) FROM generate_series(1, 1e9) AS n", timeout_s=0.05)
    assert [one.text for one in db.scope("ann").session("trip").last(1)] == ["hi"]


def test_a_backup_says_how_to_copy(db: memdb.MemDB, tmp_path: Any) -> None:
    """A server is no file."""
    with pytest.raises(memdb.Unsupported, match="memdb copy"):
        db.file.backup(tmp_path / "copy.db")


def test_upkeep_works(db: memdb.MemDB) -> None:
    """VACUUM, sizes, and rows of connections that are no more."""
    db.scope("ann").session("trip").append("user", "hi")
    db.jobs.run()

    assert db.file.vacuum() >= 0
    assert db.file.info().size_bytes > 0
    assert db.file.info().other_tables == ()


def test_a_newer_schema_is_refused(address: str, open_engine: Callable[..., Any]) -> None:
    """The error says to upgrade; nothing is changed."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE memdb_format SET format = 99")
        try:
            with pytest.raises(memdb.SchemaTooNew, match="upgrade"):
                open_engine()
        finally:
            connection.execute("UPDATE memdb_format SET format = 1")


def test_another_programs_tables_are_left_alone(
    postgres_databases: Any, open_engine: Callable[..., Any]
) -> None:
    """A database with a table `meta` that is not memdb's is refused."""
    address = postgres_databases.address_of("/foreign")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE memdb_format")
        try:
            with pytest.raises(memdb.NotAMemDB, match="another program"):
                open_engine(address)
        finally:
            connection.execute("CREATE TABLE memdb_format (format BIGINT, partitions BIGINT)")
            connection.execute("INSERT INTO memdb_format VALUES (1, 1)")


def test_each_schema_has_a_memory_of_its_own(postgres_databases: Any) -> None:
    """The first of the search path; its name is any that the server takes."""
    with postgres_databases.bare(with_tables=True) as address:
        for name in ("team", '"Two words"'):
            postgres_databases.run_sql(address, f"CREATE SCHEMA {name}")
        option = "?options=-csearch_path%3D{},public"
        places = [
            address,
            address + option.format("team"),
            address + option.format("%22Two%5C%20words%22"),
        ]
        for number, place in enumerate(places):
            with memdb.open(place) as db:
                assert db.scopes() == []
                db.scope(f"user{number}").remember("Ann likes tea.")
                assert db.file.info().size_bytes > 100_000
                assert db.file.check(deep=True) == []
        for number, place in enumerate(places):
            with memdb.open(place) as db:
                assert [one.user for one in db.scopes()] == [f"user{number}"]
                assert db.scope(f"user{number}").recall("What does Ann like?", 3).hits


def test_a_search_path_without_a_schema_is_refused(postgres_databases: Any) -> None:
    """The error says what to create; that of pgvector need not be named."""
    with postgres_databases.bare() as address:
        with pytest.raises(memdb.IOFailed, match="CREATE SCHEMA"):
            memdb.open(f"{address}?options=-csearch_path%3Dnowhere")
        postgres_databases.run_sql(address, "CREATE EXTENSION vector")
        postgres_databases.run_sql(address, "CREATE SCHEMA team")
        with memdb.open(f"{address}?options=-csearch_path%3Dteam") as db:
            db.scope("ann").remember("Ann likes tea.")
            assert db.file.check(deep=True) == []


def test_a_schema_that_is_made_later_hides_no_memory(postgres_databases: Any) -> None:
    """Neither from who has it open, on new connections too, nor from who opens it then."""
    with postgres_databases.bare(with_tables=True) as address, memdb.open(address) as db:
        db.scope("ann").session("trip").append("user", "hi")
        postgres_databases.run_sql(address, "CREATE SCHEMA memdb AUTHORIZATION memdb")
        with memdb.open(address) as later:
            assert later.scope("ann").session("trip").last(5)[0].text == "hi"
        postgres_databases.run_sql(address, "CREATE TABLE memdb.sessions (id bigint)")
        assert kill_all(address) > 0
        assert db.scope("ann").session("trip").append("user", "there").seq == 2


def test_settings_hold_where_a_pooler_takes_no_options(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are set on the connection, on one that was lost too."""
    given: list[dict[str, Any]] = []
    real = psycopg.connect

    def connect(*where: str, **options: Any) -> Any:
        given.append(options)
        return real(*where, **options)

    monkeypatch.setattr(psycopg, "connect", connect)
    asked = (
        "SELECT current_setting('lock_timeout'), current_setting('jit'), "
        "current_setting('plan_cache_mode')"
    )
    with memdb.open(address, busy_timeout_s=3) as db:
        for _ in range(2):
            assert db.query(asked).rows == (("3s", "off", "force_generic_plan"),)
            kill_all(address)
    assert len(given) > 2
    assert not any("options" in one for one in given)


def test_a_database_that_is_not_utf8_is_refused(postgres_databases: Any) -> None:
    """At the opening, before there are tables in which half of all texts cannot be."""
    with postgres_databases.bare(encoding="LATIN1") as address:
        with pytest.raises(memdb.NotAMemDB, match="LATIN1: make a database with ENCODING 'UTF8'"):
            memdb.open(address)
        assert postgres_databases.run_sql(address, "SELECT to_regclass('meta')") == [(None,)]


def test_a_database_that_is_not_there(address: str, open_engine: Callable[..., Any]) -> None:
    """The error says to create it, and repeats no password."""
    place = address.rpartition("/")[0].replace("memdb@", "memdb:s3cret@") + "/nowhere"

    with pytest.raises(memdb.FileError, match="no such database") as caught:
        open_engine(place)
    assert "s3cret" not in str(caught.value)


def test_reading_alone_writes_nothing(address: str, open_engine: Callable[..., Any]) -> None:
    """mode="read" answers, and refuses each write."""
    with open_engine().write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
    reader = open_engine(mode="read")

    with reader.read() as tx:
        assert len(scopes.list_all(tx)) == 1
    with pytest.raises(memdb.ReadOnly), reader.write():
        pass


def test_a_closed_database_says_so(engine: PostgresEngine) -> None:
    """Each later call, and closing again does nothing."""
    engine.close()
    engine.close()

    with pytest.raises(memdb.Closed, match="was closed"), engine.read():
        pass
    assert engine.is_closed


def test_a_block_that_was_left_without_its_end_is_undone(engine: PostgresEngine) -> None:
    """Its connection is closed, so its lock is free soon."""
    with engine.write() as tx:
        ann = scopes.ensure(tx, "app", "ann", "u")

    def leave() -> None:
        block = engine.write()
        tx = type(block).__enter__(block)
        scopes.next_id(tx, ann)
        block.__exit__

    worker = threading.Thread(target=leave)
    worker.start()
    worker.join()
    time.sleep(0.01)
    with engine.write() as tx:
        assert scopes.next_id(tx, ann) & 0xFFFF == 1


def test_a_forgotten_text_is_proven_gone(db: memdb.MemDB) -> None:
    """Rows, words and archives are searched; the receipt says what a server does not promise."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "My passport number is X1234567, keep it secret")
    ann.session("other").append("user", "The passport number is on the desk, keep it secret")
    assert len(list(ann.recall("passport"))) == 2

    receipt = ann.forget(session="trip", prove=True)

    assert receipt.pending == ()
    assert receipt.proof is not None
    assert receipt.proof.found_bytes == 0
    assert receipt.proof.searched == ("the rows", "the full text", "archive", "artifacts")
    assert "replicas" in receipt.proof.notices[-1]
    assert db.file.check(deep=True) == []


def test_words_without_their_row_are_found(db: memdb.MemDB) -> None:
    """A row that went without its words is no proof; purging makes the words anew."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "My passport number is X1234567, keep it secret")
    with db._db.write() as tx:
        tx.run("DELETE FROM messages WHERE text LIKE '%passport%'")
    probes = db._db.new_probes()
    probes.add(["My passport number is X1234567, keep it secret"])

    proof = probes.prove([], [1])
    assert proof.found_in == ("the full text",)
    assert proof.found_bytes > 0
    probes.purge()
    assert probes.prove([], [1]).found_bytes == 0


def test_a_long_read_is_not_kept(engine: PostgresEngine) -> None:
    """What is too large to be repeated is let go: an export takes no more memory than a page."""
    with engine.read() as tx:
        for number in range(100):
            tx.all("SELECT repeat('x', 1000000), CAST(:n AS BIGINT)", {"n": number})

        assert tx._asked.statements == []
        assert not tx._asked.is_whole


LISTS = """/* test.lists */
SELECT term, block, refs FROM words ORDER BY term, block
"""


@pytest.mark.parametrize("most", [10, 500_000], ids=["in pieces", "at once"])
def test_words_that_are_loaded_are_those_that_are_added(
    db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The first by COPY, the others behind them; quotes and signs too."""
    says = [f'message {number} of "quotes", \\ and {{braces}} ' * 2 for number in range(100)]
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": one} for one in [*says, "straße 東京 naïve"]])
    monkeypatch.setattr("memdb.postgres.words.MAX_COLLECTED", most)
    monkeypatch.setattr("memdb.postgres.words.PAGE", 7)
    with db._db.write() as tx:
        added = tx.all(LISTS)
        (scope_no,) = tx.one("SELECT min(scope_no) FROM scopes") or (0,)
        low, high = scope_no << 44, (scope_no + 1 << 44) - 1
        tx.words.drop("message", low, high)
        assert tx.all(LISTS) == []
        tx.words.load("message", low, high)
        assert tx.all(LISTS) == added
    assert len(added) > 100


def test_vectors_in_the_format_of_pgvector() -> None:
    """Signed bytes are half-precision floats there, in network order, and come back as they were."""
    numbers = array("b", range(-128, 128))
    sent = to_pgvector(numbers.tobytes(), is_halves=True)
    floats = array("f", [0.0, -1.5, 1e-30]).tobytes()

    assert sent == struct.pack("!HH256e", 256, 0, *numbers)
    assert from_pgvector(sent, is_halves=True) == numbers.tobytes()
    assert to_pgvector(floats, is_halves=False) == struct.pack("!HH3f", 3, 0, 0.0, -1.5, 1e-30)
    assert from_pgvector(to_pgvector(floats, is_halves=False)) == floats


class Stop(BaseException):
    """What a signal handler raises."""


def stop_at(line: int, call: Callable[[], object]) -> bool:
    """Run *call*, with Stop so many lines of Python after its start; return whether it came."""
    left = line

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_name in UNSTOPPED or frame.f_code.co_filename == logging.__file__:
            return None
        left -= event == "line"
        if left < 0 and event == "line" and not is_with(frame):
            raise Stop
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Stop:
        return True
    finally:
        sys.settrace(before)
    return False


def is_with(frame: Any) -> bool:
    """Return whether a frame is at a `with`: no signal is handled before it calls `__exit__`."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith(("with ", "async with "))


# What the interpreter calls itself: it would only print the exception. `logging` is never stopped:
# it takes its lock a line before its `try`, and every other thread would wait for that.
UNSTOPPED = ("end_abandoned", "__del__", "_remove", "stop_at")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # connections that nobody could close
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["append", "last", "transaction"])
def test_an_exception_at_any_line_leaves_nothing_behind(db: memdb.MemDB, name: str) -> None:
    """As Ctrl-C raises one: no block, no lock, no half-read answer; what follows is whole."""
    chat = db.scope("ann").session("trip")

    def twice() -> None:
        with db.transaction():
            chat.append("user", "first")
            chat.append("user", "second")

    calls: dict[str, Callable[[], object]] = {
        "append": lambda: chat.append("user", "one"),
        "last": lambda: chat.last(3),
        "transaction": twice,
    }
    chat.append("user", "before")
    line, others = 0, []
    while stop_at(line, calls[name]):
        line += 1 + line // 20
        db._db.pool.end_abandoned()
        assert (db._db.pool.reading, db._db.pool.writing) == ({}, {})
        if line % 4:
            continue
        thread = threading.Thread(target=lambda: others.append(chat.append("user", "other").seq))
        thread.start()
        thread.join(60)
        assert others[-1] == chat.last_seq

    assert len(others) > 5
    seqs = [message.seq for message in chat.messages()]
    assert seqs == [*range(1, len(seqs) + 1)]
    if name == "transaction":
        texts = [message.text for message in chat.messages()]
        assert texts.count("first") == texts.count("second")
    assert db.file.check(deep=True) == []
    gc.collect()  # of such connections, in this test


def test_closing_in_a_write_undoes_it(
    engine: PostgresEngine, open_engine: Callable[..., PostgresEngine]
) -> None:
    """The block says so, and nothing of it is stored."""
    with pytest.raises(memdb.Closed), engine.write() as tx:
        settings.put(tx, {"entry_quota": "7"})
        engine.close()

    with open_engine().read() as tx:
        assert settings.get_all(tx) == {}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2",
        "SELECT 1; COMMIT; DELETE FROM messages",
        "SELECT 1; COMMIT; DELETE FROM messages; SELECT 3",
        "WITH gone AS (DELETE FROM messages RETURNING 1) SELECT * FROM gone",
        "SELECT set_config('transaction_read_only', 'off', true)",
    ],
)
def test_a_query_is_one_that_reads(db: memdb.MemDB, sql: str) -> None:
    """A second statement could end the transaction that only reads."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "kept")

    with pytest.raises(memdb.InvalidInput):
        db.query(sql)

    assert [message.text for message in chat.messages()] == ["kept"]


def test_a_query_leaves_nothing_to_the_session(db: memdb.MemDB) -> None:
    """No setting and no lock, and it computes no more rows than are asked for."""
    with pytest.raises(memdb.InvalidInput, match="leave it out"):
        db.query("SELECT set_config('lock_timeout', '1', false), pg_advisory_lock(1)")
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

    assert [row["i"] for row in db.query(endless, limit=3)] == [1, 2, 3]
    assert db.query("SELECT current_setting('lock_timeout') <> '1ms' AS own").rows == ((1,),)
    locks = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1"
    assert db.query(locks).rows == ()


@pytest.mark.slow
def test_mixed_calls_lose_nothing_while_connections_are_ended(address: str) -> None:
    """400 of them: each call does what it says, once, and none fails."""
    ended, failed, told = 0, [], dict.fromkeys("abcd", 0)
    stop = threading.Event()

    def work(name: str) -> None:
        ann = db.scope(name)
        chat = ann.session("s")
        while not stop.is_set():
            try:
                told[name] = chat.append("user", f"{name} has tea in May").seq
                ann.recall("who has tea?", 3)
                chat.context(500, query="tea")
                ann.remember(f"{name} likes tea number {told[name]}.")
                ann.state["n"] = told[name]
            except memdb.MemDBError as error:
                failed.append(repr(error))

    with memdb.open(address, embedder=None) as db:
        threads = [threading.Thread(target=work, args=(name,)) for name in told]
        for one in threads:
            one.start()
        while ended < 400 and not failed:
            time.sleep(0.1)
            ended += kill_all(address)
        stop.set()
        for one in threads:
            one.join()
        assert failed == []
        for name, last in told.items():
            seqs = [one.seq for one in db.scope(name).session("s").last(last + 1)]
            assert sorted(seqs) == [*range(1, last + 1)]
            assert db.scope(name).state["n"] == last
        assert db.file.check(deep=True) == []


@pytest.mark.parametrize("way", ["purge", "rebuild"])
def test_what_rebuilds_keeps_writers_of_one_scope_at_a_time(
    address: str, db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Whoever was made anew writes while the next one is."""
    call = {"purge": lambda: db._db.new_probes().purge(), "rebuild": db.file.rebuild}[way]
    for user in ("ann", "bob"):
        db.scope(user).session("s").append("user", "We drink tea.")
    real, done = PostgresWords.rebuild_scope, []

    def rebuild(self: PostgresWords, scope_no: int) -> None:
        real(self, scope_no)
        for user in done:
            other.scope(user).session("s").append("user", "More tea.")
        done.append({1: "ann"}.get(scope_no, "bob"))

    monkeypatch.setattr(PostgresWords, "rebuild_scope", rebuild)
    with memdb.open(address, embedder=None, busy_timeout_s=1) as other:
        assert not call()

    assert len(done) == 2
    assert sum(len(db.scope(user).session("s").last(9)) for user in ("ann", "bob")) == 3
    assert db.file.check(deep=True) == []
