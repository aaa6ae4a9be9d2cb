"""
Return the room of deleted rows: merge indexes, and remove free pages from the file.

All of it is done in steps of some milliseconds, each a transaction of its own. So others can write
in between, and a stopped program loses at most the step in progress. The file must be able to move
pages for that (auto_vacuum = INCREMENTAL, set when it is made). A file of an older memdb gets that
by its first full rewrite (ADR-0044).
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

from memdb.engine.sqlite.words import MERGE, of_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx
    from memdb.models.types import Progress


# How long others wait for a step, and the pause in which they get their turn.
HOLD_S, PAUSE_S = 0.005, 0.001

# Pages between two looks at the time. Each merge leaves a page that is not full: more at once makes
# the index smaller by 3 %, and a step of a million messages four times as long.
MERGED_PAGES, MOVED_PAGES = 16, 16

# One change is that of the statement itself. Source: sqlite.org/fts5.html#the_merge_command
MERGED_CHANGES = 2

# What `PRAGMA auto_vacuum` says of a file whose pages can be moved.
INCREMENTAL = 2

# Of how many parts an index consists, and of how many pages.
COUNT_PARTS = of_each(
    "packing.parts_of",
    """SELECT count(DISTINCT segid), count(*) FROM {name}_fts_idx
""",
)

SELECT_MODE = """/* packing.mode */
SELECT auto_vacuum FROM pragma_auto_vacuum
"""

SELECT_FREE_PAGES = """/* packing.free_pages */
SELECT freelist_count FROM pragma_freelist_count
"""

SELECT_PAGES = """/* packing.pages */
SELECT page_count FROM pragma_page_count
"""

# Moves up to 16 of the last pages of the file to free ones, and cuts the file.
MOVE_PAGES = """/* packing.move_pages */
PRAGMA incremental_vacuum(16)
"""


def moves_pages(tx: Tx) -> bool:
    """Return whether free pages of the file can be removed in steps."""
    row = tx.one(SELECT_MODE)
    return row is not None and int(row[0]) == INCREMENTAL


def count_free_pages(tx: Tx) -> int:
    """Return the number of free pages in the file."""
    return tx.read_number(SELECT_FREE_PAGES)


def count_pages(tx: Tx) -> int:
    """Return the number of pages in the file."""
    return tx.read_number(SELECT_PAGES)


def merge_piece(tx: Tx, sql: str, pages: int) -> bool:
    """
    Merge some pages of an index; return whether there is more to do.

    Args:
        pages: A number below zero starts merging all parts of the index into one.
    """
    before = tx.raw.total_changes()
    tx.run(sql, {"pages": pages})
    changed: int = tx.raw.total_changes() - before
    return changed >= MERGED_CHANGES


def move_piece(tx: Tx) -> bool:
    """Remove up to 16 free pages from the file; return whether there are more."""
    tx.all(MOVE_PAGES)
    return count_free_pages(tx) > 0


def step(db: SqliteFile, piece: Callable[[Tx], bool]) -> tuple[int, bool]:
    """
    Work for five milliseconds in one transaction; return the pieces done, and if more are left.

    Transaction: its own.
    """
    done = 0
    with db.write() as tx:
        tx.known()
        end = monotonic() + HOLD_S
        has_more = True
        while has_more and (not done or monotonic() < end):
            has_more = piece(tx)
            done += 1
        tx.keep_known()
    return done, has_more


def merge_some(db: SqliteFile, pages: int) -> None:
    """Merge up to *pages* of each index that has enough parts of one size."""
    for sql in MERGE.values():

        def piece(tx: Tx, sql: str = sql) -> bool:
            return merge_piece(tx, sql, MERGED_PAGES)

        left, has_more = pages, True
        while left > 0 and has_more:
            done, has_more = step(db, piece)
            left -= done * MERGED_PAGES
            if has_more:
                sleep(PAUSE_S)


def pack(db: SqliteFile, progress: Progress | None, *, merge_only: bool = False) -> None:
    """
    Make one part of each full-text index, without dropped words; then return free pages.

    Args:
        progress: Called with (done, total) pages after each step. If it raises, the packing ends,
            and finished steps stay.
        merge_only: Free pages stay.
    """
    with db.read() as tx:
        parts = [tx.one(sql) or (0, 0) for sql in COUNT_PARTS.values()]
        free = count_free_pages(tx)
    done, total = 0, sum(pages for count, pages in parts if count > 1) + free
    for sql, (count, pages) in zip(MERGE.values(), parts, strict=True):
        if count > 1:
            for merged in _merge_whole(db, sql):
                _tell(progress, done + min(merged, pages), total)
            done += pages
    if merge_only:
        return
    with db.read() as tx:
        left = count_free_pages(tx)
    total = done + left
    while left > 0:
        moved, has_more = step(db, move_piece)
        left = left - moved * MOVED_PAGES if has_more else 0  # others may free pages without end
        _tell(progress, total - max(left, 0), total)
    _tell(progress, total, total)


def _merge_whole(db: SqliteFile, sql: str) -> Iterator[int]:
    """Make one part of an index; yield after each step the number of merged pages."""
    merged, first = 0, [-MERGED_PAGES]

    def piece(tx: Tx) -> bool:
        return merge_piece(tx, sql, first.pop() if first else MERGED_PAGES)

    has_more = True
    while has_more:
        done, has_more = step(db, piece)
        merged += done * MERGED_PAGES
        yield merged


def _tell(progress: Progress | None, done: int, total: int) -> None:
    """Report the progress, and let other writers go first."""
    if progress is not None:
        progress(done, total)
    sleep(PAUSE_S)
