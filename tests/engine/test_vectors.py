"""Vectors and sketches; agreement with numpy is in properties/test_knn_agrees.py."""

from array import array
from random import Random
from statistics import mean
from typing import Any

import pytest

import memdb
from memdb.engine.sketches import sketch_of
from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.models.vectors import to_vector
from memdb.tables import spaces


def vector(*numbers: float) -> bytes:
    """Return numbers as float32 bytes."""
    return array("f", numbers).tobytes()


@pytest.fixture
def tx(database: SqliteEngine) -> Any:
    """Return a write with two spaces, of 2 and of 12 dimensions."""
    with database.write() as tx:
        spaces.add_space(tx, "small", 2)
        spaces.add_space(tx, "large", 12)
        yield tx


ALL = (0, 1 << 62)


def stored(tx: Tx) -> list[Any]:
    """Return space, kind and ref of each vector."""
    return tx.all(
        "SELECT space_no, kind, bucket << 8 | (vectors.id & 255) FROM vector_groups "
        "JOIN vectors ON vectors.id >> 8 = vector_groups.id >> 8 ORDER BY 1, 2, 3"
    )


def test_spaces_are_by_model_and_dimension(tx: Tx) -> None:
    """Numbered from 1; a model of another dimension is another space."""
    found = [spaces.find_space(tx, *key) for key in (("small", 2), ("large", 12), ("small", 12))]

    assert [space and space.space_no for space in found] == [1, 2, None]
    assert spaces.add_space(tx, "small", 12) == 3
    assert [(space.model, space.dim, space.vectors) for space in spaces.list_spaces(tx)] == [
        ("small", 2, 0),
        ("large", 12, 0),
        ("small", 12, 0),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2.5], vector(1, 2.5)),
        ((1.0, -0.0), vector(1, -0.0)),
        (vector(1, 2), vector(1, 2)),
        (bytearray(vector(1, 2)), vector(1, 2)),
        pytest.param(memoryview(vector(1, 2)), vector(1, 2), id="memoryview"),
        (array("d", [1, 2]), vector(1, 2)),
        ([0.1, 0.2], vector(0.1, 0.2)),
        ([1e18, 0], vector(1e18, 0)),
        ([1e-14, 0], vector(1e-14, 0)),
    ],
    ids=str,
)
def test_to_vector_takes_numbers_and_bytes(value: Any, expected: bytes) -> None:
    """Float32, little-endian."""
    assert to_vector(value, 2) == expected


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([float("nan"), 1], memdb.InvalidInput),
        ([float("inf"), 1], memdb.InvalidInput),
        ([-float("inf"), 1], memdb.InvalidInput),
        ([1e39, 1], memdb.InvalidInput),
        ([1e20, 0], memdb.InvalidInput),
        ([1e-20, 0], memdb.InvalidInput),
        ([0, 0], memdb.InvalidInput),
        ([1e-60, 0], memdb.InvalidInput),
        (vector(float("nan"), 1), memdb.InvalidInput),
        ([1], memdb.DimensionMismatch),
        ([1, 2, 3], memdb.DimensionMismatch),
        ([], memdb.DimensionMismatch),
        (b"", memdb.DimensionMismatch),
        (b"123", memdb.InvalidInput),
        ("ab", memdb.InvalidInput),
        ([None, 1], memdb.InvalidInput),
        (["1", "2"], memdb.InvalidInput),
        ([[1], [2]], memdb.InvalidInput),
        (5, memdb.InvalidInput),
        ({}, memdb.DimensionMismatch),
    ],
    ids=str,
)
def test_to_vector_refuses(value: Any, error: type[Exception]) -> None:
    """What no distance can be measured from."""
    with pytest.raises(error):
        to_vector(value, 2)


def test_a_vector_of_zeros_is_told_from_a_short_one() -> None:
    """The fix is another one."""
    with pytest.raises(memdb.InvalidInput, match="consists of zeros"):
        to_vector([0, 0], 2)
    with pytest.raises(memdb.InvalidInput, match="scale it"):
        to_vector([1e-20, 0], 2)


def test_put_and_find(tx: Tx) -> None:
    """By space, kind and ref; a second put replaces."""
    tx.vectors.put(1, "entry", [(5, vector(1, 0)), (6, vector(0, 1))])
    tx.vectors.put(1, "entry", [(5, vector(-1, 0))])

    assert tx.vectors.find(1, "entry", [5]).get(5) == vector(-1, 0)
    assert tx.vectors.find(1, "message", [5]).get(5) is None
    assert tx.vectors.find(2, "entry", [5]).get(5) is None
    assert list(tx.vectors.wrong_sketches()) == []
    assert spaces.list_spaces(tx)[0].vectors == 2


def test_a_ref_given_twice_is_stored_once(tx: Tx) -> None:
    """The last one counts."""
    tx.vectors.put(1, "entry", [(5, vector(1, 0)), (5, vector(0, 1))])

    assert tx.vectors.find(1, "entry", [5]).get(5) == vector(0, 1)
    assert list(tx.vectors.wrong_sketches()) == []


def test_nearest_measures_the_cosine(tx: Tx) -> None:
    """Length does not matter; opposite is -1; equal ones go by ref."""
    rows = [
        (1, vector(0, 9)),
        (2, vector(3, 0)),
        (3, vector(-1, 0)),
        (4, vector(5, 5)),
        (5, vector(1, 1)),
    ]
    tx.vectors.put(1, "entry", rows)

    found = tx.vectors.nearest(1, "entry", vector(1, 0), ALL, limit=9)

    assert [ref for ref, _ in found] == [2, 4, 5, 1, 3]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.7071, 0.7071, 0, -1], abs=1e-4)


@pytest.mark.parametrize("size", [60, 100, 300, 511, 1_000, 2_000, 4_000])
def test_a_scope_of_any_size_finds_its_nearest(tx: Tx, size: int) -> None:
    """At least 0.95 of the true ten, of vectors that share directions as sentences do."""
    random, dim = Random(size), 48
    space = spaces.add_space(tx, "sentences", dim)
    topics = [[random.gauss(0, 1) for _ in range(dim)] for _ in range(24)]

    def near(topic: list[float]) -> bytes:
        return vector(*(number + random.gauss(0, 0.7) for number in topic))

    rows = [(ref, near(random.choice(topics))) for ref in range(1, size + 1)]
    tx.vectors.put(space, "entry", rows)
    shares = []
    for topic in topics:
        asked = near(topic)
        found, true = (
            {
                ref
                for ref, _ in tx.vectors.nearest(space, "entry", asked, ALL, limit=10, exact=exact)
            }
            for exact in (False, True)
        )
        shares.append(len(found & true) / 10)

    assert mean(shares) >= 0.95


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "sketch"])
def test_spaces_and_kinds_are_searched_apart(tx: Tx, exact: bool) -> None:
    """A message's vector is no entry's; another model's vector is not compared."""
    tx.vectors.put(1, "entry", [(1, vector(1, 0))])
    tx.vectors.put(1, "message", [(2, vector(1, 0))])
    tx.vectors.put(2, "entry", [(3, vector(*range(12)))])

    assert [
        ref for ref, _ in tx.vectors.nearest(1, "entry", vector(1, 0), ALL, limit=9, exact=exact)
    ] == [1]
    assert [
        ref
        for ref, _ in tx.vectors.nearest(2, "entry", vector(*range(12)), ALL, limit=9, exact=exact)
    ] == [3]


def test_delete_range_is_of_every_space(tx: Tx) -> None:
    """Both ends inclusive, with the sketches, across buckets."""
    refs = [1, 255, 256, 257, 700, 1_000]
    tx.vectors.put(1, "entry", [(ref, vector(1, ref)) for ref in refs])
    tx.vectors.put(2, "entry", [(ref, vector(*range(ref, ref + 12))) for ref in refs])
    tx.vectors.put(1, "message", [(256, vector(1, 1))])

    tx.vectors.drop("entry", 255, 700)

    assert stored(tx) == [
        (1, "entry", 1),
        (1, "entry", 1_000),
        (1, "message", 256),
        (2, "entry", 1),
        (2, "entry", 1_000),
    ]
    assert tx.one("SELECT count(*) FROM vectors") == (5,)
    assert list(tx.vectors.wrong_sketches()) == []


def test_deleting_a_space_deletes_its_groups(tx: Tx) -> None:
    """And no other's; a rebuild deletes the vectors that were left."""
    tx.vectors.put(1, "entry", [(1, vector(1, 0))])
    tx.vectors.put(2, "entry", [(1, vector(*range(12)))])
    tx.run("DELETE FROM embedding_spaces WHERE space_no = 1")

    assert [space.vectors for space in spaces.list_spaces(tx)] == [1]
    assert tx.all("SELECT space_no FROM vector_groups") == [(2,)]
    tx.vectors.rebuild()
    assert tx.one("SELECT count(*) FROM vectors") == (0,)


def test_groups_of_a_scope_stand_together(tx: Tx) -> None:
    """A new group gets the next number of its scope, whatever kind or space; none comes twice."""
    for ref in (5 << 44 | 1, 7 << 44 | 9, 5 << 44 | 600, 5 << 44 | 1):
        tx.vectors.put(1, "entry", [(ref, vector(1, 0))])
    tx.vectors.put(2, "message", [(5 << 44 | 1, vector(*range(12)))])

    ids = [row[0] for row in tx.all("SELECT id FROM vector_groups ORDER BY id")]
    assert [(key >> 44, (key & (1 << 44) - 1) >> 8) for key in ids] == [
        (5, 1),
        (5, 2),
        (5, 3),
        (7, 1),
    ]


@pytest.mark.parametrize(
    ("numbers", "bits"),
    [
        ([1, -1, 0, 2], b"\x09"),
        ([1] * 8, b"\xff"),
        ([-1] * 8, b"\x00"),
        ([0.0] * 7 + [1e-30], b"\x80"),
        ([-1] * 8 + [1], b"\x00\x01"),
    ],
    ids=str,
)
def test_a_sketch_is_one_bit_per_component(numbers: list[float], bits: bytes) -> None:
    """1 above zero, lowest bit first, padded with 0."""
    assert sketch_of(vector(*numbers)) == bits


def test_sketches_are_those_of_sqlite_vec(tx: Tx) -> None:
    """So that other tools can search the same file."""
    tx.use_vectors()
    numbers = vector(*[(-1) ** n * n for n in range(64)])

    assert tx.one("SELECT vec_quantize_binary(:v)", {"v": numbers}) == (sketch_of(numbers),)
