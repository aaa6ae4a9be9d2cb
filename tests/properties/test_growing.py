"""
No write looks at more rows the more a user already has.

A write is made beside few and beside many things of its kind. SQLite counts the steps of its
statements, so a write that reads the others shows, however fast the machine is. The other things
share no word with the new one: how many texts hold a word may be asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import each

import memdb
from memdb import MemDB

FEW, MANY, MEASURED = 80, 400, 10

# The steps of many are at most so many times those of few: trees are deeper, and pages fuller.
GROWTH = 1.25

QUOTA = 60  # so that entries are evicted beside few ones too


def word(number: int) -> str:
    """Return a word of letters for a number."""
    return "v" + "".join("bcdfghjklm"[int(digit)] for digit in str(number))


def said(number: int) -> str:
    """Return a fact that shares no word with that of another number."""
    return f"{word(number)} {word(number)}x {word(number)}z."


def lines(**fields: Callable[[int], object]) -> Callable[[MemDB, range], object]:
    """Return the import of a line for each number, whose fields are made from it."""

    def run(db: MemDB, numbers: range) -> None:
        path = Path(db.path).with_name("lines.jsonl")
        made = ({name: make(number) for name, make in fields.items()} for number in numbers)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in made))
        db.import_file(path, user="ann")

    return run


def calls(call: Callable[[MemDB, int], object]) -> Callable[[MemDB, range], object]:
    """Return a call for each number."""
    return lambda db, numbers: [call(db, number) for number in numbers]


def always(value: object) -> Callable[[int], object]:
    """Return *value* for each number."""
    return lambda _: value


WRITES: dict[str, Callable[[MemDB, range], object]] = {
    "import messages": lines(
        kind=always("message"), session=always("s"), role=always("user"), text=said
    ),
    "import sessions": lines(kind=always("message"), session=word, role=always("user"), text=said),
    "import entries": lines(kind=always("entry"), text=said),
    "import entries with a share": lines(
        kind=always("entry"), text=said, category=always("contextual")
    ),
    "import entries with keys": lines(kind=always("entry"), text=said, key=word),
    "import items": lines(
        kind=always("item"),
        namespace=always(["n"]),
        key=word,
        value=lambda number: {"text": said(number)},
    ),
    "import state": lines(
        kind=always("state"),
        key=word,
        value=said,
        version=always(1),
        updated_ms=always(1),
    ),
    "import artifacts": lines(kind=always("artifact"), name=word, text=said),
    "append": calls(lambda db, n: db.user("ann").session("s").append("user", said(n))),
    "append to sessions": calls(lambda db, n: db.user("ann").session(word(n)).append("user", "x")),
    "remember": calls(lambda db, n: db.user("ann").remember(said(n))),
    "remember with a share": calls(
        lambda db, n: db.user("ann").remember(said(n), category="contextual")
    ),
    "remember with keys": calls(lambda db, n: db.user("ann").remember(said(n), key=word(n))),
    "items": calls(lambda db, n: db.user("ann").items.put(("n",), word(n), {"text": said(n)})),
    "namespaces": calls(lambda db, n: db.user("ann").items.put((word(n),), "k", {"text": "x"})),
    "state": calls(lambda db, n: db.user("ann").state.put(word(n), n)),
    "artifacts": calls(lambda db, n: db.user("ann").artifacts.save(word(n), said(n))),
    "versions": calls(lambda db, n: db.user("ann").artifacts.save("a.md", said(n))),
}


@pytest.fixture
def steps() -> Iterator[Counter[str]]:
    """Count the steps of memdb's own statements by their names; those of FTS5 add up."""
    counts: Counter[str] = Counter()

    def note(event: dict[str, Any]) -> None:
        if event["sql"].startswith("/*"):
            name = event["sql"].split("*/")[0]
            counts[name] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    apsw.connection_hooks.append(hook)
    yield counts
    apsw.connection_hooks.remove(hook)


@each("name", WRITES)
def test_no_write_reads_what_is_there_already(
    name: str, tmp_path: Path, steps: Counter[str]
) -> None:
    """Import of each kind, and each call that adds."""
    write = WRITES[name]
    taken = []
    with memdb.open(tmp_path / f"{name}.db", embedder=None) as db:
        db.settings.update(entry_quota=QUOTA)
        start = 0
        for end in (FEW, MANY):
            write(db, range(start, end))
            steps.clear()
            write(db, range(end, end + MEASURED))
            taken.append(steps.copy())
            start = end + MEASURED
    few, many = taken

    more = (many - few).most_common(3)
    assert many.total() <= GROWTH * few.total() + MEASURED * 100, more
