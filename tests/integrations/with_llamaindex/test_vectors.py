"""Vector store: nodes with their vectors, filters, and an index on top."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from at_once import cancel_at_each_await
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import (
    IndexNode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

import memdb
from memdb.integrations.llamaindex import MemdbVectorStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EAST, NORTH, WEST, NEAR = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.1]


def node(name: str, vector: list[float], document: str = "d1", **metadata: Any) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(
        id_=name, text=f"It is {name}.", embedding=vector, metadata=metadata, relationships=source
    )


NODES = [
    node("east", EAST, n=0, kind="sun", tags=["a", "b"]),
    node("near", NEAR, n=1, kind="sun", tags=["b"]),
    node("north", NORTH, "d2", n=2, kind="ice", tags=[]),
    node("west", WEST, "d2", n=3.5),
]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "agent.db", durability="process") as opened:
        yield opened


@pytest.fixture
def store(db: memdb.MemDB) -> MemdbVectorStore:
    made = MemdbVectorStore(db, user="ann")
    assert made.add(NODES) == ["east", "near", "north", "west"]
    return made


def ask(store: Any, vector: list[float] = EAST, k: int = 9, **more: Any) -> list[str]:
    query = VectorStoreQuery(query_embedding=vector, similarity_top_k=k, **more)
    return list(store.query(query).ids or [])


def where(*conditions: tuple[str, str, Any], condition: str = "and") -> MetadataFilters:
    return MetadataFilters(
        filters=[
            MetadataFilter(key=key, operator=FilterOperator(operator), value=value)
            for key, operator, value in conditions
        ],
        condition=FilterCondition(condition),
    )


def test_nodes_come_back_equal_with_their_cosine(store: MemdbVectorStore) -> None:
    """Nearest first; the embedding itself is not given back."""
    found = store.query(VectorStoreQuery(query_embedding=EAST, similarity_top_k=3))
    assert found.ids == ["east", "near", "north"]
    assert [round(one, 2) for one in found.similarities or []] == [1.0, 1.0, 0.0]
    expected = [one.model_copy(update={"embedding": None}) for one in NODES[:3]]
    assert found.nodes == expected
    assert found.nodes[0].ref_doc_id == "d1"
    assert store.get_nodes(["near", "none", "a\0b", ""]) == [expected[1]]
    assert ask(store, [1.0, 0.0, 0.0]) == []
    special = IndexNode(id_="i", text="x", index_id="9", embedding=EAST, metadata={"m": {"d": [1]}})
    document = Document(text="whole", id_="doc", embedding=WEST, metadata={"page": 3})
    store.add([special, document])
    (index, whole) = store.get_nodes(["i", "doc"])
    assert isinstance(index, IndexNode)
    assert (index.index_id, index.metadata) == ("9", {"m": {"d": [1]}})
    assert (whole.get_content(), whole.metadata) == ("whole", {"page": 3})


FILTERS = [
    where(("kind", "==", "sun")),
    where(("n", ">", 0), ("n", "<=", 2)),
    where(("n", ">=", 1), ("kind", "==", "ice")),
    where(("n", "in", [0, 2])),
    where(("kind", "!=", "sun")),
    where(("kind", "nin", ["sun", "moon"])),
    where(("tags", "contains", "b")),
    where(("tags", "any", ["a", "z"])),
    where(("tags", "all", ["a", "b"])),
    where(("tags", "is_empty", None)),
    where(("kind", "text_match", "u")),
    where(("kind", "text_match_insensitive", "SUN")),
    where(("kind", "==", "ice"), ("n", "==", 0), condition="or"),
    where(("kind", "==", "sun"), condition="not"),
    where(("ref_doc_id", "==", "d2")),
    where(("n", "<", 3), ("n", "<", 1)),
    where(("kind", "==", None)),
    MetadataFilters(filters=[]),
]


@pytest.mark.parametrize("filters", FILTERS, ids=range(len(FILTERS)))
def test_filters_mean_what_they_mean_to_llamaindex(
    store: MemdbVectorStore, filters: MetadataFilters
) -> None:
    """The same nodes in the same order as of its own in-memory store."""
    reference = SimpleVectorStore()
    reference.add(NODES)
    expected = ask(reference, filters=filters)
    assert ask(store, filters=filters) == expected
    assert ask(store, filters=filters, k=1) == expected[:1]
    assert sorted(one.node_id for one in store.get_nodes(filters=filters)) == sorted(expected)
    both = ask(store, filters=filters, node_ids=["east", "west"])
    assert both == ask(reference, filters=filters, node_ids=["east", "west"])
    store.delete_nodes(filters=filters)
    assert ask(store) == [one for one in ask(reference) if one not in expected]


def test_modes(store: MemdbVectorStore) -> None:
    """MMR prefers what differs; what is not supported says so."""
    mmr = VectorStoreQueryMode.MMR
    assert ask(store, k=2, mode=mmr, mmr_threshold=1.0) == ["east", "near"]
    assert ask(store, k=2, mode=mmr, mmr_threshold=0.1) == ["east", "west"]
    assert ask(MemdbVectorStore(store.client, user="bob"), mode=mmr) == []
    for mode in VectorStoreQueryMode:
        if mode not in (mmr, VectorStoreQueryMode.DEFAULT):
            with pytest.raises(ValueError, match="use default or mmr"):
                ask(store, mode=mode)
    with pytest.raises(ValueError, match="query_embedding"):
        store.query(VectorStoreQuery(query_str="east"))
    assert ask(store, doc_ids=["d2"]) == ["north", "west"]
    assert ask(store, node_ids=["west", "none"]) == ["west"]
    assert len(ask(store, node_ids=[], doc_ids=[])) == 4


def test_delete_takes_the_nodes_of_a_document(store: MemdbVectorStore) -> None:
    """An unknown one is passed over; an id that exists is replaced, with its vector."""
    store.delete("none")
    store.delete("d2")
    assert ask(store) == ["east", "near"]
    store.add([node("east", WEST, "d3")])
    assert ask(store) == ["near", "east"]
    store.delete_nodes(["near", "none"])
    assert ask(store) == ["east"]
    below = MemdbVectorStore(store.client, user="ann", namespace=["llamaindex", "nodes", "below"])
    below.add([node("below", EAST)])
    assert ask(store) == ["east"]
    store.clear()
    assert ask(store) == []
    assert ask(below) == ["below"]


def test_an_index_on_top(db: memdb.MemDB) -> None:
    """Documents in, answers out; another process builds the index from the store."""
    store = MemdbVectorStore(db)
    index = VectorStoreIndex.from_documents(
        [Document(text="Oslo has a tram.", id_="oslo"), Document(text="Bergen has rain.", id_="b")],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=MockEmbedding(embed_dim=8),
    )
    again = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=8))
    found = again.as_retriever(similarity_top_k=5).retrieve("tram")
    assert {one.get_content() for one in found} == {"Oslo has a tram.", "Bergen has rain."}
    assert db.scope("default").recall("tram", kinds=["item"])[0].text == "Oslo has a tram."
    index.delete_ref_doc("oslo")
    left = asyncio.run(again.as_retriever(similarity_top_k=5).aretrieve("tram"))
    assert [one.get_content() for one in left] == ["Bergen has rain."]


def test_bad_input_is_refused_whole(store: MemdbVectorStore) -> None:
    """No embedding, ids and metadata that cannot be: nothing of the list is written."""
    for bad in (
        TextNode(id_="x", text="no embedding"),
        node("", EAST),
        node("a\0b", EAST),
        node("x" * 10_000, EAST),
        node("x", [float("nan"), 1.0]),
        node("x", []),
        node("x", EAST, o=object()),
    ):
        with pytest.raises(ValueError):
            store.add([node("first", EAST), bad])
    assert store.get_nodes(["first", "x"]) == []
    store.add([node("x", EAST, note="a\0b")])  # a NUL is refused in names alone
    assert [one.metadata for one in store.get_nodes(["x"])] == [{"note": "a\0b"}]
    store.delete_nodes(["x"])
    for literal in ("../x", "a%", "_", "*", "[a]", "A", "á"):
        store.add([node(literal, NORTH, literal)])
        store.delete(literal)
    assert len(ask(store)) == 4


@pytest.mark.asyncio
async def test_awaited_calls_and_cancelled_ones(db: memdb.MemDB) -> None:
    store = MemdbVectorStore(db)

    async def begin() -> None:
        await store.async_add(NODES)
        await store.adelete_nodes(filters=where(("n", ">=", 0)))

    async def check() -> None:
        found = await store.aquery(VectorStoreQuery(query_embedding=EAST, similarity_top_k=9))
        assert len(found.ids or []) in (0, 4)
        assert len(await store.aget_nodes()) in (0, 4)

    assert await cancel_at_each_await(begin, check) > 0
    await store.async_add(NODES)
    await store.adelete("d1")
    assert len(await store.aget_nodes()) == 2
    await store.aclear()
    assert await store.aget_nodes() == []


def test_a_closed_file_says_so(tmp_path: Path) -> None:
    store = MemdbVectorStore(tmp_path / "agent.db")
    store.add(NODES)
    store.close()
    with pytest.raises(memdb.Closed):
        ask(store)
    with pytest.raises(memdb.Closed):
        asyncio.run(store.aclear())
