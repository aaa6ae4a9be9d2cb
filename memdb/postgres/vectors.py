"""
Vectors by space on a server, and their nearest neighbours. Owns the table `vectors`.

A row contains one vector in the form of files, so both engines return the same cosines. The vector
of a message is its direction, in whole numbers up to 127 per dimension. The others are float32.

A search measures every vector of an id range. `due_indexes` chooses the spaces for which
maintenance creates HNSW indexes. A search of a scope with at least 50,000 vectors of the space
and kind uses these indexes (ADR-0033).
"""

from __future__ import annotations

from math import isnan
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.sketches import from_bytes, to_bytes
from memdb.models.ids import SCOPE_SHIFT
from memdb.postgres.binary import from_pgvector, row_of, to_pgvector
from memdb.tables import checks, jobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from memdb.engine.base import Row, Tx

TABLES = """
CREATE TABLE vectors (
  space_no BIGINT NOT NULL REFERENCES embedding_spaces (space_no) ON DELETE CASCADE,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('entry', 'item', 'message', 'summary')),
  ref BIGINT NOT NULL,
  direction HALFVEC,
  vector VECTOR,
  PRIMARY KEY (space_no, kind, ref),
  CHECK ((direction IS NULL) = (vector IS NOT NULL))
);
"""

# Only the direction of this kind is stored: there are many of it.
AS_BYTES = "message"

# In a row of COPY: how many bytes a ref has, the ref, and how many a vector has.
REF_AND_SIZE = Struct("!iqi")

# So many vectors are deleted at once.
SOME = 4_096

# A scope with so many vectors of a kind is searched by an index: measuring them takes 30 ms.
LEAST_INDEXED = 50_000

# The most dimensions that an index of half-precision floats takes.
MAX_INDEXED_DIM = 4_000

# An index of half-precision floats is coarse, so this many times the limit are measured exactly.
# pgvector keeps so many candidates at most.
CANDIDATE_FACTOR, MAX_CANDIDATES = 2, 1_000

# How long a connection believes what it knows of a scope's indexes, in seconds; of how many.
BELIEVED_S = 60.0
MAX_BELIEVED = 1_000

# What the number of a partition follows.
INDEX_NAME = "vectors_hnsw_{space_no}_{kind}_"


def of_each(name: str, text: str) -> dict[bool, str]:
    """Return a statement about directions under True, and one about vectors under False."""
    return {
        column == "direction": f"/* vectors.{column}_{name} */"
        + text.replace("column", column).replace("TYPE", kind)
        for column, kind in {"direction": "HALFVEC", "vector": "VECTOR"}.items()
    }


# Spaces and kinds with many vectors in a scope, by partition, without an index that is whole.
# `indrelid` is that of the partition.
SELECT_DUE = """/* vectors.due_indexes */
SELECT
  many.part,
  CAST(CAST(CAST(many.part AS REGCLASS) AS OID) AS BIGINT) AS number,
  many.space_no,
  many.kind,
  dim
FROM (
  SELECT DISTINCT part, space_no, kind
  FROM (
    SELECT CAST(CAST(tableoid AS REGCLASS) AS TEXT) AS part, space_no, kind
    FROM vectors
    GROUP BY tableoid, space_no, kind, ref >> :scope_shift
    HAVING count(*) >= :least
  ) AS scopes
) AS many
JOIN embedding_spaces ON embedding_spaces.space_no = many.space_no
WHERE
  dim <= :most_dim
  AND NOT EXISTS (
    SELECT 1
    FROM pg_index
    JOIN pg_class ON pg_class.oid = indexrelid
    WHERE
      indrelid = CAST(many.part AS REGCLASS)
      AND indisvalid
      AND relname = 'vectors_hnsw_' || many.space_no || '_' || many.kind || '_' || indrelid
  )
ORDER BY many.part, many.space_no, many.kind
"""

# Indexes of spaces that are not there any more; their names are those of `INDEX_NAME`.
SELECT_LEFT = """/* vectors.left_indexes */
SELECT CAST(relname AS TEXT)
FROM pg_class
WHERE
  relkind = 'i'
  AND relnamespace = to_regnamespace(quote_ident(current_schema()))
  AND relname ~ '^vectors_hnsw_[0-9]+_[a-z]+_[0-9]+$'
  AND CAST(split_part(relname, '_', 3) AS BIGINT) NOT IN (SELECT space_no FROM embedding_spaces)
ORDER BY relname
"""

DROP_LEFT = "DROP INDEX CONCURRENTLY IF EXISTS {name}"

# No parameter can replace these, so the numbers are put into the text.
DROP_INDEX = "DROP INDEX IF EXISTS {name}"
CREATE_INDEX = """
CREATE INDEX CONCURRENTLY {name} ON {part}
USING hnsw (CAST({column} AS HALFVEC({dim})) halfvec_cosine_ops)
WHERE space_no = {space_no} AND kind = '{kind}'
"""

SELECT_INDEX = """/* vectors.has_index */
SELECT dim FROM embedding_spaces
WHERE
  space_no = :space_no
  AND EXISTS (
    SELECT 1
    FROM pg_index
    JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indisvalid AND starts_with(relname, :name)
  )
"""

COUNT_SOME = """/* vectors.count_some */
SELECT count(*)
FROM (
  SELECT 1 FROM vectors
  WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
  ORDER BY ref
  LIMIT :limit
) AS counted
"""

# The planner does not know how many rows a scope has, and would sort them all.
PREPARE_INDEX = """/* vectors.prepare_index */
SELECT
  set_config('hnsw.iterative_scan', 'relaxed_order', true),
  set_config('hnsw.ef_search', CAST(CAST(:candidates AS INTEGER) AS TEXT), true),
  set_config('enable_sort', 'off', true)
"""

LEAVE_INDEX = """/* vectors.leave_index */
SELECT set_config('enable_sort', 'on', true)
"""

SELECT_BY_INDEX = of_each(
    "indexed",
    """
SELECT ref, column <=> CAST(:vector AS TYPE) AS distance
FROM (
  SELECT ref, column FROM vectors
  WHERE space_no = {space_no} AND kind = '{kind}' AND ref BETWEEN :low AND :high
  ORDER BY CAST(column AS HALFVEC({dim})) <=> CAST(CAST(:vector AS TYPE) AS HALFVEC({dim}))
  LIMIT :candidates
) AS near
ORDER BY distance, ref
LIMIT :limit
""",
)

INSERT = of_each(
    "put",
    """
INSERT INTO vectors (space_no, kind, ref, column)
VALUES (:space_no, :kind, :ref, CAST(:vector AS TYPE))
ON CONFLICT (space_no, kind, ref) DO UPDATE SET column = excluded.column
""",
)

DELETE_RANGE = """/* vectors.delete_range */
DELETE FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
"""

# An array, so that each space is looked up in the index, whatever the planner believes.
DELETE_EVERYWHERE = """/* vectors.delete_everywhere */
DELETE FROM vectors
WHERE
  space_no = ANY(ARRAY(SELECT space_no FROM embedding_spaces))
  AND kind = :kind
  AND ref BETWEEN :low AND :high
"""

SELECT_SOME = """/* vectors.some */
SELECT kind, ref FROM vectors
WHERE space_no = :space_no
ORDER BY kind, ref
LIMIT :limit
"""

COUNT_VECTORS = """/* vectors.count_rows */
SELECT count(*) FROM vectors WHERE space_no = :space_no
"""

SELECT_BETWEEN = """/* vectors.between */
SELECT ref, direction, vector FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY ref
LIMIT :limit
"""

SELECT_STORED = """/* vectors.stored */
SELECT ref, direction, vector FROM vectors
WHERE
  space_no = :space_no
  AND kind = :kind
  AND ref IN (SELECT value FROM json_each(:ids))
"""

SELECT_WITH_VECTOR = """/* vectors.refs_present */
SELECT ref FROM vectors
WHERE
  space_no = :space_no
  AND kind = :kind
  AND ref IN (SELECT value FROM json_each(:ids))
"""

SELECT_WITHOUT_VECTOR = """/* vectors.first_without */
SELECT id FROM messages
WHERE
  id BETWEEN :low AND :high
  AND (text <> '' OR text IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM vectors
    WHERE
      space_no = :space_no
      AND vectors.kind = 'message'
      AND ref = messages.id
      AND ref BETWEEN :low AND :high
  )
ORDER BY id
LIMIT 1
"""

SELECT_NEAREST = of_each(
    "nearest",
    """
SELECT ref, column <=> CAST(:vector AS TYPE) AS distance FROM vectors
WHERE space_no = :space_no AND kind = :kind AND ref BETWEEN :low AND :high
ORDER BY distance, ref
LIMIT :limit
""",
)

SELECT_NEAREST_OF = of_each(
    "nearest_of",
    """
SELECT ref, column <=> CAST(:vector AS TYPE) AS distance FROM vectors
WHERE
  space_no = :space_no
  AND kind = :kind
  AND ref IN (SELECT value FROM json_each(:ids))
ORDER BY distance, ref
LIMIT :limit
""",
)

OF_WRONG_SIZE = """(
  vector_dims(coalesce(vectors.vector, CAST(vectors.direction AS VECTOR))) <> embedding_spaces.dim
)"""
OF_NO_ROW = """(
CASE vectors.kind
  WHEN 'message' THEN NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = ref)
  WHEN 'entry' THEN NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref)
  WHEN 'summary' THEN NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref)
  ELSE ref >= coalesce(
    (
      SELECT vector_ref + vector_count FROM items
      WHERE vector_ref IS NOT NULL AND vector_ref <= ref
      ORDER BY vector_ref DESC
      LIMIT 1
    ),
    0
  )
END
)"""

DELETE_UNUSABLE = f"""/* vectors.delete_bad */
DELETE FROM vectors
USING embedding_spaces
WHERE
  embedding_spaces.space_no = vectors.space_no
  AND ({OF_WRONG_SIZE} OR {OF_NO_ROW})
"""


def _in_rows(sql: str) -> str:
    """Rewrite a statement about groups of vectors, as for files, to one row per vector."""
    sql = compose.without_digest(sql).replace("/* jobs.", "/* vectors.")
    for kind, ref in (("message", "messages.id"), ("entry", "entries.id"), ("item", "texts.ref")):
        row = (
            f"SELECT 1 FROM vectors WHERE space_no = :space_no AND kind = '{kind}' AND ref = {ref}"
        )
        sql = sql.replace(jobs.VECTOR_OF.format(kind=kind, ref=ref), row)
    return sql


# Portable statements that read vectors as files store them.
OVERRIDES = {
    jobs.INSERT_MISSING: _in_rows(jobs.INSERT_MISSING),
    jobs.INSERT_ITEMS: _in_rows(jobs.INSERT_ITEMS),
    checks.RULES["vector_without_row"]: f"""/* vectors.without_row */
SELECT vectors.kind || ' ' || ref FROM vectors
WHERE {OF_NO_ROW}
ORDER BY space_no, kind, ref
LIMIT 20
""",
    checks.RULES["vector_size"]: f"""/* vectors.of_wrong_size */
SELECT vectors.kind || ' ' || ref
FROM vectors
JOIN embedding_spaces ON embedding_spaces.space_no = vectors.space_no
WHERE {OF_WRONG_SIZE}
ORDER BY vectors.space_no, vectors.kind, ref
LIMIT 20
""",
}


class PostgresVectors:
    """The stored vectors in one transaction; see `memdb.engine.base.Vectors`."""

    __slots__ = ("_dims", "_tx")

    def __init__(self, tx: Tx) -> None:
        """Read and write vectors in *tx*."""
        self._tx = tx
        # Of a space with an index that helps in a span, or 0, and until when that holds.
        self._dims: dict[tuple[int, str, tuple[int, int]], tuple[int, float]] = {}

    def put(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """
        Store the vector of each (ref, vector), replacing an older one.

        Of messages the direction is kept, the others as they are. Cost: 30 µs each, and a statement
        that nobody waits for.

        Raises:
            Unsupported: the vectors have more than 16,000 dimensions.
        """
        sql = INSERT[kind == AS_BYTES]
        place = {"space_no": space_no, "kind": kind}
        rows = [
            {**place, "ref": ref, "vector": _stored(kind, vector)}
            for ref, vector in dict(vectors).items()
        ]
        self._tx.many(sql, rows)

    def load(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """
        Store vectors as `list_stored` of another database returned them, and replace older ones.

        Raises:
            Unsupported: the vectors have more than 16,000 dimensions.
        """
        column = "direction" if kind == AS_BYTES else "vector"
        start = row_of(4, space_no.to_bytes(8, "big"), kind.encode())
        refs: list[int] = []
        rows: list[Any] = []  # bytes: of this engine's `load`
        for ref, stored in vectors:
            vector = to_pgvector(stored, is_halves=kind == AS_BYTES)
            refs.append(ref)
            rows.append(start + REF_AND_SIZE.pack(8, ref, len(vector)) + vector)
        if rows:
            self.drop(kind, min(refs), max(refs), space_no)
            self._tx.load("vectors", ("space_no", "kind", "ref", column), rows)

    def drop(self, kind: str, low: int, high: int, space_no: int | None = None) -> None:
        """Remove the vectors of all refs in [low, high]; in every space, or in one."""
        place = {"kind": kind, "low": low, "high": high}
        if space_no is None:
            self._tx.many(DELETE_EVERYWHERE, [place])
        else:
            self._tx.many(DELETE_RANGE, [{**place, "space_no": space_no}])

    def drop_some(self, space_no: int) -> bool:
        """Remove at most 4,096 vectors of a space; False if it has none left."""
        found = self._tx.all(SELECT_SOME, {"space_no": space_no, "limit": SOME})
        if not found:
            return False
        kind = found[0][0]
        refs = [ref for of, ref in found if of == kind]
        self.drop(kind, refs[0], refs[-1], space_no)
        return True

    def count(self, space_no: int) -> int:
        """Return the number of vectors in a space; reads an index."""
        return self._tx.read_number(COUNT_VECTORS, {"space_no": space_no})

    def find(self, space_no: int, kind: str, refs: Iterable[int]) -> dict[int, bytes]:
        """Return the vectors of those of *refs* that have one, by ref; see `list_page`."""
        rows = self._tx.all(SELECT_STORED, {"space_no": space_no, "kind": kind, "ids": [*refs]})
        return {row[0]: _floats(row) for row in rows}

    def list_page(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """
        Return (ref, vector) of up to *limit* rows with *after* < ref <= *high*, by ref.

        The vectors are float32, those of messages of length 1.
        """
        rows = self._between(space_no, kind, (after + 1, high), limit)
        return [(row[0], _floats(row)) for row in rows]

    def list_stored(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return what `list_page` returns, but for messages the signed bytes of files."""
        rows = self._between(space_no, kind, (after + 1, high), limit)
        return [(row[0], _as_in_files(row)) for row in rows]

    def _between(self, space_no: int, kind: str, span: tuple[int, int], limit: int) -> list[Row]:
        values = {"low": span[0], "high": span[1], "limit": limit}
        return self._tx.all(SELECT_BETWEEN, {"space_no": space_no, "kind": kind, **values})

    def present(self, space_no: int, kind: str, refs: Iterable[int]) -> set[int]:
        """Return those of *refs* that have a vector."""
        values = {"space_no": space_no, "kind": kind, "ids": [*refs]}
        return {row[0] for row in self._tx.all(SELECT_WITH_VECTOR, values)}

    def first_missing(self, space_no: int, low: int, high: int) -> int | None:
        """Return the first message id in [low, high] with a text and no vector; None without."""
        values = {"space_no": space_no, "low": low, "high": high}
        return self._tx.find_number(SELECT_WITHOUT_VECTOR, values)

    def nearest(
        self,
        space_no: int,
        kind: str,
        vector: bytes,
        span: tuple[int, int],
        *,
        limit: int,
        allowed: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """
        Return the refs nearest to *vector* with their cosine, nearest first.

        Args:
            vector: As `memdb.models.vectors.to_vector` returns it, of the space's dimension.
            span: First and last ref to look at, both inclusive.
            limit: Most refs to return.
            allowed: Search only these refs of the span; None means all of it.
            exact: Measure every vector of the span, even if an index could be used.

        Returns:
            (ref, cosine) with the cosine in [-1, 1], equal ones ordered by ref. An index
            finds at least 0.95 of the true ten nearest (ADR-0033).

        Cost: 5 ms for 10,000 vectors of 128 dimensions; with an index about as much for any number.
        """
        low, high = span
        values = {
            "space_no": space_no,
            "kind": kind,
            "vector": _stored(kind, vector),
            "limit": limit,
        }
        is_direction = kind == AS_BYTES
        if allowed is not None:
            refs = [ref for ref in allowed if low <= ref <= high]
            return _cosines(self._tx.all(SELECT_NEAREST_OF[is_direction], {**values, "ids": refs}))
        values |= {"low": low, "high": high}
        dim = 0 if exact else self._indexed_dim(space_no, kind, span)
        if not dim:
            return _cosines(self._tx.all(SELECT_NEAREST[is_direction], values))
        candidates = min(CANDIDATE_FACTOR * limit, MAX_CANDIDATES)
        sql = SELECT_BY_INDEX[is_direction].format(space_no=space_no, kind=kind, dim=dim)
        self._tx.many(PREPARE_INDEX, [{"candidates": max(candidates, 100)}])
        found = self._tx.all(sql, {**values, "candidates": candidates})
        self._tx.many(LEAVE_INDEX, [{}])
        return _cosines(found)

    def measure(
        self, space_no: int, kind: str, vector: bytes, refs: Collection[int]
    ) -> list[tuple[int, float]]:
        """
        Return the cosine of each of *refs* that has a vector, nearest first.

        Cost: 1 ms for 200.
        """
        values = {
            "space_no": space_no,
            "kind": kind,
            "vector": _stored(kind, vector),
            "limit": -1,
            "ids": [*refs],
        }
        return _cosines(self._tx.all(SELECT_NEAREST_OF[kind == AS_BYTES], values))

    def _indexed_dim(self, space_no: int, kind: str, span: tuple[int, int]) -> int:
        """Return the dimension of a space whose index helps for a span, or 0."""
        key = space_no, kind, span
        dim, until_s = self._dims.get(key, (0, 0.0))
        if monotonic() < until_s:
            return dim
        name = INDEX_NAME.format(space_no=space_no, kind=kind)
        row = self._tx.one(SELECT_INDEX, {"space_no": space_no, "name": name})
        dim = 0
        if row is not None:
            place = {"space_no": space_no, "kind": kind, "low": span[0], "high": span[1]}
            counted = self._tx.one(COUNT_SOME, {**place, "limit": LEAST_INDEXED})
            dim = int(row[0]) if counted is not None and counted[0] >= LEAST_INDEXED else 0
        if len(self._dims) >= MAX_BELIEVED:
            self._dims.clear()
        self._dims[key] = dim, monotonic() + BELIEVED_S
        return dim

    def rebuild(self) -> None:
        """Delete vectors without a row or of the wrong size; nothing else is derived."""
        self._tx.run(DELETE_UNUSABLE)

    def wrong_sketches(self) -> Iterator[tuple[str, int]]:
        """Yield nothing: a server has no sketches."""
        return iter(())


def due_indexes(tx: Tx) -> list[str]:
    """
    Return the statements that create the missing indexes of large scopes.

    Each is run outside a transaction, and no writer waits for it. Cost: reads the keys of all
    vectors, 0.2 s per million.
    """
    limits = {"scope_shift": SCOPE_SHIFT, "least": LEAST_INDEXED, "most_dim": MAX_INDEXED_DIM}
    found = []
    for part, number, space_no, kind, dim in tx.all(SELECT_DUE, limits):
        name = f"{INDEX_NAME.format(space_no=space_no, kind=kind)}{number}"
        values = {"name": name, "part": part, "space_no": space_no, "kind": kind, "dim": dim}
        values["column"] = "direction" if kind == AS_BYTES else "vector"
        found += [DROP_INDEX.format(**values), CREATE_INDEX.format(**values)]
    return found


def left_indexes(tx: Tx) -> list[str]:
    """Return the statements that drop the indexes of dropped spaces, outside of a transaction."""
    return [DROP_LEFT.format(name=name) for (name,) in tx.all(SELECT_LEFT)]


def _stored(kind: str, vector: bytes) -> bytes:
    """Return a float32 vector in the binary format of its kind's column."""
    is_halves = kind == AS_BYTES
    return to_pgvector(to_bytes(vector) if is_halves else vector, is_halves=is_halves)


def _as_in_files(row: Row) -> bytes:
    """Return the vector of a row (ref, direction, vector) as a file contains it."""
    direction, vector = row[1], row[2]
    return from_pgvector(vector) if direction is None else from_pgvector(direction, is_halves=True)


def _floats(row: Row) -> bytes:
    """Return the vector of a row (ref, direction, vector) as little-endian float32."""
    stored = _as_in_files(row)
    return stored if row[1] is None else from_bytes(stored)


def _cosines(rows: list[Row]) -> list[tuple[int, float]]:
    """Return (ref, cosine), without vectors that have no cosine."""
    return [(ref, 1 - distance) for ref, distance in rows if not isnan(distance)]
