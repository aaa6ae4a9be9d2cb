"""Any number of workers on one memory, in a file or on a server: each text is embedded once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import HostFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORK = """
import sys
import memdb

class Embedder:
    name, dim = "letters", 4

    def embed(self, texts):
        for text in texts:
            print(text, flush=True)
        return [[1.0, 2.0, float(len(text)), 0.5] for text in texts]

with memdb.open(sys.argv[1], embedder=Embedder(), counter="estimate") as db:
    print("ready", flush=True)
    sys.stdin.readline()
    db.jobs.run()
    print("done", flush=True)
"""
WORKERS, SESSIONS, MESSAGES = 3, 12, 20


@pytest.fixture(params=["file", "server"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return where a memory is, in a file and on a server."""
    if request.param == "file":
        yield str(tmp_path / "agent.db")
        return
    databases: Any = request.getfixturevalue("postgres_databases")
    yield databases.address_of("/workers")
    databases.empty_all()


def fill(address: str) -> set[str]:
    """Store texts that wait for their vectors, and return them."""
    with memdb.open(address, embedder=None, counter="estimate") as db:
        db.settings.update(extract=False)
        for session in range(SESSIONS):
            chat = db.scope(f"user {session % 4}").session(f"s{session}")
            chat.extend(
                [
                    {"role": "user", "text": f"session {session} message {number}"}
                    for number in range(MESSAGES)
                ]
            )
    return {f"session {one} message {n}" for one in range(SESSIONS) for n in range(MESSAGES)}


def texts_of(child: Any) -> list[str]:
    """Return what a worker embedded, once it has ended."""
    out, err = child.communicate("", timeout=120)
    assert child.returncode == 0, err
    return [line for line in out.splitlines() if line not in ("ready", "done")]


def test_workers_share_the_work(address: str, start_child: Callable[..., Any]) -> None:
    """No text is left out, and none is embedded twice."""
    texts = fill(address)
    children = [start_child(WORK, address) for _ in range(WORKERS)]
    for child in children:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    embedded = Counter(text for child in children for text in texts_of(child))

    assert set(embedded) >= texts
    assert [text for text in texts if embedded[text] > 1] == []
    with memdb.open(address, embedder=None, counter="estimate") as db:
        assert [one.vectors for one in db.file.info().spaces] == [len(texts)]


def test_the_work_of_a_killed_worker_is_done(address: str, start_child: Callable[..., Any]) -> None:
    """When its leases have run out, and not before."""
    texts = fill(address)
    child = start_child(WORK, address)
    child.stdout.readline()
    child.stdin.write("\n")
    child.stdin.flush()
    child.stdout.readline()  # the first text
    child.kill()
    child.wait()
    later_ms = HostFile(memdb.open(address, embedder=None)).now_ms() + 120_000
    embedder = type(
        "E",
        (),
        {
            "name": "letters",
            "dim": 4,
            "embed": lambda _, given: [[1.0, 2.0, 3.0, 4.0]] * len(given),
        },
    )()
    with memdb.open(address, embedder=embedder, counter="estimate", clock=lambda: later_ms) as db:
        db.jobs.run()
        assert db.jobs.pending() == 0
        assert [one.vectors for one in db.file.info().spaces] == [len(texts)]
