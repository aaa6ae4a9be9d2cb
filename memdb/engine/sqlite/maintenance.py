"""
Keeping an open file small and fast, beside those who use it.
"""

from __future__ import annotations

from contextlib import contextmanager

from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.errors import Busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.sqlite.database import Database

CHECKPOINT = """/* maintenance.checkpoint */
PRAGMA wal_checkpoint(TRUNCATE)
"""

# Each merges some of the parts that an index grew by, and drops marks of deletion.
MERGE = (
    """/* maintenance.messages_fts */
INSERT INTO messages_fts (messages_fts, rank) VALUES ('merge', 500)
""",
    """/* maintenance.archived_fts */
INSERT INTO archived_fts (archived_fts, rank) VALUES ('merge', 500)
""",
    """/* maintenance.entries_fts */
INSERT INTO entries_fts (entries_fts, rank) VALUES ('merge', 500)
""",
    """/* maintenance.summaries_fts */
INSERT INTO summaries_fts (summaries_fts, rank) VALUES ('merge', 500)
""",
    """/* maintenance.artifacts_fts */
INSERT INTO artifacts_fts (artifacts_fts, rank) VALUES ('merge', 500)
""",
)


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
