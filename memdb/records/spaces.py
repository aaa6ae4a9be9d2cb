"""
Embedding spaces: making one, with everything in the file that it lacks queued.

The one way in and out of the table of spaces. Every function joins the
caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.messages import Finding
from memdb.models.record import Record
from memdb.tables import jobs, spaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb.engine.base import Tx
    from memdb.tables.spaces import Space


class SpaceName(Record):
    """The embedding space that an embedder fills: its model and dimension."""

    model: str
    dim: int


def find(tx: Tx, name: SpaceName) -> Space | None:
    """Return the space, None if it is new; another process may have dropped it."""
    return spaces.find_space(tx, name.model, name.dim)


def ensure(tx: Tx, name: SpaceName) -> int:
    """
    Return the number of the space, making it if it is new.

    A new space makes everything that the file holds due for embedding; one that
    was retired is used again, and what it lacks becomes due.
    """
    found = find(tx, name)
    if found is None or found.retired:
        tx.known().clear()  # a session without messages has no job in it
    if found is None:
        space_no = spaces.add_space(tx, name.model, name.dim)
        if not jobs.add_missing(tx, space_no):
            complete(tx, space_no)
        return space_no
    if found.retired:
        spaces.revive(tx, found.space_no)
        jobs.add_missing(tx, found.space_no, again=True)
    return found.space_no


def restore(tx: Tx, name: SpaceName) -> int:
    """Return the number of a space for imported vectors; one that is retired stays so."""
    found = find(tx, name)
    if found is not None:
        return found.space_no
    space_no = spaces.add_space(tx, name.model, name.dim)
    jobs.add_missing(tx, space_no)
    return space_no


def find_given(tx: Tx, dim: int) -> int | None:
    """Return the number of the space of given vectors of a dimension, None if there is none."""
    found = spaces.find_space(tx, spaces.GIVEN, dim)
    return None if found is None else found.space_no


def ensure_given(tx: Tx, dim: int) -> int:
    """Return the number of the space of given vectors of a dimension, made if it is new."""
    found = find_given(tx, dim)
    if found is None:
        found = spaces.add_space(tx, spaces.GIVEN, dim)
        spaces.abandon(tx, found)  # no text is queued for it
    return found


def put(tx: Tx, space_no: int, kind: str, pairs: Sequence[tuple[int, bytes]]) -> None:
    """
    Store the vectors of what is in the file, replacing older ones.

    Args:
        kind: "message", "entry", "item" or "summary".
        pairs: (id, vector as it is stored).
    """
    tx.vectors.put(space_no, kind, pairs)


def complete(tx: Tx, space_no: int) -> None:
    """Note that a space has all its vectors for the first time, which retires the others."""
    for retired in spaces.complete(tx, space_no) or ():
        jobs.delete_space(tx, retired)


def complete_if_done(tx: Tx, space_no: int) -> None:
    """
    Note that a space has all its vectors, if no work of it is left.

    Belongs into the transaction of its last vectors: nobody may see them all there
    while another space answers still.
    """
    if not jobs.is_unfinished(tx, space_no):
        complete(tx, space_no)


def retire(tx: Tx, space_no: int) -> None:
    """Take a space out of use, with its jobs; `remove_piece` then removes it."""
    spaces.abandon(tx, space_no)
    jobs.delete_space(tx, space_no)


def remove_piece(tx: Tx, space_no: int) -> bool:
    """Remove some vectors of a retired space, in the end its row; False once it is gone."""
    if tx.vectors.drop_some(space_no):
        return True
    spaces.delete(tx, space_no)
    return False


def derive(tx: Tx) -> None:
    """Remove vectors that cannot be used, rebuild every sketch, and queue what lacks a vector."""
    tx.vectors.rebuild()
    for space_no, model, dim in spaces.list_numbers(tx):
        found = spaces.find_space(tx, model, dim)
        if found is not None and not found.retired:
            jobs.add_missing(tx, space_no)


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the sketches that differ from their vectors."""
    for kind, bucket in tx.vectors.wrong_sketches():
        yield Finding("sketch_differs", f"{kind} bucket {bucket}", rebuildable=True)
