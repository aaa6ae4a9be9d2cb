"""engrava's SqliteEngravaCore with its default weights: one store per scope, it has no tenants."""

import asyncio

import aiosqlite
import wire
from engrava import SqliteEngravaCore
from engrava.embeddings.callback import CallbackProvider


class Peer:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.embed = wire.load_embedder()
        self.stores = {}
        self.ids = {}

    def add(self, scope: str, items: list[dict]) -> None:
        self.loop.run_until_complete(self._add(scope, items))

    def search(self, scope: str, query: str, limit: int) -> list[str]:
        store = self.stores[scope]
        found = self.loop.run_until_complete(store.recall(query, top_k=limit))
        return [self.ids[thought] for thought, _ in found.results]

    async def _add(self, scope: str, items: list[dict]) -> None:
        connection = await aiosqlite.connect(":memory:")
        connection.row_factory = aiosqlite.Row
        provider = CallbackProvider(self.embed, wire.DIM, "static-en-1")
        store = SqliteEngravaCore(connection, embedding_provider=provider, auto_embed=True)
        await store.ensure_schema()
        for item in items:
            thought = await store.remember(wire.said(item))
            self.ids[thought.thought_id] = item["id"]
        self.stores[scope] = store


wire.serve(Peer())
