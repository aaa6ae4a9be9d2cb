"""
The PostgreSQL engine: an open database on a server, with its transactions (ADR-0031).

Each block uses a connection of its own. Writers wait for each other only within a scope: the first
statement of a write about a scope takes its advisory lock.

A proof on a server covers rows, index entries and chunks. memdb promises nothing about the server's
other bytes, and the proof names them. Those are deleted rows until they are vacuumed and
overwritten, the WAL, replicas and backups.
"""

from __future__ import annotations

import os
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from memdb.engine.blocks import Block, Opened
from memdb.errors import Interrupted, InvalidInput, MemDBError
from memdb.models.ids import bounded_clock, scope_range
from memdb.models.reports import Proof
from memdb.postgres import driver, schema
from memdb.postgres.commits import SELECT_COMMITS
from memdb.postgres.link import Tries
from memdb.postgres.maintenance import PostgresMaintenance
from memdb.postgres.pool import LinkPool
from memdb.postgres.schema import PARTITIONS, prepare
from memdb.postgres.words import SELECT_TEXTS
from memdb.rescue.byte_search import ByteSearch
from memdb.rescue.proof import SqliteProbes
from memdb.rescue.remaining import Remaining, unpacked
from memdb.text.terms import word_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.engine.base import Tx as AnyTx
    from memdb.models.keys import FileKey
    from memdb.models.protocols import Clock, Ids
    from memdb.postgres.connection import Tx


class ReadBlock(Block):
    """`with db.read()`: reads a snapshot; inside a block of this thread, that block's snapshot."""

    __slots__ = ()
    _pool: LinkPool
    tx: Tx | None

    def __enter__(self) -> Tx:
        """Begin a snapshot, unless this thread is in a block."""
        pool = self._pool
        pool.guard()
        self.thread = me = get_ident()
        for blocks in (pool.writing, pool.reading):
            around = blocks.get(me)
            if around is not None and around.tx is not None and not around.is_abandoned():
                found: Tx = around.tx
                return found
        self.tx = pool.take(pool.reading, self)
        self.tx.begin(writes=False)
        return self.tx

    def _leave(self, *_: object) -> None:
        tx = self.tx
        if tx is not None:
            tx.end_read()
            self.tx = None
            if self._pool.reading.get(self.thread) is self:
                del self._pool.reading[self.thread]
            self._pool.give_back(tx)
        self._exit = None


class WriteBlock(Block):
    """`with db.write()`: all of its writes are committed, or none."""

    __slots__ = ("_db", "_level", "_outer")
    _pool: LinkPool
    tx: Tx | None

    def __init__(self, db: PostgresEngine, *, whole: bool = False) -> None:
        """Write to *db*; *whole*: without savepoints."""
        super().__init__(db.pool)
        self._db = db
        self.whole = whole
        self._level = 0
        self._outer: Block = self

    def __enter__(self) -> Tx:
        """Begin a transaction, or a savepoint in that of this thread."""
        pool = self._pool
        pool.guard()
        self._db.refuse_read_only()
        self.thread = me = get_ident()
        around = pool.writing.get(me)
        if around is not None and not around.is_abandoned():
            return self._enter_inside(around)
        self.tx = pool.take(pool.writing, self)
        self.depth = 1
        self.tx.now_ms, self.tx.written_by = self._db.clock(), self._db.written_by
        self.tx.begin(writes=True)
        return self.tx

    def enter_with(self, leave: Any) -> None:
        """See `Block.enter_with`: a caller's transaction around public calls."""
        super().enter_with(leave)
        if self.tx is not None:
            self.tx.holds_calls = True

    def _enter_inside(self, around: Block) -> Tx:
        self._outer, self._level = around, around.depth
        tx: Tx = around.tx  # type: ignore[assignment] # of an owner
        around.depth += 1
        if not around.whole:
            try:
                tx.set_savepoint(self._level)
            except MemDBError:
                around.depth = self._level
                raise
        return tx

    def _leave(self, kind: type[BaseException] | None = None, *_: object) -> None:
        outer, level, is_failed = self._outer, self._level, kind is not None
        tx: Tx = outer.tx  # type: ignore[assignment] # until the outermost is left
        if outer.depth != level + 1:
            # An exception in the very exit of a write inside this one: which of its
            # statements are to be kept is not known.
            tx.lose(Interrupted("a write inside this one was interrupted: try all of it again"))
        try:
            if level and outer.whole:
                return  # the outermost ends it, one way or the other
            if is_failed:
                outer.undone += 1
                _undo(tx, level)
            elif level:
                tx.release_savepoint(level)
            else:
                tx.commit()
                self._db.commits += 1
                self._pool.commit_s[self.thread] = perf_counter()
        except BaseException as error:
            outer.undone += 1
            _undo(tx, level)
            if not (level or isinstance(error, MemDBError)):
                tx.is_broken = True  # what it knows of its last commit may be wrong
            self._db.commits += 1  # it may have been committed
            raise
        finally:
            self._end()

    def _end(self) -> None:
        """Leave the level of this block; the outermost one returns its connection."""
        outer, pool = self._outer, self._pool
        outer.depth = self._level
        if outer is self:
            tx, self.tx = self.tx, None
            if pool.writing.get(self.thread) is self:
                del pool.writing[self.thread]
            if tx is not None:
                tx.roll_back()
                pool.give_back(tx)
        self._exit = None


def _undo(tx: Tx, level: int) -> None:
    """Roll back; the first error is raised."""
    try:
        if level:
            tx.undo_savepoint(level)
        else:
            tx.roll_back()
    except MemDBError:
        return


class PostgresEngine(Opened):
    """
    One memdb database on a server, open in this process. Safe for any number of threads.

    Attributes:
        path: The address without password and options.
        commits: Write transactions of this object that were committed so far.
        is_read_only: Whether every write is refused.
        partitions: Number of partitions of each large table.
    """

    def __init__(
        self,
        address: str,
        *,
        clock: Clock,
        ids: Ids,
        durability: str = "power",
        timeout_ms: int = 10_000,
        mode: str = "write",
        partitions: int = PARTITIONS,
        verify: Callable[[AnyTx], str] = lambda _tx: "",
    ) -> None:
        """
        Connect to *address*; create or migrate the tables if necessary.

        Args:
            address: `postgresql://USER@HOST:PORT/DATABASE`; libpq's environment adds missing parts.
            clock: Returns UTC milliseconds, kept within the years 101 to 9899; called once per
                write transaction.
            ids: Returns a new uid for a time.
            durability: "power": a committed write survives a power cut; "process": it
                survives the end of the process (`synchronous_commit = off`).
            timeout_ms: How long to wait while another process writes to a scope.
            mode: "write"; or "read": nothing is written or created.
            partitions: Number of partitions of each large table, if the tables are new.
            verify: Returns the errors in migrated rows, "" for none; with an error the tables stay
                unchanged.

        Raises:
            FileError: the database cannot be used; see its subclasses.
            InvalidInput: *durability*, *mode* or the address is wrong, or the extra is not
                installed.
        """
        if durability not in ("power", "process"):
            raise InvalidInput(f"durability is {durability!r}: use 'power' or 'process'")
        if mode not in ("write", "read"):
            raise InvalidInput(f"mode is {mode!r}: use 'write' or 'read'")
        parameters = driver.read_address(address)
        self.path = driver.shown(parameters)
        self.clock = bounded_clock(clock)
        self.ids = ids
        self.verify = verify
        self.is_read_only = mode == "read"
        self.key: FileKey | None = None  # a server keeps its own disks
        self.commits = 0
        options = {
            "durability": durability,
            "timeout_ms": timeout_ms,
            "mode": mode,
            "facts_version": [0],
            "format": schema.FORMAT,
        }
        self.pool = LinkPool(parameters, options, self.path)
        self.partitions = partitions
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Check the server and its tables; repeat that while a fail-over is in progress."""
        tries = Tries()
        while True:
            try:
                self.pool.check_server()
                self.partitions = prepare(self)
            except MemDBError as error:
                if not error._is_undone or not tries.may_go_on():
                    raise
                tries.pause()
            else:
                break

    def read(self) -> ReadBlock:
        """Return a context in which all reads see one snapshot of the database."""
        return ReadBlock(self.pool)

    def write(self) -> WriteBlock:
        """
        Return a context whose writes are committed together or not at all.

        A nested one is a savepoint. If the body raises, its writes are rolled back and the
        error propagates.

        Raises:
            Busy: another process kept the lock of a scope longer than the timeout.
        """
        return WriteBlock(self)

    def write_whole(self) -> WriteBlock:
        """Return a context like `write` without savepoints: an error inside undoes all of it."""
        return WriteBlock(self, whole=True)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.pool.is_closed

    def find_writer(self) -> Block | None:
        """Return the outermost block in which this thread writes, None if there is none."""
        found = self.pool.writing.get(get_ident())
        return None if found is None or found.is_abandoned() or not found.depth else found

    def run_again(self, call: Callable[[], Any], start_s: float, error: MemDBError) -> Any:
        """
        Return the result of *call*, run again because the server rolled back its transaction.

        The call is not run again inside a transaction, or if this thread has committed since
        *start_s* (`perf_counter`), because its writes would be done twice.

        Raises:
            MemDBError: *error*, or the last error of *call*.
        """
        tries = Tries()
        while not tries.is_over and not self.writing:
            if self.pool.commit_s.get(get_ident(), start_s) > start_s:
                break
            tries.pause()
            try:
                return call()
            except MemDBError as again:
                error = again
                if not error._is_undone:
                    break
        raise error

    def stamp(self, *, start: bool = False) -> int | None:
        """
        Return a number that changes with every commit of any connection; None means unknown.

        Args:
            start: Ask the server, which costs a round trip; otherwise the number is unknown.
        """
        if not start or not self.pool.is_usable or self.writing:
            return None
        try:
            with self.read() as tx:
                return tx.read_number(SELECT_COMMITS)
        except MemDBError:
            return None

    def others(self) -> None:
        """Return None: a server does not report whose commits they were."""

    def checkpoint(self) -> int:
        """Return 0: the server moves its WAL by itself."""
        return 0

    @property
    def maintenance(self) -> PostgresMaintenance:
        """Checks and maintenance of the tables."""
        return PostgresMaintenance(self)

    def new_probes(self) -> PostgresProbes:
        """Return an empty collection of texts to remove from the tables and search for."""
        return PostgresProbes(self)

    def run_apart(self, sql: str) -> None:
        """Run a statement that cannot run in a transaction, such as VACUUM."""
        self.pool.run_apart(sql)

    def close(self) -> None:
        """
        Close every connection.

        Calling it again does nothing. The call rolls back what this thread writes.
        """
        writer = self.find_writer()
        if writer is not None and writer.tx is not None:
            writer.tx.lose(driver.closed(self.path))
        self.pool.close()

    def __del__(self) -> None:
        """Close an engine that was left open, so that the server does not keep its connections."""
        if hasattr(self, "pool") and self.pool.pid == os.getpid():
            self.pool.close()


NOT_PROMISED = (
    "the rows, index entries and chunks were searched; bytes on the server's disk, in its WAL, "
    "replicas and backups are overwritten in its own time"
)

# What is searched.
ROWS, WORDS, ARCHIVE, ARTIFACTS = "the rows", "the full text", "archive", "artifacts"


class PostgresProbes(SqliteProbes):
    """The pieces and words of forgotten texts; see `memdb.engine.base.Probes`."""

    def __init__(self, db: Any) -> None:
        """Begin without texts; they are searched for in the `PostgresEngine` *db*."""
        super().__init__(db)

    def mend_indexes(self) -> None:
        """Do nothing: the words of a removed row leave its lists at once."""

    def purge(self) -> list[str]:
        """Rebuild the full text and vacuum the tables; return [], because nothing prevents it."""
        db: Any = self._db
        db.maintenance.rebuild(lambda _tx: None)
        db.maintenance.vacuum()
        return []

    def prove(self, notices: list[str], scopes: Sequence[int]) -> Proof:
        """
        Return the remains of the texts in the tables; other scopes are not reported.

        Cost: 10 µs per row of the scope, and the time to read all archived messages and artifacts.

        Transaction: one read.
        """
        pieces = self.pieces()
        found: dict[bytes, set[str]] = {}
        with self._db.read() as tx:
            in_packed = ByteSearch(pieces)
            for place, data in unpacked(tx):
                for piece in in_packed.find(data):
                    found.setdefault(piece, set()).add(place)
            of_summaries = {piece for piece, is_summary in pieces.items() if is_summary}
            rows = Remaining({*pieces}, of_summaries, self._asked, scopes)
            rows.read_own(tx)
            words = [word for one in scopes for word in _words_without_row(tx, self.words(), one)]
            for piece in rows.summarized:
                found.setdefault(piece, set()).add(ROWS)
            explained = rows.said | (rows.said_by_others(tx, {*found}) if found else set())
        left = {piece: places for piece, places in found.items() if piece not in explained}
        left |= {word.encode(): {WORDS} for word in words}
        return Proof(
            pieces=len(pieces),
            short=self.short,
            searched=(ROWS, WORDS, ARCHIVE, ARTIFACTS),
            found_bytes=sum(map(len, left)),
            found_in=tuple(sorted({place for places in left.values() for place in places})),
            said_elsewhere=len(rows.said),
            said_in=tuple(rows.places),
            still_said_in=tuple(rows.still),
            notices=(*notices, NOT_PROMISED),
        )


def _words_without_row(tx: Any, words: list[str], scope_no: int) -> list[str]:
    """Return the *words* that an index lists for a missing row of the scope."""
    low, high = scope_range(scope_no)
    found = []
    for kind, sql in SELECT_TEXTS.items():
        for term, ids in tx.words.postings(kind, word_terms(words), low, high).items():
            if ids and {*ids} != {row[0] for row in tx.all(sql, {"ids": ids})}:
                found.append(" ".join(term.words))
    return sorted({*found})
