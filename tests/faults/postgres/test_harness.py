"""The faults themselves, proven with a plain loop of psycopg: they happen, and lose nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from nodes import CannotStart, fill, new_server, small_disk

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusters import Cluster
    from nodes import Server

pytestmark = pytest.mark.slow

# Each number once, and again until the server acknowledged it.
WRITER = """
import sys, time, psycopg
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = None
for number in range(1, count + 1):
    while True:
        try:
            if connection is None:
                connection = psycopg.connect(
                    url, autocommit=True, connect_timeout=3, tcp_user_timeout=4000,
                    keepalives_idle=2, keepalives_interval=1, keepalives_count=3,
                )
                print("ready", flush=True)
            connection.execute(
                "INSERT INTO plain VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, number)
            )
            break
        except psycopg.Error:
            connection = None
            time.sleep(0.1)
    print(number, flush=True)
    time.sleep(0.002)
"""


def start_writer(start_child: Callable[..., Any], url: str, name: str, count: int) -> Any:
    """Make the table, start a writer, and wait until it writes."""
    with psycopg.connect(url, autocommit=True) as connection:
        sql = "CREATE TABLE IF NOT EXISTS plain (name text, number int, PRIMARY KEY (name, number))"
        connection.execute(sql)
    child = start_child(WRITER, url, name, count)
    line = child.stdout.readline()
    while line == "ready\n":
        line = child.stdout.readline()
    assert line == "1\n", child.stderr.read()
    return child


def acknowledged(child: Any) -> list[int]:
    """Wait for the writer's end and return what it had acknowledged."""
    out, errors = child.communicate(timeout=300)
    assert errors == ""
    return [1, *(int(line) for line in out.split() if line != "ready")]


def stored(url: str, name: str) -> list[int]:
    """Return what is stored."""
    with psycopg.connect(url) as connection:
        sql = "SELECT number FROM plain WHERE name = %s ORDER BY number"
        return [row[0] for row in connection.execute(sql, (name,)).fetchall()]


def test_a_killed_server_starts_again_with_all_it_acknowledged(
    server: Server, start_child: Callable[..., Any]
) -> None:
    """Three kills of all its processes under a writer."""
    child = start_writer(start_child, server.url, "w", 300)
    for _ in range(3):
        time.sleep(0.2)
        server.kill()
        assert not server.is_up()
        server.start()
    assert acknowledged(child) == stored(server.url, "w") == list(range(1, 301))


def test_a_paused_server_keeps_its_connections_and_answers_nothing(server: Server) -> None:
    """Until it goes on."""
    with psycopg.connect(server.url) as connection:
        server.pause()
        assert not server.is_up()
        server.resume()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_replica_reads_and_refuses_writes(server: Server) -> None:
    """A hot standby; and a server whose transactions are read-only by default."""
    server.execute("CREATE TABLE plain (number int)")
    replica = server.make_replica(server.folder.parent / f"{server.folder.name}-replica")
    try:
        assert replica.execute("SELECT pg_is_in_recovery()") == [(True,)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            replica.execute("INSERT INTO plain VALUES (1)")
    finally:
        replica.kill()
    server.alter(default_transaction_read_only="on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        server.execute("INSERT INTO plain VALUES (1)")


def test_a_full_disk_is_full_for_the_server() -> None:
    """And has room again when the ballast is gone."""
    try:
        with (
            small_disk("160m") as disk,
            new_server("--wal-segsize=1", folder=disk) as server,
        ):
            server.start(max_wal_size="8MB", min_wal_size="2MB")
            server.execute("CREATE TABLE plain (bytes bytea STORAGE EXTERNAL)")
            ballast = fill(disk, leave_bytes=4 << 20)
            grow = "INSERT INTO plain SELECT repeat(md5(n::text), 200)::bytea FROM generate_series(1, 9000) n"
            with pytest.raises(psycopg.Error):
                server.execute(grow)
            ballast.unlink()
            server.kill()
            assert server.start().execute("SELECT count(*) FROM plain") == [(0,)]
    except CannotStart as error:
        pytest.skip(str(error))


@pytest.mark.timeout(900)
def test_a_killed_leader_loses_nothing_it_acknowledged(
    cluster: Cluster, start_child: Callable[..., Any]
) -> None:
    """1,000 writes through a fail-over, by a loop that tries again."""
    child = start_writer(start_child, cluster.url, "kill", 1000)
    before = cluster.kill_leader()
    assert cluster.leader() is not before
    assert acknowledged(child) == stored(cluster.url, "kill") == list(range(1, 1001))
    before.start()
    cluster.wait_until_whole()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["cut", "isolate", "pause"])
def test_a_leader_that_is_cut_off_loses_nothing_it_acknowledged(
    far_cluster: Cluster, start_child: Callable[..., Any], way: str
) -> None:
    """Without its cable, without the other nodes but with its clients, and hanging."""
    network = far_cluster.network
    assert network is not None
    before = far_cluster.leader()
    child = start_writer(start_child, far_cluster.url, way, 1000)
    if way == "pause":
        before.pause()
    else:
        getattr(network, way)(before)
    far_cluster.leader_other_than(before)
    before.pause(resume=True)
    numbers = acknowledged(child)
    network.heal(before)
    far_cluster.wait_until_whole()
    assert stored(far_cluster.url, way) == list(range(1, 1001)) == numbers
