"""
The SQLite engine: an open file with its transactions and maintenance.

One connection writes at a time, and each reading thread has its own connection. `with db.write()`
and `with db.read()` are the only ways to read and write.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import ref

from memdb.engine.blocks import Block, Opened
from memdb.engine.sqlite import migrate, schema
from memdb.engine.sqlite.checkpoints import CHECKPOINT_PASSIVE
from memdb.engine.sqlite.connection import MEMORY, Tx, load_image
from memdb.engine.sqlite.foreign_wal import is_cleared, refuse_other_names
from memdb.engine.sqlite.maintenance import SqliteMaintenance
from memdb.engine.sqlite.pool import ConnectionPool, ReadBlock
from memdb.engine.sqlite.transaction import WriteTransaction
from memdb.engine.sqlite.upkeep import Upkeep
from memdb.engine.sqlite.wal_file import has_bytes
from memdb.engine.sqlite.wal_sync import SharedSync
from memdb.errors import Busy, InvalidInput, MemDBError, ReadOnly
from memdb.models.ids import bounded_clock
from memdb.models.observation import warn
from memdb.text.validate import refuse_output, refuse_special

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.writer import Writer
    from memdb.models.keys import FileKey
    from memdb.models.protocols import Clock, Ids

    T = TypeVar("T")


# How long upkeep waits for another process: it has time, and a close waits for it.
UPKEEP_MS = 50

# Merged when a file is closed and its thread had no time: some milliseconds, if there are so many
# parts of the index.
CLOSE_PAGES, MERGED_PARTS = 64, 8


def _checkpoint_all(kept: ref[SqliteEngine]) -> bool:
    """Move the WAL into the file; return whether nothing is left in it."""
    db = kept()
    try:
        if db is not None:
            db.checkpoint()
    except MemDBError:
        return False
    return db is not None and db.pool.has_its_files() and not has_bytes(f"{db.path}-wal")


class ApartBlock:
    """`with db.apart()`: a separate connection for one task; in memory, to a copy."""

    __slots__ = ("_pool", "_tx", "_writable")

    def __init__(self, pool: ConnectionPool, *, writable: bool) -> None:
        """Open a connection of *pool*."""
        self._pool = pool
        self._writable = writable

    def __enter__(self) -> Tx:
        """Open the connection."""
        self._pool.guard()
        if self._pool.is_read_only:
            self._pool.follow_writers()
        connection = self._pool.open(writable=self._writable)
        try:
            if self._pool.is_memory:
                with ReadBlock(self._pool) as tx:
                    load_image(connection, tx)
        except BaseException:
            connection.close()
            raise
        self._tx = Tx(connection)
        return self._tx

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._tx.close()
        if self._pool.is_read_only:
            self._pool.refuse_torn_read()


class SqliteEngine(Opened):
    """
    A memdb file that is open in this process. The engine is safe for any number of threads.

    Attributes:
        commits: Write transactions of this object that were committed so far.
        is_read_only: Whether every write is refused.
    """

    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        ids: Ids,
        durability: str = "power",
        timeout_ms: int = 10_000,
        mode: str = "write",
        key: FileKey | None = None,
        verify: Callable[[AnyTx], str] = lambda _tx: "",
    ) -> None:
        """
        Open *path*; create or migrate the file if necessary.

        Args:
            path: A file, or `:memory:`.
            clock: Returns UTC milliseconds, kept within the years 101 to 9899; called once per
                write transaction.
            ids: Returns a new uid for a time.
            durability: "power": a committed write survives a power cut. "process": it survives the
                end of the process, and a power cut after a second or more.
            timeout_ms: How long to wait while another process writes.
            mode: "write"; or "read", which writes and creates nothing. With "read", all reads of a
                file of an older format see a copy in memory, as it was when it was opened.
            key: Key of an encrypted file; a new one is encrypted with it.
            verify: Returns the errors in the rows of a migrated file, "" for none; with an error
                the file stays unchanged.

        Raises:
            FileError: the file cannot be used; see its subclasses.
            InvalidInput: *durability* or *mode* has an unknown value; or `:memory:` is given with
                mode="read" or with a key.
        """
        if durability not in ("power", "process"):
            raise InvalidInput(f"durability is {durability!r}: use 'power' or 'process'")
        if mode not in ("write", "read") or (mode == "read" and path == MEMORY):
            raise InvalidInput(f"mode is {mode!r}: use 'write', or 'read' for a file that exists")
        # SQLite keeps the WAL beside the real file. A later connection must find the same file
        # after a change of directory.
        self.path = path if path == MEMORY else os.path.realpath(path)
        self.clock = bounded_clock(clock)
        self.ids = ids
        self.verify = verify
        self.is_read_only = mode == "read"
        if key is not None and path == MEMORY:
            raise InvalidInput("key is given for a memory without a file: leave it out")
        options: dict[str, Any] = {"durability": durability, "timeout_ms": timeout_ms, "key": key}
        self.key = key
        self.pool = ConnectionPool(self.path, options, is_read_only=self.is_read_only)
        self.sync: SharedSync | None = None  # before the first write, and if nobody waits
        self.commits = 0
        self.upkeep: Upkeep | None = None  # before the first write
        try:
            if not self.pool.is_memory:
                self._refuse_path()
                if has_bytes(f"{self.path}-wal"):
                    self.pool.set_wal_aside()
            try:
                version = schema.prepare(self)
            except ReadOnly:
                if not self.is_read_only:
                    raise
                self._read_as_immutable()
                version = schema.prepare(self)
            if version < schema.FORMAT:
                self._migrate(version)
            self.pool.remember_file()
            self._report_loss()
        except BaseException:
            self.close()
            raise

    def _refuse_path(self) -> None:
        """Refuse a path that is not a regular file's, or where SQLite would remove a new file."""
        refuse_special(self.path, f"{self.path}-wal", f"{self.path}-shm")
        if self.is_read_only:
            return
        if has_bytes(self.path):
            refuse_other_names(self.path)
        else:
            refuse_output(self.path)

    def _read_as_immutable(self) -> None:
        """
        Read the file without its -shm, which cannot be made on read-only media.

        Raises:
            ReadOnly: a part of the data is in its WAL.
        """
        self.pool.close_idle()
        wal = f"{self.path}-wal"
        if has_bytes(wal):
            raise ReadOnly(
                f"{self.path} is on read-only media, and its newest writes are in {wal}: copy both "
                "into a folder of your own, and open the copy",
                self.path,
            )
        self.pool.options["immutable"] = True

    def _migrate(self, version: int) -> None:
        """Migrate the file to the current format; with mode="read" a copy of it in memory."""
        if not self.is_read_only:
            migrate.migrate_file(self, version)
            return
        options = {**self.pool.options, "immutable": False, "key": None}
        copy = ConnectionPool(MEMORY, options, is_read_only=False)
        writer = copy.take_writer()
        with self.apart(writable=False) as source:
            load_image(writer.raw, source)
        self.pool.close()
        self.pool = copy
        migrate.migrate_copy(self, writer, version)

    def _report_loss(self) -> None:
        """Log that a WAL is missing, and store that for `check` if the file can be written."""
        loss = self.pool.wal_guard.loss
        if loss is not None:
            warn("%s. Look with `memdb check`; accept it with `memdb check --accept`", loss)
            if not self.is_read_only:
                with suppress(Busy), self.write():
                    pass  # the next write does it else

    def read(self) -> ReadBlock:
        """Return a context in which all reads see one snapshot of the file."""
        return ReadBlock(self.pool)

    def write(self) -> WriteTransaction:
        """
        Return a context whose writes are committed together or not at all.

        The outermost takes the write lock (BEGIN IMMEDIATE) and waits for other
        writers; a nested one is a savepoint. If the body raises, its writes are
        rolled back and the error propagates.

        Raises:
            Busy: another process kept the lock longer than the timeout.
        """
        return WriteTransaction(self, self.pool)

    def write_whole(self) -> WriteTransaction:
        """
        Return a context like `write` without savepoints: an error inside rolls back all of it.

        The error of a nested `write` must also leave this context. Without savepoints FTS5 writes
        the words of many messages once, at the end.
        """
        return WriteTransaction(self, self.pool, whole=True)

    def keep_to(self, user: str) -> None:
        """Refuse the scopes of other users than *user* from now on, and use 40 % less memory."""
        super().keep_to(user)
        self.pool.keep_small()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.pool.is_closed

    def find_writer(self) -> Block | None:
        """Return the outermost block in which this thread writes, None if there is none."""
        owner = self.pool.write_lock.owned()
        return owner if owner is not None and owner.depth else None

    def run_again(self, _call: Callable[[], Any], _start_s: float, error: MemDBError) -> NoReturn:
        """Raise *error*, because only this program rolls back a transaction of a file."""
        raise error

    def stamp(self, *, start: bool = False) -> int | None:
        """
        Return a number that changes with every commit to the file, by any connection.

        Never waits, so an event loop may call it. None means that it is unknown now.

        Args:
            start: Open the connection that watches the file, if there is none.

        Cost: 5 µs.
        """
        return self.pool.stamp(start=start)

    def others(self) -> int | None:
        """
        Return a number that changes with every commit by another connection.

        `commits` counts the commits of this object. None means that it is unknown now: in a
        transaction, or while another thread writes. Cost: 5 µs.
        """
        if not self.pool.is_usable or self.pool.is_memory:
            return None
        if self.is_read_only:
            return self.pool.stamp(start=True)
        lock, block = self.pool.write_lock, Block(self.pool)
        try:
            # A writer that found no connection would open another, which counts from 0.
            return self._writing().data_version() if lock.try_acquire(block) else None
        except MemDBError:
            return None
        finally:
            lock.release(block)

    def apart(self, *, writable: bool = True) -> ApartBlock | ReadBlock:
        """
        Return a context with a new connection; in memory the only connection, locked.

        A separate connection is needed because the writing one may be in another thread's
        transaction, and reading ones cannot even create a temporary table.

        Args:
            writable: With False, in memory, the connection is to a copy, which the task may set up
                as it likes: 2 ms per MB.
        """
        if self.pool.is_memory and writable:
            return ReadBlock(self.pool)
        return ApartBlock(self.pool, writable=writable)

    @contextmanager
    def without_foreign_keys(self) -> Iterator[None]:
        """Switch foreign keys off for a `with` block; at its end all references must be valid."""
        if self.upkeep is None:
            self.begin_upkeep()
        resume = self.pause_upkeep()  # it would close the connection that is switched
        try:
            self._writing().run("PRAGMA foreign_keys = OFF")
            yield
        finally:
            self._writing().run("PRAGMA foreign_keys = ON")
            resume()

    def _writing(self) -> Tx:
        """Return the connection that the next write uses."""
        writer = self.pool.take_writer()
        self.pool.give_back_writer(writer)
        return writer

    @property
    def maintenance(self) -> SqliteMaintenance:
        """Checks and maintenance of the file."""
        return SqliteMaintenance(self, self.pool)

    def close(self) -> None:
        """
        Close the file; calling it again does nothing.

        If this object committed something, the WAL is moved into the file, unless another
        connection reads or writes. `checkpoints` has the rule.
        """
        if not self.pool.is_usable:
            return
        if self.upkeep is not None:
            resume = self.upkeep.pause()  # the thread uses the connection that is asked
            try:
                is_due = self.upkeep.has_dropped and not self.writing
                if is_due and self.pool.has_its_files():
                    self.upkeep.finish()
            finally:
                resume()
            if self.sync is not None:
                self.sync.stop()
            self.upkeep.stop()
        lock = self.pool.write_lock
        around = lock.owned()
        block = Block(self.pool)
        has_files = None  # not looked yet
        try:
            if around is None:
                lock.acquire(block)
                if self.commits and not self.pool.is_memory:
                    has_files = self.pool.has_its_files()
                    if has_files:
                        self._checkpoint_truncate()
            self.pool.close(has_files=has_files)
            if around is not None and around.tx is not None:
                around.tx.close()
        finally:
            lock.release(block)

    def write_briefly(self) -> WriteTransaction:
        """Return a context like `write` that does not wait long for another process."""
        return WriteTransaction(self, self.pool, timeout_ms=UPKEEP_MS)

    def pause_upkeep(self) -> Callable[[], None]:
        """Wait until the upkeep thread is between two steps; return a callable to resume it."""
        return (lambda: None) if self.upkeep is None else self.upkeep.pause()

    def begin_upkeep(self) -> None:
        """Start a thread for the work that writes leave behind; in memory nothing needs it."""
        if not self.pool.is_memory:
            waits = self.pool.options["durability"] == "power"
            if waits:
                checkpoint = partial(_checkpoint_all, ref(self))
                self.sync = SharedSync(self.path, checkpoint, partial(is_cleared, key=self.key))
            self.upkeep = Upkeep(self, syncs=not waits)
            self.pool.close_writers()  # a new one tells it how long the WAL is
            self.pool.wal_hook = self.upkeep.wal_hook

    def _checkpoint_truncate(self) -> int:
        """Move the WAL into the file; only for the owner of the lock."""

        def clear(writer: Writer) -> int:
            guard = self.pool.wal_guard
            pages = guard.checkpoint_truncate(writer, self._move_tail)
            return guard.checkpoint_if_unread(writer) or 0 if pages is None else pages

        try:
            return self._in_writer(clear)
        except MemDBError:
            return 0  # the next close does it: the WAL is as safe as the file

    def checkpoint_passive(self) -> None:
        """
        Move what needs no waiting from the WAL into the file, and so the mark of a burst.

        For the upkeep thread. While another block writes, it uses a separate connection.
        """
        block, lock = Block(self.pool), self.pool.write_lock
        try:
            if lock.try_acquire(block):
                self._in_writer(self.pool.wal_guard.checkpoint_passive)
                return
        finally:
            lock.release(block)
        with self.apart() as beside:
            beside.all(CHECKPOINT_PASSIVE)

    def checkpoint_if_idle(self) -> bool:
        """
        Move the WAL of an idle file into it and clear the mark; return whether that was done.

        For the upkeep thread, a second after the last commit of this process. While another
        process writes, nothing happens.
        """
        block, lock = Block(self.pool), self.pool.write_lock
        try:
            if not self.pool.is_usable or not lock.try_acquire(block):
                return not self.pool.is_usable
            if not self.pool.has_its_files():
                return True  # the next call reports it
            return self._in_writer(self.pool.wal_guard.checkpoint_if_idle)
        except MemDBError:
            return False
        finally:
            lock.release(block)

    def _in_writer(self, work: Callable[[Writer], T]) -> T:
        """Do *work* with the connection for writing, which waits for no other process."""
        writer = self.pool.take_writer()
        writer.turns.timeout_ms = 0
        try:
            return work(writer)
        finally:
            writer.turns.timeout_ms = self.pool.options["timeout_ms"]
            self.pool.give_back_writer(writer)

    def _move_tail(self, writer: Tx) -> None:
        """Complete the index of messages, for other programs that search the closed file."""
        if writer.used_words is not None:
            writer.words.move_tail()
            if self.upkeep is not None and self.upkeep.parts >= MERGED_PARTS:
                writer.words.merge_messages(CLOSE_PAGES)

    def __del__(self) -> None:
        """Close a file that was left open, so that its WAL does not remain beside it."""
        if hasattr(self, "pool"):  # else opening failed at once
            try:
                self.close()
            except Exception:  # noqa: BLE001 (nobody could catch it)
                return

    def checkpoint(self) -> int:
        """
        Move the WAL into the file, which is then complete until the next write.

        Return the number of pages. It does not wait for readers: pages that one still needs stay
        until the next checkpoint.
        """
        self.pool.guard()
        self.refuse_read_only()
        self.refuse_inside("checkpoint")
        if self.pool.is_memory:
            return 0
        lock = self.pool.write_lock
        block = Block(self.pool)
        resume = self.pause_upkeep()
        try:
            lock.acquire(block)
            return self._checkpoint_truncate() if self.pool.has_its_files() else 0
        finally:
            lock.release(block)
            resume()
