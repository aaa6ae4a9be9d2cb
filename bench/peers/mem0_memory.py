"""mem0 without inference: messages as they are, its own Qdrant in a folder, no model asked."""

import os
import tempfile

os.environ |= {
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "unused",
    "MEM0_DIR": tempfile.mkdtemp(prefix="mem0-"),
}

import wire
from mem0 import Memory


class Embedder:
    """What mem0 asks of an embedding model."""

    def __init__(self) -> None:
        self.vector = wire.load_embedder()

    def embed(self, text: str, *_: object, **__: object) -> list[float]:
        return self.vector(text)

    def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
        return [self.vector(text) for text in texts]


class Peer:
    def __init__(self) -> None:
        folder = os.environ["MEM0_DIR"]
        self.memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": f"{folder}/qdrant",
                        "embedding_model_dims": wire.DIM,
                        "on_disk": True,
                    },
                },
                "history_db_path": f"{folder}/history.db",
            }
        )
        self.memory.embedding_model = Embedder()
        self.ids = {}

    def add(self, scope: str, items: list[dict]) -> None:
        for item in items:
            message = {"role": item["role"], "content": wire.said(item)}
            stored = self.memory.add([message], user_id=scope, infer=False)["results"]
            self.ids |= {one["id"]: item["id"] for one in stored}

    def search(self, scope: str, query: str, limit: int) -> list[str]:
        found = self.memory.search(query, top_k=limit, filters={"user_id": scope}, threshold=0.0)
        return [self.ids[one["id"]] for one in found["results"]]


wire.serve(Peer())
