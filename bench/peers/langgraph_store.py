"""LangGraph's SqliteStore with its vector index: one namespace per scope."""

import wire

try:  # it loads sqlite-vec, which not every build of Python's own sqlite3 allows
    import pysqlite3 as sqlite3
except ImportError:
    import sqlite3
from langgraph.store.sqlite import SqliteStore


class Peer:
    def __init__(self) -> None:
        embed = wire.load_embedder()
        self.store = SqliteStore(
            sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None),
            index={
                "dims": wire.DIM,
                "embed": lambda texts: [embed(text) for text in texts],
                "fields": ["text"],
            },
        )
        self.store.setup()

    def add(self, scope: str, items: list[dict]) -> None:
        for item in items:
            self.store.put((scope,), item["id"], {"text": wire.said(item)})

    def search(self, scope: str, query: str, limit: int) -> list[str]:
        return [item.key for item in self.store.search((scope,), query=query, limit=limit)]


wire.serve(Peer())
