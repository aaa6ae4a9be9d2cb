"""LanceDB in a folder, without an approximate index: a user is a column that a search filters by."""

import time

import driver

STARTED = time.perf_counter()
import lancedb
import pyarrow as pa


class Peer:
    def __init__(self, folder: str) -> None:
        vector = pa.list_(pa.float32(), driver.DIM)
        fields = [("id", pa.string()), ("user", pa.string()), ("text", pa.string())]
        schema = pa.schema([*fields, ("vector", vector)])
        self.table = lancedb.connect(f"{folder}/lance").create_table("memory", schema=schema)

    def put(self, row: dict) -> None:
        self.table.add([{key: row[key] for key in ("id", "user", "text", "vector")}])

    def search(self, asked: dict) -> None:
        found = self.table.search(asked["vector"]).where(
            f"user = '{asked['user']}'", prefilter=True
        )
        found.limit(10).to_list()


driver.serve(Peer, "lancedb", STARTED)
