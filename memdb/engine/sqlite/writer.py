"""
A write: the transaction with its savepoints, and the connection that it uses.

Who watches the file finds in the table `changes` how many transactions changed each kind of
thing. `memdb.engine.kinds` says what is counted; who counts is `Writer.run`.

Turns of the processes that write: who had one lets those that wait go first.
SQLite gives the lock to whoever asks in the right moment. Where several processes write without a
pause, each would lose it after a commit or two, and each change of hands costs as much as five
more commits: what a connection has in memory of the file is void, and so are the caches of the
processor. So who has written without a pause and finds the lock taken lets the others go first:
for as long as its own turn was times eight, at most 15 ms, and no longer than they write. Who
writes now and then never does. Nothing is shared between processes but the lock of SQLite, so none
can keep it from another, however it ends (ADR-0043).
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

from memdb.engine.blocks import Block
from memdb.engine.kinds import kind_loaded, kind_of
from memdb.engine.sqlite import schema
from memdb.engine.sqlite.connection import NO_WAL_YET, BusyHandler, Tx
from memdb.errors import Busy, Interrupted, MemDBError, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw

    from memdb.engine.base import Row, Values
    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.engine import SqliteEngine
    from memdb.engine.sqlite.pool import ConnectionPool

# COMMIT does not wait for the disk: the block does, when others may write (`wal_sync`).
SYNC_APART = """/* writer.sync_apart */
PRAGMA synchronous = NORMAL
"""

INSERT_CHANGE = """/* writer.count */
INSERT INTO changes (kind, number) VALUES (:kind, 1)
ON CONFLICT (kind) DO UPDATE SET number = number + 1
"""

SELECT_CHANGES = """/* writer.counts */
SELECT kind, number FROM changes
"""

SELECT_FORMAT = """/* writer.format */
SELECT user_version FROM pragma_user_version
"""


# Longest time for which others go first, and of the own turn before.
MOST_S = 0.015
TIMES = 8

# Pauses after which it is looked whether the others still write. A look costs 50 µs of CPU.
PAUSES_S = (0.002, 0.002, MOST_S)

# A longer time without a write ends a turn: others get the lock meanwhile anyway.
IDLE_S = 0.001

# Who waits for less than this lets nobody go first.
LEAST_MS = 100

# How long a writer that comes again lets the upkeep thread go first.
YIELD_S = 0.0001

_uncounted: set[str] = set()  # statements, which are constants


class Turns(BusyHandler):
    """The handler of a connection that writes, which lets those of other processes go first."""

    __slots__ = ("_began", "_ended", "_tries_once")

    def __init__(self, timeout_ms: int) -> None:
        """Wait up to *timeout_ms*."""
        super().__init__(timeout_ms)
        self._began = self._ended = 0.0  # the turn, and the last write in it
        self._tries_once = False

    def __call__(self, tries: int) -> bool:
        """Sleep; return False to give up."""
        return not self._tries_once and super().__call__(tries)

    def begin(self, begin: Callable[[], None], version: Callable[[], int]) -> None:
        """
        Take the lock of writers by *begin*; *version* changes when another connection commits.

        Cost: 0.5 µs if nobody has the lock.

        Raises:
            Busy: others had it for longer than the timeout.
        """
        is_in_turn = monotonic() - self._ended < IDLE_S
        self._tries_once = is_in_turn and self.timeout_ms >= LEAST_MS
        if self._tries_once:
            if self._has_begun(begin):
                return
            self._let_others(version)
        begin()
        self._began = monotonic()

    def _has_begun(self, begin: Callable[[], None]) -> bool:
        """Ask once for the lock; return whether it was free."""
        try:
            begin()
        except Busy:
            return False
        finally:
            self._tries_once = False
        return True

    def end(self) -> None:
        """Note the end of a write."""
        self._ended = monotonic()

    def _let_others(self, version: Callable[[], int]) -> None:
        """Wait while others write, for as long as they may go first."""
        now = monotonic()
        end = now + min(MOST_S, (now - self._began) * TIMES)
        seen = -1
        for pause_s in PAUSES_S:
            try:
                last, seen = seen, version()
            except MemDBError:  # `begin` tells
                return
            left = end - monotonic()
            if last == seen or left <= 0:
                return
            sleep(min(pause_s, left))


class Writer(Tx):
    """
    The connection that writes. Cost: 0.1 µs a statement, 6 µs a kind that changed.

    A newer memdb may have migrated the file since it was opened. So `begin` compares the format
    whenever another connection has committed, before anything is written.

    Attributes:
        turns: Its handler of a taken lock.
        version: What each commit changes, as of its last commit.
    """

    __slots__ = ("_changed", "turns", "version")

    def __init__(self, connection: apsw.Connection, timeout_ms: int) -> None:
        """Write with *connection*, which waits up to *timeout_ms* for others."""
        super().__init__(connection)
        self._changed: set[str] = set()
        self.version = -1
        self.turns = Turns(timeout_ms)
        connection.set_busy_handler(self.turns)
        self.run(SYNC_APART)

    def begin(self) -> None:
        """
        Take the write lock, waiting for other writers.

        Raises:
            SchemaTooNew: a newer memdb migrated the file since it was opened.
        """
        self._changed.clear()
        self.turns.begin(super().begin, self.data_version)
        self.is_alone = self.raw.data_version() == self.version
        if not self.is_alone:
            try:
                refuse_newer(self, self.raw.filename)
            except BaseException:
                self.roll_back()
                raise

    def run(self, sql: str, values: Values | None = None) -> int:
        """Run a statement and return how many rows it changed."""
        count = Tx.run(self, sql, values)
        if sql not in _uncounted and count:
            self._note(sql)
        return count

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*."""
        if sql not in _uncounted:
            self._note(sql)
        Tx.many(self, sql, rows)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """See `memdb.engine.base.Tx`."""
        kind = kind_loaded(table)
        if kind is not None and rows:
            self._changed.add(kind)
        Tx.load(self, table, columns, rows)

    def _note(self, sql: str) -> None:
        kind = kind_of(sql)
        if kind is not None:
            self._changed.add(kind)
        elif sql.startswith("/* "):
            _uncounted.add(sql)

    def commit(self) -> None:
        """Commit the transaction, with the kinds that it changed."""
        if self._changed:
            is_kept = self._facts_at == self.raw.total_changes()
            for kind in sorted(self._changed):  # the same bytes whatever PYTHONHASHSEED is
                Tx.run(self, INSERT_CHANGE, {"kind": kind})
            if is_kept:  # a count makes none of the facts untrue
                self.keep_facts()
        Tx.commit(self)
        # Not later: a statement would see the commits of others as its own.
        self.version = self.raw.data_version()


class WriteTransaction(Block):
    """
    `with db.write()`: all of its writes are committed, or none.

    The outermost of a thread goes through these steps; one inside it is a savepoint.

    1. It takes the lock of the writers of this object, a connection, and the lock of SQLite
       (BEGIN IMMEDIATE), and the guard of the WAL looks at the mark.
    2. Before COMMIT the kinds of changed things are counted, and the guard refuses what nobody
       could read. After it the guard sets the mark, and upkeep is told of it.
    3. It gives connection and locks back, and waits for the disk, which others share.
    """

    __slots__ = ("_db", "_level", "_outer", "_timeout_ms")
    _pool: ConnectionPool

    def __init__(
        self, db: SqliteEngine, *, whole: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Write to *db*; *whole*: without savepoints; *timeout_ms*: None means that of the file."""
        super().__init__(db.pool)
        self._timeout_ms = timeout_ms
        self._db = db
        self.whole = whole
        self._level = 0
        self._outer: Block = self

    def __enter__(self) -> Writer:
        """Begin a transaction, or a savepoint in that of this thread."""
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
            if pool.is_closed:  # while this waited
                pool.guard()
            self.tx = writer = pool.take_writer()
            return self._begin(writer)
        except BaseException:
            self._end()
            raise

    def _enter_inside(self, around: Block) -> Writer:
        """Set a savepoint; in memory, begin the transaction inside a read."""
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
        writer.now_ms = self._db.clock()
        if not pool.is_memory:
            if writer.wal == NO_WAL_YET:
                pool.note_wal(writer)
            if pool.is_new or not pool.wal_guard.begin(writer):
                writer.facts().clear()
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
        """Commit the outermost write; return the number of the commit, 0 if it needs no sync."""
        db, pool, upkeep = self._db, self._pool, self._db.upkeep
        if pool.identity is not None:
            loss = pool.wal_guard.find_loss(writer, pool.identity)
            if loss:
                pool.refuse_lost(writer, loss)
        writer.commit()
        db.commits += 1
        if pool.is_memory:
            return 0
        pages = 0 if upkeep is None else upkeep.wal_pages
        has_begun = pool.wal_guard.note_commit(writer, pages)
        if upkeep is not None:
            upkeep.note_commit(writer.parts, writer.dropped, is_first=has_begun)
            writer.parts = writer.dropped = 0
        if db.sync is None:
            return 0
        db.sync.committed += 1
        return db.sync.committed

    def _end(self) -> None:
        """Leave the level of this block; the outermost gives connection and lock back."""
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
    """Roll back unless SQLite has done so; the first error is the one that is raised."""
    if not nested:
        writer.roll_back()
    elif writer.in_transaction:
        try:
            writer.facts().clear()
            writer.run("ROLLBACK TO nested")
            writer.run("RELEASE nested")
        except MemDBError:
            return


def refuse_newer(tx: AnyTx, path: str) -> None:
    """Raise SchemaTooNew if a newer memdb migrated the file at *path* since it was opened."""
    (found,) = tx.one(SELECT_FORMAT) or (schema.FORMAT,)
    if found > schema.FORMAT:
        raise SchemaTooNew(path, found, schema.FORMAT)


def read_changes(tx: AnyTx, path: str) -> dict[str, int]:
    """
    Return how many transactions changed each kind of thing in the file at *path*.

    Raises:
        SchemaTooNew: a newer memdb migrated the file since it was opened.
    """
    refuse_newer(tx, path)
    return dict(tx.all(SELECT_CHANGES))
