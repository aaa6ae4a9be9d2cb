"""Processes that write through memdb and note what was acknowledged, and the check of it."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from counters import count

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Appends to the session of all and to its own, remembers and saves, until its input ends. It
# tries nothing again: what memdb raises ends it.
WRITE = """
import select, sys, memdb
url, name, path, timeout_s = sys.argv[1:5]
with memdb.open(
    url, embedder=None, counter="estimate", busy_timeout_s=float(timeout_s)
) as db, open(path, "w") as notes:
    ann = db.scope("ann")
    shared, own = ann.session("shared"), ann.session(name)
    print("ready", flush=True)
    number = 0
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        number += 1
        seq = shared.append("user", f"{name} {number}").seq
        print("shared", number, seq, file=notes, flush=True)
        if number % 4 == 0:
            seq = own.append("user", f"{name} own {number}").seq
            print("own", number, seq, file=notes, flush=True)
            version = own.artifacts.save("file", f"{name} {number}" + "x" * 300).version
            print("file", number, version, file=notes, flush=True)
            uid = ann.remember(f"{name} has fact {number}").entry.uid
            print("fact", number, uid, file=notes, flush=True)
"""


class Writers:
    """The processes of `writing`, and what they noted."""

    def __init__(self, children: dict[str, Any], folder: Path) -> None:
        """Take the started processes by name."""
        self._children = children
        self._folder = folder

    def stop(self) -> None:
        """End them; fail if an error came to one of them."""
        for child in self._children.values():
            if child.poll() is None:
                child.stdin.close()
                child.stdin = None
        errors = {name: child.communicate(timeout=120)[1] for name, child in self._children.items()}
        assert errors == dict.fromkeys(errors, "")

    def read_notes(self) -> dict[str, list[tuple[str, int, str]]]:
        """Return what each has been acknowledged: what, its number, its seq, version or uid."""
        found = {}
        for name in self._children:
            lines = (self._folder / name).read_text().split("\n")[:-1]
            parts = [line.split() for line in lines]
            found[name] = [(kind, int(number), got) for kind, number, got in parts]
        return found

    def wait_for_more(self, wait_for: Callable[..., Any], each: int = 1) -> None:
        """Wait until each of them was acknowledged some more."""
        before = {name: len(notes) for name, notes in self.read_notes().items()}

        def is_more() -> bool:
            for name, child in self._children.items():
                assert child.poll() is None, f"{name}: {child.stderr.read()}"
            now = self.read_notes()
            return all(len(now[name]) >= before[name] + each for name in now)

        wait_for("more writes", is_more)


@contextmanager
def writing(
    start_child: Callable[..., Any],
    url: str,
    folder: Path,
    number: int = 4,
    busy_timeout_s: float = 10.0,
) -> Iterator[Writers]:
    """Let processes write while the body runs; they end with it, without an error."""
    names = [f"{folder.name}-w{one}" for one in range(number)]  # not those of another test
    children = {
        name: start_child(WRITE, url, name, folder / name, busy_timeout_s) for name in names
    }
    for child in children.values():
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    writers = Writers(children, folder)
    yield writers
    writers.stop()


def check_all_there(url: str, writers: Writers) -> int:
    """
    Fail unless everything acknowledged is stored, once, in order, and nothing is half-written.

    Returns:
        How many writes were acknowledged.
    """
    total = 0
    with memdb.open(url, embedder=None, counter="estimate") as db:
        ann = db.scope("ann")
        shared = list(ann.session("shared").messages())
        assert [one.seq for one in shared] == list(range(1, len(shared) + 1))
        texts = {one.seq: one.text for one in shared}
        entries = list(ann.entries.list(inactive=True))  # over the quota are set aside
        facts = Counter(one.text for one in entries)
        uids = {one.uid: one.text for one in entries}
        for name, notes in writers.read_notes().items():
            chat = ann.session(name)
            own = {one.seq: one.text for one in chat.messages()}
            assert list(own) == list(range(1, len(own) + 1))
            _assert_in_order(name, [text for text in texts.values() if text.startswith(f"{name} ")])
            for kind, number, got in notes:
                if kind == "shared":
                    assert texts[int(got)] == f"{name} {number}"
                elif kind == "own":
                    assert own[int(got)] == f"{name} own {number}"
                elif kind == "file":
                    text = chat.artifacts.load("file", int(got)).text
                    assert text == f"{name} {number}" + "x" * 300
                else:
                    assert uids[got] == f"{name} has fact {number}"
            total += len(notes)
        assert set(facts.values()) <= {1}, "a fact is there twice"
        assert db.file.check(deep=True) == []
    count("acknowledged", total)
    return total


def _assert_in_order(name: str, texts: list[str]) -> None:
    """Fail if a write of one process is missing, twice or out of order."""
    assert texts == [f"{name} {number}" for number in range(1, len(texts) + 1)]
