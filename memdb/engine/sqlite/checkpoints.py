"""
Checkpoints: when the WAL moves into its file, and the statements that move it.

A passive checkpoint moves what needs no waiting. A truncating one also clears the mark and leaves
an empty WAL, unless another connection reads or writes. Neither loses anything.

| by | when | kind |
|---|---|---|
| `Upkeep`, `checkpoint_passive` | 20 ms after the first commit of a burst | passive |
| `Upkeep`, `_checkpoint_long` | from `WAL_PAGES` on | passive |
| `Upkeep`, `_checkpoint_if_idle` | just before the next, if over `SMALL_WAL` pages | passive |
| `Upkeep`, `checkpoint_if_idle` | `IDLE_S` after the last commit | truncating |
| a commit, `Upkeep.wal_hook` | from `MOST_TIMES * WAL_PAGES` on | passive |
| `SqliteEngine.close` | if it committed, has its file and WAL, and no write is open | truncating |
| `SqliteEngine.checkpoint` | in the job "checkpoint", and after a sync that failed | truncating |
| `SqliteMaintenance.vacuum` | at its end | truncating |
| `SqliteMaintenance.truncate_wal` | in `forget`, and in a sync with deletions | truncating |
| `SqliteMaintenance.describe_held_wal` | in `check`, from `wal_file.LARGE_WAL_BYTES` on | passive |
| `rescue.recovery.rekey` | before it rewrites the file | truncating |
| SQLite, as the last connection closes | if the mark is cleared | truncating |
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

# Pages in the WAL before they are moved into the file: 16 MB. With SQLite's 1,000
# every 150th append pays for it (p99 1.5 ms instead of 0.4). With 10,000 the WAL
# file grows for longer, and a sync that makes a file longer takes twice the
# time: durable appends were 20 % slower. A WAL `MOST_TIMES` as long is moved by a commit,
# because no thread did it; one of `SMALL_WAL` pages is moved in a moment.
WAL_PAGES, MOST_TIMES, SMALL_WAL = 4_000, 4, 256

# After the last commit, until the WAL is moved into the file; also between two tries.
IDLE_S = 1.0

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

    A writer may set the mark before the WAL is truncated, and close meanwhile. The writer then
    finds the file locked and leaves the mark to this process, which reads it again afterwards.

    Returns:
        Whether another connection prevents it, and the pages moved.
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
