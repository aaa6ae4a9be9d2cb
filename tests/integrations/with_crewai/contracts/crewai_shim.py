"""Puts memdb in the place of LanceDB in the tests of CrewAI: a plugin for them."""

import os
from pathlib import Path

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
import crewai.memory.storage.lancedb_storage

from memdb.integrations.crewai import MemdbStorage


class LanceDBStorage(MemdbStorage):
    """Takes the arguments of CrewAI's class."""

    def __init__(self, path=":memory:", table_name="memories", vector_dim=None, compact_every=0):
        """Keep all in a file of the folder *path*."""
        if str(path) != ":memory:":
            Path(path).mkdir(parents=True, exist_ok=True)
            path = str(Path(path) / "memory.db")
        super().__init__(path, app=table_name)


def pytest_configure(config):
    """Replace the class before a test module imports it."""
    crewai.memory.storage.lancedb_storage.LanceDBStorage = LanceDBStorage
