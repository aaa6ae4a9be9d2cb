"""
How `bench/beside.py` speaks with what it measures: JSON lines, one answer for each.

    {"op": "put", "rows": [{"id", "user", "session", "text", "vector"}]}
    {"op": "search", "asked": [{"user", "vector", "text"}], "limit": 10}
    {"op": "last", "asked": [{"user", "session"}], "limit": 50}
    {"op": "context", "asked": [{"user", "session"}]}       -> {"seconds": [...], "cpu": [...]}
    {"op": "fill", "rows": [...]}                                          -> {"seconds": [one]}
    {"op": "rest"}: do what the peer leaves to the background                -> {}
    {"op": "facts"}, the last of all: closes the peer                      -> {"rss_mb", "bytes", ...}

Each row, question and session is one call of the peer, timed in the peer's own process; reading
the line and unpacking vectors is not. "cpu" is that of all threads, in seconds. A driver runs with the interpreter of its environment. It
defines a class with the calls that the peer has; what it lacks is not asked.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import os
import resource
import sys
import time
from pathlib import Path

DIM = 384


def floats(text: str) -> list[float]:
    """Return the vector of a line: float32 numbers in base64."""
    from array import array

    return array("f", base64.b64decode(text)).tolist()


def time_each(call, given: list) -> dict[str, list[float]]:
    """Return the seconds that *call* took for each of *given*, of the clock and of CPU."""
    seconds, cpu = [], []
    for one in given:
        start, begun = time.perf_counter(), time.process_time()
        call(one)
        cpu.append(time.process_time() - begun)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "cpu": cpu}


def folder_bytes(folder: str) -> int:
    """Return what the files below a folder hold."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def close(peer) -> None:
    """Close a peer that can be closed."""
    if hasattr(peer, "close"):
        peer.close()


def serve(make, package: str, started: float) -> None:
    """Answer until standard input ends. *started* is the time before the peer was imported."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    import_s = time.perf_counter() - started
    folder = sys.argv[1]
    peer = make(folder)
    for line in sys.stdin:
        asked = json.loads(line)
        for row in asked.get("rows", ()) or asked.get("asked", ()):
            if "vector" in row:
                row["vector"] = floats(row["vector"])
        try:
            answer = _answer(peer, asked)
        except Exception as error:  # noqa: BLE001 (whatever a foreign library raises)
            answer = {"error": f"{type(error).__name__}: {error}"}
        if asked["op"] == "facts":
            rss_mb = peak_mb()
            close(peer)  # bytes are those of a closed file, without what is to be moved into it
            answer = {
                "rss_mb": rss_mb,
                "bytes": folder_bytes(folder),
                "import_s": import_s,
                "version": importlib.metadata.version(package),
            }
        out.write(json.dumps(answer) + "\n")
        out.flush()
        if "error" in answer:
            sys.exit(1)
        if asked["op"] == "facts":
            return
    close(peer)


def peak_mb() -> float:
    """Return the most memory that this process held, in MB."""
    status = Path("/proc/self/status")  # what `getrusage` gives begins with the parent's
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _answer(peer, asked: dict) -> dict:
    if asked["op"] == "put":
        return time_each(peer.put, asked["rows"])
    if asked["op"] == "fill":
        fill = getattr(peer, "fill", None)
        start = time.perf_counter()
        if fill:
            fill(asked["rows"])
        else:
            time_each(peer.put, asked["rows"])
        return {"seconds": [time.perf_counter() - start]}
    if asked["op"] == "rest" and hasattr(peer, "rest"):
        peer.rest()
    if asked["op"] in ("search", "last", "context"):
        return time_each(getattr(peer, asked["op"]), asked["asked"])
    return {}
