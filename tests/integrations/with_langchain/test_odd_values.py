"""Odd values and ids through each class: kept, not kept, or the error of its docs; never half."""

# ruff: noqa: D102 (methods of LangChain)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.stores import InvalidKeyException
from odd_values import IDS, VALUES, assert_kept_or_refused, looks

import memdb
from memdb.integrations.langchain import (
    MemdbByteStore,
    MemdbCache,
    MemdbChatMessageHistory,
    MemdbVectorStore,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Fake(DeterministicFakeEmbedding):
    """Gives every text a vector, also one that has no UTF-8 form."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "agent.db", durability="process") as opened:
        yield opened


@pytest.fixture
def store(db: memdb.MemDB) -> MemdbVectorStore:
    return MemdbVectorStore(Fake(size=2), db)


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_answer_never_fails_the_call_of_a_model(db: memdb.MemDB, name: str) -> None:
    cache, own = MemdbCache(db), InMemoryCache()
    value = VALUES[name]()
    answers = [
        [Generation(text="x", generation_info={"v": value})],
        [ChatGeneration(message=AIMessage("x", response_metadata={"v": value}))],
    ]
    if isinstance(value, str):
        answers.append([Generation(text=value)])
        for one in (cache, own):
            model = FakeListChatModel(responses=[value, "another"], cache=one)
            assert [model.invoke("q").content for _ in range(2)] == [value, value]
    for place, answer in enumerate(answers):
        cache.update("p", str(place), answer)
        found = cache.lookup("p", str(place))
        is_json = not name.startswith(("an object", "a set", "bytes", "a time", "a complex"))
        assert found is not None or not is_json or "levels" in name or name == "itself"
        if found is not None:
            assert looks([one.model_dump() for one in found]) == looks(
                [one.model_dump() for one in answer]
            )


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_in_a_message_comes_back_or_is_refused(db: memdb.MemDB, name: str) -> None:
    history = MemdbChatMessageHistory("trip", db)
    kept = assert_kept_or_refused(
        name,
        lambda value: history.add_message(HumanMessage("Hi.", additional_kwargs={"v": value})),
        lambda: history.messages,
        memdb.InvalidInput,
        restored=lambda found: found[-1].additional_kwargs["v"],
    )
    assert kept or "levels" in name or name in ("itself", "a complex number", "an object", "bytes",
                                                "an object in a list", "a set", "a time")  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_of_a_document_comes_back_or_is_refused(
    store: MemdbVectorStore, name: str
) -> None:
    assert_kept_or_refused(
        name,
        lambda value: store.add_texts(["text"], [{"v": value}], ids=["a"]),
        lambda: [one.metadata for one in store.get_by_ids(["a"])],
        memdb.InvalidInput,
        restored=lambda found: found[0]["v"],
    )


@pytest.mark.parametrize("name", IDS)
def test_an_odd_id_is_passed_over(db: memdb.MemDB, store: MemdbVectorStore, name: str) -> None:
    values = MemdbByteStore(db)
    values.mset([("k", b"1"), ("l", b"2")])
    store.add_texts(["x", "y"], ids=["x", "y"])
    odd: Any = IDS[name]
    assert values.mget([odd, "k"]) == [None, b"1"]
    assert [one.id for one in store.get_by_ids([odd, "x"])] == ["x"]
    values.mdelete([odd, "l"])
    store.delete([odd, "y"])
    assert values.mget(["k", "l"]) == [b"1", None]
    assert [one.id for one in store.get_by_ids(["x", "y"])] == ["x"]
    with pytest.raises(InvalidKeyException):
        values.mset([(odd, b"3")])
    if odd is not None:
        with pytest.raises(memdb.InvalidInput):
            store.add_documents([Document("z")], ids=[odd])


@pytest.mark.parametrize("given", ["xy", b"xy", 5])
def test_one_text_is_no_list_of_ids(db: memdb.MemDB, store: MemdbVectorStore, given: Any) -> None:
    values = MemdbByteStore(db)
    values.mset([("x", b"1")])
    store.add_texts(["x"], ids=["x"])
    for call in (values.mget, values.mdelete, store.delete, store.get_by_ids):
        with pytest.raises(memdb.InvalidInput, match="give a list"):
            call(given)
    assert values.mget(["x"]) == [b"1"]
    assert len(store.get_by_ids(["x"])) == 1


def test_as_many_ids_as_texts_are_given(store: MemdbVectorStore) -> None:
    for ids, metadatas in ((["a"], None), (["a", "b", "c"], None), (["a", "b"], [{}])):
        with pytest.raises(memdb.InvalidInput, match="were given for 2"):
            store.add_texts(["x", "y"], metadatas, ids=ids)
    assert store.get_by_ids(["a", "b", "c"]) == []
    made = store.add_texts(iter(["x", "y"]), ids=[])
    assert len(store.get_by_ids(made)) == 2


@pytest.mark.parametrize("value", [b"1", "text", 5, None, [5], [{"type": "X"}], {"$json": "["}])
def test_what_others_put_there_is_no_answer_and_no_bytes(db: memdb.MemDB, value: Any) -> None:
    items = db.scope("default").items
    cache, values = MemdbCache(db), MemdbByteStore(db)
    cache.update("p", "l", [Generation(text="x")])
    (kept,) = items.list(("langchain", "cache"))
    items.put(("langchain", "cache"), kept.key, value)
    items.put(("langchain", "bytes"), "k", value)
    assert cache.lookup("p", "l") is None
    assert values.mget(["k"]) == [value if isinstance(value, bytes) else None]


def test_a_closed_file_answers_closed(tmp_path: Path) -> None:
    path = tmp_path / "closed.db"
    values, cache = MemdbByteStore(path), MemdbCache(path)
    store, history = MemdbVectorStore(Fake(size=2), path), MemdbChatMessageHistory("s", path)
    for one in (values, cache, store, history):
        one.close()
    for call in (
        lambda: values.mget(["\0"]),
        lambda: values.mget([]),
        lambda: values.mset([]),
        lambda: values.mdelete([]),
        lambda: [*values.yield_keys()],
        lambda: cache.lookup("p", "l"),
        lambda: cache.clear(),
        lambda: cache.update("p", "l", [Generation(text="\0")]),
        lambda: store.get_by_ids([]),
        lambda: store.delete([]),
        lambda: store.add_texts([]),
        lambda: history.messages,
        lambda: history.add_messages([]),
    ):
        with pytest.raises(memdb.Closed):
            call()
