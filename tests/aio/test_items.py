"""Items awaited: the same calls, and a cancelled one is whole or did not begin."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import memdb.aio
from memdb import DeleteItem, PutItem

if TYPE_CHECKING:
    from pathlib import Path


def test_items_are_awaited() -> None:
    """Every call of the namespace."""

    async def talk() -> None:
        async with memdb.aio.open(":memory:") as db:
            items = db.scope("ann").items
            stored = await items.put(("n",), "k", {"text": "red lamp"})
            assert await items.get(("n",), "k") == await items.find(("n",), "k") == stored
            assert await items.list(("n",)) == [stored]
            assert await items.namespaces() == [("n",)]
            assert await items.keys(("n",)) == ["k"]
            assert [one.item for one in await items.recall("lamp")] == [stored]
            done = await items.batch([PutItem((), "b", 1), DeleteItem(("n",), "k")])
            assert (done[0].value, done[1]) == (1, True)
            assert not await items.delete(("n",), "k")

    asyncio.run(talk())


def test_a_cancelled_batch_is_whole_or_absent(tmp_path: Path) -> None:
    """Cancelled at any moment, both items are there or neither; the next call works."""

    async def talk() -> None:
        async with memdb.aio.open(tmp_path / "agent.db", embedder=None) as db:
            items = db.scope("ann").items
            for number in range(30):
                pair = [PutItem((f"n{number}",), key, number) for key in ("a", "b")]
                task = asyncio.ensure_future(items.batch(pair))
                await asyncio.sleep(number / 20_000)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await items.put(("last",), "k", 1)
            for number in range(30):
                assert len(await items.list((f"n{number}",))) in (0, 2)

    asyncio.run(talk())
