"""
Anthropic's memory tool in a memdb file: two agents, one memory; no key, no network.

    python examples/anthropic_memory.py [FILE]
"""

import sys
import tempfile
from pathlib import Path

import memdb
from memdb.integrations.anthropic import MemdbMemoryTool

FIRST = {"command": "create", "path": "/memories/trip.md", "file_text": "Oslo\nFerry at noon.\n"}
SECOND = {
    "command": "str_replace",
    "path": "/memories/trip.md",
    "old_str": "at noon",
    "new_str": "at 8",
}


def main(path: str) -> None:
    """Do what a tool runner does with the commands of two models, and ask memdb."""
    with MemdbMemoryTool(path, user="ann") as one, MemdbMemoryTool(path, user="ann") as two:
        print(one.call(FIRST))
        print(two.call(SECOND))
        print(one.call({"command": "view", "path": "/memories"}))
    with memdb.open(path) as db:
        print(db.scope("ann").items.recall("when is the ferry?")[0].text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agent.db"))
