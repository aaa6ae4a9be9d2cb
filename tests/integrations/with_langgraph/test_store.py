"""A store in a memdb file: what LangGraph's own tests do not ask."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store import base
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import memdb
from memdb.integrations.langgraph import MemdbStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = ("red", "lamp", "boat", "tea")


def embed(texts: list[str]) -> list[list[float]]:
    """Count words: equal texts have equal vectors."""
    return [[float(text.count(word)) for word in WORDS] for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemdbStore]:
    """Return a store on a new file, which is sound in the end."""
    with MemdbStore(tmp_path / "a.db", embedder=None) as made:
        yield made
        assert made._db.file.check() == []


def keys(found: Any) -> list[str]:
    return [one.key for one in found]


VALUES: dict[str, Any] = {
    "one": {"n": 1, "t": "x", "deep": {"a": 1, "b": {"c": "y"}}, "list": [1, 2]},
    "two": {"n": 2.5, "t": "y", "deep": {"a": 2}, "list": []},
    "none": {"n": None, "t": "", "deep": None},
    "empty": {},
    "true": {"n": True, "t": "true"},
}
FILTERS: list[Any] = [
    None, {}, {"n": 1}, {"n": 2.5, "t": "y"}, {"n": None}, {"t": ""}, {"n": {"$ne": 2.5}},
    {"deep": {"a": 1}}, {"deep": {"a": 2}}, {"deep": {"b": {"c": "y"}}}, {"list": [1, 2]},
    {"list": []}, {"t": {"$eq": "x"}}, {"t": {"$ne": "x"}}, {"absent": None},
    {"absent": {"$ne": None}}, {"deep": {"a": {"$eq": 1}}}, {"absent": "x"},
]  # fmt: skip


@pytest.mark.parametrize("condition", FILTERS, ids=repr)
def test_filters_are_those_of_langgraph_s_own_store(store: MemdbStore, condition: Any) -> None:
    """The same keys are found; `true` alone is no 1 here."""
    theirs = InMemoryStore()
    for one in (store, theirs):
        for key, value in VALUES.items():
            one.put(("n",), key, value)
    wanted = {*keys(theirs.search(("n",), filter=condition))}
    if condition == {"n": 1}:
        wanted.discard("true")

    assert {*keys(store.search(("n",), filter=condition))} == wanted


def test_ranges(store: MemdbStore) -> None:
    """Numbers and texts are ordered among themselves."""
    for number in range(6):
        store.put(("n",), f"k{number}", {"n": number, "t": f"t{number}"})
    for condition, found in [
        ({"n": {"$gt": 2, "$lte": 4}}, {"k3", "k4"}),
        ({"t": {"$gte": "t4"}}, {"k4", "k5"}),
        ({"n": {"$lt": 1}}, {"k0"}),
        ({"n": {"$gt": "2"}}, set()),
    ]:
        assert {*keys(store.search(("n",), filter=condition))} == found
    with pytest.raises(ValueError, match=r"\$near"):
        store.search(("n",), filter={"n": {"$near": 1}})


def test_a_batch_reads_before_it_writes_and_the_last_put_counts(store: MemdbStore) -> None:
    """As LangGraph's stores do."""
    store.put(("a",), "k", {"n": 1})
    results = store.batch(
        [
            PutOp(("a",), "k", {"n": 2}),
            GetOp(("a",), "k"),
            PutOp(("b",), "new", {"n": 3}),
            SearchOp(("b",)),
            PutOp(("a",), "k", {"n": 4}),
            PutOp(("b",), "gone", {"n": 5}),
            PutOp(("b",), "gone", None),
            ListNamespacesOp(),
        ]
    )
    assert results[1].value == {"n": 1}
    assert (results[3], results[7]) == ([], [("a",)])
    assert store.get(("a",), "k").value == {"n": 4}
    assert keys(store.search(("b",))) == ["new"]


def test_a_batch_is_done_as_a_whole_or_not_at_all(store: MemdbStore) -> None:
    """One value that cannot be stored leaves nothing."""
    for bad in ({"x": object()}, ["x"]):
        with pytest.raises(ValueError, match="value"):
            store.batch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", bad)])
        assert store.list_namespaces() == []


@pytest.mark.parametrize("label", ["\0", "a\ud800", "x" * 10_000, "", "a.b", 5])
def test_labels_that_cannot_be_stored_are_refused(store: MemdbStore, label: Any) -> None:
    """InvalidNamespaceError, of every call, with nothing written."""
    if label == "a.b" and not hasattr(base, "validate_op_namespace"):
        pytest.skip("this release takes dots in some calls; they are literal")
    for call in (
        lambda: store.put((label,), "k", {"n": 1}),
        lambda: store.get((label,), "k"),
        lambda: store.search((label,)),
        lambda: store.batch([PutOp((label,), "k", {"n": 1})]),
        lambda: store.list_namespaces(prefix=(label,)),
    ):
        with pytest.raises(InvalidNamespaceError):
            call()
    assert store.list_namespaces() == []


@pytest.mark.parametrize("key", ["", "x" * 10_000, "a\0", "\ud800"])
def test_keys_that_cannot_be_stored_are_refused(store: MemdbStore, key: str) -> None:
    """ValueError; nothing is written."""
    with pytest.raises(ValueError, match="key"):
        store.put(("a",), key, {"n": 1})
    with pytest.raises(ValueError, match="key"):
        store.get(("a",), key)
    assert store.list_namespaces() == []


@pytest.mark.parametrize("label", ["/up", "%", "_", "*", "[a]", "A", "a%", "🙂"])
def test_labels_are_literal(store: MemdbStore, label: str) -> None:
    """Each is itself only."""
    for other in ("a", "up", "ab", label):
        store.put((other,), "k", {"label": other})
    assert [one.value["label"] for one in store.search((label,))] == [label]


def test_wildcards_of_listings(store: MemdbStore) -> None:
    """A star is any one label, at any place, from both ends."""
    theirs = InMemoryStore()
    for labels in [("a", "b", "c"), ("a", "x", "c"), ("a", "b"), ("b", "b", "c"), ("a", "*", "d")]:
        for one in (store, theirs):
            one.put(labels, "k", {})
    for kind in ("prefix", "suffix"):
        for path in [
            ("a",),
            ("a", "*"),
            ("*", "b"),
            ("*",),
            ("c",),
            ("*", "c"),
            ("a", "*", "c"),
            (),
        ]:
            for depth in (None, 1, 2):
                for limit, offset in ((100, 0), (1, 1)):
                    conditions = (MatchCondition(kind, path), MatchCondition("prefix", ("a",)))
                    op = ListNamespacesOp(conditions, depth, limit, offset)
                    assert store.batch([op]) == theirs.batch([op]), op


def test_a_query_without_an_index_finds_words(store: MemdbStore) -> None:
    """What says the words comes first, the rest behind it without a score."""
    store.put(("n",), "lamp", {"text": "the red lamp"})
    store.put(("n",), "boat", {"text": "a blue boat"})
    store.put(("n",), "hidden", {"text": "another red lamp"}, index=False)
    store.put(("m",), "other", {"text": "red lamp elsewhere"})

    found = store.search(("n",), query="red lamp")

    assert keys(found)[0] == "lamp"
    assert [one.score is None for one in found] == [False, True, True]
    assert keys(store.search(("n",), query="red lamp", limit=1, offset=1)) == keys(found)[1:2]


def test_several_vectors_per_item_and_the_best_counts(tmp_path: Path) -> None:
    """A put replaces all of them."""
    index: Any = {"dims": 4, "embed": embed, "fields": ["title", "parts[*].text"]}
    with MemdbStore(tmp_path / "a.db", index=index, embedder=None) as store:
        store.put(("n",), "a", {"title": "lamp", "parts": [{"text": "tea"}, {"text": "boat"}]})
        store.put(("n",), "b", {"title": "red lamp", "parts": []})
        store.put(("n",), "c", {"title": "nothing"})
        for query in ("lamp", "tea", "boat"):
            assert store.search(("n",), query=query)[0].key == "a"
            assert store.search(("n",), query=query)[0].score == pytest.approx(1.0)
        store.put(("n",), "a", {"title": "red"})
        assert store.search(("n",), query="tea", limit=1)[0].score in (None, pytest.approx(0.0))
        assert keys(store.search(("n",), query="lamp")) == ["b", "a", "c"]
        assert keys(store.search(("n",), query="lamp", filter={"title": "red"})) == ["a"]
        store.put(("n",), "d", {"title": "x", "note": "tea tea"}, index=["note"])
        assert asyncio.run(store.asearch(("n",), query="tea"))[0].key == "d"


def test_refreshing_moves_the_expiry(tmp_path: Path) -> None:
    """By a get and by a search, unless the configuration or the call says no."""
    now = [1_700_000_000_000]
    with memdb.open(tmp_path / "a.db", clock=lambda: now[0], embedder=None) as db:
        store = MemdbStore(db, ttl={"default_ttl": 1, "refresh_on_read": True})
        for key in ("get", "search", "none"):
            store.put(("n",), key, {"key": key})
        store.put(("n",), "ever", {}, ttl=None)
        now[0] += 40_000
        store.get(("n",), "get")
        store.get(("n",), "none", refresh_ttl=False)
        assert keys(store.search(("n",), filter={"key": "search"})) == ["search"]
        now[0] += 40_000
        assert {*keys(store.search(("n",), refresh_ttl=False))} == {"get", "search", "ever"}
        assert store.get(("n",), "none") is None
        assert (store.sweep_ttl(), store.sweep_ttl()) == (1, 0)
        now[0] += 70_000
        assert keys(store.search(("n",))) == ["ever"]


def test_the_sweeper_ends_with_the_store(tmp_path: Path) -> None:
    """Closing waits for its thread; without a configuration there is none."""
    with MemdbStore(tmp_path / "a.db", ttl={"sweep_interval_minutes": 1}, embedder=None) as store:
        done = store.start_ttl_sweeper()
        assert not store.start_ttl_sweeper().done()
    assert done.done()
    assert store.stop_ttl_sweeper()
    with MemdbStore(tmp_path / "a.db", embedder=None) as store:
        assert store.start_ttl_sweeper().done()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Both kinds of calls."""
    store = MemdbStore(tmp_path / "a.db", embedder=None)
    store.close()
    with pytest.raises(memdb.Closed):
        store.get(("a",), "k")
    with pytest.raises(memdb.Closed):
        asyncio.run(store.aput(("a",), "k", {}))


def test_pages_of_any_size(store: MemdbStore) -> None:
    """More than a page of the core is read page by page."""
    store.batch([PutOp(("n", f"{n % 3}"), f"k{n}", {"n": n}) for n in range(1_200)])
    found = store.search(("n",), limit=5_000)
    assert len({*keys(found)}) == 1_200
    assert store.search(("n",), limit=100, offset=1_150) == found[1_150:]
    assert store.search(("n",), limit=0) == []
