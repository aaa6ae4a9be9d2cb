"""Sketches: the nearest of them, with and without numpy, and how long they are kept."""

import random
import struct
import sys
from array import array
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from memdb.engine import sketches
from memdb.engine.sketches import (
    SketchIndex,
    from_bytes,
    nearest_places,
    sketch_of,
    sketch_of_bytes,
    tables_of,
    to_bytes,
    to_planes,
    weights_of,
)
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.engine.sqlite.vectors import cosine_distance
from memdb.tables import spaces

ALL = (0, 1 << 62)

# Below and above 256 dimensions other distances are used; some fill no whole byte or word.
DIMS = (2, 20, 256, 257, 384)


def draw(chance: random.Random, dim: int) -> bytes:
    """Return a random vector."""
    return array("f", [chance.gauss(0.1, 1.0) for _ in range(dim)]).tobytes()


def rows_of(vectors: dict[int, bytes]) -> list[tuple[int, int, bytes, bytes]]:
    """Return vectors by ref as rows of `vector_groups`; ids are 1 << 40 above the refs."""
    rows = []
    for bucket in sorted({ref >> 8 for ref in vectors}):
        slots = sorted(ref & 255 for ref in vectors if ref >> 8 == bucket)
        planes = to_planes([sketch_of(vectors[bucket << 8 | slot]) for slot in slots])
        rows.append(((1 << 40) + (bucket << 8), bucket, bytes(slots), planes))
    return rows


def distances_of(query: bytes, vectors: dict[int, bytes], dim: int) -> dict[int, int]:
    """Return the distance of each sketch, bit by bit."""
    bits = int.from_bytes(sketch_of(query), "little")
    wrong = {ref: bits ^ int.from_bytes(sketch_of(v), "little") for ref, v in vectors.items()}
    if dim > 256:
        part, shift = (1 << 192) - 1, dim.bit_length() - 8
        return {
            ref: sum((some >> at & part).bit_count() >> shift for at in range(0, dim, 192))
            for ref, some in wrong.items()
        }
    weights = weights_of(struct.unpack(f"<{dim}f", query))
    return {
        ref: sum(weight for bit, weight in enumerate(weights) if some >> bit & 1)
        for ref, some in wrong.items()
    }


@pytest.fixture(params=[False, True], ids=["plain", "numpy"])
def with_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compare with or without numpy."""
    module = pytest.importorskip("numpy")
    monkeypatch.setattr(sketches, "loaded_numpy", lambda: module if request.param else None)
    return bool(request.param)


@pytest.mark.usefixtures("with_numpy")
@pytest.mark.parametrize("dim", DIMS)
def test_the_nearest_sketches_are_found(dim: int) -> None:
    """Those of the smallest distances, counted bit by bit, with ties of the last one."""
    chance = random.Random(dim)
    vectors = {ref: draw(chance, dim) for ref in chance.sample(range(1_500), 300)}
    index = SketchIndex(rows_of(vectors), (dim + 7) // 8)
    for wanted in (1, 100, 5_000):
        query = draw(chance, dim)
        measured = distances_of(query, vectors, dim)
        bar = sorted(measured.values())[min(wanted, 300) - 1]

        found = index.nearest(query, wanted, ALL, None)

        assert set(found.values()) == {ref for ref, value in measured.items() if value <= bar}
        assert all(key == (1 << 40) + ref for key, ref in found.items())


@pytest.mark.usefixtures("with_numpy")
@pytest.mark.parametrize("dim", DIMS)
def test_only_what_is_allowed_counts(dim: int) -> None:
    """Inside the span, both ends inclusive, and among the allowed refs."""
    chance = random.Random(dim + 1)
    vectors = {ref: draw(chance, dim) for ref in range(600)}
    index = SketchIndex(rows_of(vectors), (dim + 7) // 8)
    allowed = chance.sample(range(1_000), 300)
    query = draw(chance, dim)
    measured = distances_of(query, vectors, dim)

    for some in (None, allowed, set(allowed), dict.fromkeys(allowed), frozenset[int]()):
        among = {ref for ref in vectors if 200 <= ref <= 555 and (some is None or ref in some)}
        values = sorted(measured[ref] for ref in among)
        bar = values[min(40, len(values)) - 1] if values else -1
        expected = {ref for ref in among if measured[ref] <= bar}
        assert set(index.nearest(query, 40, (200, 555), some).values()) == expected


@pytest.mark.usefixtures("with_numpy")
@pytest.mark.parametrize("dim", DIMS)
def test_the_opposite_is_the_farthest(dim: int) -> None:
    """No sum of distances leaves its byte, though every bit is wrong."""
    query = array("f", [1.0 + n % 3 for n in range(dim)])
    opposite = array("f", [-number for number in query]).tobytes()
    index = SketchIndex(rows_of({1: opposite, 2: query.tobytes(), 3: opposite}), (dim + 7) // 8)

    assert set(index.nearest(query.tobytes(), 1, ALL, None).values()) == {2}
    assert set(index.nearest(query.tobytes(), 2, ALL, None).values()) == {1, 2, 3}


@pytest.mark.parametrize(
    "numbers",
    [[1.0], [1.0] * 256, [0.0] * 255 + [1e-13], [1e18, 1.0], [-2.0, 3.0] * 64],
    ids=["one", "equal", "one of many", "far apart", "two sizes"],
)
def test_weights_use_the_whole_byte(numbers: list[float]) -> None:
    """Whatever the components are, they make 255 together; a larger one weighs no less by 2."""
    weights = weights_of(numbers)

    assert (sum(weights), min(weights) >= 0) == (255, True)
    ranked = [weight for _, weight in sorted(zip(map(abs, numbers), weights, strict=True))]
    assert all(later >= earlier - 1 for earlier, later in pairwise(ranked))


def test_a_table_holds_the_distance_of_every_byte() -> None:
    """The sum of the weights whose bits differ, or their number."""
    for dim in (12, 300):
        query = draw(random.Random(dim), dim)
        tables = tables_of(query)
        weights = weights_of(struct.unpack(f"<{dim}f", query)) if dim <= 256 else [1] * dim
        for place, (table, byte) in enumerate(zip(tables, sketch_of(query), strict=True)):
            near = [*weights[8 * place : 8 * place + 8], *[0 if dim <= 256 else 1] * 8]
            assert list(table) == [
                sum(near[bit] for bit in range(8) if (other ^ byte) >> bit & 1)
                for other in range(256)
            ]


@pytest.mark.parametrize(
    ("measured", "wanted", "mask", "expected"),
    [
        (b"\5\1\3\1", 1, None, [1, 3]),
        (b"\5\1\3\1", 3, None, [1, 2, 3]),
        (b"\5\1\3\1", 9, None, [0, 1, 2, 3]),
        (b"\xff\xff\0", 2, None, [0, 1, 2]),
        (b"\5\1\3\1", 1, b"\1\0\1\0", [2]),
        (b"\xff\1\xff", 2, b"\1\0\1", [0, 2]),
        (b"\5\1", 4, b"\0\0", []),
        (b"", 4, None, []),
    ],
    ids=str,
)
def test_nearest_places(
    measured: bytes, wanted: int, mask: bytes | None, expected: list[int]
) -> None:
    """With ties of the last, also where all is 255; what is masked takes no place."""
    assert nearest_places(measured, wanted, mask) == expected


def test_damaged_planes_stop_no_search() -> None:
    """A group that lacks planes, or has too many, is compared with what it has."""
    vectors = {ref: draw(random.Random(ref), 20) for ref in range(600)}
    rows = rows_of(vectors)
    rows[0] = (*rows[0][:3], rows[0][3][:100])
    rows[1] = (*rows[1][:3], rows[1][3] * 7)

    found = SketchIndex(rows, 3).nearest(vectors[550], 1, ALL, None)

    assert 550 in found.values()


def test_numpy_is_imported_once_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a process that compares little; without numpy it is searched for once."""
    asked = []

    def find(name: str, *_: object) -> None:
        asked.append(name)

    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find)])
    monkeypatch.setattr(SketchIndex, "compared", 0)
    index = SketchIndex(rows_of({1: array("f", [1.0]).tobytes()}), 1)
    for compared in (0, sketches.WORTH_NUMPY - 1, sketches.WORTH_NUMPY, sketches.WORTH_NUMPY):
        monkeypatch.setattr(SketchIndex, "compared", max(compared, SketchIndex.compared))
        index.nearest(array("f", [1.0]).tobytes(), 1, ALL, None)
        if SketchIndex.compared < 0:
            break

    assert asked == ["numpy"]
    index.nearest(array("f", [1.0]).tobytes(), 1, ALL, None)
    assert asked == ["numpy"]


@pytest.fixture
def filled(make_database: Callable[..., SqliteEngine], path: str) -> tuple[SqliteEngine, str]:
    """Return a file with 5,000 vectors in space 1, more than a connection keeps."""
    database = make_database(path)
    with database.write() as tx:
        spaces.add_space(tx, "model", 16)
        chance = random.Random(3)
        tx.vectors.put(1, "message", [(ref, draw(chance, 16)) for ref in range(1, 5_001)])
    return database, path


def best(database: SqliteEngine, query: bytes) -> int:
    """Return the ref that is nearest to *query*."""
    with database.read() as tx:
        return int(tx.vectors.nearest(1, "message", query, ALL, limit=1)[0][0])


@pytest.mark.usefixtures("with_numpy")
def test_kept_sketches_follow_the_file(
    filled: tuple[SqliteEngine, str], make_database: Callable[..., SqliteEngine]
) -> None:
    """What this or another process adds, replaces or deletes counts in the next search."""
    database, path = filled
    other = make_database(path)
    chance = random.Random(9)
    for writer in (database, other, database):
        query = draw(chance, 16)
        before = best(database, query)
        with writer.write() as tx:
            tx.vectors.put(1, "message", [(6_000, query)])
        assert best(database, query) == best(other, query) == 6_000
        with writer.write() as tx:
            tx.vectors.put(1, "message", [(6_000, draw(chance, 16)), (7_000, query)])
        assert best(database, query) == best(other, query) == 7_000
        with writer.write() as tx:
            tx.vectors.drop("message", 6_000, 7_000)
        assert best(database, query) == best(other, query) == before


@pytest.mark.usefixtures("with_numpy")
def test_what_a_write_rolls_back_is_not_kept(filled: tuple[SqliteEngine, str]) -> None:
    """Inside the write its own vector is the nearest, after it no more."""
    database, _ = filled
    query = draw(random.Random(11), 16)
    before = best(database, query)

    class Undone(Exception):
        pass

    with pytest.raises(Undone), database.write() as tx:
        tx.vectors.put(1, "message", [(6_000, query)])
        assert tx.vectors.nearest(1, "message", query, ALL, limit=1)[0][0] == 6_000
        raise Undone
    assert best(database, query) == before
    with database.write() as tx:
        assert tx.vectors.nearest(1, "message", query, ALL, limit=1)[0][0] == before


@pytest.mark.usefixtures("with_numpy")
def test_a_read_keeps_its_moment(filled: tuple[SqliteEngine, str]) -> None:
    """A vector that is written during a read is not in it, though sketches were kept before."""
    database, _ = filled
    query = draw(random.Random(12), 16)
    before = best(database, query)
    with database.read() as tx:
        tx.one("SELECT count(*) FROM vectors")
        with database.write() as other:
            other.vectors.put(1, "message", [(6_000, query)])
        assert tx.vectors.nearest(1, "message", query, ALL, limit=1)[0][0] == before
    assert best(database, query) == 6_000


@pytest.mark.usefixtures("with_numpy")
def test_few_allowed_refs_are_measured_one_by_one(filled: tuple[SqliteEngine, str]) -> None:
    """The same as the exact search of them, in any number."""
    database, _ = filled
    chance = random.Random(13)
    for count in (1, 15, 400, 4_000):
        allowed = set(chance.sample(range(1, 6_000), count))
        query = draw(chance, 16)
        with database.read() as tx:
            found, exact = (
                tx.vectors.nearest(
                    1, "message", query, (100, 4_900), limit=10, allowed=allowed, exact=one
                )
                for one in (False, True)
            )
        assert {ref for ref, _ in exact} <= allowed
        assert exact == sorted(exact, key=lambda row: (-row[1], row[0]))
        assert len({*found} & {*exact}) >= 0.6 * len(exact)  # 16 bits are few


@pytest.mark.parametrize("dim", DIMS)
def test_a_direction_of_bytes_comes_back_the_same(dim: int) -> None:
    """Bytes to floats and back; the cosine with the vector is nearly 1, in any length."""
    chance = random.Random(dim)
    for scale in (1e-9, 1.0, 1e15):
        numbers = array("f", [scale * chance.gauss(0, 1) for _ in range(dim)])
        stored = to_bytes(numbers.tobytes())
        floats = from_bytes(stored)

        assert (len(stored), max(map(abs, array("b", stored)))) == (dim, 127)
        assert to_bytes(floats) == stored
        assert cosine_distance(floats, numbers.tobytes()) < 0.001
        assert sketch_of_bytes(stored) == sketch_of(floats)
        assert (
            to_bytes(array("f", [-number for number in numbers]).tobytes())
            == array("b", [-number for number in array("b", stored)]).tobytes()
        )


def test_damaged_bytes_are_no_error() -> None:
    """None, zeros and -128, which no vector has, stop neither a sketch nor an export."""
    for stored in (b"", bytes(3), b"\x80\x7f"):
        assert len(from_bytes(stored)) == 4 * len(stored)
        assert len(sketch_of_bytes(stored)) == (len(stored) + 7) // 8
    assert sketch_of_bytes(b"\x80\x7f\x01\0\xff") == b"\x06"


def test_messages_keep_their_direction_and_others_their_floats(
    filled: tuple[SqliteEngine, str],
) -> None:
    """What was given comes back to the last bit; what a model made has length 1."""
    database, _ = filled
    given = array("f", [3.0, 0.1, *[0.0] * 14]).tobytes()
    with database.write() as tx:
        for kind in ("item", "entry", "message", "summary"):
            tx.vectors.put(1, kind, [(9_000, given)])
        sizes = tx.all("SELECT length(vector) FROM vectors WHERE id & 255 = 9000 & 255")
        found = {
            kind: tx.vectors.find(1, kind, [9_000]).get(9_000)
            for kind in ("item", "entry", "message")
        }

    assert found["item"] == found["entry"] == given
    assert struct.unpack("<16f", found["message"] or b"")[:2] == pytest.approx(
        (0.9995, 0.0315), abs=1e-3
    )
    assert max(row[0] for row in sizes) == 64
    with database.read() as tx:
        for kind in ("item", "entry", "message"):
            ((ref, cosine),) = tx.vectors.nearest(1, kind, given, ALL, limit=1)
            assert (ref, round(cosine, 6)) == (9_000, 1.0)
            assert tx.vectors.measure(1, kind, given, [9_000]) == [(ref, cosine)]


@pytest.mark.parametrize("special", [(), (0.0,), (-0.0,), (0.0, -0.0, 1e-45, -1e-45)])
def test_a_sketch_has_a_bit_for_each_component_above_zero(special: tuple[float, ...]) -> None:
    """Also beside zeros, and beside neighbours whose bytes look like one."""
    chance = random.Random(4)
    for dim in (1, 7, 8, 384):
        numbers = [chance.choice([*special, chance.gauss(0, 1), 2.0, -2.0]) for _ in range(dim)]
        bits = int.from_bytes(sketch_of(struct.pack(f"<{dim}f", *numbers)), "little")
        assert [bits >> place & 1 for place in range(dim)] == [int(one > 0) for one in numbers]
