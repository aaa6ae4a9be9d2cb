"""`memdb serve DIR` killed under the writers of 200 users, and very many users in a row."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING

import pytest
from child_processes import free_port

import memdb
from memdb.folder.folder import place_of
from memdb.web.tokens import add_grant

if TYPE_CHECKING:
    from pathlib import Path

MESSAGES = 30  # between two kills, at least
WRITERS = 8
SERVE = ("-m", "memdb", "serve", "--embedder", "none", "--max-open", "20", "--port")


class Writers:
    """Threads that append for many users over HTTP, and note what was acknowledged."""

    def __init__(self, port: int, token: str, users: int) -> None:
        """Write to the server on *port* for so many *users*."""
        self.users = users
        self.port = port
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.acknowledged: list[tuple[str, int, str]] = []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._write, args=(n,)) for n in range(WRITERS)]

    def _write(self, seed: int) -> None:
        order = random.Random(seed)
        connection: HTTPConnection | None = None
        while not self.stop.is_set():
            user, text = f"user {order.randrange(self.users)}", f"{seed} {order.random()}"
            try:
                if connection is None:
                    connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
                body = json.dumps({"role": "user", "text": text})
                path = f"/api/v1/message?session=s&user={user.replace(' ', '%20')}"
                connection.request("POST", path, body, self.headers)
                answer = connection.getresponse()
                found = json.loads(answer.read())
                assert answer.status == 200, found
            except (OSError, HTTPException, ValueError):
                if connection is not None:
                    connection.close()
                connection = None  # the server is gone for a moment
                time.sleep(0.02)
            else:
                self.acknowledged.append((user, found["seq"], text))
        if connection is not None:
            connection.close()


def start(folder: Path, tokens: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the server, and wait until it answers."""
    server = subprocess.Popen(
        [sys.executable, *SERVE, str(port), "--tokens", str(tokens), str(folder)],
        stderr=subprocess.DEVNULL,
    )
    for _ in range(600):
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            connection.getresponse().read()
            connection.close()
        except OSError:
            assert server.poll() is None
            time.sleep(0.05)
        else:
            return server
    raise AssertionError("the server does not answer")


def kill_under_writers(tmp_path: Path, kills: int, users: int) -> int:
    """Kill the server *kills* times; return how many messages were acknowledged: all are there."""
    folder, tokens, port = tmp_path / "memories", tmp_path / "tokens.json", free_port()
    folder.mkdir()
    token, _ = add_grant(str(tokens), None, None, 0)
    writers = Writers(port, token, users)
    server = start(folder, tokens, port)
    for one in writers.threads:
        one.start()
    try:
        for _ in range(kills):
            before = len(writers.acknowledged)
            while len(writers.acknowledged) < before + MESSAGES:
                time.sleep(0.01)
            time.sleep(random.Random(before).random() / 2)
            server.kill()
            server.wait()
            server = start(folder, tokens, port)
    finally:
        writers.stop.set()
        for one in writers.threads:
            one.join()
        server.terminate()
        assert server.wait(60) in (0, -15, 143)
    with memdb.open_folder(folder, embedder=None, max_open=5) as opened:
        for user in {one for one, _, _ in writers.acknowledged}:
            with opened.open(user) as db:
                assert db.file.check() == []
                stored = {one.seq: one.text for one in db.scope(user).session("s").last(10_000)}
            assert [*stored] == [*range(1, len(stored) + 1)]
            for _, seq, text in (one for one in writers.acknowledged if one[0] == user):
                assert stored.get(seq) == text, (user, seq)
    return len(writers.acknowledged)


@pytest.mark.parametrize(
    ("kills", "users"), [(5, 40), pytest.param(20, 200, marks=pytest.mark.slow)]
)
def test_no_message_is_lost_by_kills(tmp_path: Path, kills: int, users: int) -> None:
    """What was acknowledged is in its user's file under its seq, once, and the file is sound."""
    assert kill_under_writers(tmp_path, kills, users) >= kills * MESSAGES


@pytest.mark.slow
def test_ten_thousand_users_leave_nothing(tmp_path: Path) -> None:
    """Created, used, moved and deleted: no file, and no descriptor."""
    there = tmp_path / "there"
    there.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    options = {"embedder": None, "durability": "process", "counter": "estimate"}
    with memdb.open_folder(tmp_path, max_open=20, **options) as folder:
        for number in range(10_000):
            user = f"user {number}"
            folder.user(user).session("s").append("user", "hello")
            if number % 2:
                folder.move(user, there)
                os.remove(there / place_of(user))
            else:
                assert folder.delete(user)
        assert folder.list() == []
        assert folder.stats().due == 0
    left = [name for _, _, names in os.walk(tmp_path) for name in names]
    assert left == ["due.sqlite"]
    assert len(os.listdir("/proc/self/fd")) <= before
