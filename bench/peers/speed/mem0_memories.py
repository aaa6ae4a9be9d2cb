"""mem0 without inference, its own Qdrant in a folder; vectors are given, no model is asked."""

import os
import sys
import time

import driver
from mem0_embedder import Embedder

os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "unused", "MEM0_DIR": sys.argv[1]}
STARTED = time.perf_counter()
from mem0 import Memory


class Peer:
    def __init__(self, folder: str) -> None:
        config = {"path": f"{folder}/qdrant", "embedding_model_dims": driver.DIM, "on_disk": True}
        self.memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": config},
                "history_db_path": f"{folder}/history.db",
            }
        )
        self.memory.embedding_model = self.embedder = Embedder()

    def put(self, row: dict) -> None:
        self.embedder.vector = row["vector"]
        message = {"role": "user", "content": row["text"]}
        self.memory.add([message], user_id=row["user"], infer=False)

    def search(self, asked: dict) -> None:
        self.embedder.vector = asked["vector"]
        self.memory.search(asked["text"], top_k=10, filters={"user_id": asked["user"]})


driver.serve(Peer, "mem0ai", STARTED)
