"""
The start of `memdb mcp` beside that of the official memory server, in random order.

    python bench/mcp_start.py [--rounds 12]

Needs the extra `mcp`, node and npm, which installs the official server into a temporary folder.
Each round starts both once. Times are from the start of the process to the answer: of
`initialize` (bar: 1.2 times the official server's), `tools/list` and the first call of a tool.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OFFICIAL = "@modelcontextprotocol/server-memory@2026.8.31"
PROGRAM = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
BAR = 1.2
CLIENT = {"name": "bench", "version": "1"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
STEPS = [
    ("initialize", {"id": 0, "method": "initialize", "params": HELLO}),
    ("tools/list", {"id": 1, "method": "tools/list"}),
    (
        "first call",
        {"id": 2, "method": "tools/call", "params": {"name": "read_graph", "arguments": {}}},
    ),
]


def start(command: list[str], environment: dict[str, str]) -> list[float]:
    """Return the seconds from the start of a server to each of its answers."""
    begun = time.perf_counter()
    server = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    took = []
    for number, (name, request) in enumerate(STEPS):
        if number == 1:
            server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        took.append(time.perf_counter() - begun)
        assert b'"result"' in answer, (name, answer)
    server.communicate()
    return took


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["npm", "install", "--silent", "--prefix", name, OFFICIAL], check=True)
        ours = [sys.executable, "-m", "memdb", "mcp", f"{name}/a.db", "--user", "ann", "--compat"]
        sides = {
            "memdb": (ours, {"PYTHONPATH": str(Path(__file__).parents[1])}),
            "official": (["node", str(folder / PROGRAM)], {"MEMORY_FILE_PATH": f"{name}/m.jsonl"}),
        }
        for side in sides.values():  # makes the file, and fills the caches of the disk
            start(*side)
        took: dict[str, list[list[float]]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side in random.sample([*sides], len(sides)):
                took[side].append(start(*sides[side]))
    medians = {
        side: [statistics.median(one) for one in zip(*all_of, strict=True)]
        for side, all_of in took.items()
    }
    print(f"{'':12}{'memdb s':>10}{'official s':>12}{'ratio':>8}")
    for (step, _), mine, theirs in zip(STEPS, medians["memdb"], medians["official"], strict=True):
        print(f"{step:12}{mine:10.2f}{theirs:12.2f}{mine / theirs:8.2f}")
    sys.exit(medians["memdb"][0] > BAR * medians["official"][0])


if __name__ == "__main__":
    main()
