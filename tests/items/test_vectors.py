"""Vectors of items: given or embedded by field path; the best one of an item counts."""

from __future__ import annotations

import json
import math
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import MemDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


def keys(found: list[Any]) -> list[str]:
    return [one.item.key for one in found]


def vectors_in(db: MemDB, kind: str = "item") -> int:
    with db._db.read() as tx:
        spaces = [number for (number,) in tx.all("SELECT space_no FROM embedding_spaces")]
        return sum(len(tx.vectors.list_page(one, kind, 0, 1 << 62, 1_000)) for one in spaces)


def test_the_best_of_several_vectors_counts(db: MemDB) -> None:
    """Each item once, by the cosine of its nearest vector, nearest first."""
    items = db.scope("ann").items
    items.put(("n",), "both", 1, vectors=[WEST, EAST])
    items.put(("n",), "north", 2, vectors=[NORTH])
    items.put(("n", "x"), "east", 3, vectors=[struct.pack("<2f", *EAST), NORTH, NORTH])
    items.put(("n",), "none", {"text": "east"})
    items.put(("n",), "wide", 4, vectors=[[1.0, 0.0, 0.0]])

    found = items.recall(vector=[1.0, 0.1])
    assert keys(found) == ["both", "east", "north"]
    assert [round(one.score, 2) for one in found] == [1.0, 1.0, 0.1]
    assert [struct.unpack("<2f", one.vector) for one in found] == [(1, 0), (1, 0), (0, 1)]
    assert keys(items.recall(vector=[1.0, 0.1], limit=1)) == ["both"]
    assert keys(items.recall(vector=[1.0, 0.1], prefix=("n", "x"))) == ["east"]
    assert keys(items.recall(vector=[1.0, 0.1], prefix=("n",), exact=True)) == ["both", "north"]
    assert items.recall(vector=[1.0, 0.1], exact=True) == []
    assert items.recall("east", exact=True) == items.recall("east", prefix=("m",)) == []
    assert keys(items.recall("east", prefix=("n",), exact=True)) == ["none"]
    assert keys(items.recall(vector=[1.0, 0.1], where={"$": {"$lt": 3}})) == ["both", "north"]
    assert keys(items.recall(vector=[1.0, 0.1], min_score=0.5)) == ["both", "east"]
    assert keys(items.recall(vector=[1.0, 0.1, 0.0])) == ["wide"]
    assert items.recall(vector=[1.0] * 4) == []
    assert db.scope("bob").items.recall(vector=EAST) == []
    assert [(one.item.key, one.vector) for one in items.recall("east")] == [("none", None)]


def test_a_put_replaces_every_vector(db: MemDB) -> None:
    """More, fewer, none, the file's own in place of given ones: what was is gone."""
    items = db.scope("ann").items
    for given in ([EAST], [EAST, WEST], [NORTH], [NORTH, EAST, WEST], [WEST] * 3):
        items.put(("n",), "k", {"text": "a lamp"}, vectors=given)
        assert vectors_in(db) == len(given)
        assert items.recall(vector=given[0])[0].score == pytest.approx(1.0)
    assert items.recall(vector=EAST)[0].score == pytest.approx(-1.0)
    items.put(("n",), "k", {"text": "a lamp"})
    assert items.recall(vector=WEST) == []
    db.jobs.run()
    assert vectors_in(db) == 1
    items.put(("n",), "k", {"text": "a lamp"}, vectors=[EAST], index=False)
    assert keys(items.recall(vector=EAST)) == ["k"]
    assert items.recall("lamp") == []
    items.delete(("n",), "k")
    assert (vectors_in(db), db.file.check(deep=True)) == (0, [])


def test_fields_are_embedded_each_for_itself(db: MemDB, embedder: Any) -> None:
    """By path, in the order of the paths; an item is found by any of them."""
    items = db.scope("ann").items
    value = {"title": "red lamp", "parts": [{"text": "green tree"}, {"text": "blue sea"}], "n": "x"}
    items.put(("n",), "k", value, index=["title", "parts[*].text"])
    items.put(("n",), "whole", {"text": "one", "more": "two"})
    items.put(("n",), "hidden", {"text": "three"}, index=False)
    db.jobs.run()

    assert vectors_in(db) == 4
    assert {"red lamp", "green tree", "blue sea", "one\ntwo"} <= {*embedder.calls}
    assert not {"x", "three"} & {*embedder.calls}
    for text in ("red lamp", "green tree", "blue sea"):
        (hit, *_) = db.scope("ann").recall(text, kinds=["item"], by="vector")
        assert (hit.source.key, round(hit.score, 3)) == ("k", 1.0)
    hits = db.scope("ann").recall("green tree", kinds=["item"], by="vector")
    assert sorted(hit.source.key or "" for hit in hits) == ["k", "whole"]


def test_a_changed_item_is_embedded_anew(db: MemDB) -> None:
    """What a worker embedded meanwhile does not become the vector of the new text."""
    items = db.scope("ann").items
    items.put(("n",), "k", {"text": "red lamp"})
    db.jobs.run()
    items.put(("n",), "k", {"text": "green tree"})
    assert vectors_in(db) == 0
    (hit,) = db.scope("ann").recall("green tree", kinds=["item"], by="vector")

    assert (round(hit.score, 3), vectors_in(db)) == (1.0, 1)
    assert db.jobs.run() == 0
    assert db.stats().refused == ()


def test_a_new_embedder_gets_the_texts_of_items(
    path: str, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """A file without one, then with one, then with another; rebuild finds what is missing."""
    with open_db(path, embedder=None) as db:
        db.scope("ann").items.put(("n",), "k", {"a": "red lamp", "b": "tree"}, index=["a", "b"])
        db.scope("ann").items.put(("n",), "given", {"a": "sea"}, vectors=[EAST])
        assert vectors_in(db) == 1
    with open_db(path) as db:
        assert db.jobs.pending() == 2
        db.jobs.run()
        assert vectors_in(db) == 3
        assert {one.state for one in db.file.info().spaces} == {"given", "ready"}
        assert keys(db.scope("ann").items.recall(vector=EAST)) == ["given"]
        with db._db.write() as tx:
            (own,) = tx.one("SELECT max(space_no) FROM embedding_spaces") or (0,)
            tx.vectors.drop("item", 0, 1 << 62, space_no=own)
        db.file.rebuild()
        db.jobs.run()
        assert (vectors_in(db), db.file.check(deep=True)) == (3, [])


def test_given_vectors_are_exported_and_others_made_anew(
    db: MemDB, tmp_path: Path, open_db: Callable[..., MemDB]
) -> None:
    """Also without embeddings: nobody else has them."""
    items = db.scope("ann").items
    items.put(("n",), "given", {"text": "sea"}, vectors=[EAST, NORTH])
    items.put(("n",), "own", {"text": "red lamp"})
    db.jobs.run()
    db.export(tmp_path / "a.jsonl", embeddings=False)
    other = open_db(tmp_path / "other.db")
    other.import_file(tmp_path / "a.jsonl")
    there = other.scope("ann").items

    assert there.recall(vector=NORTH)[0].score == pytest.approx(1.0)
    assert keys(there.recall("red lamp")) == ["own"]
    other.jobs.run()
    assert (vectors_in(other), other.file.check(deep=True)) == (3, [])
    assert [*other.export_lines(embeddings=False)][1:] == [*db.export_lines(embeddings=False)][1:]


def test_an_export_saves_the_embedder_its_work(
    db: MemDB, tmp_path: Path, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """With embeddings nothing is embedded again, but for what the file does not have."""
    items = db.scope("ann").items
    items.put(("n",), "k", {"a": "red lamp", "b": "green tree"}, index=["a", "b"])
    items.put(("n",), "given", {"text": "sea"}, vectors=[EAST])
    db.jobs.run()
    items.put(("n",), "late", {"text": "tent"})
    db.export(tmp_path / "a.jsonl")
    fresh = make_embedder()
    other = open_db(tmp_path / "other.db", embedder=fresh)
    other.import_file(tmp_path / "a.jsonl")

    assert other.jobs.pending() == 1
    other.jobs.run()
    assert fresh.calls == ["tent"]
    assert (vectors_in(other), other.file.check(deep=True)) == (4, [])
    (hit, *_) = other.scope("ann").recall("green tree", kinds=["item"], by="vector")
    assert (hit.source.key, round(hit.score, 3)) == ("k", 1.0)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"model": "(given)"}, "model"),
        ({"place": None}, "place"),
        ({"place": -1}, "place"),
        ({"item": None}, "item"),
        ({"of": "artifact"}, "of"),
    ],
)
def test_a_bad_vector_line_is_refused(
    db: MemDB, tmp_path: Path, more: dict[str, Any], field: str
) -> None:
    """The error names the field; a vector of no item is left out."""
    line = {
        "kind": "embedding",
        "model": "fake",
        "dim": 2,
        "of": "item",
        "item": "u",
        "place": 0,
        "vector": "AACAPwAAAAA=",
    }
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**line, **more}) + "\n", encoding="utf-8")
    with pytest.raises(memdb.InvalidInput, match=field):
        db.import_file(path, user="ann")
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    db.import_file(path, user="ann")
    assert (vectors_in(db), db.file.check(deep=True)) == (0, [])


def test_forgetting_takes_vectors_too(db: MemDB) -> None:
    """Given and made ones."""
    ann = db.scope("ann")
    ann.items.put(("n",), "a", {"text": "Zoe has a lamp"}, vectors=[EAST, WEST])
    ann.items.put(("n",), "b", {"text": "Zoe has a tree"})
    db.jobs.run()
    receipt = ann.forget(query="Zoe", prove=True)

    assert (receipt.removed["items"], receipt.proven, vectors_in(db)) == (2, True, 0)
    assert db.file.check(deep=True) == []


def test_expired_items_make_no_room_for_others(db: MemDB, clock: Any) -> None:
    """The limit counts live items, also if the nearest ones have expired."""
    items = db.scope("ann").items
    for number in range(30):
        items.put(("n",), f"short{number}", 1, vectors=[EAST], ttl=1)
    items.put(("n",), "long", 1, vectors=[NORTH])
    assert len(items.recall(vector=EAST, limit=3)) == 3
    clock.advance(1_000)

    assert keys(items.recall(vector=EAST, limit=3)) == ["long"]
    db._services.items.remove_expired()
    assert vectors_in(db) == 1


def test_many_vectors_are_searched_by_their_sketches(db: MemDB) -> None:
    """Of thousands the nearest is found, each item once."""
    items = db.scope("ann").items
    operations = [
        memdb.PutItem(
            ("n",),
            f"k{number:04}",
            number,
            vectors=[[1.0, number / 1_000, (number * 7 % 13) / 13], [-1.0, 0.1, number / 999]],
        )
        for number in range(1_500)
    ]
    items.batch(operations)

    (found,) = items.recall(vector=[1.0, 0.7, 700 * 7 % 13 / 13], limit=1)
    assert found.score > 0.999
    every = items.recall(vector=[1.0, 0.0, 0.0], limit=1_000)
    assert len({one.item.key for one in every}) == len(every) == 1_000


def test_a_query_or_a_vector(db: MemDB) -> None:
    """One of the two says what is wanted; an embedder may not take the name of given vectors."""
    items = db.scope("ann").items
    for given in ({}, {"query": "x", "vector": EAST}):
        with pytest.raises(memdb.InvalidInput, match="query or vector"):
            items.recall(**given)


def test_no_embedder_has_the_name_of_given_vectors(tmp_path: Path, make_embedder: Any) -> None:
    """It would compare vectors of different models."""
    embedder = make_embedder()
    embedder.name = "(given)"
    with pytest.raises(memdb.InvalidInput, match=r"embedder\.name"):
        memdb.open(tmp_path / "a.db", embedder=embedder)


@pytest.mark.parametrize("share", [1, 30], ids=["all", "few"])
def test_a_namespace_is_searched_as_if_it_were_alone(db: MemDB, share: int) -> None:
    """Of 2,400 items, however many of them are in it; expired ones and other vectors do not count."""
    items, source = db.scope("ann").items, random.Random(share)
    given: dict[str, list[float]] = {}
    with db.transaction():
        for number in range(2400):
            vectors = [[source.gauss(0, 1) for _ in range(64)] for _ in range(1 + number % 2)]
            namespace = ("in", "below") if number % share == 0 else ("out",)
            items.put(namespace, f"k{number}", number, vectors=vectors, index=False)
            if number % share == 0:
                given[f"k{number}"] = vectors
    asked = [source.gauss(0, 1) for _ in range(64)]

    expected = sorted(given, key=lambda key: -max(cosine(asked, one) for one in given[key]))[:10]
    for place in ({"prefix": ("in",)}, {"prefix": ("in", "below"), "exact": True}):
        found = keys(items.recall(vector=asked, limit=10, **place))
        assert len(found) == 10
        assert len({*found} & {*expected}) >= 9  # sketches find 0.97 of the ten nearest


def cosine(one: list[float], other: list[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths
