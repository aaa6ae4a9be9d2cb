"""Chroma in a folder: one collection, a user is metadata that a search filters by."""

import os
import time

import driver

os.environ["ANONYMIZED_TELEMETRY"] = "False"
STARTED = time.perf_counter()
import chromadb


class Peer:
    def __init__(self, folder: str) -> None:
        client = chromadb.PersistentClient(f"{folder}/chroma")
        self.collection = client.create_collection("memory", embedding_function=None)

    def put(self, row: dict) -> None:
        self.collection.add(
            ids=[row["id"]],
            embeddings=[row["vector"]],
            documents=[row["text"]],
            metadatas=[{"user": row["user"]}],
        )

    def search(self, asked: dict) -> None:
        self.collection.query(
            query_embeddings=[asked["vector"]], n_results=10, where={"user": asked["user"]}
        )


driver.serve(Peer, "chromadb", STARTED)
