"""
Children that are to be killed: forked from a process that has loaded memdb, so each starts at once.

A start of Python and memdb takes longer than most of these children live.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

NURSERY = """
import json, os, signal, sys
import memdb
with memdb.open(":memory:", embedder=None, counter="estimate") as db:
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": "one"}] * 2)
    chat.branch("b", 2).append("user", "two")
    chat.artifacts.save("file", b"bytes")
    db.scope("ann").remember("a fact", key="key")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is gone
for line in sys.stdin:
    program, pipe, *sys.argv[1:] = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(pipe, os.O_WRONLY), 1)
        exec(program, {"__name__": "__main__"})
        os._exit(0)
    print(child, flush=True)
"""


class Child:
    """
    A child of the nursery.

    Attributes:
        stdout: What it prints.
    """

    def __init__(self, pid: int, stdout: TextIO) -> None:
        """Know the child by its number."""
        self._pid = pid
        self.stdout = stdout

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> None:
        """Return when it is gone; TimeoutError if that takes longer."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:
                os.kill(self._pid, 0)
            except ProcessLookupError:
                self.stdout.close()
                return
            time.sleep(0.001)
        raise TimeoutError(self._pid)


class Nursery:
    """Starts programs as children of a process that has loaded memdb."""

    def __init__(self, folder: Path, source: Path) -> None:
        """Load memdb of *source*; pipes are made in *folder*."""
        self._folder = folder
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )

    def start(self, program: str, *args: object) -> Child:
        """Start a program with arguments, and return it."""
        self._count += 1
        pipe = self._folder / f"pipe-{self._count}"
        os.mkfifo(pipe)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, str(pipe), *map(str, args)]) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        return Child(pid, pipe.open(encoding="utf-8"))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
