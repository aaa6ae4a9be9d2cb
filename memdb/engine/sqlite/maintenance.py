"""
Maintenance of an open file beside those who use it: checkpoint, merge of indexes, vacuum.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from memdb.engine.base import Storage
from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.engine.sqlite.words import MERGE, OPTIMIZE
from memdb.errors import Busy, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.database import Database

CHECKPOINT = """/* maintenance.checkpoint */
PRAGMA wal_checkpoint(TRUNCATE)
"""

VACUUM = """/* maintenance.vacuum */
VACUUM
"""

# Makes anew the samples of keys that the planner keeps, if somebody ran ANALYZE.
ANALYZE = """/* maintenance.analyze */
ANALYZE
"""

SELECT_BYTES = """/* maintenance.bytes */
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size
"""

SELECT_FORMAT = """/* maintenance.format */
SELECT user_version FROM pragma_user_version
"""

# dbstat adds up the pages of each table and index.
SELECT_BYTES_BY_TABLE = """/* maintenance.bytes_by_table */
SELECT
  CASE
    WHEN name GLOB '*_fts*' THEN 'full text'
    WHEN name GLOB '*messages*' OR name GLOB '*sessions*' THEN 'messages'
    WHEN name GLOB '*summaries*' THEN 'summaries'
    WHEN name GLOB '*entr*' THEN 'entries'
    WHEN name GLOB '*vectors*' OR name GLOB '*embedding*' OR name GLOB '*sketches*' THEN 'vectors'
    WHEN name GLOB '*artifact*' OR name GLOB '*blob*' THEN 'artifacts'
    WHEN name GLOB '*archive*' THEN 'archive'
    ELSE 'other'
  END AS store,
  sum(pgsize)
FROM dbstat
WHERE aggregate = 1
GROUP BY store
ORDER BY store
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


def vacuum(db: Database) -> int:
    """
    Rewrite the file without free pages; return how many bytes it lost.

    Needs as much free disk as the file is large, and keeps other writers
    waiting: 1 s per 100 MB.

    Transaction: its own; not inside another.

    Raises:
        InvalidInput: it was called inside `with db.write()`.
        Busy: somebody else writes or reads. Where a reader is in the way the
            work is done, and the file shrinks when the last one has closed it,
            or at the next vacuum.
    """
    if db.writing:
        raise InvalidInput("vacuum was called inside a write: call it after the transaction")
    with db.write() as tx:
        for sql in OPTIMIZE:
            tx.run(sql)
    with apart(db) as tx:
        return _shrink(tx)


def _shrink(tx: Tx) -> int:
    before = _bytes(tx)
    tx.run(VACUUM)
    (busy, _, _) = tx.all(CHECKPOINT)[0]
    if busy:
        raise Busy(
            "somebody is reading, so the file could not be cut yet: it was packed, and gets "
            "smaller when the readers have closed it"
        )
    return max(0, before - _bytes(tx))


def _bytes(tx: Tx) -> int:
    row = tx.one(SELECT_BYTES)
    return 0 if row is None else int(row[0])


def measure_storage(db: Database, tx: AnyTx) -> Storage:
    """Return what *db* takes on the disk. Cost: reads every page once, 0.1 s per 100 MB."""
    return Storage(
        format=(tx.one(SELECT_FORMAT) or (0,))[0],
        size_bytes=_file_bytes(db.path),
        wal_bytes=_file_bytes(f"{db.path}-wal"),
        bytes_by_table=dict(tx.all(SELECT_BYTES_BY_TABLE)),
    )


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (pathlib is slow to load)
    except OSError:
        return 0


# What `Engine.maintain` is asked for.
TASKS = {"checkpoint": checkpoint, "merge": merge_indexes, "vacuum": vacuum}
