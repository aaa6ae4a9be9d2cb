"""Every public call of items with every bad argument: the error names it, nothing is written."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memdb
from memdb import DeleteItem, FindItem, MemDB, PutItem
from memdb.api.items import Items
from memdb.text.validate import fit_value

if TYPE_CHECKING:
    from collections.abc import Callable

NUL, SURROGATE, LONG = "a\0b", "a\ud800", "x" * 1_025
DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]
CYCLE: list[Any] = []
CYCLE.append(CYCLE)

BAD_NAMESPACES = [
    "text", None, 5, b"a", {"a": 1}, ("",), (" ",), (NUL,), (SURROGATE,), (LONG,), (None,), (1,),
    ("a", "\x1f"), ("a",) * 65, ("x" * 1_000,) * 5,
]  # fmt: skip
BAD_KEYS = ["", " ", NUL, SURROGATE, LONG, None, 5, b"k", ("k",)]
BAD_VALUES = [
    {1, 2}, object(), DEEP, CYCLE,
    {"a": b"bytes"}, 1j,
]  # fmt: skip
BAD_METADATA = [5, "text", [1], {1: 2}, {"a": object()}]
BAD_VERSIONS = [-1, "1", 1.0, True, 2**63]
BAD_TTLS = [0, -1, True, float("nan"), float("inf"), "soon", "0d", "30", "", [], 1e12, 2**80]
BAD_INDEXES = ["title", 5, None, [5], ["a..b"], ["[x]"], [""], ["a[-1]"], [NUL], ["a"] * 65]
BAD_VECTOR = [5, "text", {"a": 1}, [], b"", b"abc", [float("nan")], [0.0, 0.0], ["a"], [1e30]]
BAD_VECTORS = [5, "text", {"a": 1}, [5], *([one] for one in BAD_VECTOR), [[1.0], [1.0, 2.0]],
               [[1.0]] * 1_001]  # fmt: skip
BAD_WHERES = [
    5, "a", [1], {5: 1}, {"": 1}, {"a": {"$regex": "x"}}, {"a": {"$gt": 1, "b": 2}}, {NUL: 1},
    {"a": {"$gt": [1]}}, {"a": {"$lt": None}}, {"a": {"$gte": True}}, {"a": {"$in": 5}},
    {"a": {"$in": "text"}}, {"a[": 1}, {f"f{n}": 1 for n in range(65)},
]  # fmt: skip
BAD_LIMITS = [-1, 2**50, "5", 1.0, True]
FLAGS = ["yes", 1, None]

# By argument: what is no good for it.
BAD: dict[str, list[Any]] = {
    "namespace": BAD_NAMESPACES,
    "prefix": BAD_NAMESPACES,
    "suffix": BAD_NAMESPACES,
    "key": BAD_KEYS,
    "value": BAD_VALUES,
    "metadata": BAD_METADATA,
    "expected": BAD_VERSIONS,
    "ttl": BAD_TTLS,
    "index": BAD_INDEXES,
    "vector": BAD_VECTOR,
    "vectors": BAD_VECTORS,
    "where": BAD_WHERES,
    "limit": BAD_LIMITS,
    "order": ["size", "", None, 5],
    "descending": ["yes", 1],  # None: as the order has it
    "exact": FLAGS,
    "expired": FLAGS,
    "refresh": FLAGS,
    "key_prefix": [NUL, SURROGATE, None, 5, b"k"],
    "max_depth": [0, -1, "1", True],
    "between": [5, "ab", ("a",), ("a", "b", "c"), (1, "b"), ("a", 2), ("", "b"), ("a", NUL)],
    "after": [NUL, 5, {"a": 1}],
    "query": [None, 5],
    "min_score": [-0.1, 1.1, "1", float("nan")],
    "operations": [[5], ["put"], [None], 5, None, "put", b"put", {"put": 1}, [{"key": "k"}]],
}
GOOD: dict[str, dict[str, Any]] = {
    "put": {"namespace": ("n",), "key": "k", "value": 1},
    "get": {"namespace": ("n",), "key": "k"},
    "find": {"namespace": ("n",), "key": "k"},
    "delete": {"namespace": ("n",), "key": "k"},
    "list": {},
    "clear": {},
    "namespaces": {},
    "keys": {"namespace": ("n",)},
    "recall": {"query": "lamp"},
    "batch": {"operations": []},
}
OPERATIONS = {"put": PutItem, "find": FindItem, "delete": DeleteItem}
CASES = [
    pytest.param(name, argument, value, id=f"{name}-{argument}-{place}")
    for name in GOOD
    for argument in inspect.signature(getattr(Items, name)).parameters
    if argument != "self"
    for place, value in enumerate(BAD[argument])
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return one file for all calls, which change nothing."""
    path = tmp_path_factory.mktemp("items") / "agent.db"
    with memdb.open(path, embedder=None, counter="estimate", durability="process") as db:
        db.scope("ann").items.put(("n",), "k", {"text": "red lamp"}, ttl="30d")
        yield db
        assert db.file.check(deep=True) == []


def test_every_call_and_argument_is_tried() -> None:
    """A new call or argument needs its bad values."""
    public = {name for name in vars(Items) if not name.startswith("_")}
    assert public == GOOD.keys()
    for name in public:
        assert {*inspect.signature(getattr(Items, name)).parameters} - {"self"} <= BAD.keys()


@each("name, argument, value", CASES)
def test_what_is_no_good_is_refused(
    shared: MemDB, rows_now: Any, name: str, argument: str, value: Any
) -> None:
    """InvalidInput names the argument, for the call and for its operation in a batch."""
    if argument == "query" and name == "recall" and value is None:
        pytest.skip("None is no query, but not a mistake")
    before = rows_now(shared.path)
    given = {**GOOD[name], argument: value}
    if argument == "vector":
        given.pop("query")
    items = shared.scope("ann").items

    with pytest.raises(memdb.InvalidInput) as caught:
        getattr(items, name)(**given)
    if name in OPERATIONS:
        with pytest.raises(memdb.InvalidInput):
            items.batch([PutItem(("new",), "k", 1), OPERATIONS[name](**given)])

    assert argument in str(caught.value) or argument in ("operations", "where", "query")
    assert rows_now(shared.path) == before


@each("operator", ["", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in"])
@each("text", [SURROGATE, NUL, "\udc00", '"', "\\", "é%_*"])
def test_a_filter_by_any_text_is_answered(shared: MemDB, operator: str, text: str) -> None:
    """What no value can hold equals none; in lists, searches and refreshes alike."""
    items = shared.scope("ann").items
    wanted: Any = [text] if operator == "$in" else text
    where = {"text": {operator: wanted} if operator else wanted}
    expected = operator == "$ne" or (operator in ("$gt", "$gte")) == (text < "red lamp")
    expected = expected and operator not in ("", "$eq", "$in")

    assert bool(items.list(where=where)) == expected
    assert bool(items.list(("n",), where=where, exact=True, refresh=True)) == expected
    assert bool(items.recall("lamp", where=where)) == expected


def test_a_value_may_have_64_mib_and_bytes_32(shared: MemDB, dump: Any) -> None:
    """More is refused before anything is written."""
    before = dump(shared.path)
    items = shared.scope("ann").items
    for value in ("x" * (64 << 20), bytes((32 << 20) + 1)):
        with pytest.raises(memdb.TooLarge, match="value"):
            items.put(("n",), "large", value)
    assert dump(shared.path) == before


names = st.text(min_size=1, max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    labels=st.lists(names, max_size=4),
    key=names,
    value=plain | st.binary(max_size=40),
    other=names,
)
def test_anything_is_stored_as_it_is_or_refused(
    shared: MemDB, labels: list[str], key: str, value: Any, other: str
) -> None:
    """What a put takes comes back as a file holds it, and is in no other place."""
    items = shared.scope("hypothesis").items
    try:
        stored = items.put(labels, key, value)
    except memdb.InvalidInput:
        with pytest.raises((memdb.InvalidInput, memdb.NotFound)):
            items.get(labels, key)
        return
    assert items.get(labels, key).value == fit_value(value)
    assert stored in items.list(labels, limit=10_000)
    assert stored in items.list(labels, exact=True)
    assert tuple(labels) in items.namespaces(labels)
    if labels and other != labels[-1]:
        try:
            assert stored not in items.list((*labels[:-1], other))
        except memdb.InvalidInput:
            assert other.strip() == "" or set(other) & {"\0", "\x1f"} or not other.isprintable()
    assert items.delete(labels, key)
    assert items.find(labels, key) is None
    assert items.list() == items.namespaces() == []


@pytest.mark.parametrize("call", [
    lambda items: items.put(("a", "..", ".."), "../../etc/passwd", "x"),
    lambda items: items.put(("'; DROP TABLE items; --",), '" OR 1=1 --', "x"),
    lambda items: items.put(("{a}", "$b"), "${c}", {"$": {"$gt": 1}}),
])  # fmt: skip
def test_hostile_names_are_names(shared: MemDB, call: Callable[[Any], Any]) -> None:
    """Paths, SQL and templates mean nothing in a namespace or key."""
    items = shared.scope("hostile").items
    stored = call(items)

    assert items.get(stored.namespace, stored.key) == stored
    assert items.list(stored.namespace) == [stored]
    assert items.delete(stored.namespace, stored.key)


@pytest.mark.parametrize("wanted", [SURROGATE, NUL, float("nan"), {"b": SURROGATE}, [NUL]])
def test_a_filter_with_what_no_file_holds_finds_nothing(shared: MemDB, wanted: Any) -> None:
    """No stored value can be equal to it."""
    items = shared.scope("filters").items
    items.put((), "k", {"a": "x"})
    assert items.list(where={"a": wanted}) == []
    assert [one.key for one in items.list(where={"a": {"$ne": wanted}})] == ["k"]
