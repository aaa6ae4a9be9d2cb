"""What the faults of PostgreSQL share: servers, clusters, networks; skipped where they cannot run."""

from __future__ import annotations

import importlib.util
import zlib
from typing import TYPE_CHECKING

import pytest

import memdb
from tests.postgres_server import CannotStart

collect_ignore_glob = [] if importlib.util.find_spec("psycopg") else ["test_*.py"]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusters import Cluster
    from nodes import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server that syncs, started, with an empty database."""
    from nodes import new_server

    try:
        with new_server() as one:
            yield one.start()
    except CannotStart as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def lasting_server() -> Iterator[Server]:
    """Return a server for many tests, none of which may restart it."""
    from nodes import new_server

    try:
        with new_server() as one:
            one.start()
            with memdb.open(one.with_database("prepared").url, embedder=None):
                pass  # making the tables takes longer than copying them
            yield one
    except CannotStart as error:
        pytest.skip(str(error))


@pytest.fixture
def database(lasting_server: Server, request: pytest.FixtureRequest) -> Server:
    """Return a running server with an empty database as the one that its `url` names."""
    return lasting_server.with_database(f"d{zlib.crc32(request.node.name.encode())}")


@pytest.fixture
def prepared(lasting_server: Server, request: pytest.FixtureRequest) -> Server:
    """Return a running server with a new database of memdb as the one that its `url` names."""
    name = f"p{zlib.crc32(request.node.name.encode())}"
    return lasting_server.with_database(name, template="prepared")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Return three nodes under Patroni on loopback, whole."""
    from clusters import new_cluster

    try:
        with new_cluster() as one:
            yield one
    except CannotStart as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def far_cluster() -> Iterator[Cluster]:
    """Return three nodes under Patroni, each in a network namespace of its own."""
    from clusters import new_cluster, new_network

    try:
        with new_network() as network, new_cluster(network=network) as one:
            yield one
    except CannotStart as error:
        pytest.skip(str(error))
