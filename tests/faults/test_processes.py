"""Many processes on one file: nobody fails, no number is missing or given twice."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb

APPEND = """
import sys, memdb
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memdb.open(path, embedder=None, counter="estimate", durability="process") as db:
    ann = db.scope("ann")
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(count):
        ann.session("shared").append("user", f"{name} {n}")
        ann.session(name).append("user", f"{n}")
        ann.recall("n", limit=1)
"""

SWAP = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat = db.scope("ann").session("shared")
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    while won < 20:
        try:
            chat.append("user", sys.argv[2], expected=chat.last_seq)
            won += 1
        except memdb.VersionConflict:
            pass
"""


def run_together(
    start_child: Callable[..., Any], program: str, arguments: list[tuple[Any, ...]]
) -> None:
    """Start a process per item, let all go at once, and wait; fail if one failed."""
    children = [start_child(program, *one) for one in arguments]
    [child.stdout.readline() for child in children]
    [(child.stdin.write("go\n"), child.stdin.flush()) for child in children]
    errors = [child.communicate(timeout=300)[1] for child in children]
    assert errors == [""] * len(children)


def append_together(path: str, start_child: Callable[..., Any], each: int) -> None:
    """Let 8 processes append *each* messages and check every number."""
    run_together(start_child, APPEND, [(path, f"w{n}", each) for n in range(8)])
    with memdb.open(path, embedder=None) as db:
        ann = db.scope("ann")
        shared = list(ann.session("shared").messages())
        assert [message.seq for message in shared] == list(range(1, 8 * each + 1))
        for n in range(8):
            own = [message.text for message in shared if message.text.startswith(f"w{n} ")]
            assert own == [f"w{n} {number}" for number in range(each)]
            assert len(list(ann.session(f"w{n}").messages())) == each
        assert db.file.check() == []


def test_eight_processes_append_without_error_or_gap(
    path: str, start_child: Callable[..., Any]
) -> None:
    """To one session and to their own, on a file that is new to all of them."""
    append_together(path, start_child, 15)


@pytest.mark.slow
def test_eight_processes_append_thousands_without_error_or_gap(
    path: str, start_child: Callable[..., Any]
) -> None:
    """The same with 500 messages each to two sessions."""
    append_together(path, start_child, 500)


def test_expected_seq_holds_between_processes(path: str, start_child: Callable[..., Any]) -> None:
    """Each success of four competing processes is one message."""
    run_together(start_child, SWAP, [(path, f"w{n}") for n in range(4)])

    with memdb.open(path, embedder=None) as db:
        stored = [message.text for message in db.scope("ann").session("shared").messages()]

    assert sorted(stored) == sorted(f"w{n}" for n in range(4) for _ in range(20))
