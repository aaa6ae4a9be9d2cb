"""
Upkeep of a file in use: merges of the index and checkpoints, in a separate thread.

Otherwise both would happen inside some append, which would then take a hundred times as long. If
over a quarter of the messages was removed, it also removes their words from the index, and free
pages from the file (ADR-0044). The thread starts with a commit, works in steps of a millisecond
while nobody writes, and ends when nothing is left. If writers never pause, it works between two
writes. Correctness never depends on it: if no thread merged for long, FTS5 merges in a write.

`checkpoints` lists what else moves the WAL into the file, and when.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from threading import Event, RLock, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from weakref import ref

from memdb.engine.sqlite.checkpoints import (
    CHECKPOINT_PASSIVE,
    IDLE_S,
    MOST_TIMES,
    SMALL_WAL,
    WAL_PAGES,
)
from memdb.engine.sqlite.packing import (
    count_free_pages,
    count_pages,
    merge_piece,
    move_piece,
    moves_pages,
)
from memdb.engine.sqlite.wal_sync import sync_wal
from memdb.engine.sqlite.words import MERGE
from memdb.errors import Busy, MemDBError
from memdb.models.observation import warn

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx
    from memdb.engine.sqlite.words import SqliteWords

    T = TypeVar("T")


# Between two steps, which look whether anybody still writes.
STEP_S = 0.02

# After a commit that does not wait for the disk, until its WAL is synced.
SYNC_S = 1.0

# Parts that were added to the index before they are merged: while nobody writes, and anyway.
# FTS5 merges eight of a size at a time (schema.sql), and by itself 64.
PARTS, MANY_PARTS = 8, 32

# Of the index, merged in one transaction: two milliseconds, one of them to begin.
MERGE_PAGES = 32

# Merged per part that was added, while others write: what it costs to keep up.
PAGES_PER_PART = 16

# Messages that were removed before the others are counted. The index is rebuilt if at least one was
# removed for every three that are left.
LEAST_DROPPED, DROPPED_SHARE = 2000, 3

# One page in four may be free; 16 pages leave it so many times in a step, of 2 ms.
FREE_SHARE, MOVED_PIECES = 4, 16

# How long a close goes on with that.
CLOSE_S = 1.0


# How long a close and a fork wait for the step that is at work.
STOP_S = 5.0
FORK_S = 0.5


class Upkeep:
    """
    Merges and checkpoints of one open file.

    `note_commit` costs 0.3 µs, and starting the thread 50 µs.

    Attributes:
        dropped: Number of messages that this process dropped from the index since its rebuild.
        parts: Number of parts that this process added to the index and has not merged yet.
        is_waiting: Whether the thread wants to write; other writers then let it go first for a
            moment.
        is_running: Whether the thread exists.
        wal_pages: Length of the WAL after the last commit, in pages.
    """

    __slots__ = (
        "__weakref__",
        "_busy",
        "_db",
        "_dropped_due",
        "_is_asleep",
        "_is_merging",
        "_is_packing",
        "_is_stopped",
        "_left",
        "_passive_at",
        "_seen",
        "_sync_at",
        "_syncs",
        "_thread",
        "_truncate_at",
        "_wake",
        "_wal_due",
        "_warned",
        "dropped",
        "is_running",
        "is_waiting",
        "parts",
        "wal_pages",
    )

    def __init__(self, db: SqliteFile, *, syncs: bool) -> None:
        """Maintain *db*; with *syncs* also sync its WAL, which nobody else does."""
        self._syncs = syncs
        self._sync_at = 0.0  # when the WAL is to be synced, 0 if it is
        self._db = ref(db)
        self._busy = RLock()
        self._wake = Event()
        self._thread: Thread | None = None
        self._is_asleep = False  # until the file has been idle for long enough
        self._truncate_at = 0.0  # when a checkpoint truncates the WAL, 0 if it did
        self._is_stopped = False
        self._left = 0  # pages to merge while others write
        self._seen = -1  # commits at the last look
        self._wal_due = WAL_PAGES
        self._dropped_due = LEAST_DROPPED
        self._is_packing = self._is_merging = False
        self._warned = ""  # the last failure that was logged
        self._passive_at = 0.0  # when a passive checkpoint moves the mark of a burst, 0 if it did
        self.dropped = self.parts = self.wal_pages = 0
        self.is_running = self.is_waiting = False
        _all.add(ref(self, _all.discard))

    def wal_hook(self, connection: apsw.Connection, _schema: str, pages: int) -> int:
        """Store the length of the WAL; SQLite calls it after each commit of *connection*."""
        self.wal_pages = pages
        if pages >= MOST_TIMES * WAL_PAGES:
            try:
                connection.wal_checkpoint()
            except Exception:  # noqa: BLE001 (it would fail the commit, which is done)
                return 0
        return 0

    def note_commit(self, words: SqliteWords | None, *, is_first: bool = False) -> None:
        """
        Count a commit, and start the thread if something is due.

        Args:
            words: The indexes, if the commit may have used them.
            is_first: Whether it is the first of a burst, so that the file must be marked as needing
                its WAL.
        """
        if is_first:
            self._passive_at = monotonic() + STEP_S  # its own sync goes first
        is_due = is_first or self.wal_pages >= self._wal_due
        if words is not None and (words.tail.parts or words.tail.dropped):
            self.parts += words.tail.parts
            self.dropped += words.tail.dropped
            words.tail.parts = words.tail.dropped = 0
            is_due = is_due or self._is_due()
        if self.wal_pages < WAL_PAGES:
            self._wal_due = WAL_PAGES  # it restarted
        now = monotonic()
        self._truncate_at = now + IDLE_S
        if self._syncs and not self._sync_at:
            self._sync_at = now + SYNC_S
        if not self.is_running:
            self.is_running = True
            try:
                thread = Thread(target=_run, args=(ref(self), self._wake), daemon=True)
                thread.start()
                self._thread = thread
            except RuntimeError:  # no more threads: the next commit tries again
                self.is_running = False
        elif self._is_asleep and is_due:
            self._wake.set()

    def _is_due(self) -> bool:
        return self.parts >= PARTS or self.has_dropped or self.wal_pages >= self._wal_due

    @property
    def has_dropped(self) -> bool:
        """Whether so much was removed that the index needs a rebuild, or is being rebuilt."""
        return self._is_packing or self.dropped >= self._dropped_due

    def work(self) -> float | None:
        """Do one step if it is due; return the seconds to the next one, None to end."""
        with self._busy:
            db = self._db()
            if db is None or self._is_stopped:
                self.is_running = False
                return None
            self._is_asleep = False
            now = monotonic()
            if self._sync_at and self._sync_at <= now:
                self._sync_at = 0.0
                if not sync_wal(f"{db.path}-wal"):
                    self._sync_at = now + SYNC_S
            if self._passive_at:
                if self._passive_at <= now:
                    self._passive_at = 0.0
                    with suppress(MemDBError):
                        db.checkpoint_passive()
                return STEP_S
            if self._is_due():
                self._do(db)
                return 0.0005 if self._left or self._is_merging else STEP_S
            if self._truncate_at and self._truncate_at <= now:
                self._checkpoint_if_idle(db)
            self._is_asleep = True
            times = [at for at in (self._truncate_at, self._sync_at) if at]
            if times:
                return max(min(times) - monotonic(), STEP_S)
            self.is_running = False
            # A commit may have come just before: it counts on this thread.
            if not self._truncate_at or self.is_running:
                return None
            self.is_running = True
            return STEP_S

    def _checkpoint_if_idle(self, db: SqliteFile) -> None:
        """Move the WAL of an idle file into it, or try again later."""
        self._truncate_at = 0.0
        try:
            if self.wal_pages > SMALL_WAL:  # most of it while others may write
                with db.apart() as beside:
                    beside.all(CHECKPOINT_PASSIVE)
            is_done = db.checkpoint_if_idle()
        except Exception as error:  # noqa: BLE001 (a full disk, say)
            self._warn(error)
            is_done = False
        if self._truncate_at:
            return  # a commit came meanwhile
        if is_done:
            self.wal_pages, self._wal_due = 0, WAL_PAGES
            self._warned = ""
        else:
            self._truncate_at = monotonic() + IDLE_S

    def _do(self, db: SqliteFile) -> None:
        is_quiet, self._seen = self._seen == db.commits, db.commits
        try:
            if self.wal_pages >= self._wal_due:
                # A reader may keep it from restarting: then not at every commit.
                self._wal_due = self.wal_pages + WAL_PAGES
                self._checkpoint_long(db)
            if self.has_dropped and (is_quiet or self._is_merging or not self._is_packing):
                self._pack(db)  # free pages stay while others write: they fill them
            elif is_quiet or self._left > 0 or self.parts >= MANY_PARTS:
                self._merge(db)
        except Busy:
            self._left = 0  # another process writes for long: later
        except Exception as error:  # noqa: BLE001 (as in `_checkpoint_if_idle`)
            self._warn(error)
            self._give_up()
        self._seen = db.commits

    def _warn(self, error: Exception) -> None:
        """Log a failure once while it lasts; a busy file is not a failure."""
        if str(error) != self._warned and not isinstance(error, Busy):
            self._warned = str(error)
            with suppress(Exception):  # of the program's own handler
                warn("upkeep failed, tried again later: %s", error)

    def _give_up(self) -> None:
        """Stop working until a commit brings new work."""
        self.parts = self.dropped = self._left = 0
        self._is_packing = self._is_merging = False

    def finish(self) -> None:
        """Work at most a second on the rest of a large deletion, before the file is closed."""
        end = monotonic() + CLOSE_S
        with self._busy:
            db = self._db()
            try:
                while db is not None and self.has_dropped and monotonic() < end:
                    self._pack(db)
            except Exception as error:  # noqa: BLE001 (as in `_checkpoint_if_idle`)
                self._warn(error)
                self._give_up()

    def _pack(self, db: SqliteFile) -> None:
        """Do a step that is due after a large deletion: merge the index, then shrink the file."""
        if self._is_merging:
            self._is_merging = self.merge(db, MERGE_PAGES)
            self.parts = self.parts if self._is_merging else 0
        elif self._is_packing:
            self._is_packing = self._in_write(db, _move_pages)
        else:
            held = self._in_write(db, lambda tx: tx.words.count_messages())
            if self.dropped * DROPPED_SHARE < held:
                self._dropped_due = -(-held // DROPPED_SHARE)
                return
            # A rebuilt index is one part, and nothing is left to merge.
            self._is_packing, self._is_merging = True, self.merge(db, -MERGE_PAGES)
            self.dropped, self._dropped_due = 0, LEAST_DROPPED

    def _merge(self, db: SqliteFile) -> None:
        """Merge some pages; under constant writing, as many as the new parts need."""
        if self.parts >= MANY_PARTS:
            self._left += self.parts * PAGES_PER_PART
            self.parts = PARTS
        has_more = self.merge(db, MERGE_PAGES)
        self._left = max(0, self._left - MERGE_PAGES)
        if not has_more:
            self._left = 0
            self.parts = 0

    def merge(self, db: SqliteFile, pages: int) -> bool:
        """
        Merge some pages of the index of messages; return whether there is more to do.

        Args:
            pages: A number below zero starts merging the whole index into one part.
        """
        return self._in_write(db, lambda tx: merge_piece(tx, MERGE["messages"], pages))

    def _in_write(self, db: SqliteFile, work: Callable[[Tx], T]) -> T:
        """Do *work* in a transaction, for which other writers let this thread go first."""
        self.is_waiting = True
        try:
            with db.write_briefly() as tx:
                self.is_waiting = False
                tx.known()
                done = work(tx)
                tx.keep_known()
                return done
        finally:
            self.is_waiting = False

    def _checkpoint_long(self, db: SqliteFile) -> None:
        """
        Move the WAL into the file, so that the next write begins a new one.

        Most of it is done while others write; they wait for the rest. Only one process does it: any
        other finds the file busy, or a new WAL.
        """
        with db.apart() as beside:
            (is_busy, pages, _) = beside.all(CHECKPOINT_PASSIVE)[0]
            if is_busy or pages < WAL_PAGES:
                return
            self.is_waiting = True
            try:
                with db.write_briefly():
                    self.is_waiting = False
                    beside.all(CHECKPOINT_PASSIVE)
            finally:
                self.is_waiting = False

    def stop(self) -> None:
        """End the thread when its step is done, and wait for it."""
        self._is_stopped = True
        self._wake.set()
        # One that lives on while the interpreter ends would keep the lock of `_wake` for ever.
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(STOP_S)

    def pause(self, timeout_s: float = STOP_S) -> Callable[[], None]:
        """Wait until no step is running; return a callable that lets the thread continue."""
        return self._busy.release if self._busy.acquire(timeout=timeout_s) else lambda: None


def _move_pages(tx: Tx) -> bool:
    """Remove some free pages from the file; return whether more should be removed."""
    if not moves_pages(tx) or count_free_pages(tx) * FREE_SHARE <= count_pages(tx):
        return False
    return all(move_piece(tx) for _ in range(MOVED_PIECES))


def _run(kept: ref[Upkeep], wake: Event) -> None:
    """Do step after step until nothing is due, or the file is closed."""
    while True:
        upkeep = kept()
        wait_s = None if upkeep is None else upkeep.work()
        del upkeep
        if wait_s is None:
            return
        wake.wait(wait_s)
        wake.clear()


_all: set[ref[Upkeep]] = set()
_resumes: list[Callable[[], None]] = []


@atexit.register
def _stop_all() -> None:
    """End the threads before the interpreter ends, which would stop them within a step."""
    for one in _all.copy():  # a collected one leaves it meanwhile
        upkeep = one()
        if upkeep is not None:
            upkeep.stop()


def _pause_all() -> None:
    for one in _all.copy():  # a collected one leaves it meanwhile
        upkeep = one()
        if upkeep is not None:
            _resumes.append(upkeep.pause(FORK_S))


def _resume_all() -> None:
    while _resumes:
        _resumes.pop()()


# What comes before a fork runs last in, first out: before the pools close what is idle.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_resume_all)
    # A child does not have these threads, and one may have held a lock at the fork.
    os.register_at_fork(after_in_child=_all.clear)
