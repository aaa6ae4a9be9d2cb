"""
LlamaIndex's chat store: memdb beside LlamaIndex's own SQLAlchemyChatStore, over SQLite.

    make client-llamaindex                 # once: makes the environment
    tests/integrations/.venvs/llamaindex-newest/bin/python bench/llamaindex_paths.py [ROUNDS]

One key has 2,000 messages. Every round makes each call once with each class, in random order. CPU
time of the process, so that of the threads counts too. The bar: a page and a count take no longer.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import units
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from memdb.integrations.llamaindex import MemdbChatStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MESSAGES, PAGE = 2_000, 20
KEY = "chat"
BAR = 1.0

CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "a page of 20, the oldest": lambda one: one.get_messages(KEY, limit=PAGE),
    "a page of 20, after 1,000": lambda one: one.get_messages(KEY, limit=PAGE, offset=1_000),
    "a page of 20, the newest": lambda one: one.get_messages(
        KEY, limit=PAGE, offset=MESSAGES - PAGE
    ),
    "count": lambda one: one.count_messages(KEY),
    "all of 2,000": lambda one: one.get_messages(KEY),
}


def message(number: int) -> ChatMessage:
    """Return a message of a talk about dinner."""
    role = ("user", "assistant")[number % 2]
    text = f"message number {number} about the weather in Oslo and the plan for dinner"
    return ChatMessage(role=role, content=text)


async def measure(stores: dict[str, Any], rounds: int) -> dict[tuple[str, str], list[float]]:
    """Return the milliseconds of CPU of each call with each class."""
    took: dict[tuple[str, str], list[float]] = {}
    todo = [(name, who) for name in CALLS for who in stores]
    for number in range(rounds + 1):
        random.shuffle(todo)
        units.turn()
        for name, who in todo:
            start = time.process_time()
            await CALLS[name](stores[who])
            if number:  # the first one opens files
                took.setdefault((name, who), []).append((time.process_time() - start) * 1000)
    return took


async def main(rounds: int, folder: Path) -> int:
    """Fill both, measure and print; return how many bars are missed."""
    theirs = SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{folder / 'theirs.db'}")
    stores = {"llamaindex": theirs, "memdb": MemdbChatStore(folder / "memdb.db", user="ann")}
    for one in stores.values():
        await one.add_messages(KEY, [message(number) for number in range(MESSAGES)])
    seen = [await one.get_messages(KEY, limit=PAGE, offset=7) for one in stores.values()]
    assert [one.content for one in seen[0]] == [one.content for one in seen[1]]
    took = await measure(stores, rounds)
    missed = 0
    for name in CALLS:
        own, other = (median(took[name, who]) for who in ("memdb", "llamaindex"))
        is_held = not name.startswith("all")
        missed += is_held and own > BAR * other
        bar = f"  bar {BAR:g}" if is_held else ""
        print(f"{name:28}{own:8.2f} ms  {other:8.2f} ms  {own / other:5.2f} x{bar}")
    print(units.line())
    return missed


if __name__ == "__main__":
    count = int(sys.argv[1]) if sys.argv[1:] else 60
    with tempfile.TemporaryDirectory() as place:
        sys.exit(asyncio.run(main(count, Path(place))))
