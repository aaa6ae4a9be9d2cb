"""Several processes and threads on the items of one file: nothing is lost, nothing is in error."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Adds 1 to a shared number so often, by compare-and-swap, and puts a key of its own each time.
ADDER = """
import sys
import memdb
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memdb.open(path, embedder=None, counter="estimate", durability="process") as db:
    items = db.scope("ann").items
    for number in range(count):
        items.put(("own", name), f"{number:05}", {"text": f"{name} {number}"})
        while True:
            found = items.find(("shared",), "total")
            version, total = (0, 0) if found is None else (found.version, found.value)
            try:
                items.put(("shared",), "total", total + 1, expected=version)
                break
            except memdb.VersionConflict:
                continue
"""


def add_up(path: str, start_child: Callable[..., Any], processes: int, count: int) -> None:
    """Let processes add at once, and check that each addition is there."""
    with memdb.open(path, embedder=None, counter="estimate", durability="process"):
        pass
    children = [start_child(ADDER, path, f"p{number}", count) for number in range(processes)]
    for child in children:
        _, errors = child.communicate(timeout=500)
        assert (child.returncode, errors) == (0, "")
    with memdb.open(path, embedder=None, counter="estimate") as db:
        items = db.scope("ann").items
        total = items.get(("shared",), "total")
        assert (total.value, total.version) == (processes * count, processes * count)
        assert len(items.list(("own",), limit=10_000)) == processes * count
        assert len(items.namespaces(("own",))) == processes
        assert db.file.check(deep=True) == []


def test_processes_lose_no_compare_and_swap(path: str, start_child: Callable[..., Any]) -> None:
    """4 processes x 15: each addition is there once."""
    add_up(path, start_child, 4, 15)


@pytest.mark.slow
def test_many_processes_lose_no_compare_and_swap(path: str, start_child: Any) -> None:
    """8 processes x 150."""
    add_up(path, start_child, 8, 150)


def test_threads_lose_no_compare_and_swap(tmp_path: Path) -> None:
    """8 threads of one open file x 20."""
    with memdb.open(tmp_path / "agent.db", embedder=None, durability="process") as db:
        items = db.scope("ann").items
        errors: list[BaseException] = []

        def add() -> None:
            try:
                for _ in range(20):
                    while True:
                        found = items.find((), "total")
                        version, total = (0, 0) if found is None else (found.version, found.value)
                        try:
                            items.put((), "total", total + 1, expected=version)
                            break
                        except memdb.VersionConflict:
                            continue
            except BaseException as error:  # noqa: BLE001 (each is reported)
                errors.append(error)

        threads = [threading.Thread(target=add) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (errors, items.get((), "total").value) == ([], 160)
