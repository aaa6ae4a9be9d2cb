"""
A write transaction: its begin, its savepoints, its commit with notifications, its end.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Protocol

from memdb.engine.blocks import Block
from memdb.engine.sqlite.connection import NO_WAL_YET
from memdb.errors import Interrupted, MemDBError

if TYPE_CHECKING:
    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx
    from memdb.engine.sqlite.pool import ConnectionPool
    from memdb.engine.sqlite.upkeep import Upkeep
    from memdb.engine.sqlite.wal_sync import SharedSync
    from memdb.engine.sqlite.writer import Writer

    class WritableFile(SqliteFile, Protocol):
        """
        An open file, as a write transaction sees it.

        The parts that are None are made by its first write transaction.
        """

        upkeep: Upkeep | None
        sync: SharedSync | None

        def begin_upkeep(self) -> None:
            """See `SqliteEngine.begin_upkeep`."""


# How long a writer that comes again lets the upkeep thread go first.
YIELD_S = 0.0001


class WriteTransaction(Block):
    """
    `with db.write()`: all of its writes are committed, or none.

    The outermost block of a thread goes through these steps; a nested one is a savepoint.

    1. The block takes the lock of this object's writers, a connection, and SQLite's lock (BEGIN
       IMMEDIATE). Then the WAL guard compares the mark.
    2. Before COMMIT the kinds of changed rows are counted, and the guard refuses a commit that
       nobody could read. After COMMIT the guard sets the mark, and upkeep is notified.
    3. Then the block returns connection and locks, and waits for the disk together with others.
    """

    __slots__ = ("_db", "_level", "_outer", "_timeout_ms")
    _pool: ConnectionPool

    def __init__(
        self,
        db: WritableFile,
        pool: ConnectionPool,
        *,
        whole: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Write to *db*; *whole*: without savepoints; *timeout_ms*: None means that of the file."""
        super().__init__(pool)
        self._timeout_ms = timeout_ms
        self._db = db
        self.whole = whole
        self._level = 0
        self._outer: Block = self

    def __enter__(self) -> Writer:
        """Begin a transaction, or a savepoint inside this thread's transaction."""
        pool, upkeep = self._pool, self._db.upkeep
        pool.guard()
        if self._db.is_read_only:
            self._db.refuse_read_only()
        around = pool.write_lock.owned()
        if around is not None:
            return self._enter_inside(around)
        if upkeep is None:
            self._db.begin_upkeep()
        elif upkeep.is_waiting:
            sleep(YIELD_S)
        pool.write_lock.acquire(self)
        try:
            if pool.is_closed:
                pool.guard()  # while this waited
            self.tx = writer = pool.take_writer()
            return self._begin(writer)
        except BaseException:
            self._end()
            raise

    def _enter_inside(self, around: Block) -> Writer:
        """Set a savepoint, or begin the transaction inside a read in memory."""
        writer: Writer | None = around.tx
        assert writer is not None  # of an owner
        self._outer, self._level = around, around.depth
        if not self._level:
            around.whole = self.whole
            try:
                return self._begin(writer)
            except BaseException:
                self._end()
                raise
        around.depth += 1
        if not around.whole:
            try:
                writer.run("SAVEPOINT nested")
            except MemDBError:
                self._end()
                raise
        return writer

    def _begin(self, writer: Writer) -> Writer:
        """Begin the transaction of the outermost write."""
        pool = self._pool
        self._outer.depth = 1
        if self._timeout_ms is None:
            writer.begin()
        else:
            writer.turns.timeout_ms = self._timeout_ms
            try:
                writer.begin()
            finally:
                writer.turns.timeout_ms = pool.options["timeout_ms"]
        writer.now_ms, writer.written_by = self._db.clock(), self._db.written_by
        if not pool.is_memory:
            if writer.wal == NO_WAL_YET:
                pool.note_wal_identity(writer)
            if pool.is_new or not pool.wal_guard.begin(writer):
                writer.known().clear()
        return writer

    def _leave(self, kind: type[BaseException] | None = None, *_: object) -> None:
        outer, level, is_failed = self._outer, self._level, kind is not None
        number = 0
        writer = outer.tx
        assert writer is not None  # until the outermost is left
        if outer.depth != level + 1:
            # An exception in the very exit of a write inside this one: which of its
            # statements are to be kept is not known.
            writer.lose(Interrupted("a write inside this one was interrupted: try all of it again"))
        if level and outer.whole:
            self._end()  # the outermost ends it, one way or the other
            return
        try:
            if is_failed:
                outer.undone += 1
                _undo(writer, nested=level > 0)
            elif level:
                writer.run("RELEASE nested")
            else:
                number = self._commit(writer)
        except BaseException:
            outer.undone += 1
            _undo(writer, nested=level > 0)
            self._db.commits += 1  # it may have been committed
            raise
        finally:
            self._end()
        if number and self._db.sync is not None:
            self._db.sync.wait(number, writer.wal)

    def _commit(self, writer: Writer) -> int:
        """Commit the outermost write; return the number of the commit, 0 if no sync is needed."""
        db, pool, upkeep = self._db, self._pool, self._db.upkeep
        if pool.identity is not None:
            loss = pool.wal_guard.prepare_commit(writer, pool.identity)
            if loss:
                pool.refuse_lost(writer, loss)
        writer.commit()
        db.commits += 1
        if pool.is_memory:
            return 0
        pages = 0 if upkeep is None else upkeep.wal_pages
        has_begun = pool.wal_guard.note_commit(writer, pages)
        if upkeep is not None:
            upkeep.note_commit(writer.used_words, is_first=has_begun)
        if db.sync is None:
            return 0
        db.sync.committed += 1
        return db.sync.committed

    def _end(self) -> None:
        """Leave the level of this block; the outermost one returns connection and lock."""
        outer = self._outer
        outer.depth = self._level
        if not self._level and outer.tx is not None:
            outer.tx.roll_back()
            outer.tx.turns.end()
        if outer is self:
            writer, self.tx = self.tx, None
            if writer is not None:
                self._pool.give_back_writer(writer)
            self._pool.write_lock.release(self)
        self._exit = None


def _undo(writer: Tx, *, nested: bool) -> None:
    """Roll back unless SQLite has done so; the first error is raised."""
    if not nested:
        writer.roll_back()
    elif writer.in_transaction:
        try:
            writer.known().clear()
            writer.run("ROLLBACK TO nested")
            writer.run("RELEASE nested")
        except MemDBError:
            return
