"""
Checkpoints: the statements that move a WAL into its file, and clear the mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from memdb.engine.sqlite.mark import SET_MARK, read_mark
from memdb.engine.sqlite.wal_file import TRIES
from memdb.errors import MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.sqlite.connection import Tx

# Moves what it can without waiting for a reader or a writer.
CHECKPOINT_PASSIVE = """/* checkpoints.passive */
PRAGMA wal_checkpoint(PASSIVE)
"""

CHECKPOINT_TRUNCATE = """/* checkpoints.truncate */
PRAGMA wal_checkpoint(TRUNCATE)
"""


def checkpoint_truncate(tx: Tx, work: Callable[[Tx], None] | None = None) -> tuple[bool, int]:
    """
    Clear the mark after *work* in one transaction, move the WAL into the file and truncate it.

    A writer may set the mark before the WAL is truncated, and close meanwhile. It then finds the
    file locked and leaves the mark to this process, which reads it again afterwards.

    Returns:
        Returns whether another connection prevents it, and the pages moved.
    """
    busy, moved = _truncate_once(tx, work)
    try:
        for _ in range(TRIES):
            if busy or not read_mark(tx).is_set:
                break
            busy, more = _truncate_once(tx)
            moved += more
    except MemDBError:
        pass  # a writer is at work, and clears the mark when it has done
    return busy, moved


def _truncate_once(tx: Tx, work: Callable[[Tx], None] | None = None) -> tuple[bool, int]:
    tx.begin()
    try:
        if work is not None:
            work(tx)
        mark = read_mark(tx)
        if mark.is_set:
            tx.run(SET_MARK, {"value": str(mark.replace(is_set=False))})
        tx.commit()
    finally:
        tx.roll_back()
    (busy, _, moved) = tx.all(CHECKPOINT_TRUNCATE)[0]
    return bool(busy), max(0, int(moved))


def allow_checkpoint_on_close(connection: apsw.Connection) -> None:
    """Allow SQLite to move the WAL into the file and remove it, if *connection* is the last one."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
