"""memdb behind PgBouncer: one that gives a connection for the session, and one that does not."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from nodes import wait_for

import memdb
from tests.child_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes import Server

SETTINGS = """
[databases]
* = host=127.0.0.1 port={port} user=memdb
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


@contextmanager
def pooler(server: Server, mode: str, size: int) -> Iterator[str]:
    """Run PgBouncer before a server; yield the address there."""
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    own_port = free_port()
    settings = server.folder / f"pgbouncer-{own_port}.ini"  # where `nobody` may read
    settings.write_text(SETTINGS.format(port=server.port, own_port=own_port, mode=mode, size=size))
    command = [*server.prefix, program, str(settings)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        address = f"postgresql://memdb@127.0.0.1:{own_port}/{server.database}"
        try:
            wait_for("the pooler", lambda: answers(address))
            yield address
        finally:
            process.kill()


def answers(address: str) -> bool:
    """Return whether a server or pooler takes connections."""
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("size", [1, 4])
def test_a_pool_of_sessions_is_used(prepared: Server, size: int) -> None:
    """Also one whose last connection it is."""
    with (
        pooler(prepared, "session", size) as address,
        memdb.open(address, embedder=None) as db,
    ):
        db.scope("ann").session("trip").append("user", "hello")
        assert db.scope("ann").session("trip").last(1)[0].text == "hello"
        assert db.query("SELECT current_setting('jit')").rows == (("off",),)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("size", [1, 4])
def test_a_pool_of_transactions_is_refused(prepared: Server, mode: str, size: int) -> None:
    """By the first program that opens it, and by the next, whose statements are taken."""
    with pooler(prepared, mode, size) as address:
        for _ in range(2):
            with pytest.raises(memdb.Unsupported, match="set pool_mode = session"):
                memdb.open(address, embedder=None)
