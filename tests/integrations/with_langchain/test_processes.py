"""Every class at once in eight processes: nothing is lost, nothing fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from at_once import OPENERS, PROCESSES, WRITES, run_at_once

import memdb
from memdb.integrations.langchain import MemdbByteStore

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WRITE = """
import sys
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import Generation
from memdb.integrations.langchain import (
    MemdbByteStore, MemdbCache, MemdbChatMessageHistory, MemdbRetriever, MemdbVectorStore,
)
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
history = MemdbChatMessageHistory("shared", path)
history.messages
if writes:
    store = MemdbVectorStore(DeterministicFakeEmbedding(size=8), history._db)
    values, cache = MemdbByteStore(history._db), MemdbCache(history._db)
for n in range(writes):
    name = f"{number}-{n}"
    if n % 5 < 2:
        history.add_messages([HumanMessage(name), AIMessage("Noted.")])
    elif n % 5 == 2:
        store.add_texts([name], ids=[name])
    elif n % 5 == 3:
        values.mset([(name, b"x"), ("last", name.encode())])
    else:
        cache.update(name, "llm", [Generation(text=name)])
history.close()
"""


def test_eight_processes_write(tmp_path: Path) -> None:
    """150 writes each: messages in pairs, documents, bytes and answers."""
    path = tmp_path / "agent.db"
    run_at_once(WRITE, path)
    names = {f"{p}-{n}" for p in range(PROCESSES) for n in range(WRITES)}
    with memdb.open(path) as db:
        scope = db.scope("default")
        messages = [*scope.session("shared").messages()]
        assert {one.role for one in messages[::2]} == {"user"}
        assert {one.text for one in messages[1::2]} == {"Noted."}
        written = {one.text for one in messages[::2]}
        written |= {*scope.items.keys(("langchain", "documents"))}
        written |= {*MemdbByteStore(db).yield_keys()} - {"last"}
        answers = scope.items.list(("langchain", "cache"), limit=10_000)
        written |= {item.value[0]["text"] for item in answers}
        assert written == names
        assert len(messages) == 2 * PROCESSES * WRITES * 2 // 5
        assert db.file.check() == []


def test_twelve_open_at_once(tmp_path: Path) -> None:
    """A fresh file."""
    run_at_once(WRITE, tmp_path / "agent.db", processes=OPENERS, writes=0)
