"""Recall by cosine alone, and with a vector that the host gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

import memdb

if TYPE_CHECKING:
    from collections.abc import Sequence

ANGLES = {"north": 0, "near": 10, "far": 60, "east": 90}


class Compass:
    """Points each text where its last known word says; counts what it was asked."""

    name = "compass"
    dim = 2

    def __init__(self) -> None:
        """Begin with no calls."""
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector per text."""
        self.asked += texts
        return [point(next((ANGLES[w] for w in t.split() if w in ANGLES), 45)) for t in texts]


def point(degrees: float) -> list[float]:
    """Return a vector of length 1."""
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def fill(db: memdb.MemDB) -> memdb.Scope:
    """Return a scope with messages and an entry in several directions."""
    ann = db.scope("ann")
    ann.session("s").extend(
        [{"role": "user", "text": text} for text in ("east words", "far words", "north")]
    )
    ann.session("s").artifacts.save("a.md", "words words")
    ann.remember("near the lake")
    db.jobs.run()
    return ann


def scores(hits: memdb.Hits) -> list[tuple[str, float]]:
    """Return what was found with its score; a cosine of messages is exact to 0.004 here."""
    return [(hit.text, round(hit.score, 2)) for hit in hits]


def test_by_vector_is_the_cosine(path: str, open_db: Any) -> None:
    """Words, neighbours and what an entry is worth do not count; now and in the past."""
    ann = fill(open_db(path, embedder=Compass()))
    expected = [("north", 1.0), ("near the lake", 0.98), ("far words", 0.5)]

    hits = ann.recall("north words", by="vector", explain=True)
    past = ann.recall("north words", by="vector", as_of=ann._services.db.clock())
    shown = {kind: ann.recall("north", by="vector", kinds=[kind]) for kind in ("message", "entry")}

    assert scores(hits)[:3] == expected
    assert scores(past)[:3] == expected
    assert [hit.explanation["vector"] for hit in hits if hit.explanation] == [h.score for h in hits]
    assert scores(shown["message"])[0] == expected[0]
    assert scores(shown["entry"]) == expected[1:2]
    assert "far words" not in dict(scores(ann.recall("north", by="vector", exclude=["far"])))


@pytest.mark.parametrize("by", ["meaning", "vector"])
def test_a_given_vector_is_searched(path: str, open_db: Any, by: Any) -> None:
    """The embedder is not asked; bytes and numbers are the same."""
    compass = Compass()
    ann = fill(open_db(path, embedder=compass))
    compass.asked.clear()

    numbers = ann.recall("lake", by=by, vector=point(85))
    again = ann.recall("lake", by=by, vector=float32(point(85)))

    assert compass.asked == []
    assert numbers == again
    assert "vector" in numbers.arms
    found = [hit.text for hit in numbers]
    assert "east words" in found
    assert found[0] == ("east words" if by == "vector" else "near the lake")


def float32(numbers: list[float]) -> bytes:
    """Return float32 components, little-endian."""
    import struct

    return struct.pack(f"<{len(numbers)}f", *numbers)


@each(
    "vector",
    [
        [1.0],
        [1.0, 2.0, 3.0],
        [],
        [math.nan, 1.0],
        [math.inf, 1.0],
        [0.0, 0.0],
        ["a", "b"],
        [None, 1.0],
        "ab",
        b"123",
        5,
        [1e300, 1.0],
    ],
)
@each("user", ["ann", "nobody"])
def test_a_vector_that_cannot_be_is_refused(
    path: str, open_db: Any, vector: Any, user: str
) -> None:
    """Also in an empty scope."""
    db = open_db(path, embedder=Compass())
    fill(db)

    with pytest.raises((memdb.InvalidInput, memdb.DimensionMismatch), match=r"vector|component"):
        db.scope(user).recall("north", vector=vector)


def test_vectors_need_an_embedder(path: str, open_db: Any) -> None:
    """And do not go together with words alone, nor with what has no vectors."""
    ann = fill(open_db(path, embedder=Compass()))
    for asked in ({"by": "words", "vector": [1, 0]}, {"by": "vector", "kinds": ["artifact"]}):
        with pytest.raises(memdb.InvalidInput, match=r"vector|by"):
            ann.recall("north", **asked)
    ann._services.db.close()

    alone = open_db(path, embedder=None).scope("ann")
    for asked in ({"by": "vector"}, {"vector": [1.0, 0.0]}):
        with pytest.raises(memdb.InvalidInput, match="opened without an embedder"):
            alone.recall("north", **asked)


@pytest.mark.parametrize("by", ["vector", "meaning"])
@pytest.mark.parametrize("query", ["自転車", "велосипед", "فيل", "fiets op straat"])
def test_the_answer_says_what_the_table_cannot_read(path: str, by: Any, query: str) -> None:
    """What is found by letters alone is not taken for an answer."""
    with memdb.open(path) as db:
        ann = db.scope("ann")
        ann.session("s").append("user", "I'm being sold my own stuff. Who cuts the ribbon?")
        ann.session("s").append("user", "I ride my bicycle to work.")

        hits = ann.recall(query, by=by)

    assert hits.missing["vector"] == (
        "static-en-1 does not know these words: it compares their letters"
    )


@pytest.mark.parametrize("kind", ["message", "entry"])
def test_a_single_word_does_not_outweigh_what_a_sentence_model_finds(kind: str) -> None:
    """Of four asked words an unrelated text has one, and the answer none."""
    answer, other = "She paints murals for a living.", "The job centre opens at nine."
    question = "Which job does Berit's sister hold nowadays?"
    near = {answer: (0.9, 0.43589), other: (0.2, 0.9798), question: (1.0, 0.0)}

    class Model:
        name, dim = "sentences-1", 2

        def embed(self, texts: Sequence[str]) -> list[tuple[float, float]]:
            return [next((v for t, v in near.items() if t in text), (0.1, 0.995)) for text in texts]

    with memdb.open(":memory:", embedder=Model()) as db:
        scope = db.scope("ann")
        for text in (other, answer, "The gate squeaks when it rains.", "We fly to Oslo in May."):
            if kind == "entry":
                scope.remember(text)
            else:
                scope.session(text[:4]).append("user", text)
        assert scope.recall(question, kinds=(kind,), min_score=0)[0].text == answer
