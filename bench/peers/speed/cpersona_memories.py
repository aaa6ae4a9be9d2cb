"""CPersona's handlers in this process, an agent per user; vectors are given in its server's place."""

import asyncio
import os
import sys
import time

import driver

os.environ |= {
    "CPERSONA_DB_PATH": f"{sys.argv[1]}/cpersona.db",
    "CPERSONA_EMBEDDING_MODE": "http",
    "CPERSONA_UPDATE_CHECK": "false",
}
STARTED = time.perf_counter()
from cpersona import memory_handlers, vector
from cpersona._vendored_mcp_common.embedding_client import EmbeddingClient
from cpersona.database import close_db, init_db


class Given(EmbeddingClient):
    """Answers with the vector of the row or the question in hand."""

    vector: list[float]

    async def _embed_via_http(self, texts: list[str]) -> list[list[float]]:
        return [self.vector for _ in texts]

    async def capabilities(self) -> None:
        return None

    async def count_tokens(self, _: list[str]) -> None:
        return None


class Peer:
    def __init__(self, _: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = Given(mode="http", http_url="http://127.0.0.1/embed")
        vector._embedding_client = self.client
        self.loop.run_until_complete(self.client.initialize())
        self.loop.run_until_complete(init_db())

    def put(self, row: dict) -> None:
        self.client.vector = row["vector"]
        message = {"id": row["id"], "content": row["text"], "source": {"type": "User", "id": "u"}}
        answer = self.loop.run_until_complete(memory_handlers.do_store(row["user"], message))
        assert answer["embedded"], answer

    def search(self, asked: dict) -> None:
        self.client.vector = asked["vector"]
        self.loop.run_until_complete(memory_handlers.do_recall(asked["user"], asked["text"], 10))

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.run_until_complete(close_db())


driver.serve(Peer, "cpersona", STARTED)
