"""
What every adapter has to stand: many processes at once, and callers that are cancelled.

A client's test gives a script; each of its processes gets the path of the file, its own number
and how often it writes as arguments, prints "ready" when everything is imported, waits for a
line on standard input, does its work and exits with 0.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path
    from typing import Any

PROCESSES, WRITES, OPENERS = 8, 150, 12
TIMEOUT_S = 110


def run_at_once(
    script: str, path: Path, *, processes: int = PROCESSES, writes: int = WRITES
) -> list[str]:
    """
    Run *script* in several processes that begin at the same moment; return what each printed.

    Fails if one of them does not exit with 0, or writes anything to its standard error.
    """
    command = [sys.executable, "-c", script, str(path)]
    begun = [
        subprocess.Popen(
            [*command, str(number), str(writes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        for process in begun:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == "ready\n", line + (process.communicate()[1])
        for process in begun:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        printed = [process.communicate(timeout=TIMEOUT_S) for process in begun]
    finally:
        for process in begun:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(begun, printed, strict=True):
        assert process.returncode == 0, errors
        assert not errors, errors
    return [output for output, _ in printed]


async def cancel_at_each_await(
    call: Callable[[], Coroutine[Any, Any, Any]], check: Callable[[], Awaitable[None]]
) -> int:
    """
    Begin *call* again and again, cancelling it one step of the loop later each time.

    After each of them *check* is awaited: it fails if something is half written, or if the
    next call does not work. Ends when a call is over before it is cancelled; returns how
    many were cancelled.
    """
    steps = 0
    while True:
        task = asyncio.ensure_future(call())
        for _ in range(steps):
            await asyncio.sleep(0)
        if task.done():
            task.result()
            return steps
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            await check()
        else:
            await check()
            return steps
        steps += 1
        assert steps < 1_000, "the call never ends"
