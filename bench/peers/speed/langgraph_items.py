"""LangGraph's SqliteStore with its vector index; vectors are given, nothing is computed."""

import time

import driver

STARTED = time.perf_counter()
try:  # it loads sqlite-vec, which not every build of Python's own sqlite3 allows
    import pysqlite3 as sqlite3
except ImportError:
    import sqlite3
from langgraph.store.sqlite import SqliteStore


class Peer:
    def __init__(self, folder: str) -> None:
        self.vector: list[float] = []
        connection = sqlite3.connect(
            f"{folder}/store.db", check_same_thread=False, isolation_level=None
        )
        index = {"dims": driver.DIM, "embed": self._embed, "fields": ["text"]}
        self.store = SqliteStore(connection, index=index)
        self.store.setup()

    def _embed(self, texts: list[str]) -> list[list[float]]:
        return [self.vector for _ in texts]

    def put(self, row: dict) -> None:
        self.vector = row["vector"]
        self.store.put((row["user"],), row["id"], {"text": row["text"]})

    def search(self, asked: dict) -> None:
        self.vector = asked["vector"]
        self.store.search((asked["user"],), query=asked["text"], limit=10)


driver.serve(Peer, "langgraph-checkpoint-sqlite", STARTED)
