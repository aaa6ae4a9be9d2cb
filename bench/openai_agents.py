"""
Sessions of the OpenAI Agents SDK: memdb beside the SDK's own SQLiteSession.

    python bench/openai_agents.py

Both store in WAL mode and sync as the SDK's session does here. Each step is done by both in an
order that is drawn each time: who comes first pays for the disk of both. The bar is three times
as fast; one item alone has none, and takes memdb longer: it is counted and indexed.
Run it with tests/integrations/.venvs/openai_agents-newest/bin/python after `make clients`.

The line "one row and a sync" stands for what the disk allows, and has no bar: an item
as one row of one table, by SQLite alone, without a thread, counts or an index.
The last lines tell how long the event loop waited at most while calls ran (bar 5 ms).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import apsw
import units
from agents import SQLiteSession
from heart import watch

from memdb import aio
from memdb.integrations.openai_agents import MemDBSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HISTORY = 10_000
ROUNDS = 200
TOGETHER = 50
BAR = 3.0
FULL = 2


def item(number: int) -> dict[str, Any]:
    role = "user" if number % 2 == 0 else "assistant"
    text = f"message number {number} about the weather in Oslo and the plan for dinner"
    return {"role": role, "content": text}


async def took(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def compare(
    name: str, rounds: int, ours: Any, theirs: Any, bar: float | None = BAR, before: Any = None
) -> float:
    """
    Print the medians of both in ms, and return how many times faster ours is.

    Args:
        before: What both do before, which is not timed; None: nothing.
    """
    seconds: dict[str, list[float]] = {"memdb": [], "sdk": []}
    for number in range(rounds):
        sides = [(0, "memdb", ours), (1, "sdk", theirs)]
        for place, who, work in random.sample(sides, 2):
            if before is not None:
                await before[place](number)
            seconds[who].append(await took(lambda work=work, number=number: work(number)))
        if number % 10 == 0:
            units.turn()
    found = {who: median(values) * 1000 for who, values in seconds.items()}
    ratio = found["sdk"] / found["memdb"]
    mark = "" if bar is None else "ok" if ratio >= bar else "below the bar"
    ours_ms, sdk_ms = found["memdb"], found["sdk"]
    print(f"{name:36} memdb {ours_ms:8.3f} ms  sdk {sdk_ms:8.3f} ms  x {ratio:5.2f}  {mark}")
    return ratio


async def main(folder: Path) -> int:
    theirs = SQLiteSession("trip", folder / "sdk.db")
    with theirs._locked_connection() as connection:
        connection.execute("SELECT count(*) FROM agent_messages").fetchone()
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    durability = "power" if synchronous >= FULL else "process"
    print(
        f"synchronous of the SDK's sessions: {synchronous}, so memdb's durability is {durability!r}"
    )
    db = await aio.open(folder / "agent.db", durability=durability)
    ours = MemDBSession("trip", db, user="ann")
    history = [item(number) for number in range(HISTORY)]
    for session in (ours, theirs):
        await session.add_items(history)
        assert await session.get_items(50) == history[-50:]
    many = [
        [MemDBSession(f"s{n}", db, user="ann") for n in range(TOGETHER)],
        [SQLiteSession(f"s{n}", folder / "sdk.db") for n in range(TOGETHER)],
    ]

    def together(sessions: list[Any]) -> Callable[[int], Awaitable[Any]]:
        return lambda n: asyncio.gather(*(one.add_items([item(n)]) for one in sessions))

    ratios = [
        await compare(
            f"last 50 of {HISTORY:,}",
            ROUNDS,
            lambda _: ours.get_items(50),
            lambda _: theirs.get_items(50),
        ),
        await compare(
            f"{TOGETHER} sessions append at once", 20, together(many[0]), together(many[1])
        ),
        await compare(
            f"last 50 of {HISTORY:,}, after one more",
            ROUNDS,
            lambda _: ours.get_items(50),
            lambda _: theirs.get_items(50),
            before=(append(ours), append(theirs)),
        ),
    ]
    await compare("append one item", ROUNDS, append(ours), append(theirs), bar=None)
    turns = partial(turn, ours), partial(turn, theirs)
    await compare("one more and the last 50", ROUNDS, *turns, bar=None)
    await compare("one row and a sync", ROUNDS, row_and_sync(folder), append(theirs), bar=None)
    short = MemDBSession("short", db, user="ann"), SQLiteSession("short", folder / "sdk.db")
    for session in short:
        await session.add_items(history[:2000])
        assert await session.get_items() == history[:2000]
    every = [lambda _, one=one: one.get_items() for one in short]
    print(f"all of 2,000 takes {1 / await compare('all of 2,000', 40, *every, bar=None):.2f} x")
    added = [append(one) for one in short]
    await compare("all of 2,000, after one more", 40, *every, bar=None, before=added)
    for session in (ours, theirs, *short, *many[0], *many[1]):
        session.close()
    await db.close()
    print(units.line())
    return sum(ratio < BAR for ratio in ratios) + await blocking(folder)


def append(session: Any) -> Callable[[int], Awaitable[Any]]:
    return lambda number: session.add_items([item(number)])


def row_and_sync(folder: Path) -> Callable[[int], Awaitable[Any]]:
    """Return what stores an item as SQLite alone can."""
    run = apsw.Connection(str(folder / "rows.db")).execute
    run("PRAGMA journal_mode = WAL").fetchall()
    run("PRAGMA synchronous = FULL")
    run("CREATE TABLE items (id INTEGER PRIMARY KEY, item TEXT NOT NULL) STRICT")

    async def store(number: int) -> None:
        run("INSERT INTO items (item) VALUES (?)", (json.dumps(item(number)),))

    return store


async def blocking(folder: Path) -> int:
    """Print how long the loop waits for calls; return how many made it wait too long."""
    session = MemDBSession("talk", folder / "loop.db", user="ann")

    async def first() -> None:
        await session.add_items([item(0)])

    async def append() -> None:
        for number in range(1, HISTORY // 10):
            await session.add_items([item(number)])

    history = [item(number) for number in range(HISTORY)]
    missed = await watch(
        [
            ("first append", first),
            ("appends", append),
            (f"append {HISTORY:,} at once", lambda: session.add_items(history)),
            ("read all", session.get_items),
            ("search", lambda: session.search("dinner in Oslo")),
            ("recall", lambda: session.recall("What is planned in Oslo?")),
            ("context", lambda: session.context_items(4000, "What is planned in Oslo?")),
            ("clear", session.clear_session),
        ]
    )
    await session.aclose()
    return missed


async def turn(session: Any, number: int) -> None:
    await session.get_items(50)
    await session.add_items([item(number)])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(1 if asyncio.run(main(Path(place))) else 0)
