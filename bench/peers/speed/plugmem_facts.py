"""plugmem: one database, a user's facts found by a tag; vectors are given, no provider is asked."""

import time

import driver

STARTED = time.perf_counter()
import plugmem


class Peer:
    def __init__(self, folder: str) -> None:
        self.db = plugmem.Plugmem.open(f"{folder}/agent.plugmem", dim=driver.DIM)

    def put(self, row: dict) -> None:
        self.db.remember(row["text"], tags=[row["user"]], vector=row["vector"])

    def search(self, asked: dict) -> None:
        self.db.recall(asked["text"], tags=[asked["user"]], k=10, vector=asked["vector"])

    def close(self) -> None:
        self.db.close()


driver.serve(Peer, "plugmem", STARTED)
