"""
Embedding spaces: which models have vectors in the file. Owns the table `embedding_spaces`.

The vectors themselves are the engine's (`tx.vectors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.errors import existing
from memdb.models.messages import SpaceInfo
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.engine.base import Tx

# The model of the spaces whose vectors callers give: no embedder fills them.
GIVEN = "(given)"

OUTDATING = compose.Notes(outdates_known=True)  # a space was known to get vectors

SELECT_SPACE = """/* spaces.find_space */
SELECT space_no, model, dim, complete_ms IS NOT NULL, retired_ms IS NOT NULL
FROM embedding_spaces
WHERE model = :model AND dim = :dim AND metric = 'cosine'
"""

INSERT_SPACE = compose.insert(
    "spaces.add_space",
    "embedding_spaces",
    "model, dim",
    metric="'cosine'",
    created_ms=":now_ms",
    numbered="space_no",
    returning="space_no",
)

# Texts that wait: of a session those from `next_seq` on, empty ones too.
SELECT_SPACES = """/* spaces.list_spaces */
SELECT
  space_no,
  model,
  dim,
  complete_ms IS NOT NULL,
  retired_ms IS NOT NULL,
  (
    SELECT CAST(
      coalesce(
        sum(
          CASE
            WHEN subject = 'session' AND last_seq > next_seq THEN last_seq - next_seq + 1
            ELSE 1
          END
        ),
        0
      ) AS BIGINT
    )
    FROM jobs
    LEFT JOIN sessions ON subject = 'session' AND sessions.id = ref
    WHERE jobs.space_no = embedding_spaces.space_no
  )
FROM embedding_spaces
ORDER BY space_no
"""

UPDATE_COMPLETE = compose.update(
    "spaces.complete",
    "embedding_spaces",
    "space_no = :space_no AND complete_ms IS NULL",
    complete_ms=":now_ms",
)

UPDATE_OTHERS_RETIRED = compose.update(
    "spaces.retire_others",
    "embedding_spaces",
    "space_no <> :space_no AND retired_ms IS NULL",
    retired_ms=":now_ms",
    returning="space_no",
)
compose.annotate(UPDATE_OTHERS_RETIRED, OUTDATING)

UPDATE_REVIVED = compose.update(
    "spaces.revive", "embedding_spaces", "space_no = :space_no", retired_ms="NULL"
)

UPDATE_ABANDONED = compose.update(
    "spaces.abandon",
    "embedding_spaces",
    "space_no = :space_no",
    complete_ms="NULL",
    retired_ms=":now_ms",
)
compose.annotate(UPDATE_ABANDONED, OUTDATING)

DELETE_SPACE = compose.delete("spaces.delete_space", "embedding_spaces", "space_no = :space_no")
compose.annotate(DELETE_SPACE, OUTDATING)

SELECT_NUMBERS = """/* spaces.list_numbers */
SELECT space_no, model, dim FROM embedding_spaces ORDER BY model, dim, space_no
"""


class Space(Record):
    """
    A space as it stands in the file.

    Attributes:
        complete: All that the file held had its vector at least once.
        retired: It gets no new vectors, because another took its place.
    """

    space_no: int
    model: str
    dim: int
    complete: bool
    retired: bool


def find_space(tx: Tx, model: str, dim: int) -> Space | None:
    """Return a model's space, None if the file has none. Cost: 10 µs."""
    row = tx.one(SELECT_SPACE, {"model": model, "dim": dim})
    if row is None:
        return None
    space_no, known, components, is_complete, is_retired = row
    return Space(space_no, known, components, bool(is_complete), bool(is_retired))


def add_space(tx: Tx, model: str, dim: int) -> int:
    """Add a space and return its number."""
    values = {"model": model, "dim": dim, "now_ms": tx.now_ms}
    return existing(tx.find_number(INSERT_SPACE, values), "embedding_spaces")


def list_spaces(tx: Tx) -> tuple[SpaceInfo, ...]:
    """Return every space in the order of their making."""
    found = []
    for space_no, model, dim, is_complete, is_retired, due in tx.all(SELECT_SPACES):
        state = "ready" if is_complete else "filling"
        state = "retired" if is_retired else state
        state = "given" if model == GIVEN else state
        found.append(SpaceInfo(model, dim, tx.vectors.count(space_no), state, due))
    return tuple(found)


def complete(tx: Tx, space_no: int) -> list[int] | None:
    """
    Note that a space has all its vectors, and retire the others.

    Returns:
        The spaces that are retired now; None if it was complete already.
    """
    values = {"space_no": space_no, "now_ms": tx.now_ms}
    if not tx.count_changed(UPDATE_COMPLETE, values):
        return None
    return [row[0] for row in tx.all(UPDATE_OTHERS_RETIRED, values)]


def revive(tx: Tx, space_no: int) -> None:
    """Note that a space gets new vectors again."""
    tx.run(UPDATE_REVIVED, {"space_no": space_no})


def abandon(tx: Tx, space_no: int) -> None:
    """Retire a space that is to be dropped, piece by piece."""
    tx.run(UPDATE_ABANDONED, {"space_no": space_no, "now_ms": tx.now_ms})


def delete(tx: Tx, space_no: int) -> None:
    """Remove a space that has no vectors left."""
    tx.run(DELETE_SPACE, {"space_no": space_no})


def list_numbers(tx: Tx) -> list[tuple[int, str, int]]:
    """Return (number, model, dimension) of every space, by model and dimension."""
    return tx.all(SELECT_NUMBERS)
