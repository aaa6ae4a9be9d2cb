"""engrava's SqliteEngravaCore: one store per user, since it has no tenants."""

import asyncio
import time

import driver

STARTED = time.perf_counter()
import aiosqlite
from engrava import SqliteEngravaCore
from engrava.embeddings.callback import CallbackProvider


class Peer:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.stores: dict[str, tuple[SqliteEngravaCore, aiosqlite.Connection]] = {}
        self.vector: list[float] = []

    async def _store(self, user: str) -> SqliteEngravaCore:
        if user not in self.stores:
            connection = await aiosqlite.connect(f"{self.folder}/{user}.db")
            connection.row_factory = aiosqlite.Row
            provider = CallbackProvider(lambda _: self.vector, driver.DIM, "given")
            store = SqliteEngravaCore(connection, embedding_provider=provider, auto_embed=True)
            await store.ensure_schema()
            self.stores[user] = store, connection
        return self.stores[user][0]

    def put(self, row: dict) -> None:
        async def remember() -> None:
            await (await self._store(row["user"])).remember(row["text"])

        self.vector = row["vector"]
        self.loop.run_until_complete(remember())

    def search(self, asked: dict) -> None:
        async def recall() -> None:
            await (await self._store(asked["user"])).recall(asked["text"], top_k=10)

        self.vector = asked["vector"]
        self.loop.run_until_complete(recall())

    def close(self) -> None:
        async def close() -> None:
            for _, connection in self.stores.values():
                await connection.close()

        self.loop.run_until_complete(close())


driver.serve(Peer, "engrava", STARTED)
