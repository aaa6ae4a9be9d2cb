"""A process killed with SIGKILL at any moment: what it acknowledged is in the file."""

import random
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest
from counters import count
from writes import next_format

import memdb
from memdb.text.terms import Term

# What a file holds is checked after each kill.
KILLS_PER_FILE = 20

APPEND = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability=sys.argv[2]) as db:
    ann = db.scope("ann")
    chat = ann.session(sys.argv[3])
    print("ready", flush=True)
    n = 0
    while True:
        n += 1
        seq = chat.append("user", f"message {n} " + "x" * (n * 37 % 3000)).seq
        kept = ann.remember(f"fact {n}", key=f"key {n % 5}").entry.version
        version = chat.artifacts.save(f"file {n % 3}", b"y" * (n * 997 % 400_000)).version
        print(seq, kept, version, flush=True)
"""

TALK = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat = db.scope("ann").session(sys.argv[2])
    print("ready", flush=True)
    while True:
        print(chat.append("user", "a quagga").seq, flush=True)
"""

UPKEEP = """
import sys, memdb
from memdb.engine.sqlite import upkeep
upkeep.WAL_PAGES = 30
upkeep.PARTS, upkeep.STEP_S, upkeep.MERGE_PAGES = 1, 0, 2
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat = db.scope("ann").session(sys.argv[2])
    print("ready", flush=True)
    while True:
        for message in chat.extend([{"role": "user", "text": "a quagga"}] * 70):
            print(message.seq, flush=True)
        print(chat.append("user", "a quagga").seq, flush=True)
"""

# Deletes what it wrote, so that upkeep merges the index whole and cuts the file.
SHRINK = """
import sys, memdb
from memdb.engine.sqlite import upkeep
upkeep.WAL_PAGES = 30
upkeep.STEP_S, upkeep.MERGE_PAGES, upkeep.MOVED_PIECES = 0, 2, 1
upkeep.LEAST_DROPPED, upkeep.FREE_SHARE = 1, 1000
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat, gone = db.scope("ann").session(sys.argv[2]), db.scope("bob").session(sys.argv[2])
    print("ready", flush=True)
    while True:
        gone.extend([{"role": "user", "text": "an okapi " * 50}] * 90)
        for message in chat.extend([{"role": "user", "text": "a quagga"}] * 30):
            print(message.seq, flush=True)
        gone.delete()
"""

BRANCH = """
import sys, memdb
def new(text):
    return {"role": "user", "text": text}
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat = db.scope("ann").session(sys.argv[2])
    chat.extend([new(f"main {n}") for n in range(12)])
    print("ready", flush=True)
    n = 0
    while True:
        n += 1
        branch = chat.branch(f"b{n}", 12 - n % 5)
        print("made", n, flush=True)
        added = branch.append("user", f"branch {n}").seq
        print("added", n, added, flush=True)
        kept = branch.replace([3, added], [new(f"instead {n}")])[0].seq
        print("replaced", n, kept, added, flush=True)
        leaf = branch.branch(f"leaf{n}")
        print("leaf", n, flush=True)
        leaf.pop()
        print("popped", n, kept, flush=True)
"""

CREATE = """
import sys, memdb
print("ready", flush=True)
memdb.open(sys.argv[1], embedder=None).close()
"""


def kill_after(child: Any, seconds: float, lines: int = 0) -> list[list[int]]:
    """Kill *child* so long after so many *lines*; return all that it had acknowledged."""
    assert child.stdout.readline() == "ready\n"
    out = "".join(child.stdout.readline() for _ in range(lines))
    time.sleep(seconds)
    child.kill()
    out += child.stdout.read()
    child.wait(60)
    return [[int(number) for number in line.split()] for line in out.split("\n")[:-1]]


def assert_nothing_lost(path: str, session: str, acknowledged: list[list[int]]) -> None:
    """Fail unless every acknowledged message is there, gapless, and the file is sound."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session(session)
        seqs = [message.seq for message in chat.messages()]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= len(acknowledged)
        for number, (seq, _, version) in enumerate(acknowledged, start=1):
            assert chat.get(seq).text.startswith(f"message {number} ")
            assert chat.artifacts.load(f"file {number % 3}", version).info.version == version
        assert db.file.check(deep=True) == []


def kill_often(
    path: str, start_forked: Callable[..., Any], times: int, durability: str, seed: int
) -> int:
    """Kill a writer *times* times at random moments; return how much it acknowledged."""
    moments = random.Random(seed)
    total = 0
    for number in range(times):
        file = f"{path}.{number // KILLS_PER_FILE}"
        child = start_forked(APPEND, file, durability, f"s{number}")
        count("kills")
        acknowledged = kill_after(child, moments.uniform(0, 0.05), moments.randrange(12))
        assert_nothing_lost(file, f"s{number}", acknowledged)
        total += len(acknowledged)
    count("acknowledged", 3 * total)
    return total


@pytest.mark.parametrize("durability", ["power", pytest.param("process", marks=pytest.mark.slow)])
def test_a_killed_writer_loses_nothing_it_acknowledged(
    path: str, start_forked: Callable[..., Any], durability: str
) -> None:
    """Three kills at random moments, each followed by a full check."""
    assert kill_often(path, start_forked, 3, durability, seed=1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["power", "process"])
def test_a_hundred_kills_lose_nothing(
    path: str, start_forked: Callable[..., Any], durability: str
) -> None:
    """The same, a hundred times on growing files."""
    assert kill_often(path, start_forked, 100, durability, seed=2) > 100


@pytest.mark.parametrize("program", [TALK, UPKEEP, SHRINK], ids=["tail", "upkeep", "shrink"])
@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_killed_writers_leave_each_message_to_be_found_once(
    path: str, start_forked: Callable[..., Any], kills: int, program: str
) -> None:
    """In the tail of the index, while it is moved, in a merge, while the file shrinks; none is closed."""
    moments = random.Random(kills)
    written = 0
    for number in range(kills):
        child = start_forked(program, path, f"s{number}")
        written += len(kill_after(child, moments.uniform(0, 0.03), moments.randrange(1, 90)))
        count("kills")

    with memdb.open(path, embedder=None, counter="estimate") as db:
        with db._db.read() as tx:
            stored = [
                row[0]
                for row in tx.all("SELECT id FROM messages WHERE length(text) < 9 ORDER BY id")
            ]
            (found,) = tx.words.postings("message", [Term(("quagga",))], 0, 1 << 62).values()
        assert sorted(found) == stored
        assert len(stored) >= written
        assert db.file.check(deep=True) == []


@pytest.mark.slow
def test_killed_writers_do_not_harm_each_other(path: str, start_forked: Callable[..., Any]) -> None:
    """Three write at once, two are killed, the third goes on; then it is killed too."""
    children = [start_forked(APPEND, path, "process", f"s{number}") for number in range(3)]
    acknowledged = [kill_after(child, 0.05, 5) for child in children]

    for number, lines in enumerate(acknowledged):
        assert_nothing_lost(path, f"s{number}", lines)


def assert_branches_kept(path: str, session: str, acknowledged: list[list[str]]) -> None:
    """Fail unless each acknowledged change of a branch is there, and the file is sound."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session(session)
        names = {one.name for one in chat.branches()}
        assert [one.text for one in chat.messages()] == [f"main {n}" for n in range(12)]
        for verb, number, *seq in acknowledged:
            name = f"leaf{number}" if verb in ("leaf", "popped") else f"b{number}"
            assert name in names
            texts = {one.seq: one.text for one in chat.branch(name).messages()}
            if verb == "added":  # replaced since, unless the kill came before
                assert texts.get(int(seq[0]), f"branch {number}") == f"branch {number}"
                assert max(texts) >= int(seq[0])
            elif verb == "replaced":
                assert texts[int(seq[0])] == f"instead {number}"
                assert not {3, int(seq[1])} & texts.keys()
            elif verb == "popped":
                assert int(seq[0]) not in texts
        assert db.file.check(deep=True) == []


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_a_killed_writer_of_branches_loses_nothing_it_acknowledged(
    path: str, start_forked: Callable[..., Any], kills: int
) -> None:
    """Branches made, appended to, replaced in and popped from; each kill is checked."""
    moments = random.Random(kills)
    for number in range(kills):
        child = start_forked(BRANCH, path, f"s{number}")
        assert child.stdout.readline() == "ready\n"
        out = "".join(child.stdout.readline() for _ in range(moments.randrange(1, 30)))
        time.sleep(moments.uniform(0, 0.03))
        child.kill()
        out += child.stdout.read()
        child.wait(60)
        acknowledged = [line.split() for line in out.split("\n")[:-1]]
        count("kills")
        count("acknowledged", len(acknowledged))
        assert_branches_kept(path, f"s{number}", acknowledged)


@pytest.mark.parametrize("delay_ms", [0, 2, 5, 10, 20, 40], ids=str)
def test_a_process_killed_while_it_makes_the_file_leaves_one_that_opens(
    path: str, start_child: Callable[..., Any], delay_ms: int
) -> None:
    """Whatever it had written, the next open finishes the work."""
    child = start_child(CREATE, path)
    kill_after(child, delay_ms / 1000)

    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.scope("ann").session("s").append("user", "hi").seq == 1
        assert db.file.check(deep=True) == []


def test_a_migrated_file_opens_after_its_program_was_killed(path: str) -> None:
    """The WAL holds the migration alone, and is known to be that of the file."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("s").append("user", "hi")
    with next_format():
        with memdb.open(path, embedder=None, counter="estimate"):
            for end in ("", "-wal"):
                shutil.copy(path + end, f"{path}.killed{end}")

        with memdb.open(f"{path}.killed", embedder=None, counter="estimate") as db:
            assert db.scope("ann").session("s").last_seq == 1
            assert db.file.check(deep=True) == []
