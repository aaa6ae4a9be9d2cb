"""What tests need around programs that they start: a port, and an end by signals."""

from __future__ import annotations

import random
import socket
import subprocess
from pathlib import Path
from typing import Any

FIRST_PORT = 10_000


def free_port() -> int:
    """
    Return a port of 127.0.0.1 that no program uses.

    It is below those that the system gives to clients and to whoever asks for any port, so that
    no other test gets it before the program that is meant listens on it.
    """
    try:
        end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        end = FIRST_PORT
    ports = range(FIRST_PORT, end)
    source = random.SystemRandom()  # the tests of two processes have equal seeds
    for port in (source.choice(ports) if ports else 0 for _ in range(1000)):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(one.getsockname()[1])
    raise AssertionError("every port is in use")


def end_by_signals(process: subprocess.Popen[Any], number: int) -> int:
    """
    Send a signal until the process has ended, and return its exit code.

    Two that come at once are one: a busy machine may need a third. Waits for two minutes.
    """
    for _ in range(240):
        process.send_signal(number)
        try:
            return process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"signal {number} does not end it")
