"""LangChain's own standard tests (langchain-tests) of every class that has some."""

# ruff: noqa: D102 (what the methods of a suite give is said there)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests import (
    AsyncCacheTestSuite,
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    RetrieversIntegrationTests,
    SyncCacheTestSuite,
    VectorStoreIntegrationTests,
)

import memdb
from memdb.integrations.langchain import (
    MemdbByteStore,
    MemdbCache,
    MemdbRetriever,
    MemdbVectorStore,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.filterwarnings("ignore:The test .* is marked with '@pytest.mark.asyncio'"),
]
BYTES = (b"foo", b"\x00\xff", b"")


@pytest.fixture(params=["memory", "file"])
def db(request: Any, tmp_path: Path) -> Iterator[memdb.MemDB]:
    """Return an empty file, or one in memory."""
    path = ":memory:" if request.param == "memory" else tmp_path / "agent.db"
    with memdb.open(path, durability="process") as opened:
        yield opened


class TestVectorStore(VectorStoreIntegrationTests):
    """Documents: add, get, replace, delete, search."""

    @pytest.fixture
    def vectorstore(self, db: memdb.MemDB) -> Any:
        with MemdbVectorStore(DeterministicFakeEmbedding(size=6), db) as store:
            yield store


class TestByteStore(BaseStoreSyncTests[bytes]):
    """Bytes under keys."""

    @pytest.fixture
    def kv_store(self, db: memdb.MemDB) -> Any:
        with MemdbByteStore(db) as store:
            yield store

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return BYTES


class TestByteStoreAsync(BaseStoreAsyncTests[bytes]):
    """Bytes under keys, awaited."""

    @pytest.fixture
    def kv_store(self, db: memdb.MemDB) -> Any:
        with MemdbByteStore(db) as store:
            yield store

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return BYTES


class TestCache(SyncCacheTestSuite):
    """What models answered."""

    @pytest.fixture
    def cache(self, db: memdb.MemDB) -> Any:
        with MemdbCache(db) as cache:
            yield cache


class TestCacheAsync(AsyncCacheTestSuite):
    """What models answered, awaited."""

    @pytest.fixture
    def cache(self, db: memdb.MemDB) -> Any:
        with MemdbCache(db) as cache:
            yield cache


class TestRetriever(RetrieversIntegrationTests):
    """Recall."""

    @pytest.fixture(autouse=True)
    def fill(self, db: memdb.MemDB) -> None:
        self.db = db
        chat = db.scope("default").session("trip")
        for place in ("Oslo", "Bergen", "Tromsø"):
            chat.append("user", f"We fly to {place} in May.")
            db.scope("default").remember(f"Ann lived in {place}.")

    @property
    def retriever_constructor(self) -> type[MemdbRetriever]:
        return MemdbRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"source": self.db, "min_score": 0.0}

    @property
    def retriever_query_example(self) -> str:
        return "Where do we fly, to Oslo or Bergen?"
