"""
The WAL guard: what a commit checks, so that the file and its WAL stay together.

The last writes are in FILE-wal until a checkpoint moves them into FILE. The first write of a burst
sets the flag of the mark to 1. Some milliseconds later the upkeep thread moves the mark into the
file itself. A second after the last write it moves the whole WAL, clears the flag and truncates the
WAL. So an idle file is complete without its WAL.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw

from memdb.engine.sqlite.checkpoints import CHECKPOINT_PASSIVE, checkpoint_truncate
from memdb.engine.sqlite.foreign_wal import names_salts, read_alone
from memdb.engine.sqlite.mark import DELETE_MARK, SELECT_SCHEMA, SET_LOSS, SET_MARK, Mark, read_mark
from memdb.engine.sqlite.wal_file import (
    FRAME_HEADER_BYTES,
    LARGE_WAL_BYTES,
    WAL_HEADER_BYTES,
    file_state,
    has_bytes,
    read_header,
)
from memdb.errors import Busy, FileError, MemDBError

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.sqlite.connection import Tx
    from memdb.models.keys import FileKey

# Moves nothing, and returns how many frames SQLite has in the WAL.
COUNT_FRAMES = """/* wal_guard.count_frames */
PRAGMA wal_checkpoint(NOOP)
"""

SELECT_PAGE_BYTES = """/* wal_guard.page_bytes */
SELECT page_size FROM pragma_page_size
"""


class WalGuard:
    """
    The mark of one open file, and the checks of its commits; guarded by the writers' lock.

    Cost: 4 µs per write transaction; the first of a burst needs a second commit.

    Attributes:
        loss: The loss to report with the next write.
    """

    def __init__(self, path: str, key: FileKey | None = None) -> None:
        """Begin without the mark of the file at *path*, encrypted with *key*."""
        self._path, self._wal, self._key = path, f"{path}-wal", key
        self.loss: str | None = None
        self._writer = 0  # the number of the connection that committed last
        self._looked: tuple[int, int] | None = None  # what an idle file was like when last seen
        self._mark = Mark.read("")  # as of then, or as the transaction found it
        self._is_marked = False  # by this connection, in this burst
        self._begun = False  # whether the transaction was begun here
        self._is_new = False  # whether it is the first of a burst, or of the connection
        self._changes = 0  # rows that the connection had changed when it was begun
        self._new: Mark | None = None  # set by the transaction, with a loss
        self._schema = ""  # SQLite's number of the schema
        self._size = 0  # of the WAL after that commit
        self._page_bytes = 0
        self._written = 0  # pages by the connection, before the transaction
        self._file: tuple[int, ...] = ()

    def note_file(self) -> None:
        """Store size and time of the file, which only SQLite may change from now on."""
        self._file = file_state(self._path)[2:]

    def begin(self, writer: Tx) -> bool:
        """
        Check the mark in a write transaction that has just begun; store a loss.

        Returns:
            Whether no other connection wrote since the last write of this one.
        """
        self._begun, self._is_new, self._new = True, False, None
        self._written = writer.raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        if writer.is_alone and self._is_marked and self.loss is None:
            return True
        if not writer.is_alone:
            self._mark, self._size, self._is_marked = read_mark(writer), 0, False
            self._schema = str(*writer.one(SELECT_SCHEMA) or ("",))
        is_first = self._writer != writer.number or self._mark.schema != self._schema
        self._is_new = is_first or not self._mark.is_set or self.loss is not None
        self._changes = writer.raw.total_changes()
        if self.loss is not None:
            writer.run(SET_LOSS, {"value": self.loss})
            self._set(writer, Mark(False, os.urandom(8).hex(), self._mark.salts))
        return writer.is_alone

    def _set(self, writer: Tx, mark: Mark) -> None:
        """Store *mark* in the open transaction, and so in the WAL."""
        self._new = mark
        writer.known()
        writer.run(DELETE_MARK)  # SQLite writes no page whose row is replaced by the same one
        writer.run(SET_MARK, {"value": str(mark)})
        writer.keep_known()

    def prepare_commit(self, tx: Tx, identity: tuple[int, ...]) -> str:
        """
        Set the mark if the commit needs it; return why nobody could read the commit, or "".

        Call it before COMMIT. A commit that may begin a new WAL then names the WAL of the file. If
        this process ends before `note_commit`, the next process recognises the WAL by that name.
        Every commit may begin one, unless its connection wrote the last one too and the mark names
        the WAL. Such a connection can only restart the WAL itself, with the next salts.

        Cost: two calls of stat, 3 µs.
        """
        try:
            file, wal = os.stat(self._path), os.stat(self._wal)
        except OSError:
            return "" if tx.wal == (0, 0) and has_bytes(self._path) else "removed"
        if (file.st_dev, file.st_ino) != identity:
            return "removed"
        if tx.wal not in ((wal.st_dev, wal.st_ino), (0, 0)):
            return "removed"
        if wal.st_size < self._size and tx.is_alone:
            return "cut"
        mark = self._new or self._mark
        is_named = self._is_marked and self._new is None
        if not is_named and mark.salts and tx.raw.total_changes() != self._changes:
            self._set(tx, mark.replace(is_set=True, size=min(mark.size, wal.st_size)))
        if (file.st_size, file.st_mtime_ns) == self._file:
            return ""
        return "replaced" if self.is_replaced((self._mark, self._new or self._mark)) else ""

    def is_replaced(self, marks: tuple[Mark, ...]) -> bool:
        """
        Return whether another file was written over this one, which keeps its inode.

        *marks*: the marks as SQLite reads them. Cost: 0.3 ms after each checkpoint, else one call
        of stat.
        """
        state = file_state(self._path)[2:]
        if state == self._file:
            return False
        alone = read_alone(self._path, self._key)
        if alone is not None and alone.mark.salts:
            salts = alone.mark.salts
            names = [name for mark in marks for name in (mark.salts, mark.previous)]
            if salts not in names and not names_salts(self._path, salts, self._key):
                return True
        self._file = state
        return False

    def note_commit(self, writer: Tx, wal_pages: int) -> bool:
        """
        Set the mark after the first commit of a burst, which gives the WAL its salts.

        Args:
            writer: The connection that committed.
            wal_pages: Length of the WAL since that commit.

        Returns:
            Whether a burst has begun, so that the file itself needs the mark.
        """
        if not self._begun:
            writer.version = -1  # another process made the file: the next write reads its mark
            return False
        self._begun = False
        if self._new is not None:
            self._mark, self._new, self.loss = self._new, None, None
        written = writer.raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0] - self._written
        if not written:
            return False  # nothing was committed
        self._writer = writer.number
        is_marked, self._is_marked = self._is_marked, True
        # A commit that restarts a WAL writes all of its pages.
        if not is_marked or wal_pages <= written:
            try:
                self._name_wal(writer)
            except (MemDBError, OSError):
                self._is_marked = False  # what was committed is safe; the next write tries again
        self._size = wal_pages * self._page_bytes
        return self._is_new

    def _name_wal(self, writer: Tx) -> None:
        """Write the identity of the WAL into the mark."""
        mark = self._mark
        salts, self._page_bytes, size = read_header(self._path)
        if salts == mark.salts and mark.is_set and mark.schema == self._schema:
            return
        previous = mark.previous if salts == mark.salts else mark.salts
        size = min(size, LARGE_WAL_BYTES)
        mark = Mark(is_set=True, salts=salts, previous=previous, size=size, schema=self._schema)
        writer.begin()
        try:
            if not writer.is_alone:
                raise Busy("another process wrote meanwhile")  # the next write looks
            self._set(writer, mark)
            writer.commit()
        finally:
            writer.roll_back()
        self._mark = mark

    def checkpoint_passive(self, writer: Tx) -> None:
        """Move pages into the file, and so the mark, as far as that needs no waiting."""
        is_known = file_state(self._path)[2:] == self._file
        writer.all(CHECKPOINT_PASSIVE)
        if is_known:
            self.note_file()

    def checkpoint_if_idle(self, writer: Tx) -> bool:
        """Do as `checkpoint_if_unread`, unless others wrote since the last call; return if done."""
        version = writer.raw.data_version()
        if version != writer.version and (writer.number, version) != self._looked:
            self._looked = writer.number, version
            return not read_mark(writer).is_set
        return self.checkpoint_if_unread(writer) is not None

    def checkpoint_if_unread(self, writer: Tx) -> int | None:
        """
        Do as `checkpoint_truncate`, if a passive checkpoint moves every page.

        Call it with a timeout of 0. Returns None if another connection reads or writes. Then the
        WAL stays, which is as safe as the file.
        """
        try:
            (_, in_wal, moved) = writer.all(CHECKPOINT_PASSIVE)[0]
            self.note_file()
            return self.checkpoint_truncate(writer) if in_wal == moved else None
        except MemDBError:
            self.note_file()
            return None

    def checkpoint_truncate(
        self, writer: Tx, work: Callable[[Tx], None] | None = None
    ) -> int | None:
        """
        Clear the mark, move the WAL into the file and truncate it; return the pages moved.

        Returns None if another connection reads or writes.

        Args:
            work: Other statements of the transaction that clears the mark.
        """
        try:
            busy, moved = checkpoint_truncate(writer, work)
            self._mark, writer.version = read_mark(writer), writer.raw.data_version()
        except MemDBError:
            busy, moved = True, 0
        self._is_marked, self._size = False, 0
        self.note_file()
        return None if busy else moved


def missing_wal_bytes(tx: Tx, path: str) -> int:
    """Return the length that the WAL must have for its commits, 0 if it has it. Cost: 20 µs."""
    try:
        (_, frames, _) = tx.all(COUNT_FRAMES)[0]
        if frames <= 0:
            return 0
        (page_bytes,) = tx.one(SELECT_PAGE_BYTES) or (0,)
        size = os.stat(f"{path}-wal").st_size
    except (MemDBError, OSError):
        return 0  # said where it is used
    needed = WAL_HEADER_BYTES + int(frames) * (FRAME_HEADER_BYTES + int(page_bytes))
    return needed if size < needed else 0


def lost_wal(path: str) -> FileError:
    """Return the error for a write into a WAL that other processes cannot see."""
    return FileError(
        f"{path} or its -wal was removed, cut or replaced while it was open, so this write was "
        "refused. Either somebody did so, or another SQLite library in this process (sqlite3, "
        "sqlite-utils, SQLAlchemy) closed the file, which drops memdb's locks on it: read the file "
        "through memdb or in another process. The next call opens the file again, and `check` "
        "reports what is missing",
        path,
    )
