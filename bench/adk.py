"""
google-adk on memdb against ADK's own SQLite services, interleaved in one run.

    python bench/adk.py [--events 10000] [--rounds 30]

Needs the extra `adk`, as tests/integrations/.venvs/adk-newest has it after `make clients
CLIENT=adk`. Each round does every task on both sides, in an order drawn for each task: who
comes first pays for the disk of both. The ratio is of the medians. How far reading the last
50 is ahead depends on the length of the session, so it is measured at a tenth of it too. Durability is
equal: ADK's services leave SQLite's default (a rollback journal, FULL) for
sessions, which `durability="power"` matches, and WAL with NORMAL for memory,
which is "process". The last lines tell how long an event loop waited at most
while the calls ran (bar 5 ms), and how long it waited beside an idle one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import units
from google.adk.events import Event, EventActions
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from heart import watch

from memdb.integrations.adk import MemdbMemoryService, MemdbSessionService

WHO = {"app_name": "bench", "user_id": "ann"}
BAR = 3.0
WORDS = [f"word{n}" for n in range(2000)]


def event(rng: random.Random, state: dict[str, object] | None = None) -> Event:
    """Return an event of 30 words, common ones more often."""
    text = " ".join(WORDS[int(rng.paretovariate(0.6)) % len(WORDS)] for _ in range(30))
    part = types.Part(text=text)
    return Event(
        author=rng.choice(["user", "agent"]),
        content=types.Content(role="user", parts=[part]),
        actions=EventActions(state_delta=state or {}),
    )


async def filled(service, rng: random.Random, count: int):
    """Make a session of *count* events and return it."""
    session = await service.create_session(**WHO, session_id="s")
    for _ in range(count):
        await service.append_event(session, event(rng))
    return session


async def timed(call) -> float:
    """Return the milliseconds that a call takes."""
    begun = time.perf_counter()
    await call
    return 1000 * (time.perf_counter() - begun)


def shuffled() -> list[int]:
    """Return the numbers of both sides, in any order."""
    return random.sample([0, 1], 2)


async def sessions(folder: Path, count: int, rounds: int) -> list[tuple[str, float, float]]:
    """Append one event, and read the last 50 and all of a long session."""
    sides = [
        MemdbSessionService(folder / "agent.db"),
        SqliteSessionService(str(folder / "adk.db")),
    ]
    held = [await filled(side, random.Random(1), count) for side in sides]
    last = GetSessionConfig(num_recent_events=50)
    took: dict[str, list[list[float]]] = {}
    rng = random.Random(2)
    for number in range(rounds):
        units.turn()
        new = [event(rng, {"n": number, "user:n": number}) for _ in range(10)]
        for one in new:
            for place in shuffled():
                call = sides[place].append_event(held[place], one.model_copy(deep=True))
                took.setdefault("append", [[], []])[place].append(await timed(call))
        for _ in range(3):
            for place in shuffled():
                call = sides[place].get_session(**WHO, session_id="s", config=last)
                took.setdefault(f"last 50 of {count}", [[], []])[place].append(await timed(call))
        if number % 4 == 0:
            for place in shuffled():
                call = sides[place].get_session(**WHO, session_id="s")
                took.setdefault("all events", [[], []])[place].append(await timed(call))
    await sides[0].close()
    return [(name, *map(statistics.median, both)) for name, both in took.items()]


async def memory(folder: Path, count: int, rounds: int) -> list[tuple[str, float, float]]:
    """Add one event, and search among many, for words rare and common."""
    sides = [
        MemdbMemoryService(folder / "memory.db", durability="process", embedder=None),
        SqliteMemoryService(folder / "adk-memory.db"),
    ]
    rng = random.Random(3)
    events = [event(rng) for _ in range(count)]
    for side in sides:
        for begin in range(0, count, 500):
            part = events[begin : begin + 500]
            await side.add_events_to_memory(**WHO, events=part, session_id="s")
    took: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        units.turn()
        new = [event(rng) for _ in range(5)]
        queries = [f"{rng.choice(WORDS)} {rng.choice(WORDS[:50])} {WORDS[1]}" for _ in range(3)]
        for one in new:
            for place in shuffled():
                call = sides[place].add_events_to_memory(**WHO, events=[one], session_id="s")
                took.setdefault("memory: add", [[], []])[place].append(await timed(call))
        for query in queries:
            for place in shuffled():
                call = sides[place].search_memory(**WHO, query=query)
                took.setdefault("memory: search", [[], []])[place].append(await timed(call))
    for side in sides:
        await side.close()
    return [(name, *map(statistics.median, both)) for name, both in took.items()]


async def blocking(folder: Path, count: int) -> int:
    """Print how long the loop waits for calls; return how many made it wait too long."""
    rng = random.Random(4)
    service = MemdbSessionService(folder / "loop.db")
    recall = MemdbMemoryService(folder / "loop.db")
    session = await service.create_session(**WHO, session_id="s")

    async def append() -> None:
        for _ in range(count // 10):
            await service.append_event(session, event(rng))

    missed = await watch(
        [
            ("append", append),
            ("read all", lambda: service.get_session(**WHO, session_id="s")),
            ("memory: add all", lambda: recall.add_session_to_memory(session)),
            ("memory: search", lambda: recall.search_memory(**WHO, query="word1 word7")),
        ]
    )
    await service.close()
    await recall.close()
    return missed


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = asyncio.run(sessions(folder, given.events, given.rounds))
        tenth = folder / "tenth"
        tenth.mkdir()
        rows += [
            row
            for row in asyncio.run(sessions(tenth, given.events // 10, given.rounds))
            if row[0].startswith("last")
        ]
        rows += asyncio.run(memory(folder, given.events, given.rounds))
        print(f"{'':18}{'memdb ms':>10}{'ADK ms':>10}{'times':>8}")
        for task, ours, theirs in rows:
            barred = task in {"append", f"last 50 of {given.events}", "memory: add"}
            good = theirs / ours >= BAR or not barred
            missed += not good
            mark = f"  bar {BAR:g} {'ok' if good else 'MISSED'}" if barred else ""
            print(f"{task:18}{ours:10.3f}{theirs:10.3f}{theirs / ours:8.1f}{mark}")
        print(units.line())
        missed += asyncio.run(blocking(folder, given.events))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
