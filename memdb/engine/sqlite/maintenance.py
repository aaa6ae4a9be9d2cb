"""
Keeping an open file small and fast, beside those who use it.
"""

from __future__ import annotations

from contextlib import contextmanager

from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.engine.sqlite.words import MERGE
from memdb.errors import Busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.sqlite.database import Database

CHECKPOINT = """/* maintenance.checkpoint */
PRAGMA wal_checkpoint(TRUNCATE)
"""


@contextmanager
def apart(db: Database) -> Iterator[Tx]:
    """
    Give a connection of its own, that may write; in memory the one there is, locked.

    The writer's may be inside another thread's transaction, and readers may not
    even make a temporary table.
    """
    if db.path == MEMORY:
        with db.read() as tx:
            yield tx
        return
    fresh = Tx(db.connection(writable=True))
    try:
        yield fresh
    finally:
        fresh.close()


def checkpoint(db: Database) -> int:
    """
    Move the WAL into the file and cut it; return the pages moved.

    Waits for nobody: what a reader still needs stays until the next time.
    """
    if db.path == MEMORY:
        return 0
    with apart(db) as tx:
        tx.raw.set_busy_handler(None)
        try:
            (_, _, moved) = tx.all(CHECKPOINT)[0]
        except Busy:
            return 0
    return max(0, int(moved))


def merge_indexes(db: Database) -> int:
    """
    Merge parts of the full-text indexes, 500 pages of each at most; how many indexes that was.

    What many small writes left makes each search read more parts. Query plans
    need no such care: memdb keeps no statistics that could change them.

    Transaction: one per index, some tens of milliseconds.
    """
    for sql in MERGE:
        with db.write() as tx:
            tx.run(sql)
    return len(MERGE)
