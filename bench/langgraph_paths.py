"""
LangGraph's store and checkpointer: memdb beside LangGraph's own SQLite classes.

    make client-langgraph                  # once: makes the environment
    tests/integrations/.venvs/langgraph-newest/bin/python bench/langgraph_paths.py [ROUNDS] [FOLDER]

Every round does each call once with each class, all of them in random order, so that all meet
the same machine. The bars: a put takes no longer, everything else at most 1.2 times as long.
(The name of this file is not langgraph.py: Python would import that in the package's place.)
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import units
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from memdb.integrations.langgraph import MemdbSaver, MemdbStore

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[int], Any]
    Row = tuple[str, float, dict[str, Call]]

ITEMS, NAMESPACES, RARE = 3_000, 30, 500
SIZES = 500, 10_000
BAR, PUT_BAR = 1.2, 1.0
KINDS = "power", "process"


def value(number: int) -> dict[str, Any]:
    kind = "rare one" if number % RARE == 0 else f"kind {number % 7}"
    return {"text": f"note {number} about the weather in Oslo", "kind": kind, "n": number}


def namespace(number: int) -> tuple[str, ...]:
    return ("notes", f"user {number % NAMESPACES}")


def checkpoint(number: int) -> Any:
    values = {"messages": [f"message {number - n} of a talk" for n in range(6)], "step": number}
    return {**empty_checkpoint(), "channel_values": values}


def store_rows(folder: Path) -> list[Row]:
    connection = sqlite3.connect(
        folder / "ref-store.db", check_same_thread=False, isolation_level=None
    )
    stores: dict[str, Any] = {"langgraph": SqliteStore(connection)}
    stores["langgraph"].setup()
    describe("SqliteStore", connection)
    for kind in KINDS:
        stores[kind] = MemdbStore(folder / f"store-{kind}.db", durability=kind)
    for one in stores.values():
        ops = [PutOp(namespace(n), f"k{n}", value(n), index=False) for n in range(ITEMS)]
        for start in range(0, ITEMS, 500):
            one.batch(ops[start : start + 500])
    rare = {"kind": "rare one"}
    calls: dict[str, tuple[float, Callable[[Any, int], Any]]] = {
        "store put": (PUT_BAR, lambda one, n: one.put(namespace(n), f"k{n}", value(n))),
        "store get": (BAR, lambda one, n: one.get(namespace(n), f"k{n}")),
        "store search, limit 10": (BAR, lambda one, n: one.search(namespace(n), limit=10)),
        "store search, filter on rare text": (
            BAR,
            lambda one, n: one.search(namespace(RARE * n), filter=rare, limit=10),
        ),
        "store search all, filter on rare text": (
            BAR,
            lambda one, _: one.search(("notes",), filter=rare, limit=10),
        ),
        "store list_namespaces": (BAR, lambda one, _: one.list_namespaces(prefix=("notes",))),
    }
    return rows(calls, stores)


def saver_rows(folder: Path, size: int) -> list[Row]:
    connection = sqlite3.connect(folder / f"ref-saver-{size}.db", check_same_thread=False)
    savers: dict[str, Any] = {"langgraph": SqliteSaver(connection)}
    savers["langgraph"].setup()
    if size == SIZES[0]:
        describe("SqliteSaver", connection)
    for kind in KINDS:
        savers[kind] = MemdbSaver(folder / f"saver-{size}-{kind}.db", durability=kind)
    thread: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    latest = {}
    for who, one in savers.items():
        print(f"{who} gets {size:,} checkpoints", file=sys.stderr)
        if who == "langgraph":
            connection.execute("PRAGMA synchronous = OFF")
            latest[who] = fill(one, thread, range(size))
            connection.execute("PRAGMA synchronous = FULL")
        else:
            config = thread
            for start in range(0, size, 500):
                with one._db.transaction():
                    config = fill(one, config, range(start, min(start + 500, size)))
            latest[who] = config

    def put(one: Any, n: int) -> None:
        latest[name_of[id(one)]] = one.put(latest[name_of[id(one)]], checkpoint(n), about(n), {})

    def write(one: Any, n: int) -> None:
        one.put_writes(latest[name_of[id(one)]], [("a", n), ("b", "text")], f"task {n}")

    name_of = {id(one): who for who, one in savers.items()}
    at = f"of {size:,}"
    calls: dict[str, tuple[float, Callable[[Any, int], Any]]] = {
        f"saver put {at}": (PUT_BAR, put),
        f"saver put_writes(2) {at}": (PUT_BAR, write),
        f"saver get_tuple latest {at}": (BAR, lambda one, _: one.get_tuple(thread)),
        f"saver get_tuple by id {at}": (
            BAR,
            lambda one, _: one.get_tuple(latest[name_of[id(one)]]),
        ),
        f"saver list limit 10 {at}": (BAR, lambda one, _: [*one.list(thread, limit=10)]),
    }
    return rows(calls, savers)


def about(number: int) -> Any:
    return {"source": "loop", "step": number, "parents": {}}


def fill(saver: Any, config: Any, numbers: range) -> Any:
    for number in numbers:
        config = saver.put(config, checkpoint(number), about(number), {})
        saver.put_writes(config, [("a", number), ("b", "text")], f"task {number}")
    return config


def rows(calls: dict[str, Any], objects: dict[str, Any]) -> list[Row]:
    return [
        (
            name,
            bar,
            {who: (lambda n, one=one, call=call: call(one, n)) for who, one in objects.items()},
        )
        for name, (bar, call) in calls.items()
    ]


def describe(name: str, connection: sqlite3.Connection) -> None:
    journal, sync = (
        connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        for pragma in ("journal_mode", "synchronous")
    )
    print(f"{name}: journal_mode {journal}, synchronous {sync}")


def main(rounds: int, folder: Path) -> int:
    print("memdb: WAL; durability 'power' (the default) syncs each commit, 'process' does not")
    table = [*store_rows(folder)]
    for size in SIZES:
        table += saver_rows(folder, size)
    seconds: dict[tuple[str, str], list[float]] = {}
    todo = [(name, who, call) for name, _, calls in table for who, call in calls.items()]
    for number in range(rounds + 1):
        random.shuffle(todo)
        units.turn()
        for name, who, call in todo:
            start = time.perf_counter()
            call(number)
            took = time.perf_counter() - start
            if number:  # the first one opens files
                seconds.setdefault((name, who), []).append(took)
    print(f"medians of {rounds} rounds in ms; a factor above its bar is marked")
    print(f"{'':40}{'langgraph':>10}" + "".join(f"{kind:>10}{'x':>7}" for kind in KINDS))
    missed = 0
    for name, bar, _ in table:
        ms = {who: median(seconds[name, who]) * 1000 for who in ("langgraph", *KINDS)}
        line = f"{name:40}{ms['langgraph']:10.3f}"
        for kind in KINDS:
            factor = ms[kind] / ms["langgraph"]
            is_missed = factor > bar
            missed += is_missed and kind == KINDS[0]
            line += f"{ms[kind]:10.3f}{factor:6.2f}{'!' if is_missed else ' '}"
        print(line)
    print(units.line())
    return missed


if __name__ == "__main__":
    count = int(sys.argv[1]) if sys.argv[1:] else 300
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if sys.argv[2:] else None) as place:
        sys.exit(main(count, Path(place)))
