"""Collections of `llm`: one per user; each search compares all of its vectors."""

import time

import driver

STARTED = time.perf_counter()
import llm
import sqlite_utils


class Given(llm.EmbeddingModel):
    """Gives the vector of the row that is being stored."""

    model_id = "given"
    vector: list[float]

    def embed_batch(self, items):
        return [self.vector for _ in items]


class Peer:
    def __init__(self, folder: str) -> None:
        self.db = sqlite_utils.Database(f"{folder}/embeddings.db")
        self.model = Given()
        self.collections: dict[str, llm.Collection] = {}

    def _collection(self, user: str) -> llm.Collection:
        if user not in self.collections:
            self.collections[user] = llm.Collection(user, self.db, model=self.model)
        return self.collections[user]

    def put(self, row: dict) -> None:
        self.model.vector = row["vector"]
        self._collection(row["user"]).embed(row["id"], row["text"], store=True)

    def search(self, asked: dict) -> None:
        self._collection(asked["user"]).similar_by_vector(asked["vector"], 10)


driver.serve(Peer, "llm", STARTED)
