"""LangGraph's PostgresStore with its vector index (pgvector); vectors are given, nothing is computed."""

import sys
import time

import driver

STARTED = time.perf_counter()
import psycopg
from langgraph.store.postgres import PostgresStore
from psycopg.rows import dict_row


class Peer:
    def __init__(self, _folder: str) -> None:
        self.vector: list[float] = []
        connection = psycopg.connect(
            sys.argv[2], autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        index = {"dims": driver.DIM, "embed": self._embed, "fields": ["text"]}
        self.store = PostgresStore(connection, index=index)
        self.store.setup()

    def _embed(self, texts: list[str]) -> list[list[float]]:
        return [self.vector for _ in texts]

    def put(self, row: dict) -> None:
        self.vector = row["vector"]
        self.store.put((row["user"],), row["id"], {"text": row["text"]})

    def search(self, asked: dict) -> None:
        self.vector = asked["vector"]
        found = self.store.search((asked["user"],), query=asked["text"], limit=10)
        assert found


driver.serve(Peer, "langgraph-checkpoint-postgres", STARTED)
