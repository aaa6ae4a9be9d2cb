"""
What `memdb web` takes to answer: the first view, a keystroke, a page, at 100,000 messages.

    python bench/web.py            # 100,000 messages in one session, 20,000 other sessions
    python bench/web.py 10000 100

Prints over one kept connection the first answer, the median, the 95th percentile, and the
CPU time of server and client together, which is what counts on a busy machine. Bars of the
design: first view 300 ms of server time, a keystroke 60 ms, a list 20 ms.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import corpus
import units

import memdb
from memdb.web.app import App, PageServer, bind

TOKEN = "t" * 40
ROUNDS = 20
# What the page asks at each key.
TYPING = {"user": "ann", "explain": "true", "limit": 20, "prefix": "true"}


def fill(path: Path, messages: int, sessions: int) -> None:
    """Make the file, with fixed seeds."""
    said = corpus.texts(messages + sessions + 200)
    with memdb.open(path, durability="process") as db:
        ann = db.scope("ann")
        roles = ("user", "assistant")
        for first in range(0, messages, 5000):
            chunk = said[first : min(first + 5000, messages)]
            ann.session("long").extend(
                {"role": roles[n % 2], "text": text} for n, text in enumerate(chunk)
            )
        for first in range(0, sessions, 500):
            with db.transaction():
                for number in range(first, min(first + 500, sessions)):
                    ann.session(f"s{number}").append("user", said[messages + number])
        for number in range(200):
            ann.remember(said[messages + sessions + number])
        db.jobs.run(kinds=("embed",))


def main() -> None:
    """Serve, ask, print."""
    messages, sessions = (int(one) for one in (*sys.argv[1:], 100_000, 20_000)[:2])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "web.db"
        fill(path, messages, sessions)
        print(f"{messages:,} messages, {sessions:,} sessions, {path.stat().st_size >> 20} MB")
        with memdb.open(path) as db:
            start = time.perf_counter()
            app = App(db, token=TOKEN)
            listener = bind(0, app, print)
            app.warm()
            print(f"start {(time.perf_counter() - start) * 1000:.0f} ms")
            server = PageServer(app)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                measure(app.guard.port, messages)
            finally:
                server.should_exit = True
                thread.join()
                app.api.close()


def measure(port: int, messages: int) -> None:
    """Ask each request in random order, and print what it took."""
    long = {"user": "ann", "session": "long"}
    last = corpus.queries(1)[0]
    typed = [last[:end] for end in range(len(last) - 12, len(last) + 1, 3)]
    requests: dict[str, list[tuple[str, dict[str, object]]]] = {
        "first view: scopes, sessions, session, messages": [
            ("scopes", {}),
            ("sessions", {"user": "ann", "order": "updated"}),
            ("session", long),
            ("messages", long),
        ],
        "sessions, 50": [("sessions", {"user": "ann", "order": "updated"})],
        "messages, 50 at the middle": [("messages", {**long, "first_seq": messages // 2})],
        "entries, 50": [("entries", {"user": "ann"})],
        "file": [("file", {})],
        "context, 4,000 tokens": [("context", {**long, "budget_tokens": 4000, "query": last})],
        **{f"keystroke {query!r}": [("recall", {"query": query, **TYPING})] for query in typed},
    }
    connection = HTTPConnection("127.0.0.1", port)
    taken: dict[str, list[float]] = {name: [] for name in requests}
    cpu: dict[str, list[float]] = {name: [] for name in requests}
    order = [name for name in requests for _ in range(ROUNDS)]
    random.Random(3).shuffle(order)
    first: dict[str, float] = {}
    for number, name in enumerate(order):
        if number % 10 == 0:
            units.turn()
        start, cpu_start = time.perf_counter(), time.process_time()
        for noun, query in requests[name]:
            text = urlencode(query)
            headers = {"Authorization": f"Bearer {TOKEN}"}
            connection.request("GET", f"/api/v1/{noun}?{text}", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
        ms = (time.perf_counter() - start) * 1000
        first.setdefault(name, ms)
        taken[name].append(ms)
        cpu[name].append((time.process_time() - cpu_start) * 1000)
    for name, values in taken.items():
        high = sorted(values)[int(len(values) * 0.95)]
        middle = statistics.median(values)
        work = statistics.median(cpu[name])
        print(
            f"{name:64.64}  first {first[name]:7.1f}  median {middle:6.1f}  p95 {high:6.1f} ms"
            f"  cpu {work:6.1f} ms"
        )
    print(units.line())


if __name__ == "__main__":
    main()
