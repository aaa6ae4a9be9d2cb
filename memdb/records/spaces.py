"""
Embedding spaces: making one, with everything in the file that it lacks queued.

The one way in and out of the table of spaces. Every function joins the
caller's transaction.
"""

from __future__ import annotations

from memdb.models.record import Record
from memdb.tables import space_jobs, vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.sqlite.transaction import Tx
    from memdb.tables.vectors import Space


class SpaceName(Record):
    """The embedding space that an embedder fills: its model and dimension."""

    model: str
    dim: int


def find(tx: Tx, name: SpaceName) -> Space | None:
    """Return the space, None if it is new; another process may have dropped it."""
    return vectors.find_space(tx, name.model, name.dim)


def ensure(tx: Tx, name: SpaceName) -> int:
    """
    Return the number of the space, making it if it is new.

    A new space makes everything that the file holds due for embedding; one that
    was retired is used again, and what it lacks becomes due.
    """
    found = find(tx, name)
    if found is None:
        space_no = vectors.add_space(tx, name.model, name.dim)
        if not space_jobs.add_everything(tx, space_no):
            complete(tx, space_no)
        return space_no
    if found.retired:
        vectors.revive(tx, found.space_no)
        space_jobs.add_missing(tx, found.space_no)
    return found.space_no


def restore(tx: Tx, name: SpaceName) -> int:
    """Return the number of a space for imported vectors; one that is retired stays so."""
    found = find(tx, name)
    if found is not None:
        return found.space_no
    space_no = vectors.add_space(tx, name.model, name.dim)
    space_jobs.add_everything(tx, space_no)
    return space_no


def put(tx: Tx, space_no: int, kind: str, pairs: Sequence[tuple[int, bytes]]) -> None:
    """
    Store the vectors of what is in the file, replacing older ones.

    Args:
        kind: "message", "entry" or "summary".
        pairs: (id, vector as it is stored).
    """
    vectors.put(tx, space_no, kind, pairs)


def complete(tx: Tx, space_no: int) -> None:
    """Note that a space has all its vectors for the first time, which retires the others."""
    for retired in vectors.complete(tx, space_no) or ():
        space_jobs.drop_space(tx, retired)


def retire(tx: Tx, space_no: int) -> None:
    """Take a space out of use, with its jobs; `remove_piece` then removes it."""
    vectors.abandon(tx, space_no)
    space_jobs.drop_space(tx, space_no)


def remove_piece(tx: Tx, space_no: int) -> bool:
    """Remove some vectors of a retired space, in the end its row; False once it is gone."""
    return vectors.drop_piece(tx, space_no)
