"""Both classes at once in eight processes: nothing is lost, nothing fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from at_once import OPENERS, PROCESSES, WRITES, run_at_once

import memdb

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WRITE = """
import asyncio, sys
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode
from memdb.integrations.llamaindex import MemdbChatStore, MemdbVectorStore
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
async def main():
    chat = MemdbChatStore(path)
    await chat.get_keys()
    nodes = MemdbVectorStore(path)
    for n in range(writes):
        name = f"{number}-{n}"
        if n % 2:
            await nodes.async_add([TextNode(id_=name, text=name, embedding=[1.0, float(n)])])
        else:
            await chat.add_messages("shared", [ChatMessage(name), ChatMessage(name)])
            if n % 10 == 0:
                await chat.archive_oldest_messages("shared", 2)
    chat.close()
    nodes.close()
asyncio.run(main())
"""


def test_eight_processes_write(tmp_path: Path) -> None:
    """150 writes each: messages in pairs, some archived, and nodes."""
    path = tmp_path / "agent.db"
    run_at_once(WRITE, path)
    with memdb.open(path) as db:
        scope = db.scope("default")
        chat = scope.session("shared")
        texts = [one.text for one in chat.messages()]
        assert texts[::2] == texts[1::2]
        written = {*texts, *scope.items.keys(("llamaindex", "nodes"))}
        assert written == {f"{p}-{n}" for p in range(PROCESSES) for n in range(WRITES)}
        head = chat.head()
        assert head is not None
        assert head.metadata == {"llamaindex_archived": [[1, 2 * PROCESSES * WRITES // 10]]}
        assert db.file.check() == []


def test_twelve_open_at_once(tmp_path: Path) -> None:
    """A fresh file."""
    run_at_once(WRITE, tmp_path / "agent.db", processes=OPENERS, writes=0)
