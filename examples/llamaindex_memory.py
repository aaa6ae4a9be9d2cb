"""
LlamaIndex's `Memory` and an index in a memdb file, with a model that only repeats.

    python examples/llamaindex_memory.py [FILE]
"""

import asyncio
import sys

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory

import memdb
from memdb.integrations.llamaindex import MemdbChatStore, MemdbVectorStore


async def main(path: str) -> None:
    """Talk, index a document, and recall both."""
    with memdb.open(path) as db:
        store = MemdbChatStore(db, user="ann")
        memory = Memory.from_defaults(session_id="trip", chat_store=store)
        await memory.aput(ChatMessage("We fly to Oslo on 3 May.", role="user"))
        await memory.aput(ChatMessage("Noted.", role="assistant"))
        print([str(message) for message in await memory.aget()])
        nodes = StorageContext.from_defaults(vector_store=MemdbVectorStore(db, user="ann"))
        VectorStoreIndex.from_documents(
            [Document(text="Oslo has a tram.")],
            storage_context=nodes,
            embed_model=MockEmbedding(embed_dim=8),
        )
        for kind, question in (("message", "flight to Oslo"), ("item", "tram")):
            print(db.scope("ann").recall(question, 1, kinds=[kind])[0].text)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ":memory:"))
