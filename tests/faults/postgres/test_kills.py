"""Servers that are killed, fail over or are cut off under writers: nothing acknowledged is lost."""

from __future__ import annotations

import random
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from counters import count
from nodes import wait_for
from writers import check_all_there, writing

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusters import Cluster
    from nodes import Server

    Start = Callable[..., Any]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_a_killed_server_loses_nothing_it_acknowledged(
    server: Server, start_child: Start, tmp_path: Path, kills: int
) -> None:
    """Four processes write on, without an error, while it is killed and started again."""
    moments = random.Random(kills)
    with writing(start_child, server.url, tmp_path) as writers:
        for _ in range(kills):
            time.sleep(moments.uniform(0.05, 0.6))
            server.kill()
            server.start()
            count("servers")
        writers.wait_for_more(wait_for)
    assert check_all_there(server.url, writers) > 2 * kills


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_server_that_is_away_for_long_is_waited_for(
    server: Server, start_child: Start, tmp_path: Path
) -> None:
    """20 s without a server; then one that hangs for 5 s, which is less than `busy_timeout_s`."""
    with writing(start_child, server.url, tmp_path) as writers:
        server.kill()
        time.sleep(20)
        server.start()
        writers.wait_for_more(wait_for, 5)
        server.pause()
        time.sleep(5)
        server.resume()
        writers.wait_for_more(wait_for, 5)
    assert check_all_there(server.url, writers) > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_fail_overs_are_ridden_out_and_lose_nothing(
    cluster: Cluster, start_child: Start, tmp_path: Path
) -> None:
    """20 times the leader is killed; the writers see no error, and go on with the next."""
    with writing(start_child, cluster.url, tmp_path) as writers:
        for _ in range(20):
            before = cluster.kill_leader()
            assert cluster.leader() is not before
            writers.wait_for_more(wait_for, 5)
            before.start()
            cluster.wait_until_whole()
            count("failovers")
    assert check_all_there(cluster.url, writers) > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_commits_that_wait_for_a_killed_standby_are_no_error(
    cluster: Cluster, start_child: Start, tmp_path: Path
) -> None:
    """The standby that confirms commits is killed; until another does, the writers wait."""
    with writing(start_child, cluster.url, tmp_path) as writers:
        leader = cluster.wait_until_whole()
        members = leader.ask("cluster")[1]["members"]
        (name,) = [one["name"] for one in members if one["role"] == "sync_standby"]
        (standby,) = [node for node in cluster.nodes if node.name == name]
        standby.kill()
        writers.wait_for_more(wait_for, 5)
        standby.start()
        cluster.wait_until_whole()
    assert check_all_there(cluster.url, writers) > 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_server_that_is_starting_is_waited_for(server: Server) -> None:
    """To open a database that is being recovered takes longer, and is no error."""
    with memdb.open(server.url, embedder=None) as db:
        db.scope("ann").session("s").extend([{"role": "user", "text": "x" * 2000}] * 5000)
    server.kill()
    server.begin()
    wait_for("its port", lambda: is_listening(server.port))
    with memdb.open(server.url, embedder=None) as db:
        assert db.scope("ann").session("s").last_seq == 5000


def is_listening(port: int) -> bool:
    """Return whether somebody listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["cut", "isolate", "pause"])
def test_a_leader_that_is_cut_off_loses_nothing_it_acknowledged(
    far_cluster: Cluster, start_child: Start, tmp_path: Path, way: str
) -> None:
    """Without its cable, without the other nodes but with its clients, and hanging."""
    network = far_cluster.network
    assert network is not None
    before = far_cluster.leader()
    # One that hangs keeps the locks of scopes for longer than `busy_timeout_s` is by default.
    with writing(start_child, far_cluster.url, tmp_path, busy_timeout_s=60) as writers:
        writers.wait_for_more(wait_for, 5)
        if way == "pause":
            before.pause()
        else:
            getattr(network, way)(before)
        far_cluster.leader_other_than(before)
        before.pause(resume=True)  # it takes itself for the leader for a moment
        count("partitions")
        writers.wait_for_more(wait_for, 5)
        network.heal(before)
        far_cluster.wait_until_whole()
        writers.wait_for_more(wait_for, 5)
    assert check_all_there(far_cluster.url, writers) > 0
