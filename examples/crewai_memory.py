"""
The memory of CrewAI in a memdb file, with an embedder that needs no key and no network.

    python examples/crewai_memory.py [FILE]
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
from crewai.memory.unified_memory import Memory

from memdb.integrations.crewai import MemdbStorage


def embed(texts: list[str]) -> list[list[float]]:
    """Return how often each letter is in a text."""
    return [[1.0 + text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]


with tempfile.TemporaryDirectory() as folder:
    path = sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agent.db")
    with MemdbStorage(path, user="ann") as storage:
        memory = Memory(storage=storage, embedder=embed)
        told = {"scope": "/trip", "categories": ["travel"], "importance": 0.5}
        memory.remember("We fly to Oslo on 3 May.", **told)
        memory.remember("The tent leaks.", **told)
        memory.drain_writes()
        found = memory.recall("fly to Oslo", scope="/trip", limit=1, depth="shallow")
        print(found[0].record.content, memory.list_scopes())
