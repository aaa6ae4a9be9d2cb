"""
Taking what was deleted off the disk: indexes made anew, the file packed, the WAL cut.

A DELETE leaves bytes in four places: in pages that are free, in the slack of
pages that are used, in the segments of a full-text index, and in the WAL.
"""

from __future__ import annotations

from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.errors import Busy, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database

# What is deleted from here on is overwritten with zeros at once. It is of the
# connection, and costs writes that other work need not pay for.
SECURE = """/* purge.secure */
PRAGMA secure_delete = ON
"""

INSECURE = """/* purge.insecure */
PRAGMA secure_delete = OFF
"""

# Samples of keys that SQLite's planner keeps, if somebody ran ANALYZE.
SELECT_SAMPLES = """/* purge.samples */
SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4'
"""

ANALYZE = """/* purge.analyze */
ANALYZE
"""

VACUUM = """/* purge.vacuum */
VACUUM
"""

CHECKPOINT = """/* purge.checkpoint */
PRAGMA wal_checkpoint(TRUNCATE)
"""

READING = (
    "another reader holds the WAL: it still has the bytes, and goes on having them until that "
    "program closes the file; then prove again"
)
WRITING = "another program kept writing, so the file could not be packed: prove again"


def begin(tx: Tx) -> None:
    """Let what this transaction deletes be overwritten."""
    tx.run(SECURE)


def end(tx: Tx) -> None:
    """Delete as usual again."""
    tx.run(INSECURE)


def purge(db: Database, *, indexes: bool = True) -> list[str]:
    """
    Remove every byte that is not part of a row; return what stood in the way.

    Needs as much free disk as the file is large, and keeps other writers
    waiting. Cost: 1 s per 20,000 messages, and 1 s per 100 MB.

    Args:
        indexes: Make the full-text indexes anew; without it their segments
            still hold the words (a control for tests, not a mode).

    Transaction: several of its own, not inside another. Each leaves a sound file.
    """
    if db.writing:
        raise InvalidInput("purge was called inside a write: call it after the transaction")
    with db.write() as tx:
        begin(tx)
        if indexes:
            tx.words.rebuild()
        if tx.one(SELECT_SAMPLES) is not None:
            tx.run(ANALYZE)
        end(tx)
    if db.path == MEMORY:
        with db.read() as tx:  # holds the lock of the one connection
            tx.run(VACUUM)
        return []
    fresh = Tx(db.connection(writable=True))
    try:
        fresh.run(SECURE)
        try:
            fresh.run(VACUUM)
        except Busy:
            return [WRITING]
        (busy, _, _) = fresh.all(CHECKPOINT)[0]
    finally:
        fresh.close()
    return [READING] if busy else []
