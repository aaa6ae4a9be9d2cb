"""
Connections of one open file: which block uses which, and when each is opened and closed.

`ConnectionPool` owns them; the blocks that borrow them are those of `memdb.engine.blocks`,
and `ReadBlock`.
"""

from __future__ import annotations

import os
from threading import get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

import apsw

from memdb.engine.blocks import Block, Readers, WriteLock
from memdb.engine.files import identity_of, list_pools, pools
from memdb.engine.sqlite.checkpoints import allow_checkpoint_on_close
from memdb.engine.sqlite.connection import (
    MEMORY,
    NO_WAL_YET,
    Tx,
    connect,
    keep_few_pages,
    let_write,
    set_query_only,
    translated_errors,
)
from memdb.engine.sqlite.foreign_wal import set_wal_aside
from memdb.engine.sqlite.mark import read_mark
from memdb.engine.sqlite.wal_file import (
    TRIES,
    TRY_S,
    file_state,
    has_bytes,
    is_wal_mode,
    untouched_state,
)
from memdb.engine.sqlite.wal_guard import WalGuard, lost_wal, missing_wal_bytes
from memdb.engine.sqlite.writer import Writer, refuse_newer
from memdb.errors import Busy, Closed, Corrupt, FileError, MemDBError, WrongProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.models.keys import FileKey

    Identity = tuple[int, ...] | None

# Readers compare their WAL with that of the file this often: once costs 2 µs.
CHECK_S = 0.1


class ConnectionPool:
    """
    Every connection of one open file: opens, lends, takes back and closes connections.

    Rules:

    1. A connection is either idle here or used by one `with` block. If a block ended without its
       exit, its connection is closed, which rolls back its writes.
    2. After a storage error a connection is closed, and the next use opens another. This is needed
       because FTS5 keeps totals in memory, which are wrong after SQLite rolled back on its own.
    3. Before a fork, idle connections are closed; they are opened again when they are needed.
       If a connection is in use at that time, the child refuses to open the file. The reason is
       that SQLite believes that the child has its parent's locks.
    4. A write is refused if the path no longer leads to the file and the WAL that the connection
       has open. No other program would see that write.
    5. A connection for writing that SQLite could only open for reading is refused.

    Attributes:
        is_read_only: Whether the file was opened with mode="read".
        identity: Device and inode of the file; None in memory, and before the file was first
            opened.
        key: Key of an encrypted file.
        write_lock: Owned by the writing block; in memory also by a reading one.
        reading: The outermost reading block of each thread.
    """

    def __init__(self, path: str, options: dict[str, Any], *, is_read_only: bool) -> None:
        """Store the arguments, and open nothing yet; *options* are those of `connect`."""
        self.is_read_only = is_read_only
        # What the file is like while it is read without locks; None: with them.
        self._untouched: tuple[int, ...] | None = None
        self._found_wal = is_read_only and os.path.lexists(f"{path}-wal")
        self.path = path
        self.options = options
        self.write_lock = WriteLock()
        self._lending = Readers()
        self.reading: dict[int, Block] = self._lending.using
        self.is_memory = path == MEMORY
        self.is_closed = False
        self.is_new = True  # until the file has been made or recognised
        self.is_small = False  # of many open files: one connection serves reads and writes
        self._pid = os.getpid()
        self._wal = f"{path}-wal"
        self.key: FileKey | None = options.get("key")
        self.wal_guard = WalGuard(path, self.key)
        self.identity: Identity = None
        self._memory: Writer | None = None
        # Called with the pages of the WAL; it takes the place of SQLite's own checkpoints.
        self.wal_hook: Callable[[apsw.Connection, str, int], int] | None = None
        self._readers = self._lending.idle
        self._writers: list[Writer] = []  # one at most
        self._watch: Tx | None = None
        self._checked = 0.0
        pools.add(ref(self, pools.discard))

    def guard(self) -> None:
        """Raise Closed if the file was closed, WrongProcess after a fork."""
        if self._pid != os.getpid():
            raise WrongProcess
        if self.is_closed:
            raise Closed(f"{self.path} was closed: open it again with memdb.open()")

    @property
    def is_usable(self) -> bool:
        """Whether the file is open in this process."""
        return not self.is_closed and self._pid == os.getpid()

    def remember_file(self) -> None:
        """Refuse any other file at the path from now on."""
        self.is_new = False
        self.identity = None if self.is_memory else identity_of(self.path)
        self.wal_guard.note_file()

    def open(self, *, writable: bool) -> apsw.Connection:
        """
        Open an additional connection, which the caller closes.

        Raises:
            WrongProcess: the file was in use in another thread when this process was forked.
            FileError: the path leads to another file, or the file cannot be opened.
            ReadOnly: the file cannot be written.
        """
        self.refuse_another()
        if not self.is_memory:
            _refuse_inherited(self.path)
            self._close_stale()
        writable = writable and not self.is_read_only
        create = writable and self.is_new
        connection = connect(self.path, writable=writable, create=create, **self.options)
        if self.is_small:
            keep_few_pages(connection)
        return connection

    def keep_small(self) -> None:
        """Save memory from now on: keep few pages, and read with the idle writer if it is there."""
        self.is_small = True
        if self._writers:
            self._close_each(self._readers, remove_wal=False)
        for tx in (*self._readers, *self._writers):
            keep_few_pages(tx.raw)

    def follow_writers(self) -> None:
        """
        Read without locks, which need files too, while nobody has the file open for writing.

        The call is for mode="read", before a read. Cost: 5 µs.
        """
        untouched = untouched_state(self.path)
        if untouched != self._untouched:
            self.close_idle()
            if untouched is not None and not is_wal_mode(self.path):
                untouched = None  # its locks are no files
            self._untouched = untouched
            self.options["immutable"] = untouched is not None

    def refuse_torn_read(self) -> None:
        """
        Refuse what was read without locks if another program wrote to the file meanwhile.

        Raises:
            Busy: the file has changed since before the read.
        """
        if self._untouched is not None and file_state(self.path) != self._untouched:
            raise Busy(f"another program wrote to {self.path} while memdb read it: call again")

    def take_reader(self, block: Block) -> Tx:
        """Return a connection for reading that only *block*, and so its thread, uses."""
        return self._lending.take(block, self._open_reader)  # type: ignore[no-any-return]  # what `block` returns

    def _open_reader(self) -> Tx:
        self.guard()  # it may have been closed while this waited
        try:
            writer = self._writers.pop() if self.is_small else None
        except IndexError:
            writer = None
        if writer is None:
            return Tx(self.open(writable=False))
        set_query_only(writer.raw, is_on=True)
        return writer

    def take_writer(self) -> Writer:
        """Return the connection for writing; only for the owner of the lock."""
        if self.is_memory:
            return self._take_memory()
        try:
            return self._writers.pop()
        except IndexError:
            writer = self._promote() or Writer(self.open(writable=True), self.options["timeout_ms"])
            if self.wal_hook is not None:
                writer.raw.set_wal_hook(self.wal_hook)
            return writer

    def _promote(self) -> Writer | None:
        """
        Return a writing connection made of an idle reading one; None if there is none to use.

        Opening another one takes 1 ms, because each connection parses the schema.
        """
        self.refuse_another()
        self._close_stale()
        try:
            reader = self._readers.pop()
        except IndexError:
            return None
        if self.is_new or reader.wal not in (NO_WAL_YET, identity_of(self._wal)):
            reader.close()
            return None
        try:
            let_write(reader.raw, **self.options)
        except BaseException:
            reader.close()
            raise
        writer = Writer(reader.raw, self.options["timeout_ms"])
        writer.wal = reader.wal
        return writer

    def _take_memory(self) -> Writer:
        """Return the connection of a file in memory, or of its copy after a storage error."""
        old = self._memory
        if old is None or old.is_broken:
            new = Writer(self.open(writable=True), self.options["timeout_ms"])
            if old is not None:
                old.roll_back()  # it may have had no memory for that
                with translated_errors(), new.raw.backup("main", old.raw, "main") as backup:
                    backup.step(-1)
            self._memory = new
            return new
        return old

    def give_back_reader(self, reader: Tx) -> None:
        """Take back a connection whose read has ended; close it if it cannot be used again."""
        if isinstance(reader, Writer) and not reader.is_broken:
            set_query_only(reader.raw, is_on=False)
            self._lending.give_back(None)
            self.give_back_writer(reader)
        elif reader.is_broken:
            reader.close()
            self._lending.give_back(None)
        elif not self._lending.give_back(reader):
            reader.close()
        elif self.is_closed:
            self.close_idle()

    def give_back_writer(self, writer: Writer) -> None:
        """Take back the connection for writing, rolled back; close it if it is broken."""
        if self.is_memory:
            return
        if writer.is_broken or self._writers:
            writer.close()
            return
        self._writers.append(writer)
        if self.is_closed:
            self.close_idle()

    def discard(self, tx: Tx | None) -> None:
        """Roll back the open writes of a connection: close it, unless it is the one in memory."""
        if tx is not None and self.is_memory:
            tx.roll_back()
        elif tx is not None:
            tx.is_broken = True
            tx.close()

    def end_abandoned(self, _exit: object = None) -> None:
        """Close the connections of blocks that ended without their exit."""
        self.write_lock.end_abandoned()
        for thread, block in list(self.reading.items()):
            if block.is_abandoned() and self.reading.pop(thread, None) is block:
                self.discard(block.tx)
                self._lending.give_back(None)

    def stamp(self, *, start: bool) -> int | None:
        """Return a number that changes with every commit; see `SqliteEngine.stamp`."""
        if self.is_closed or self.is_memory or self._pid != os.getpid():
            return None
        if self.is_read_only:
            self.follow_writers()
            if self._untouched is not None:
                return self._untouched[-1]
        try:
            watch = self._watch
            if start and (watch is None or watch.is_broken):
                watch = self._watch = Tx(self.open(writable=False))
                watch.raw.set_busy_handler(None)
            return None if watch is None else watch.data_version()
        except MemDBError:  # in use or busy at this very moment
            return None

    def close_idle(self, *, remove_wal: bool = False) -> None:
        """Close every unused connection; *remove_wal*: also the WAL if these are the last ones."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        self._close_each(self._readers, remove_wal=remove_wal)
        self.close_writers(remove_wal=remove_wal)

    def close_writers(self, *, remove_wal: bool = False) -> None:
        """Close the unused connections for writing, as `close_idle` does."""
        self._close_each(self._writers, remove_wal=remove_wal)

    @staticmethod
    def _close_each(idle: list[Any], *, remove_wal: bool) -> None:
        while True:
            try:
                tx = idle.pop()
            except IndexError:
                return
            if remove_wal:
                allow_checkpoint_on_close(tx.raw)
            tx.close()

    def close(self, *, has_files: bool | None = None) -> None:
        """
        Close every connection; a connection in use is closed by its thread.

        Args:
            has_files: The last result of `has_its_files`; None means that it was not called.
        """
        self.is_closed = True
        for block in list(self.reading.values()):
            self.discard(block.tx)
        if has_files is None:
            has_files = not self.is_memory and self.has_its_files()
        is_unused = has_files and self._is_unused()
        self.close_idle(remove_wal=is_unused)
        if self._memory is not None:
            self._memory.close()

    def has_its_files(self) -> bool:
        """
        Return whether the connections still have the present file and WAL open.

        If not, nothing may be moved or removed, because the only copy may be in that WAL.
        """
        wal = identity_of(self._wal)
        return (
            self.identity in (None, identity_of(self.path))  # None: not yet recognised
            and self.identity not in _stale
            and all(tx.wal in (NO_WAL_YET, wal) for tx in (*self._readers, *self._writers))
            and not any(self._is_lost(tx) for tx in (*self._writers, *self._readers)[:1])
        )

    def _is_lost(self, tx: Tx) -> bool:
        """Return whether *tx* has another file or WAL open than the present one, and note it."""
        reason = ""
        try:
            for _ in range(TRIES):
                reason = "cut" if missing_wal_bytes(tx, self.path) else self._find_replaced(tx)
                if not reason:
                    return False
                sleep(TRY_S)  # another connection may just be moving the WAL
        except MemDBError:  # another program's file, or a damaged one
            return False
        _stale[self.identity] = reason
        return True

    def _find_replaced(self, tx: Tx) -> str:
        """Return "replaced" if another file was written over this one, else ""."""
        tx.begin_read()  # nothing that is newer than this snapshot gets into the file meanwhile
        try:
            marks = self.wal_guard._mark, read_mark(tx)
            return "replaced" if self.wal_guard.is_replaced(marks) else ""
        finally:
            tx.end_read()

    def _is_unused(self) -> bool:
        """Return whether the WAL has no data that the file lacks, so that it can be removed."""
        has_content = has_bytes(self._wal)
        try:
            tx = (self._readers or self._writers)[0]
            is_unused = not read_mark(tx).is_set
        except IndexError:
            return False
        except MemDBError:  # another program's file, or a damaged one
            is_unused = not has_content
        return is_unused and not (self.is_read_only and (has_content or self._found_wal))

    def refuse_another(self) -> None:
        """
        Raise FileError if the path now leads to another file or none. Cost: 2 µs.

        SQLite would continue to write to a file that cannot be opened again, and open its next
        connection to the other file.
        """
        if self.identity is not None and identity_of(self.path) != self.identity:
            raise FileError(
                f"{self.path} was removed or replaced while it was open: put it back, or close it "
                "and open the new file",
                self.path,
            )

    def note_wal_identity(self, tx: Tx) -> None:
        """Remember the WAL that *tx* has open, in its first transaction."""
        if tx.wal == NO_WAL_YET and self.identity is not None:
            tx.wal = identity_of(self._wal) or NO_WAL_YET

    def refuse_lost(self, tx: Tx, loss: str) -> NoReturn:
        """
        Refuse a write that other processes could not read.

        Another program removes the WAL if the locks of this process were dropped. A drop of locks
        happens when another SQLite library in this process closes the file.

        Raises:
            FileError: the path leads to another file, or the WAL was replaced or cut.
        """
        self.refuse_another()
        tx.is_broken = True
        _stale[self.identity] = loss
        raise lost_wal(self.path)

    def is_outdated(self, reader: Tx) -> bool:
        """Return whether *reader* reads a replaced file or WAL; checks ten times a second."""
        now = monotonic()
        if now - self._checked < CHECK_S or reader.wal == NO_WAL_YET:
            return False
        self._checked = now
        if identity_of(self.path) != self.identity:
            return False  # what is left of a removed file can still be read
        if identity_of(self._wal) == reader.wal:
            return self._is_lost(reader)
        _stale[self.identity] = "removed"
        return True

    def _close_stale(self) -> None:
        """Close all connections to a file that others changed, and set its WAL aside."""
        identity = identity_of(self.path) if _stale else None
        if identity not in _stale:
            return
        for pool in list_pools():
            if pool.identity == identity:
                for block in list(pool.reading.values()):
                    if block.tx is not None:
                        block.tx.is_broken = True
                pool.close_idle()
        if any(_file_of(connection) in (identity, None) for connection in apsw.connections()):
            raise lost_wal(self.path)
        self.set_wal_aside()
        if _stale.pop(identity, "") == "cut" and self.wal_guard.loss is None:
            self.wal_guard.loss = (
                f"{self._wal} was cut while the file was open: what was written in the last "
                "moments is lost"
            )

    def set_wal_aside(self) -> None:
        """
        Move aside a WAL that does not belong to the file, and note what is lost.

        See `foreign_wal.set_wal_aside`.
        """
        timeout_ms = self.options["timeout_ms"]
        loss = set_wal_aside(self.path, timeout_ms, is_read_only=self.is_read_only, key=self.key)
        if loss is not None:
            self.wal_guard.loss = self.wal_guard.loss or loss  # once set aside, it is missing too
            if self.is_read_only and has_bytes(self._wal):
                self.options["immutable"] = True  # the file alone


class ReadBlock(Block):
    """`with db.read()`: reads one snapshot; inside another block of the thread, that block's."""

    __slots__ = ()
    _pool: ConnectionPool

    def __enter__(self) -> Tx:
        """Begin a snapshot, unless this thread is in one."""
        pool = self._pool
        pool.guard()
        around = pool.write_lock.owned()
        if around is not None and around.tx is not None:
            writer: Tx = around.tx
            return writer
        if pool.is_memory:
            return self._enter_memory()
        self.thread = me = get_ident()
        around = pool.reading.get(me)
        if around is not None:
            if around.tx is not None and not around.is_abandoned():
                own: Tx = around.tx
                return own
            pool.end_abandoned()
        if pool.is_read_only:
            pool.follow_writers()
        try:
            self.tx = reader = pool.take_reader(self)
            if pool.is_outdated(reader):
                self.tx = None
                pool.discard(reader)
                self.tx = reader = pool.take_reader(self)
            reader.begin_read()
        except BaseException:
            self._leave()
            raise
        return reader

    def _enter_memory(self) -> Tx:
        """Wait for the only connection of a file in memory."""
        self._pool.write_lock.acquire(self)
        try:
            self._pool.guard()
            self.tx = self._pool.take_writer()
        except BaseException:
            self._leave()
            raise
        return self.tx

    def _leave(self, _kind: object = None, error: object = None, *_: object) -> None:
        try:
            if isinstance(error, Corrupt) and self.tx is not None:
                refuse_newer(self.tx, self._pool.path)  # rows of another format are no damage
        finally:
            self._release()

    def _release(self) -> None:
        reader, pool = self.tx, self._pool
        if reader is not None and not pool.is_memory:
            if reader.wal == NO_WAL_YET:
                pool.note_wal_identity(reader)
            reader.end_read()
            # A connection belongs to the block or to the pool, never to both.
            self.tx = None
            if pool.reading.get(self.thread) is self:
                del pool.reading[self.thread]
            pool.give_back_reader(reader)
            if pool.is_read_only:
                self._exit = None
                pool.refuse_torn_read()
        elif pool.is_memory:
            if reader is not None:
                reader.roll_back()
            self.tx = None
            pool.write_lock.release(self)
        elif pool.reading.get(self.thread) is self:  # it got no connection
            del pool.reading[self.thread]
        self._exit = None


# Files with connections in this process that its parent opened.
_inherited: set[Identity] = set()

# Files that were replaced or lost their WAL under open connections, and how: all of these must be
# closed first.
_stale: dict[Identity, str] = {}


def _refuse_inherited(path: str) -> None:
    if _inherited and identity_of(path) in _inherited:
        raise WrongProcess(
            f"{path} was in use in another thread when this process was forked, and SQLite cannot "
            "open it here: fork while no call is running, or start a new process "
            "(multiprocessing: 'spawn' or 'forkserver')"
        )


def _file_of(connection: apsw.Connection) -> Identity:
    """Return the file of a connection, (0, 0) if it has none, None if it is unknown."""
    try:
        name = connection.filename
    except apsw.ConnectionClosedError:
        return NO_WAL_YET
    except apsw.Error:  # in use in another thread
        return None
    return identity_of(name) if name else NO_WAL_YET


def _before_fork() -> None:
    """Close idle connections, so that the child does not inherit them."""
    for pool in list_pools():
        pool.close_idle()


def _after_fork_in_child() -> None:
    """Note which files have connections that this process inherited, and keep those open."""
    connections = apsw.connections()
    files = {_file_of(connection) for connection in connections} - {NO_WAL_YET}
    if None in files:
        files |= {pool.identity for pool in list_pools()}
    _inherited.update(files - {None})
    if files:
        # Closing one could remove the WAL that the parent uses: never let them be collected
        # (ADR-0072).
        import ctypes  # noqa: PLC0415 (after a fork alone)

        for connection in connections:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
