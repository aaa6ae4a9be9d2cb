"""
Transcripts of the Claude Agent SDK in a memdb file, without a key or a network.

    python examples/claude_agent_store.py [FILE]
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from claude_agent_sdk import list_sessions_from_store, project_key_for_directory

import memdb
from memdb.integrations.claude_agent import MemdbSessionStore

SESSION = "6a1f4e0a-9d0b-4d3a-8f43-0d1a5f1b7a01"
LINES = [
    {"type": "user", "message": {"role": "user", "content": "When does the ferry leave?"}},
    {"type": "assistant", "message": {"role": "assistant", "content": "At noon, from quay 7."}},
]


async def main(path: str) -> None:
    """Mirror a transcript as the SDK does, list it with the SDK, and ask memdb about it."""
    with memdb.open(path) as db:
        store = MemdbSessionStore(db, user="ann")
        project = project_key_for_directory("/home/ann/trip")
        await store.append({"project_key": project, "session_id": SESSION}, LINES)
        for info in await list_sessions_from_store(store, directory="/home/ann/trip"):
            print(info.session_id, info.summary)
        for hit in db.scope("ann", project).recall("which quay?"):
            print(hit.text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agent.db")))
