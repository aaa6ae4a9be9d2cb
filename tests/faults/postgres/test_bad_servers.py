"""Servers that memdb cannot use: a memdb error that says what to do, and nothing half-written."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from child_processes import free_port
from counters import count
from nodes import CannotStart, fill, new_server, small_disk, wait_for

import memdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nodes import Server

LARGE = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(60_000))  # no two parts alike


def open_plain(url: str, **options: object) -> memdb.MemDB:
    """Open a database without what is not tested here."""
    return memdb.open(url, embedder=None, counter="estimate", **options)


def count_rows(server: Server) -> int:
    """Return how many rows all tables hold."""
    names = server.execute(
        "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace = 'public'::regnamespace AND relname <> 'commits'"
    )
    return sum(int(server.execute(f"SELECT count(*) FROM {name}")[0][0]) for (name,) in names)


def test_a_wrong_password_is_refused_and_not_repeated(database: Server) -> None:
    """The error says who refused whom; neither the message nor its cause holds the password."""
    database.execute("CREATE ROLE ann LOGIN PASSWORD 'right-one'")
    rules = database.data / "pg_hba.conf"
    rules.write_text("host all ann 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    database.execute("SELECT pg_reload_conf()")
    for login in ("ann:wrong-one", "ann", "ghost:wrong-one"):
        url = database.url.replace("memdb@", f"{login}@")
        with pytest.raises(memdb.MemDBError) as caught:
            open_plain(url)
        if login.startswith("ann"):
            assert isinstance(caught.value, memdb.FileError)
            assert "password" in str(caught.value)
        assert "wrong-one" not in repr(caught.value) + str(caught.value.__context__)
    assert database.execute("SELECT to_regclass('messages')") == [(None,)]


def test_a_missing_database_is_named(database: Server) -> None:
    """And so is what makes it."""
    url = database.url.rpartition("/")[0] + "/nowhere"
    with pytest.raises(memdb.FileError, match=r"nowhere.*createdb"):
        open_plain(url)


def test_a_host_without_server_is_named() -> None:
    """Nothing listens at the port."""
    port = free_port()
    with pytest.raises(memdb.IOFailed, match=f"127.0.0.1:{port}"):
        open_plain(f"postgresql://memdb@127.0.0.1:{port}/postgres")


@pytest.mark.slow
def test_a_server_without_pgvector_says_what_to_install(server: Server, tmp_path: Path) -> None:
    """Or works without it, if it needs none; no tables are left behind by a refusal."""
    server.stop()
    server.start(extension_control_path=server.folder / "none")
    if server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        pytest.skip("this server has pgvector compiled into its path")
    try:
        open_plain(server.url).close()
    except memdb.Unsupported as error:
        refusal = str(error)
    else:
        refusal = "it works without vector"
    assert "pgvector" in refusal or "without" in refusal
    if "without" not in refusal:
        assert server.execute("SELECT to_regclass('messages')") == [(None,)]


@contextmanager
def old_server(version: str) -> Iterator[int]:
    """Answer a login as a server of *version* does; yield the port."""

    def answer(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!i", len(body) + 4) + body

    hello = answer(b"R", struct.pack("!i", 0)) + b"".join(
        answer(b"S", f"{name}\0{value}\0".encode())
        for name, value in {
            "server_version": version,
            "server_encoding": "UTF8",
            "client_encoding": "UTF8",
            "standard_conforming_strings": "on",
        }.items()
    )
    hello += answer(b"K", struct.pack("!ii", 1, 1)) + answer(b"Z", b"I")

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client:
                (length,) = struct.unpack("!i", client.recv(4))
                first = client.recv(length - 4)
                if first[:4] == struct.pack("!i", 80877103):  # asks for TLS
                    client.sendall(b"N")
                    (length,) = struct.unpack("!i", client.recv(4))
                    client.recv(length - 4)
                client.sendall(hello)
                while client.recv(4096):
                    pass

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def test_a_server_that_is_too_old_is_refused() -> None:
    """Its version and the oldest that works are named."""
    with old_server("12.4") as port:
        url = f"postgresql://memdb@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable"
        with pytest.raises(memdb.NotAMemDB, match=r"PostgreSQL 12: memdb needs 1\d or newer"):
            open_plain(url)


def test_tables_of_another_program_are_left_alone(database: Server) -> None:
    """A table `meta` that is not memdb's."""
    database.execute("CREATE TABLE meta (mine int)")
    with pytest.raises(memdb.NotAMemDB):
        open_plain(database.url)
    assert database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(1,)]


def test_a_database_of_a_newer_memdb_is_refused(prepared: Server) -> None:
    """Both formats are facts of the error, and nothing is written."""
    with open_plain(prepared.url) as db:
        db.scope("ann").session("s").append("user", "hi")
    rows = count_rows(prepared)
    prepared.execute("UPDATE memdb_format SET format = format + 41")
    for mode in ("write", "read"):
        with pytest.raises(memdb.SchemaTooNew) as caught:
            open_plain(prepared.url, mode=mode)
        assert caught.value.facts()["file_version"] == caught.value.facts()["code_version"] + 41
    assert count_rows(prepared) == rows


@pytest.mark.slow
def test_a_replica_is_read_and_not_written(server: Server) -> None:
    """ReadOnly to open it for writing, and for each write; what was stored is read there."""
    with open_plain(server.url) as db:
        db.scope("ann").session("s").append("user", "a quagga")
    replica = server.make_replica(server.folder.parent / f"{server.folder.name}-replica")
    try:
        with pytest.raises(memdb.ReadOnly, match="primary"):
            open_plain(replica.url)
        with open_plain(replica.url, mode="read") as db:
            chat = db.scope("ann").session("s")
            assert [one.text for one in chat.messages()] == ["a quagga"]
            assert [hit.text for hit in db.scope("ann").recall("quagga").hits] == ["a quagga"]
            with pytest.raises(memdb.ReadOnly):
                chat.append("user", "no")
            # A standby takes no LISTEN: what arrives at it is asked for.
            mark = db.changes().mark
            with open_plain(server.url) as primary:
                primary.scope("ann").session("t").append("user", "another")
            found = wait_for("the change", lambda: db.changes(mark).sessions)
            assert [place.session for place in found] == ["t"]
    finally:
        replica.kill()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_that_becomes_a_replica_refuses_writes_until_it_leads(server: Server) -> None:
    """ReadOnly on an open handle; the same handle writes when the server is promoted."""
    with open_plain(server.url) as db:
        chat = db.scope("ann").session("s")
        chat.append("user", "before")
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        with pytest.raises(memdb.ReadOnly):
            chat.append("user", "no")
        assert [one.text for one in chat.messages()] == ["before"]
        server.execute("SELECT pg_promote()")
        assert chat.append("user", "after").seq == 2


def test_a_statement_timeout_is_named_and_leaves_nothing(prepared: Server) -> None:
    """A lock that somebody else holds, longer than the user's limit for a statement."""
    import psycopg

    with open_plain(prepared.url) as db:
        db.scope("ann").session("s").append("user", "before")
    prepared.execute("CREATE ROLE guest LOGIN SUPERUSER")
    prepared.execute("ALTER ROLE guest SET statement_timeout = '300ms'")
    with open_plain(prepared.url.replace("memdb@", "guest@")) as db:
        chat = db.scope("ann").session("s")
        rows = count_rows(prepared)
        with psycopg.connect(prepared.url) as other:
            other.execute("LOCK TABLE messages, entries IN ACCESS EXCLUSIVE MODE")
            for write in (
                lambda: chat.append("user", "no"),
                lambda: chat.extend([{"role": "user", "text": f"no {n}"} for n in range(30)]),
                lambda: db.scope("ann").remember("nothing of it"),
            ):
                with pytest.raises(memdb.Interrupted, match="statement_timeout"):
                    write()
        assert count_rows(prepared) == rows
        assert chat.append("user", "after").seq == 2


@pytest.mark.slow
def test_a_full_disk_of_tables_is_named_and_leaves_nothing() -> None:
    """DiskFull for each write that needs room; the handle works when there is some again."""
    try:
        with small_disk("48m") as disk, new_server() as server:
            (disk / "space").mkdir()
            import shutil

            shutil.chown(disk / "space", 65534, 65534)
            server.start()
            server.execute(f"CREATE TABLESPACE small LOCATION '{disk / 'space'}'")
            server.execute("ALTER DATABASE template1 SET TABLESPACE small")
            server.execute("CREATE DATABASE narrow TABLESPACE small")
            url = server.url.replace("/postgres", "/narrow")
            _fill_and_recover(url, disk)
    except CannotStart as error:
        pytest.skip(str(error))


def _fill_and_recover(url: str, disk: Path) -> None:
    with open_plain(url) as db:
        ann = db.scope("ann")
        chat = ann.session("s")
        chat.append("user", "before")
        ballast = fill(disk)
        refused = 0
        for number in range(40):
            try:
                chat.extend([{"role": "user", "text": f"{number} {LARGE}"}])
                chat.artifacts.save("file", LARGE.encode("utf-16") + bytes([number]))
            except memdb.DiskFull:
                refused += 1
                count("disks")
        assert refused
        ballast.unlink()
        texts = [one.text for one in chat.messages()]
        assert chat.append("user", "after").seq == len(texts) + 1
        assert [one.seq for one in chat.messages()] == list(range(1, len(texts) + 2))
        assert db.file.check(deep=True) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_full_disk_of_the_log_stops_the_server_and_loses_nothing() -> None:
    """It panics, memdb says so within its time; with room again all acknowledged is there."""
    try:
        with small_disk("224m") as disk, new_server("--wal-segsize=1", folder=disk) as server:
            server.start(max_wal_size="8MB", min_wal_size="2MB", restart_after_crash="on")
            acknowledged = []
            with open_plain(server.url) as db:
                chat = db.scope("ann").session("s")
                acknowledged.append(chat.append("user", "before").seq)
                ballast = fill(disk, leave_bytes=3 << 20)
                with pytest.raises(memdb.StorageError) as caught:
                    acknowledged.extend(
                        chat.append("user", f"{number} {LARGE}").seq for number in range(400)
                    )
                count("disks")
                assert caught.value.code in ("full", "io", "busy")
                ballast.unlink()
                server.kill()
                server.start()
                seqs = [one.seq for one in chat.messages()]
                assert seqs[: len(acknowledged)] == acknowledged
                assert len(seqs) <= len(acknowledged) + 1
                assert chat.append("user", "after").seq == len(seqs) + 1
                assert db.file.check(deep=True) == []
    except CannotStart as error:
        pytest.skip(str(error))
