"""What memdb does on machines that lack a wheel, and what other systems ask of a file."""

import json
import os
import random
import struct
from collections.abc import Callable
from typing import Any

import apsw
import pytest

import memdb
from memdb.engine.sqlite import maintenance
from memdb.engine.sqlite.vectors import cosine_distance, load_vector_functions

TALK = """
import json, sys
if sys.argv[2] == "bare":
    sys.modules["sqlite_vec"] = sys.modules["tiktoken"] = None
import memdb
with memdb.open(sys.argv[1]) as db:
    ann = db.scope("ann")
    if not ann.session("trip").last_seq:
        ann.session("trip").append("user", "We sail to the islands on 3 May.")
        ann.session("trip").append("user", "The stove in the kitchen is broken.")
        ann.remember("Ann likes green tea.")
        db.jobs.run()
    hits = ann.recall("boat trip", limit=3)
    window = ann.session("trip").context(500)
    print(json.dumps([[(hit.text, round(hit.score, 4)) for hit in hits], hits.arms, window.tokens]))
"""


def test_without_sqlite_vec_and_tiktoken_everything_works(path: str, run_child: Any) -> None:
    """The vectors answer the same, and tokens of European scripts are counted exactly."""
    bare, again, full = (run_child(TALK, path, how) for how in ("bare", "bare", "full"))

    assert bare == again == full
    assert "vector" in bare
    connection = apsw.Connection(path)
    counters = {row[0] for row in connection.execute("SELECT counter FROM messages")}
    assert counters == {None}  # cl100k_base
    connection.close()


SCRIPTS = """
import json, sys
class Missing:
    def find_spec(self, name, path, target=None):
        spec = real.find_spec(name, path, target)
        return None if name == "tiktoken" else spec
if sys.argv[1] == "does not load":
    sys.modules["tiktoken"] = None
if sys.argv[1] == "missing":
    real = sys.meta_path[-1]
    sys.meta_path[-1] = Missing()
import memdb
with memdb.open(":memory:", embedder=None) as db:
    talk = db.scope("ann").session("trip")
    for text in ("We sail on 3 May.", "京都に行きます。", "Then home."):
        talk.append("user", text)
        talk.context(500)
    print(json.dumps([message.counter for message in talk.messages()]))
"""


@pytest.mark.parametrize(
    ("how", "counters"),
    [
        ("installed", ["cl100k_base"] * 3),
        ("does not load", ["cl100k_base", "estimate", "estimate"]),
        ("missing", ["estimate"] * 3),
    ],
)
def test_the_default_counter_never_fails_a_write(
    how: str, counters: list[str], run_child: Any
) -> None:
    """What needs tiktoken is estimated without it, and the message's counter says so."""
    assert json.loads(run_child(SCRIPTS, how)) == counters


def test_a_counter_that_is_named_needs_its_library(run_child: Any) -> None:
    """Only for text of other scripts; the error says what to install, or to use in its place."""
    said = run_child(
        "import sys; sys.modules['tiktoken'] = None\n"
        "import memdb\n"
        "db = memdb.open(':memory:', counter='cl100k_base', embedder=None)\n"
        "session = db.scope('a').session('s')\n"
        "session.append('user', 'x')\n"
        "try: session.append('user', '京都')\n"
        "except memdb.PortError as error: print(session.last_seq, error)\n"
    )

    assert said == (
        "1 counter 'cl100k_base' failed: tiktoken is not installed: install it, or use 'estimate'\n"
    )


@pytest.mark.parametrize("dim", [2, 128, 384])
def test_the_cosine_in_python_is_that_of_sqlite_vec(dim: int) -> None:
    """To six digits, for vectors of any length and direction."""
    connection = apsw.Connection(":memory:")
    load_vector_functions(connection)
    drawn = random.Random(dim)
    for _ in range(200):
        pair = [
            struct.pack(
                f"<{dim}f", *(drawn.gauss(0, 10 ** drawn.uniform(-6, 6)) for _ in range(dim))
            )
            for _ in range(2)
        ]
        (theirs,) = connection.execute("SELECT vec_distance_cosine(?, ?)", pair).fetchone()
        assert cosine_distance(*pair) == pytest.approx(theirs, abs=1e-5)


def test_files_are_synced_as_windows_asks(
    path: str, open_db: Callable[..., memdb.MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses to sync a file that is open for reading only; folders are synced on POSIX alone."""
    fcntl = pytest.importorskip("fcntl")
    real, synced = os.fsync, []

    def fsync(handle: int) -> None:
        flags = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE
        if flags == os.O_RDONLY and not os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(9, "Bad file descriptor")
        synced.append(flags)
        real(handle)

    monkeypatch.setattr(maintenance.os, "fsync", fsync)
    db = open_db(path)
    db.scope("ann").session("s").append("user", "hello")
    db.file.backup(f"{path}.copy")

    assert os.O_RDWR in synced
    with memdb.open(f"{path}.copy") as copy:
        assert copy.scope("ann").session("s").last_seq == 1
