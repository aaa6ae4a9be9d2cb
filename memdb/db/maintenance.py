"""
Keeping an open file small and fast, beside those who use it.
"""

from __future__ import annotations

from memdb.db.connection import MEMORY
from memdb.db.transaction import Tx
from memdb.errors import Busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.db.database import Database

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
    """/* maintenance.nodes_fts */
INSERT INTO nodes_fts (nodes_fts, rank) VALUES ('merge', 500)
""",
    """/* maintenance.artifacts_fts */
INSERT INTO artifacts_fts (artifacts_fts, rank) VALUES ('merge', 500)
""",
)


def checkpoint(db: Database) -> int:
    """
    Move the WAL into the file and cut it; return the pages moved.

    Waits for nobody: what a reader still needs stays until the next time.
    """
    if db.path == MEMORY:
        return 0
    # A connection of its own: the writer's may be inside another thread's transaction.
    fresh = Tx(db.connection(writable=True))
    try:
        fresh.raw.set_busy_handler(None)
        (_, _, moved) = fresh.all(CHECKPOINT)[0]
    except Busy:
        return 0
    finally:
        fresh.close()
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
