"""
Vector search over real sentences, against numpy and sqlite-vec's own table.

    python bench/vectors.py [--rows 100000] [--dim 384] [--vectors FILE.npy]

The sentences are docstrings of the installed packages, embedded with the built-in table; `--dim`
turns its vectors at random into so many dimensions, which keeps who is near to whom, and
`--vectors` takes float32 vectors of another model instead, `(rows + 200, dim)`. CPU time of one
thread, the searches in random order. Set OMP_NUM_THREADS=1, so that numpy uses one thread too.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sysconfig
import tempfile
import time
from pathlib import Path
from statistics import median

import apsw
import numpy as np
import units

from memdb.embeddings.static_model import StaticEmbedder
from memdb.engine import sketches
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.engine.sqlite.vectors import load_vector_functions
from memdb.tables import spaces

ASKED = 200
DIM = 128  # of the built-in table
SPAN = (1 << 44, (1 << 45) - 1)

# A filtered search lets one vector of so many through: in vec0 a metadata column, as memdb's
# caller the refs themselves.
TAGS = 10


def read_sentences(count: int) -> list[str]:
    """Return up to *count* sentences of docstrings, in an order that is always the same."""
    found: set[str] = set()
    for root in (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["stdlib"]):
        for path in sorted(Path(root).rglob("*.py")):
            try:
                tree = ast.parse(path.read_text("utf-8"))
                text = ast.get_docstring(tree) or ""
            except (SyntaxError, ValueError, OSError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    text += "\n\n" + (ast.get_docstring(node) or "")
            parts = (" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+|\n\s*\n", text))
            found.update(part for part in parts if 40 <= len(part) <= 300)
    chosen = sorted(found)
    random.Random(5).shuffle(chosen)
    return chosen[:count]


def embed(count: int, dim: int) -> np.ndarray:
    """Return the vectors of *count* sentences at most, turned into *dim* dimensions."""
    embedder = StaticEmbedder()
    vectors = [one for one in embedder.embed(read_sentences(count)) if one is not None]
    own = np.array([np.frombuffer(bytes(one), np.float32) for one in vectors])
    if dim == DIM:
        return own
    turn = np.random.default_rng(5).standard_normal((DIM, dim))
    return (own @ turn).astype(np.float32)


def fill_vec0(stored: np.ndarray, refs: np.ndarray) -> apsw.Connection:
    """Return a database with the vectors in a table of sqlite-vec, partitioned by scope."""
    dim = stored.shape[1]
    raw = apsw.Connection(":memory:")
    load_vector_functions(raw)
    raw.execute(
        "CREATE VIRTUAL TABLE v USING vec0 "
        f"(scope INTEGER PARTITION KEY, tag INTEGER, e FLOAT[{dim}] distance_metric=cosine)"
    )
    rows = (
        (int(ref), number % TAGS, row.tobytes())
        for number, (ref, row) in enumerate(zip(refs, stored, strict=True))
    )
    raw.executemany("INSERT INTO v (rowid, scope, tag, e) VALUES (?, 1, ?, ?)", rows)
    return raw


def report(took: dict[str, list[float]], hits: dict[str, int]) -> None:
    """Print the median, its ratio to numpy's, and the share of the true ten (of those let through)."""
    reference = median(took["numpy, every vector"])
    for name, seconds in took.items():
        share = hits[name] / (10 * len(seconds))
        ms = median(seconds) * 1000
        print(f"{name:22} p50 {ms:8.2f} ms {ms / reference / 1000:6.2f} x  recall@10 {share:.3f}")
    print(units.line())


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=DIM)
    parser.add_argument("--vectors", type=Path)
    given = parser.parse_args()
    every = np.load(given.vectors) if given.vectors else embed(given.rows + ASKED, given.dim)
    stored, asked = every[: min(given.rows, len(every) - ASKED)], every[-ASKED:]
    unit = stored / np.linalg.norm(stored, axis=1, keepdims=True)
    count, dim = stored.shape
    refs = np.array([1 << 44 | (1 + n // 500) << 24 | (1 + n % 500) for n in range(count)])
    raw = fill_vec0(stored, refs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.db"
        database = SqliteEngine(str(path), clock=lambda: 0, ids=str, durability="process")
        with database.write() as tx:
            space = spaces.add_space(tx, "bench", dim)
            ((empty,),) = tx.all("SELECT page_count * 4096 FROM pragma_page_count")
            pairs = zip(refs.tolist(), stored, strict=True)
            tx.vectors.put(space, "message", [(ref, row.tobytes()) for ref, row in pairs])
            ((full,),) = tx.all("SELECT page_count * 4096 FROM pragma_page_count")
        print(f"{count:,} x {dim}: {(full - empty) / stored.nbytes:.3f} x the floats on disk")
        imported = sketches.loaded_numpy
        with database.read() as tx:

            def nearest(
                query: np.ndarray, *, exact: bool = False, allowed: list[int] | None = None
            ) -> list[int]:
                found = tx.vectors.nearest(
                    space, "message", query.tobytes(), SPAN, limit=10, exact=exact, allowed=allowed
                )
                return [ref for ref, _ in found]

            def scan(query: np.ndarray, every: int = 1) -> list[int]:
                best = np.argpartition(-(unit[::every] @ query), 10)[:10]
                return list(refs[::every][best].tolist())

            def without_numpy(query: np.ndarray, *, exact: bool = False) -> list[int]:
                sketches.loaded_numpy = lambda: None
                try:
                    return nearest(query, exact=exact)
                finally:
                    sketches.loaded_numpy = imported

            def vec0(query: np.ndarray, only: str = "") -> list[int]:
                sql = "SELECT rowid FROM v WHERE e MATCH ? AND scope = 1 AND k = 10" + only
                return [row[0] for row in raw.execute(sql, (query.tobytes(),))]

            ways = {
                "numpy, every vector": scan,
                "memdb with numpy": nearest,
                "memdb without numpy": without_numpy,
                "memdb exact": lambda query: nearest(query, exact=True),
                "exact without numpy": lambda query: without_numpy(query, exact=True),
                "sqlite-vec vec0": vec0,
                "memdb filtered": lambda query: nearest(query, allowed=let_through),
                "vec0 filtered": lambda query: vec0(query, " AND tag = 0"),
            }
            let_through = refs[::TAGS].tolist()
            nearest(asked[0])
            took: dict[str, list[float]] = {name: [] for name in ways}
            hits = dict.fromkeys(ways, 0)
            chance = random.Random(1)
            for query in asked:
                units.turn()
                truth = {False: set(scan(query)), True: set(scan(query, TAGS))}
                for name in chance.sample(sorted(ways), len(ways)):
                    start = time.thread_time()
                    answer = ways[name](query)
                    took[name].append(time.thread_time() - start)
                    hits[name] += len(truth["filtered" in name] & {*answer})
        database.close()
    report(took, hits)


if __name__ == "__main__":
    main()
