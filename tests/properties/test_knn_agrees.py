"""Nearest neighbours against numpy's brute force."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from memdb.engine.sqlite.engine import SqliteEngine
from memdb.tables import spaces

ROWS = 3_000
FIRST = 1 << 44


def unit(rows: Any) -> Any:
    """Return rows scaled to length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def cosines(vectors: Any, query: Any) -> Any:
    """Return the cosine of each row with the query, in double precision."""
    return unit(vectors.astype(np.float64)) @ unit(query.astype(np.float64)[None])[0]


class Filled:
    """A file with clustered vectors in one space, and the same in numpy."""

    def __init__(self, database: SqliteEngine, dim: int, kind: str) -> None:
        """Store `ROWS` vectors around 60 centres, with gaps in the refs."""
        self.kind = kind
        self.error = 1e-5 if kind == "item" else 0.01  # other kinds are stored as bytes
        random = np.random.default_rng(dim)
        centres = random.normal(size=(60, dim))
        noise = random.normal(size=(ROWS, dim))
        self.vectors = (centres[random.integers(0, 60, ROWS)] + 0.7 * noise).astype(np.float32)
        self.queries = (
            centres[random.integers(0, 60, 20)] + 0.7 * random.normal(size=(20, dim))
        ).astype(np.float32)
        self.refs = FIRST + np.sort(random.choice(ROWS * 3, ROWS, replace=False))
        self.database = database
        with database.write() as tx:
            self.space = spaces.add_space(tx, "model", dim)
            pairs = zip(self.refs.tolist(), self.vectors, strict=True)
            tx.vectors.put(self.space, kind, [(ref, row.tobytes()) for ref, row in pairs])

    def nearest(self, query: Any, limit: int, **options: Any) -> list[tuple[int, float]]:
        """Ask the store."""
        options = {"span": (0, 1 << 62), **options}
        with self.database.read() as tx:
            return tx.vectors.nearest(
                self.space, self.kind, query.tobytes(), limit=limit, **options
            )

    def brute(self, query: Any, limit: int, where: Any = slice(None)) -> list[tuple[int, float]]:
        """Ask numpy."""
        measured = cosines(self.vectors[where], query)
        refs = self.refs[where]
        order = np.lexsort((refs, -measured))[:limit]
        return [(int(refs[n]), float(measured[n])) for n in order]


@pytest.fixture(
    scope="module",
    params=[
        (20, "item"),
        (128, "message"),
        pytest.param((384, "message"), marks=pytest.mark.slow),
        pytest.param((384, "item"), marks=pytest.mark.slow),
    ],
    ids=lambda one: f"{one[0]} dimensions of a {one[1]}",
)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """Return a filled file of each dimension, also one that fills no whole byte."""
    path = str(tmp_path_factory.mktemp("knn") / "agent.db")
    database = SqliteEngine(path, clock=lambda: 0, ids=str, durability="process")
    yield Filled(database, *request.param)
    database.close()


def refs(answer: list[tuple[int, float]]) -> list[int]:
    """Return the refs of an answer."""
    return [ref for ref, _ in answer]


def test_exact_search_is_brute_force(filled: Filled) -> None:
    """The same refs in the same order, cosines to six digits."""
    for query in filled.queries:
        found, expected = filled.nearest(query, 25, exact=True), filled.brute(query, 25)

        assert [cosine for _, cosine in found] == pytest.approx(
            [cosine for _, cosine in expected], abs=filled.error
        )
        assert len(set(refs(found)) & set(refs(expected))) >= (24 if filled.kind == "item" else 22)


def test_sketches_miss_few(filled: Filled) -> None:
    """Recall at 10 over all queries is 0.95 or more, and what is found is measured exactly."""
    hits = 0
    for query in filled.queries:
        found, expected = filled.nearest(query, 10), filled.brute(query, 10)
        truth = dict(filled.brute(query, ROWS))
        hits += len(set(refs(found)) & set(refs(expected)))

        assert [cosine for _, cosine in found] == pytest.approx(
            [truth[ref] for ref in refs(found)], abs=filled.error
        )

    assert hits >= 0.95 * 10 * len(filled.queries)


def test_the_order_is_total(filled: Filled) -> None:
    """Nearest first, equal ones by ref, and asking again gives the same."""
    query = filled.queries[0]
    found = filled.nearest(query, 200)

    assert found == sorted(found, key=lambda one: (-one[1], one[0]))
    assert filled.nearest(query, 200) == found


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "sketch"])
def test_a_span_is_kept_to(filled: Filled, exact: bool) -> None:
    """Both ends inclusive, also in the middle of a bucket."""
    low, high = int(filled.refs[700]), int(filled.refs[1_234])
    where = slice(700, 1_235)
    query = filled.queries[1]

    found = filled.nearest(query, 535, span=(low, high), exact=exact)

    assert set(refs(found)) == set(filled.refs[where].tolist())
    assert refs(found)[0] == filled.brute(query, 1, where)[0][0]


def test_a_wide_span_is_kept_to_by_sketches(filled: Filled) -> None:
    """Nothing outside takes a candidate's place, though the nearest lie there."""
    where = slice(700, 2_600)
    low, high = int(filled.refs[where][0]), int(filled.refs[where][-1])
    hits = 0
    for query in filled.queries:
        found = refs(filled.nearest(query, 10, span=(low, high)))
        hits += len(set(found) & set(refs(filled.brute(query, 10, where))))

        assert low <= min(found) <= max(found) <= high

    assert hits >= 0.95 * 10 * len(filled.queries)


def test_a_prefilter_acts_before_the_search(filled: Filled) -> None:
    """The nearest of the allowed ones come, though thousands are nearer."""
    query = filled.queries[2]
    farthest = [ref for ref, _ in filled.brute(query, ROWS)[-30:]]

    found = filled.nearest(query, 30, allowed=set(farthest))

    assert sorted(refs(found)) == sorted(farthest)


def test_nothing_allowed_finds_nothing(filled: Filled) -> None:
    """An empty filter is not no filter."""
    assert filled.nearest(filled.queries[0], 5, allowed=set()) == []


def test_another_kind_or_space_is_not_searched(filled: Filled) -> None:
    """Vectors of messages are no entries."""
    with filled.database.read() as tx:
        args = (filled.queries[0].tobytes(), (0, 1 << 62))
        assert tx.vectors.nearest(filled.space, "entry", *args, limit=5) == []
        assert tx.vectors.nearest(filled.space + 1, filled.kind, *args, limit=5) == []


def test_random_deletes_and_puts_keep_the_search_right(
    make_database: Callable[..., SqliteEngine], path: str
) -> None:
    """After each change the answer is that of the vectors that are left."""
    random = np.random.default_rng(7)
    database = make_database(path)
    truth: dict[int, Any] = {}
    with database.write() as tx:
        space = spaces.add_space(tx, "model", 16)
    for _ in range(40):
        low = int(random.integers(0, 900))
        high = low + int(random.integers(0, 300))
        fresh = {
            int(ref): random.normal(size=16).astype(np.float32)
            for ref in random.integers(0, 1_000, 30)
        }
        with database.write() as tx:
            tx.vectors.drop("message", low, high)
            tx.vectors.put(space, "message", [(ref, row.tobytes()) for ref, row in fresh.items()])
        truth = {ref: row for ref, row in truth.items() if not low <= ref <= high} | fresh
        query = random.normal(size=16).astype(np.float32)
        with database.read() as tx:
            found = tx.vectors.nearest(space, "message", query.tobytes(), (0, 1 << 62), limit=2_000)
            wrong = list(tx.vectors.wrong_sketches())

        assert sorted(refs(found)) == sorted(truth)
        assert wrong == []


def test_picked_rows_are_measured_exactly(filled: Filled) -> None:
    """Those without a vector are left out."""
    picked = [int(ref) for ref in filled.refs[5:300:7]]
    query = filled.queries[0]

    with filled.database.read() as tx:
        found = tx.vectors.measure(filled.space, filled.kind, query.tobytes(), [*picked, 3])

    expected = dict(filled.brute(query, ROWS))
    assert dict(found) == pytest.approx({ref: expected[ref] for ref in picked}, abs=filled.error)
