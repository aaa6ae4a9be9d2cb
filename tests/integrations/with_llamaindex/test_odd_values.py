"""Odd values and ids in messages and nodes: they come back, are absent, or an InvalidInput."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from odd_values import IDS, VALUES, assert_kept_or_refused

import memdb
from memdb.integrations.llamaindex import MemdbChatStore, MemdbVectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "a.db", durability="process") as opened:
        yield opened


@pytest.fixture
def nodes(db: memdb.MemDB) -> MemdbVectorStore:
    made = MemdbVectorStore(db)
    made.add([node("good"), node("other")])
    return made


def node(name: str, embedding: list[float] | None = None, **fields: Any) -> TextNode:
    return TextNode(id_=name, text="text", embedding=embedding or [1.0, 0.0], **fields)


def names(nodes: MemdbVectorStore) -> list[str]:
    return sorted(one.node_id for one in nodes.get_nodes())


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_in_a_message_comes_back_or_is_refused(db: memdb.MemDB, name: str) -> None:
    store = MemdbChatStore(db)
    assert_kept_or_refused(
        name,
        lambda value: asyncio.run(store.add_messages("k", [
            ChatMessage("a"), ChatMessage("b", additional_kwargs={"v": value})])),
        lambda: asyncio.run(store.get_messages("k")),
        memdb.InvalidInput,
    )  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_of_a_node_comes_back_or_is_refused(
    nodes: MemdbVectorStore, name: str
) -> None:
    assert_kept_or_refused(
        name,
        lambda value: nodes.add([node("new"), node("odd", metadata={"v": value})]),
        lambda: {one.node_id: one.metadata for one in nodes.get_nodes()},
        memdb.InvalidInput,
    )


@pytest.mark.parametrize("name", IDS)
def test_an_odd_id_is_that_of_no_node(nodes: MemdbVectorStore, name: str) -> None:
    odd = IDS[name]
    assert [one.node_id for one in nodes.get_nodes([odd, "good"])] == ["good"]
    nodes.delete_nodes([odd, "other"])
    try:
        nodes.delete(odd)
    except memdb.InvalidInput:
        assert isinstance(odd, str)
    assert names(nodes) == ["good"]


def test_no_document_is_not_that_of_nodes_without_one(nodes: MemdbVectorStore) -> None:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
    nodes.add([node("of doc", relationships=source)])
    nothing: Any = None
    nodes.delete(nothing)
    assert names(nodes) == ["good", "of doc", "other"]
    nodes.delete("doc")
    assert names(nodes) == ["good", "other"]


@pytest.mark.parametrize("given", ["good", b"good", 5])
def test_one_text_is_no_list_of_ids(nodes: MemdbVectorStore, given: Any) -> None:
    for call in (nodes.get_nodes, nodes.delete_nodes):
        with pytest.raises(memdb.InvalidInput, match="give a list"):
            call(given)
    assert names(nodes) == ["good", "other"]


def test_a_vector_of_zeros_is_stored_and_not_found_by_it(nodes: MemdbVectorStore) -> None:
    nodes.add([node("zero", [0.0, 0.0]), node("new")])
    assert names(nodes) == ["good", "new", "other", "zero"]
    found = nodes.query(VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=9))
    assert sorted(found.ids or ()) == ["good", "new", "other"]


@pytest.mark.parametrize("value", [b"1", "text", 5, None, [], {}, {"text": "x", "metadata": {}}])
def test_what_others_put_there_is_no_node(
    db: memdb.MemDB, nodes: MemdbVectorStore, value: Any
) -> None:
    db.scope("default").items.put(("llamaindex", "nodes"), "x", value, vectors=[[1.0, 0.0]])
    assert names(nodes) == ["good", "other"]
    assert nodes.get_nodes(["x"]) == []
    found = nodes.query(VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=9))
    assert sorted(found.ids or ()) == ["good", "other"]


@pytest.mark.parametrize(
    "spans", [5, ["a"], [[1]], [["a", 1]], [None], [[1, 1.5]], [[True, 2]], {}]
)
def test_spans_that_others_changed_are_none(db: memdb.MemDB, spans: Any) -> None:
    store = MemdbChatStore(db)
    asyncio.run(store.add_message("k", ChatMessage("a")))
    db.scope("default").session("k").update(metadata={"llamaindex_archived": spans})
    assert len(asyncio.run(store.get_messages("k"))) == 1
    assert len(asyncio.run(store.archive_oldest_messages("k", 1))) == 1
    assert asyncio.run(store.get_messages("k")) == []


@pytest.mark.parametrize("number", ["x", 1.5, [1], True, -1])
def test_odd_numbers_are_refused(db: memdb.MemDB, number: Any) -> None:
    store = MemdbChatStore(db)
    asyncio.run(store.add_message("k", ChatMessage("a")))
    for options in ({"limit": number}, {"offset": number}):
        with pytest.raises(memdb.InvalidInput):
            asyncio.run(store.get_messages("k", **options))
    if number != -1:
        with pytest.raises(memdb.InvalidInput):
            asyncio.run(store.delete_oldest_messages("k", number))
    assert asyncio.run(store.count_messages("k")) == 1


def test_a_closed_file_answers_closed(tmp_path: Path) -> None:
    store, nodes = MemdbChatStore(tmp_path / "a.db"), MemdbVectorStore(tmp_path / "a.db")
    store.close()
    nodes.close()
    calls: list[Callable[[], object]] = [
        lambda: asyncio.run(store.get_messages("\0")),
        lambda: asyncio.run(store.add_messages("k", [])),
        lambda: asyncio.run(store.delete_messages("\0")),
        lambda: nodes.get_nodes([]),
        lambda: nodes.delete_nodes([]),
        lambda: nodes.add([]),
        lambda: nodes.delete("\0"),
    ]
    for call in calls:
        with pytest.raises(memdb.Closed):
            call()
