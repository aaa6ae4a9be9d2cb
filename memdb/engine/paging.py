"""
Iteration over rows that may outlive the transaction in which it began.

A page contains rows that the consumer has not seen yet. If a page was read in a transaction that is
rolled back later, its rows never existed. Then `pages_of` reads again after the last row that it
yielded, and `refuse_undone` raises an error where all rows must be of one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Engine, Tx

    T = TypeVar("T")
    K = TypeVar("K")


def pages_of(
    db: Engine,
    read: Callable[[Tx, K, int], list[T]],
    key_of: Callable[[T], K],
    after: K,
    *,
    limit: int,
    size: int,
) -> Iterator[T]:
    """
    Yield at most *limit* rows after the key *after*, as they are when each page is read.

    Args:
        read: Returns at most this many rows after a key; fewer mean that there are no more.
        key_of: Returns the key of a row.
        size: Rows per page.
    """
    while limit > 0:
        count = min(size, limit)
        is_undone = db.watch_undo()
        with db.read() as tx:
            page = read(tx, after, count)
        given = 0
        if is_undone is None:
            yield from page
            given = len(page)
        else:
            for row in page:
                yield row
                given += 1
                if is_undone():
                    break
        if len(page) < count and (is_undone is None or not is_undone()):
            return
        limit -= given
        if given:
            after = key_of(page[given - 1])


def refuse_undone(db: Engine, rows: Iterator[T], what: str) -> Iterator[T]:
    """
    Yield *rows*, which belong to one moment, while that moment stays valid.

    Raises:
        InvalidInput: the transaction in which they were read was rolled back; it names *what*.
    """
    while True:
        is_undone = db.watch_undo()
        try:
            row = next(rows)
        except StopIteration:
            return
        yield row
        if is_undone is not None and is_undone():
            raise InvalidInput(
                f"the transaction in which {what} began was rolled back: call the method again"
            )
