"""Items through the front door: put, find, list, namespaces, recall, batch, time to live."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import DeleteItem, FindItem, MemDB, PutItem

if TYPE_CHECKING:
    from memdb.api.items import Items

LITERAL = ("a", "A", "a%", "%", "_", "*", "[a]", "a.b", "a/b", "ab", "á", "🙂", "a ", "名")


@pytest.fixture
def items(db: MemDB) -> Items:
    """Return the items of Ann."""
    return db.scope("ann").items


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**70,
        1.5,
        "",
        "text",
        "名\n",
        [],
        {},
        {"b": 1, "a": [None, {"c": "d"}]},
        b"",
        b"\0\xff",
        bytes(range(256)) * 40,
    ],
)
def test_a_value_comes_back_equal(db: MemDB, value: Any) -> None:
    """JSON of any type and bytes are found, listed and exported as they were put."""
    items = db.scope("ann").items
    stored = items.put(("a", "b"), "k", value, metadata={"m": [1]})

    assert items.find(("a", "b"), "k") == items.get(["a", "b"], "k") == stored
    assert items.list() == [stored]
    assert (stored.value, type(stored.value)) == (value, type(value))
    assert (stored.namespace, stored.key, stored.version) == (("a", "b"), "k", 1)
    assert stored.metadata == {"m": [1]}
    assert stored.expires_ms is None


def test_a_put_replaces_the_whole_item(items: Items, clock: Any) -> None:
    """Value, metadata and time to live are those of the last put; the creation stays."""
    first = items.put(("n",), "k", {"text": "red lamp"}, metadata={"m": 1}, ttl=60)
    clock.advance(5)
    second = items.put(("n",), "k", {"text": "green tree"})

    assert (second.version, second.created_ms, second.uid) == (2, first.created_ms, first.uid)
    assert second.updated_ms == first.updated_ms + 5
    assert (second.metadata, second.ttl_ms, second.expires_ms) == (None, None, None)
    assert keys([one.item for one in items.recall("green tree")]) == ["k"]
    assert items.recall("red lamp", min_score=0.5) == []


def test_bytes_take_the_place_of_json_and_back(items: Items) -> None:
    """The kind of a value may change."""
    for value in ({"text": "lamp"}, b"\0", "lamp", b""):
        assert items.put((), "k", value).value == value
    assert items.get((), "k").version == 4


def test_compare_and_swap(items: Items) -> None:
    """A put or delete at another version changes nothing, and says where the item is."""
    with pytest.raises(memdb.VersionConflict) as none:
        items.put(("n",), "k", 1, expected=1)
    items.put(("n",), "k", 1, expected=0)
    for call in (
        lambda: items.put(("n",), "k", 2, expected=0),
        lambda: items.put(("n",), "k", 2, expected=2),
        lambda: items.delete(("n",), "k", expected=2),
    ):
        with pytest.raises(memdb.VersionConflict) as stale:
            call()
        assert stale.value.got == 1
    items.put(("n",), "k", 2, expected=1)

    assert (none.value.expected, none.value.got) == (1, 0)
    assert (items.get(("n",), "k").value, items.get(("n",), "k").version) == (2, 2)
    assert items.delete(("n",), "k", expected=2)
    assert not items.delete(("n",), "k")
    assert not items.delete(("n",), "k", expected=0)


def test_get_says_what_is_absent(items: Items) -> None:
    """The error names namespace and key."""
    with pytest.raises(memdb.NotFound, match="a/b/k"):
        items.get(("a", "b"), "k")
    assert items.find(("a", "b"), "k") is None


def test_namespaces_match_whole_labels(items: Items) -> None:
    """No character of a label is a pattern, and case counts."""
    for label in LITERAL:
        items.put((label, "x"), "k", label)
        items.put(("p", label), label, label)

    for label in LITERAL:
        assert [item.value for item in items.list((label,))] == [label]
        assert items.namespaces((label,)) == [(label, "x")]
        assert items.namespaces(suffix=(label,)) == [("p", label)]
        assert items.get(("p", label), label).value == label
    assert len(items.list(("p",))) == len(LITERAL)
    assert items.list(("P",)) == []


def test_a_prefix_holds_what_is_below_it(items: Items) -> None:
    """A namespace itself, and all below it; `exact` leaves those out."""
    for place in ((), ("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b",)):
        items.put(place, "k", "/".join(place))

    assert [item.value for item in items.list(("a",))] == ["a", "a/b", "a/b/c"]
    assert [item.value for item in items.list(("a",), exact=True)] == ["a"]
    assert [item.value for item in items.list(exact=True)] == [""]
    assert len(items.list()) == 6
    assert items.namespaces(("a",), max_depth=2) == [("a",), ("a", "b")]
    assert items.namespaces(max_depth=1) == [(), ("a",), ("ab",), ("b",)]
    assert items.namespaces(suffix=("b",)) == [("a", "b"), ("b",)]
    assert items.namespaces(("a",), ("c",)) == [("a", "b", "c")]


@pytest.mark.parametrize("order", ["key", "updated", "created"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("places", [7, 31])
def test_pages_give_each_item_once(
    items: Items, clock: Any, order: Any, descending: bool, places: int
) -> None:
    """Walking by pages of any size is the same as one page, over several namespaces."""
    for number in range(60):
        items.put(("n", f"{number % places}"), f"k{number % 11}{number}", number)
        clock.advance(number % 3)
    for number in range(0, 60, 5):
        items.put(("n", f"{number % places}"), f"k{number % 11}{number}", -number)
    whole = items.list(("n",), order=order, descending=descending, limit=100)

    field = {"key": lambda one: (one.namespace, one.key)}.get(
        order, lambda one: (getattr(one, f"{order}_ms"), one.id)
    )
    assert whole == sorted(whole, key=field, reverse=descending)
    assert len(whole) == 60
    odd = items.list(("n",), order=order, descending=descending, where={"$": {"$gt": 9}}, limit=5)
    assert odd == [item for item in whole if item.value > 9][:5]
    for size in (1, 7, 60):
        pages, after = [], None
        while page := items.list(
            ("n",), order=order, descending=descending, limit=size, after=after
        ):
            pages += page
            after = page[-1]
        assert pages == whole


def test_a_page_goes_on_behind_an_item_that_is_gone(items: Items) -> None:
    """What a page ended with may be deleted before the next one."""
    for number in range(6):
        items.put(("n",), f"k{number}", number)
    for order in ("key", "updated", "created"):
        page = items.list(("n",), order=order, limit=2)
        items.delete(("n",), page[-1].key)
        rest = items.list(("n",), order=order, after=page[-1])
        step = 1 if order == "key" else -1  # by time the newest come first
        assert rest[0].value == page[-1].value + step


def test_keys_are_listed_by_their_prefix(items: Items, clock: Any) -> None:
    """In order, page by page, every character literal; not below, not expired."""
    for key in LITERAL:
        items.put(("n",), key, b"x")
    items.put(("n", "a"), "below", 1)
    items.put(("n",), "gone", 1, ttl=1)
    clock.advance(1_000)

    assert items.keys(("n",)) == sorted(LITERAL)
    for prefix in (*LITERAL, "zz"):
        assert items.keys(("n",), prefix) == sorted(k for k in LITERAL if k.startswith(prefix))
    pages = [items.keys(("n",), limit=3)]
    while pages[-1]:
        pages.append(items.keys(("n",), after=pages[-1][-1], limit=3))
    assert [key for page in pages for key in page] == sorted(LITERAL)
    assert items.keys(("n",), "a", after="a%") == sorted(
        key for key in LITERAL if key.startswith("a") and key > "a%"
    )
    assert items.keys(("m",)) == []


def test_filters_compare_fields(items: Items) -> None:
    """Every operator, on numbers, texts, lists and what is absent."""
    values = {
        "one": {"n": 1, "t": "a", "tags": ["x", "y"], "d": {"e": [{"f": 5}]}},
        "two": {"n": 2.5, "t": "b", "tags": ["y"]},
        "true": {"n": True, "t": None},
        "text": {"n": "2"},
        "none": {},
        "list": [1],
    }
    for key, value in values.items():
        items.put(("n",), key, value)

    def found(**where: Any) -> set[str]:
        return {*keys(items.list(where=where))}

    assert found(n=1) == found(n={"$eq": 1.0}) == {"one"}
    assert found(n={"$gt": 1}) == {"two"}
    assert found(n={"$gte": 1, "$lt": 2.5}) == {"one"}
    assert found(n={"$lte": "3"}) == {"text"}
    assert found(n={"$ne": 1}) == {"two", "true", "text", "none", "list"}
    assert found(n={"$in": [True, "2"]}) == {"true", "text"}
    assert found(t=None) == {"list", "none", "text", "true"}
    assert found(tags=["y"]) == {"two"}
    assert found(**{"tags[*]": "y"}) == {"one", "two"}
    assert found(**{"tags[1]": "y", "d.e[0].f": {"$gte": 5}}) == {"one"}
    assert found(**{"[0]": 1}) == {"list"}
    assert found(missing=1) == set()
    assert found() == values.keys()
    assert keys(items.list(where={"n": {"$in": []}})) == []


def test_a_filter_passes_over_whole_pages(items: Items) -> None:
    """The limit counts what matches, wherever it is."""
    items.batch([PutItem(("n",), f"k{number:04}", {"n": number}) for number in range(900)])

    assert keys(items.list(where={"n": {"$gte": 897}}, limit=2)) == ["k0897", "k0898"]
    assert keys(items.list(where={"n": 3}, descending=True)) == ["k0003"]


def test_what_expired_is_gone_at_once(db: MemDB, clock: Any) -> None:
    """No read finds it, a put begins anew, and upkeep takes its row away."""
    items = db.scope("ann").items
    items.put(("n",), "short", "red lamp", ttl=1.5)
    items.put(("n",), "long", "red tree", ttl=timedelta(days=30))
    clock.advance(1_499)
    assert items.get(("n",), "short").ttl_ms == 1_500
    clock.advance(1)

    assert items.find(("n",), "short") is None
    assert keys(items.list()) == ["long"]
    assert keys([one.item for one in items.recall("red")]) == ["long"]
    assert db.scope("ann").recall("lamp", kinds=["item"]).hits == ()
    with pytest.raises(memdb.VersionConflict):
        items.put(("n",), "short", 1, expected=1)
    with pytest.raises(memdb.VersionConflict):
        items.delete(("n",), "short", expected=1)
    assert not items.delete(("n",), "short")
    assert items.put(("n",), "short", "blue", expected=0, ttl="1m").version == 1
    clock.advance(60_000)
    assert db.file.info().counts["items"] == 2
    db.jobs.run(due=True)
    assert db.file.info().counts["items"] == 1
    clock.advance(30 * 86_400_000)
    assert items.namespaces() == []
    db._services.items.remove_expired()
    assert (db.file.info().counts["items"], db.file.check(deep=True)) == (0, [])


def test_reading_can_refresh_a_time_to_live(items: Items, clock: Any) -> None:
    """It moves the expiry and nothing else; what never expires stays so."""
    items.put(("n",), "a", "lamp", ttl=10)
    items.put(("n",), "b", "lamp")
    for read in (
        lambda: items.get(("n",), "a", refresh=True),
        lambda: items.find(("n",), "a", refresh=True),
        lambda: items.list(refresh=True)[0],
        lambda: items.recall("lamp", refresh=True, where={"$": "lamp"}, prefix=("n",))[-1].item,
        lambda: items.batch([FindItem(("n",), "a", refresh=True)])[0],
    ):
        clock.advance(9_000)
        found = read()
        assert items.get(("n",), "a").version == 1
        assert items.get(("n",), "a").expires_ms == clock() + 10_000, found
    clock.advance(9_999)
    items.get(("n",), "a")
    clock.advance(1)
    assert items.find(("n",), "a") is None
    assert items.get(("n",), "b").expires_ms is None


def test_a_batch_is_done_whole_or_not_at_all(items: Items) -> None:
    """Results come in order, each sees what is before it; a conflict undoes all."""
    done = items.batch(
        [
            FindItem(("n",), "k"),
            PutItem(("n",), "k", 1),
            FindItem(("n",), "k"),
            PutItem(("n",), "k", 2, expected=1),
            DeleteItem(("n",), "k", expected=2),
            DeleteItem(("n",), "k"),
            PutItem(("n",), "other", b"x"),
        ]
    )
    assert done[0] is None
    assert [one.value for one in (done[1], done[2], done[3], done[6])] == [1, 1, 2, b"x"]
    assert done[4:6] == [True, False]

    with pytest.raises(memdb.VersionConflict):
        items.batch([PutItem(("n",), "new", 1), PutItem(("n",), "other", 1, expected=9)])
    with pytest.raises(memdb.InvalidInput, match="key"):
        items.batch([PutItem(("n",), "new", 1), FindItem(("n",), "")])
    assert keys(items.list()) == ["other"]
    assert items.batch([]) == []


def test_a_transaction_takes_items_with_everything_else(db: MemDB) -> None:
    """A failure in the body undoes what was put."""
    ann = db.scope("ann")
    with pytest.raises(RuntimeError), db.transaction():
        ann.items.put(("n",), "k", 1)
        ann.session("s").append("user", "hi")
        raise RuntimeError
    assert (ann.items.list(), ann.sessions(), ann.items.namespaces()) == ([], [], [])
    with db.transaction():
        ann.items.put(("n",), "k", 1)
        ann.items.put(("n",), "k", 2, expected=1)
    assert ann.items.get(("n",), "k").value == 2


def test_recall_finds_items_by_their_words(db: MemDB) -> None:
    """By stems and CJK characters, within a namespace and a filter; not what is not indexed."""
    ann = db.scope("ann")
    ann.items.put(("trips", "oslo"), "a", {"text": "We packed three tents.", "stars": 5})
    ann.items.put(("trips", "rome"), "b", {"text": "A tent in Rome.", "stars": 1})
    ann.items.put(("notes",), "c", {"title": "我爱北京", "body": "tent"}, index=["title"])
    ann.items.put(("notes",), "d", {"text": "tent"}, index=False)
    db.scope("bob").items.put(("trips",), "e", "a tent")

    found = ann.items.recall("tents")
    assert {one.item.key for one in found} >= {"a", "b"}
    assert found == sorted(found, key=lambda one: -one.score)
    assert keys([one.item for one in ann.items.recall("tent", prefix=("trips", "rome"))]) == ["b"]
    assert keys([one.item for one in ann.items.recall("tent", where={"stars": {"$gt": 1}})]) == [
        "a"
    ]
    assert keys([one.item for one in ann.items.recall("北京")])[0] == "c"
    (hit,) = ann.recall("Rome tent", kinds=["item"], limit=1)
    assert (hit.kind, hit.text, str(hit.source)) == ("item", "A tent in Rome.", "trips/rome/b")
    assert (hit.source.namespace, hit.source.key, hit.source.version) == (
        ("trips", "rome"),
        "b",
        1,
    )
    assert {hit.kind for hit in ann.recall("tent")} == {"item"}


def test_forgetting_words_takes_items_too(db: MemDB, tmp_path: Any) -> None:
    """Also what is not indexed; no byte is left, and an export does not bring it back."""
    ann = db.scope("ann")
    ann.items.put(("n",), "a", {"text": "Zoe lives in Bergen."})
    ann.items.put(("n",), "b", ["Zoe's number"], index=False)
    ann.items.put(("n",), "c", b"Zoe's picture")
    ann.items.put(("n",), "d", 1, metadata={"who": "Zoe"})
    ann.items.put(("Zoe",), "e", 1)
    ann.items.put(("n",), "kept", "Ann lives in Oslo.")
    lines = [*db.export_lines(user="ann")]

    assert ann.forget(query="Zoe", dry_run=True).removed["items"] == 5
    receipt = ann.forget(query="Zoe", prove=True)

    assert (receipt.removed["items"], receipt.proven) == (5, True)
    assert keys(ann.items.list()) == ["kept"]
    assert ann.items.namespaces() == [("n",)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    report = db.import_file(path)
    assert (report.items_added, report.items_known, report.forgotten) == (0, 1, 5)


def test_a_scope_goes_with_its_items(db: MemDB) -> None:
    """`everything` deletes and forgets them; another's stay."""
    for user in ("ann", "bob", "eve"):
        db.scope(user).items.put(("n",), "k", {"text": f"{user} has a lamp"})

    assert db.scope("ann").delete(everything=True).removed["items"] == 1
    receipt = db.scope("bob").forget(everything=True, prove=True)
    assert (receipt.removed["items"], receipt.proven) == (1, True)
    assert (db.scope("ann").items.list(), db.scope("bob").items.namespaces()) == ([], [])
    assert len(db.scope("eve").items.list()) == 1
    assert db.scope("ann").items.put(("n",), "k", 1).version == 1


def test_rebuild_makes_words_anew(db: MemDB) -> None:
    """A lost index is found by the check, and rebuilt."""
    items = db.scope("ann").items
    items.put(("n",), "k", {"text": "red lamp 北京"})
    with db._db.write() as tx:
        tx.words.drop("item", 0, 1 << 62)
        tx.run("UPDATE items SET bigrams = NULL")
    assert {one.code for one in db.file.check()} == {"items_fts"}
    db.file.rebuild()

    assert db.file.check(deep=True) == []
    assert keys([one.item for one in items.recall("北京")]) == ["k"]


def test_a_file_that_is_only_read_gives_its_items(db: MemDB, tmp_path: Any) -> None:
    """Reads work, expired items are left out, each write is refused."""
    items = db.scope("ann").items
    items.put(("n",), "k", "lamp", ttl="30d")
    db.file.backup(tmp_path / "copy.db")
    with memdb.open(tmp_path / "copy.db", mode="read", embedder=None, clock=db._db.clock) as copy:
        ann = copy.scope("ann").items
        assert keys(ann.list()) == keys([one.item for one in ann.recall("lamp")]) == ["k"]
        assert (ann.get(("n",), "k").value, ann.namespaces()) == ("lamp", [("n",)])
        assert ann.batch([FindItem(("n",), "k")]) == [ann.get(("n",), "k")]
        for call in (
            lambda: ann.put(("n",), "k", 1),
            lambda: ann.delete(("n",), "k"),
            lambda: ann.batch([DeleteItem(("n",), "k")]),
            lambda: ann.get(("n",), "k", refresh=True),
        ):
            with pytest.raises(memdb.ReadOnly):
                call()


def test_keys_between_two(items: Items) -> None:
    """The first is in, the second is not; up, down and page by page."""
    for key in ("a", "b", "b1", "b2", "c", "é"):
        items.put(("n",), key, key)
        items.put(("n", "below"), key, key)

    def found(**options: Any) -> list[str]:
        return keys(items.list(("n",), exact=True, **options))

    assert found(between=("b", "c")) == ["b", "b1", "b2"]
    assert found(between=("b", "c"), descending=True) == ["b2", "b1", "b"]
    assert found(between=(None, "b")) == ["a"]
    assert found(between=("c", None)) == ["c", "é"]
    assert found(between=(None, None)) == found()
    assert found(between=("c", "b")) == []
    assert len(items.list(("n",), between=("b", "c"))) == 6
    first = items.list(("n",), between=("b", "c"), limit=2)
    rest = items.list(("n",), between=("b", "c"), after=first[-1])
    assert [item.key for item in (*first, *rest)] == ["b", "b1", "b2"] * 2
    down = items.list(("n",), between=("b", "c"), after=rest[1], descending=True)
    assert [(item.namespace, item.key) for item in down] == [
        (("n",), "b2"),
        (("n",), "b1"),
        (("n",), "b"),
    ]


def test_clear_removes_a_namespace_and_what_is_below_it(items: Items) -> None:
    """Words and vectors go too; neighbours stay."""
    for number in range(1_100):
        items.put(("a", "b") if number % 2 else ("a",), f"k{number}", number, index=False)
    items.put(("a", "c"), "k", {"text": "red lamp"}, vectors=[[1.0, 0.5]])
    kept = items.put(("ab",), "k", {"text": "blue lamp"}, vectors=[[1.0, 0.25]])

    assert items.clear(("a", "b", "c")) == 0
    assert items.clear(("a",)) == 1_101

    assert items.namespaces() == [("ab",)]
    assert items.list() == [kept]
    assert [found.item for found in items.recall("lamp")] == [kept]
    assert [found.item for found in items.recall(vector=[1.0, 0.5])] == [kept]
    assert items.clear() == 1
    assert items.clear() == 0


def test_expired_items_of_a_scope_are_removed(db: MemDB, clock: Any) -> None:
    """Those of another scope stay until theirs are."""
    ann, bob = db.scope("ann").items, db.scope("bob").items
    assert ann.clear(expired=True) == 0
    ann.put((), "k", 1, ttl=1)
    ann.put(("a",), "k", 1, ttl=1)
    ann.put((), "long", 1, ttl=100)
    bob.put((), "k", 1, ttl=1)
    clock.advance(2_000)

    assert ann.clear(("a",), expired=True) == 1
    assert [one.clear(expired=True) for one in (ann, ann, bob)] == [1, 0, 1]
    assert [item.key for item in ann.list()] == ["long"]


def test_a_refresh_of_what_never_expires_is_no_write(db: MemDB) -> None:
    """So a read with refresh waits for no writer."""
    items = db.scope("ann").items
    items.put((), "k", 1)
    before = db._db.commits

    assert items.find((), "k", refresh=True) == items.list(refresh=True)[0]
    assert items.find((), "other", refresh=True) is None
    assert db._db.commits == before


def test_an_absent_field_counts_as_null(items: Items) -> None:
    """As in MongoDB, from which the operators come."""
    for key, value in {"none": {"a": None}, "no": {}, "one": {"a": 1}, "list": [1]}.items():
        items.put((), key, value)

    def keys(condition: Any) -> set[str]:
        return {item.key for item in items.list(where={"a": condition})}

    assert keys(None) == keys({"$eq": None}) == keys({"$in": [None, 2]}) == {"none", "no", "list"}
    assert keys({"$ne": None}) == {"one"}
    assert keys({"$ne": 1}) == {"none", "no", "list"}
    assert keys({"$lt": 2}) == {"one"}
