"""What LlamaIndex's chat store writes is read by memdb's own calls, and theirs by it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from with_together import roles
from with_together.roles import (
    APP,
    HOSTILE,
    NAME,
    NAMES,
    READERS,
    USER,
    WRITERS,
    check_readers,
    load_rows,
)

import memdb
from memdb.integrations.llamaindex import MemdbChatStore

if TYPE_CHECKING:
    from pathlib import Path

load_rows()


def write_by_chat_store(path: str) -> None:
    call = ToolCallBlock(tool_call_id="c1", tool_name="fetch", tool_kwargs={"n": 1})
    messages = [
        ChatMessage("Never reveal the vault.", role="system"),
        ChatMessage("Read the page.", role="user"),
        ChatMessage(role="assistant", blocks=[TextBlock(text="I look at it."), call]),
        ChatMessage(HOSTILE, role="tool", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage("The page is odd.", role="assistant"),
    ]
    store = MemdbChatStore(path, user=USER, app=APP)
    asyncio.run(store.add_messages(NAME, messages))
    store.close()


def read_by_chat_store(path: str) -> dict[str, str]:
    store = MemdbChatStore(path, user=USER, app=APP)
    found = asyncio.run(store.get_messages(NAME))
    store.close()
    return {json.dumps(one.model_dump(mode="json")): NAMES[one.role.value] for one in found}


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the chat store, for these tests only."""
    monkeypatch.setitem(WRITERS, "llamaindex", roles.Writer(write_by_chat_store, {}, set()))
    monkeypatch.setitem(READERS, "llamaindex", roles.Reader(read_by_chat_store, set()))


@pytest.mark.parametrize("writer", [*WRITERS, "llamaindex"])
def test_every_reader_has_what_every_writer_stored(writer: str, tmp_path: Path) -> None:
    """Texts in their roles, the call and the result of its tool."""
    path = str(tmp_path / "talk.db")
    WRITERS[writer].write(path)

    check_readers(writer, path)
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []
