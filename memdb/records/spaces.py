"""
Embedding spaces: creating one queues everything in the file that it lacks.

Rows of the table of spaces are added and removed only through this module, except by `memdb copy`.
Every function joins the caller's transaction.
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
    Return the number of the space; create the space if it is new.

    A new space makes everything in the file due for embedding. A retired one is used again, and its
    missing vectors become due.
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
    """Return the number of a space for imported vectors; a retired one stays retired."""
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
    """Return the number of the space of given vectors of a dimension; create it if it is new."""
    found = find_given(tx, dim)
    if found is None:
        found = spaces.add_space(tx, spaces.GIVEN, dim)
        spaces.abandon(tx, found)  # no text is queued for it
    return found


def put(tx: Tx, space_no: int, kind: str, pairs: Sequence[tuple[int, bytes]]) -> None:
    """
    Store the vectors of rows in the file, and replace older ones.

    Args:
        kind: "message", "entry", "item" or "summary".
        pairs: (id, vector in its stored form).
    """
    tx.vectors.put(space_no, kind, pairs)


def complete(tx: Tx, space_no: int) -> None:
    """Mark a space as complete for the first time, which retires the others."""
    for retired in spaces.complete(tx, space_no) or ():
        jobs.delete_space(tx, retired)


def complete_if_done(tx: Tx, space_no: int) -> None:
    """
    Mark a space as complete if it has no pending work.

    The call belongs in the transaction of its last vectors, so that nobody sees all of them while
    another space still answers.
    """
    if not jobs.is_unfinished(tx, space_no):
        complete(tx, space_no)


def retire(tx: Tx, space_no: int) -> None:
    """Retire a space and remove its jobs; `remove_piece` then removes it."""
    spaces.abandon(tx, space_no)
    jobs.delete_space(tx, space_no)


def remove_piece(tx: Tx, space_no: int) -> bool:
    """Remove some vectors of a retired space, and finally its row; False when it is gone."""
    if tx.vectors.drop_some(space_no):
        return True
    spaces.delete(tx, space_no)
    return False


def derive(tx: Tx) -> None:
    """Remove unusable vectors, rebuild every sketch, and queue rows without a vector."""
    tx.vectors.rebuild()
    for space_no, model, dim in spaces.list_numbers(tx):
        found = spaces.find_space(tx, model, dim)
        if found is not None and not found.retired:
            jobs.add_missing(tx, space_no)


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the sketches that differ from their vectors."""
    for kind, bucket in tx.vectors.wrong_sketches():
        yield Finding("sketch_differs", f"{kind} bucket {bucket}", rebuildable=True)
