"""Sessions of many processes on one file, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from at_once import PROCESSES, WRITES, cancel_at_each_await, run_at_once

import memdb
from memdb.integrations.openai_agents import MemDBSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

WRITE = """
import asyncio, json, sys
from memdb.integrations.openai_agents import MemDBSession
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()

def item(text):
    return {"role": "user", "content": text}

async def main():
    popped = []
    async with MemDBSession("shared", path) as shared, MemDBSession(f"own-{number}", path) as own:
        await shared.get_items(1)
        for n in range(writes):
            await shared.add_items([item(f"{number}-{n}"), {"role": "assistant", "content": "ok"}])
            if n % 3 == 0:
                await own.add_items([item(str(n)), item("gone")])
                popped.append((await own.pop_item())["content"])
            if n % 50 == 49:
                await own.create_branch_from_turn(1, f"b{n}")
                await own.switch_to_branch("main")
    print(json.dumps(popped))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_processes_write(tmp_path: Path) -> None:
    """150 times two items in one session, in pairs; items popped and branches in their own."""
    path = tmp_path / "agent.db"

    printed = run_at_once(WRITE, path)

    assert {one for line in printed for one in json.loads(line)} == {"gone"}
    with memdb.open(path) as db:
        scope = db.scope("default")
        texts = [one.text for one in scope.session("shared").messages()]
        own = [one.text for one in scope.session("own-3").messages()]
        assert db.file.check() == []
    assert sorted(texts[::2]) == sorted(f"{a}-{b}" for a in range(PROCESSES) for b in range(WRITES))
    assert texts[1::2] == ["ok"] * PROCESSES * WRITES
    assert own == [str(n) for n in range(0, WRITES, 3)]


def said(text: str) -> list[dict[str, Any]]:
    """Return one item of the user."""
    return [{"role": "user", "content": text}]


CALLS: dict[str, Callable[[MemDBSession], Awaitable[Any]]] = {
    "add": lambda session: session.add_items([*said("two"), *said("three")]),
    "get": lambda session: session.get_items(),
    "pop": lambda session: session.pop_item(),
    "clear": lambda session: session.clear_session(),
    "branch": lambda session: session.create_branch_from_turn(1, "other"),
    "search": lambda session: session.search("one"),
    "context": lambda session: session.context_items(400),
}
# What the session holds before the call, and after it.
AFTER = {"add": ["one", "two", "three"], "pop": [], "clear": []}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_cancelled_at_any_await_is_whole_or_absent(tmp_path: Path, name: str) -> None:
    """Nothing is half stored, and the next call works."""

    async def try_all() -> int:
        async with MemDBSession("trip", tmp_path / "agent.db") as session:
            await session.add_items(said("one"))

            async def check() -> None:
                session._branch = "main"  # where a branch was made it is the current one
                held = [one["content"] for one in await session.get_items()]
                assert held in (["one"], AFTER.get(name, ["one"]))
                with memdb.open(tmp_path / "agent.db") as db:
                    assert db.file.check() == []
                await session.clear_session()
                await session.add_items(said("one"))

            return await cancel_at_each_await(lambda: _begin(CALLS[name], session), check)

    assert asyncio.run(try_all()) > 0


async def _begin(call: Callable[[MemDBSession], Awaitable[Any]], session: MemDBSession) -> Any:
    return await call(session)
