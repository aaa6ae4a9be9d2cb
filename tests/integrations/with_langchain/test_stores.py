"""Vector store, retriever, byte store and cache: what the standard tests do not ask."""

# ruff: noqa: D102 (methods of LangChain)

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from at_once import cancel_at_each_await
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.stores import InvalidKeyException

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

HOSTILE = ("../x", "a%", "%", "_", "*", "[a]", "a/b", "A", "á", "🙂", "a b")
IMPOSSIBLE = ("", " ", "a\0b", "a\ud800", "x" * 10_000)
PLACES = {"east": [1.0, 0.0], "north": [0.0, 1.0], "west": [-1.0, 0.0], "near east": [1.0, 0.1]}


class Compass(Embeddings):
    """Points a word's way."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [PLACES.get(text, [1.0, 1.0]) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "agent.db", durability="process") as opened:
        yield opened


@pytest.fixture
def store(db: memdb.MemDB) -> MemdbVectorStore:
    return MemdbVectorStore.from_texts(
        [*PLACES],
        Compass(),
        [{"n": number, "tags": ["t", f"t{number}"], "deep": {"x": number}} for number in range(4)],
        ids=[*PLACES],
        source=db,
        user="ann",
    )


def ids(found: list[Document]) -> list[str | None]:
    return [one.id for one in found]


def test_the_nearest_come_first_with_their_cosine(store: MemdbVectorStore) -> None:
    found = store.similarity_search_with_score("east", k=3)
    assert [(one.id, round(score, 2)) for one, score in found] == [
        ("east", 1.0),
        ("near east", 1.0),
        ("north", 0.0),
    ]
    assert found[0][0] == Document(
        "east", id="east", metadata={"n": 0, "tags": ["t", "t0"], "deep": {"x": 0}}
    )
    assert ids(store.similarity_search_by_vector([0.0, 1.0], k=1)) == ["north"]
    relevant = store.similarity_search_with_relevance_scores("east", k=4)
    assert [round(score, 2) for _, score in relevant] == [1.0, 1.0, 0.0, 0.0]
    assert store.similarity_search_by_vector([1.0, 0.0, 0.0]) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"n": 2}, ["west"]),
        ({"n": {"$gte": 2}}, ["near east", "west"]),
        ({"n": {"$in": [0, 1]}}, ["east", "north"]),
        ({"deep.x": 1}, ["north"]),
        ({"tags[*]": "t3"}, ["near east"]),
        ({"n": 0, "deep.x": 1}, []),
        ({}, ["east", "near east", "north", "west"]),
        (lambda one: one.metadata["n"] in (1, 2), ["north", "west"]),
        (lambda one: False, []),
    ],
)
def test_filters_are_dicts_or_functions(
    store: MemdbVectorStore, condition: Any, expected: list[str]
) -> None:
    assert ids(store.similarity_search("east", k=4, filter=condition)) == expected
    found = asyncio.run(store.asimilarity_search("east", k=4, filter=condition))
    assert ids(found) == expected


def test_a_function_filters_past_the_nearest(db: memdb.MemDB) -> None:
    store = MemdbVectorStore(DeterministicFakeEmbedding(size=4), db)
    store.add_texts([str(n) for n in range(300)], [{"n": n} for n in range(300)])
    found = store.similarity_search("7", k=2, filter=lambda one: one.metadata["n"] >= 298)
    assert sorted(one.page_content for one in found) == ["298", "299"]


def test_mmr_prefers_what_differs(store: MemdbVectorStore) -> None:
    assert ids(store.max_marginal_relevance_search("east", k=2, lambda_mult=1.0)) == [
        "east",
        "near east",
    ]
    differing = ["east", "west"]
    assert ids(store.max_marginal_relevance_search("east", k=2, lambda_mult=0.1)) == differing
    found = asyncio.run(store.amax_marginal_relevance_search("east", k=2, lambda_mult=0.1))
    assert ids(found) == differing
    only = store.max_marginal_relevance_search("east", k=2, filter={"n": {"$lt": 1}})
    assert ids(only) == ["east"]
    empty = MemdbVectorStore(Compass(), store._db, namespace=["other"])
    assert empty.max_marginal_relevance_search("east") == []


def test_as_retriever_takes_every_search_type(store: MemdbVectorStore) -> None:
    assert ids(store.as_retriever(search_kwargs={"k": 1}).invoke("north")) == ["north"]
    mmr = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 0.1})
    assert ids(mmr.invoke("east")) == ["east", "west"]
    threshold = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.9}
    )
    assert ids(threshold.invoke("east")) == ["east", "near east"]
    assert ids(asyncio.run(threshold.ainvoke("east"))) == ["east", "near east"]


def test_namespaces_share_nothing(store: MemdbVectorStore, db: memdb.MemDB) -> None:
    """Not one below the other either; another user has none."""
    below = MemdbVectorStore(
        Compass(), db, user="ann", namespace=["langchain", "documents", "below"]
    )
    below.add_texts(["east"], ids=["below"])
    assert ids(store.similarity_search("east", k=9)) == ["east", "near east", "north", "west"]
    assert MemdbVectorStore(Compass(), db, user="bob").similarity_search("east") == []
    assert store.delete()
    assert store.similarity_search("east") == []
    assert ids(below.similarity_search("east")) == ["below"]


def test_words_of_documents_are_recalled(store: MemdbVectorStore, db: memdb.MemDB) -> None:
    """By their texts, not by their metadata."""
    store.add_texts(["The parking code is 5521."], [{"topic": "garage"}], ids=["code"])
    hits = db.scope("ann").recall("parking code", 3, kinds=["item"])
    assert hits[0].source.key == "code"
    assert db.scope("ann").recall("garage", 3, kinds=["item"]).hits == ()


def test_ids_are_literal_and_unknown_ones_silent(db: memdb.MemDB) -> None:
    """Ids that none can have are unknown; adding under one is refused whole."""
    store = MemdbVectorStore(Compass(), db)
    assert store.add_texts([*HOSTILE], ids=[*HOSTILE]) == [*HOSTILE]
    assert ids(store.get_by_ids([*IMPOSSIBLE, *HOSTILE, "unknown"])) == [*HOSTILE]
    assert store.delete([*IMPOSSIBLE, "unknown", "a%"])
    assert ids(store.get_by_ids(HOSTILE)) == [key for key in HOSTILE if key != "a%"]
    for bad in IMPOSSIBLE:
        with pytest.raises(ValueError, match="key"):
            store.add_texts(["first", "second"], ids=["new", bad])
    with pytest.raises(ValueError, match="ids"):
        store.add_documents([Document("x")], ids=["a", "b"])
    with pytest.raises(ValueError, match="JSON form"):
        store.add_texts(["x"], [{"o": object()}], ids=["new"])
    with pytest.raises(ValueError, match="filter"):
        store.similarity_search("east", filter="n = 1")
    assert store.get_by_ids(["new"]) == []


def test_vectors_that_cannot_be_are_refused(db: memdb.MemDB) -> None:
    """NaN, zero, of another count than the texts: nothing is written."""

    class Broken(Compass):
        answers: Any = None

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return self.answers

    for answers in ([[float("nan")] * 2], [[0.0, 0.0]], [[]], [], [[1.0], [1.0]], ["text"]):
        broken = Broken()
        broken.answers = answers
        with pytest.raises(ValueError, match="vector"):
            MemdbVectorStore(broken, db).add_texts(["x"], ids=["x"])
    assert MemdbVectorStore(Compass(), db).get_by_ids(["x"]) == []


def test_twelve_thousand_documents_are_one_transaction(db: memdb.MemDB) -> None:
    """More than one batch: the last one is bad, and none is stored."""
    store = MemdbVectorStore(Compass(), db)
    with pytest.raises(ValueError, match="key"):
        store.add_texts(["x"] * 10_002, ids=[*map(str, range(10_001)), ""])
    assert store.get_by_ids(["0"]) == []
    assert len(store.add_texts(["x"] * 10_001)) == 10_001
    assert store.delete()
    assert db.scope("default").items.list() == []


def test_the_retriever_says_where_it_found_each(db: memdb.MemDB) -> None:
    ann = db.scope("ann")
    chat = ann.session("trip")
    chat.append("user", "The lamp in the hall is red.")
    chat.append("tool", "The lamp in the hall costs 5 euros.")
    ann.remember("Ann bought a red lamp.", category="events")
    ann.items.put(("notes",), "k", {"text": "The lamp needs a bulb."}, metadata={"by": "ann"})
    retriever = MemdbRetriever(source=db, user="ann", min_score=0.0)
    found = retriever.invoke("red lamp")
    by_kind = {(one.metadata["kind"], one.metadata.get("role")): one for one in found}
    assert by_kind.keys() == {
        ("message", "user"), ("message", "tool"), ("entry", None), ("item", None),
    }  # fmt: skip
    assert by_kind["message", "user"].metadata["session"] == "trip"
    assert by_kind["message", "user"].metadata["seq"] == 1
    assert by_kind["item", None].metadata["key"] == "k"
    assert by_kind["item", None].metadata["metadata"] == {"by": "ann"}
    assert all(0 <= one.metadata["score"] <= 1 for one in found)
    assert len({one.id for one in found}) == len(found)

    only = MemdbRetriever(
        source=db, user="ann", kinds=["message"], recall_options={"roles": ["user"]}
    )
    assert [one.page_content for one in only.invoke("lamp")] == ["The lamp in the hall is red."]
    assert [one.metadata["kind"] for one in asyncio.run(only.ainvoke("lamp", k=1))] == ["message"]
    assert MemdbRetriever(source=db, user="bob").invoke("lamp") == []
    for bad in ({"k": 0}, {"k": "x"}, {"user": 5}):
        with pytest.raises(ValueError):
            MemdbRetriever(source=db, **bad)
    with pytest.raises(memdb.InvalidInput):
        MemdbRetriever(source=db, kinds=["color"]).invoke("lamp")


def test_bytes_under_hostile_keys(db: memdb.MemDB) -> None:
    store = MemdbByteStore(db)
    store.mset([(key, key.encode()) for key in HOSTILE])
    assert store.mget([*IMPOSSIBLE, *HOSTILE]) == [
        *[None] * len(IMPOSSIBLE), *(key.encode() for key in HOSTILE),
    ]  # fmt: skip
    assert [*store.yield_keys()] == sorted(HOSTILE)
    for prefix in ("a", "%", "_", "zz"):
        expected = sorted(key for key in HOSTILE if key.startswith(prefix))
        assert [*store.yield_keys(prefix=prefix)] == expected
    store.mdelete([*IMPOSSIBLE, "a%", "unknown"])
    assert store.mget(["a%", "a b"]) == [None, b"a b"]
    for bad in IMPOSSIBLE:
        with pytest.raises(InvalidKeyException):
            store.mset([("new", b"1"), (bad, b"2")])
    for value in ("text", None, 5, ["b"]):
        with pytest.raises(memdb.InvalidInput, match="bytes"):
            store.mset([("new", b"1"), ("other", value)])
    assert store.mget(["new", "other"]) == [None, None]
    assert db.scope("default").recall("text", kinds=["item"]).hits == ()


def test_values_expire(tmp_path: Path) -> None:
    """Bytes and answers, by the clock of the file."""
    now = [1_000_000]
    with memdb.open(tmp_path / "agent.db", clock=lambda: now[0]) as db:
        store, cache = MemdbByteStore(db, ttl="1m"), MemdbCache(db, ttl="1m")
        store.mset([("k", b"v")])
        cache.update("p", "llm", [Generation(text="x")])
        now[0] += 59_999
        assert store.mget(["k"]) == [b"v"]
        assert cache.lookup("p", "llm") == [Generation(text="x")]
        now[0] += 1
        assert store.mget(["k"]) == [None]
        assert [*store.yield_keys()] == []
        assert cache.lookup("p", "llm") is None


def test_a_cache_answers_for_models(db: memdb.MemDB) -> None:
    """A text model and a chat model: the second question is not asked; another key is."""
    cache = MemdbCache(db)
    llm = FakeListLLM(responses=["one", "two"], cache=cache)
    assert (llm.invoke("q"), llm.invoke("q"), llm.invoke("other")) == ("one", "one", "two")
    chat = FakeListChatModel(responses=["one", "two"], cache=cache)
    assert [chat.invoke("q").content, chat.invoke("q").content] == ["one", "one"]
    assert asyncio.run(chat.ainvoke("q")).content == "one"
    answer = ChatGeneration(
        message=AIMessage("x", tool_calls=[{"name": "f", "args": {"a": None}, "id": "c"}]),
        generation_info={"reason": "stop"},
    )
    cache.update("p", "l", [answer, Generation(text="plain")])
    assert cache.lookup("p", "l") == [answer, Generation(text="plain")]
    assert cache.lookup("l", "p") is None
    cache.clear()
    assert cache.lookup("p", "l") is None


def test_a_cache_keeps_no_secret_and_nothing_half(db: memdb.MemDB) -> None:
    cache = MemdbCache(db)
    with memdb.open(db.path, settings={"secrets_in_messages": "refuse"}) as strict:
        MemdbCache(strict).update("p", "l", [Generation(text="key AKIAQ3EGRIT7WUVN5XZB")])
    cache.update("p", "l", [Generation(text="x", generation_info={"o": object()})])
    with pytest.raises(memdb.InvalidInput):
        cache.update("p", "l", ["text"])
    assert cache.lookup("p", "l") is None
    assert cache.lookup("a\0b\ud800", "x" * 100_000) is None


@pytest.mark.parametrize("kind", ["vectors", "bytes", "cache"])
def test_a_cancelled_call_is_whole_or_absent(db: memdb.MemDB, kind: str) -> None:
    store, values, cache = MemdbVectorStore(Compass(), db), MemdbByteStore(db), MemdbCache(db)

    async def check() -> None:
        assert len(await store.aget_by_ids(["a", "b"])) in (0, 2)
        assert (await values.amget(["a", "b"])).count(None) in (0, 2)
        await cache.alookup("p", "l")

    async def begin() -> None:
        if kind == "vectors":
            await store.aadd_texts(["a", "b"], ids=["a", "b"])
            await store.adelete(["a", "b"])
        elif kind == "bytes":
            await values.amset([("a", b"1"), ("b", b"2")])
            await values.amdelete(["a", "b"])
        else:
            await cache.aupdate("p", "l", [Generation(text="x")])
            await cache.aclear()

    async def talk() -> int:
        return await cancel_at_each_await(begin, check)

    assert asyncio.run(talk()) > 0


def test_a_closed_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store, values, cache = MemdbVectorStore(Compass(), path), MemdbByteStore(path), MemdbCache(path)
    retriever = MemdbRetriever(source=path)
    for one in (store, values, cache, retriever):
        one.close()
        one.close()
    for call in (
        lambda: store.add_texts(["x"]),
        lambda: store.similarity_search("x"),
        lambda: values.mget(["x"]),
        lambda: [*values.yield_keys()],
        lambda: cache.lookup("p", "l"),
        lambda: retriever.invoke("x"),
        lambda: asyncio.run(store.asimilarity_search("x")),
        lambda: asyncio.run(values.amset([("x", b"")])),
        lambda: asyncio.run(cache.aclear()),
        lambda: asyncio.run(retriever.ainvoke("x")),
    ):
        with pytest.raises(memdb.Closed):
            call()
