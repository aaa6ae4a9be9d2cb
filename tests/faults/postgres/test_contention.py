"""Many processes at one server: gapless numbers, one winner each, and clear errors at its limits."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodes import Server

    Start = Callable[..., Any]

APPEND = """
import sys, memdb
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memdb.open(url, embedder=None, counter="estimate") as db:
    chat = db.scope("ann").session("shared")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(1, count + 1):
        print(number, chat.append("user", f"{name} {number}").seq, flush=True)
"""

# Until *count* of its own versions were stored, each on top of the one it had read.
SWAP = """
import sys, memdb
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memdb.open(url, embedder=None, counter="estimate") as db:
    files = db.scope("ann").session("shared").artifacts
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    while won < count:
        before = files.load("plan")
        try:
            text = f"{before.text}\\n{name} {won}"
            made = files.save("plan", text, expected=before.info.version).version
            assert made == before.info.version + 1
            won += 1
        except memdb.VersionConflict:
            pass
"""

# Says what each append brought: a seq or the code of an error that may be tried again.
TRY = """
import sys, memdb
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < count:
    try:
        with memdb.open(url, embedder=None, counter="estimate") as db:
            chat = db.scope("ann").session("shared")
            while done < count:
                print(done + 1, chat.append("user", f"{name} {done + 1}").seq, flush=True)
                done += 1
    except memdb.Busy:
        print("busy", flush=True)
"""


def run_together(start_child: Start, program: str, url: str, number: int, count: int) -> list[str]:
    """Let processes w0 to w*n* run at once; return the output of each. None may fail."""
    children = [start_child(program, url, f"w{one}", count) for one in range(number)]
    for child in children:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    outs = [child.communicate(timeout=900) for child in children]
    assert [errors for _, errors in outs] == [""] * number
    return [out for out, _ in outs]


def check_shared(url: str, outs: list[str], count: int) -> None:
    """Fail unless the session is gapless and has each acknowledged text once, where it was said."""
    with memdb.open(url, embedder=None) as db:
        texts = {one.seq: one.text for one in db.scope("ann").session("shared").messages()}
    assert list(texts) == list(range(1, len(outs) * count + 1))
    for name, out in enumerate(outs):
        pairs = re.findall(r"^(\d+) (\d+)$", out, re.MULTILINE)
        assert [texts[int(seq)] for _, seq in pairs] == [
            f"w{name} {number}" for number in range(1, count + 1)
        ]
    assert set(Counter(texts.values()).values()) == {1}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("processes", "each"), [(4, 10), pytest.param(16, 200, marks=pytest.mark.slow)]
)
def test_processes_append_to_one_session_without_gap(
    prepared: Server, start_child: Start, processes: int, each: int
) -> None:
    """No number is missing or given twice, nothing is lost, nothing is there twice."""
    outs = run_together(start_child, APPEND, prepared.url, processes, each)
    check_shared(prepared.url, outs, each)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_swaps_of_one_artifact_each_has_one_winner(server: Server, start_child: Start) -> None:
    """Four processes, 50 each: every version holds those before it, and one line more."""
    with memdb.open(server.url, embedder=None) as db:
        db.scope("ann").session("shared").artifacts.save("plan", "start")
    run_together(start_child, SWAP, server.url, 4, 50)
    with memdb.open(server.url, embedder=None) as db:
        last = db.scope("ann").session("shared").artifacts.load("plan")
    assert last.info.version == 201
    lines = (last.text or "").split("\n")
    assert Counter(lines[1:]) == Counter(f"w{name} {won}" for name in range(4) for won in range(50))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_server_without_a_free_connection_is_busy_and_loses_nothing(
    server: Server, start_child: Start
) -> None:
    """16 processes at 10 connections: each gets a seq or Busy, and all come through."""
    memdb.open(server.url, embedder=None).close()
    server.stop()
    server.start(max_connections=10, superuser_reserved_connections=2)
    outs = run_together(start_child, TRY, server.url, 16, 20)
    check_shared(server.url, outs, 20)


def test_a_server_without_a_free_connection_says_so(prepared: Server) -> None:
    """Busy, which may be tried again; with a place free it works at once."""
    prepared.execute("CREATE ROLE limited LOGIN CONNECTION LIMIT 1")
    import psycopg

    guest = prepared.url.replace("memdb@", "limited@")
    with psycopg.connect(guest), pytest.raises(memdb.Busy, match="connection"):
        memdb.open(guest, embedder=None, busy_timeout_s=0.3)
