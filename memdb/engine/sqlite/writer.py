"""
The connection that writes, which counts transactions by the kind of changed rows.

Any process that watches the file sees in these counts (table `changes`) what was changed, by
whatever statement. `memdb.engine.compose` defines what is counted; `Writer.run` counts it.

Turns of the processes that write: a process that had its turn lets waiting ones go first.
SQLite gives the lock to the process that asks at the right moment. Where several processes write
without a pause, each would lose the lock after a commit or two. Each change of the writing process
costs as much as five commits, because the cached pages and the processor's caches become useless.
So a process that wrote without a pause and finds the lock taken waits while the others write. A
waiting process waits at most eight times as long as its own turn was, and at most 15 ms. A process
that writes only now and then never waits. The processes share nothing but SQLite's lock, so no
process can keep it from another, however it ends (ADR-0043).
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

from memdb.engine.compose import kind_loaded, kind_of
from memdb.engine.sqlite import schema
from memdb.engine.sqlite.connection import BusyHandler, Tx
from memdb.errors import Busy, MemDBError, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw

    from memdb.engine.base import Row, Values
    from memdb.engine.base import Tx as AnyTx

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

_uncounted: set[str] = set()  # statements, which are constants


class Turns(BusyHandler):
    """The busy handler of a writing connection, which lets other processes go first."""

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
        Take the writers' lock by *begin*; *version* changes when another connection commits.

        Cost: 0.5 µs if the lock is free.

        Raises:
            Busy: other writers had it for longer than the timeout.
        """
        is_in_turn = monotonic() - self._ended < IDLE_S
        self._tries_once = is_in_turn and self.timeout_ms >= LEAST_MS
        if self._tries_once:
            try:
                begin()
            except Busy:
                pass
            else:
                return
            finally:
                self._tries_once = False
            self._let_others(version)
        begin()
        self._began = monotonic()

    def end(self) -> None:
        """Note the end of a write."""
        self._ended = monotonic()

    def _let_others(self, version: Callable[[], int]) -> None:
        """Wait while others write, as long as they may go first."""
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
    The connection that writes. Cost: 0.1 µs per statement, and 6 µs per kind that changed.

    A newer memdb may have migrated the file since it was opened. So `begin` compares the format
    whenever another connection has committed, before anything is written.

    Attributes:
        turns: Its handler for a lock that is taken.
    """

    __slots__ = ("_changed", "turns")

    def __init__(self, connection: apsw.Connection, timeout_ms: int) -> None:
        """Write with *connection*, which waits up to *timeout_ms* for others."""
        super().__init__(connection)
        self._changed: set[str] = set()
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

    def run(self, sql: str, values: Values | None = None) -> None:
        """Run a statement."""
        Tx.run(self, sql, values)
        if sql not in _uncounted and self.raw.changes():
            self._note(sql)

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*."""
        before = self.raw.total_changes()
        Tx.many(self, sql, rows)
        if sql not in _uncounted and self.raw.total_changes() != before:
            self._note(sql)

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
            is_kept = self._known_at == self.raw.total_changes()
            for kind in sorted(self._changed):  # the same bytes whatever PYTHONHASHSEED is
                Tx.run(self, INSERT_CHANGE, {"kind": kind})
            if is_kept:  # a count makes nothing untrue that is known
                self.keep_known()
        Tx.commit(self)
        # Not later: a statement would see the commits of others as its own.
        self.version = self.raw.data_version()


def refuse_newer(tx: AnyTx, path: str) -> None:
    """Raise SchemaTooNew if a newer memdb migrated the file at *path* since it was opened."""
    (found,) = tx.one(SELECT_FORMAT) or (schema.FORMAT,)
    if found > schema.FORMAT:
        raise SchemaTooNew(path, found, schema.FORMAT)


def read_changes(tx: AnyTx, path: str) -> dict[str, int]:
    """
    Return how many transactions changed each kind of row in the file at *path*.

    Raises:
        SchemaTooNew: a newer memdb migrated the file since it was opened.
    """
    refuse_newer(tx, path)
    return dict(tx.all(SELECT_CHANGES))
